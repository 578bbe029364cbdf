"""Cuts off what a model would not read anyway, before it is tokenised: tokenising takes longer than cutting does.

A tokenizer reads a whole text, even if the model takes only its first tokens: two million characters take seconds, in
which nobody else's texts are tokenised. So a text keeps at most `LETTERS_PER_TOKEN` characters for each token that the
model reads, many more than the tokens of any language have. What is cut here counts as cut, as by the tokenizer.
"""

from typing import Any

from datamux.inference.texts import Texts

LETTERS_PER_TOKEN = 64


def clipped(text: Any, texts: Texts) -> Any:
    """`text` itself if it is short enough, otherwise a shorter one: of a text, a pair, or a list of words."""
    most = LETTERS_PER_TOKEN * texts.max_tokens
    at_the_start = texts.tokenizer.truncation_side == "left"
    if isinstance(text, str):
        if len(text) <= most:
            return text
        if not at_the_start:
            return text[:most]
        return text if texts.token_level else text[-most:]  # a tagger's positions count from the start
    if isinstance(text, dict):
        parts = {name: part if part is None else clipped(part, texts) for name, part in text.items()}
        return text if all(parts[name] is part for name, part in text.items()) else parts
    if texts.token_level:
        return text if at_the_start else _clipped_words(text, most)
    pair = tuple(clipped(part, texts) for part in text)
    return text if all(short is part for short, part in zip(pair, text, strict=True)) else pair


def _clipped_words(words: list[str], most: int) -> list[str]:
    """The first words, with at most `most` characters, where each word counts one more."""
    left = most
    for place, word in enumerate(words):
        left -= len(word) + 1
        if left < 0:
            return words[:place] or [word[:most]]
    return words

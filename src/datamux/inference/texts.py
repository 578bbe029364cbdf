"""From texts to token ids and, for taggers, to where each word is."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from tokenizers import Tokenizer
from transformers import PreTrainedTokenizerBase

from datamux.inference.answers import Word
from datamux.inference.copies import Places, without_copies
from datamux.inference.pieces import Pieces, never_looks_across_spaces
from datamux.inference.words import Words, words_of
from datamux.tasks.rows import Rows

Text = Any  # a str; a pair of them; a dict with "text" and "text_pair"; for taggers also a list of words
UNLIMITED = 100_000  # a tokenizer without a limit reports a very large number


@dataclass(frozen=True)
class Window:
    """Texts that were tokenised together."""

    texts: list[str]
    rows: Rows
    lengths: list[int]
    words: list[list[Word]] | None  # one list per text; only for taggers
    cut: list[int]  # the rows whose texts were longer than the model allows
    places: Places | None = None  # for each row, which texts it answers; None if each text has its own row


class Texts:
    """Turns texts into rows. Texts longer than `max_tokens` are cut."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase, max_tokens: int, *, token_level: bool) -> None:
        if not tokenizer.is_fast:
            raise ValueError(
                f"{type(tokenizer).__name__} is a slow tokenizer; datamux needs a fast one, which has a tokenizer.json"
            )
        self.tokenizer = tokenizer
        self.max_tokens = max_tokens
        self.token_level = token_level
        # A copy, because calls change its settings.
        self._backend = Tokenizer.from_str(tokenizer.backend_tokenizer.to_str())
        self._backend.no_padding()
        self._backend.enable_truncation(max_tokens, direction=tokenizer.truncation_side)
        local = never_looks_across_spaces(self._backend)
        self._pieces = Pieces(self._backend, max_tokens) if local and not token_level else None
        self._words = Words(self._backend, max_tokens, self._slowly) if local and token_level else None

    def window(self, texts: Sequence[Text], *, merges_copies: bool = False) -> Window:
        """One row per text; or, if `merges_copies`, one row per different text, with the places where it was given."""
        given = [_as_input(text, self.token_level) for text in texts]
        if not merges_copies:
            return self._window(given)
        different, places = without_copies(given)
        return replace(self._window(different), places=places)

    def _window(self, given: list[Any]) -> Window:
        pad_id = self.tokenizer.pad_token_id or 0
        if self._pieces is not None and all(isinstance(text, str) for text in given):
            flat, lengths, cut = self._pieces(given)
            return Window(given, Rows.from_flat(flat, lengths, pad_id=pad_id), lengths.tolist(), None, cut)
        words: list[list[Word]] | None = None
        types = None
        if self._words is not None:
            ids, words, cut = self._words(given)
        else:
            encodings = self._encode(given)
            ids = [encoding.ids for encoding in encodings]
            cut = [row for row, encoding in enumerate(encodings) if encoding.overflowing]
            if any(isinstance(text, tuple) for text in given):
                types = [encoding.type_ids for encoding in encodings]
            if self.token_level:
                words = [words_of(encoding, text) for encoding, text in zip(encodings, given, strict=True)]
        rows = Rows(ids, pad_id=pad_id, token_types=types)
        return Window([_joined(text) for text in given], rows, [len(row) for row in ids], words, cut)

    def letters(self, text: Text) -> int:
        """How many letters `text` has in a window. A progress bar counts the same before and during a run."""
        return len(_joined(_as_input(text, self.token_level)))

    def _slowly(self, text: str | list[str]) -> tuple[list[int], list[Word]]:
        """The ids and words of one text, from the tokenizer itself."""
        (encoding,) = self._encode([text])
        return encoding.ids, words_of(encoding, text)

    def _encode(self, given: list[Any]) -> list[Any]:
        if not self.token_level:
            return list(self._backend.encode_batch_fast(given))
        encodings: list[Any] = [None] * len(given)
        for is_words in (False, True):
            which = [i for i, text in enumerate(given) if isinstance(text, list) == is_words]
            found = self._backend.encode_batch([given[i] for i in which], is_pretokenized=is_words)
            for i, encoding in zip(which, found, strict=True):
                encodings[i] = encoding
        return encodings


def max_tokens_of(tokenizer: PreTrainedTokenizerBase, config: Any) -> int:
    """The longest text that both the tokenizer and the encoder allow, in tokens; 512 if neither has a limit."""
    encoder = getattr(config, "backbone_config", config)
    known = [tokenizer.model_max_length, getattr(encoder, "max_position_embeddings", None)]
    known.append(getattr(config, "padded_length", None))
    limits = [int(limit) for limit in known if limit is not None and limit < UNLIMITED]
    return min(limits, default=512)


def _as_input(text: Text, token_level: bool) -> Any:
    """`text` as the tokenizer takes it: a text, a pair of texts, or a list of words."""
    if isinstance(text, dict):
        text = (text["text"], text["text_pair"]) if text.get("text_pair") is not None else text["text"]
    if isinstance(text, str):
        return text
    if token_level and isinstance(text, list) and all(isinstance(word, str) for word in text):
        return text
    if not token_level and isinstance(text, tuple | list) and len(text) == 2 and all(isinstance(t, str) for t in text):
        return tuple(text)
    wanted = "a text or a list of words" if token_level else "a text, a pair of texts, or {'text', 'text_pair'}"
    raise ValueError(f"expected {wanted}, got {text!r}")


def _joined(text: str | tuple[str, str] | list[str]) -> str:
    return text if isinstance(text, str) else " ".join(text)

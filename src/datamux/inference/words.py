"""Where the words of a text are, for taggers. They are looked up as in `pieces.py`, for the same tokenizers.

A piece is the text between two spaces, or one word of a list of words. For each piece we remember its token ids and its
words, with positions counted from the start of the piece. A piece may have several words: "Paris," has two.
"""

from collections.abc import Callable, Sequence
from typing import Any

from tokenizers import Tokenizer

from datamux.inference.answers import Word
from datamux.inference.pieces import REMEMBERED, bare_copy, special_tokens

Found = tuple[list[int], list[Word]]  # ids and words
Known = dict[str, Found]  # by piece


class Words:
    """Ids, with special tokens, and words of texts or of lists of words: exactly what the tokenizer would give.

    `slowly` does the same with the tokenizer itself. It is used for a text that must be cut.
    """

    def __init__(self, tokenizer: Tokenizer, max_tokens: int, slowly: Callable[[Any], Found]) -> None:
        self._tokenizer = bare_copy(tokenizer)
        self._before, self._after = special_tokens(self._tokenizer)
        self._max_tokens = max_tokens
        self._slowly = slowly
        self._known: dict[bool, Known] = {False: {}, True: {}}  # for texts, and for lists of words
        self._letters = 0

    def __call__(self, texts: Sequence[str | list[str]]) -> tuple[list[list[int]], list[list[Word]], list[int]]:
        """(the ids of each text, its words, which texts were cut)."""
        split = [text if isinstance(text, list) else text.split(" ") for text in texts]
        known = {is_words: self._learned(texts, split, is_words) for is_words in (False, True)}
        rows, words, cut = [], [], []
        for number, (text, pieces) in enumerate(zip(texts, split, strict=True)):
            ids, found = self._row(pieces, known[isinstance(text, list)])
            if len(ids) > self._max_tokens:
                ids, found = self._slowly(text)
                cut.append(number)
            rows.append(ids)
            words.append(found)
        return rows, words, cut

    def _row(self, pieces: Sequence[str], known: Known) -> Found:
        ids, words, letters = self._before.copy(), [], 0
        for piece in pieces:
            its_ids, its_words = known[piece]
            tokens = len(ids)
            for start, end, token in its_words:
                words.append(Word(letters + start, letters + end, tokens + token))
            ids += its_ids
            letters += len(piece) + 1
        ids += self._after
        return ids, words

    def _learned(self, texts: Sequence[str | list[str]], split: Sequence[Sequence[str]], is_words: bool) -> Known:
        """A table that knows all pieces. A table only grows, because another thread may be reading it."""
        if self._letters > REMEMBERED:
            self._known, self._letters = {False: {}, True: {}}, 0
        known = self._known[is_words]
        these = {
            p for text, pieces in zip(texts, split, strict=True) if isinstance(text, list) == is_words for p in pieces
        }
        new = [piece for piece in these if piece not in known]
        given: Any = [[piece] for piece in new] if is_words else new
        found = self._tokenizer.encode_batch(given, is_pretokenized=is_words, add_special_tokens=False)
        known.update(
            (piece, (encoding.ids, words_of(encoding, [piece] if is_words else piece)))
            for piece, encoding in zip(new, found, strict=True)
        )
        self._letters += sum(map(len, new))
        return known


def words_of(encoding: Any, text: str | list[str]) -> list[Word]:
    """The words whose first token was not cut off. A list of words counts as a text, joined by single spaces."""
    starts = [0]
    if isinstance(text, list):
        for word in text:
            starts.append(starts[-1] + len(word) + 1)
    words: list[Word] = []
    before = None
    for token, (number, (start, end)) in enumerate(zip(encoding.word_ids, encoding.offsets, strict=True)):
        if number is None:
            continue
        shift = starts[number] if isinstance(text, list) else 0
        if number == before:
            words[-1] = Word(words[-1].start, shift + end, words[-1].token)
        else:
            words.append(Word(shift + start, shift + end, token))
        before = number
    return words

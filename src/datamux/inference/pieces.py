"""Tokenising at the speed of a look-up, for tokenizers that never look across a space.

A multiplexed model answers so many texts a second that splitting words becomes a large part of the work. Most words
of a text were seen before: here every piece between two spaces is tokenised once, and remembered. All texts are looked
up together: a list for every text would cost more than its look-ups, most of it in Python's search for garbage.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import repeat
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

Numbers = NDArray[np.int64]
REMEMBERED = 1_000_000  # letters of all pieces together; when there are more, all are forgotten
NORMALIZERS = (None, "BertNormalizer", "Lowercase")
PRE_TOKENIZERS = ("BertPreTokenizer", "Whitespace", "WhitespaceSplit")


@dataclass(frozen=True)
class Table:
    """What is known of pieces: the number of each; at that number, where its ids start and how many they are."""

    number: dict[str, int]  # shared with later tables, which only add to it
    starts: Numbers
    sizes: Numbers
    ids: Numbers
    letters: int

    @staticmethod
    def empty() -> "Table":
        return Table({}, _array([]), _array([]), _array([]), 0)

    def find(self, pieces: Sequence[str]) -> Numbers:
        """The number of each piece, or -1."""
        return np.fromiter(map(self.number.get, pieces, repeat(-1)), np.int64, len(pieces))

    def with_pieces(self, pieces: Sequence[str], ids: Sequence[Sequence[int]]) -> "Table":
        first = len(self.sizes)
        sizes = np.concatenate([self.sizes, _array([len(row) for row in ids])])
        flat = np.concatenate([self.ids, _array([number for row in ids for number in row])])
        self.number.update(zip(pieces, range(first, first + len(pieces)), strict=True))  # last: no number without ids
        return Table(self.number, sizes.cumsum() - sizes, sizes, flat, self.letters + sum(map(len, pieces)))


class Pieces:
    """Token ids of texts, special tokens included, cut at `max_tokens`: exactly those of the tokenizer itself."""

    def __init__(self, tokenizer: Tokenizer, max_tokens: int) -> None:
        self._tokenizer = bare_copy(tokenizer)
        self._before, self._after = special_tokens(self._tokenizer)
        self._room = max(0, max_tokens - len(self._before) - len(self._after))
        self._table = Table.empty()
        self._learning = Lock()  # several threads may use one predictor

    def __getstate__(self) -> dict[str, Any]:
        """For other processes, which learn for themselves: a lock cannot be sent."""
        return self.__dict__ | {"_table": Table.empty(), "_learning": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _learning=Lock())

    def __call__(self, texts: Sequence[str]) -> tuple[Numbers, Numbers, list[int]]:
        """(the ids of all texts in a row, how many each has, which texts were cut)."""
        if not texts:
            return _array([]), _array([]), []
        pieces = " ".join(texts).split(" ")
        many = _array([text.count(" ") + 1 for text in texts])  # pieces of each text: one at least
        table, numbers = self._find(pieces)
        sizes = table.sizes[numbers]
        inner = np.add.reduceat(sizes, many.cumsum() - many)  # tokens of each text
        kept = np.minimum(inner, self._room)
        lengths = kept + len(self._before) + len(self._after)
        ends = lengths.cumsum()
        starts = ends - lengths
        rows = np.empty(ends[-1], np.int64)
        for place, token in enumerate(self._before):
            rows[starts + place] = token
        for place, token in enumerate(reversed(self._after), 1):
            rows[ends - place] = token
        found = table.ids[_counted(table.starts[numbers], sizes)]
        cut: list[int] = np.flatnonzero(inner > kept).tolist()
        if cut:
            found = found[_counted(inner.cumsum() - inner, kept)]
        rows[_counted(starts + len(self._before), kept)] = found
        return rows, lengths, cut

    def _find(self, pieces: Sequence[str]) -> tuple[Table, Numbers]:
        """A table that has all of `pieces`, and their numbers in it."""
        table = self._table
        numbers = table.find(pieces)
        if numbers.min() < 0 or numbers.max() >= len(table.sizes):  # unknown, or learned by another thread just now
            with self._learning:
                table = self._table if self._table.letters < REMEMBERED else Table.empty()
                new = [piece for piece in dict.fromkeys(pieces) if piece not in table.number]
                encoded = self._tokenizer.encode_batch_fast(new, add_special_tokens=False)
                table = self._table = table.with_pieces(new, [encoding.ids for encoding in encoded])
            numbers = table.find(pieces)
        return table, numbers


def _counted(starts: Numbers, sizes: Numbers) -> Numbers:
    """From each start on as many numbers as its size says: (3, 9), (2, 1) -> 3 4 9."""
    before = sizes.cumsum() - sizes
    counted: Numbers = np.repeat(starts - before, sizes) + np.arange(sizes.sum())
    return counted


def _array(values: Any) -> Numbers:
    return np.array(values, np.int64)


def bare_copy(tokenizer: Tokenizer) -> Tokenizer:
    """The same tokenizer, which neither pads nor cuts."""
    bare = Tokenizer.from_str(tokenizer.to_str())
    bare.no_padding()
    bare.no_truncation()
    return bare


def special_tokens(tokenizer: Tokenizer) -> tuple[list[int], list[int]]:
    """The ids that stand before and after every text."""
    example = tokenizer.encode("a")
    inner = [place for place, special in enumerate(example.special_tokens_mask) if not special]
    return example.ids[: inner[0]], example.ids[inner[-1] + 1 :]


def never_looks_across_spaces(tokenizer: Tokenizer) -> bool:
    """Whether the tokens of a text are those of its pieces, one after the other."""
    settings = json.loads(tokenizer.to_str())
    kinds = [(settings[part] or {}).get("type") for part in ("normalizer", "pre_tokenizer")]
    added = settings["added_tokens"]
    plain = not any(
        t["lstrip"] or t["rstrip"] or t["single_word"] or any(map(str.isspace, t["content"])) for t in added
    )
    right = (settings["truncation"] or {}).get("direction", "Right") == "Right"
    word = tokenizer.encode("a")
    return (
        kinds[0] in NORMALIZERS and kinds[1] in PRE_TOKENIZERS and plain and right and not all(word.special_tokens_mask)
    )

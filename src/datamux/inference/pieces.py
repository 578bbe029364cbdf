"""Fast tokenising by looking words up, for tokenizers that never look across a space.

A multiplexed model is so fast that tokenising becomes a large part of the work. Most words of a text have been seen
before, so every piece between two spaces is tokenised once and remembered. All texts are looked up together. One list
per text would cost more than the look-ups themselves, mostly in Python's garbage collector.
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
REMEMBERED = 1_000_000  # letters of all pieces together; beyond this, all pieces are forgotten
NORMALIZERS = (None, "BertNormalizer", "Lowercase")
PRE_TOKENIZERS = ("BertPreTokenizer", "Whitespace", "WhitespaceSplit")


@dataclass(frozen=True)
class Table:
    """What is known about pieces: the number of each, and under that number where its ids start and how many it has."""

    number: dict[str, int]  # later tables share it and only add to it
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
        # Last, so that every number has ids.
        self.number.update(zip(pieces, range(first, first + len(pieces)), strict=True))
        return Table(self.number, sizes.cumsum() - sizes, sizes, flat, self.letters + sum(map(len, pieces)))


class Pieces:
    """Token ids of texts with special tokens, cut at `max_tokens`: exactly what the tokenizer itself would give."""

    def __init__(self, tokenizer: Tokenizer, max_tokens: int) -> None:
        self._tokenizer = bare_copy(tokenizer)
        self._before, self._after = special_tokens(self._tokenizer)
        self._room = max(0, max_tokens - len(self._before) - len(self._after))
        self._table = Table.empty()
        self._learning = Lock()  # several threads may share one predictor

    def __getstate__(self) -> dict[str, Any]:
        """What is sent to another process. A lock cannot be sent, and the process builds its own table."""
        return self.__dict__ | {"_table": Table.empty(), "_learning": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _learning=Lock())

    def __call__(self, texts: Sequence[str]) -> tuple[Numbers, Numbers, list[int]]:
        """(the ids of all texts, one text after the other; how many ids each text has; which texts were cut)."""
        if not texts:
            return _array([]), _array([]), []
        pieces = " ".join(texts).split(" ")
        piece_counts = _array([text.count(" ") + 1 for text in texts])  # at least one per text
        table, numbers = self._find(pieces)
        sizes = table.sizes[numbers]
        token_counts = np.add.reduceat(sizes, piece_counts.cumsum() - piece_counts)
        counts_after_cut = np.minimum(token_counts, self._room)
        lengths = counts_after_cut + len(self._before) + len(self._after)
        ends = lengths.cumsum()
        starts = ends - lengths
        rows = np.empty(ends[-1], np.int64)
        for place, token in enumerate(self._before):
            rows[starts + place] = token
        for place, token in enumerate(reversed(self._after), 1):
            rows[ends - place] = token
        found = table.ids[_counted(table.starts[numbers], sizes)]
        cut: list[int] = np.flatnonzero(token_counts > counts_after_cut).tolist()
        if cut:
            found = found[_counted(token_counts.cumsum() - token_counts, counts_after_cut)]
        rows[_counted(starts + len(self._before), counts_after_cut)] = found
        return rows, lengths, cut

    def _find(self, pieces: Sequence[str]) -> tuple[Table, Numbers]:
        """A table that knows all of `pieces`, and their numbers in it."""
        table = self._table
        numbers = table.find(pieces)
        if numbers.min() < 0 or numbers.max() >= len(table.sizes):  # unknown, or just learned by another thread
            with self._learning:
                table = self._table if self._table.letters < REMEMBERED else Table.empty()
                new = [piece for piece in dict.fromkeys(pieces) if piece not in table.number]
                encoded = self._tokenizer.encode_batch_fast(new, add_special_tokens=False)
                table = self._table = table.with_pieces(new, [encoding.ids for encoding in encoded])
            numbers = table.find(pieces)
        return table, numbers


def _counted(starts: Numbers, sizes: Numbers) -> Numbers:
    """Count on from each start, as many numbers as its size says: starts (3, 9) and sizes (2, 1) give 3 4 9."""
    before = sizes.cumsum() - sizes
    counted: Numbers = np.repeat(starts - before, sizes) + np.arange(sizes.sum())
    return counted


def _array(values: Any) -> Numbers:
    return np.array(values, np.int64)


def bare_copy(tokenizer: Tokenizer) -> Tokenizer:
    """A copy of the tokenizer that neither pads nor cuts."""
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
    """Whether the tokens of a text are simply the tokens of its pieces, one piece after the other."""
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

"""Tokenised rows as data sets that return padded batches, in one indexing operation instead of a loop over rows.

Padding is always on the right: mixed instances must start at the same position.
"""

from collections.abc import Iterable, Sequence
from copy import copy
from itertools import chain, islice
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import Dataset
from transformers import PreTrainedTokenizerBase

from datamux.tasks.examples import Examples
from datamux.tasks.labels import Labels

Batch = dict[str, Tensor]
IGNORED = -100


class Rows(Dataset[Batch]):
    """Rows of different lengths, with one label per row or one label per token."""

    def __init__(
        self,
        ids: Sequence[Sequence[int]],
        *,
        pad_id: int,
        labels: Sequence[Any] | None = None,
        token_labels: Sequence[Sequence[int]] | None = None,
        token_types: Sequence[Sequence[int]] | None = None,
    ) -> None:
        self.pad_id = pad_id
        lengths = torch.tensor([len(row) for row in ids])
        self.ends = lengths.cumsum(0)
        self.starts = self.ends - lengths
        self.ids = _flat(ids)
        self.labels = None if labels is None else torch.tensor(labels)
        self.token_labels = None if token_labels is None else _flat(token_labels)
        self.token_types = None if token_types is None else _flat(token_types)
        self.teacher_logits: Tensor | None = None  # (i c), or (all tokens, c) for token labels
        self.teacher_states: Tensor | None = None  # (i d), or (all tokens, d)
        self.cut_labels: list[list[int]] = []  # per row, the tags of words that truncation cut off

    @classmethod
    def from_flat(cls, ids: NDArray[np.int64], lengths: NDArray[np.int64], *, pad_id: int) -> "Rows":
        """Rows from `ids`, in which they follow one after the other."""
        rows = cls([], pad_id=pad_id)
        rows.ids = torch.from_numpy(ids)
        rows.ends = torch.from_numpy(lengths.cumsum())
        rows.starts = rows.ends - torch.from_numpy(lengths)
        return rows

    def __len__(self) -> int:
        return len(self.ends)

    def __getitem__(self, index: int) -> Batch:
        return {name: values[0] for name, values in self.batch([index]).items()}

    def __getitems__(self, indices: list[int]) -> Batch:
        return self.batch(indices)

    def first(self, count: int) -> "Rows":
        """The first `count` rows, as a view."""
        some = copy(self)
        some.starts, some.ends = self.starts[:count], self.ends[:count]
        some.labels = None if self.labels is None else self.labels[:count]
        return some

    def inputs_only(self, order: Tensor) -> "Rows":
        """The rows in another order and without their labels, as a view."""
        some = copy(self)
        some.starts, some.ends = self.starts[order], self.ends[order]
        some.labels = some.token_labels = some.teacher_logits = some.teacher_states = None
        return some

    def batch(self, indices: Sequence[int] | Tensor) -> Batch:
        """The rows of `indices`, padded to the longest of them."""
        which = torch.as_tensor(indices)
        starts, ends = self.starts[which], self.ends[which]
        place = starts[:, None] + torch.arange(int((ends - starts).max()))  # i l
        mask = place < ends[:, None]
        place = place.clamp(max=len(self.ids) - 1)
        batch = {"input_ids": self.ids[place].long().where(mask, self.pad_id), "attention_mask": mask.long()}
        if self.token_types is not None:
            batch["token_type_ids"] = self.token_types[place].long().where(mask, 0)
        if self.labels is not None:
            batch["labels"] = self.labels[which]
        if self.token_labels is not None:
            batch["labels"] = self.token_labels[place].long().where(mask, IGNORED)
        given = which if self.token_labels is None else place
        if self.teacher_logits is not None:
            batch["teacher_logits"] = self.teacher_logits[given]
        if self.teacher_states is not None:
            batch["teacher_states"] = self.teacher_states[given]
        return batch


class Chunks(Dataset[Batch]):
    """A corpus as equal pieces of `tokens` words each; the target at each position is the word itself."""

    def __init__(self, ids: Tensor, tokens: int) -> None:
        self.pieces = ids[: len(ids) // tokens * tokens].view(-1, tokens)

    def __len__(self) -> int:
        return len(self.pieces)

    def __getitem__(self, index: int) -> Batch:
        return {name: values[0] for name, values in self.__getitems__([index]).items()}

    def __getitems__(self, indices: list[int]) -> Batch:
        ids = self.pieces[torch.as_tensor(indices)].long()
        return {"input_ids": ids, "attention_mask": torch.ones_like(ids), "labels": ids}


def encode_examples(examples: Examples, labels: Labels, tokenizer: PreTrainedTokenizerBase, max_tokens: int) -> Rows:
    """Texts or pairs -> rows with one label per row; words -> rows with a label on the first piece of each word."""
    word_level = bool(len(examples)) and isinstance(examples.texts[0], list)
    encoded = tokenizer(
        list(examples.texts),
        None if examples.pairs is None else list(examples.pairs),
        truncation=True,
        max_length=max_tokens,
        is_split_into_words=word_level,
        return_attention_mask=False,
    )
    types = encoded.get("token_type_ids") if examples.pairs is not None else None
    numbers = None if examples.labels is None else examples.encoded_labels(labels)
    if not word_level:
        return Rows(encoded["input_ids"], pad_id=tokenizer.pad_token_id, labels=numbers, token_types=types)
    words = [encoded.word_ids(row) for row in range(len(examples))]
    tags = [align_tags(row, row_tags) for row, row_tags in zip(words, numbers or (), strict=True)]
    rows = Rows(encoded["input_ids"], pad_id=tokenizer.pad_token_id, token_labels=tags)
    seen_words = [max((word for word in row if word is not None), default=-1) + 1 for row in words]
    rows.cut_labels = [row_tags[count:] for count, row_tags in zip(seen_words, numbers or (), strict=True)]
    return rows


def align_tags(words: Sequence[int | None], tags: Sequence[int]) -> list[int]:
    """The tag of each word on its first piece; the other pieces and special tokens are ignored."""
    before: list[int | None] = [None, *words[:-1]]
    return [
        IGNORED if word is None or word == previous else tags[word]
        for word, previous in zip(words, before, strict=True)
    ]


def encode_corpus(lines: Iterable[str], tokenizer: PreTrainedTokenizerBase, max_words: int | None = None) -> Tensor:
    """All lines one after the other as one row of word pieces, at most `max_words` of them."""
    pieces: list[Tensor] = []
    count, ahead = 0, iter(lines)
    while batch := list(islice(ahead, 1000)):
        for ids in tokenizer(batch, add_special_tokens=False, return_attention_mask=False)["input_ids"]:
            pieces.append(torch.tensor(ids, dtype=torch.int32))
            count += len(ids)
        if max_words is not None and count >= max_words:
            break
    flat = torch.cat(pieces) if pieces else torch.zeros(0, dtype=torch.int32)
    return flat[:max_words]


def _flat(rows: Sequence[Sequence[int]]) -> Tensor:
    return torch.from_numpy(np.fromiter(chain.from_iterable(rows), dtype=np.int32))

"""A predictor as the batcher's engine: texts to rows in one thread, groups of rows to answers in another.

The work on answers is done for a whole pass at once; a text gets only a few numbers in plain lists.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from datamux.errors import check_choice
from datamux.inference.answers import Word, span_answers
from datamux.inference.plan import plan_passes
from datamux.inference.predictor import Predictor
from datamux.serve.clipping import clipped
from datamux.serve.gears import Gear
from datamux.serve.refusals import BadInput
from datamux.serve.tickets import named

Fill = Literal["nothing", "repeat"]
Numbers = NDArray[np.int64]


class Row(NamedTuple):
    """One tokenised text. `token_types` only for a pair; `text` and `words` only for a tagger, whose answer needs them.

    Rows wait in the queue, so they hold nothing else of a text, which may be long.
    """

    ids: Numbers
    token_types: Numbers | None
    text: str | None
    words: list[Word] | None
    cut: bool  # whether the text was longer than the model allows


class Labels(NamedTuple):
    """A classifier's answer: the labels by number, the best one first, with their scores and logits."""

    order: list[int]
    scores: list[float]
    logits: list[float]
    tokens: int
    cut: bool


class Spans(NamedTuple):
    """A tagger's answer."""

    spans: list[dict[str, Any]]
    tokens: int
    cut: bool


class TooLong(BadInput):
    """A text has more tokens than the model allows, and its sender does not want it cut."""


class PredictorEngine:
    """Runs passes with the predictors that gears name; all of them have the same labels and the same tokenizer.

    A group that is not full is padded with empty rows, which add nothing to the mixture; where they would change an
    answer, only groups of one size share a run. With `fill="repeat"` a group is padded with its own rows once more, up
    to the gear's group size, and the logits of a text are averaged over its places.
    """

    def __init__(self, predictors: Mapping[str, Predictor], *, fill: Fill = "nothing") -> None:
        check_choice("fill", fill, get_args(Fill))
        self.predictors = dict(predictors)
        self.main = next(iter(self.predictors.values()))
        self.fill = fill
        self.repeats = 0  # slots that held a text once more

    # In the thread that tokenises

    def tokenise(self, texts: Sequence[Any]) -> list[tuple[Row, int]]:
        short = [clipped(text, self.main.texts) for text in texts]
        window = self.main.texts.window(short)
        rows = window.rows
        ids = rows.ids.numpy()
        types = None if rows.token_types is None else rows.token_types.numpy()
        words: Sequence[list[Word] | None] = window.words or [None] * len(window.lengths)
        kept: Sequence[str | None] = window.texts if self.main.token_level else [None] * len(window.lengths)
        cut = {*window.cut, *(place for place, text in enumerate(texts) if short[place] is not text)}
        return [
            (Row(ids[start:end], None if types is None else types[start:end], text, its_words, place in cut), length)
            for place, (start, end, text, its_words, length) in enumerate(
                zip(rows.starts.tolist(), rows.ends.tolist(), kept, words, window.lengths, strict=True)
            )
        ]

    def refuse_cut(self, rows: Sequence[tuple[Row, int]], before: int, texts: int) -> None:
        """For those who do not want their texts cut: a text that was cut is an error.

        The rows are part of a request of `texts` texts, of which `before` come before them.
        """
        for place, (row, _) in enumerate(rows, before):
            if row.cut:
                limit, text = self.main.texts.max_tokens, named(place, texts)
                raise TooLong(f"{text} has more than {limit} tokens; shorten it, or send truncate: true to have it cut")

    # In the thread that runs passes

    def answer(self, groups: list[list[Row]], gear: Gear) -> list[list[Any]]:
        predictor = self.predictors[gear.engine]
        found: list[list[Any]] = [[] for _ in groups]
        longest = [max(len(row.ids) for row in group) for group in groups]
        for similar in plan_passes(longest, 1, lambda tokens: len(groups)):  # groups of similar length: less padding
            for some in self._run_together(predictor, groups, similar):
                each = iter(self._answers(predictor, [groups[number] for number in some], gear))
                for number in some:
                    found[number] = list(islice(each, len(groups[number])))
        return found

    def _run_together(
        self, predictor: Predictor, groups: list[list[Row]], numbers: Sequence[int]
    ) -> Iterable[Sequence[int]]:
        """The groups that may share a run: all, or those of one size, if it matters how many slots are empty.

        The other groups may be strangers', and no answer may depend on how many texts those have.
        """
        if self.fill == "repeat" or predictor.runtime.empty_slots_change_nothing:
            return [numbers]
        by_size: dict[int, list[int]] = {}
        for number in numbers:
            by_size.setdefault(len(groups[number]), []).append(number)
        return by_size.values()

    def _answers(self, predictor: Predictor, groups: list[list[Row]], gear: Gear) -> list[Any]:
        rows = [row for group in groups for row in group]
        sizes = [len(group) for group in groups]
        # Repeats change answers, so how many there are must not depend on the other groups, which may be strangers'.
        slots = gear.group_size if self.fill == "repeat" else max(sizes)
        logits = self._logits(predictor, rows, sizes, slots)
        if not bool(torch.isfinite(logits).all()):
            raise ArithmeticError("the model gave logits that are not numbers")
        if predictor.token_level:
            return self._spans(predictor, rows, logits)
        return _labels(predictor, rows, logits)

    def _logits(self, predictor: Predictor, rows: list[Row], sizes: list[int], slots: int) -> Tensor:
        """(i c) or (i l c): one row of logits per text."""
        if min(sizes) == slots:
            return predictor.runtime.logits(_batch(predictor, rows), slots)
        first: Numbers = np.cumsum(sizes) - np.array(sizes)
        if self.fill == "repeat":
            which = (first[:, None] + np.arange(slots) % np.array(sizes)[:, None]).ravel()  # the row of each slot
            every = predictor.runtime.logits(_batch(predictor, [rows[row] for row in which]), slots)
            self.repeats += len(which) - len(rows)
            index = torch.from_numpy(which)
            total = every.new_zeros(len(rows), *every.shape[1:]).index_add(0, index, every)
            return total / torch.bincount(index).view(-1, *[1] * (every.dim() - 1))
        group = np.repeat(np.arange(len(sizes)), sizes)
        places: Numbers = group * slots + np.arange(len(rows)) - first[group]
        every = predictor.runtime.logits(_batch(predictor, rows, places, len(sizes) * slots), slots)
        return every[torch.from_numpy(places)]

    def _spans(self, predictor: Predictor, rows: list[Row], logits: Tensor) -> list[Any]:
        found = span_answers(
            [row.text or "" for row in rows], [row.words or [] for row in rows], logits, predictor.names
        )
        return [Spans(spans, len(row.ids), row.cut) for spans, row in zip(found, rows, strict=True)]

    def predictor_answer(self, answer: Labels | Spans) -> Any:
        """The answer as `Predictor.__call__` gives it for one text of a list."""
        if isinstance(answer, Spans):
            return answer.spans
        pairs: list[dict[str, Any]] = [
            {"label": self.main.names[label], "score": score}
            for label, score in zip(answer.order, answer.scores, strict=True)
        ]
        if self.main.problem == "multi_label_classification":
            return [pair for pair in pairs if pair["score"] > 0.5]
        return pairs if self.main.problem == "regression" and len(pairs) > 1 else pairs[0]


def _batch(
    predictor: Predictor, rows: list[Row], places: Numbers | None = None, count: int | None = None
) -> dict[str, Tensor]:
    """Padded rows (i l). With `places`, row r stands at `places[r]` of `count` rows, and the others are empty."""
    lengths = np.zeros(count or len(rows), np.int64)
    lengths[slice(None) if places is None else places] = [len(row.ids) for row in rows]
    mask = np.arange(lengths.max()) < lengths[:, None]
    ids = np.full(mask.shape, predictor.texts.tokenizer.pad_token_id or 0, np.int64)
    ids[mask] = np.concatenate([row.ids for row in rows])
    batch = {"input_ids": torch.from_numpy(ids), "attention_mask": torch.from_numpy(mask.astype(np.int64))}
    if any(row.token_types is not None for row in rows):
        types = np.zeros(mask.shape, np.int64)
        types[mask] = np.concatenate(
            [np.zeros(len(row.ids), np.int64) if row.token_types is None else row.token_types for row in rows]
        )
        batch["token_type_ids"] = torch.from_numpy(types)
    return batch


def _labels(predictor: Predictor, rows: list[Row], logits: Tensor) -> list[Any]:
    if predictor.problem == "regression":
        scores = logits
        order = torch.arange(logits.shape[-1]).expand(logits.shape)
    else:
        several = predictor.problem == "multi_label_classification"
        scores = logits.sigmoid() if several else logits.softmax(-1)
        order = logits.argsort(dim=-1, descending=True, stable=True)
        scores, logits = scores.gather(-1, order), logits.gather(-1, order)
    numbers = zip(order.tolist(), scores.tolist(), logits.tolist(), rows, strict=True)
    return [
        Labels(labels, their_scores, their_logits, len(row.ids), row.cut)
        for labels, their_scores, their_logits, row in numbers
    ]

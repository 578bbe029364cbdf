"""How good a model is at each group size, and how often an answer flips when only its neighbours change.

Rows are grouped by the predictor's own plan, so a score is what a user gets. Every grouping gives the predictor the
same rows in another random order.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import fmean, pstdev
from typing import Any

import numpy as np
import torch
from torch import Tensor

from datamux.grouping import Filler
from datamux.hub.models import MuxPreTrainedModel
from datamux.inference.predictor import window_size
from datamux.inference.runtime import Runtime, run_passes
from datamux.tasks.labels import Labels
from datamux.tasks.rows import IGNORED, Rows

SCORES = 1 << 26  # of words, held at a time: a quarter of a gigabyte
MAIN_METRIC = {"single_label_classification": "accuracy", "multi_label_classification": "f1", "regression": "mse"}


@dataclass(frozen=True)
class Quality:
    """The score at one group size: the task's main metric, with mean and spread over several groupings."""

    group_size: int
    filler: str
    metric: str
    score: float
    spread: float  # standard deviation over the groupings
    groupings: int
    rows: int
    other: dict[str, float]  # further metrics, as means over the groupings
    slots: list[float | None]  # accuracy of the rows in each slot; None if it had no row
    flips: float | None = None  # share of answers (for tags: of words) that differ between two groupings


def flips_of(quality: Quality) -> float | None:
    """The share of answers that flip; None where there are no neighbours, or for numbers."""
    return None if quality.group_size == 1 else quality.flips


def _quality(scores: Sequence[float], **about: Any) -> Quality:
    """The quality at one group size, from one score per grouping."""
    return Quality(score=fmean(scores), spread=pstdev(scores), groupings=len(scores), **about)


def score(predictions: Any, truth: Any, labels: Labels, read: Any = None) -> dict[str, float]:
    """The metrics of a whole split. `score` is the main one, negative if it is an error, so that more is better.

    `read` says which words of a tagger's rows were read; for those that were cut off, it has no confidence.
    """
    predictions, truth = np.asarray(predictions), np.asarray(truth)
    if labels.problem == "regression":
        error = float(np.mean((predictions.reshape(-1) - truth.reshape(-1)) ** 2))
        return {"mse": error, "score": -error}
    if labels.problem == "multi_label_classification":
        from sklearn.metrics import f1_score

        f1 = float(f1_score(truth > 0.5, predictions > 0, average="micro", zero_division=0.0))
        return {"f1": f1, "accuracy": float(((predictions > 0) == (truth > 0.5)).mean()), "score": f1}
    best = predictions.argmax(-1)
    if truth.ndim == 2:
        asked = truth != IGNORED
        sure = asked if read is None else asked & np.asarray(read)
        return _tag_score(best, truth, labels) | {"ece": calibration_error(predictions[sure], truth[sure])}
    accuracy = float((best == truth).mean())
    metrics = {"accuracy": accuracy, "score": accuracy, "ece": calibration_error(predictions, truth)}
    if len(labels.names) == 2:
        positive = ((best == 1) & (truth == 1)).sum()
        metrics["f1"] = float(2 * positive / max(1, (best == 1).sum() + (truth == 1).sum()))
    else:
        from sklearn.metrics import f1_score

        metrics["f1_macro"] = float(f1_score(truth, best, average="macro", zero_division=0.0))
    return metrics


def calibration_error(logits: Any, truth: Any, bins: int = 15) -> float:
    """The expected calibration error: how far the confidence in the best label is from the share of right answers.

    Answers are put into `bins` by their confidence; the distance is a mean over the bins, weighted by their size.
    """
    shifted = np.asarray(logits, dtype=np.float64)
    shifted = np.exp(shifted - shifted.max(-1, keepdims=True))
    confidence = shifted.max(-1) / shifted.sum(-1)
    right = np.asarray(logits).argmax(-1) == truth
    place = np.minimum((confidence * bins).astype(int), bins - 1)
    gaps = np.bincount(place, weights=right - confidence, minlength=bins)  # the size of a bin times its distance
    return float(np.abs(gaps).sum() / max(1, len(confidence)))


def _tag_score(best: Any, truth: Any, labels: Labels) -> dict[str, float]:
    asked = truth != IGNORED
    if not _spans(labels):
        accuracy = float((best[asked] == truth[asked]).mean())
        return {"accuracy": accuracy, "score": accuracy}
    from seqeval.metrics import f1_score

    names = np.array(labels.names)
    pairs = [(names[t[m]].tolist(), names[b[m]].tolist()) for t, b, m in zip(truth, best, asked, strict=True)]
    accuracy = float((best[asked] == truth[asked]).mean())
    f1 = float(f1_score([t for t, _ in pairs], [b for _, b in pairs]))
    return {"f1": f1, "accuracy": accuracy, "score": f1}


def _spans(labels: Labels) -> bool:
    """Whether tags mark spans (B-PER, I-PER). Others, such as parts of speech, say something of one word."""
    return any(name.startswith(("B-", "I-")) for name in labels.names)


def main_metric(labels: Labels, *, tags: bool) -> str:
    """Accuracy (of words, for tags), F1 (of spans, or of several labels per text), or the mean squared error."""
    return "f1" if tags and _spans(labels) else MAIN_METRIC[labels.problem]


def predict_rows(runtime: Runtime, rows: Rows, group_size: int, *, order: Tensor) -> tuple[list[Tensor], list[int]]:
    """Logits and slot of every row, as the predictor answers and groups them if they come in this `order`."""
    logits: list[Tensor] = [torch.empty(0)] * len(rows)
    slots = [0] * len(rows)
    for window in torch.split(order, window_size(group_size)):
        numbers = window.tolist()
        for places, found in run_passes(runtime, rows.inputs_only(window), group_size):
            for seat, (place, answer) in enumerate(zip(places, found, strict=True)):
                logits[numbers[place]] = answer
                slots[numbers[place]] = seat % group_size
    return logits, slots


def measure_quality(
    runtime: Runtime,
    rows: Rows,
    labels: Labels,
    *,
    group_sizes: Sequence[int],
    groupings: int = 3,
    filler: Filler = "nothing",
    seed: int = 0,
) -> list[Quality]:
    """Score the whole split at each group size; every grouping has the rows in another random order.

    `filler` says what the runtime puts into unused slots; here it is only recorded.
    """
    truth = [rows.batch([i])["labels"][0] for i in range(len(rows))]
    if rows.token_labels is not None:
        truth = [
            torch.cat([t, torch.tensor(cut, dtype=t.dtype)]) for t, cut in zip(truth, rows.cut_labels, strict=True)
        ]
    results = []
    for k in group_sizes:
        found: list[dict[str, float]] = []
        slots: list[list[float]] = [[] for _ in range(k)]
        answers: list[Any] = []
        for grouping in range(groupings if k > 1 else 1):
            order = _order(len(rows), seed, grouping)
            logits, seats = predict_rows(runtime, rows, k, order=order)
            read = None
            if rows.token_labels is not None:
                lengths = rows.ends - rows.starts
                several = zip(logits, lengths.tolist(), truth, strict=True)
                logits = [_with_cut_words(z[:n], t, labels) for z, n, t in several]
                read = (torch.arange(max(map(len, truth))) < lengths[:, None]).numpy()
            found.append(score(_stack(logits), _stack(truth, fill=IGNORED), labels, read))
            answers.append(_stack([_answer(z, t, labels) for z, t in zip(logits, truth, strict=True)], fill=IGNORED))
            for row, seat in enumerate(seats):
                right = _row_accuracy(logits[row], truth[row], labels)
                if right is not None:
                    slots[seat].append(right)
        scores = [f["score"] for f in found]
        metric = main_metric(labels, tags=rows.token_labels is not None)
        other = {name: fmean(f[name] for f in found) for name in found[0] if name != "score"}
        shares = [fmean(s) if s else None for s in slots]
        about = {"group_size": k, "filler": filler, "metric": metric, "rows": len(rows)}
        flips = None if labels.problem == "regression" else flip_rate(answers)
        results.append(_quality(scores, **about, other=other, slots=shares, flips=flips))
    return results


def _order(rows: int, seed: int, grouping: int) -> Tensor:
    """The order in which the rows take the slots in one of the groupings."""
    return torch.randperm(rows, generator=torch.Generator().manual_seed(seed * 1000 + grouping))


def flip_rate(answers: Sequence[Any]) -> float:
    """The share of answers that differ between two groupings, as a mean over all pairs; `IGNORED` ones do not count."""
    asked = answers[0] != IGNORED
    pairs = [float((one != other)[asked].mean()) for one, other in combinations(answers, 2)]
    return fmean(pairs) if pairs else 0.0


def _answer(logits: Tensor, truth: Tensor, labels: Labels) -> Tensor:
    """What is answered, as numbers: the best label, the best tag of each word, or yes and no for each label."""
    if labels.problem != "single_label_classification":
        return (logits > 0).long()
    return logits.argmax(-1).where(truth != IGNORED, IGNORED)


def _with_cut_words(logits: Tensor, truth: Tensor, labels: Labels) -> Tensor:
    """Words that were cut off count as tagged "O", or as wrong where the task has no "O"."""
    cut, count = truth[len(logits) :].long(), logits.shape[1]
    said = torch.full_like(cut, labels.names.index("O")) if "O" in labels.names else (cut + 1) % count
    return torch.cat([logits, torch.nn.functional.one_hot(said, count).to(logits.dtype)])


def _row_accuracy(logits: Tensor, truth: Tensor, labels: Labels) -> float | None:
    if labels.problem == "regression":
        return None
    if labels.problem == "multi_label_classification":
        return float(((logits > 0) == (truth > 0.5)).float().mean())
    best = logits[: len(truth)].argmax(-1) if truth.dim() else logits.argmax(-1)
    asked = truth != IGNORED
    return float((best == truth)[asked].float().mean()) if bool(asked.any()) else None


def _stack(values: list[Tensor], fill: float = 0.0) -> Any:
    """Rows of different lengths as one array, padded with `fill`."""
    if values[0].dim() == 0:
        return torch.stack(values).numpy()
    return torch.nn.utils.rnn.pad_sequence(values, batch_first=True, padding_value=fill).numpy()


def _best_words(model: MuxPreTrainedModel, z: Tensor) -> Tensor:
    """(i l d) -> (i l), a few rows at a time: the scores of all words take much more room than the vectors."""
    assert model.retrieval is not None
    words = model.backbone.words.weight
    rows = max(1, SCORES // (z.shape[1] * len(words)))
    return torch.cat([model.retrieval(some, words).argmax(-1) for some in torch.split(z, rows)])


@torch.inference_mode()
def measure_retrieval(
    model: MuxPreTrainedModel,
    pieces: Tensor,
    *,
    group_sizes: Sequence[int],
    groupings: int = 1,
    filler: Filler = "nothing",
    seed: int = 0,
    bf16: bool = False,
) -> list[Quality]:
    """The share of the words of `pieces` (i l) that the retrieval head names correctly, out of the whole vocabulary."""
    if model.retrieval is None:
        raise ValueError("this model has no retrieval head; train it with one (retrieval_head=True)")
    model.eval()
    results = []
    for k in group_sizes:
        right = torch.zeros(groupings if k > 1 else 1, len(pieces))  # share of correct words, by position in `order`
        for grouping in range(len(right)):
            order = _order(len(pieces), seed, grouping)
            size = max(1, 200 // k) * k
            for start in range(0, len(pieces), size):
                some = pieces[order[start : start + size]].long().to(model.device)
                with torch.autocast(model.device.type, torch.bfloat16, enabled=bf16):
                    encoded = model.encode(some, group_size=k, filler=filler)
                    z = model.mux.read_rows(encoded, "all")
                best = _best_words(model, z.float())
                right[grouping, start : start + size] = (best == some).float().mean(-1).cpu()
        scores = right.mean(1).tolist()
        shares = [float(right[:, slot::k].mean()) if slot < len(pieces) else None for slot in range(k)]
        about = {"group_size": k, "filler": filler, "metric": "retrieval accuracy", "rows": len(pieces)}
        results.append(_quality(scores, **about, other={}, slots=shares))
    return results

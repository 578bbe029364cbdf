"""How good is a model at each group size? The whole split, several random groupings, each slot by itself."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from statistics import fmean, pstdev
from typing import Any

import numpy as np
import torch
from torch import Tensor

from datamux.grouping import Filler
from datamux.hub.models import MuxPreTrainedModel
from datamux.inference.runtime import Runtime
from datamux.tasks.labels import Labels
from datamux.tasks.rows import IGNORED, Rows

MAIN_METRIC = {"single_label_classification": "accuracy", "multi_label_classification": "f1", "regression": "mse"}


@dataclass(frozen=True)
class Quality:
    """One group size: the task's main metric, mean and spread over several groupings."""

    group_size: int
    filler: str
    metric: str
    score: float
    spread: float  # standard deviation over the groupings
    groupings: int
    rows: int
    other: dict[str, float]  # further metrics, mean over the groupings
    slots: list[float | None]  # accuracy of the rows that sat in each slot; None where none did

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def score(predictions: Any, truth: Any, labels: Labels) -> dict[str, float]:
    """The metrics of a whole split. `score` is the main one: `main_metric`, with a minus before an error."""
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
        return _tag_score(best, truth, labels)
    accuracy = float((best == truth).mean())
    metrics = {"accuracy": accuracy, "score": accuracy}
    if len(labels.names) == 2:
        positive = ((best == 1) & (truth == 1)).sum()
        metrics["f1"] = float(2 * positive / max(1, (best == 1).sum() + (truth == 1).sum()))
    else:
        from sklearn.metrics import f1_score

        metrics["f1_macro"] = float(f1_score(truth, best, average="macro", zero_division=0.0))
    return metrics


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
    """Whether tags mark spans (B-PER, I-PER); others, such as parts of speech, stand for their word alone."""
    return any(name.startswith(("B-", "I-")) for name in labels.names)


def main_metric(labels: Labels, *, tags: bool) -> str:
    """Accuracy, of words for tags; F1 of spans where tags mark spans, F1 of several labels, mean squared error."""
    return "f1" if tags and _spans(labels) else MAIN_METRIC[labels.problem]


def predict_rows(
    runtime: Runtime, rows: Rows, group_size: int, *, order: Tensor, batch_rows: int = 256
) -> list[Tensor]:
    """Logits of every row, in the order of `rows`; `order` says in which order they are seated."""
    logits: list[Tensor] = [torch.empty(0)] * len(rows)
    for some in torch.split(order, max(1, batch_rows // group_size) * group_size):
        batch = {name: x for name, x in rows.batch(some).items() if name != "labels"}
        for row, answer in zip(some.tolist(), runtime.logits(batch, group_size), strict=True):
            logits[row] = answer
    return logits


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
    """Score the whole split at each group size; every grouping seats the rows in another random order.

    `filler` is what the runtime puts into unused slots; it is only noted here.
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
        for grouping in range(groupings if k > 1 else 1):
            generator = torch.Generator().manual_seed(seed * 1000 + grouping)
            order = torch.randperm(len(rows), generator=generator)
            logits = predict_rows(runtime, rows, k, order=order)
            if rows.token_labels is not None:
                lengths = (rows.ends - rows.starts).tolist()
                logits = [_with_cut_words(z[:n], t, labels) for z, n, t in zip(logits, lengths, truth, strict=True)]
            found.append(score(_stack(logits), _stack(truth, fill=IGNORED), labels))
            for place, row in enumerate(order.tolist()):
                right = _row_accuracy(logits[row], truth[row], labels)
                if right is not None:
                    slots[place % k].append(right)
        scores = [f["score"] for f in found]
        metric = main_metric(labels, tags=rows.token_labels is not None)
        other = {name: fmean(f[name] for f in found) for name in found[0] if name != "score"}
        results.append(
            Quality(
                group_size=k,
                filler=filler,
                metric=metric,
                score=fmean(scores),
                spread=pstdev(scores),
                groupings=len(found),
                rows=len(rows),
                other=other,
                slots=[fmean(s) if s else None for s in slots],
            )
        )
    return results


def _with_cut_words(logits: Tensor, truth: Tensor, labels: Labels) -> Tensor:
    """A word that truncation cut off was not seen: it counts as tagged "O", or where there is no "O" wrongly."""
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
    """Share of the words of `pieces` (i l) that are named rightly, each among the whole vocabulary."""
    if model.retrieval is None:
        raise ValueError("this model has no retrieval head; train it with one (retrieval_head=True)")
    model.eval()
    results = []
    for k in group_sizes:
        right = torch.zeros(groupings if k > 1 else 1, len(pieces))  # share of right words, a seat each
        for grouping in range(len(right)):
            generator = torch.Generator().manual_seed(seed * 1000 + grouping)
            order = torch.randperm(len(pieces), generator=generator)
            size = max(1, 200 // k) * k
            for start in range(0, len(pieces), size):
                some = pieces[order[start : start + size]].long().to(model.device)
                with torch.autocast(model.device.type, torch.bfloat16, enabled=bf16):
                    encoded = model.encode(some, group_size=k, filler=filler)
                    z = model.mux.read_rows(encoded, "all")
                best = model.retrieval(z.float(), model.backbone.words.weight).argmax(-1)
                right[grouping, start : start + size] = (best == some).float().mean(-1).cpu()
        scores = right.mean(1).tolist()
        results.append(
            Quality(
                group_size=k,
                filler=filler,
                metric="retrieval accuracy",
                score=fmean(scores),
                spread=pstdev(scores),
                groupings=len(scores),
                rows=len(pieces),
                other={},
                slots=[float(right[:, slot::k].mean()) if slot < len(pieces) else None for slot in range(k)],
            )
        )
    return results

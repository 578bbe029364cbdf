"""The training objectives of a multiplexed model: retrieval, masked words, the task, and agreement with a teacher.

An objective is called inside the model's `forward` (see `hub.models.Objective`), so that gradients of several processes
are summed as usual. It stores what it measured in `metrics`.
"""

from dataclasses import dataclass, field, replace
from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional as F
from transformers.modeling_outputs import ModelOutput

from datamux.hub.models import MuxPreTrainedModel
from datamux.model import Encoded
from datamux.train.extra_losses import EXTRA_LOSSES
from datamux.train.teachers import Inputs, own_tokens, reads_of


def retrieval_loss(
    model: MuxPreTrainedModel, z: Tensor, words: Tensor, which: Tensor, *, candidates: int | None
) -> tuple[Tensor, float]:
    """Cross-entropy and accuracy of naming `words` (i l) from `z` (i l d) at the positions where `which` (i l) is True.

    With `candidates`, the softmax runs over that many words: those of the batch and random others. Without, over all.
    """
    assert model.retrieval is not None
    table = model.backbone.words.weight
    target = words[which]
    choices = None
    if candidates is not None:
        choices, inverse = torch.unique(words, return_inverse=True)
        target = inverse[which]
        if len(choices) < candidates:
            extra = torch.randint(len(table), (candidates - len(choices),), device=words.device)
            choices = torch.cat([choices, extra[~torch.isin(extra, choices)]])  # a word is never its own rival
    scores = model.retrieval(z[which], table, choices).float()
    accuracy = (scores.argmax(-1) == target).float().mean()
    return F.cross_entropy(scores, target), float(accuracy)


def one_instance_per_position(mask: Tensor, slots: int) -> Tensor:
    """The paper's choice (Eq. 3): for every group and position one random slot. (i l) -> (i l), True where chosen."""
    rows, tokens = mask.shape
    groups = -(-rows // slots)
    chosen = torch.randint(slots, (groups, 1, tokens), device=mask.device)
    is_chosen = torch.arange(slots, device=mask.device)[None, :, None] == chosen  # b n l
    return is_chosen.flatten(0, 1)[:rows] & mask


def at_most(mask: Tensor, positions: int) -> Tensor:
    """A random part of the True places of `mask`, about `positions` of them."""
    total = int(mask.sum())
    if total <= positions:
        return mask
    return mask & (torch.rand(mask.shape, device=mask.device) < positions / total)


def some_columns(mask: Tensor, positions: int) -> Tensor:
    """Random token positions, the same for all rows, that together hold about `positions` places of `mask` (i l)."""
    tokens = mask.shape[1]
    share = positions / max(1, int(mask.sum()))
    count = min(tokens, max(1, round(share * tokens)))
    return torch.randperm(tokens, device=mask.device)[:count]


@dataclass
class _Objective:
    """What both stages may have: a weight for consistency, the places of twins, a teacher's targets, and metrics."""

    consistency: float = 0.0
    twins: Tensor | None = None
    targets: dict[str, Tensor] = field(default_factory=dict)
    metrics: dict[str, float] = field(default_factory=dict)


@dataclass
class RetrievalObjective(_Objective):
    """Stage one. `kind` "one", the paper's, asks about one random instance per position; "all" asks about every slot.

    Where the input was masked (it differs from the label), the word must come from context: masked-word prediction.
    With a teacher's `targets` (see `train.sentences`) the model also learns to match its states of words and its
    sentence vectors, by cosine; `weight` is then that of naming words.
    """

    kind: Literal["all", "one"] = "all"
    candidates: int = 1024
    positions: int = 4096
    weight: float = 1.0
    match_words: float = 0.0
    match_sentences: float = 0.0

    def __call__(self, model: MuxPreTrainedModel, encoded: Encoded, inputs: Inputs, output: ModelOutput) -> Tensor:
        ids, labels = inputs["input_ids"], inputs["labels"]
        assert ids is not None
        assert labels is not None
        mask = own_tokens(inputs)
        columns = None
        if self.kind == "all":  # take apart no more than is scored
            columns = some_columns(mask, self.positions)
            ids, labels, mask = ids[:, columns], labels[:, columns], mask[:, columns]
        z = read_columns(model, encoded, columns)
        hidden = mask & (ids != labels)
        shown = mask & (ids == labels)
        if self.kind == "one":
            which = one_instance_per_position(shown, encoded.grouping.group_size)
            loss, accuracy = retrieval_loss(model, z, labels, which, candidates=None)
        else:
            which = at_most(shown, self.positions)
            loss, accuracy = retrieval_loss(model, z, labels, which, candidates=self.candidates)
        self.metrics = {"retrieval_loss": float(loss.detach()), "retrieval_accuracy": accuracy}
        if bool(hidden.any()):
            masked, masked_accuracy = retrieval_loss(model, z, labels, at_most(hidden, self.positions), candidates=None)
            self.metrics |= {"masked_loss": float(masked.detach()), "masked_accuracy": masked_accuracy}
            loss = loss + masked
        if self.targets:
            loss = self.weight * loss + self._distance(model, encoded, z, columns)
        if self.twins is not None:
            pooled = model.mux.read_rows(encoded, "pool").squeeze(1)
            apart = state_distance(pooled[: len(self.twins)], pooled[self.twins])
            self.metrics["inconsistency"] = float(apart.detach())
            loss = loss + self.consistency * apart
        return loss

    def _distance(self, model: MuxPreTrainedModel, encoded: Encoded, z: Tensor, columns: Tensor | None) -> Tensor:
        """How far the model's words `z` (i l d) and its sentences are from the teacher's."""
        states, vectors = self.targets["teacher_states"], self.targets["teacher_vectors"]
        states = states if columns is None else states[:, columns]
        words = state_distance(z[..., : states.shape[-1]], states, states.any(-1))
        sentences = state_distance(model.mux.read_rows(encoded, "pool").squeeze(1), vectors)
        self.metrics |= {"word_distance": float(words.detach()), "sentence_distance": float(sentences.detach())}
        return self.match_words * words + self.match_sentences * sentences


@dataclass
class TaskObjective(_Objective):
    """Stage two: (1 - alpha) task + alpha retrieval, as in the paper, plus a teacher's logits and token states.

    `class_weights` (c) says how much a row of each label counts. With `consistency` the Trainer gives every row twice,
    among different neighbours; `twins` says where the second copy of each of the first rows is, and the two answers are
    drawn together.

    The teacher does not change, so its logits, and the states that its head reads, are computed once for all rows; the
    Trainer puts those of the batch into `targets`. `extra_losses` has the weights of further losses, by their
    names in `EXTRA_LOSSES`.
    """

    alpha: float = 0.1
    kind: Literal["all", "one"] = "all"
    candidates: int = 1024
    positions: int = 2048
    distill_logits: float = 0.0
    distill_states: float = 0.0
    temperature: float = 2.0
    class_weights: Tensor | None = None
    extra_losses: dict[str, float] = field(default_factory=dict)

    def __call__(self, model: MuxPreTrainedModel, encoded: Encoded, inputs: Inputs, output: ModelOutput) -> Tensor:
        assert output.loss is not None
        loss: Tensor = output.loss
        mask = own_tokens(inputs)
        if self.class_weights is not None:
            loss = weighted_loss(output.logits, inputs["labels"], self.class_weights)
        self.metrics = {"task_loss": float(loss.detach())}
        if "teacher_logits" in self.targets:
            problem = model.config.problem_type or "single_label_classification"
            distance = logit_distance(
                output.logits, self.targets["teacher_logits"], inputs["labels"], self.temperature, problem
            )
            loss = (1 - self.distill_logits) * loss + self.distill_logits * distance
            self.metrics["logit_distance"] = float(distance.detach())
        if self.twins is not None:
            apart = inconsistency(output.logits, self.twins, inputs["labels"], model.config.problem_type)
            loss = loss + self.consistency * apart
            self.metrics["inconsistency"] = float(apart.detach())
        if "teacher_states" in self.targets and self.distill_states:
            z = model.mux.read_rows(encoded, reads_of(model))
            distance = state_distance(
                z, self.targets["teacher_states"], mask[:, : z.shape[1]]
            )  # every instance has a first token
            loss = loss + self.distill_states * distance
            self.metrics["state_distance"] = float(distance.detach())
        for name, weight in self.extra_losses.items():
            extra = EXTRA_LOSSES[name](model, encoded, inputs, self.targets.get("teacher_states"))
            loss = loss + weight * extra
            self.metrics[name] = float(extra.detach())
        if self.alpha > 0:
            ids = inputs["input_ids"]
            assert ids is not None
            columns, candidates = None, None
            if self.kind == "one":
                which = one_instance_per_position(mask, encoded.grouping.group_size)
            else:
                columns, candidates = some_columns(mask, self.positions), self.candidates
                ids, which = ids[:, columns], at_most(mask[:, columns], self.positions)
            z = read_columns(model, encoded, columns)
            retrieval, accuracy = retrieval_loss(model, z, ids, which, candidates=candidates)
            loss = (1 - self.alpha) * loss + self.alpha * retrieval
            self.metrics |= {"retrieval_loss": float(retrieval.detach()), "retrieval_accuracy": accuracy}
        return loss


def read_columns(model: MuxPreTrainedModel, encoded: Encoded, columns: Tensor | None) -> Tensor:
    """Each row's vectors at these tokens only (i r d), or at all tokens: what is not scored is not taken apart."""
    if columns is not None:
        p = model.mux.demultiplexer.prefix_length(encoded.grouping.slots)
        states, token_mask = encoded.states, encoded.token_mask
        encoded = replace(
            encoded,
            states=torch.cat([states[:, :p], states[:, p:][:, columns]], dim=1),
            token_mask=None if token_mask is None else token_mask[..., columns],
        )
    return model.mux.read_rows(encoded, "all")


def class_weights(counts: Tensor, balance: float) -> Tensor:
    """How much a row of each label counts (c), given how many rows have it: (1 / count) ** balance.

    Scaled so that the rows count 1 in the mean. At `balance` 1, all labels together count the same.
    """
    weights = counts.clamp(min=1).float() ** -balance
    return weights * counts.sum() / (weights * counts).sum()


def weighted_loss(logits: Tensor, labels: Tensor | None, weights: Tensor) -> Tensor:
    """Cross-entropy of rows (i c) or of their words (i l c), where labels count by `weights` (c)."""
    assert labels is not None
    each = F.cross_entropy(logits.flatten(0, -2).float(), labels.flatten(), reduction="none")  # 0 where ignored
    asked = labels.flatten() != -100
    counts = weights.to(each.device)[labels.flatten().clamp(min=0)]
    return (each * counts)[asked].mean()


def state_distance(z: Tensor, states: Tensor, mask: Tensor | None = None) -> Tensor:
    """1 - cosine between states (... d), mean over those where `mask` (...) is True."""
    if mask is not None:
        z, states = z[mask], states[mask]
    return (1 - F.cosine_similarity(z.float(), states.float(), dim=-1)).mean()


def inconsistency(logits: Tensor, twins: Tensor, labels: Tensor | None, problem: str | None) -> Tensor:
    """How far the two answers to each row are apart: symmetric KL divergence, or squared error for regression."""
    one, other = logits[: len(twins)].float(), logits[twins].float()
    if problem == "regression":
        return F.mse_loss(one, other)
    if problem == "multi_label_classification":
        one, other = (torch.stack([z, -z], -1) / 2 for z in (one, other))  # yes or no, for each label
    elif one.dim() == 3 and labels is not None:
        asked = labels[: len(twins)] != -100
        one, other = one[asked], other[asked]
    p, q = F.log_softmax(one, -1), F.log_softmax(other, -1)
    return ((p.exp() - q.exp()) * (p - q)).sum(-1).mean() / 2


def logit_distance(
    logits: Tensor,
    teacher: Tensor,
    labels: Tensor | None,
    temperature: float,
    problem: str = "single_label_classification",
) -> Tensor:
    """KL divergence from the teacher, softened by a temperature; for tagging, only where there is a label.

    For a regression it is the squared error; for several labels per row, the cross-entropy with the teacher's
    probabilities.
    """
    if problem == "regression":
        return F.mse_loss(logits.float(), teacher.float())
    if problem == "multi_label_classification":
        return F.binary_cross_entropy_with_logits(logits.float(), teacher.float().sigmoid())
    if logits.dim() == 3 and labels is not None:
        logits, teacher = logits[labels != -100], teacher[labels != -100]
    student = F.log_softmax(logits.float() / temperature, -1)
    return F.kl_div(student, F.softmax(teacher.float() / temperature, -1), reduction="batchmean") * temperature**2

"""What training asks of a multiplexed model: retrieval, masked words, the task, and a teacher's opinion.

An objective is called inside the model's `forward` (see `hub.models.Objective`), so that gradients of several processes
are summed as usual. It leaves what it measured in `metrics`.
"""

from dataclasses import dataclass, field
from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional as F
from transformers import PreTrainedModel
from transformers.modeling_outputs import ModelOutput

from datamux.hub.models import MuxPreTrainedModel
from datamux.model import Encoded
from datamux.train.teachers import Inputs, own_tokens, teacher_states


def retrieval_loss(
    model: MuxPreTrainedModel, z: Tensor, words: Tensor, which: Tensor, *, candidates: int | None
) -> tuple[Tensor, float]:
    """Cross-entropy and accuracy of naming `words` (i l) from `z` (i l d) at the positions where `which` (i l) is True.

    With `candidates`, the softmax runs over the words of the batch and random ones up to that number; else over all.
    """
    assert model.retrieval is not None
    table = model.backbone.words.weight
    target = words[which]
    among = None
    if candidates is not None:
        among, inverse = torch.unique(words, return_inverse=True)
        target = inverse[which]
        if len(among) < candidates:
            extra = torch.randint(len(table), (candidates - len(among),), device=words.device)
            among = torch.cat([among, extra[~torch.isin(extra, among)]])  # a word is never its own rival
    scores = model.retrieval(z[which], table, among).float()
    accuracy = (scores.argmax(-1) == target).float().mean()
    return F.cross_entropy(scores, target), float(accuracy)


def one_instance_a_position(mask: Tensor, slots: int) -> Tensor:
    """The paper's choice (Eq. 3): for every group and position one random slot. (i l) -> (i l), True where chosen."""
    rows, tokens = mask.shape
    groups = -(-rows // slots)
    chosen = torch.randint(slots, (groups, 1, tokens), device=mask.device)
    own = torch.arange(slots, device=mask.device)[None, :, None] == chosen  # b n l
    return own.flatten(0, 1)[:rows] & mask


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
class RetrievalObjective:
    """Stage one. `kind` "one" is the paper's: one random instance a position, all words; "all" asks every slot.

    Where the input was masked (it differs from the label), the word must come from context: masked-word prediction.
    `teacher`: match the token states of this plain encoder as well, by cosine; `weight` is then that of the rest.
    """

    kind: Literal["all", "one"] = "all"
    candidates: int = 1024
    positions: int = 4096
    teacher: PreTrainedModel | None = None
    weight: float = 1.0
    metrics: dict[str, float] = field(default_factory=dict)

    def __call__(self, model: MuxPreTrainedModel, encoded: Encoded, inputs: Inputs, output: ModelOutput) -> Tensor:
        ids, labels = inputs["input_ids"], inputs["labels"]
        assert ids is not None
        assert labels is not None
        mask = own_tokens(inputs)
        columns = None
        if self.kind == "all" and self.teacher is None:  # take apart no more than is scored
            columns = some_columns(mask, self.positions)
            ids, labels, mask = ids[:, columns], labels[:, columns], mask[:, columns]
        z = model.mux.read_rows(encoded, "all", columns)
        hidden = mask & (ids != labels)
        shown = mask & (ids == labels)
        if self.kind == "one":
            which = one_instance_a_position(shown, encoded.grouping.group_size)
            loss, accuracy = retrieval_loss(model, z, labels, which, candidates=None)
        else:
            which = at_most(shown, self.positions)
            loss, accuracy = retrieval_loss(model, z, labels, which, candidates=self.candidates)
        self.metrics = {"retrieval_loss": float(loss.detach()), "retrieval_accuracy": accuracy}
        if bool(hidden.any()):
            masked, masked_accuracy = retrieval_loss(model, z, labels, at_most(hidden, self.positions), candidates=None)
            self.metrics |= {"masked_loss": float(masked.detach()), "masked_accuracy": masked_accuracy}
            loss = loss + masked
        if self.teacher is not None:
            distance = state_distance(z, teacher_states(self.teacher, inputs), mask)
            self.metrics["state_distance"] = float(distance.detach())
            loss = self.weight * loss + 2 * distance
        return loss


@dataclass
class TaskObjective:
    """Stage two: (1 - alpha) task + alpha retrieval, as in the paper, plus a teacher's logits and token states.

    The teacher does not change, so its logits, and the states that its head reads, are computed once for all rows; the
    Trainer puts those of the batch into `teacher_logits` and `teacher_states`.
    """

    alpha: float = 0.1
    kind: Literal["all", "one"] = "all"
    candidates: int = 1024
    positions: int = 2048
    distill_logits: float = 0.0
    distill_states: float = 0.0
    temperature: float = 2.0
    teacher_logits: Tensor | None = None
    teacher_states: Tensor | None = None
    metrics: dict[str, float] = field(default_factory=dict)

    def __call__(self, model: MuxPreTrainedModel, encoded: Encoded, inputs: Inputs, output: ModelOutput) -> Tensor:
        assert output.loss is not None
        loss: Tensor = output.loss
        mask = own_tokens(inputs)
        self.metrics = {"task_loss": float(loss.detach())}
        if self.teacher_logits is not None:
            problem = model.config.problem_type or "single_label_classification"
            distance = logit_distance(output.logits, self.teacher_logits, inputs["labels"], self.temperature, problem)
            loss = (1 - self.distill_logits) * loss + self.distill_logits * distance
            self.metrics["logit_distance"] = float(distance.detach())
        if self.teacher_states is not None:
            z = encoded.grouping.ungroup(model.mux.read_for_head(encoded))
            distance = state_distance(z, self.teacher_states, mask[:, : z.shape[1]])  # the first token is always own
            loss = loss + self.distill_states * distance
            self.metrics["state_distance"] = float(distance.detach())
        if self.alpha > 0:
            ids = inputs["input_ids"]
            assert ids is not None
            columns, candidates = None, None
            if self.kind == "one":
                which = one_instance_a_position(mask, encoded.grouping.group_size)
            else:
                columns, candidates = some_columns(mask, self.positions), self.candidates
                ids, which = ids[:, columns], at_most(mask[:, columns], self.positions)
            z = model.mux.read_rows(encoded, "all", columns)
            retrieval, accuracy = retrieval_loss(model, z, ids, which, candidates=candidates)
            loss = (1 - self.alpha) * loss + self.alpha * retrieval
            self.metrics |= {"retrieval_loss": float(retrieval.detach()), "retrieval_accuracy": accuracy}
        return loss


def state_distance(z: Tensor, states: Tensor, mask: Tensor) -> Tensor:
    """1 - cosine between token states, mean over tokens."""
    return (1 - F.cosine_similarity(z[mask].float(), states[mask].float(), dim=-1)).mean()


def logit_distance(
    logits: Tensor,
    teacher: Tensor,
    labels: Tensor | None,
    temperature: float,
    problem: str = "single_label_classification",
) -> Tensor:
    """KL divergence from the teacher at a raised temperature; for tagging only where there is a label.

    Squared error for regression; for several labels at once, the cross-entropy with the teacher's probabilities.
    """
    if problem == "regression":
        return F.mse_loss(logits.float(), teacher.float())
    if problem == "multi_label_classification":
        return F.binary_cross_entropy_with_logits(logits.float(), teacher.float().sigmoid())
    if logits.dim() == 3 and labels is not None:
        logits, teacher = logits[labels != -100], teacher[labels != -100]
    student = F.log_softmax(logits.float() / temperature, -1)
    return F.kl_div(student, F.softmax(teacher.float() / temperature, -1), reduction="batchmean") * temperature**2

"""Further losses that a recipe can add to the task's, by name: `extra_losses = { contrastive = 0.25 }`.

A new one is a function and one line in `EXTRA_LOSSES`; the first line of its docstring is what `datamux ls losses`
shows. Each is a mean, so that its weight means the same whatever the size of a batch.
"""

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from datamux.hub.models import MuxPreTrainedModel
from datamux.model import Encoded
from datamux.multiplexers.reversible import Reversible
from datamux.train.teachers import Inputs, own_tokens, reads_of

ExtraLoss = Callable[[MuxPreTrainedModel, Encoded, Inputs, Tensor | None], Tensor]
SHARPNESS = 20.0  # what the cosines are multiplied by, as in RevMUX
MOST = 512  # states are compared with at most this many others


def contrastive(model: MuxPreTrainedModel, encoded: Encoded, inputs: Inputs, teacher_states: Tensor | None) -> Tensor:
    """Each state taken out of a mixture should be closer to the plain model's state of its row than to those of others.

    InfoNCE over the states that the head reads, from RevMUX. A tagger's states are drawn from all tokens.
    """
    if teacher_states is None:
        raise ValueError("the contrastive loss compares with a plain model: set task.teacher")
    z = model.mux.read_rows(encoded, reads_of(model))
    mask = own_tokens(inputs)[:, : z.shape[1]]
    student, teacher = z[mask].float(), teacher_states[mask].float()
    some = torch.randperm(len(student), device=student.device)[:MOST]
    student, teacher = F.normalize(student[some], dim=-1), F.normalize(teacher[some], dim=-1)
    return F.cross_entropy(SHARPNESS * student @ teacher.T, torch.arange(len(some), device=student.device))


def orthogonality(model: MuxPreTrainedModel, encoded: Encoded, inputs: Inputs, teacher_states: Tensor | None) -> Tensor:
    """The members of a mixture should point in different directions: their mean |cosine|, for `reversible`.

    From RevMUX. The members are the reduced instances, which the inverse of the coupling gives back exactly.
    """
    multiplexer = model.mux.multiplexer
    if not isinstance(multiplexer, Reversible):
        raise ValueError("the orthogonality loss is for the reversible multiplexer: set model.multiplexer=reversible")
    assert encoded.mixture is not None
    slots = encoded.grouping.slots
    tokens = encoded.mixture[:, model.mux.demultiplexer.prefix_length(slots) :]  # b l d
    members = multiplexer.members(tokens)[:, :slots].transpose(1, 2).float()  # b l n d/n
    unit = F.normalize(members, dim=-1)
    pairs = torch.ones(slots, slots, dtype=torch.bool, device=unit.device).triu(1)  # n n, each pair once
    if encoded.token_mask is not None:
        present = encoded.token_mask.transpose(1, 2)  # b l n
        pairs = pairs & present.unsqueeze(-1) & present.unsqueeze(-2)
    pairs = pairs.expand(*unit.shape[:2], -1, -1)
    return (unit @ unit.transpose(-1, -2))[pairs].abs().sum() / pairs.sum().clamp(min=1)


def key_orthonormality(
    model: MuxPreTrainedModel, encoded: Encoded, inputs: Inputs, teacher_states: Tensor | None
) -> Tensor:
    """Learned keys should stay orthogonal to each other and as long as they were: mean cos^2 + mean (|a|/s - 1)^2.

    From MIMONets, where its weight is 0.1 and s is 1. Here s is the mean length that the keys start with: about 1 for
    `learned_circular`, and sqrt(d) for `learned_hadamard`. Keys that are matrices should each stay orthogonal.
    """
    multiplexer = model.mux.multiplexer
    keys = getattr(multiplexer, "keys", None)
    if not isinstance(keys, nn.Parameter) or keys.dim() not in (2, 3):
        raise ValueError(
            "the key_orthonormality loss is for multiplexers with learned keys, such as learned_circular; "
            f"{model.config.multiplexer} has none"
        )
    if keys.dim() == 3:  # the rows of an orthogonal matrix have length one
        return key_penalty(keys)
    start = multiplexer.initial_state()["keys"]
    return key_penalty(keys, float(torch.linalg.vector_norm(start, dim=-1).mean()))


def key_penalty(keys: Tensor, length: float = 1.0) -> Tensor:
    """mean over pairs of cos^2 + mean of (|a|/length - 1)^2, for keys (n d); for matrices (n d d), of their rows."""
    keys = keys.float() / length
    lengths: Tensor = (torch.linalg.vector_norm(keys, dim=-1) - 1).square().mean()
    if keys.shape[-2] == 1:
        return lengths
    unit = F.normalize(keys, dim=-1)
    first, second = torch.triu_indices(keys.shape[-2], keys.shape[-2], 1)
    return (unit @ unit.mT)[..., first, second].square().mean() + lengths


EXTRA_LOSSES: dict[str, ExtraLoss] = {
    "contrastive": contrastive,
    "orthogonality": orthogonality,
    "key_orthonormality": key_orthonormality,
}

"""What runs rows, in passes that fit: torch here, exported models in `exported.py`."""

from collections.abc import Iterator
from functools import partial
from typing import Any, Protocol

import torch
from torch import Tensor
from transformers import PreTrainedModel

from datamux.grouping import Filler
from datamux.hub.models import MuxPreTrainedModel
from datamux.inference.memory import bytes_a_group
from datamux.inference.plan import plan_passes
from datamux.tasks.rows import Rows

Batch = dict[str, Tensor]
POSITIONS = {"cpu": 4096, "cuda": 65_536}  # of one pass: more brings no speed, only memory
MEMORY = 1 << 30  # bytes of one pass


class Runtime(Protocol):
    """`num_instances`: how many rows may share a pass."""

    num_instances: int
    device: torch.device

    def logits(self, batch: Batch, group_size: int) -> Tensor:
        """(i c) or (i l c), on the CPU, in full precision."""
        ...

    def bytes_a_group(self, tokens: int, group_size: int) -> int:
        """About how much memory one group of that length takes while it runs."""
        ...


class TorchRuntime:
    """A model of ours, or any plain Hugging Face classifier (then one row a pass).

    `bf16` runs in half precision; `compiled` lets torch write code for this model, a minute's work at the first pass.
    """

    def __init__(
        self, model: PreTrainedModel, *, bf16: bool = False, compiled: bool = False, filler: Filler = "nothing"
    ) -> None:
        self.model = model.eval()
        self.multiplexed = isinstance(model, MuxPreTrainedModel)
        self.num_instances: int = model.config.num_instances if self.multiplexed else 1
        self.device = model.device
        self.bf16 = bf16
        self.filler = filler
        self._forward: Any = torch.compile(model, dynamic=True) if compiled else model

    @torch.inference_mode()
    def logits(self, batch: Batch, group_size: int) -> Tensor:
        given = {name: x.to(self.device) for name, x in batch.items()}
        if bool(given["attention_mask"].all()):
            del given["attention_mask"]  # nothing is padded, so nothing need be masked
        size = {"group_size": group_size, "filler": self.filler} if self.multiplexed else {}
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.bf16):
            found: Tensor = self._forward(**given, **size).logits
        return found.float().cpu()

    def bytes_a_group(self, tokens: int, group_size: int) -> int:
        token_level = "TokenClassification" in type(self.model).__name__
        return bytes_a_group(self.model.config, tokens, group_size, token_level=token_level)


def bf16_is_quick() -> bool:
    """Whether this machine has instructions for bfloat16. Without them, half precision is the slower one."""
    if torch.cuda.is_available():
        return bool(torch.cuda.is_bf16_supported(including_emulation=False))
    if not hasattr(torch.cpu, "get_capabilities"):
        return True  # an older torch, which does not tell
    found = torch.cpu.get_capabilities()
    return any(found.get(name) for name in ("avx512_bf16", "amx_bf16", "avx10_2", "bf16", "sve_bf16"))


def groups_that_fit(runtime: Runtime, tokens: int, group_size: int, *, positions: int, memory: int) -> int:
    """How many groups of that length one pass may hold, for so many positions and bytes."""
    return max(1, min(positions // max(1, tokens), memory // runtime.bytes_a_group(tokens, group_size)))


def run_passes(
    runtime: Runtime, rows: Rows, group_size: int, *, positions: int | None = None, memory: int = MEMORY
) -> Iterator[tuple[list[int], Tensor]]:
    """Run all rows, those of similar length together: the row numbers of each pass, and their logits."""
    positions = positions or POSITIONS.get(runtime.device.type, POSITIONS["cpu"])
    fits = partial(groups_that_fit, runtime, group_size=group_size, positions=positions, memory=memory)
    for some in plan_passes((rows.ends - rows.starts).tolist(), group_size, fits):
        yield some, runtime.logits(rows.batch(some), min(group_size, len(some)))

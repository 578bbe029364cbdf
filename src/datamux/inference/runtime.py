"""What runs rows, in passes that fit: torch here, exported models in `exported.py`."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any, Literal, Protocol

import torch
from torch import Tensor
from torch.nn import functional as F
from transformers import PreTrainedModel

from datamux.grouping import Filler
from datamux.hub.models import MuxPreTrainedModel
from datamux.inference.pass_memory import PassMemory
from datamux.inference.plan import plan_passes
from datamux.tasks.rows import Rows

Batch = dict[str, Tensor]
Step = Literal["tokenise", "pad", "run", "answer"]  # from texts to answers; "pad" includes sorting by length
StepWatch = Callable[[Step], AbstractContextManager[None]]  # entered around every step, for example to time it
POSITIONS = {"cpu": 4096, "cuda": 65_536}  # per pass; more of them cost memory and gain no speed
MEMORY = 1 << 30  # bytes per pass


def unwatched(step: Step) -> AbstractContextManager[None]:
    """The watch that does nothing."""
    return nullcontext()


class Runtime(Protocol):
    """Something that runs rows, up to `num_instances` of them in one pass."""

    num_instances: int
    device: torch.device
    filler: Filler  # what unused slots hold

    @property
    def groups_are_independent(self) -> bool:
        """Whether the groups of one pass have no influence on each other."""
        ...

    @property
    def empty_slots_change_nothing(self) -> bool:
        """Whether a group has the same answers if empty rows are added to it."""
        ...

    def logits(self, batch: Batch, group_size: int) -> Tensor:
        """(i c) or (i l c), on the CPU, in full precision."""
        ...

    def bytes_per_group(self, tokens: int, group_size: int) -> int:
        """About how many bytes one group takes while it runs, if its longest row has `tokens` tokens."""
        ...


class TorchRuntime:
    """A model of ours, or any plain Hugging Face classifier (then each row is a group of its own).

    `bf16` runs in half precision. `compiled` uses torch.compile, which takes about a minute at the first pass.
    Without a `filler`, unused slots hold what the model says.
    """

    def __init__(
        self, model: PreTrainedModel, *, bf16: bool = False, compiled: bool = False, filler: Filler | None = None
    ) -> None:
        self.model = model.eval()
        self.multiplexed = isinstance(model, MuxPreTrainedModel)
        self.num_instances: int = model.config.num_instances if self.multiplexed else 1
        self.device = model.device
        self.bf16 = bf16
        usual: Filler = model.filler if isinstance(model, MuxPreTrainedModel) else "nothing"
        self.filler: Filler = usual if filler is None else filler
        self.padded_length: int = getattr(model.config, "padded_length", None) or 0
        self._memory = _memory_of(model)
        self._forward: Any = torch.compile(model, dynamic=True) if compiled else model

    @property
    def groups_are_independent(self) -> bool:
        return True

    @property
    def empty_slots_change_nothing(self) -> bool:
        return self.filler == "nothing" and not self._memory.has_prefix

    @torch.inference_mode()
    def logits(self, batch: Batch, group_size: int) -> Tensor:
        tokens = batch["input_ids"].shape[1]
        given = {name: x.to(self.device) for name, x in padded_to(self.padded_length, batch).items()}
        if bool(given["attention_mask"].all()):
            del given["attention_mask"]  # nothing is padded, and the encoder is faster without a mask
        size = {"group_size": group_size, "filler": self.filler} if self.multiplexed else {}
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.bf16):
            found: Tensor = self._forward(**given, **size).logits
        return unpadded(found, tokens).float().cpu()

    def bytes_per_group(self, tokens: int, group_size: int) -> int:
        return self._memory.bytes_per_group(tokens, group_size)


def padded_to(length: int, batch: Batch) -> Batch:
    """The rows of `batch`, padded to at least `length` tokens, for models that were trained with padding in view."""
    missing = length - batch["input_ids"].shape[1]
    return batch if missing <= 0 else {name: F.pad(x, (0, missing)) for name, x in batch.items()}


def unpadded(logits: Tensor, tokens: int) -> Tensor:
    """Logits (i c) as they are, and (i l c) without the positions that `padded_to` added."""
    return logits[:, :tokens] if logits.dim() == 3 else logits


def _memory_of(model: PreTrainedModel) -> PassMemory:
    if not isinstance(model, MuxPreTrainedModel):
        return PassMemory(model.config)
    head: Any = model.mux.head
    return PassMemory(model.config, model.mux.demultiplexer, head.reads if head is not None else "all")


def bf16_is_quick() -> bool:
    """Whether this machine has instructions for bfloat16. Without them, half precision is slower than full."""
    if torch.cuda.is_available():
        return bool(torch.cuda.is_bf16_supported(including_emulation=False))
    if not hasattr(torch.cpu, "get_capabilities"):
        return True  # an older torch cannot tell
    found = torch.cpu.get_capabilities()
    return any(found.get(name) for name in ("avx512_bf16", "amx_bf16", "avx10_2", "bf16", "sve_bf16"))


def groups_that_fit(runtime: Runtime, tokens: int, group_size: int, *, positions: int, memory: int) -> int:
    """How many groups of that length fit into one pass of at most `positions` positions and `memory` bytes."""
    return max(1, min(positions // max(1, tokens), memory // runtime.bytes_per_group(tokens, group_size)))


def run_passes(
    runtime: Runtime,
    rows: Rows,
    group_size: int,
    *,
    positions: int | None = None,
    memory: int = MEMORY,
    watch: StepWatch = unwatched,
) -> Iterator[tuple[list[int], Tensor]]:
    """Run all rows, those of similar length together. Yields the row numbers of each pass and their logits."""
    positions = positions or POSITIONS.get(runtime.device.type, POSITIONS["cpu"])
    fits = partial(groups_that_fit, runtime, group_size=group_size, positions=positions, memory=memory)
    with watch("pad"):
        passes = plan_passes((rows.ends - rows.starts).tolist(), group_size, fits)
    for some in passes:
        with watch("pad"):
            batch = rows.batch(some)
        with watch("run"):
            logits = runtime.logits(batch, min(group_size, len(some)))
        yield some, logits

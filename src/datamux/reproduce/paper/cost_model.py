"""What a pass should cost: operations and bytes of each part, from the shapes alone.

    time of a part = max(operations / speed, bytes / bandwidth),     time of a pass = the sum over its parts

Encoder, per position and layer: 24 d^2 operations for its matrices and 4 (p + l) d for attention. Mixing and the sums
of the demultiplexer are elementwise: they move bytes. Caches, padding, and the start of kernels are left out.
"""

from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Machine:
    """How many operations per second matrices reach, and how many bytes per second memory gives."""

    name: str
    operations: float
    bandwidth: float
    width: int = 4  # bytes of a number


@dataclass(frozen=True)
class Shape:
    """An encoder, the length of its texts, and the demultiplexer: `wide` is its hidden layer; `prefix`: it has one."""

    layers: int
    hidden: int
    tokens: int
    wide: int = 0
    prefix: bool = False

    @property
    def demultiplexer_width(self) -> int:
        return self.wide or 2 * self.hidden


# Published peak numbers; matrices of this size reach about half of the peak.
RTX_2080 = Machine("RTX 2080, fp32", 0.5 * 10.1e12, 448e9)
H100 = Machine("H100, bf16", 0.5 * 989e12, 3350e9, 2)


def pass_parts(shape: Shape, k: int, groups: int) -> dict[str, tuple[float, float]]:
    """(operations, numbers moved) of each part of one pass of `groups` groups of k texts; k = 0 is the plain model."""
    d, e, slots = shape.hidden, shape.demultiplexer_width, max(1, k)
    positions = groups * (shape.tokens + (k if shape.prefix else 0))
    parts: dict[str, tuple[float, float]] = {
        "encoder": (
            shape.layers * positions * (24 * d**2 + 4 * (positions / groups) * d),
            shape.layers * (12 * d**2 + positions * 34 * d),
        ),
        "head": (groups * slots * 2 * d**2, d**2 + 4 * groups * slots * d),
    }
    if k:
        parts["mixing"] = (2.0 * groups * k * shape.tokens * d, 2.0 * groups * k * shape.tokens * d)
        per_slot = 2.0 * groups * k * shape.tokens * e if shape.prefix else 2.0 * groups * k * e
        parts["demultiplexer"] = (
            2.0 * positions * d * e + 2.0 * groups * k * e * d + per_slot,
            positions * (d + 2 * e) + per_slot + 2 * d * e,
        )
    return parts


def seconds(shape: Shape, k: int, groups: int, machine: Machine) -> float:
    """The time of one pass."""
    return sum(
        max(operations / machine.operations, machine.width * moved / machine.bandwidth)
        for operations, moved in pass_parts(shape, k, groups).values()
    )


def throughput(shape: Shape, k: int, machine: Machine, *, groups: int = 32) -> float:
    """Texts per second; k = 0 is the plain model."""
    return max(1, k) * groups / seconds(shape, k, groups, machine)


def narrower(shape: Shape, k: int) -> Shape:
    """The plain model whose matrices cost as much per text as the mixed one's: k times fewer weights."""
    return replace(shape, hidden=max(1, round(shape.hidden / k**0.5)))

"""How many texts share a pass is decided by the load. Pure arithmetic: knows no model and no clock.

A gear is a way to run a pass: an engine and a group size. Gears are listed from the most accurate to the fastest. An
idle server uses the first; as more texts wait, it shifts to the first gear that can take all of them in one pass, and
to the last one if none can. So an overload costs a little accuracy before it costs a refused request.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from datamux.errors import check_at_least_one


@dataclass(frozen=True)
class Gear:
    """`engine` names what runs the pass, and `group_size` texts share it; `score`, `speed`, `ratio` (its speed
    against that of the plain model) and `flips` (the share of answers that change with the neighbours) are for people.

    `pace` is how many groups it runs while the first gear runs one; it is not 1 where gears are different models.
    `independent`: the groups of a pass have no influence on each other. If they have, a pass holds only one tenant.
    """

    name: str
    group_size: int
    engine: str = "model"
    score: float | None = None
    speed: float | None = None
    pace: float = 1.0
    independent: bool = True
    ratio: float | None = None
    flips: float | None = None


class Gearbox:
    """The gears that an operator allows, from the most accurate to the fastest. The first one serves an idle server."""

    def __init__(self, gears: Sequence[Gear]) -> None:
        if not gears:
            raise ValueError("a server needs at least one gear; none was given")
        for gear in gears:
            check_at_least_one(f"group_size of gear {gear.name!r}", gear.group_size)
        self.gears = tuple(gears)

    @property
    def alone(self) -> Gear:
        """The gear for texts that must not share a pass: the first one that has group size 1."""
        for gear in self.gears:
            if gear.group_size == 1:
                return gear
        first = self.gears[0]
        return Gear(f"{first.name}-alone", 1, first.engine, first.score, independent=first.independent)

    @property
    def fastest(self) -> Gear:
        return self.gears[-1]

    def choose(self, waiting: Sequence[int], groups: int) -> Gear:
        """The gear for the texts that wait, counted per tenant, where one pass holds at most `groups` groups.

        Texts of two tenants never share a group, so many tenants with one text each gain nothing from a larger group.
        """
        best, least = self.gears[0], float("inf")
        for gear in self.gears:
            work = sum(-(-texts // gear.group_size) for texts in waiting) / gear.pace
            if work <= groups:
                return gear
            if work < least:
                best, least = gear, work
        return best

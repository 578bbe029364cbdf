"""What a user asks of `datamux tune`, checked before anything is trained."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import file_digest
from pathlib import Path

BUDGET = "60m"  # on two cores this trains an encoder of six layers on some ten thousand rows, and a dozen contenders
SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
LEAST_SECONDS = 10


def parse_budget(text: str) -> float:
    """Seconds, from "45m", "2h", "1h30m" or "90" (seconds)."""
    written = text.lower().replace(" ", "")
    parts = re.findall(r"(\d+(?:\.\d+)?)([smhd]?)", written)
    if not parts or "".join(number + unit for number, unit in parts) != written:
        raise ValueError(f"the budget must be a time such as 45m, 2h, 1h30m or 90s, got {text!r}")
    seconds = sum(float(number) * SECONDS[unit or "s"] for number, unit in parts)
    if seconds < LEAST_SECONDS:
        raise ValueError(f"the budget must be at least {LEAST_SECONDS} seconds, got {text!r}")
    return seconds


@dataclass(frozen=True)
class Wish:
    """What the chosen model must do. Without a limit, it may lose `max_drop` points against the reference.

    `sure`: in at least this share of random samples of the rows the limit must hold.
    """

    max_drop: float | None = None
    min_score: float | None = None
    min_speed: float | None = None
    sure: float = 0.5

    def __post_init__(self) -> None:
        given = [name for name in ("max_drop", "min_score", "min_speed") if getattr(self, name) is not None]
        if len(given) > 1:
            flags = " and ".join("--" + name.replace("_", "-") for name in given)
            raise ValueError(f"{flags} cannot be combined: choose one of --max-drop, --min-score and --min-speed")
        if self.max_drop is not None and not 0 <= self.max_drop <= 100:
            raise ValueError(f"--max-drop must be 0 to 100 points, got {self.max_drop:g}")
        if self.min_score is not None and not 0 < self.min_score <= 100:
            raise ValueError(f"--min-score must be a percentage above 0 and at most 100, got {self.min_score:g}")
        if self.min_speed is not None and self.min_speed <= 0:
            raise ValueError(f"--min-speed must be more than 0 texts per second, got {self.min_speed:g}")
        if not 0 <= self.sure < 1:
            raise ValueError(f"--sure must be at least 0 and below 1, got {self.sure:g}")

    @property
    def points(self) -> float:
        """How many points may be lost."""
        return 1.0 if self.max_drop is None else self.max_drop

    def __str__(self) -> str:
        if self.min_speed is not None:
            return f"at least {self.min_speed:,.0f} texts per second"
        if self.min_score is not None:
            return f"a score of at least {self.min_score:g}"
        return f"at most {self.points:g} point{'' if self.points == 1 else 's'} below the reference"


@dataclass(frozen=True)
class Settings:
    """Everything that a run of `datamux tune` depends on."""

    out: Path
    train: Path | None = None
    task: str | None = None
    text: Sequence[str] = ("text",)
    label: str = "label"
    validation: Path | None = None
    test: Path | None = None
    unlabelled: Path | None = None
    encoder: str | None = None
    budget: float = parse_budget(BUDGET)
    wish: Wish = Wish()
    metric: str = "auto"
    token_level: bool = False
    families: Sequence[str] = ()
    engines: Sequence[str] = ()
    max_rows: int = 100_000
    seed: int = 0
    data_dir: str | None = None

    def __post_init__(self) -> None:
        if (self.train is None) == (self.task is None):
            raise ValueError("give your rows with --train FILE, or the name of a known task with --task NAME")

    def identity(self) -> dict[str, object]:
        """What must be the same for a run to be continued. The wish and the budget may change."""
        files = {
            name: _fingerprint(file)
            for name in ("train", "validation", "test", "unlabelled")
            if (file := getattr(self, name)) is not None and file.exists()
        }
        same = ("task", "label", "encoder", "metric", "token_level", "max_rows", "seed")
        return {"files": files, "text": list(self.text)} | {name: getattr(self, name) for name in same}


def _fingerprint(file: Path) -> str:
    with file.open("rb") as handle:
        return file_digest(handle, "sha256").hexdigest()

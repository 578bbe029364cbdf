"""What `datamux.tune` returns: the best model, the table of everything that was tried, and the plot."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from datamux.inference.predictor import Predictor, load


@dataclass(frozen=True)
class Result:
    """`folder` holds the best model and `report.html`; `record` is what `tune.json` says."""

    folder: Path
    record: dict[str, Any]

    @cached_property
    def best(self) -> Predictor:
        """The chosen model, ready to answer."""
        return load(self.folder)

    @property
    def table(self) -> list[dict[str, Any]]:
        """One row per model, engine and group size that was timed, the slowest first; then all others."""
        found: list[dict[str, Any]] = self.record["table"]
        return found

    @property
    def recommendation(self) -> str:
        return " ".join(self.record["recommendation"])

    def as_record(self) -> dict[str, Any]:
        """The run record, without the state of the search."""
        return {name: value for name, value in self.record.items() if name != "table"} | {"results": self.table}

    def plot(self, file: str | Path | None = None) -> Path:
        """Draw accuracy against throughput as an SVG file, by default beside the report."""
        from datamux.tuning.plot import frontier_svg

        target = Path(file) if file is not None else self.folder / "frontier.svg"
        target.write_text(frontier_svg(self.record), encoding="utf-8")
        return target

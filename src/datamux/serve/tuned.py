"""The gears of a folder that `datamux tune` left: several models with the same labels and the same tokenizer.

`gears.json` lists them from the most accurate to the fastest. None of them scores below what the user asked for,
unless the chosen model itself does, which is always among them.
"""

import json
from pathlib import Path
from typing import Any

from datamux.inference.predictor import Predictor, load
from datamux.serve.gears import Gear
from datamux.serve.settings import Settings, group_sizes

FILE = "gears.json"
MODEL = "model"  # the engine that runs the folder's own model


def tuned_gears(folder: Path, settings: Settings) -> list[Gear]:
    """The gears that the operator allows; none if the folder has no `gears.json`."""
    file = folder / FILE
    if not file.is_file():
        return []
    gears: list[dict[str, Any]] = json.loads(file.read_text(encoding="utf-8"))
    first = gears[0]
    slowest = first["speed"] / first["group_size"]  # groups per second of the most accurate gear
    found = [
        Gear(
            gear["name"].replace(",", ""),  # names of gears are listed with commas
            gear["group_size"],
            MODEL if gear["folder"] == "." else gear["folder"],
            gear["score"],
            gear["speed"],
            pace=gear["speed"] / gear["group_size"] / slowest,
        )
        for gear in gears
    ]
    kept = [gear for gear in found if _allowed(gear, max(gear.score or 0 for gear in found), settings)]
    if not kept:
        raise ValueError(
            f"no model in {file} is allowed by these options; leave out --deterministic, --max-drop, --max-group-size "
            "and --gears, or give the folder of one model"
        )
    return kept


def _allowed(gear: Gear, best: float, settings: Settings) -> bool:
    if settings.deterministic and gear.group_size > 1:
        return False
    if settings.max_group_size is not None and gear.group_size > settings.max_group_size:
        return False
    if settings.gears is not None and gear.group_size not in group_sizes(settings.gears):
        return False
    return settings.max_drop is None or gear.score is None or 100 * (best - gear.score) <= settings.max_drop


def load_gears(
    folder: Path, gears: list[Gear], model: Predictor, settings: Settings | None = None
) -> dict[str, Predictor]:
    """One predictor per model that the gears name. All of them must cut and split texts alike."""
    chosen = settings or Settings()
    found = {MODEL: model}
    for gear in gears:
        if gear.engine not in found:
            found[gear.engine] = load(
                folder / gear.engine, device=chosen.device, bf16=chosen.bf16, compiled=chosen.compiled
            )
    for name, predictor in found.items():
        if predictor.names != model.names or predictor.texts.max_tokens != model.texts.max_tokens:
            raise ValueError(f"{folder / name} has other labels or another limit of tokens than {folder}: tune again")
    return found

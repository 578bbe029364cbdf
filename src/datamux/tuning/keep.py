"""What a search leaves: the folder of the best model, ready to use, and others of the frontier as gears beside it."""

import json
import os
import shutil
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from datamux.evaluate.records import write_record
from datamux.inference.preferences import FILE as PREFERENCES
from datamux.inference.preferences import Preferences
from datamux.tuning.choice import Choice, Judged
from datamux.tuning.engines import exported_files
from datamux.tuning.settings import Wish

GEARS = "gears"
LARGE = 1 << 20  # bytes
MODEL_FILES = (".json", ".safetensors", ".txt", ".model")
LEFT_BEHIND = ("tune.json", PREFERENCES, "card.json", "export.json", "gears.json", "held_out.json")


def write_best(
    out: Path,
    choice: Choice,
    judged: Sequence[Judged],
    exported: Path,
    card: dict[str, Any],
    wish: Wish,
    columns: Sequence[str] = (),
) -> list[dict[str, Any]]:
    """Put the chosen model into `out`, and the other frontier models that meet the wish into `out/gears`."""
    shutil.rmtree(out / GEARS, ignore_errors=True)
    for old in (*out.glob("model.*"), out / "export.json", out / "config.json"):
        old.unlink(missing_ok=True)
    kept = _gears(choice, judged, wish)
    gears = []  # their speeds go by the ratios, which compare models within each round; rates wander between rounds
    for place, one in enumerate(kept):
        is_best = one.point.name == choice.best.point.name
        folder = out if is_best else out / GEARS / f"{place}-{one.point.engine}-{one.point.group_size}"
        _write_model(one, folder, exported, columns)
        gears.append(
            {
                "name": one.point.name,
                "folder": "." if is_best else str(folder.relative_to(out)),
                "group_size": one.point.group_size,
                "score": one.point.score,
                "speed": kept[0].point.rate * one.point.ratio / kept[0].point.ratio,
            }
        )
    (out / "gears.json").write_text(json.dumps(gears, indent=1) + "\n")
    size = str(choice.best.point.group_size)
    scores = card.get("scores", {}) | {size: choice.best.point.score}
    speed = {size: {"texts_per_second": choice.best.point.rate}}
    write_record(card | {"scores": scores, "speed": speed}, out / "card.json")
    return gears


def _gears(choice: Choice, judged: Sequence[Judged], wish: Wish) -> list[Judged]:
    """The best, and what is on the frontier and meets the wish: from the most accurate to the fastest.

    A server answers a text that is left over in a mixed gear by itself, so its score for single texts counts, too.
    """
    kept = [one for one in _good_enough(judged) if one.meets_alone]
    if wish.min_speed is not None or not choice.met:
        kept = []
    names = {one.point.name for one in kept}
    kept += [choice.best] if choice.best.point.name not in names else []
    return sorted(kept, key=lambda one: one.point.ratio)


def left_out_alone(choice: Choice, judged: Sequence[Judged], wish: Wish) -> list[Judged]:
    """What would be a gear, if it were good enough for single texts."""
    if wish.min_speed is not None or not choice.met:
        return []
    return [one for one in _good_enough(judged) if not one.meets_alone and one.point.name != choice.best.point.name]


def _good_enough(judged: Sequence[Judged]) -> list[Judged]:
    return [one for one in judged if one.point.best and one.meets and one.point.folder]


def _write_model(one: Judged, folder: Path, exported: Path, columns: Sequence[str]) -> None:
    """Weights, tokenizer and recipe; the exported file if there is one; and how the folder wants to be run."""
    folder.mkdir(parents=True, exist_ok=True)
    source = Path(one.point.folder)
    files = [file for file in sorted(source.iterdir()) if file.suffix in MODEL_FILES and file.name not in LEFT_BEHIND]
    if one.point.engine not in ("torch", "bf16"):
        files += exported_files(exported / source_name(source) / one.point.engine)
    for file in sorted(files, key=lambda file: file.name == "config.json"):  # last: a folder with it is complete
        _link(file, folder / file.name)
    size, positions = one.point.group_size, one.point.positions
    Preferences(one.point.engine == "bf16", size if size > 1 else None, positions or None, tuple(columns)).write(folder)


def source_name(folder: Path) -> str:
    """A short name for the folder of a trained model: contender and rung."""
    return "-".join(part for part in folder.parts[-4:] if part not in ("task", "model"))


def _link(file: Path, target: Path) -> None:
    """A large file under a second name, so that it takes no room twice; a copy where that is not possible."""
    target.unlink(missing_ok=True)
    if file.stat().st_size > LARGE:
        with suppress(OSError):
            os.link(file.resolve(), target)
            return
    shutil.copyfile(file, target)

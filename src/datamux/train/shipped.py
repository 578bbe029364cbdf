"""The recipes in the package, by name.

Each file in `recipes/small/` is one recipe. The paper's recipes are two files, `recipes/paper/warmup.toml` and
`recipes/paper/task.toml`, filled in for every model size and task: "paper/12l-768h/warmup", "paper/4l-768h/sst2", ...
`recipes/mini/` holds the same two files for one small size: "mini/warmup", "mini/sst2", ...
"""

import tomllib
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

PAPER_SIZES = {
    "12l-768h": {"layers": 12, "hidden": 768, "heads": 12},
    "12l-768h-2heads": {"layers": 12, "hidden": 768, "heads": 2},
    "12l-384h": {"layers": 12, "hidden": 384, "heads": 12},
    "4l-768h": {"layers": 4, "hidden": 768, "heads": 12},
}
PAPER_TASKS = ("sst2", "qqp", "mnli", "qnli", "conll2003")


@dataclass(frozen=True)
class ShippedRecipe:
    """What a recipe is for, in one line, and its settings as nested dicts."""

    summary: str
    settings: dict[str, dict[str, Any]]


def shipped_recipes() -> dict[str, ShippedRecipe]:
    """Name -> recipe, sorted by name."""
    folder = Path(str(files("datamux"))) / "recipes"
    small = {f"small/{file.stem}": _read(file) for file in (folder / "small").glob("*.toml")}
    return dict(sorted((small | _paper_recipes(folder / "paper") | _mini_recipes(folder / "mini")).items()))


def _read(file: Path) -> ShippedRecipe:
    text = file.read_text()
    return ShippedRecipe(summary=text.splitlines()[0].removeprefix("# "), settings=tomllib.loads(text))


def _paper_recipes(folder: Path) -> dict[str, ShippedRecipe]:
    warmup, task = _read(folder / "warmup.toml").settings, _read(folder / "task.toml").settings
    recipes = {}
    for name, size in PAPER_SIZES.items():
        scale = f"at the paper's scale: {size['layers']} layers of {size['hidden']}, {size['heads']} heads"
        recipes[f"paper/{name}/warmup"] = ShippedRecipe(
            summary=f"Retrieval warm-up {scale}; choose N with --num-instances",
            settings=warmup | {"model": warmup["model"] | size},
        )
        for task_name in PAPER_TASKS:
            recipes[f"paper/{name}/{task_name}"] = ShippedRecipe(
                summary=f"{task_name} {scale}; start from the model of paper/{name}/warmup: --start FOLDER",
                settings=task | {"model": task["model"] | size, "task": task["task"] | {"name": task_name}},
            )
    return recipes


def _mini_recipes(folder: Path) -> dict[str, ShippedRecipe]:
    """The paper's way of training in a size for two CPU cores."""
    task = _read(folder / "task.toml").settings
    recipes = {"mini/warmup": _read(folder / "warmup.toml")}
    for name in PAPER_TASKS:
        recipes[f"mini/{name}"] = ShippedRecipe(
            summary=f"{name} at the mini scale; start from the model of mini/warmup: --start FOLDER",
            settings=task | {"task": task["task"] | {"name": name}},
        )
    return recipes

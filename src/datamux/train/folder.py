"""The folder of a run: whose it is, so that another run does not go on with it.

`run.json` holds the recipe and what tells the user's own files from others.
"""

import json
import shutil
from pathlib import Path
from typing import Any

from datamux.tasks.task import Task
from datamux.train.recipe import Recipe, parse_recipe


def check_same_run(recipe: Recipe, task: Task | None, folder: Path) -> None:
    """A folder of another recipe or other files is not gone on with, if there is anything to go on with."""
    other = other_run(recipe, task, folder)
    kept = any(folder.glob("*/checkpoint-*")) or any(folder.glob("*/model/training.json"))
    if other and kept:
        file = folder / "run.json"
        raise ValueError(f"{folder} holds a run {other} (see {file}); choose another folder or remove it")


def other_run(recipe: Recipe, task: Task | None, folder: Path) -> str:
    """How the run that was begun in a folder differs from this one, if it does."""
    file = folder / "run.json"
    if not file.exists():
        return ""
    before = json.loads(file.read_text())
    if before["recipe"] != recipe.as_dict() and parse_recipe(before["recipe"]) != recipe:
        return "of another recipe"
    return "on other files" if before["data"] != _own_files(recipe, task) else ""


def forget_run(folder: Path) -> None:
    """Remove what a run that failed before its first checkpoint has made from its own settings."""
    shutil.rmtree(folder / "tokenizer", ignore_errors=True)
    for made in (*folder.glob("warmup/*.pt"), *folder.glob("task/*.pt")):
        made.unlink()


def remember_run(recipe: Recipe, task: Task | None, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    run = {"recipe": recipe.as_dict(), "data": _own_files(recipe, task)}
    (folder / "run.json").write_text(json.dumps(run, indent=2))


def _own_files(recipe: Recipe, task: Task | None) -> dict[str, Any]:
    """What tells one set of the user's own files from another: names, sizes, columns."""
    given = {} if task is None else dict(task.files)
    if recipe.task.unlabelled:
        given["unlabelled"] = Path(recipe.task.unlabelled)
    sizes = {split: [str(file), file.stat().st_size] for split, file in given.items() if file.exists()}
    columns = {} if task is None or not task.files else {"text": list(task.text), "label": task.label}
    return {"files": sizes, **columns} if sizes else {}

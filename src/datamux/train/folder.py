"""Which run a folder belongs to, so that another run does not continue it.

`run.json` in the folder holds the recipe, and the names, sizes and columns of the user's files.
"""

import json
import shutil
from pathlib import Path
from typing import Any

from datamux.tasks.task import Task
from datamux.train.recipe import Recipe, parse_recipe


def check_same_run(recipe: Recipe, task: Task | None, folder: Path) -> None:
    """Raise if the folder has checkpoints or a model of a run with another recipe or other files."""
    difference = other_run(recipe, task, folder)
    has_results = any(folder.glob("*/checkpoint-*")) or any(folder.glob("*/model/training.json"))
    if difference and has_results:
        file = folder / "run.json"
        raise ValueError(f"{folder} holds a run {difference} (see {file}); choose another folder or remove it")


def other_run(recipe: Recipe, task: Task | None, folder: Path) -> str:
    """How the run that was started in this folder differs from the present one; empty if it does not differ."""
    file = folder / "run.json"
    if not file.exists():
        return ""
    before = json.loads(file.read_text())
    if before["recipe"] != recipe.as_dict() and _parse_or_none(before["recipe"]) != recipe:
        return "of another recipe"
    return "on other files" if before["data"] != _describe_files(recipe, task) else ""


def _parse_or_none(data: dict[str, Any]) -> Recipe | None:
    """A saved recipe; None if another version of this package wrote it with settings that this one does not allow."""
    try:
        return parse_recipe(data)
    except ValueError:
        return None


def forget_run(folder: Path) -> None:
    """Remove the tokenizer and cached tensors of a run that failed before its first checkpoint."""
    shutil.rmtree(folder / "tokenizer", ignore_errors=True)
    for cached_tensor in folder.glob("*/*.pt"):
        cached_tensor.unlink()


def remember_run(recipe: Recipe, task: Task | None, folder: Path) -> None:
    """Write `run.json`."""
    folder.mkdir(parents=True, exist_ok=True)
    run = {"recipe": recipe.as_dict(), "data": _describe_files(recipe, task)}
    (folder / "run.json").write_text(json.dumps(run, indent=2))


def _describe_files(recipe: Recipe, task: Task | None) -> dict[str, Any]:
    """Names, sizes and columns of the user's files, which tell one set of files from another."""
    files = {} if task is None else dict(task.files)
    if recipe.task.unlabelled:
        files["unlabelled"] = Path(recipe.task.unlabelled)
    sizes = {split: [str(file), file.stat().st_size] for split, file in files.items() if file.exists()}
    columns = {} if task is None or not task.files else {"text": list(task.text), "label": task.label}
    return {"files": sizes, **columns} if sizes else {}

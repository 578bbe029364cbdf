"""Ask the reference once for all contenders, so that the first of them does not pay for it; keep trainings quiet."""

import contextlib
import logging
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from datamux.hub.loading import load_tokenizer
from datamux.hub.models import MuxPreTrainedModel
from datamux.tasks.rows import encode_examples
from datamux.train.build import build
from datamux.train.data import task_examples
from datamux.train.recipe import Recipe
from datamux.train.stages import CLASSIFIERS, HEADS
from datamux.train.teachers import load_teacher, teach
from datamux.train.unlabelled import with_unlabelled
from datamux.tuning.data import Data


def ask_reference(recipe: Recipe, data: Data, folder: Path, tell: Callable[[str], None]) -> None:
    """Save the reference's answers to all rows that `recipe` learns from; its other students find them there."""
    tokenizer = load_tokenizer(recipe.model.tokenizer or recipe.model.start)
    examples, _, labels = task_examples(data.task, None, 1)
    examples = with_unlabelled(examples, recipe.task, data.task, labels)
    rows = encode_examples(examples, labels, tokenizer, recipe.model.max_tokens)
    model = build(recipe.model, HEADS[data.task.kind], vocab_size=len(tokenizer), labels=labels)
    teacher = load_teacher(recipe.task.teacher, CLASSIFIERS[data.task.kind], labels)
    assert isinstance(model, MuxPreTrainedModel)
    assert teacher is not None
    tell(f"asking the reference about {len(rows):,} rows, once for all contenders")
    teach(teacher, model, recipe, rows, examples, labels, tokenizer, folder)


@contextlib.contextmanager
def written_to(file: Path) -> Iterator[Callable[[Callable[[], None]], None]]:
    """What a training prints goes to a file: a search has dozens of trainings.

    The function that this gives runs another one outside of it, whose words are then shown.
    """
    file.parent.mkdir(parents=True, exist_ok=True)
    quiet = logging.getLogger("datamux")
    level, shown = quiet.level, (sys.stdout, sys.stderr)

    def aloud(say: Callable[[], None]) -> None:
        with contextlib.redirect_stdout(shown[0]), contextlib.redirect_stderr(shown[1]):
            quiet.setLevel(level)
            try:
                say()
            finally:
                quiet.setLevel(logging.WARNING)

    with file.open("a", encoding="utf-8") as log, contextlib.redirect_stdout(log), contextlib.redirect_stderr(log):
        quiet.setLevel(logging.WARNING)
        try:
            yield aloud
        finally:
            quiet.setLevel(level)

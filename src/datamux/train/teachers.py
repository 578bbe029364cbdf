"""Teachers: the answers of a plain model for the training rows, computed once and saved for all its students.

A teacher may have other word pieces than its student. It then reads the texts with its own tokenizer, and its answer
for a word goes to the student's first piece of that word.
"""

import json
import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache, partial
from hashlib import sha256
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedConfig, PreTrainedModel, PreTrainedTokenizerBase

from datamux.demultiplexers.base import mean_over_own_tokens
from datamux.hub.frozen import plain_inputs
from datamux.hub.loading import (
    is_made_for,
    label_names,
    load_classifier_with,
    load_config,
    load_model,
    load_tokenizer,
)
from datamux.hub.models import MuxPreTrainedModel
from datamux.reads import Reads
from datamux.tasks.examples import Examples
from datamux.tasks.labels import Labels
from datamux.tasks.rows import IGNORED, Rows, encode_examples
from datamux.train.build import in_bf16, is_ours
from datamux.train.data import cached
from datamux.train.recipe import Recipe, TaskSettings

logger = logging.getLogger(__name__)
NEEDS_STATES = ("contrastive",)  # the extra losses that compare with the teacher's states
Inputs = dict[str, Tensor | None]
TEACHER_ROWS = 128  # how many rows a teacher answers at once
WEIGHT = 0.5  # the weight of a teacher's logits, if the recipe does not set one
SURE = 10.0  # the logit of the true label, for a word that the teacher did not see


def with_teacher(recipe: Recipe, start: str, labels: Labels, kind: str) -> Recipe:
    """The recipe with its teacher: the one it names, or the plain classifier that a multiplexed model starts from."""
    task = recipe.task
    teacher = "" if task.teacher == "none" else task.teacher
    if not task.teacher and start and recipe.model.num_instances > 1 and can_teach(start, labels, kind):
        teacher = start
    if not teacher and (task.distill_logits or needs_states(task)):
        raise ValueError(
            "task.distill_logits, task.distill_states and the contrastive loss need a teacher, and there is none: "
            "name one with --set task.teacher=FOLDER_OR_NAME, or start from a classifier with the task's labels"
        )
    weight = task.distill_logits if not teacher or needs_states(task) else task.distill_logits or WEIGHT
    return replace(recipe, task=replace(task, teacher=teacher, distill_logits=weight))


def needs_states(task: TaskSettings) -> bool:
    """Whether the student learns from the teacher's states."""
    return task.distill_states > 0 or any(task.extra_losses.get(name, 0) > 0 for name in NEEDS_STATES)


def can_teach(name: str, labels: Labels, kind: str) -> bool:
    """Whether a model is a plain classifier (of the kind "sequence" or "token") with these labels."""
    config = load_config(name)
    plain = not is_ours(config) or config.num_instances == 1
    if not plain or not is_made_for(config, f"{kind.title()}Classification"):
        return False
    known = label_names(config)
    if label_order(known, labels.names) is None:
        logger.warning(
            "%s is not the teacher: it has the labels %s, but the task has %s", name, known[:20], labels.names[:20]
        )
        return False
    return True


def label_order(known: Sequence[str], names: Sequence[str]) -> list[int] | None:
    """For each of the task's label `names`, its number among the labels that a teacher knows; None if they differ.

    Case does not matter. LABEL_0, LABEL_1, ... are not real names: they are matched with the task's labels by number.
    """
    if len(known) != len(names):
        return None
    by_number = list(range(len(names)))
    if list(known) in (list(names), [f"LABEL_{number}" for number in by_number]):
        return by_number
    folded = [name.casefold() for name in known]
    wanted = [name.casefold() for name in names]
    if len(set(wanted)) < len(wanted) or set(folded) != set(wanted):
        return None
    return [folded.index(name) for name in wanted]


def order_of(config: PreTrainedConfig, labels: Labels) -> list[int]:
    """For each label of the task, its number in a teacher with this configuration."""
    known = label_names(config)
    order = label_order(known, labels.names)
    if order is None:
        name = config.name_or_path
        raise ValueError(
            f"the teacher {name} has the labels {known[:20]}, but the task has {labels.names[:20]}; "
            "they must be the same, in any order"
        )
    return order


def check_label_order(name: str, labels: Labels) -> None:
    """Raise unless a classifier that is kept as it is has the labels in the order of the task."""
    order = order_of(load_config(name), labels)
    if order != sorted(order):
        raise ValueError(
            f"{name} is kept as it is, so its labels must be in the task's order: {', '.join(labels.names[:20])}"
        )


def check_teacher(name: str, auto: Any, labels: Labels) -> PreTrainedConfig:
    """The configuration of a teacher, which must be made for the task and have the same `labels`, in any order."""
    config = load_config(name)
    purpose = auto.__name__.removeprefix("AutoModelFor")
    if not is_made_for(config, purpose):
        saved_as = (config.architectures or ["a model of unknown class"])[0]
        raise ValueError(
            f"{name} cannot be the teacher: it was saved as {saved_as}, and the task needs a model for {purpose}"
        )
    order_of(config, labels)
    return config


def load_teacher(name: str, auto: Any, labels: Labels | None = None) -> PreTrainedModel | None:
    """A frozen teacher: one of our models, or one that the Auto class `auto` loads; None if there is no name.

    With `labels`, the teacher must have the same labels.
    """
    if not name:
        return None
    config = load_config(name) if labels is None else check_teacher(name, auto, labels)
    teacher = load_model(name) if is_ours(config) else load_classifier_with(auto, name)
    if labels is not None and (known := label_names(config)) != labels.names:
        pairs = zip(order_of(config, labels)[:20], labels.names, strict=False)
        matches = ", ".join(f"{known[number]} = {label}" for number, label in pairs)
        logger.info("the labels of the teacher %s are matched like this: %s", name, matches)
    return teacher.eval().requires_grad_(False)


def teach(
    teacher: PreTrainedModel,
    model: MuxPreTrainedModel,
    recipe: Recipe,
    rows: Rows,
    examples: Examples,
    labels: Labels,
    tokenizer: PreTrainedTokenizerBase,
    folder: Path,
) -> None:
    """Store the teacher's logits and states in `rows`, as far as the recipe asks for them."""
    name, bf16 = recipe.task.teacher, in_bf16(recipe.run)
    order = order_of(teacher.config, labels)
    file = partial(_file_of_answers, name, rows, folder, bf16, order)

    @cache
    def teacher_rows() -> Rows:
        teacher_tokenizer = _tokenizer_of(name)
        if teacher_tokenizer is None or _reads_alike(teacher_tokenizer, tokenizer):
            return rows
        return encode_examples(examples, labels, teacher_tokenizer, min(teacher_tokenizer.model_max_length, 512))

    if recipe.task.distill_logits > 0 and needs_states(recipe.task):
        files = file("logits"), file(f"states-{reads_of(model)}")
        one_pass = isinstance(teacher, MuxPreTrainedModel) and teacher.frozen_classifier is None
        if one_pass and teacher_rows() is rows and not any(each.exists() for each in files):
            both = ask_both(teacher, rows, reads_of(model), bf16=bf16)
            cached(files[0], lambda: both[0][..., order])
            cached(files[1], lambda: both[1].bfloat16())
    if recipe.task.distill_logits > 0:

        def ask_logits() -> Tensor:
            logits = ask_teacher(teacher, teacher_rows(), partial(teacher_logits, teacher), bf16=bf16)[..., order]
            same_rows = teacher_rows() is rows or rows.token_labels is None
            return logits if same_rows else word_by_word(logits, teacher_rows(), rows)

        rows.teacher_logits = cached(file("logits"), ask_logits)
    if needs_states(recipe.task):
        reads, dim = reads_of(model), model.mux.demultiplexer.out_dim
        if rows.token_labels is not None and teacher_rows() is not rows:
            raise ValueError(
                f"the teacher {name} has other word pieces than this model, so their states cannot be compared: "
                "leave task.distill_states at 0 and learn only from the logits"
            )
        ask = partial(teacher_states, teacher, reads=reads)
        answers = partial(ask_teacher, teacher, ask=ask, bf16=bf16)
        rows.teacher_states = cached(file(f"states-{reads}"), lambda: answers(teacher_rows()).bfloat16())
        if rows.teacher_states.shape[-1] != dim:
            raise ValueError(
                f"the teacher's states have {rows.teacher_states.shape[-1]} dimensions and this model's {dim}: "
                "leave task.distill_states at 0 and learn only from the logits"
            )


def word_by_word(logits: Tensor, teacher_rows: Rows, rows: Rows) -> Tensor:
    """A teacher's logits for its own word pieces (all its tokens, c) -> logits for the student's (all tokens, c).

    Both have a label on the first piece of every word. For a word that the teacher did not see, its label is used.
    """
    assert teacher_rows.token_labels is not None
    assert rows.token_labels is not None
    found = torch.zeros(len(rows.token_labels), logits.shape[-1])
    labelled = rows.token_labels != IGNORED
    found[labelled, rows.token_labels[labelled].long()] = SURE
    for theirs, ours in zip(_words(teacher_rows), _words(rows), strict=True):
        seen_by_both = min(len(theirs), len(ours))
        found[ours[:seen_by_both]] = logits[theirs[:seen_by_both]].float()
    return found


def _words(rows: Rows) -> list[Tensor]:
    """For every row, the places of the first pieces of its words, counted over the tokens of all rows."""
    assert rows.token_labels is not None
    first = (rows.token_labels != IGNORED).nonzero().squeeze(1)
    counts = torch.searchsorted(first, rows.ends) - torch.searchsorted(first, rows.starts)
    return list(torch.split(first, counts.tolist()))


def _file_of_answers(teacher: str, rows: Rows, folder: Path, bf16: bool, order: list[int], what: str) -> Path:
    """The file of a teacher's answers: in its folder, for all its students, or in the run's folder if it has none."""
    place = Path(teacher) if Path(teacher).is_dir() else folder
    about = sha256(rows.ids.numpy().tobytes())
    if order != sorted(order):
        about.update(str(order).encode())
    words = about.hexdigest()[:12]
    return place / f"teacher-{what}-{words}{'-bf16' if bf16 else ''}.pt"


def _tokenizer_of(name: str) -> PreTrainedTokenizerBase | None:
    """The teacher's own tokenizer, or None if it has none. It then reads with its student's tokenizer."""
    try:
        return load_tokenizer(name)
    except (OSError, ValueError):
        return None


def _reads_alike(one: PreTrainedTokenizerBase, other: PreTrainedTokenizerBase) -> bool:
    def rules(tokenizer: PreTrainedTokenizerBase) -> Any:
        written = json.loads(tokenizer.backend_tokenizer.to_str())
        return [written[part] for part in ("normalizer", "pre_tokenizer", "model")]

    fast = one.is_fast and other.is_fast
    return bool(one.get_vocab() == other.get_vocab() and (not fast or rules(one) == rules(other)))


def own_tokens(inputs: Inputs) -> Tensor:
    ids, mask = inputs["input_ids"], inputs["attention_mask"]
    assert ids is not None
    return torch.ones_like(ids, dtype=torch.bool) if mask is None else mask.bool()


def reads_of(model: MuxPreTrainedModel) -> Reads:
    """Which states the head of a classifier of ours reads."""
    assert model.mux.head is not None
    reads: Reads = model.mux.head.reads  # type: ignore[assignment]
    return reads


@torch.no_grad()
def teacher_states(teacher: PreTrainedModel, inputs: Inputs, reads: Reads = "all") -> Tensor:
    """The teacher's states, one row per instance: (i l d), or (i 1 d) for the first token or the mean over tokens."""
    given: dict[str, Any] = plain_inputs(teacher, inputs)
    teacher.to(next(iter(given.values())).device)
    if isinstance(teacher, MuxPreTrainedModel):
        encoded = teacher.encode(**given, group_size=1)
        return teacher.mux.read_rows(encoded, reads)
    states: Tensor = teacher.base_model(**given).last_hidden_state
    if reads == "pool":
        return mean_over_own_tokens(states.unsqueeze(1), own_tokens(inputs).unsqueeze(1)).squeeze(1)
    return states[:, :1] if reads == "first" else states


@torch.inference_mode()
def ask_teacher(teacher: PreTrainedModel, rows: Rows, ask: Callable[[Inputs], Tensor], *, bf16: bool) -> Tensor:
    """The result of `ask` for all rows, in batches: (i ...), or (all tokens, ...) if rows have one label per token."""
    lengths = rows.ends - rows.starts
    answers: list[Tensor] = [torch.empty(0)] * len(rows)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    teacher.to(device)
    for some in torch.split(lengths.argsort(), TEACHER_ROWS):  # rows of similar length need little padding
        given: Inputs = {name: x.to(device) for name, x in rows.batch(some).items()}
        with torch.autocast(device.type, torch.bfloat16, enabled=bf16):
            found = ask(given).cpu()
        for row, answer in zip(some.tolist(), found, strict=True):
            answers[row] = answer if rows.token_labels is None else answer[: int(lengths[row])]
    return torch.stack(answers) if rows.token_labels is None else torch.cat(answers)


def ask_both(teacher: PreTrainedModel, rows: Rows, reads: Reads, *, bf16: bool) -> tuple[Tensor, Tensor]:
    """The logits and the states of a teacher that is one of ours, from one pass instead of two."""
    assert isinstance(teacher, MuxPreTrainedModel)

    def ask(inputs: Inputs) -> Tensor:
        given: dict[str, Any] = plain_inputs(teacher, inputs)
        encoded = teacher.encode(**given, group_size=1)
        logits, states = teacher.mux.answer(encoded), teacher.mux.read_rows(encoded, reads)
        return torch.cat([logits.unsqueeze(1) if logits.dim() == 2 else logits, states], -1).float()  # i r c+d

    logits, states = ask_teacher(teacher, rows, ask, bf16=bf16).tensor_split([teacher.config.num_labels], -1)
    return (logits if rows.token_labels is not None else logits.squeeze(1)), states


def teacher_logits(teacher: PreTrainedModel, inputs: Inputs) -> Tensor:
    """The teacher's logits, one instance per pass: (i c), or (i l c) for a tagger."""
    size = {"group_size": 1} if isinstance(teacher, MuxPreTrainedModel) else {}
    logits: Tensor = teacher(**plain_inputs(teacher, inputs), **size).logits
    return logits.float()

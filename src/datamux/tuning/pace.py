"""How long one step of a training takes on this machine, measured with the model and rows that it will have."""

import time
from collections.abc import Iterator
from statistics import fmean

import torch
from torch import Tensor

from datamux.hub.loading import load_tokenizer
from datamux.tasks.examples import Examples
from datamux.tasks.labels import Labels
from datamux.tasks.rows import Rows, encode_examples
from datamux.train.build import build, in_bf16
from datamux.train.recipe import Recipe, first_group_size
from datamux.train.stages import HEADS
from datamux.train.trainer import take_rows, trainable_attention

BATCHES = 16  # of rows that are sorted by length, as a training sorts them
PLACES = (0.5, 0.25, 0.5, 0.75)  # of the batches that are timed, among these; the first only warms up
Batch = dict[str, Tensor]


def seconds_per_step(recipe: Recipe, examples: Examples, labels: Labels, kind: str) -> float:
    """The mean of a few real steps on batches of similar lengths, without the evaluations."""
    tokenizer = load_tokenizer(recipe.model.tokenizer or recipe.model.start)
    n = recipe.model.num_instances
    count = max(recipe.task.groups * n, recipe.task.min_rows)
    rows = encode_examples(examples.first(max(BATCHES * count, 8)), labels, tokenizer, recipe.model.max_tokens)
    model = build(recipe.model, HEADS[kind], vocab_size=len(tokenizer), labels=labels).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-6)

    def step(batch: Batch, size: int) -> float:
        before = time.perf_counter()
        bf16 = in_bf16(recipe.run)
        with trainable_attention(torch.device("cpu")), torch.autocast("cpu", torch.bfloat16, enabled=bf16):
            loss = model(**batch, group_size=size).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return time.perf_counter() - before

    found = 0.0
    for size, share in _sizes(recipe).items():
        wanted = max(recipe.task.groups * size, recipe.task.min_rows // size * size)
        _, *times = (step(take_rows(batch, wanted), size) for batch in _batches(rows, count))
        found += share * fmean(times)
    return found


def _batches(rows: Rows, count: int) -> Iterator[Batch]:
    """Short, middle and long batches of the lengths that a training meets, which groups rows of similar length."""
    order = (rows.ends - rows.starts).argsort()
    chance = torch.Generator().manual_seed(0)
    for place in PLACES:
        start = int(place * max(0, len(order) - count))
        some = order[start : start + count]
        yield rows.batch(some[torch.randperm(len(some), generator=chance)])


def _sizes(recipe: Recipe) -> dict[int, float]:
    """Group sizes, and the share of the steps that each stands for.

    A share of the steps (`elastic`) draws a smaller size. A training that begins with small groups reaches the whole
    size only after half of its steps.
    """
    n, task = recipe.model.num_instances, recipe.task
    whole = (1 - task.elastic) * (1.0 if first_group_size(task.start_size, n) == n else 0.5)
    middle = round(n**0.5)
    return {n: 1.0} if middle == n else {n: whole, middle: 1 - whole}

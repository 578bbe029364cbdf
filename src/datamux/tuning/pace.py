"""How long one step of a training takes on this machine, measured with the model and rows that it will have."""

import time

import torch

from datamux.hub.loading import load_tokenizer
from datamux.tasks.examples import Examples
from datamux.tasks.labels import Labels
from datamux.tasks.rows import encode_examples
from datamux.train.build import build, in_bf16
from datamux.train.recipe import Recipe
from datamux.train.stages import HEADS
from datamux.train.trainer import trainable_attention

STEPS = 2  # that are timed, after one that warms up


def seconds_per_step(recipe: Recipe, examples: Examples, labels: Labels, kind: str) -> float:
    """The quickest of a few real steps, without the evaluations."""
    tokenizer = load_tokenizer(recipe.model.tokenizer or recipe.model.start)
    n = recipe.model.num_instances
    count = max(recipe.task.groups * n, recipe.task.min_rows)
    some = examples.first(max(count, 8))
    rows = encode_examples(some, labels, tokenizer, recipe.model.max_tokens)
    model = build(recipe.model, HEADS[kind], vocab_size=len(tokenizer), labels=labels).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-6)
    batch = rows.batch(list(range(len(rows))))
    times = []
    for _ in range(STEPS + 1):
        before = time.perf_counter()
        bf16 = in_bf16(recipe.run)
        with trainable_attention(torch.device("cpu")), torch.autocast("cpu", torch.bfloat16, enabled=bf16):
            loss = model(**batch, group_size=n).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        times.append(time.perf_counter() - before)
    return min(times[1:])

"""Pack a trained model into src/datamux/zoo: in half precision, without what it does not use.

Packed and unpacked must give equal answers. Then `datamux evaluate` scores what was packed, and `experiments/cards.py`
writes the card.

python experiments/zoo.py NAME MODEL
"""

import copy
import json
import shutil
import sys
from pathlib import Path

import torch
from cards import ZOO, quality_record

from datamux.evaluate.records import read_record
from datamux.evaluate.report import load_rows
from datamux.hub import MuxPreTrainedModel
from datamux.hub.loading import load_model
from datamux.inference.runtime import TorchRuntime, run_passes
from datamux.tasks.task import get_task, load_splits

KEPT = ("tokenizer.json", "tokenizer_config.json", "recipe.json")
POSITIONS = "mux.backbone.encoder.embeddings.position_embeddings.weight"
EQUAL = 0.999  # the share of answers that half precision must not change


def main(name: str, source: str) -> None:
    folder = ZOO / name
    record = read_record(quality_record(name))
    folder.mkdir(parents=True, exist_ok=True)
    model = slim(load_model(source), record["recipe"]["model"]["max_tokens"])
    parameters = sum(p.numel() for p in model.parameters())
    model.half().save_pretrained(folder)
    (folder / "model.safetensors").chmod(0o644)  # it is written for its owner alone
    for file in KEPT:
        shutil.copy(Path(source) / file, folder / file)
    share = equal_answers(source, str(folder), record["task"])
    if share < EQUAL:
        shutil.rmtree(folder)
        raise SystemExit(f"half precision changes {1 - share:.2%} of the answers of {name}: not packed")
    (folder / "card.json").write_text(json.dumps({"parameters": parameters}))  # cards.py writes the rest
    size = sum(file.stat().st_size for file in folder.iterdir()) / 1e6
    print(f"{name}: {size:.1f} MB, {share:.2%} of the answers as in full precision")


def slim(model: MuxPreTrainedModel, max_tokens: int) -> MuxPreTrainedModel:
    """The same answers from fewer weights: no head of the warm-up, no positions after the last that a text can have."""
    config = copy.deepcopy(model.config)
    config.retrieval_head = False
    config.backbone_config.max_position_embeddings = max_tokens
    weights = {name: value for name, value in model.state_dict().items() if not name.startswith("retrieval.")}
    weights[POSITIONS] = weights[POSITIONS][:max_tokens]
    smaller = type(model)(config)
    smaller.load_state_dict(weights)
    return smaller.eval()


def equal_answers(one: str, other: str, task: str) -> float:
    """The share of equal answers of two models, over all group sizes that matter."""
    chosen = get_task(task)
    answers = []
    for name in (one, other):
        runtime = TorchRuntime(load_model(name))
        rows, _ = load_rows(one, runtime.model.config, chosen, load_splits(chosen, ["validation"]))
        found = []
        for k in sorted({1, runtime.num_instances}):
            for _, logits in run_passes(runtime, rows, k):
                found.append(logits.argmax(-1).flatten())
        answers.append(torch.cat(found))
    return float((answers[0] == answers[1]).float().mean())


if __name__ == "__main__":
    main(*sys.argv[1:3])

"""Pack a trained model for the package: in half precision, and without the weights that answering does not use.

The packed model must give the same answers as the trained one. `scripts/results.py` writes its card.
"""

import copy
import json
import shutil
from pathlib import Path
from typing import Any

import torch

from datamux.evaluate.evaluate_model import load_rows
from datamux.hub import MuxPreTrainedModel
from datamux.hub.loading import load_model
from datamux.inference.runtime import TorchRuntime, run_passes
from datamux.tasks.task import get_task, load_splits

TOKENIZER = ("tokenizer.json", "tokenizer_config.json")
COPIED = (*TOKENIZER, "recipe.json")
POSITIONS = "mux.backbone.encoder.embeddings.position_embeddings.weight"
EQUAL = 0.999  # the share of answers that half precision must not change


def pack(name: str, source: Path, task: str, data_dir: str | None, home: Path) -> Path:
    """Pack the model of a folder under a name; returns the folder of the packed model."""
    folder = home / name
    folder.mkdir(parents=True, exist_ok=True)
    max_tokens = json.loads((source / "recipe.json").read_text())["model"]["max_tokens"]
    model = slim(load_model(str(source)), max_tokens)
    parameters = sum(p.numel() for p in model.parameters())
    model.half().save_pretrained(folder)
    (folder / "model.safetensors").chmod(0o644)  # save_pretrained lets only its owner read it
    for file in COPIED:
        shutil.copy(source / file, folder / file)
    share = equal_answers(str(source), str(folder), task, data_dir)
    if share < EQUAL:
        shutil.rmtree(folder)
        raise ValueError(f"half precision changes {1 - share:.2%} of the answers of {name}: it was not packed")
    (folder / "card.json").write_text(json.dumps({"parameters": parameters}))
    return folder


def pack_encoder(name: str, source: Path, home: Path, what: str) -> Path:
    """Pack a pretrained encoder, with its word head, and say in `encoder.json` how it was trained."""
    folder = home / name
    folder.mkdir(parents=True, exist_ok=True)
    model = load_model(str(source))
    recipe = json.loads((source / "recipe.json").read_text())
    stages = json.loads((source / "training.json").read_text())
    about = {
        "what": what,
        "num_instances": model.config.num_instances,
        "parameters": sum(p.numel() for p in model.parameters()),
        "corpus": recipe["warmup"]["corpus"],
        "teacher": recipe["warmup"]["teacher"],
        "seed": recipe["run"]["seed"],
        "steps": sum(stage["steps"] for stage in stages),
        "minutes": sum(stage["seconds"] for stage in stages) / 60,
        "commit": stages[-1]["provenance"].get("commit"),
        "data": ["English Wikipedia: CC BY-SA", "QQP, MNLI and QNLI: their training texts, without labels"],
    }
    model.half().save_pretrained(folder)
    (folder / "model.safetensors").chmod(0o644)  # save_pretrained lets only its owner read it
    for file in TOKENIZER:
        shutil.copy(source / file, folder / file)
    (folder / "encoder.json").write_text(json.dumps(about, indent=1) + "\n")
    return folder


def slim(model: MuxPreTrainedModel, max_tokens: int) -> MuxPreTrainedModel:
    """The same answers from fewer weights: no head of the warm-up, and no positions that texts cannot reach."""
    config = copy.deepcopy(model.config)
    config.retrieval_head = False
    backbone: Any = config.backbone_config
    backbone.max_position_embeddings = max_tokens
    weights = {name: value for name, value in model.state_dict().items() if not name.startswith("retrieval.")}
    weights[POSITIONS] = weights[POSITIONS][:max_tokens]
    smaller = type(model)(config)
    smaller.load_state_dict(weights)
    smaller.eval()
    return smaller


def equal_answers(one: str, other: str, task: str, data_dir: str | None) -> float:
    """The share of equal answers of two models, one per pass and with all slots in use."""
    chosen = get_task(task)
    answers = []
    for name in (one, other):
        runtime = TorchRuntime(load_model(name))
        rows, _ = load_rows(one, runtime.model.config, chosen, load_splits(chosen, ["validation"], data_dir))
        found = []
        for k in sorted({1, runtime.num_instances}):
            for _, logits in run_passes(runtime, rows, k):
                found.append(logits.argmax(-1).flatten())
        answers.append(torch.cat(found))
    return float((answers[0] == answers[1]).float().mean())

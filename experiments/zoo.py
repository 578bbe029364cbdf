"""Pack a trained model into src/datamux/zoo: in half precision, without what it does not use, with a card.

Packed and unpacked must give equal answers.

python experiments/zoo.py NAME MODEL          the card is made from the records in experiments/results
"""

import copy
import json
import shutil
import sys
from pathlib import Path
from typing import Any

import torch

from datamux.evaluate.records import read_record
from datamux.evaluate.report import load_rows
from datamux.hub import MuxPreTrainedModel
from datamux.hub.loading import load_model
from datamux.inference.runtime import TorchRuntime, run_passes
from datamux.tasks.task import get_task, load_splits

ROOT = Path(__file__).parents[1]
RESULTS, ZOO = ROOT / "experiments/results", ROOT / "src/datamux/zoo"
RECORDS = RESULTS / "zoo"
KEPT = ("tokenizer.json", "tokenizer_config.json", "recipe.json")
POSITIONS = "mux.backbone.encoder.embeddings.position_embeddings.weight"
EQUAL = 0.999  # the share of answers that half precision must not change
ABOUT = {
    "sentiment": (
        "Is an English sentence negative or positive?",
        "Trained on sentences and phrases of film reviews (SST-2); other kinds of text are further from what it knows. "
        "It knows no neutral: every text is called one or the other.",
    ),
    "ner": (
        "Names of persons, organisations, places and others in English text.",
        "Trained on news of 1996 (CoNLL-2003); it has seen few of the names of today. "
        "Capital letters count: it learned from text that has them.",
    ),
}


def main(name: str, source: str) -> None:
    folder = ZOO / name
    record = read_record(RECORDS / f"{name}.json")
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
    card = make_card(name, record, parameters)
    (folder / "card.json").write_text(json.dumps(card, indent=1) + "\n")
    (folder / "README.md").write_text(as_markdown(name, card))
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


def make_card(name: str, record: dict[str, Any], parameters: int) -> dict[str, Any]:
    what, limits = ABOUT[name.removesuffix("-plain")]
    results = record["results"]
    card = {
        "what": what,
        "task": record["task"],
        "splits": record["splits"],
        "metric": results[0]["metric"],
        "rows": results[0]["rows"],
        "num_instances": record["recipe"]["model"]["num_instances"],
        "max_tokens": record["recipe"]["model"]["max_tokens"],
        "parameters": parameters,
        "scores": {str(row["group_size"]): row["score"] for row in results},
        "limits": limits,
        "teacher": about_teacher(record),
    }
    speed = RECORDS / f"speed-{name}.json"
    if speed.exists():
        measured = read_record(speed)
        rows = [row for row in measured["results"] if row["model"] == "mixed"]
        card["speed"] = {str(r["group_size"]): [r["ratio"], r["lowest"], r["highest"]] for r in rows}
        card["hardware"] = measured["hardware"]
    return card


def about_teacher(record: dict[str, Any]) -> dict[str, Any]:
    """Which encoder the teacher was made from, and what it scores on the same rows, from its own record."""
    task = record["task"]
    run = Path(record["recipe"]["task"]["teacher"]).parts[-3]  # runs/RUN/task/model
    measured = read_record(RESULTS / task / f"{run.replace(f'-{task}', '')}.json")
    assert measured["splits"] == record["splits"], f"{run} was measured on other rows"
    return {"encoder": Path(measured["recipe"]["model"]["start"]).name, "score": measured["results"][0]["score"]}


def as_markdown(name: str, card: dict[str, Any]) -> str:
    tags = "text-classification" if card["metric"] == "accuracy" else "token-classification"
    lines = [
        "---",
        "library_name: datamux",
        "license: apache-2.0",
        "language: en",
        f"pipeline_tag: {tags}",
        "---",
        f"# {name}",
        "",
        f"{card['what']} {card['parameters'] / 1e6:.1f} million parameters, "
        + (f"up to {card['num_instances']} texts a pass." if card["num_instances"] > 1 else "one text a pass (plain)."),
        "",
        "```python",
        "import datamux",
        "",
        f'predictor = datamux.load("{name}")',
        'answers = predictor(["Anna Smith moved to Paris and was delighted."])',
        "```",
        "",
        f"Measured on {card['task']} ({' and '.join(card['splits'])}, {card['rows']} rows), every row once:",
        "",
        f"| texts a pass | {card['metric']} | times the plain throughput, texts to answers (lowest to highest) |",
        "|---|---|---|",
    ]
    for k, score in card["scores"].items():
        ratio = card.get("speed", {}).get(k)
        shown = f"{ratio[0]:.1f}x ({ratio[1]:.1f} to {ratio[2]:.1f})" if ratio else ""
        lines.append(f"| {k} | {100 * score:.1f} | {shown} |")
    teacher = card["teacher"]
    lines += [
        "",
        f"**Limits.** {card['limits']}",
        f"Texts are cut at {card['max_tokens']} word pieces; there are no positions for more.",
    ]
    if card["num_instances"] > 1:
        lines += ["An answer depends a little on who shares its pass: never mix the texts of different customers."]
    lines += [
        "",
        "**Training.** From a retrieval warm-up on English Wikipedia, then on the training rows of the task, with a",
        f"teacher: {teacher['encoder']} fine-tuned on the same rows. Measured as above, the teacher scores "
        f"{100 * teacher['score']:.1f}.",
        "`DATAMUX_DATA=DATA experiments/zoo.sh ENCODER` trains, measures and packs all four models, in a checkout:",
        f"DATA is the folder of the data sets, ENCODER that of {teacher['encoder']}. Settings: `recipe.json`.",
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main(*sys.argv[1:3])

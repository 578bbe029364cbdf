"""The cards of the models in src/datamux/zoo, from the records. Trains and packs nothing."""

import json
from pathlib import Path
from typing import Any

from datamux.audit import advice
from datamux.reproduce.catalogue import EXPERIMENTS, get_experiment
from datamux.reproduce.records import committed, has_record
from datamux.reproduce.tables import table
from datamux.zoo import HOME

CARDS = ("ner", "ner-plain", "sentiment", "sentiment-plain")
TIMED = {"sentiment": "distilled-frontier/sst2", "ner": "encoder-frontier/conll2003"}
ABOUT = {
    "sentiment": (
        "Is an English sentence negative or positive?",
        "Trained on sentences and phrases of film reviews (SST-2); other kinds of text are further from what it knows. "
        "It knows no neutral: every text is called one or the other. A model of word vectors without any layer scores "
        "as much on these rows, and this one goes mostly by words, too: it may miss negation and irony.",
    ),
    "ner": (
        "Names of persons, organisations, places and others in English text.",
        "Trained on news of 1996 (CoNLL-2003); it has seen few of the names of today. "
        "Capital letters count: it learned from text that has them. A name that it has not seen may be found and "
        "called something else, a person an organisation for example.",
    ),
}
ORIGINS = {  # what training began with
    "warm-up": "From a retrieval warm-up on English Wikipedia",
    "encoder": "From the `encoder` in the package, which MiniLM taught on English Wikipedia and on pairs of sentences",
    "plain": "From `{}`, whose upper layers then learned to work on mixtures",
}
WORD_PIECES = (
    " The warm-up is `small/warmup-n20` with `warmup.mask_rate=0.15`; its word pieces\n"
    "are those in this folder, which an earlier run of it learned from Wikipedia."
)
ENCODER = "encoder"
LICENCES = {
    "sst2": "SST-2: sentences of film reviews (Stanford Sentiment Treebank); we know of no licence for it",
    "conll2003": "CoNLL-2003: Reuters news, available under an agreement for research use only",
    "wikipedia_en": "English Wikipedia: CC BY-SA",
}
UNLABELLED = {  # what `reproduce/texts.py` makes
    "": "the training rows of the task",
    "sst2.txt": "the training rows of the task and phrases with some words replaced, which the teacher labelled",
    "conll2003.txt": "the training rows of the task and sentences of Wikipedia, which the teacher labelled",
}

MEANS = (
    " Above one text per pass, a score is the mean over {} random groupings, ± over them, and an answer flips if it "
    "differs between two of these groupings: only its neighbours have changed."
)
SAME_SHAPE = "\nIt was measured with earlier weights of the same shape: speed does not depend on them."
SHARING = "\nAn answer depends a little on who shares its pass: never mix the texts of different customers."
CARD = """---
library_name: datamux
license: apache-2.0
language: en
pipeline_tag: {tag}
---
# {name}

{what} {millions} million parameters, {capacity}.

```python
import datamux

predictor = datamux.load("{name}")
answers = predictor(["Anna Smith moved to Paris and was delighted."])
```

{measurements}

**Scores** are of {task} ({split}, {rows} rows), every row once, in {precision}, commit `{score_commit}`.{means}
**Speed** is from texts to answers on the same rows, in fp32, on {machine}: the median of {speed_rounds} rounds,
each model at its best batch size, commit `{time_commit}`.{shape}

**Limits.** {limits}
Texts are cut at {max_tokens} word pieces; there are no positions for more.{sharing}

**Training.** {origin}, then on {rows_of}.
The teacher: {teacher_name} fine-tuned on the task's rows. Measured as above, the teacher scores {teacher_score}.
One seed ({seed}); {spent} on two CPU cores, and {teacher_minutes} for the teacher.
`datamux reproduce packaged-models --data-dir DATA --encoder minilm` trains, packs and measures all four:
DATA is the folder of the data sets.
Settings of the task: `recipe.json`.{word_pieces}

**Licences.** The weights are under Apache-2.0, which gives no rights in the data they were trained on:

{licences}
"""


def card_files(name: str) -> dict[Path, str]:
    """The files of a model's card, and what they should hold."""
    file = HOME / name / "card.json"
    card = make_card(name, json.loads(file.read_text())["parameters"])
    return {file: json.dumps(card, indent=1) + "\n", HOME / name / "README.md": as_markdown(name, card)}


def make_card(name: str, parameters: int) -> dict[str, Any]:
    """From the record of the trained model, and from that of the packed model, whose scores are shown."""
    what, limits = ABOUT[name.removesuffix("-plain")]
    packed = committed(f"packaged-models/{name}")
    (source,) = get_experiment(f"packaged-models/{name}").needs
    record = committed(source)
    results = packed["results"]
    if (packed["task"], packed["splits"]) != (record["task"], record["splits"]):
        raise ValueError(f"{name} was measured on other rows than {source}")
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
        "spreads": {str(row["group_size"]): row["spread"] for row in results},
        "groupings": {str(row["group_size"]): row["groupings"] for row in results},
        "flips": {str(row["group_size"]): row["flips"] for row in results if row["group_size"] > 1},
        "bf16": packed["evaluation"]["bf16"],
        "commit": packed["commit"],
        "limits": limits,
        "training": {
            "seed": record["recipe"]["run"]["seed"],
            "stages": [
                {"stage": part["stage"], "minutes": part["seconds"] / 60, "commit": part["provenance"]["commit"]}
                for part in record["training"]
            ],
        },
        "teacher": about_teacher(source),
        "unlabelled": Path(record["recipe"]["task"].get("unlabelled", "")).name,
        "data": [LICENCES[record["task"]], *_pretrained_on(record)],
        "origin": _origin(name, source),
    }
    return card | (about_audit(committed(f"audit/{name}")) if audited(name) else {}) | about_speed(name)


def _origin(name: str, source: str) -> str:
    """What training began with: a warm-up, the encoder in the package, or the packaged plain model."""
    start = str(get_experiment(source).settings["model.start"])
    plain = f"{name}-plain"
    if start == ENCODER:
        return "encoder"
    is_plain = f"packaged-models/{plain}" in EXPERIMENTS and start == _packed_from(plain)
    return "plain" if is_plain else "warm-up"


def _pretrained_on(record: dict[str, Any]) -> list[str]:
    """The licences of what was read before the task."""
    about = HOME / ENCODER / "encoder.json"
    if record["family"] == ENCODER:
        found: list[str] = json.loads(about.read_text())["data"]
        return found
    return [LICENCES[record["recipe"]["warmup"]["corpus"]]]


def about_audit(record: dict[str, Any]) -> dict[str, Any]:
    """What neighbours can do in the largest group: one sentence, and its figures."""
    steady, attack, leak = (
        advice.part(record["results"], name)[-1] for name in ("consistency", "worst case", "leakage")
    )
    figures = {
        "group_size": steady["group_size"],
        "share_that_flips": steady["flips"],
        "share_that_flips_at_most": steady["upper"],
        "changed_by_chosen_neighbours": attack["success"],
        "changed_by_random_neighbours": attack["by_chance"],
        "attacked_texts": attack["texts"],
        "tries": attack["tries"],
        "neighbours_label_from_logits": leak["label_from_logits"],
        "neighbours_label_from_states": leak["label_from_state"],
        "neighbours_label_by_guessing": leak["chance"],
    }
    return {"audit": advice.headline_of(record["results"]), "audit_figures": figures}


def audited(name: str) -> bool:
    """Whether there is a record of an audit: plain models mix nothing, and have none."""
    return f"audit/{name}" in EXPERIMENTS and has_record(f"audit/{name}")


def about_speed(name: str) -> dict[str, Any]:
    """Texts per second at each group size, compared with the plain model's in the same rounds."""
    measured = committed(TIMED[name.removesuffix("-plain")])
    same_shape = "4 layers" if name.endswith("-plain") else "4 layers, mixed"
    source = _packed_from(name)
    which = next((model for model, timed in measured["variant"].items() if timed == source), same_shape)
    fields = {"texts_per_second": "rate", "ratio": "ratio", "lowest": "lowest", "highest": "highest"}
    return {
        "speed": {
            str(row["group_size"]): {field: row[source] for field, source in fields.items()}
            for row in measured["results"]
            if row["model"] == which
        },
        "speed_of_earlier_weights": _packed_from(name) not in measured["variant"].values(),
        "speed_commit": measured["commit"],
        "speed_rounds": measured["evaluation"]["rounds"],
        "hardware": measured["hardware"],
    }


def about_teacher(student: str) -> dict[str, Any]:
    """Which encoder the teacher was made from, and what it scores on the same rows, from its own record."""
    settings = get_experiment(student).settings
    name = settings.get("task.teacher", settings["model.start"]).strip("{}")  # without a teacher, the start model is it
    measured = committed(name)
    if measured["splits"] != committed(student)["splits"]:
        raise ValueError(f"{name} was measured on other rows than {student}")
    return {
        "encoder": Path(measured["recipe"]["model"]["start"]).name,
        "score": measured["results"][0]["score"],
        "minutes": sum(part["seconds"] for part in measured["training"]) / 60,
    }


def as_markdown(name: str, card: dict[str, Any]) -> str:
    mixed, teacher, training, machine = card["num_instances"] > 1, card["teacher"], card["training"], card["hardware"]
    groupings = max(card["groupings"].values())
    fields = {
        "name": name,
        "tag": "text-classification" if card["metric"] == "accuracy" else "token-classification",
        "millions": f"{card['parameters'] / 1e6:.1f}",
        "capacity": f"up to {card['num_instances']} texts per pass" if mixed else "one text per pass (plain)",
        "measurements": "\n".join(_measurements(card)),
        "split": " and ".join(card["splits"]),
        "precision": "bf16" if card["bf16"] else "fp32",
        "score_commit": _short(card["commit"]),
        "means": MEANS.format(groupings) if groupings > 1 else "",
        "machine": f"{machine['cores']} cores of an {machine['cpu']} ({machine['system']})",
        "time_commit": _short(card["speed_commit"]),
        "sharing": SHARING + (f"\n{card['audit']}" if "audit" in card else "") if mixed else "",
        "rows_of": UNLABELLED[card["unlabelled"]],
        "origin": ORIGINS[card["origin"]].format(f"{name}-plain"),
        "word_pieces": WORD_PIECES if card["origin"] == "warm-up" else "",
        "teacher_name": "the `encoder` in the package," if teacher["encoder"] == ENCODER else teacher["encoder"],
        "teacher_score": f"{100 * teacher['score']:.1f}",
        "teacher_minutes": f"{teacher['minutes']:.0f}",
        "seed": training["seed"],
        "spent": _spent(training["stages"]),
        "shape": SAME_SHAPE if card["speed_of_earlier_weights"] else "",
        "licences": "\n".join(f"- {data}" for data in card["data"]),
    }
    return CARD.format(**card | fields)


def _measurements(card: dict[str, Any]) -> list[str]:
    rows = []
    for k, score in card["scores"].items():
        speed = card["speed"][k]
        spread = f" ± {100 * card['spreads'][k]:.1f}" if card["groupings"][k] > 1 else ""
        ratio = f"{speed['ratio']:.1f}x ({speed['lowest']:.1f} to {speed['highest']:.1f})"
        flips = f"{card['flips'][k]:.1%}" if k in card["flips"] else ""
        rows.append([k, f"{100 * score:.1f}{spread}", flips, f"{speed['texts_per_second']:,.0f}", ratio])
    of = "answers" if card["metric"] == "accuracy" else "tags"
    speeds = ["texts per second", "times the plain model (lowest to highest)"]
    return table(["texts per pass", card["metric"], f"{of} that flip", *speeds], rows)


def _packed_from(name: str) -> str:
    """The trained model, as experiments refer to it."""
    return str(get_experiment(f"packaged-models/{name}").settings["model"])


def _spent(stages: list[dict[str, Any]]) -> str:
    """Minutes of each stage. What follows the first task stage goes on from it."""
    parts = []
    for number, part in enumerate(stages):
        again = part["stage"] == "task" and any(before["stage"] == "task" for before in stages[:number])
        what = "further training" if again else {"warmup": "the warm-up", "task": "the task"}[part["stage"]]
        parts.append(f"{part['minutes']:.0f} minutes for {what} (commit `{_short(part['commit'])}`)")
    return " and ".join(part for part in (", ".join(parts[:-1]), parts[-1]) if part)


def _short(commit: str) -> str:
    """Seven letters; `+changes` stays, where the files were not quite those of the commit."""
    name, plus, changes = commit.partition("+")
    return name[:7] + plus + changes

"""Write the cards of the models in src/datamux/zoo, from the records in experiments/results. Trains and packs nothing.

python experiments/cards.py
"""

import json
from pathlib import Path
from typing import Any

from datamux.evaluate.records import read_record

ROOT = Path(__file__).parents[1]
RESULTS, ZOO = ROOT / "experiments/results", ROOT / "src/datamux/zoo"
SOURCES = {"sentiment": "sst2", "ner": "conll2003"}  # the task whose models of taught.sh they are
ABOUT = {
    "sentiment": (
        "Is an English sentence negative or positive?",
        "Trained on sentences and phrases of film reviews (SST-2); other kinds of text are further from what it knows. "
        "It knows no neutral: every text is called one or the other. A model of words alone, without any layer, scores "
        "as much on these rows, and this one goes mostly by words, too: it may miss negation and irony.",
    ),
    "ner": (
        "Names of persons, organisations, places and others in English text.",
        "Trained on news of 1996 (CoNLL-2003); it has seen few of the names of today. "
        "Capital letters count: it learned from text that has them. A name that it has not seen may be found and "
        "called something else, a person an organisation for example.",
    ),
}
LICENCES = {
    "sst2": "SST-2: sentences of film reviews (Stanford Sentiment Treebank); no licence of it is known to us",
    "conll2003": "CoNLL-2003: Reuters news, to be had under an agreement for research use only",
    "wikipedia_en": "English Wikipedia: CC BY-SA",
}
UNLABELLED = {  # what `unlabelled.py` makes
    "": "the training rows of the task",
    "sst2.txt": "the training rows of the task and phrases with some words replaced, which the teacher labelled",
    "conll2003.txt": "the training rows of the task and sentences of Wikipedia, which the teacher labelled",
}


def main() -> None:
    for file in sorted(ZOO.glob("*/card.json")):
        write_card(file.parent.name, json.loads(file.read_text())["parameters"])


def write_card(name: str, parameters: int) -> None:
    card = make_card(name, read_record(quality_record(name)), read_record(packed_record(name)), parameters)
    (ZOO / name / "card.json").write_text(json.dumps(card, indent=1) + "\n")
    (ZOO / name / "README.md").write_text(as_markdown(name, card))


def quality_record(name: str) -> Path:
    kind = "plain" if name.endswith("-plain") else "n20"
    return RESULTS / SOURCES[name.removesuffix("-plain")] / f"taught-{kind}-seed0.json"


def packed_record(name: str) -> Path:
    """What the files in the package score, in the precision in which they run."""
    return RESULTS / "zoo" / f"{name}.json"


def make_card(name: str, record: dict[str, Any], packed: dict[str, Any], parameters: int) -> dict[str, Any]:
    """From the record of the trained model, and that of the packed one, whose scores are shown."""
    what, limits = ABOUT[name.removesuffix("-plain")]
    results = packed["results"]
    assert (packed["task"], packed["splits"]) == (record["task"], record["splits"]), (
        f"{name} was measured on other rows"
    )
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
        "teacher": about_teacher(record),
        "unlabelled": Path(record["recipe"]["task"].get("unlabelled", "")).name,
        "data": [LICENCES[record["task"]], LICENCES[record["recipe"]["warmup"]["corpus"]]],
    }
    return card | about_speed(name)


def about_speed(name: str) -> dict[str, Any]:
    """Texts a second at each group size, and how they compare with the plain model's, which ran in the same rounds."""
    file = RESULTS / "taught" / f"{SOURCES[name.removesuffix('-plain')]}.json"
    if not file.exists():
        return {}
    measured = read_record(file)
    which = "4 layers" if name.endswith("-plain") else "4 layers, mixed"
    keys = {"texts_a_second": "rate", "ratio": "ratio", "lowest": "lowest", "highest": "highest"}
    return {
        "speed": {
            str(row["group_size"]): {key: row[kept] for key, kept in keys.items()}
            for row in measured["results"]
            if row["model"] == which
        },
        "speed_commit": measured["commit"],
        "speed_rounds": measured["evaluation"]["rounds"],
        "hardware": measured["hardware"],
    }


def about_teacher(record: dict[str, Any]) -> dict[str, Any]:
    """Which encoder the teacher was made from, and what it scores on the same rows, from its own record."""
    task = record["task"]
    run = Path(record["recipe"]["task"]["teacher"]).parts[-3]  # runs/RUN/task/model
    measured = read_record(RESULTS / task / f"{run.replace(f'-{task}', '')}.json")
    assert measured["splits"] == record["splits"], f"{run} was measured on other rows"
    return {
        "encoder": Path(measured["recipe"]["model"]["start"]).name,
        "score": measured["results"][0]["score"],
        "minutes": sum(part["seconds"] for part in measured["training"]) / 60,
    }


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
        *_measurements(card),
        "",
        f"**Limits.** {card['limits']}",
        f"Texts are cut at {card['max_tokens']} word pieces; there are no positions for more.",
    ]
    if card["num_instances"] > 1:
        lines += ["An answer depends a little on who shares its pass: never mix the texts of different customers."]
    return "\n".join([*lines, "", *_training(card), "", *_data(card)]) + "\n"


def _measurements(card: dict[str, Any]) -> list[str]:
    lines = [
        f"| texts a pass | {card['metric']} | texts a second | times the plain model (lowest to highest) |",
        "|---|---|---|---|",
    ]
    for k, score in card["scores"].items():
        speed = card.get("speed", {}).get(k)
        rate = f"{speed['texts_a_second']:,.0f}" if speed else ""
        shown = f"{speed['ratio']:.1f}x ({speed['lowest']:.1f} to {speed['highest']:.1f})" if speed else ""
        spread = f" ± {100 * card['spreads'][k]:.1f}" if card["groupings"][k] > 1 else ""
        lines.append(f"| {k} | {100 * score:.1f}{spread} | {rate} | {shown} |")
    most = max(card["groupings"].values())
    means = (
        f" Above one text a pass, a score is the mean over {most} random groupings, ± over them." if most > 1 else ""
    )
    lines += [
        "",
        f"**Scores** are of {card['task']} ({' and '.join(card['splits'])}, {card['rows']} rows), every row once, "
        f"in {'bf16' if card['bf16'] else 'fp32'}, commit `{_short(card['commit'])}`.{means}",
    ]
    if "speed" in card:
        machine = card["hardware"]
        lines += [
            f"**Speed** is from texts to answers on the same rows, in fp32, on {machine['cores']} cores of an "
            f"{machine['cpu']} ({machine['system']}): the median of {card['speed_rounds']} rounds, each model at its "
            f"best batch size, commit `{_short(card['speed_commit'])}`.",
        ]
    return lines


def _training(card: dict[str, Any]) -> list[str]:
    teacher, training = card["teacher"], card["training"]
    names = {"warmup": "the warm-up", "task": "the task"}
    spent = " and ".join(
        f"{part['minutes']:.0f} minutes for {names[part['stage']]} (commit `{_short(part['commit'])}`)"
        for part in training["stages"]
    )
    return [
        f"**Training.** From a retrieval warm-up on English Wikipedia, then on {UNLABELLED[card['unlabelled']]}.",
        f"The teacher: {teacher['encoder']} fine-tuned on the task's rows. Measured as above, the teacher scores "
        f"{100 * teacher['score']:.1f}.",
        f"One seed ({training['seed']}); {spent} on two CPU cores, and {teacher['minutes']:.0f} for the teacher.",
        "`DATAMUX_DATA=DATA experiments/zoo.sh ENCODER` trains, measures and packs all four models, in a checkout:",
        f"DATA is the folder of the data sets, ENCODER that of {teacher['encoder']}.",
        "Settings of the task: `recipe.json`. The warm-up is `small/warmup-n20` with `warmup.mask_rate=0.15`; its word "
        "pieces are those in this folder, which an earlier run of it learned from Wikipedia.",
    ]


def _short(commit: str) -> str:
    """Seven letters; `+changes` stays, where the files were not quite those of the commit."""
    name, plus, changes = commit.partition("+")
    return name[:7] + plus + changes


def _data(card: dict[str, Any]) -> list[str]:
    return [
        "**Licences.** The weights are under Apache-2.0, which gives no rights in the data they were trained on:",
        "",
        *(f"- {data}" for data in card["data"]),
    ]


if __name__ == "__main__":
    main()

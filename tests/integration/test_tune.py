"""`datamux tune` from rows to the folder of the best model, with tiny random encoders: seconds instead of an hour."""

import json
import random
import re
from pathlib import Path

import pytest
import torch
from transformers import BertConfig, BertModel

import datamux
from command_line import run, succeed
from conftest import write_jsonl
from datamux.serve.settings import Settings as ServeSettings
from datamux.serve.tuned import load_gears, tuned_gears
from datamux.train.build import train_tokenizer
from datamux.tuning import search
from datamux.tuning.state import FILE, State

GOOD, BAD = ["good", "fine", "great", "lovely", "warm"], ["bad", "poor", "dull", "cold", "awful"]
QUICK = {"budget": "20s", "engines": ["torch"]}


def reviews(count: int, seed: int = 0) -> list[dict]:
    chance = random.Random(seed)
    rows = []
    for number in range(count):
        word = chance.choice(GOOD + BAD)
        label = "yes" if word in GOOD else "no"
        rows.append({"text": f"film {number} {seed} was {word} and {chance.choice(['long', 'old'])}", "label": label})
    return rows


@pytest.fixture(scope="module")
def encoder(tmp_path_factory) -> str:
    folder = tmp_path_factory.mktemp("encoder")
    words = [row["text"] for row in reviews(300)] + ["anna lives in paris", "bob works at acme", "red green blue"]
    tokenizer = train_tokenizer(words, 400, lowercase=True)
    torch.manual_seed(0)
    sizes = {"hidden_size": 32, "num_hidden_layers": 4, "num_attention_heads": 2, "intermediate_size": 40}
    BertModel(BertConfig(vocab_size=len(tokenizer), max_position_embeddings=40, **sizes)).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return str(folder)


@pytest.fixture(scope="module")
def files(tmp_path_factory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("files")
    test = write_jsonl(folder, "test.jsonl", reviews(40, seed=1))
    return {"train": write_jsonl(folder, "train.jsonl", reviews(240)), "test": test}


@pytest.fixture(scope="module")
def tuned(tmp_path_factory, encoder, files):
    out = tmp_path_factory.mktemp("tuned") / "best"
    families = ["words", "cut", "mixed"]
    return datamux.tune(**files, encoder=encoder, out=out, families=families, max_drop=50, **QUICK)


def test_the_best_is_an_ordinary_model_folder(tuned, files):
    again = datamux.load(tuned.folder)
    answers = again([row["text"] for row in reviews(5, seed=2)])
    assert {answer["label"] for answer in answers} <= {"yes", "no"}
    assert tuned.best.names == again.names == ("no", "yes")
    said = succeed("evaluate", tuned.folder, "--task", files["test"], "--json")
    assert json.loads(said)["results"][0]["rows"] == 40


def test_everything_that_was_tried_is_visible(tuned):
    names = " ".join(row["name"] for row in tuned.table)
    for wanted in ("reference, torch", "1 layer of 4", "words and word pairs", "mixed after 1", "TF-IDF"):
        assert wanted in names
    assert sum(row["chosen"] for row in tuned.table) == 1
    assert all(row["drop_low"] <= row["drop"] <= row["drop_high"] for row in tuned.table if row["timed"])
    record = json.loads((tuned.folder / FILE).read_text())
    assert record["chosen"] == next(row["name"] for row in tuned.table if row["chosen"])
    assert "On 40 test rows, which played no part" in record["tested"]


def test_the_report_is_one_file_that_fetches_nothing(tuned):
    page = (tuned.folder / "report.html").read_text()
    addresses = set(re.findall(r"https?://[^\"' ]+", page))
    assert addresses <= {"http://www.w3.org/2000/svg"}, "a namespace, which nothing loads"
    assert "<svg" in page
    assert "<script" not in page
    assert tuned.record["chosen"] in page
    assert tuned.plot().read_text().startswith("<svg")
    assert "| reference, torch |" in (tuned.folder / "report.md").read_text()


def test_a_server_has_the_frontier_as_gears(tuned):
    gears = tuned_gears(tuned.folder, ServeSettings())
    scores = [gear.score for gear in gears]
    assert scores == sorted(scores, reverse=True), "the most accurate comes first"
    assert [gear.pace * gear.group_size for gear in gears] == sorted(gear.pace * gear.group_size for gear in gears)
    predictors = load_gears(tuned.folder, gears, tuned.best)
    assert {gear.engine for gear in gears} <= predictors.keys()


def test_a_finished_search_trains_nothing_again(tuned, files, encoder, monkeypatch):
    monkeypatch.setattr(search, "train", lambda *args, **kwargs: pytest.fail("it was trained already"))
    families = ["words", "cut", "mixed"]
    settings = {"encoder": encoder, "out": tuned.folder, "families": families, **QUICK}
    again = datamux.tune(**files, min_speed=1, **settings)
    assert again.record["wish"] == "at least 1 texts per second"
    with pytest.raises(ValueError, match="holds a search on other data or with other settings"):
        datamux.tune(files["test"], **settings)


def test_an_interrupted_search_goes_on(tmp_path, files, encoder, monkeypatch):
    trained = []

    def interrupted(recipe, place, **options):
        if len(trained) == 1:
            raise KeyboardInterrupt
        trained.append(place)
        return real(recipe, place, **options)

    real = search.train
    monkeypatch.setattr(search, "train", interrupted)
    settings = {"encoder": encoder, "out": tmp_path / "best", "families": ["cut"], **QUICK, "budget": "4m"}
    with pytest.raises(KeyboardInterrupt):
        datamux.tune(files["train"], **settings)
    (first,) = trained
    trained.append(Path("the session that was interrupted"))
    lines: list[str] = []
    datamux.tune(files["train"], **settings, tell=lines.append)
    assert lines[0].startswith("continuing the search")
    assert first not in trained[2:]
    assert {int(place.name) for place in trained[2:]} == {0, 1, 2}, "all three rounds ran"


def test_the_state_is_replaced_as_a_whole(tmp_path):
    state = State(tmp_path, {"files": 1})
    state.save(answer=42)
    assert [file.name for file in tmp_path.iterdir()] == [FILE]
    again = State(tmp_path, {"files": 1})
    assert again.resumed
    assert again.data["answer"] == 42
    assert again.spent >= state.data["spent"]
    with pytest.raises(ValueError, match="choose another"):
        State(tmp_path, {"files": 2})
    (tmp_path / FILE).write_text('{"identity"')
    with pytest.raises(ValueError, match="cannot be read"):
        State(tmp_path, {"files": 1})


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "give your rows with --train FILE"),
        (["--train", "none.csv"], "no such file"),
        (["--train", "{train}", "--label", "mark"], "no such column"),
        (["--train", "{train}", "--budget", "soon"], "the budget must be a time"),
        (["--train", "{train}", "--max-drop", "1", "--min-score", "90"], "cannot be combined"),
        (["--train", "{train}", "--family", "wide"], "unknown family 'wide'"),
        (["--train", "{train}", "--engine", "steam"], "unknown engine 'steam'"),
        (["--train", "{train}", "--encoder", "no/such/folder"], "no such folder"),
        (["--task", "wikipedia_en"], "is a corpus without labels"),
    ],
)
def test_bad_input_is_one_clear_line(tmp_path, files, arguments, message):
    given = [str(files["train"]) if one == "{train}" else one for one in arguments]
    done = run("tune", *given, "-o", tmp_path / "best")
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_a_folder_with_other_things_is_left_alone(tmp_path, files, encoder):
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(ValueError, match="is not empty and holds no search"):
        datamux.tune(files["train"], encoder=encoder, out=tmp_path)


PAIRS = [{"one": row["text"], "two": "a film", "label": row["label"]} for row in reviews(120)]
NUMBERS = [{"text": row["text"], "label": (row["label"] == "yes") + 0.5} for row in reviews(120)]
SEVERAL = [{"text": row["text"], "label": ["film", row["label"]]} for row in reviews(120)]
TAGS = [
    {"text": ["anna", "lives", "in", "paris", str(number)], "label": ["B-PER", "O", "O", "B-LOC", "O"]}
    for number in range(120)
]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rows", "text", "metric"),
    [
        (PAIRS, ["one", "two"], "accuracy"),
        (NUMBERS, ["text"], "R squared"),
        (SEVERAL, ["text"], "F1 of labels"),
        (TAGS, ["text"], "F1 of spans"),
    ],
)
def test_every_kind_of_task(tmp_path, encoder, rows, text, metric):
    file = write_jsonl(tmp_path, "train.jsonl", rows)
    families = ["words", "cut", "mixed"]
    out = tmp_path / "best"
    found = datamux.tune(file, text=text, encoder=encoder, out=out, families=families, max_drop=90, **QUICK)
    assert found.record["metric"] == metric
    given = [rows[0][column] for column in text]
    assert found.best([tuple(given) if len(given) > 1 else given[0]])


@pytest.mark.slow
def test_exported_engines_and_the_users_own_classifier(tmp_path, encoder, files):
    """A fine-tuned classifier is the reference as it is, and the best can be an exported model, which still exports."""
    first = datamux.tune(**files, encoder=encoder, out=tmp_path / "a", families=["words"], max_drop=90, **QUICK)
    lines: list[str] = []
    found = datamux.tune(
        **files, encoder=str(first.folder / "search" / "reference" / "task" / "model"), out=tmp_path / "b",
        families=["cut"], engines=["int8"], max_drop=90, budget="40s", tell=lines.append,
    )  # fmt: skip
    assert any("as it is" in line for line in lines)
    assert found.record["chosen"].endswith("int8")
    assert (found.folder / "model.onnx").exists()
    assert found.best.runtime.name == "int8"
    succeed("export", found.folder, "-o", tmp_path / "exported")

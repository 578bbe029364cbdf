"""`datamux tune` from rows to the folder of the best model, with tiny random encoders: seconds instead of an hour."""

import json
import re
import time
from argparse import Namespace
from pathlib import Path

import pytest
import torch
from transformers import AlbertConfig, AlbertModel

import datamux
from command_line import run, succeed
from conftest import write_jsonl
from datamux.evaluate.records import read_record
from datamux.hub.loading import load_model, load_tokenizer
from datamux.reproduce.catalogue import EXPERIMENTS
from datamux.reproduce.completeness import problems
from datamux.reproduce.figures.tuning import tuning_section
from datamux.reproduce.runner import described
from datamux.serve.settings import Settings as ServeSettings
from datamux.serve.tuned import load_gears, tuned_gears
from datamux.train.build import train_tokenizer
from datamux.tuning import run as run_module
from datamux.tuning import search
from datamux.tuning import state as state_module
from datamux.tuning.contender import Contender
from datamux.tuning.search import last_trials
from datamux.tuning.state import FILE, State
from tuning import QUICK, noted_in, reviews, write_encoder


@pytest.fixture(scope="module")
def encoder(tmp_path_factory) -> str:
    return write_encoder(tmp_path_factory.mktemp("encoder"))


@pytest.fixture(scope="module")
def files(tmp_path_factory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("files")
    test = write_jsonl(folder, "test.jsonl", reviews(40, seed=1))
    return {"train": write_jsonl(folder, "train.jsonl", reviews(240)), "test": test}


@pytest.fixture(scope="module")
def told() -> list[str]:
    """What the search below says while it runs."""
    return []


@pytest.fixture(scope="module")
def tuned(tmp_path_factory, encoder, files, told):
    out = tmp_path_factory.mktemp("tuned") / "best"
    families = ["words", "cut", "mixed"]
    return datamux.tune(**files, encoder=encoder, out=out, families=families, max_drop=50, tell=told.append, **QUICK)


def test_every_long_step_says_how_much_of_the_budget_is_left(tuned, told):
    """The reference before and during its training, every contender, the finals and the tests."""
    steps = [
        r"the reference: up to \d+ steps .*, about \d+ seconds",
        r"the reference: \d+ of up to \d+ steps, about \d+ seconds more",
        r"the reference's answers take up to \d+ seconds",
        r".*, round 1: \d+ steps, about \d+ seconds; \d+ seconds left for training,?",
        r"fitting what you could have tried with scikit-learn",
        r"timing \d+ finalists side by side, about \d+ seconds",
        r"answering 40 test rows with reference, torch",
    ]
    timed = {(row["model"], row["engine"]) for row in tuned.table if row["timed"] and row["family"] != "rival"}
    assert ("reference", "torch") in timed
    assert len(timed) > 1
    steps += [rf"measuring {re.escape(model)} on {engine}(, about \d+ seconds)?" for model, engine in sorted(timed)]
    for step in steps:
        end = r"[;,]? (\d+ seconds of the budget left|the budget is used up)"
        assert any(re.fullmatch(step + end, line) for line in told), (step, told)


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


def test_a_record_has_what_a_table_of_results_shows(tuned, files, encoder, tmp_path):
    """The search is finished, so the command only chooses again."""
    options = ["--encoder", encoder, "-o", tuned.folder, "--max-drop", 50, "--budget", "20s", "--engine", "torch"]
    families = [word for family in ("words", "cut", "mixed") for word in ("--family", family)]
    given = ["--train", files["train"], "--test", files["test"], *families, *options]
    said = succeed("tune", *given, "--record", tmp_path / "record.json")
    record = described(EXPERIMENTS["tune/sst2"], 0, read_record(tmp_path / "record.json"))
    assert record["encoder"] == encoder
    assert record["tenfold"] in said.replace("\n", " ")
    missing = ["the engine onnx was not measured", "nothing of the family 'narrow' was tried"]
    assert set(missing) <= set(problems(record))
    lines = tuning_section({"sst2": [record]})
    assert any(line.startswith("| reference, torch |") for line in lines)
    assert "trials" not in record


def test_a_server_has_the_frontier_as_gears(tuned):
    gears = tuned_gears(tuned.folder, ServeSettings())
    scores = [gear.score for gear in gears]
    assert scores == sorted(scores, reverse=True), "the most accurate comes first"
    assert [gear.pace * gear.group_size for gear in gears] == sorted(gear.pace * gear.group_size for gear in gears)
    predictors = load_gears(tuned.folder, gears, tuned.best)
    assert {gear.engine for gear in gears} <= predictors.keys()


def test_a_finished_search_trains_nothing_again(tuned, files, encoder, monkeypatch):
    monkeypatch.setattr(search, "train", lambda *args, **kwargs: pytest.fail("it was trained already"))
    monkeypatch.setattr(run_module, "fit_rivals", lambda *args, **kwargs: pytest.fail("they were measured already"))
    families = ["words", "cut", "mixed"]
    settings = {"encoder": encoder, "out": tuned.folder, "families": families, **QUICK}
    again = datamux.tune(**files, min_speed=1, **settings)
    assert again.record["wish"] == "at least 1 texts per second"
    with pytest.raises(ValueError, match="holds a search on other data or with other settings"):
        datamux.tune(files["test"], **settings)


@pytest.mark.slow
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


def test_a_session_that_was_killed_still_counts(tmp_path, monkeypatch):
    monkeypatch.setattr(state_module, "TICK", 0.02)
    state = State(tmp_path, {})
    state.save()
    with state.ticking():
        time.sleep(0.3)
    assert State(tmp_path, {}).spent >= 0.25, "although the state was not saved again"


def test_the_pace_is_that_of_all_sessions_of_a_training(tmp_path):
    """Seconds come from the training itself, which counts what it did before it was killed."""
    trials = {"a #0": {"name": "a", "rung": 0, "steps": 100, "seconds": 50.0}}
    contender = Contender("a", "cut", {})
    found = search.Search(
        **dict.fromkeys(search.Search.__dataclass_fields__) | {"state": Namespace(data={"trials": trials})}
    )
    assert found._pace(contender, 1) == pytest.approx(0.5 / search.SLOWER)


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


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"metric": "accuracy"}, "unknown metric"),
        ({"unlabelled": "{folder}/none.txt"}, "no such file"),
        ({"engines": ["steam"]}, "unknown engine"),
    ],
)
def test_the_corrected_command_can_use_the_same_folder(tmp_path, files, encoder, monkeypatch, wrong, message):
    """A mistake in the first command leaves nothing that the second one would trip over."""
    given = {
        name: str(value).format(folder=tmp_path) if name == "unlabelled" else value for name, value in wrong.items()
    }
    settings = {"encoder": encoder, "out": tmp_path / "best", "budget": "20s"}
    with pytest.raises(ValueError, match=message):
        datamux.tune(files["train"], **(settings | given))
    monkeypatch.setattr(run_module, "find_reference", lambda *args, **kwargs: pytest.exit("it began"))
    with pytest.raises(pytest.exit.Exception, match="it began"):
        datamux.tune(files["train"], **settings)
    assert (tmp_path / "best" / FILE).exists()


def classifier(place, source, names, order):
    """A copy of a classifier of ours that knows its labels by other names and in another order."""
    model = load_model(source)
    weights = model.state_dict()
    model.load_state_dict({name: x[order] if name.startswith("mux.head.out.") else x for name, x in weights.items()})
    model.config.id2label, model.config.label2id = dict(enumerate(names)), {name: i for i, name in enumerate(names)}
    model.save_pretrained(place)
    load_tokenizer(source).save_pretrained(place)
    return str(place)


@pytest.mark.parametrize(
    ("names", "order"),
    [pytest.param(["LABEL_0", "LABEL_1"], [0, 1], marks=pytest.mark.slow), (["YES", "No"], [1, 0])],
)
def test_a_classifier_of_the_user_may_spell_its_labels_otherwise(tmp_path, files, tuned, names, order):
    """Its answers are compared and taught by the names that the rows have."""
    reference = noted_in(tuned.folder)["reference"]
    own = classifier(tmp_path / "own", reference["folder"], names, order)
    settings = {"out": tmp_path / "b", "families": ["words"], "engines": ["torch"], "budget": "10s"}
    found = datamux.tune(files["train"], encoder=own, max_drop=90, **settings)
    assert noted_in(found.folder)["reference"]["stop_score"] == reference["stop_score"] > 0.5
    gears = tuned_gears(found.folder, ServeSettings())
    load_gears(found.folder, gears, found.best)
    assert sorted(found.best.names) == ["no", "yes"]
    assert any("trained before this search" in note for note in found.record["notes"])


def test_an_encoder_that_cannot_be_cut_or_mixed_is_named(tmp_path, files):
    words = [row["text"] for row in reviews(300)]
    tokenizer = train_tokenizer(words, 400, lowercase=True)
    sizes = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 40}
    torch.manual_seed(0)
    AlbertModel(AlbertConfig(vocab_size=len(tokenizer), embedding_size=16, **sizes)).save_pretrained(
        tmp_path / "albert"
    )
    tokenizer.save_pretrained(tmp_path / "albert")
    settings = {"encoder": str(tmp_path / "albert"), "out": tmp_path / "best", "engines": ["torch"], "budget": "10s"}
    found = datamux.tune(files["train"], families=["cut", "mixed", "cut and mixed", "words"], max_drop=90, **settings)
    notes = " ".join(found.record["notes"])
    assert "the family 'cut' was left out: the encoder has 1 layer" in notes
    assert "the family 'mixed' was left out: datamux does not know where the layers of albert are" in notes
    assert "the family 'cut and mixed' was left out" in notes
    assert {row["family"] for row in found.table} == {"reference", "words", "rival"}


@pytest.mark.slow
def test_whatever_is_wrong_with_one_contender_the_others_go_on(tmp_path, files, encoder, monkeypatch):
    def fails(recipe, place, **options):
        if recipe.model.keep_layers == 1:
            raise RuntimeError("the disk is full\nand more")
        return real(recipe, place, **options)

    real = search.train
    monkeypatch.setattr(search, "train", fails)
    monkeypatch.setattr(search, "seconds_per_step", lambda *args: 0.01)  # so that there is time for both
    monkeypatch.setattr("datamux.train.simple_rivals._tfidf", lambda texts: 1 / 0)
    settings = {"encoder": encoder, "out": tmp_path / "best", "families": ["cut"], **QUICK, "budget": "40s"}
    found = datamux.tune(files["train"], max_drop=90, **settings)
    failed = {row["name"]: row["failed"] for row in found.table if "failed" in row}
    assert failed == {"1 layer of 4, round 1": "the disk is full"}
    assert any(row["name"].startswith("2 layers of 4") and row["timed"] for row in found.table)
    assert "TF-IDF with a linear model was left out: division by zero" in found.record["notes"]
    assert any(row["family"] == "rival" for row in found.table), "sentence vectors are still compared"


@pytest.mark.slow
def test_a_larger_budget_trains_on_and_what_is_new_is_measured_again(tmp_path, files, encoder, monkeypatch):
    trained = []

    def noted(recipe, place, **options):
        trained.append(place.name)
        return real(recipe, place, **options)

    real = search.train
    monkeypatch.setattr(search, "train", noted)
    monkeypatch.setattr(search, "seconds_per_step", lambda *args: 0.2)  # so that the first rounds are cut short
    settings = {"encoder": encoder, "out": tmp_path / "best", "families": ["cut"], "engines": ["torch"], "max_drop": 90}
    first = datamux.tune(files["train"], budget="10s", **settings)
    skipped = [row for row in first.table if row.get("failed") == "no time was left"]
    rounds, before = len(trained), noted_in(first.folder)["measured"]
    lines: list[str] = []
    again = datamux.tune(files["train"], budget="60s", **settings, tell=lines.append)
    assert len(trained) > rounds
    assert not [row for row in again.table if row.get("failed") == "no time was left"], skipped
    noted_now = noted_in(again.folder)
    names = {trial["name"]: trial["folder"] for trial in last_trials(noted_now["trials"])}
    for one in noted_now["measured"].values():
        assert one["folder"] == names.get(one["model"], one["folder"]), "no measurement is of an older model"
    assert any(one["folder"] != before.get(one["name"], one)["folder"] for one in noted_now["measured"].values())
    assert any(line.startswith("timing") for line in lines)


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


def is_right(answer, label) -> bool:
    """Whether an answer to a row says what its label says."""
    if isinstance(label, float):
        return abs(answer["score"] - label) < 0.5
    if isinstance(answer, dict):
        return answer["label"] == label
    if "film" in label:
        return {one["label"] for one in answer} == set(label)
    return [(span["entity_group"], span["word"]) for span in answer] == [("PER", "anna"), ("LOC", "paris")]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rows", "text", "metric", "above_chance", "engines"),
    [
        (PAIRS, ["one", "two"], "accuracy", 65, ["torch"]),
        (NUMBERS, ["text"], "R squared", 20, ["torch", "onnx"]),
        (SEVERAL, ["text"], "F1 of labels", 80, ["torch"]),
        (TAGS, ["text"], "F1 of spans", 50, ["torch", "onnx"]),
    ],
)
def test_every_kind_of_task(tmp_path, encoder, rows, text, metric, above_chance, engines):
    """It learns, it answers texts that it has seen, and an exported model scores as in torch."""
    file = write_jsonl(tmp_path, "train.jsonl", rows)
    families = ["words", "cut", "mixed"]
    settings = {"encoder": encoder, "families": families, "engines": engines, "budget": "60s"}
    found = datamux.tune(file, text=text, out=tmp_path / "best", min_score=above_chance, **settings)
    assert found.record["metric"] == metric
    assert found.record["met"], found.record["recommendation"]
    texts = [tuple(row[column] for column in text) if len(text) > 1 else row[text[0]] for row in rows[:40]]
    answers = found.best(texts)
    right = [is_right(answer, row["label"]) for answer, row in zip(answers, rows, strict=False)]
    assert sum(right) > 0.6 * len(right)
    assert found.record["engines"] == engines
    scores = {(row["model"], row["group_size"], row["engine"]): row["score"] for row in found.table if row["timed"]}
    for (model, size, engine), score in scores.items():
        if engine == "onnx" and (model, size, "torch") in scores:
            assert score == pytest.approx(scores[model, size, "torch"], abs=2)


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

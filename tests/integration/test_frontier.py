"""`datamux frontier` on tiny trained models: the plain one stays the measure, whatever sizes are asked for."""

import json

import pytest
import torch
import transformers as tf

from command_line import run
from conftest import tiny_encoder
from datamux import multiplex
from datamux.evaluate.benchmarks import run_speed
from datamux.evaluate.evaluate_model import evaluate_model
from datamux.evaluate.frontier import measure_frontier
from datamux.inference.export import export_model

ROWS = [{"text": text, "label": label} for text, label in [("good film", "pos"), ("the plot was bad .", "neg")] * 20]
LABELS = {0: "neg", 1: "pos"}


@pytest.fixture
def models(tmp_path, tokenizer):
    torch.manual_seed(0)
    config = tiny_encoder().config
    config.id2label = LABELS
    plain = tf.AutoModelForSequenceClassification.from_config(config)
    for name, model in (("plain", plain), ("mixed", multiplex(tiny_encoder(), 4, id2label=LABELS))):
        model.save_pretrained(tmp_path / name)
        tokenizer.save_pretrained(tmp_path / name)
    return [str(tmp_path / "plain"), str(tmp_path / "mixed")]


def test_the_plain_model_is_the_measure(models, tmp_path):
    file = tmp_path / "own.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    found = measure_frontier(
        models,
        str(file),
        names=["plain", "mixed"],
        group_sizes=[2, 4],
        engines=["torch", "bf16"],
        rounds=1,
        seconds=0.01,
    )
    points = found["results"]
    assert [(p["model"], p["engine"], p["group_size"]) for p in points] == [
        ("plain", "torch", 1),
        ("plain", "bf16", 1),
        ("mixed", "torch", 2),
        ("mixed", "torch", 4),
        ("mixed", "bf16", 2),
        ("mixed", "bf16", 4),
    ]
    assert points[0]["ratio"] == 1.0
    assert points[0]["drop"] == 0.0
    for p in points:
        assert p["drop"] == pytest.approx(100 * (points[0]["score"] - p["score"]))
        assert len(p["rates"]) == 1
        assert p["positions"] >= 256
    assert [p["flips"] for p in points[:2]] == [None, None], "one text per pass has no neighbours"
    alone = evaluate_model(models[1], str(file), group_sizes=[2, 4])["results"]
    assert [p["flips"] for p in points[2:4]] == [row["flips"] for row in alone]
    assert [p["folder"] for p in points] == [models[0]] * 2 + [models[1]] * 4
    assert any(p["best"] for p in points)
    assert found["recommendation"]["max_drop"] == 1.0
    assert found["recommendation"]["line"].startswith("Within 1 points of plain, torch: use ")


def test_the_command_says_how_many_answers_change_with_the_neighbours(models, tmp_path):
    file = tmp_path / "own.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    words = ["frontier", file, "-m", models[0], "-m", models[1], "--group-size", 4, "--rounds", 1, "--seconds", 0.01]
    record = tmp_path / "record.json"
    shown = run(*words, "--max-drop", 100, "--record", record)
    assert "flips" in shown.stdout
    (share,) = (row["flips"] for row in json.loads(record.read_text())["results"] if row["group_size"] == 4)
    assert f"{share:.1%}" in shown.stdout
    assert f"{share:.1%} of the answers flip" in shown.stderr
    assert "flips" not in run(*words[:4], "--rounds", 1, "--seconds", 0.01).stdout, "a plain model has none"


def test_taggers_on_a_csv_of_words_and_tags(tmp_path, tokenizer):
    labels = {0: "O", 1: "B-PER"}
    multiplex(tiny_encoder(), 3, task="token-classification", id2label=labels).save_pretrained(tmp_path / "tagger")
    tokenizer.save_pretrained(tmp_path / "tagger")
    file = tmp_path / "own.csv"
    file.write_text("text,label\n" + "anna works,B-PER O\nthe plot,O O\n" * 6)
    found = measure_frontier(
        [str(tmp_path / "tagger")], str(file), token_level=True, group_sizes=[1, 3], rounds=1, seconds=0.01
    )
    assert [point["group_size"] for point in found["results"]] == [1, 3]


def test_speed_of_a_trained_model_from_texts(models, tmp_path, monkeypatch):
    folder = tmp_path / "sst2"
    folder.mkdir()
    rows = [{"sentence": row["text"], "label": LABELS[0] == row["label"]} for row in ROWS]
    (folder / "train.jsonl").write_text("".join(json.dumps(row | {"label": int(row["label"])}) + "\n" for row in rows))
    options = {"shape": {}, "lengths": "sst2", "texts": True, "engines": ["torch"], "demultiplexers": [], "samples": 40}
    found = run_speed(model=models[1], group_sizes=[2, 40], rounds=1, seconds=0.01, data_dir=str(tmp_path), **options)
    assert [row["name"] for row in found["results"]] == ["plain, torch", "gate, 2 per pass, torch"], "40 does not fit"
    with pytest.raises(ValueError, match="has 4 slots"):
        run_speed(model=models[1], group_sizes=[40], rounds=1, seconds=0.01, data_dir=str(tmp_path), **options)


@pytest.mark.slow
def test_speed_of_an_exported_model_in_its_own_engine(models, tmp_path):
    export_model(models[1], tmp_path / "onnx")
    options = {"shape": {}, "group_sizes": [2, 3], "lengths": "fixed:8", "texts": False, "demultiplexers": []}
    options |= {"samples": 12, "rounds": 1, "seconds": 0.01, "model": str(tmp_path / "onnx")}
    for engines in ([], ["onnx"]):
        found = run_speed(engines=engines, **options)
        names = [row["name"] for row in found["results"]]
        assert names == ["plain, onnx", "gate, 2 per pass, onnx", "gate, 3 per pass, onnx"]
    with pytest.raises(ValueError, match="runs only in onnx, not in torch"):
        run_speed(engines=["torch"], **options)
    with pytest.raises(ValueError, match="not a multiplexed one"):
        run_speed(engines=[], **(options | {"model": models[0]}))

"""Published checkpoints through the commands and the predictor: they are taken wherever a model is."""

import csv
import json

import pytest
import torch
import transformers as tf
from huggingface_hub import constants
from starlette.testclient import TestClient

import datamux
import published as reference
from command_line import run, succeed
from conftest import write_jsonl
from datamux.serve.app import create_app
from published import PAD, N, in_hub_cache, random_checkpoint
from serving import make_service, own_answers

WORDS = ["the", "a", "film", "plot", "was", "is", "very", "not", "good", "bad", "dull", "great", "anna", "paris"]
TEXTS = [f"the {noun} {verb} {word}" for noun in ("film", "plot") for verb in ("was", "is not") for word in WORDS[8:12]]
ROOM = 60 - 2  # positions of the small encoder


@pytest.fixture(scope="session")
def roberta_tokenizer():
    special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    letters = [chr(c) for c in range(ord("a"), ord("z") + 1)]
    vocab = {piece: i for i, piece in enumerate([*special, "Ġ", *letters])}
    return tf.RobertaTokenizer(vocab=vocab, merges=[])


@pytest.fixture
def checkpoint(tmp_path, roberta_tokenizer):
    def make(kind="sentence", **more):
        folder, weights = random_checkpoint(tmp_path / f"datamux-{kind}", kind=kind, **more)
        roberta_tokenizer.save_pretrained(folder)
        return folder, weights

    return make


@pytest.fixture
def rows_file(tmp_path):
    rows = [{"text": text, "label": f"LABEL_{i % reference.LABELS}"} for i, text in enumerate(TEXTS)]
    return write_jsonl(tmp_path, "rows.jsonl", rows)


@pytest.fixture
def on_the_hub(checkpoint, tmp_path, monkeypatch):
    """A checkpoint that was downloaded before, and its folder with the same files. The Hub itself is not asked."""
    folder, _ = checkpoint()
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    in_hub_cache(tmp_path / "cache", "princeton-nlp/datamux-sst2-3", folder)
    return "princeton-nlp/datamux-sst2-3", folder


def rows_of(tokenizer, texts, length):
    return tokenizer(texts, padding="max_length", truncation=True, max_length=length, return_tensors="pt")["input_ids"]


def test_the_predictor_pads_as_in_training(checkpoint, roberta_tokenizer):
    """Equal to the published forward on rows that are padded to the length of training, here all the encoder has."""
    folder, weights = checkpoint()
    predictor = datamux.load(folder)
    length = ROOM - (N + 1)
    for texts in (TEXTS[:N], TEXTS[:1]):
        order = sorted(texts, key=lambda text: -len(text))  # equal lengths share a group in this order
        assert predictor.texts.max_tokens == length
        filled = (order * N)[:N]
        ids = rows_of(roberta_tokenizer, filled, length)
        logits = reference.published_logits(weights, ids, "gaussian_hadamard", "index", "sentence")
        logits = logits.view(-1, len(texts), reference.LABELS).mean(0)
        for answer, expected in zip(predictor(order), logits.softmax(-1), strict=True):
            assert answer["score"] == pytest.approx(float(expected.max()), abs=1e-4)
            assert answer["label"] == f"LABEL_{int(expected.argmax())}"


def test_by_its_name_on_the_hub(on_the_hub, rows_file, tmp_path):
    name, folder = on_the_hub
    for one, other in zip(*(datamux.load_published(place).state_dict().values() for place in on_the_hub), strict=True):
        assert torch.equal(one, other)
    assert datamux.load(name)(TEXTS) == datamux.load(folder)(TEXTS)
    records = [json.loads(succeed("evaluate", place, "--task", rows_file, "--json")) for place in (name, folder)]
    assert records[0]["results"] == records[1]["results"]
    answers = []
    for place in (name, folder):
        succeed("predict", place, rows_file, "-o", tmp_path / f"{len(answers)}.csv", "--quiet")
        answers.append((tmp_path / f"{len(answers)}.csv").read_text())
    assert answers[0] == answers[1]
    assert answers[0].count("\n") == 1 + len(TEXTS)
    done = run("evaluate", "princeton-nlp/datamux-sst2-5", "--task", rows_file)
    assert done.returncode == 2
    assert "princeton-nlp/datamux-sst2-5" in done.stderr, "this one was not downloaded"


def test_explain(on_the_hub):
    name, _ = on_the_hub
    found = json.loads(succeed("explain", name, TEXTS[0], "--groups", 8, "--json"))
    assert [row["group_size"] for row in found] == [1, 2, 3]
    assert {row["usual"] for row in found} <= {f"LABEL_{i}" for i in range(reference.LABELS)}
    assert found[0]["share"] == 1
    assert max(found[-1]["scores"]) > min(found[-1]["scores"]), "neighbours move the answers of a random model"


def test_serve(on_the_hub):
    """Asked not to mix, the server answers as the model does for each text by itself; otherwise it answers all."""
    name, _ = on_the_hub
    predictor = datamux.load(name)
    with TestClient(create_app(make_service(predictor, single_tenant=True))) as client:
        alone = client.post("/predict", json={"inputs": [[text] for text in TEXTS], "mux": False}).json()
        mixed = client.post("/predict", json={"inputs": [[text] for text in TEXTS]})
        assert client.get("/health").status_code == 200
    for found, expected in zip(alone, own_answers(predictor, TEXTS), strict=True):
        assert [one["label"] for one in found] == [one["label"] for one in expected]
        assert [one["score"] for one in found] == pytest.approx([one["score"] for one in expected], abs=1e-4)
    assert mixed.status_code == 200, mixed.text
    assert [len(answer) for answer in mixed.json()] == [reference.LABELS] * len(TEXTS)


def test_predict(checkpoint, rows_file, tmp_path):
    folder, _ = checkpoint()
    succeed("predict", folder, rows_file, "-o", tmp_path / "answers.csv", "--quiet")
    rows = list(csv.DictReader((tmp_path / "answers.csv").open()))
    assert [row["text"] for row in rows] == TEXTS
    assert {row["predicted_label"] for row in rows} <= {f"LABEL_{i}" for i in range(reference.LABELS)}


def test_evaluate(checkpoint, rows_file):
    folder, _ = checkpoint()
    found = json.loads(succeed("evaluate", folder, "--task", rows_file, "--json"))
    assert [row["group_size"] for row in found["results"]] == [1, 2, 3]
    assert {row["filler"] for row in found["results"]} == {found["evaluation"]["filler"]} == {"repeat"}
    assert {row["rows"] for row in found["results"]} == {len(TEXTS)}  # the last group, too
    assert found["encoder"]["family"] == "roberta"
    succeed("evaluate", folder, "--task", rows_file, "--filler", "nothing", "-k", 2, "--answer-from-neighbour")


def test_evaluate_a_converted_model(checkpoint, rows_file, tmp_path, roberta_tokenizer):
    folder, _ = checkpoint()
    datamux.load_published(folder).save_pretrained(tmp_path / "ours")
    roberta_tokenizer.save_pretrained(tmp_path / "ours")
    both = (succeed("evaluate", name, "--task", rows_file, "--json", "-k", 3) for name in (folder, tmp_path / "ours"))
    one, other = map(json.loads, both)
    assert one["results"] == other["results"]


def test_taggers(checkpoint, tmp_path):
    folder, _ = checkpoint("token", id2label={"0": "O", "1": "B-PER", "2": "I-PER", "3": "B-LOC"})
    rows = [{"text": ["anna", "was", "in", "paris"], "label": ["B-PER", "O", "O", "B-LOC"]}] * 4
    file = write_jsonl(tmp_path, "tags.jsonl", rows)
    found = json.loads(succeed("evaluate", folder, "--task", file, "--json", "-k", 3))
    assert found["results"][0]["metric"] == "f1"
    spans = datamux.load(folder)("anna was in paris")
    assert all(span["word"] in "anna was in paris" for span in spans)


def test_retrieval(checkpoint, tmp_path):
    folder, _ = checkpoint("retrieval")
    file = tmp_path / "corpus.txt"
    file.write_text("\n".join(TEXTS * 2))
    found = json.loads(succeed("evaluate", folder, "--task", file, "--json", "-k", 3))
    assert found["results"][0]["metric"] == "retrieval accuracy"
    done = run("predict", folder, file, "-o", tmp_path / "x.csv")
    assert done.returncode == 2
    assert "has no task head, because it is a warm-up" in done.stderr


def test_mux_plm(tmp_path, tokenizer, rows_file):
    folder = tmp_path / "muxbert"
    reference.write_checkpoint(folder, reference.mux_plm_fields(), reference.mux_plm_weights())
    tokenizer.save_pretrained(folder)
    found = json.loads(succeed("evaluate", folder, "--task", rows_file, "--json"))
    assert [row["group_size"] for row in found["results"]] == [1, 2, 3]
    pairs = datamux.load(folder)([("good film", "bad plot"), ("good film", "the plot was bad")])
    assert len(pairs) == 2


def test_they_are_listed():
    listed = json.loads(succeed("ls", "published", "--json"))
    assert len(listed) == 30 + 24
    assert {"name": "princeton-nlp/datamux-sst2-10", "trained on": "sst2", "texts per pass": "up to 10"} in listed


def test_bench(checkpoint):
    folder, _ = checkpoint()
    quick = ("--rounds", 1, "--seconds", 0.01, "--samples", 12, "--lengths", "fixed:8", "-k", 3)
    assert "published_index" in succeed("bench", "speed", "--model", folder, *quick)


def test_audit(checkpoint, rows_file, tmp_path):
    folder, _ = checkpoint()
    succeed("audit", folder, "--task", rows_file, "--record", tmp_path / "audit.json")
    found = json.loads((tmp_path / "audit.json").read_text())["results"]
    (consistency,) = [row for row in found if row["part"] == "consistency" and row["group_size"] == N]
    assert consistency["widest"] > 0, "neighbours move the answers of a random model"
    assert {"position", "worst case", "leakage"} <= {row["part"] for row in found}


def test_frontier(checkpoint, rows_file):
    folder, _ = checkpoint()
    quick = ("--rounds", 1, "--seconds", 0.01, "--groupings", 1, "-k", 2, "-k", 3)
    found = json.loads(succeed("frontier", rows_file, "--model", folder, "--name", "published", *quick, "--json"))
    assert [(row["model"], row["group_size"]) for row in found["results"]] == [("published", 2), ("published", 3)]
    assert all(row["rate"] > 0 for row in found["results"])


@pytest.mark.parametrize("mux", ["gaussian_hadamard", "random_ortho"])
@pytest.mark.parametrize("demux", ["index", "mlp"])
@pytest.mark.slow
def test_export(mux, demux, checkpoint, rows_file, tmp_path):
    folder, _ = checkpoint(mux=mux, demux=demux)
    done = succeed("export", folder, "-o", tmp_path / "exported")
    assert "exported:" in done
    one, other = (datamux.load(name)(TEXTS[:7]) for name in (folder, tmp_path / "exported"))
    assert [answer["label"] for answer in one] == [answer["label"] for answer in other]
    assert [a["score"] for a in one] == pytest.approx([a["score"] for a in other], abs=1e-4)
    succeed("evaluate", tmp_path / "exported", "--task", rows_file, "-k", 2)


def test_without_a_tokenizer(tmp_path, rows_file):
    folder, _ = random_checkpoint(tmp_path / "datamux-sst2-3")
    done = run("evaluate", folder, "--task", rows_file)
    assert done.returncode == 2
    assert "has no tokenizer" in done.stderr
    assert "roberta-base" in done.stderr


def test_another_file_is_one_clear_line(tmp_path, rows_file):
    folder, _ = random_checkpoint(tmp_path / "model", model_type="electra")
    done = run("evaluate", folder, "--task", rows_file)
    assert done.returncode == 2
    assert "published.md" in done.stderr
    assert "Traceback" not in done.stderr


def test_padding_in_a_batch_does_not_matter(checkpoint, roberta_tokenizer):
    """Rows are padded to one length whatever they share a pass with."""
    predictor = datamux.load(checkpoint()[0])
    ids = rows_of(roberta_tokenizer, TEXTS[:N], 40)
    short = ids[:, : int((ids != PAD).sum(1).max())]
    logits = [predictor.runtime.logits({"input_ids": x, "attention_mask": (x != PAD).long()}, N) for x in (ids, short)]
    torch.testing.assert_close(*logits)

"""The drop-in promise: pipelines, Trainer, two processes, Auto classes, saving."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import trainer_script
import transformers as tf
from huggingface_hub.errors import StrictDataclassFieldValidationError

from conftest import random_rows, tiny_encoder
from datamux import MuxConfig, MuxForSequenceClassification, multiplex

TEXTS = ["the film was very good .", "bad", "a very very bad plot .", "good film", "the plot is not good ."]
HERE = Path(__file__).parent


def test_text_classification_pipeline(tokenizer):
    model = multiplex(tiny_encoder(), 3, id2label={0: "bad", 1: "fine", 2: "good"})
    classify = tf.pipeline("text-classification", model=model, tokenizer=tokenizer)
    answers = classify(TEXTS, batch_size=5)
    with torch.no_grad():
        scores = model(**tokenizer(TEXTS, padding=True, return_tensors="pt")).logits.softmax(-1)
    assert [a["label"] for a in answers] == [model.config.id2label[int(i)] for i in scores.argmax(-1)]
    assert [a["score"] for a in answers] == pytest.approx(scores.max(-1).values.tolist(), abs=1e-5)
    assert {a["label"] for a in classify("good", top_k=None)} == {"bad", "fine", "good"}
    pair = classify({"text": "good film", "text_pair": "bad plot"})
    assert pair["label"] in model.config.label2id


def test_token_classification_pipeline(tokenizer):
    labels = {0: "O", 1: "B-PER", 2: "B-LOC"}
    model = multiplex(tiny_encoder(), 3, task="token-classification", id2label=labels)
    text = "anna lives in paris"
    with torch.no_grad():  # a head that names two words, whatever the rest of the model says
        model.mux.head.out.weight.zero_()
        model.mux.head.out.bias.copy_(torch.tensor([0.0, 1.0, 0.0]))
    tag = tf.pipeline("token-classification", model=model, tokenizer=tokenizer, aggregation_strategy="simple")
    spans = tag([text, "acme works in paris"], batch_size=2)
    assert len(spans) == 2
    for words, found in zip([text, "acme works in paris"], spans, strict=True):
        assert [words[s["start"] : s["end"]] for s in found] == words.split()
        assert {s["entity_group"] for s in found} == {"PER"}


def test_auto_classes_and_config(tmp_path):
    model = multiplex(tiny_encoder(), 3, id2label={0: "no", 1: "yes"}, multiplexer="ortho")
    model.save_pretrained(tmp_path)
    assert (tmp_path / "model.safetensors").exists()
    config = tf.AutoConfig.from_pretrained(tmp_path)
    assert isinstance(config, MuxConfig)
    assert (config.num_instances, config.multiplexer, config.label2id) == (3, "ortho", {"no": 0, "yes": 1})
    assert isinstance(tf.AutoModelForSequenceClassification.from_pretrained(tmp_path), MuxForSequenceClassification)
    with pytest.raises(StrictDataclassFieldValidationError, match="num_instances"):
        MuxConfig(num_instances="3")


@pytest.mark.parametrize("bypass", [False, True])
def test_an_old_checkpoint_loads_unless_it_had_a_bypass(tmp_path, bypass):
    multiplex(tiny_encoder(), 3).save_pretrained(tmp_path)
    file = tmp_path / "config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"bypass": bypass}))
    if bypass:
        with pytest.raises(ValueError, match="trained with bypass=true, which datamux no longer has; train it again"):
            MuxConfig.from_pretrained(tmp_path)
    else:
        assert "bypass" not in MuxConfig.from_pretrained(tmp_path).to_dict()


def test_keys_are_right_when_a_checkpoint_lacks_them(tmp_path):
    """transformers builds on the meta device; what a file does not hold must still come from the seed."""
    from safetensors.torch import load_file, save_file

    model = multiplex(tiny_encoder(), 3, multiplexer="ortho", demultiplexer="key", seed=5)
    model.save_pretrained(tmp_path)
    file = tmp_path / "model.safetensors"
    weights = {name: w for name, w in load_file(file).items() if "keys" not in name}
    save_file(weights, file, metadata={"format": "pt"})
    loaded = MuxForSequenceClassification.from_pretrained(tmp_path)
    assert torch.equal(loaded.mux.multiplexer.keys, model.mux.multiplexer.keys)
    assert torch.equal(loaded.mux.demultiplexer.keys, model.mux.demultiplexer.keys)


def test_push_to_hub_reaches_the_hub_client(no_network):
    """The real call must get as far as a closed port of this machine, and fail there and not before."""
    with pytest.raises(Exception, match="Connection refused"):  # the class depends on the version of huggingface_hub
        multiplex(tiny_encoder(), 2).push_to_hub("nobody/nothing")


def test_group_size_is_a_setting_and_an_argument():
    model = multiplex(tiny_encoder(), 4)
    rows = random_rows(4)
    with torch.no_grad():
        for k in (1, 2, 4):
            as_argument = model(**rows, group_size=k).logits
            model.group_size = k
            assert torch.equal(model(**rows).logits, as_argument)
            model.group_size = 4
    assert model.group_size == 4
    with pytest.raises(ValueError, match="group_size 5 is more than the model's 4 slots; choose 1 to 4"):
        model.group_size = 5
    model.filler = "repeat"
    assert torch.equal(model(**rows, group_size=2).logits, model(**rows, group_size=2, filler="repeat").logits)


def test_inputs_embeds_and_tuples():
    model = multiplex(tiny_encoder(), 3)
    rows = random_rows(4)
    vectors = model.get_input_embeddings()(rows["input_ids"])
    expected = model(**rows).logits
    got = model(inputs_embeds=vectors, attention_mask=rows["attention_mask"], return_dict=False)
    torch.testing.assert_close(got[0], expected)


def test_gradient_checkpointing_changes_nothing():
    model = multiplex(tiny_encoder(), 3)
    rows, labels = random_rows(6), torch.zeros(6, dtype=torch.long)
    expected = model(**rows, labels=labels).loss
    model.gradient_checkpointing_enable()
    model.train()
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    loss = model(**rows, labels=labels).loss
    loss.backward()
    torch.testing.assert_close(loss, expected, atol=1e-5, rtol=1e-4)


def run_trainer(report: Path, processes: int) -> dict:
    if processes == 1:
        trainer_script.main(str(report))
    else:
        launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc_per_node={processes}"]
        found_in = os.pathsep.join((str(HERE.parent), os.environ.get("PYTHONPATH", "")))
        environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": found_in}
        script = [str(HERE / "trainer_script.py"), str(report)]
        done = subprocess.run(launch + script, capture_output=True, text=True, timeout=200, env=environment)
        assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(report.read_text())


@pytest.mark.parametrize("processes", [1, 2])
def test_trainer_learns_and_counts_every_example_once(tmp_path, processes):
    report = run_trainer(tmp_path / "report.json", processes)
    assert report["processes"] == processes
    assert report["evaluated"] == 101, "an odd number, so that neither groups nor processes divide it"
    assert report["labels_seen"] == report["labels_given"]
    assert report["accuracy"] > 0.85
    assert 0.3 < report["first_loss"] < 1.2, "the logged loss is the mean, not multiplied by the processes"

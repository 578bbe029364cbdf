"""Teachers: asked once, with their own word pieces where these differ."""

import json
from functools import partial

import pytest
import torch
import transformers as tf
from test_training import FILL, GOOD, write_tags

from conftest import tiny_encoder
from datamux import multiplex
from datamux.tasks.rows import Rows
from datamux.tasks.task import own_task
from datamux.train.recipe import parse_recipe
from datamux.train.stages import train
from datamux.train.teachers import ask_teacher, teacher_logits, teacher_states, word_by_word


def test_teachers_of_both_kinds():
    torch.manual_seed(0)
    rows = Rows([[5, 6, 7], [8, 9], [10, 11, 12, 13]], pad_id=0, labels=[0, 1, 0])
    batch = rows.batch([0, 1, 2])
    del batch["labels"]
    classifier = tf.AutoModelForSequenceClassification.from_config(tiny_encoder().config).eval()
    ours = multiplex(tiny_encoder(), 1, multiplexer="identity", demultiplexer="identity")
    with torch.no_grad():
        for teacher in (classifier, ours):
            found = ask_teacher(teacher, rows, partial(teacher_logits, teacher), bf16=False)
            torch.testing.assert_close(found, teacher(**batch).logits, atol=1e-5, rtol=1e-4)
        for teacher in (tiny_encoder(), ours):
            expected = tiny_encoder()(**batch).last_hidden_state
            torch.testing.assert_close(teacher_states(teacher, batch)[2], expected[2], atol=1e-5, rtol=1e-4)
            pooled = teacher_states(teacher, batch, "pool")
            torch.testing.assert_close(pooled[1, 0], expected[1, :2].mean(0), atol=1e-5, rtol=1e-4)
            torch.testing.assert_close(
                teacher_states(teacher, batch, "first")[1, 0], expected[1, 0], atol=1e-5, rtol=1e-4
            )


def test_a_teacher_of_tags_has_a_row_a_token():
    rows = Rows([[5, 6, 7], [8, 9]], pad_id=0, token_labels=[[0, 1, 0], [1, 1]])
    ours = multiplex(tiny_encoder(), 1, task="token-classification", multiplexer="identity", num_labels=2)
    rows.teacher_logits = ask_teacher(ours, rows, partial(teacher_logits, ours), bf16=False)
    assert rows.teacher_logits.shape == (5, 2)
    batch = rows.batch([1, 0])
    assert batch["teacher_logits"].shape == (2, 3, 2)
    with torch.no_grad():
        expected = ours(batch["input_ids"], batch["attention_mask"]).logits
    torch.testing.assert_close(batch["teacher_logits"][0, :2], expected[0, :2], atol=1e-5, rtol=1e-4)


def test_what_is_said_of_a_word_goes_to_its_first_piece():
    # The teacher cuts the first word in two; of the second row it saw one word of two.
    its = Rows([[1, 2, 3, 4], [1, 5, 6]], pad_id=0, token_labels=[[-100, 0, -100, 1], [-100, 1, -100]])
    ours = Rows([[9, 8, 7], [9, 6, 5]], pad_id=0, token_labels=[[-100, 0, 1], [-100, 1, 2]])
    said = torch.arange(7)[:, None] + torch.tensor([0.0, 0.1, 0.2])
    found = word_by_word(said, its, ours)
    assert found.shape == (6, 3)
    assert torch.equal(found[1], said[1])
    assert torch.equal(found[2], said[3])
    assert torch.equal(found[4], said[5])
    assert found[5].argmax() == 2, "a word that the teacher did not see counts as it is labelled"
    assert not found[[0, 3]].any()


SIZES = {"layers": 1, "hidden": 16, "heads": 1, "max_tokens": 16, "num_instances": 2}
RUN = {"bf16": False, "save_steps": 1000, "eval_steps": 1000}


def test_a_teacher_with_other_word_pieces_teaches_a_tagger(tmp_path):
    task = own_task({"train": write_tags(tmp_path / "tags.jsonl", 300, 0)}, ["tokens"], "tags")
    plain = {"model": SIZES | {"vocab_size": 200}, "task": {"steps": 100, "alpha": 0.0, "learning_rate": 1e-2}}
    teacher = train(parse_recipe(plain | {"run": RUN | {"plain": True}}), tmp_path / "plain", task=task)
    # 26 letters and a few more: the student reads most words letter by letter
    student = {
        "model": SIZES | {"vocab_size": 45},
        "task": {"steps": 2, "teacher": str(teacher), "distill_logits": 0.5},
    }
    train(parse_recipe(student | {"run": RUN}), tmp_path / "student", task=task)
    (kept,) = teacher.glob("teacher-logits-*.pt")
    logits = torch.load(kept)
    tokenizer = tf.AutoTokenizer.from_pretrained(tmp_path / "student/task/model")
    sentence = next(iter(task.files.values())).read_text().splitlines()[1]  # the first of ten is held out
    words = json.loads(sentence)["tokens"]
    pieces = tokenizer(words, is_split_into_words=True)
    assert len(pieces["input_ids"]) > len(words) + 2
    before = None
    for place, word in enumerate(pieces.word_ids()):
        if word is not None and word != before:
            assert (logits[place].argmax() == 1) == (words[word] in GOOD), words[word]
        before = word
    states = {**student, "task": student["task"] | {"distill_states": 1.0}}
    with pytest.raises(ValueError, match="other word pieces"):
        train(parse_recipe(states | {"run": RUN}), tmp_path / "states", task=task)
    assert set(words) <= {*FILL, *GOOD}

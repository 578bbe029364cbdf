"""Teachers: asked once, with their own word pieces where these differ."""

import json
from functools import partial

import pytest
import torch
import transformers as tf
from test_training import FILL, GOOD, write_tags

import datamux
from conftest import tiny_config, tiny_encoder
from datamux import multiplex
from datamux.hub.loading import label_names
from datamux.tasks.examples import Examples
from datamux.tasks.labels import Labels
from datamux.tasks.rows import Rows, encode_examples
from datamux.tasks.task import task_from_files
from datamux.train.build import copy_head
from datamux.train.recipe import parse_recipe
from datamux.train.stages import train
from datamux.train.teachers import (
    ask_teacher,
    label_order,
    load_teacher,
    order_of,
    teach,
    teacher_logits,
    teacher_states,
    with_teacher,
    word_by_word,
)


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


@pytest.mark.parametrize("tags", [False, True])
def test_logits_and_states_come_from_one_pass(tmp_path, tokenizer, monkeypatch, tags):
    """And they are those of two passes."""
    task = "token-classification" if tags else "sequence-classification"
    plain = {"task": task, "multiplexer": "identity", "demultiplexer": "identity", "num_labels": 2}
    ours = multiplex(tiny_encoder(), 1, **plain).eval()
    ids = [[5, 6, 7], [8, 9], [10, 11, 12, 13]]
    given = {"token_labels": [[0, 1, 0], [1, 1], [0, 0, 1, 1]]} if tags else {"labels": [0, 1, 0]}
    rows = Rows(ids, pad_id=0, **given)
    passes, encode = [], type(ours).encode
    monkeypatch.setattr(type(ours), "encode", lambda self, *a, **k: passes.append(1) or encode(self, *a, **k))
    labels = Labels(label_names(ours.config))
    settings = {"task": {"distill_logits": 0.5, "distill_states": 1.0, "teacher": "ours"}, "run": {"bf16": False}}
    teach(ours, ours, parse_recipe(settings), rows, Examples(["a"] * 3), labels, tokenizer, tmp_path)
    assert len(passes) == 1
    reads = "all" if tags else "pool"
    torch.testing.assert_close(rows.teacher_logits, ask_teacher(ours, rows, partial(teacher_logits, ours), bf16=False))
    states = ask_teacher(ours, rows, partial(teacher_states, ours, reads=reads), bf16=False)
    torch.testing.assert_close(rows.teacher_states, states.bfloat16())


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
    files = {
        "train": write_tags(tmp_path / "tags.jsonl", 300, 0),
        "validation": write_tags(tmp_path / "v.jsonl", 30, 1),
    }
    task = task_from_files(files, ["tokens"], "tags")
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
    words = json.loads(files["train"].read_text().splitlines()[0])["tokens"]  # the rows keep the order of the file
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


@pytest.mark.parametrize(
    ("known", "names", "order"),
    [
        (("a", "b"), ("a", "b"), [0, 1]),
        (("NEGATIVE", "POSITIVE"), ("negative", "positive"), [0, 1]),
        (("c", "a", "b"), ("a", "B", "c"), [1, 2, 0]),
        (("LABEL_0", "LABEL_1"), ("no", "yes"), [0, 1]),
        (("LABEL_0", "LABEL_1"), ("a", "b", "c"), None),
        (("bad", "good"), ("no", "yes"), None),
        (("a", "A"), ("a", "b"), None),
    ],
)
def test_labels_are_matched_by_name(known, names, order):
    assert label_order(known, names) == order


def saved_classifier(folder, id2label, tokenizer) -> str:
    torch.manual_seed(0)
    config = tiny_config()
    config.id2label = id2label
    tf.AutoModelForSequenceClassification.from_config(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return str(folder)


def test_the_answers_of_a_teacher_come_in_our_order(tmp_path, tokenizer):
    name = saved_classifier(tmp_path / "teacher", {0: "Good", 1: "Bad"}, tokenizer)
    labels = Labels(("bad", "good"))
    teacher = load_teacher(name, tf.AutoModelForSequenceClassification, labels)
    ours = multiplex(tiny_encoder(), 2, num_labels=2)
    examples = Examples(["good film", "bad plot"], labels=["good", "bad"])
    rows = encode_examples(examples, labels, tokenizer, 8)
    recipe = parse_recipe({"task": {"teacher": name, "distill_logits": 0.5}, "run": {"bf16": False}})
    teach(teacher, ours, recipe, rows, examples, labels, tokenizer, tmp_path)
    with torch.no_grad():
        said = teacher_logits(teacher, {k: x for k, x in rows.batch([0, 1]).items() if k != "labels"})
    torch.testing.assert_close(rows.teacher_logits, said[:, [1, 0]], atol=1e-5, rtol=1e-4)


def test_labels_are_in_the_order_of_their_numbers():
    config = tiny_config()
    config.id2label = {number: f"label {number}" for number in sorted(range(12), key=str)}  # as text: 0 1 10 11 2
    assert label_names(config) == tuple(f"label {number}" for number in range(12))
    assert order_of(config, Labels(label_names(config))) == list(range(12))


def test_the_head_of_a_teacher_is_taken_in_our_order():
    teacher = multiplex(tiny_encoder(), 1, multiplexer="identity", demultiplexer="identity", num_labels=2)
    ours = multiplex(tiny_encoder(), 1, multiplexer="identity", demultiplexer="identity", num_labels=2)
    copy_head(teacher, ours, [1, 0])
    assert ours.mux.head.out.weight.equal(teacher.mux.head.out.weight[[1, 0]])
    assert ours.mux.head.dense.weight.equal(teacher.mux.head.dense.weight)


def test_a_classifier_with_other_labels_is_no_teacher(tmp_path, tokenizer, caplog):
    name = saved_classifier(tmp_path / "teacher", {0: "no", 1: "yes"}, tokenizer)
    recipe = parse_recipe({"model": {"num_instances": 2, "start": name}})
    assert with_teacher(recipe, name, Labels(("Yes", "No")), "sequence").task.teacher == name
    assert with_teacher(recipe, name, Labels(("Yes", "No")), "token").task.teacher == ""
    assert not caplog.messages
    assert with_teacher(recipe, name, Labels(("bad", "good")), "sequence").task.teacher == ""
    (said,) = caplog.messages
    assert "is not the teacher: it has the labels ('no', 'yes'), but the task has ('bad', 'good')" in said
    with pytest.raises(ValueError, match=r"has the labels \('no', 'yes'\), but the task has \('bad', 'good'\)"):
        load_teacher(name, tf.AutoModelForSequenceClassification, Labels(("bad", "good")))


def test_an_encoder_is_no_teacher_of_a_task(tmp_path):
    tiny_encoder().save_pretrained(tmp_path)
    with pytest.raises(ValueError, match="saved as BertModel, and the task needs a model for SequenceClassification"):
        load_teacher(str(tmp_path), tf.AutoModelForSequenceClassification, Labels(("bad", "good")))


def test_a_student_learns_words_that_only_its_teacher_knows(tmp_path):
    """The student's labelled rows have half of the words, good and other; the rest is in texts that the teacher labels.

    Of a word that it never saw a student may say anything, but the same of good and other ones.
    """
    unseen = {*GOOD[2:], *FILL[4:]}
    known = task_from_files({"train": write_tags(tmp_path / "tags.jsonl", 300, 0)}, ["tokens"], "tags")
    plain = {"model": SIZES | {"vocab_size": 200}, "task": {"steps": 100, "alpha": 0.0, "learning_rate": 1e-2}}
    teacher = train(parse_recipe(plain | {"run": RUN | {"plain": True}}), tmp_path / "plain", task=known)
    rows = [json.loads(line) for line in (tmp_path / "tags.jsonl").read_text().splitlines()]
    few = tmp_path / "few.jsonl"
    few.write_text("".join(json.dumps(r) + "\n" for r in rows if not unseen & {*r["tokens"]}))
    more = tmp_path / "more.txt"
    more.write_text("".join(" ".join(r["tokens"]) + "\n" for r in rows))
    task = task_from_files({"train": few}, ["tokens"], "tags")

    def tagged(name: str, **unlabelled: str) -> set[str]:
        """Which of the words that have no label the student takes for good."""
        student = {
            "model": SIZES | {"num_instances": 1, "tokenizer": str(teacher)},
            "task": plain["task"] | {"teacher": str(teacher), "distill_logits": 0.5, **unlabelled},
        }
        folder = train(parse_recipe(student | {"run": RUN | {"plain": True}}), tmp_path / name, task=task)
        found = datamux.load(str(folder))([["the", "film", word, "was"] for word in sorted(unseen)])
        return {word for word, spans in zip(sorted(unseen), found, strict=True) if spans}

    assert tagged("without") != {*GOOD[2:]}
    assert tagged("with", unlabelled=str(more)) == {*GOOD[2:]}

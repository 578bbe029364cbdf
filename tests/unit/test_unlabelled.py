"""Texts without labels: where they stand, and what their teacher makes of them."""

import pytest
import torch

from datamux.tasks.examples import Examples
from datamux.tasks.files import BadFile
from datamux.tasks.labels import Labels
from datamux.tasks.rows import Rows
from datamux.tasks.task import Task
from datamux.train.recipe import TaskSettings
from datamux.train.unlabelled import check_unlabelled, label_by_teacher, with_unlabelled

ONE = Task("reviews", "sequence", ("text",), "label")
PAIRS = Task("pairs", "sequence", ("one", "two"), "label")
TAGS = Task("names", "token", ("words",), "tags")
NAMES = Labels(("no", "yes", "perhaps"))


def test_they_stand_behind_the_labelled_rows(tmp_path):
    file = tmp_path / "more.csv"
    file.write_text("id,text\n1,new text\n2,another\n")
    labelled = Examples(["a", "b"], labels=["yes", "no"], source=tmp_path / "train.csv", label_column="label")
    both = with_unlabelled(labelled, TaskSettings(unlabelled=str(file)), ONE, NAMES)
    assert both.texts == ["a", "b", "new text", "another"]
    assert both.labels[:2] == ["yes", "no"]
    assert both.encoded_labels(NAMES) == [1, 0, 0, 0]
    assert both.place(1) == (tmp_path / "train.csv", 2)
    assert both.place(3) == (file, 2)
    assert with_unlabelled(labelled, TaskSettings(), ONE, NAMES) is labelled


def test_a_text_a_line_or_a_table(tmp_path):
    lines, table = tmp_path / "more.txt", tmp_path / "more.jsonl"
    lines.write_text("Anna went home\n\nto Rome\n")
    table.write_text('{"words": ["Bob", "did", "not"]}\n{"words": "nor did Eve"}\n')
    labelled = Examples([["Bob"]], labels=[["yes"]])
    both = with_unlabelled(labelled, TaskSettings(unlabelled=str(lines)), TAGS, NAMES)
    assert both.texts[1:] == [["Anna", "went", "home"], ["to", "Rome"]]
    assert [len(tags) for tags in both.labels] == [1, 3, 2]
    both = with_unlabelled(labelled, TaskSettings(unlabelled=str(table)), TAGS, NAMES)
    assert both.texts[1:] == [["Bob", "did", "not"], ["nor", "did", "Eve"]]


def test_bad_files_say_what_is_wrong(tmp_path):
    lines, table = tmp_path / "more.txt", tmp_path / "more.csv"
    lines.write_text("one text\n")
    table.write_text("one\nfirst\n")
    labelled = Examples(["a"], ["b"], labels=["yes"])
    with pytest.raises(BadFile, match="a line is one text, and pairs has pairs"):
        with_unlabelled(labelled, TaskSettings(unlabelled=str(lines)), PAIRS, NAMES)
    with pytest.raises(BadFile, match=r"column 'two': no such column; there are: one"):
        with_unlabelled(labelled, TaskSettings(unlabelled=str(table)), PAIRS, NAMES)
    with pytest.raises(BadFile, match="no such file"):
        with_unlabelled(labelled, TaskSettings(unlabelled=str(tmp_path / "none.csv")), ONE, NAMES)


def test_somebody_must_label_them():
    with pytest.raises(ValueError, match=r"nobody can label more\.csv: task\.unlabelled needs a teacher"):
        check_unlabelled(TaskSettings(unlabelled="more.csv"))
    check_unlabelled(TaskSettings(unlabelled="more.csv", distill_logits=0.5))
    check_unlabelled(TaskSettings())


@pytest.mark.parametrize(
    ("problem", "given", "said", "found"),
    [
        ("single_label_classification", [2, 0, 0], [[9.0, 0, 0], [0, 1, 2], [3, 5, 1]], [2, 2, 1]),
        ("multi_label_classification", [[1.0, 0.0], [0.0, 0.0]], [[-1.0, 1], [2, -1]], [[1.0, 0.0], [1.0, 0.0]]),
        ("regression", [0.5, 0.0, 0.0], [[7.0], [1.5], [-2.0]], [0.5, 1.5, -2.0]),
    ],
)
def test_the_teachers_answer_is_the_label(problem, given, said, found):
    rows = Rows([[5, 6, 7], [8, 9], [4]][: len(given)], pad_id=0, labels=given)
    rows.teacher_logits = torch.tensor(said)
    label_by_teacher(rows, 1, Labels(("a", "b", "c")[: len(said[0])], problem))
    assert torch.equal(rows.labels, torch.tensor(found))


def test_which_labels_it_gives_is_told(caplog):
    """If they are unlike those of the labelled rows, the student may get worse."""
    rows = Rows([[5], [6], [7], [8], [9]], pad_id=0, labels=[0] * 5)
    rows.teacher_logits = torch.tensor([[1.0, 0, 0], [0, 9, 0], [0, 9, 0], [0, 9, 0], [0, 0, 9]])
    with caplog.at_level("INFO", "datamux"):
        label_by_teacher(rows, 1, NAMES)
    assert caplog.messages == ["the teacher labelled 4 texts: 75% yes, 25% perhaps, 0% no"]


def test_words_get_tags_and_other_tokens_none():
    rows = Rows([[1, 5, 6], [1, 8, 9, 2]], pad_id=0, token_labels=[[-100, 2, -100], [-100, 0, 0, -100]])
    rows.teacher_logits = torch.tensor([[0.0, 1, 0]] * 5 + [[0, 0, 1.0]] * 2)
    label_by_teacher(rows, 1, NAMES)
    assert rows.token_labels.tolist() == [-100, 2, -100, -100, 1, 2, -100]
    label_by_teacher(rows, 2, NAMES)  # nothing is left to label
    assert rows.token_labels.tolist() == [-100, 2, -100, -100, 1, 2, -100]

"""What columns mean, where splits are found, how rows are encoded."""

import pytest
import torch

from conftest import write_jsonl
from datamux.tasks.files import BadFile
from datamux.tasks.labels import Labels
from datamux.tasks.rows import IGNORED, Chunks, Rows, align_tags, encode_corpus, encode_examples
from datamux.tasks.task import (
    TASKS,
    Examples,
    corpus_task,
    find_labels_of,
    get_task,
    load_split,
    read_corpus,
    task_from_files,
)
from datamux.train.data import corpus_lines, corpus_words, find_corpora, find_tokenizer, task_examples
from datamux.train.recipe import parse_recipe


def test_local_splits(tmp_path, monkeypatch):
    write_jsonl(tmp_path / "sst2", "train.jsonl", [{"sentence": "fine", "label": 1}])
    examples = load_split(get_task("sst2"), "train", tmp_path)
    assert (examples.texts, examples.labels) == (["fine"], [1])
    assert find_labels_of(get_task("sst2"), examples).names == ("negative", "positive")
    with pytest.raises(FileNotFoundError, match="no test split of sst2"):
        load_split(get_task("sst2"), "test", tmp_path)
    monkeypatch.setenv("DATAMUX_DATA", str(tmp_path))
    assert len(load_split(get_task("sst2"), "train")) == 1
    with pytest.raises(ValueError, match="Did you mean 'sst2'"):
        get_task("sst-2")


def test_hub_is_asked_without_a_folder(monkeypatch):
    monkeypatch.delenv("DATAMUX_DATA", raising=False)
    with pytest.raises(FileNotFoundError, match=r"could not be loaded from the Hub \(nyu-mll/glue/sst2\)"):
        load_split(get_task("sst2"), "train")


def test_own_files(tmp_path):
    pairs = write_jsonl(
        tmp_path, "pairs.jsonl", [{"a": "x", "b": "y", "same": "no"}, {"a": "x", "b": "x", "same": "yes"}]
    )
    task = task_from_files({"train": pairs}, ["a", "b"], "same")
    examples = load_split(task, "train")
    assert (task.kind, examples.pairs) == ("sequence", ["y", "x"])
    words = write_jsonl(tmp_path, "words.jsonl", [{"tokens": ["a", "b"], "tags": ["O", "B-X"]}])
    assert task_from_files({"train": words}, ["tokens"], "tags").kind == "token"
    bad = write_jsonl(tmp_path, "bad.jsonl", [{"tokens": ["a"], "tags": ["O"]}, {"tokens": ["a", "b"], "tags": ["O"]}])
    with pytest.raises(BadFile, match=r"bad\.jsonl, row 2, column 'tags': 2 words but 1 tags"):
        load_split(task_from_files({"train": bad}, ["tokens"], "tags"), "train")
    with pytest.raises(BadFile, match=r"column 'text': no such column; there are: tokens, tags"):
        task_from_files({"train": words}, ["text"], "tags")
    with pytest.raises(FileNotFoundError, match="no validation file"):
        load_split(task, "validation")


class FromHub(list):
    """As much of a data set from the Hub as is used."""

    def __init__(self, rows, features):
        super().__init__(rows)
        self.features = features


def test_labels_from_the_hub_get_their_names(monkeypatch):
    import datasets

    tags = datasets.Sequence(datasets.ClassLabel(names=["O", "B-person"]))
    label = datasets.ClassLabel(names=["card lost", "top up"])
    asked = []

    def load_dataset(*name, split, revision=None):
        asked.append((name, split, revision))
        if name[0] == "leondz/wnut_17":
            if revision is None:
                raise RuntimeError("Dataset scripts are no longer supported")
            return FromHub([{"tokens": ["anna", "ran"], "ner_tags": [1, 0]}], {"ner_tags": tags})
        return FromHub([{"text": "hello", "label": 1}], {"label": label})

    monkeypatch.delenv("DATAMUX_DATA", raising=False)
    monkeypatch.setattr(datasets, "load_dataset", load_dataset)
    assert load_split(get_task("banking77"), "test").labels == ["top up"]
    assert load_split(get_task("wnut17"), "train").labels == [["B-person", "O"]]
    assert asked[-1] == (("leondz/wnut_17",), "train", "refs/convert/parquet")


def test_a_corpus_from_the_hub_is_read_no_further_than_needed(monkeypatch, tmp_path, tokenizer):
    import datasets

    read = []

    def load_dataset(*name, split, streaming):
        if split != "train":
            raise ValueError(f"Bad split: {split}")
        assert (name, streaming) == (("wikimedia/wikipedia", "20231101.en"), True)
        return ({"text": read.append(i) or "good film the plot"} for i in range(1_000_000))

    monkeypatch.delenv("DATAMUX_DATA", raising=False)
    monkeypatch.setattr(datasets, "load_dataset", load_dataset)
    words = corpus_words([get_task("wikipedia_en")], "train", None, tokenizer, tokens=4, max_words=3000)
    assert len(words) == 3000
    assert len(read) < 2000
    read.clear()
    recipe = parse_recipe({"warmup": {"steps": 1, "max_words": 3000}, "model": {"vocab_size": 50}})
    assert len(find_tokenizer(recipe, tmp_path, None, None)) > 5
    assert len(read) < 4000  # every fourth text


def test_a_split_that_cannot_be_loaded_is_not_taken_for_none(monkeypatch, caplog):
    import datasets

    rows = [{"text": f"text {i}", "label": i % 2} for i in range(20)]
    features = {"label": datasets.ClassLabel(names=["card lost", "top up"])}
    problem: Exception = ConnectionError("Couldn't reach the Hub")

    def load_dataset(*name, split):
        if split == "train":
            return FromHub(rows, features)
        raise problem

    monkeypatch.delenv("DATAMUX_DATA", raising=False)
    monkeypatch.setattr(datasets, "load_dataset", load_dataset)
    with pytest.raises(FileNotFoundError, match="could not be loaded from the Hub"):
        task_examples(get_task("banking77"), None, 10)
    problem = ValueError("Unknown split \"validation\". Should be one of ['train', 'test'].")
    with caplog.at_level("INFO"):
        kept, held_out, _ = task_examples(get_task("banking77"), None, 10)
    assert len(kept) + len(held_out) == 20
    assert 1 <= len(held_out) <= 3
    assert f"{len(held_out)} rows of" in caplog.text


def sorted_by_label(folder, name, count):
    rows = [{"text": f"{name} {label} {row}", "label": label} for label in "abcd" for row in range(count)]
    return write_jsonl(folder, f"{name}.jsonl", rows)


def test_held_out_rows_are_a_sample_even_of_a_file_that_is_sorted_by_label(tmp_path):
    train, validation = sorted_by_label(tmp_path, "train", 100), sorted_by_label(tmp_path, "validation", 50)
    alone = task_from_files({"train": train}, ["text"], "label")
    kept, held_out, _ = task_examples(alone, None, 20)
    assert not set(kept.texts) & set(held_out.texts)
    assert len(kept) + len(held_out) == 400
    assert 14 <= len(held_out) <= 26, "about as many as are looked at: the others are trained on"
    assert set(held_out.labels) == set("abcd")
    again = task_examples(alone, None, 20)[1]
    assert held_out.texts == again.texts
    both = task_from_files({"train": train, "validation": validation}, ["text"], "label")
    kept, drawn, _ = task_examples(both, None, 40)
    assert (len(kept), len(drawn)) == (400, 40)
    assert set(drawn.labels) == set("abcd")


def test_a_text_that_is_trained_on_is_not_held_out_as_well(tmp_path):
    rows = [{"text": f"text {row % 30}", "label": row % 2} for row in range(120)]
    task = task_from_files({"train": write_jsonl(tmp_path, "train.jsonl", rows)}, ["text"], "label")
    kept, held_out, _ = task_examples(task, None, 1000)
    assert len(held_out)
    assert not set(kept.texts) & set(held_out.texts)


def test_of_two_rows_one_is_held_out_and_of_one_none_can_be(tmp_path):
    two = write_jsonl(tmp_path, "two.jsonl", [{"text": "good", "label": 1}, {"text": "bad", "label": 0}])
    kept, held_out, _ = task_examples(task_from_files({"train": two}, ["text"], "label"), None, 10)
    assert (len(kept), len(held_out)) == (1, 1)
    one = write_jsonl(tmp_path, "one.jsonl", [{"text": "good", "label": label} for label in (1, 0)])
    with pytest.raises(BadFile, match="has only one text"):
        task_examples(task_from_files({"train": one}, ["text"], "label"), None, 10)


def test_any_text_file_is_a_corpus(tmp_path):
    (tmp_path / "my.txt").write_text("\n".join(f"line {i}" for i in range(120)))
    corpus = corpus_task(str(tmp_path / "my.txt"))
    held_out, train = list(corpus_lines([corpus], "validation", None)), list(corpus_lines([corpus], "train", None))
    assert held_out == ["line 0", "line 50", "line 100"]
    assert len(train) == 117
    assert not set(held_out) & set(train)
    (tmp_path / "notes").write_text("one\ntwo\n")
    assert list(corpus_lines([corpus_task(str(tmp_path / "notes"))], "train", None)) == ["two"]
    assert corpus_task("sst2") is get_task("sst2"), "the texts of a task are a corpus, too"
    with pytest.raises(ValueError, match="wikipedia"):
        corpus_task("wikipedia")


def test_the_texts_of_a_task_are_a_corpus_too(tmp_path):
    (tmp_path / "p.csv").write_text("a,b,y\n" + "".join(f"left {i},right {i},{i % 2}\n" for i in range(4)))
    pairs = task_from_files({"train": tmp_path / "p.csv"}, ["a", "b"], "y")
    assert find_corpora("task", pairs) == [pairs]
    assert list(read_corpus(pairs, "train")) == [*(f"left {i}" for i in range(4)), *(f"right {i}" for i in range(4))]
    with pytest.raises(ValueError, match="needs a task"):
        find_corpora("task", None)


def test_a_tenth_is_held_out_where_there_is_no_validation_file(tmp_path):
    (tmp_path / "t.csv").write_text(
        "text,label\n" + "".join(f"text {i},{'rare' if i == 10 else 'b'}\n" for i in range(25))
    )
    train, held_out, labels = task_examples(
        task_from_files({"train": tmp_path / "t.csv"}, ["text"], "label"), None, 100
    )
    assert len(train) + len(held_out) == 25
    assert 2 <= len(held_out) <= 3
    assert not set(train.texts) & set(held_out.texts)
    assert labels.names == ("b", "rare")
    assert "text 10" in train.texts, "the only row of a label is needed for training"


def test_too_little_data_is_said(tmp_path, tokenizer, caplog):
    same = write_jsonl(tmp_path, "same.jsonl", [{"text": "x", "label": "a"}] * 5)
    with pytest.raises(BadFile, match=r"same\.jsonl, column 'label': all rows have the label 'a'"):
        task_examples(task_from_files({"train": same}, ["text"], "label"), None, 10)
    number = write_jsonl(tmp_path, "number.jsonl", [{"text": "x", "label": 0.5}])
    with pytest.raises(BadFile, match=r"number\.jsonl: has only one text; .* at least two are needed"):
        task_examples(task_from_files({"train": number}, ["text"], "label"), None, 10)
    (tmp_path / "short.txt").write_text("good film\nbad plot\n")
    corpus = corpus_task(str(tmp_path / "short.txt"))
    with pytest.raises(ValueError, match=r"the corpus short has 2 word pieces \(train\), and one row takes 4: give"):
        corpus_words([corpus], "train", None, tokenizer, tokens=4, max_words=100)
    assert len(corpus_words([corpus], "validation", None, tokenizer, tokens=4, max_words=100)) == 2
    assert "(validation), and one row takes 4: the warm-up is not evaluated" in caplog.text


def test_words_that_are_cut_off_are_kept_for_scoring(tokenizer):
    examples = Examples([["anna", "lives", "in", "paris"]], labels=[["B", "O", "O", "B"]])
    rows = encode_examples(examples, Labels(("O", "B")), tokenizer, 4)
    assert rows.cut_labels == [[0, 1]]


def test_rows_hand_out_padded_batches():
    rows = Rows([[7, 8], [9, 9, 9], [5]], pad_id=0, labels=[1, 0, 1], token_types=[[0, 1], [0, 0, 1], [0]])
    batch = rows.batch([2, 0])
    assert batch["input_ids"].tolist() == [[5, 0], [7, 8]]
    assert batch["attention_mask"].tolist() == [[1, 0], [1, 1]]
    assert batch["token_type_ids"].tolist() == [[0, 0], [0, 1]]
    assert batch["labels"].tolist() == [1, 1]
    tagged = Rows([[7, 8], [9]], pad_id=0, token_labels=[[IGNORED, 2], [1]])
    assert tagged.batch([0, 1])["labels"].tolist() == [[IGNORED, 2], [1, IGNORED]]


def test_chunks():
    chunks = Chunks(torch.arange(11), 3)
    assert len(chunks) == 3
    assert chunks.__getitems__([2, 0])["labels"].tolist() == [[6, 7, 8], [0, 1, 2]]


def test_encoding(tokenizer):
    labels = Labels(("O", "B-PER"))
    rows = encode_examples(
        Examples([["anna", "lives"], ["paris"]], labels=[["B-PER", "O"], ["O"]]), labels, tokenizer, 16
    )
    assert rows.batch([0, 1])["labels"].tolist() == [[IGNORED, 1, 0, IGNORED], [IGNORED, 0, IGNORED, IGNORED]]
    pairs = encode_examples(Examples(["good"], ["bad film"], ["1"]), Labels(("0", "1")), tokenizer, 16)
    assert pairs.batch([0])["token_type_ids"].tolist() == [[0, 0, 0, 1, 1, 1]]
    short = encode_examples(Examples(["good " * 50], labels=["1"]), Labels(("0", "1")), tokenizer, 9)
    first, last = tokenizer.cls_token_id, tokenizer.sep_token_id
    good = tokenizer.convert_tokens_to_ids("good")
    assert short.batch([0])["input_ids"].tolist() == [[first, *[good] * 7, last]]
    assert len(encode_corpus(["good bad", "film"] * 3, tokenizer)) == 9
    assert len(encode_corpus(["good bad", "film"] * 3, tokenizer, 4)) == 4


def test_tags_sit_on_the_first_piece_of_a_word():
    assert align_tags([None, 0, 0, 1, None], [5, 6]) == [IGNORED, 5, IGNORED, 6, IGNORED]


@pytest.mark.data
@pytest.mark.parametrize("name", ["sst2", "qqp", "qnli", "mnli", "conll2003", "banking77", "wnut17"])
def test_real_data_loads(name, tokenizer):
    task = TASKS[name]
    examples = load_split(task, "train")
    labels = find_labels_of(task, examples)
    assert len(examples) > 3000
    assert len(labels.names) > 1
    some = Examples(examples.texts[:50], examples.pairs and examples.pairs[:50], examples.labels[:50])
    assert len(encode_examples(some, labels, tokenizer, 32)) == 50

"""`datamux.load`: texts in, answers out, in input order, the same whatever the batch size, precision or engine."""

import json
import shutil
import threading

import pytest
import torch
import transformers as tf

import datamux
from conftest import tiny_encoder
from datamux.evaluate.workloads import FromTexts
from datamux.inference.export import Parity, _refuse, _same_answers, export_model
from datamux.inference.exported import ExportedRuntime
from datamux.inference.texts import Texts
from datamux.zoo.sentences import OPINIONS

SENTENCES = ["good film", "the plot was very bad .", "anna lives in paris", "a film", "bad", "not good , not bad"]
TEXTS = [f"{text}{more}" for more in ("", " .", " at acme", " is", " was not very good") for text in SENTENCES]
LABELS = {0: "neg", 1: "pos", 2: "other"}
TAGS = {0: "O", 1: "B-PER", 2: "I-PER", 3: "B-LOC"}


def save(folder, tokenizer, task="sequence-classification", n=4):
    torch.manual_seed(1)
    labels = LABELS if task.startswith("sequence") else TAGS
    model = datamux.multiplex(tiny_encoder(), n, task=task, id2label=labels)
    for parameter in model.mux.head.parameters():
        torch.nn.init.normal_(parameter)  # answers that differ from text to text
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture
def folder(tmp_path, tokenizer):
    return save(tmp_path / "model", tokenizer)


def same(one, other, tolerance=1e-4):
    assert [a["label"] for a in one] == [a["label"] for a in other]
    assert [a["score"] for a in one] == pytest.approx([a["score"] for a in other], abs=tolerance)


def test_alone_it_answers_as_the_pipeline_does(folder, tokenizer):
    predictor = datamux.load(folder)
    model = datamux.MuxForSequenceClassification.from_pretrained(folder)
    pipeline = tf.pipeline("text-classification", model=model, tokenizer=tokenizer)
    model.group_size = 1
    same(predictor(TEXTS, group_size=1), pipeline(TEXTS, batch_size=1))
    assert predictor("good film", group_size=1) == predictor(["good film"], group_size=1)


def test_order_and_kinds_of_input(folder, tmp_path):
    predictor = datamux.load(folder)
    expected = predictor(TEXTS, group_size=1)
    assert len({answer["score"] for answer in expected}) == len(set(TEXTS))
    same(list(predictor(iter(TEXTS), group_size=1)), expected)
    same(list(predictor.stream(TEXTS, group_size=1, window=4)), expected)
    file = tmp_path / "texts.txt"
    file.write_text("\n".join(TEXTS))
    same(list(predictor(file, group_size=1)), expected)
    assert predictor([]) == []
    pair = predictor([("good film", "bad"), {"text": "good film", "text_pair": "bad"}], group_size=1)
    assert pair[0] == pytest.approx(pair[1])
    assert predictor({"text": "good film", "text_pair": "bad"}, group_size=1)[0] == pytest.approx(pair[0])
    assert len(predictor(TEXTS, top_k=3)[0]) == 3


def test_a_table_is_read_by_its_column(folder, tmp_path):
    predictor = datamux.load(folder)
    file = tmp_path / "texts.csv"
    file.write_text("number,text\n" + "".join(f'{i},"{text}"\n' for i, text in enumerate(TEXTS)))
    same(list(predictor(file, group_size=1, progress=True)), predictor(TEXTS, group_size=1))
    file.write_text("number,review\n1,good film\n")
    with pytest.raises(ValueError, match="has no text; columns: number, review"):
        list(predictor(file))


@pytest.mark.parametrize("group_size", [1, 3, 4])
def test_equal_answers_whatever_the_batch_size(folder, group_size):
    predictor = datamux.load(folder)
    expected = predictor(TEXTS, group_size=group_size)
    for positions in (1, 16, 64):
        predictor.positions = positions
        same(predictor(TEXTS, group_size=group_size), expected)


def test_the_next_window_is_tokenised_while_one_runs(folder, monkeypatch):
    predictor = datamux.load(folder)
    tokenise, run = predictor.texts.window, predictor.runtime.logits
    tokenised, ahead = [threading.Event() for _ in range(4)], []

    def window(texts, **options):
        found = tokenise(texts, **options)
        next(event for event in tokenised if not event.is_set()).set()
        return found

    def logits(batch, group_size):
        ahead.append(tokenised[min(len(ahead) + 1, 3)].wait(timeout=20))
        return run(batch, group_size)

    monkeypatch.setattr(predictor.texts, "window", window)
    monkeypatch.setattr(predictor.runtime, "logits", logits)
    answers = predictor.stream(["good film"] * 16, group_size=4, window=4)
    next(answers)
    assert ahead == [True], "the second window is ready before the first has an answer"
    assert not tokenised[2].is_set(), "and no more than one is kept in store"
    assert len(list(answers)) == 15
    assert all(ahead)


@pytest.mark.parametrize("token_level", [False, True])
def test_letters_are_those_of_a_window(tokenizer, token_level):
    texts = Texts(tokenizer, 50, token_level=token_level)
    several = [["good", "film"], ["a"]] if token_level else [("good", "film"), {"text": "a", "text_pair": "plot"}]
    for given in (["good film", "bad"], several):
        assert sum(map(texts.letters, given)) == sum(map(len, texts.window(given).texts))


def count_rows(predictor, monkeypatch):
    """How many rows each pass has, from now on."""
    run, seen = predictor.runtime.logits, []

    def logits(batch, group_size):
        seen.append(len(batch["input_ids"]))
        return run(batch, group_size)

    monkeypatch.setattr(predictor.runtime, "logits", logits)
    return seen


@pytest.mark.parametrize("group_size", [1, 4])
def test_copies_are_run_once_and_all_answered(folder, monkeypatch, group_size):
    predictor = datamux.load(folder)
    different, order = [TEXTS[3], TEXTS[0], TEXTS[1], TEXTS[2]], (0, 1, 0, 0, 2, 3, 1, 0)
    expected = predictor(different, group_size=group_size)
    rows = count_rows(predictor, monkeypatch)
    given = [different[i] for i in order]
    answers = predictor(given, group_size=group_size, progress=True)
    assert sum(rows) == 4
    same(answers, [expected[i] for i in order])
    answers[0]["label"] = "changed"
    assert answers[2]["label"] != "changed", "each answer is its owner's"
    predictor.merges_copies = False
    rows.clear()
    assert len(predictor(given, group_size=group_size)) == sum(rows) == 8


def test_copies_of_a_later_window_are_run_again(folder, monkeypatch):
    predictor = datamux.load(folder)
    rows = count_rows(predictor, monkeypatch)
    assert len(list(predictor.stream(["good film"] * 12, group_size=4, window=4))) == 12
    assert rows == [1, 1, 1]


def places(texts, given):
    window = texts.window(given, merges_copies=True)
    return window.places and [where.tolist() for where in window.places]


def test_what_counts_as_a_copy(tokenizer):
    texts = Texts(tokenizer, 50, token_level=False)
    pair = {"text": "a", "text_pair": "b"}
    given = ["a b", "a  b", ("a", "b"), pair, ["a", "b"], {"text": "a b"}, {"text": "a b", "text_pair": None}]
    assert places(texts, given) == [[0, 5, 6], [1], [2, 3, 4]]
    assert texts.window(given, merges_copies=True).texts == ["a b", "a  b", "a b"]
    assert len(texts.window(given).texts) == 7
    assert places(texts, given[:3]) is None
    assert places(texts, []) is None
    words = Texts(tokenizer, 50, token_level=True)
    assert places(words, ["a b", ["a", "b"], ["a b"], ["a", "b"]]) == [[0], [1, 3], [2]]
    with pytest.raises(ValueError, match="expected a text or a list of words"):
        places(words, [["a", ["b"]]])


def test_benchmarks_run_copies(folder, monkeypatch):
    predictor = datamux.load(folder)
    rows = count_rows(predictor, monkeypatch)
    FromTexts(predictor, ["good film", "bad"], 4)(10, 512)
    assert sum(rows) == 10


def test_fewer_texts_than_slots(folder):
    predictor = datamux.load(folder)
    same(predictor(TEXTS[:2]), predictor(TEXTS[:2], group_size=2))


def test_half_precision_is_close(folder):
    full, half = datamux.load(folder), datamux.load(folder, bf16=True)
    a, b = full(TEXTS), half(TEXTS)
    assert [x["score"] for x in a] == pytest.approx([x["score"] for x in b], abs=0.05)


def test_compiled_answers_alike(folder, monkeypatch):
    """Only the tracing, which is what could change an answer; tests/parity runs the code generators."""
    compiled, seen = torch.compile, []

    def compile_quickly(model, **options):
        seen.append(options)
        return compiled(model, backend="eager", **options)

    monkeypatch.setattr(torch, "compile", compile_quickly)
    predictor = datamux.load(folder, compiled=True)
    assert seen == [{"dynamic": True}]
    for k in (1, 3):
        same(predictor(TEXTS, group_size=k), datamux.load(folder)(TEXTS, group_size=k))


def test_plain_classifiers_too(tmp_path, tokenizer):
    torch.manual_seed(0)
    plain = tf.AutoModelForSequenceClassification.from_config(tiny_encoder().config)
    plain.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    predictor = datamux.load(tmp_path)
    same(predictor(TEXTS), tf.pipeline("text-classification", model=plain.eval(), tokenizer=tokenizer)(TEXTS))
    with pytest.raises(ValueError, match="1 slots"):
        predictor(TEXTS, group_size=2)


def test_tagging_gives_spans_of_the_text(tmp_path, tokenizer):
    predictor = datamux.load(save(tmp_path, tokenizer, "token-classification"))
    for text, found in zip(TEXTS, predictor(TEXTS), strict=True):
        for span in found:
            assert text[span["start"] : span["end"]] == span["word"]
            assert span["entity_group"] in ("PER", "LOC")
    as_words = predictor([text.split() for text in TEXTS])
    assert as_words == predictor(TEXTS), "no word here holds punctuation, so words given are words found"
    assert predictor(TEXTS[2], group_size=1) == predictor(TEXTS[2:3], group_size=1)[0]
    text, _ = predictor(["anna  lives .", ["a", "film"]], group_size=1)
    assert text == predictor("anna  lives .", group_size=1), "what others look like does not change a text's offsets"


def test_clear_errors(folder, tmp_path, tokenizer):
    predictor = datamux.load(folder)
    with pytest.raises(ValueError, match="choose 1 to 4"):
        predictor(TEXTS, group_size=5)
    with pytest.raises(ValueError, match="expected a text"):
        predictor([3])
    warm = datamux.multiplex(tiny_encoder(), 2, task="retrieval")
    warm.save_pretrained(tmp_path / "warm")
    tokenizer.save_pretrained(tmp_path / "warm")
    with pytest.raises(ValueError, match="warm-up"):
        datamux.load(tmp_path / "warm")


def test_long_texts_are_cut_and_said_so(folder, caplog):
    predictor = datamux.load(folder)
    with caplog.at_level("WARNING"):
        predictor(["good " * 80, "bad", "good " * 80])
    assert "2 texts were longer" in caplog.text
    caplog.clear()
    FromTexts(predictor, ["good film " * 100], 1)(3, 512)
    assert not caplog.text, "a benchmark would say so at every round"


@pytest.fixture(scope="module")
def exported_classifier(tmp_path_factory, tokenizer):
    """The folder of a classifier, the folder of its ONNX file, and what the comparison found."""
    place = tmp_path_factory.mktemp("exported")
    folder = save(place / "model", tokenizer)
    return folder, place / "onnx", export_model(str(folder), place / "onnx", texts=TEXTS)


def test_an_exported_classifier_answers_alike(exported_classifier):
    check_exported(*exported_classifier, "onnx", "sequence-classification")


@pytest.mark.slow
def test_an_exported_tagger_answers_alike(tmp_path, tokenizer):
    folder = save(tmp_path / "model", tokenizer, "token-classification")
    parity = export_model(str(folder), tmp_path / "openvino", "openvino", texts=TEXTS)
    check_exported(folder, tmp_path / "openvino", parity, "openvino", "token-classification")


def check_exported(folder, made, parity, to, task):
    assert {p.group_size for p in parity} == {1, 2, 4}
    assert max(p.largest_difference for p in parity) < 1e-4
    exported = datamux.load(made)
    assert isinstance(exported.runtime, ExportedRuntime)
    for k in (1, 3, 4):
        one, other = exported(TEXTS[:7], group_size=k), datamux.load(folder)(TEXTS[:7], group_size=k)
        if task.startswith("sequence"):
            same(one, other)
        else:
            assert [[s["word"] for s in a] for a in one] == [[s["word"] for s in b] for b in other]
    with pytest.raises(ValueError, match="not empty"):
        export_model(str(folder), made, to)


def test_a_wrong_export_is_not_written(exported_classifier, tmp_path, monkeypatch):
    folder, made, _ = exported_classifier

    def already_written(runtime, place, to, *, int8):
        shutil.copytree(made, place, dirs_exist_ok=True)
        return json.loads((made / "export.json").read_text())

    monkeypatch.setattr("datamux.inference.export.write_exported", already_written)
    monkeypatch.setattr("datamux.inference.export.TOLERANCE", 0.0)
    with pytest.raises(ValueError, match="disagrees"):
        export_model(str(folder), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_int8_keeps_the_answers(tmp_path):
    """Of a model that has learned something, on every processor: those of random weights hang on rounding."""
    found = export_model("sentiment", tmp_path / "int8", int8=True)
    assert max(parity.largest_difference for parity in found) < 0.2
    card = json.loads((tmp_path / "int8" / "export.json").read_text())
    assert card["int8"]
    int8, full = datamux.load(tmp_path / "int8"), datamux.load("sentiment")
    for k in (1, 20):
        ours, theirs = int8(OPINIONS, group_size=k), full(OPINIONS, group_size=k)
        equal = [one["label"] == other["label"] for one, other in zip(ours, theirs, strict=True)]
        assert sum(equal) >= 0.95 * len(OPINIONS)
        assert [one["score"] for one in ours] == pytest.approx([other["score"] for other in theirs], abs=0.1)
    with pytest.raises(ValueError, match="is exported"):
        datamux.load(tmp_path / "int8", bf16=True)
    with pytest.raises(ValueError, match="is exported"):
        datamux.load(tmp_path / "int8", device="cuda")


def test_parity_sees_what_is_wrong():
    logits = torch.tensor([[1.0], [2.0]])
    assert not _same_answers(logits, logits + 0.5, "regression").any()
    both = torch.tensor([[1.0, 2.0]])
    assert not _same_answers(both, torch.tensor([[-1.0, 2.0]]), "multi_label_classification").any()
    with pytest.raises(ValueError, match="disagrees"):
        _refuse([Parity(1, 1, float("nan"), 1.0)], int8=False)


def test_a_file_that_is_no_text_is_named_with_its_row(tmp_path, folder):
    (tmp_path / "bad.txt").write_bytes(b"good film\nna\xefve\n")
    with pytest.raises(ValueError, match=r"bad\.txt, row 2: is not UTF-8"):
        list(datamux.load(folder)(tmp_path / "bad.txt"))

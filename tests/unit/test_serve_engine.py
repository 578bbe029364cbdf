"""The engine gives what the predictor gives: empty slots change nothing, repeats are averaged, pairs and spans work."""

import time

import pytest
import torch

from datamux.demultiplexers import DEMULTIPLEXERS
from datamux.serve.clipping import LETTERS_PER_TOKEN, clipped
from datamux.serve.engine import PredictorEngine, TooLong
from datamux.serve.gears import Gear
from serving import make_predictor, own_answers

TEXTS = ["good film", "the plot was very bad .", "a film", "not good", "the film is very very good .", "bad", "paris"]
ONE, FOUR = Gear("one", 1), Gear("four", 4)


def rows_of(engine, texts):
    return [row for row, _ in engine.tokenise(texts)]


def logits_of(predictor, texts, size):
    return predictor.runtime.logits(predictor.texts.window(texts).rows.batch(range(len(texts))), size)


def in_order(labels):
    """The logits of an answer in the order of the labels."""
    return torch.tensor([logit for _, logit in sorted(zip(labels.order, labels.logits, strict=True))])


def test_single_texts_get_the_predictors_own_answers(classifier):
    engine = PredictorEngine({"model": classifier})
    found = engine.answer([[row] for row in rows_of(engine, TEXTS)], ONE)
    for (answer,), expected in zip(found, own_answers(classifier, TEXTS), strict=True):
        assert [classifier.names[label] for label in answer.order] == [one["label"] for one in expected]
        assert answer.scores == pytest.approx([one["score"] for one in expected], abs=1e-5)


def test_empty_slots_and_other_groups_change_nothing(classifier):
    engine = PredictorEngine({"model": classifier})
    rows = rows_of(engine, TEXTS)
    groups = [rows[:4], rows[4:6], rows[6:]]
    found = engine.answer(groups, FOUR)
    assert [len(answers) for answers in found] == [4, 2, 1]
    for texts, answers in zip((TEXTS[:4], TEXTS[4:6], TEXTS[6:]), found, strict=True):
        expected = logits_of(classifier, texts, 4)  # the grouping itself leaves slots empty
        torch.testing.assert_close(torch.stack([in_order(one) for one in answers]), expected, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("filler", ["nothing", "repeat"])
@pytest.mark.parametrize("demultiplexer", DEMULTIPLEXERS)
def test_how_many_texts_strangers_have_changes_no_answer(tmp_path, demultiplexer, filler):
    """Not even where empty slots are no emptiness: Index Embedding has a prefix, and others repeat what they have."""
    if demultiplexer == "reversible":
        predictor = make_predictor(tmp_path, demultiplexer=demultiplexer, multiplexer="reversible")
    else:
        predictor = make_predictor(tmp_path, demultiplexer=demultiplexer)
    predictor.runtime.filler = filler
    engine = PredictorEngine({"model": predictor})
    rows = rows_of(engine, TEXTS)
    ((by_itself,),) = engine.answer([rows[4:5]], FOUR)
    for strangers in (1, 2, 4):
        beside = engine.answer([rows[:strangers], rows[4:5]], FOUR)[1][0]
        torch.testing.assert_close(in_order(beside), in_order(by_itself), atol=1e-4, rtol=1e-4)
    two, four = rows[5:7], rows[:4]
    expected = engine.answer([two], FOUR)[0]
    for one, other in zip(engine.answer([four, two], FOUR)[1], expected, strict=True):
        torch.testing.assert_close(in_order(one), in_order(other), atol=1e-4, rtol=1e-4)


def test_repeats_fill_a_group_and_are_averaged(classifier):
    engine = PredictorEngine({"model": classifier}, fill="repeat")
    rows = rows_of(engine, TEXTS)
    found = engine.answer([rows[:4], rows[4:6]], FOUR)[1]
    a, b = TEXTS[4:6]
    every = logits_of(classifier, [a, b, a, b], 4)
    expected = (every[:2] + every[2:]) / 2
    torch.testing.assert_close(torch.stack([in_order(one) for one in found]), expected, atol=1e-4, rtol=1e-4)
    with pytest.raises(ValueError, match="unknown fill 'twice'"):
        PredictorEngine({"model": classifier}, fill="twice")


def test_pairs_keep_their_segments(classifier):
    engine = PredictorEngine({"model": classifier})
    texts = [("good film", "bad plot"), "good film", ("the film", "was good")]
    found = engine.answer([rows_of(engine, texts)], FOUR)[0]
    expected = logits_of(classifier, texts, 3)
    torch.testing.assert_close(torch.stack([in_order(one) for one in found]), expected, atol=1e-4, rtol=1e-4)


def test_a_tagger_gives_spans_of_each_text(tagger):
    engine = PredictorEngine({"model": tagger})
    texts = ["anna lives in paris", ["anna", "works", "at", "acme"], "the film was good ."]
    found = engine.answer([[row] for row in rows_of(engine, texts)], ONE)
    expected = own_answers(tagger, texts)
    assert any(expected)
    for (answer,), spans in zip(found, expected, strict=True):
        assert [(s["entity_group"], s["start"], s["end"]) for s in answer.spans] == [
            (s["entity_group"], s["start"], s["end"]) for s in spans
        ]
        assert engine.predictor_answer(answer) == answer.spans


def test_long_texts_are_cut_or_refused(classifier):
    engine = PredictorEngine({"model": classifier})
    long = "very " * 200 + "good"
    (row,) = rows_of(engine, [long])
    assert row.cut
    assert len(row.ids) == classifier.texts.max_tokens
    rows = engine.tokenise(["good", long])
    engine.refuse_cut(rows[:1], 0, 1)
    with pytest.raises(TooLong, match=r"^text 2 of 2 has more than 50 tokens; shorten it"):
        engine.refuse_cut(rows, 0, 2)
    with pytest.raises(TooLong, match=r"^text 302 of 400 has more than 50 tokens"):
        engine.refuse_cut(rows, 300, 400)
    with pytest.raises(TooLong, match=r"^this text has more than 50 tokens"):
        engine.refuse_cut(rows[1:], 0, 1)


def test_logits_that_are_not_numbers_are_an_error(classifier, monkeypatch):
    engine = PredictorEngine({"model": classifier})
    monkeypatch.setattr(classifier.runtime, "logits", lambda batch, size: torch.full((1, 3), float("nan")))
    with pytest.raises(ArithmeticError, match="not numbers"):
        engine.answer([rows_of(engine, ["good"])], ONE)


@pytest.mark.parametrize("problem", ["multi_label_classification", "regression"])
def test_scores_fit_the_kind_of_problem(tmp_path, problem):
    predictor = make_predictor(tmp_path, problem_type=problem)
    engine = PredictorEngine({"model": predictor})
    ((answer,),) = engine.answer([rows_of(engine, ["good film"])], ONE)
    logits = logits_of(predictor, ["good film"], 1)[0]
    expected = logits.sigmoid() if problem != "regression" else logits
    assert dict(zip(answer.order, answer.scores, strict=True)) == pytest.approx(
        dict(enumerate(expected.tolist())), abs=1e-5
    )
    plain = engine.predictor_answer(answer)
    assert [one["label"] for one in plain] == [
        predictor.names[label] for label in answer.order if problem == "regression" or expected[label] > 0.5
    ]


# Long texts

LONGEST = LETTERS_PER_TOKEN * 50  # characters that the tiny models' tokenizer is given of a text


def test_a_huge_text_is_cut_before_it_is_tokenised(classifier):
    engine = PredictorEngine({"model": classifier})
    huge = "".join(f"w{number} " for number in range(300_000))  # no word twice, so that nothing is remembered
    began = time.perf_counter()
    ((row, length),) = engine.tokenise([huge])
    assert time.perf_counter() - began < 0.5
    assert (row.cut, length) == (True, 50)
    (short,) = rows_of(engine, [huge[:LONGEST]])
    assert row.ids.tolist() == short.ids.tolist()


def test_what_is_cut_before_the_tokenizer_counts_as_cut(classifier):
    engine = PredictorEngine({"model": classifier})
    spaces = " " * LONGEST + "good film"  # few tokens, but the last ones are not read
    ((row, length),) = engine.tokenise([spaces])
    assert (row.cut, length) == (True, 2)
    with pytest.raises(TooLong):
        engine.refuse_cut([(row, length)], 0, 1)
    fits = "good film" + " " * (LONGEST - len("good film"))
    assert not rows_of(engine, [fits])[0].cut


def test_pairs_and_lists_of_words_are_cut_as_well(classifier, tagger):
    (pair,) = rows_of(PredictorEngine({"model": classifier}), [("good film", "bad " * LONGEST)])
    assert pair.cut
    assert pair.token_types.tolist()[-1] == 1
    engine = PredictorEngine({"model": tagger})
    text = "anna lives in paris " * 1000
    rows = rows_of(engine, [text, text.split(), ["x" * (2 * LONGEST), "anna"], [""] * (2 * LONGEST)])
    assert all(row.cut for row in rows)
    assert all(len(row.text) <= LONGEST for row in rows)
    found = engine.answer([[rows[0]], [rows[1]]], ONE)
    places = [[(span["start"], span["end"]) for span in answer.spans] for (answer,) in found]
    assert places[0] == places[1] != []
    for span in found[0][0].spans:
        assert text[span["start"] : span["end"]] == span["word"]


def test_a_tokenizer_that_keeps_the_end_keeps_the_end(tmp_path):
    predictor = make_predictor(tmp_path)
    predictor.texts.tokenizer.truncation_side = "left"
    assert clipped("a" * LONGEST + "end", predictor.texts) == "a" * (LONGEST - 3) + "end"


def test_a_row_keeps_the_text_only_for_a_tagger(classifier, tagger):
    assert rows_of(PredictorEngine({"model": classifier}), ["good film"])[0].text is None
    assert rows_of(PredictorEngine({"model": tagger}), ["good film"])[0].text == "good film"


def test_with_repeats_an_answer_does_not_depend_on_other_groups(classifier):
    engine = PredictorEngine({"model": classifier}, fill="repeat")
    rows = rows_of(engine, TEXTS)
    alone = in_order(engine.answer([rows[:1]], FOUR)[0][0])
    for others in ([rows[1:2]], [rows[1:3]], [rows[1:5]]):
        beside = in_order(engine.answer([rows[:1], *others], FOUR)[0][0])
        torch.testing.assert_close(beside, alone, atol=1e-4, rtol=1e-4)

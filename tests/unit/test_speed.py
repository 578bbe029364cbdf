"""The arithmetic of the benchmark, with a clock that we turn ourselves; and that the real thing runs."""

import time

import pytest

from datamux.evaluate.benchmarks import run_breakdown, run_memory, run_speed, run_text_breakdown
from datamux.evaluate.breakdown import measure_breakdown, measure_text_breakdown
from datamux.evaluate.contenders import Shape, shape_like
from datamux.evaluate.plots import draw_speed, pyplot_without_window
from datamux.evaluate.speed_table import against_first, ratio_cells, ratio_titles
from datamux.evaluate.timing import POSITIONS, Contender, compare_speed, tune
from datamux.evaluate.workloads import FromTexts, evenly, lengths_of
from datamux.hub.loading import load_tokenizer


class Machine:
    """Takes `cost` seconds an instance and `start` seconds a pass."""

    def __init__(self):
        self.now = 0.0

    def clock(self):
        return self.now

    def contender(self, name, cost, start, group_size=1):
        def work(instances, positions):
            passes = -(-instances // (group_size * max(1, positions // 32)))
            self.now += instances * cost + passes * (start + (positions > 2048) * 5)

        return Contender(name, work, group_size)


def test_the_best_batch_size_is_found_and_ratios_are_taken_within_a_round():
    machine = Machine()
    plain, fast = machine.contender("plain", 0.01, 0.05), machine.contender("fast", 0.001, 0.005, group_size=10)
    found = tune(plain, (256, 512, 1024, 2048, 4096), 10.0, machine.clock)
    assert max(found, key=lambda size: found[size]) == 2048
    assert found[2048] == pytest.approx(1 / (0.01 + 0.05 / 64), rel=0.1)
    one, other = compare_speed([plain, fast], rounds=3, samples=6400, positions=(256, 2048, 4096), clock=machine.clock)
    assert one.ratios == [1.0, 1.0, 1.0]
    assert len(other.rates) == 3
    expected = (6400 * 0.01 + 100 * 0.05) / (6400 * 0.001 + 10 * 0.005)
    assert other.ratio == pytest.approx(expected)
    assert other.as_dict()["lowest"] <= other.ratio <= other.as_dict()["highest"]


def test_long_texts_have_room_for_the_papers_prefix():
    shape = {"layers": 1, "hidden": 16, "heads": 2, "vocab_size": 61}
    found = run_speed(
        **{"model": None, "shape": shape, "group_sizes": [2], "lengths": "fixed:600", "texts": False, "engines": []},
        **{"demultiplexers": ["index"], "samples": 2, "rounds": 1, "seconds": 0.01, "plain_sizes": ["1x8"]},
    )
    assert found["settings"]["shape"]["positions"] == 602
    assert [r["name"] for r in found["results"]][:2] == ["plain, torch", "plain 1x8, torch"]
    assert Shape().with_room_for(128, 40).positions == 512, "short texts have as many as BERT"


def test_sizes_beyond_the_best_are_tried():
    now = 0.0

    def work(instances, positions):
        nonlocal now
        now += instances / min(positions, 9000)  # the larger the faster, up to 9000

    found = tune(Contender("plain", work), POSITIONS, 1.0, lambda: now)
    assert max(found, key=lambda size: found[size]) == 16_384 < max(found)

    def tried(best):
        def falls(instances, positions):
            nonlocal now
            now += instances * (1 + abs(positions - best))

        return list(tune(Contender("plain", falls), POSITIONS, seconds, lambda: now))

    seconds = 1e7  # a pass fits
    assert tried(1024) == [256, 512, 1024, 2048, 4096]
    assert max(tried(4096)) == 8192, "very large ones take long"
    assert max(tried(8192)) == 16_384
    seconds = 0.1
    assert max(tried(8192)) == 8192, "a pass of more would take longer than a round"


def test_a_machine_that_slows_down_does_not_change_the_ratios():
    now = 0.0

    def contender(name, cost):
        def work(instances, positions):
            nonlocal now
            now += instances * cost * (1 + now)  # ever slower

        return Contender(name, work)

    three = [contender("plain", 0.001), contender("a", 0.0005), contender("b", 0.0001)]
    found = compare_speed(three, rounds=5, samples=64, positions=(256,), clock=lambda: now)
    assert found[0].rates[0] > 2 * found[0].rates[-1]
    assert [speed.ratio for speed in found] == pytest.approx([1.0, 2.0, 10.0], rel=0.04)


def test_a_contender_may_name_its_rival():
    machine = Machine()
    plain, other = machine.contender("plain", 0.01, 0.0), machine.contender("other", 0.005, 0.0)
    mixed = machine.contender("mixed", 0.001, 0.0)
    mixed.against = "other"
    found = compare_speed([plain, other, mixed], rounds=1, samples=64, positions=(256,), clock=machine.clock)
    assert [speed.ratio for speed in found] == pytest.approx([1.0, 2.0, 5.0])


def test_lengths():
    assert lengths_of("fixed:7", 3) == [7, 7, 7]
    with pytest.raises(ValueError, match="fixed:TOKENS"):
        lengths_of("fixed:x", 3)


def test_lengths_of_a_task_are_counted_in_tokens(tmp_path):
    (tmp_path / "sst2").mkdir()
    rows = ['{"sentence": "a film .", "label": 1}', '{"sentence": "unputdownableness", "label": 0}']
    (tmp_path / "sst2" / "train.jsonl").write_text("\n".join(rows))
    tokenizer = load_tokenizer("sentiment")
    expected = sorted(len(tokenizer(text)["input_ids"]) for text in ("a film .", "unputdownableness"))
    assert expected != [3, 5], "one word is several tokens, or this test shows nothing"
    assert sorted(lengths_of("sst2", 4, str(tmp_path))) == sorted(2 * expected)


def test_smaller_shapes():
    shape = Shape(layers=4, hidden=256, heads=4, token_level=True)
    assert shape_like(shape, "1x64") == Shape(layers=1, hidden=64, heads=1, token_level=True)
    assert shape_like(shape, "2x192").heads == 3
    assert shape_like(shape, "2x131").heads == 1, "heads must divide the width"
    for wrong in ("64", "x64", "0x64", "1x", "axb"):
        with pytest.raises(ValueError, match="LAYERSxHIDDEN"):
            shape_like(shape, wrong)


def test_the_papers_prefix_is_timed_as_the_paper_reads_it():
    shape = Shape(layers=1, hidden=16, heads=2)
    assert shape.multiplexed(3, demultiplexer="index").config.pooling == "first"
    assert shape.multiplexed(3, demultiplexer="index", pooling="mean").config.pooling == "mean"
    assert shape.multiplexed(3, demultiplexer="gate").config.pooling == "mean"


TINY = {"layers": 1, "hidden": 16, "heads": 2, "token_level": False}


def test_the_benchmark_runs():
    found = run_speed(
        model=None,
        shape=TINY,
        group_sizes=[2, 3],
        lengths="fixed:8",
        texts=False,
        engines=["torch"],
        demultiplexers=["gate", "index"],
        samples=24,
        rounds=2,
        seconds=0.01,
    )
    names = [row["name"] for row in found["results"]]
    assert names[0] == "plain, torch"
    assert len(names) == 5
    assert all(row["instances"] == 24 and len(row["rates"]) == 2 for row in found["results"])


QUICK = {"lengths": "fixed:8", "texts": False, "samples": 12, "rounds": 1, "seconds": 0.01}


def test_smaller_plain_models_in_the_same_table():
    found = run_speed(
        model=None,
        shape=TINY,
        group_sizes=[2],
        engines=[],
        demultiplexers=["gate"],
        plain_sizes=["1x8", "2x16"],
        **QUICK,
    )
    names = [row["name"] for row in found["results"]]
    assert names == ["plain, torch", "plain 1x8, torch", "plain 2x16, torch", "gate, 2 per pass, torch"]
    assert all(row["ratio"] > 0 and row["group_size"] == 1 for row in found["results"][1:3])


def test_new_models_can_be_timed_from_texts(tmp_path):
    (tmp_path / "sst2").mkdir()
    (tmp_path / "sst2" / "train.jsonl").write_text('{"sentence": "a film .", "label": 1}\n' * 12)
    how = {"model": None, "shape": TINY, "group_sizes": [2], "engines": [], "demultiplexers": ["gate"]}
    from_texts = QUICK | {"texts": True, "lengths": "sst2", "data_dir": str(tmp_path)}
    found = run_speed(**how, **from_texts)
    assert [row["name"] for row in found["results"]] == ["plain, torch", "gate, 2 per pass, torch"]
    assert found["settings"]["texts"]
    with pytest.raises(ValueError, match="needs a task"):
        run_speed(**how, **QUICK | {"texts": True})


def test_what_is_trained_can_be_timed(monkeypatch):
    seen = []
    whole = Shape.multiplexed

    def multiplexed(self, num_instances, **options):
        seen.append(whole(self, num_instances, **options))
        return seen[-1]

    monkeypatch.setattr(Shape, "multiplexed", multiplexed)
    options = {"model": None, "group_sizes": [2], "engines": [], "demultiplexers": ["gate", "key"], **QUICK}
    found = run_speed(shape=TINY | {"token_level": True}, hidden_dim=20, head_context=1, **options)
    settings = found["settings"]
    assert (settings["hidden_dim"], settings["head_context"]) == (20, 1)
    for model in seen:
        assert model.mux.demultiplexer.from_state.out_features == 20
        assert model.mux.head.context == 1
    with pytest.raises(ValueError, match="--tagging"):
        run_speed(shape=TINY, head_context=1, **options)
    with pytest.raises(ValueError, match="for new models"):
        run_speed(shape=TINY, hidden_dim=20, **(options | {"model": "sentiment"}))


@pytest.mark.slow
def test_memory_of_its_own_process():
    found = run_memory(shape=TINY, group_sizes=[1, 4], tokens=16, groups=8, demultiplexer="index", rounds=2)
    assert [row["group_size"] for row in found["results"]] == [1, 4]
    assert found["results"][0]["ratio"] == 1.0
    for row in found["results"]:
        assert row["peak"] >= row["model"] >= 0
        assert len(row["peaks"]) == 2
        assert row["lowest"] <= row["ratio"] <= row["highest"]
    with pytest.raises(ValueError, match="unknown demultiplexer 'gat'"):
        run_memory(shape=TINY, group_sizes=[1], tokens=16, groups=8, demultiplexer="gat")


def test_the_breakdown_adds_up_to_the_pass():
    shape = {"layers": 2, "hidden": 32, "heads": 2, "token_level": False}
    found = run_breakdown(shape=shape, group_sizes=[1, 4], tokens=8, groups=4, bf16=False)
    assert [row["group_size"] for row in found["results"]] == [1, 4]
    for row in found["results"]:
        assert all(row[name] > 0 for name in ("mixing", "encoder", "demultiplexer", "head", "plain"))
        assert row["encoder"] > row["head"], "two layers take longer than one small matrix"


def test_the_breakdown_of_what_is_trained():
    size = {"group_sizes": [2, 40], "tokens": 8, "groups": 2, "bf16": False}
    found = run_breakdown(
        shape=TINY | {"token_level": True}, demultiplexer="index", hidden_dim=20, head_context=1, **size
    )
    settings = found["settings"]
    assert (settings["demultiplexer"], settings["hidden_dim"], settings["head_context"]) == ("index", 20, 1)
    found = run_breakdown(model="sentiment", shape={}, **size)
    assert found["settings"]["shape"]["layers"] == 4
    assert [row["group_size"] for row in found["results"]] == [2], "it has 20 slots"
    with pytest.raises(ValueError, match="for new models"):
        run_breakdown(model="sentiment", shape={}, hidden_dim=20, **size)
    with pytest.raises(ValueError, match="unknown demultiplexer"):
        run_breakdown(shape=TINY, demultiplexer="gat", **size)


def test_the_breakdown_from_texts_to_answers(tmp_path):
    (tmp_path / "sst2").mkdir()
    (tmp_path / "sst2" / "train.jsonl").write_text('{"sentence": "a film .", "label": 1}\n' * 12)
    found = run_text_breakdown(model="sentiment", task="sst2", group_sizes=[2, 3], bf16=False, data_dir=str(tmp_path))
    assert [(row["name"], row["group_size"]) for row in found["results"]] == [
        ("plain", 1),
        ("gate", 1),
        ("gate", 2),
        ("gate", 3),
    ]
    assert all(row[part] > 0 for row in found["results"] for part in ("tokenise", "pad", "run", "answer"))


TEXTS = ["good film", "bad", "the plot was very bad .", "good film", "anna lives in paris " * 30]


def test_a_slow_step_is_found_in_its_own_column(predictor, monkeypatch):
    """The predictor's own steps are timed: whatever slows one of them down shows up there and nowhere else."""
    slow = {
        "tokenise": (predictor.texts, "window"),
        "run": (predictor.runtime, "logits"),
        "answer": (predictor, "answers"),
    }
    for step, (owner, name) in slow.items():
        quick = getattr(owner, name)

        def slowly(*given, quick=quick, **options):
            time.sleep(0.05)
            return quick(*given, **options)

        with monkeypatch.context() as patch:
            patch.setattr(owner, name, slowly)
            (row,) = measure_text_breakdown({"gate": predictor}, TEXTS, [3], rounds=1)
        spent = {name: row[name] * len(TEXTS) / 1e6 for name in ("tokenise", "pad", "run", "answer")}
        assert spent.pop(step) > 0.05
        assert max(spent.values()) < 0.05


BENCHMARKS = {
    "throughput": lambda predictor: FromTexts(predictor, TEXTS, 3)(7, 64),
    "breakdown of a pass": lambda predictor: measure_breakdown(
        Shape(layers=1, hidden=16, heads=2, vocab_size=61).baseline(),
        predictor.runtime.model,
        [2],
        tokens=4,
        groups=2,
        rounds=1,
    ),
    "breakdown from texts": lambda predictor: measure_text_breakdown({"gate": predictor}, TEXTS, [1, 3], rounds=1),
}


def state_of(predictor):
    """Every attribute of a predictor and of what it holds, and the hooks on the modules of its model."""
    modules = [(len(m._forward_hooks), len(m._forward_pre_hooks)) for m in predictor.runtime.model.modules()]
    return vars(predictor).copy(), vars(predictor.runtime).copy(), predictor.runtime.model.training, modules


@pytest.mark.parametrize("benchmark", BENCHMARKS)
def test_a_benchmark_leaves_the_callers_predictor_as_it_was(predictor, benchmark, caplog):
    predictor.positions, predictor.memory = 128, 1 << 20
    state, answers = state_of(predictor), predictor(TEXTS, top_k=2)
    caplog.clear()
    BENCHMARKS[benchmark](predictor)
    assert not caplog.messages, "it does not repeat at every round that a text was cut"
    assert state_of(predictor) == state
    assert predictor(TEXTS, top_k=2) == answers
    assert "longer than the model's limit" in caplog.text, "the caller is told as before"


def test_a_copy_with_other_settings(predictor):
    other = predictor.with_settings(positions=64, merges_copies=False)
    assert (other.positions, other.merges_copies) == (64, False)
    assert (predictor.positions, predictor.merges_copies) == (None, True)
    assert other.runtime is predictor.runtime
    with pytest.raises(ValueError, match="unknown setting 'position'"):
        predictor.with_settings(position=64)


def test_ratios_against_the_first_row():
    def row(name, engine, ratio):
        return {
            "name": name,
            "about": {"engine": engine},
            "ratio": ratio,
            "lowest": ratio - 0.5,
            "highest": ratio + 0.5,
        }

    rows = [row("plain, torch", "torch", 1.0), row("plain, int8", "int8", 2.0), row("gate, int8", "int8", 7.0)]
    assert against_first(rows) == [1.0, 2.0, 14.0]
    assert ratio_titles(rows)[1:] == ["against plain, torch"]
    assert ratio_cells(rows)[1:] == [["", "2.00x (1.50 to 2.50)"], ["7.00x (6.50 to 7.50)", "14.00x"]]
    assert ratio_titles(rows[1:]) == ["against plain, same engine (lowest to highest)"], "one engine, one column"
    assert ratio_cells(rows[1:])[1] == ["7.00x (6.50 to 7.50)"]


def test_the_plot_has_the_papers_points(monkeypatch, tmp_path):
    pyplot = pyplot_without_window()
    figures = []
    monkeypatch.setattr(pyplot, "close", figures.append)

    def row(name, k, ratio):
        about = {"engine": "torch", "demultiplexer": None if k == 1 else "gate"}
        return {"name": name, "group_size": k, "ratio": ratio, "lowest": ratio, "highest": ratio, "about": about}

    results = [row("plain, torch", 1, 1.0), row("plain 1x64, torch", 1, 3.5), row("gate", 20, 18.0)]
    results += [row("plain, onnx", 1, 1.5), row("gate on onnx", 20, 16.0)]
    for one in results[3:]:
        one["about"]["engine"] = "onnx"
    shape = {"layers": 4, "hidden": 256, "token_level": True}
    settings = {"shape": shape, "lengths": "fixed:32", "texts": True}
    draw_speed({"results": results, "settings": settings}, tmp_path / "speed.png")
    left, right = (
        {(float(x), float(y)) for line in axes.lines for x, y in zip(*line.get_data(), strict=True)}
        for axes in figures[0].axes
    )
    assert {(20, 11), (40, 18), (20, 25), (20, 18), (0, 3.5)} <= left
    assert {(1, 1.5), (20, 24)} <= left, "16 times plain onnx, which is 1.5 times plain torch"
    assert (40, 40) in left, "the limit goes as far as the points do"
    assert {(20, 0.55), (40, 0.45), (20, 0.9), (20, 0.8)} <= right
    assert (20, 1.25) not in right, "smaller models against a larger one: no share of N"
    low, high = figures[0].axes[1].get_ylim()
    assert low <= 0.45 < 1.0 < high, "all of them can be seen"
    title = figures[0].get_suptitle()
    assert "tagging" in title
    assert "texts" in title


def test_every_stretch_of_texts_is_as_long_as_any_other():
    texts = ["a" * n for n in (*range(1, 41), *[200] * 20)]
    found = evenly(texts, len)
    assert sorted(found) == sorted(texts)
    mean = sum(map(len, texts)) / len(texts)
    for start in range(0, 50, 7):
        assert sum(map(len, found[start : start + 10])) / 10 == pytest.approx(mean, rel=0.3)
    assert evenly(["one"], len) == ["one"]
    assert evenly([], len) == []

"""The model of cost: its arithmetic, its tables, and the rows that are measured."""

import json
import subprocess
import sys

import pytest

from command_line import run
from datamux.cluster import measuring
from datamux.cluster.cost import (
    ASSUMED,
    BILLION,
    CORES,
    START_UP,
    billion_table,
    compared,
    efficiency_of,
    measured_gears,
    measured_table,
    prediction_errors,
    rows_for_overhead,
    seconds_for,
    speeds_of,
)
from datamux.cluster.measured_run import peak_mb
from datamux.cluster.measuring import Plan, Run, _bytes_of, measure_cluster, synthetic_texts
from datamux.reproduce.figures.cluster import (
    billion_lines,
    byte_line,
    cluster_section,
    error_lines,
    overhead_lines,
    same_texts,
)
from datamux.reproduce.records import committed

RUN = {"rows": 1000, "group_size": 20, "seconds": 30.0, "working": 10.0, "driver_mb": 300.0, "bytes_per_text": 100.0}
CARD = {gear.group_size: gear.texts_per_second for gear in measured_gears(["sentiment"])}
RECORD = {
    "kind": "cluster",
    "settings": {"model": "sentiment", "task": "sst2", "ray": "2.60.0"},
    "hardware": {"cores": 2, "cpu": "a CPU"},
    "results": [
        *({**RUN, "engine": "local", "workers": 1, "texts_per_second": rate} for rate in (100.0, 10.0, 110.0)),
        {**RUN, "engine": "ray", "workers": 1, "texts_per_second": 90.0},
        {**RUN, "engine": "local", "workers": 2, "texts_per_second": 190.0},
        {**RUN, "engine": "ray", "workers": 2, "texts_per_second": 152.0},
        {**RUN, "rows": 50_000, "engine": "ray", "workers": 2, "texts_per_second": 0.7 * 2 * CARD[20]},
        {**RUN, "group_size": 1, "engine": "ray", "workers": 2, "texts_per_second": 0.9 * 2 * CARD[1]},
    ],
}


def test_twice_the_workers_take_half_the_time():
    one, two = (seconds_for(BILLION, workers, 1000, 0.8) - START_UP for workers in (1, 2))
    assert one == pytest.approx(1_250_000)
    assert two == pytest.approx(one / 2)


def test_gears_are_per_core():
    plain = next(gear for gear in measured_gears() if gear.model == "sentiment-plain")
    sizes = {gear.group_size: gear for gear in measured_gears(["sentiment"])}
    assert plain.group_size == 1
    assert 100 < plain.texts_per_second < 1000, "the card has that of two cores"
    assert sizes[20].texts_per_second > 10 * sizes[1].texts_per_second
    assert sizes[20].score < sizes[1].score


def test_speeds_are_medians_and_stand_beside_the_local_engine_and_the_card():
    rows = compared(RECORD)
    assert [row["runs"] for row in rows] == [3, 1, 1, 1, 1, 1]
    assert rows[0]["texts_per_second"] == 100.0
    assert [row["of_local"] for row in rows] == [1.0, pytest.approx(0.9), 1.0, pytest.approx(0.8), None, None]
    assert rows[1]["of_card"] == pytest.approx(90 / CARD[20])
    assert rows[4]["of_card"] == pytest.approx(0.7)


def with_local(rows, size, ray, local, workers=2):
    """A run of each engine on equal rows, with these speeds."""
    same = {**RUN, "rows": rows, "group_size": size, "workers": workers}
    return [
        {**same, "engine": "local", "texts_per_second": local, "seconds": 12.0},
        {**same, "engine": "ray", "texts_per_second": ray},
    ]


def test_the_efficiency_is_the_lowest_of_the_longest_runs():
    assert efficiency_of(None) == ASSUMED
    assert efficiency_of(RECORD) == pytest.approx(0.8), "of 2 cores, and not that against the card"
    longer = [*RECORD["results"], *with_local(2000, 20, 95.0, 100.0)]
    assert efficiency_of(RECORD | {"results": longer}) == pytest.approx(0.95)
    other = [*longer, *with_local(500, 1, 60.0, 100.0)]
    assert efficiency_of(RECORD | {"results": other}) == pytest.approx(0.6), "the longest of each group size"
    fast = with_local(2000, 20, 120.0, 100.0)
    assert efficiency_of(RECORD | {"results": fast}) == 1.0, "noise must not promise more than the local engine gives"
    assert efficiency_of(RECORD | {"results": RECORD["results"][4:5]}) == ASSUMED, "nothing to compare with"


def test_a_billion_texts():
    titles, rows = billion_table(RECORD)
    assert len(titles) == len(rows[0])
    cells = {(row[0], row[1]): row for row in rows}
    for gear in measured_gears():
        hours = float(cells[gear.model, str(gear.group_size)][4].replace(",", ""))
        assert hours == pytest.approx(BILLION / gear.texts_per_second / 0.8 / 3600, abs=0.51), "one efficiency for all"
    assert billion_lines(RECORD)[0].startswith("Efficiency 80% for all rows (measured with `sentiment` only")
    assert "assumed" in billion_lines(None)[0]


def test_a_billion_texts_in_bytes():
    assert byte_line(RECORD).startswith(
        "A billion texts are 100 GB of input (100 bytes of JSON per text, as in the runs"
    )
    assert "160 GB of output (160 bytes of JSON, assumed: the text and 60 bytes" in byte_line(RECORD)
    counted = RECORD | {"results": [{**row, "bytes_out_per_text": 150.0} for row in RECORD["results"]]}
    assert "150 GB of output (150 bytes of JSON, counted there)" in byte_line(counted)
    assert "80 GB of input (80 bytes of JSON per text, assumed)" in byte_line(None)
    fastest = max(gear.texts_per_second for gear in measured_gears()) * 0.8 * CORES
    assert f"{CORES} cores read {fastest * 100 / 1e6:.0f} MB and write {fastest * 160 / 1e6:.0f} MB" in byte_line(
        RECORD
    )


def test_what_ray_costs_in_total():
    """Start-up of 20 seconds with Ray and of 2 without, and a speed of 90 and 100 texts per second."""
    record = RECORD | {"results": with_local(1000, 20, 90.0, 100.0)}
    (rows,) = rows_for_overhead(record).values()
    assert 20 + rows / 90 == pytest.approx(1.25 * (2 + rows / 100))
    quicker = RECORD | {"results": with_local(1000, 20, 110.0, 100.0)}
    (rows,) = rows_for_overhead(quicker).values()
    assert 20 + rows / 100 == pytest.approx(1.25 * (2 + rows / 100)), "a quicker run is chance"
    assert not rows_for_overhead(RECORD | {"results": with_local(1000, 20, 70.0, 100.0)}), "it never catches up"
    told = "\n".join(overhead_lines(record))
    assert "reaches 90% to 90% of the local engine's speed" in told
    assert "2.50 for 1,000 rows (20 per pass, 2 cores)" in told
    assert "less than 25% in total from about 13,000 rows with 20 texts per pass on" in told


def test_the_error_of_the_model():
    errors = prediction_errors(RECORD)
    assert len(errors) == 4, "the runs with Ray"
    assert errors[2] == pytest.approx(0.7 / 0.8 - 1)
    assert "off for 4 runs with Ray" in error_lines(RECORD)[-1]


def test_the_model_is_checked_with_speeds_on_the_same_texts():
    """The card was measured on longer texts, and its error would be theirs."""
    about = {"demultiplexer": "gate"}
    speed = {
        "hardware": {"cores": 2},
        "results": [
            {"group_size": 1, "rate": 900.0, "about": {"demultiplexer": None}},  # a plain model, which is another one
            {"group_size": 20, "rate": 240.0, "about": about},
        ],
    }
    assert speeds_of(speed) == {20: 120.0}
    record = RECORD | {"results": RECORD["results"][:6]}
    assert prediction_errors(record, speeds_of(speed)) == pytest.approx([90 / 120 / 0.8 - 1, 152 / 240 / 0.8 - 1])
    _, rows = measured_table(record, speeds_of(speed))
    assert [row[9] for row in rows] == ["", f"{10 * 90 / 120 / 0.8:.0f}", "", f"{10 * 152 / 240 / 0.8:.0f}"]


def test_the_committed_runs_are_checked_on_the_same_texts():
    record = committed("cluster/sentiment")
    speeds = same_texts(record)
    assert speeds is not None
    same, other = error_lines(record)
    assert "`speed/sst2-texts-sentiment` measured on the same texts" in same
    assert "With the speeds of the card" in other
    assert max(map(abs, prediction_errors(record, speeds))) < max(map(abs, prediction_errors(record)))
    elsewhere = record | {"settings": record["settings"] | {"task": "mnli"}}
    assert same_texts(elsewhere) is None
    assert len(error_lines(elsewhere)) == 1


def test_measured_runs_stand_beside_the_model():
    titles, rows = measured_table(RECORD)
    assert [row[2:5] for row in rows[:4]] == [
        ["local", "1", "3"],
        ["ray", "1", "1"],
        ["local", "2", "1"],
        ["ray", "2", "1"],
    ]
    assert [row[6] for row in rows] == ["100%", "90%", "100%", "80%", "", ""]
    assert [row[7] for row in rows[4:]] == ["70%", "90%"]
    assert [row[9] for row in rows[4:]] == [f"{10 * 0.7 / 0.8:.0f}", f"{10 * 0.9 / 0.8:.0f}"]
    assert [row[12] for row in rows] == ["100%"] * 4 + [""] * 2
    assert all(len(row) == len(titles) for row in rows)
    text = "\n".join(cluster_section({"sentiment": [json.loads(json.dumps(RECORD))]}))
    assert "Ray 2.60.0" in text
    assert "| 80% |" in text


def test_synthetic_rows_are_real_texts_in_another_order():
    found = list(synthetic_texts(["a warm and funny film", "two hours of nothing at all"], 40))
    assert [sorted(text.split()) for text in found[::2]] == [["a", "and", "film", "funny", "warm"]] * 20
    assert len(set(found)) > 30
    assert found == list(synthetic_texts(["a warm and funny film", "two hours of nothing at all"], 40))


def test_the_plan_measures_the_local_engine_beside_ray():
    plan = Plan("sentiment", [1, 20], rows=40, more_rows=[10_000_000, 50], rounds=2)
    short = [(workers, engine) for workers in (1, 2) for engine in ("local", "ray")]
    assert plan.runs() == [
        *(Run(40, 20, engine, workers, 1) for workers, engine in short),
        *(Run(40, 20, engine, workers, 2) for workers, engine in short),
        *(Run(10, 1, engine, 2) for engine in ("local", "ray")),
        *(Run(50, 20, engine, 2) for engine in ("local", "ray")),
        Run(10_000_000, 20, "ray", 2),
    ]


def test_the_bytes_that_were_written_are_counted(tmp_path):
    (tmp_path / "out-1").mkdir()
    (tmp_path / "out-1/part-000000-ab.jsonl").write_bytes(b"x" * 10)
    (tmp_path / "out-2.jsonl").write_bytes(b"x" * 20)
    assert [_bytes_of(tmp_path / name) for name in ("out-1", "out-2")] == [10, 20]


def test_an_interrupted_measurement_goes_on(monkeypatch, tmp_path):
    plan, journal = Plan("sentiment", [20], rows=40, rounds=1), tmp_path / "record.json.runs"
    begun = []

    def measured(run, model, source, output):
        begun.append(run)
        if len(begun) == 3:
            raise KeyboardInterrupt
        return {**RUN, "texts_per_second": 100.0 + len(begun)}

    monkeypatch.setattr(measuring, "_run", measured)
    monkeypatch.setattr(measuring, "_write", lambda *given: None)
    with pytest.raises(KeyboardInterrupt):
        measure_cluster(plan, journal=journal)
    with journal.open("a") as lines:
        lines.write('{"half a li')
    record = measure_cluster(plan, journal=journal)
    assert begun == [*plan.runs()[:3], *plan.runs()[2:]], "the finished runs are not done again"
    assert [row["texts_per_second"] for row in record["results"]] == [101.0, 102.0, 104.0, 105.0]
    assert [row["engine"] for row in record["results"]] == ["local", "ray"] * 2
    assert not journal.exists()


def test_runs_of_another_machine_are_done_again(monkeypatch, tmp_path):
    plan, journal, begun = Plan("sentiment", [20], rows=40, rounds=1), tmp_path / "record.json.runs", []
    journal.write_text('{"hardware": "another"}\n' + json.dumps({str(plan.runs()[0]): RUN}) + "\n")
    monkeypatch.setattr(measuring, "_run", lambda run, *given: begun.append(run) or {**RUN, "texts_per_second": 1.0})
    monkeypatch.setattr(measuring, "_write", lambda *given: None)
    measure_cluster(plan, journal=journal)
    assert begun == plan.runs()


def test_the_peak_is_of_this_process_and_not_of_the_one_that_started_it():
    held = bytearray(400 << 20)
    held[:: 1 << 12] = b"x" * len(held[:: 1 << 12])
    code = "from datamux.cluster.measured_run import peak_mb; print(peak_mb())"
    child = float(subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout)
    assert peak_mb() > 400
    assert child < 300, "it has loaded nothing but this module"


def test_the_command_explains_itself():
    done = run("bench", "cluster", "--help")
    assert done.returncode == 0
    assert "--more-rows" in done.stdout

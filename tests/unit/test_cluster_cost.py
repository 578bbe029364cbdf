"""The model of cost: its arithmetic, its tables, and the rows that are measured."""

import json

import pytest

from command_line import run
from datamux.cluster.cost import (
    ASSUMED,
    BILLION,
    START_UP,
    billion_table,
    compared,
    efficiency_of,
    measured_gears,
    measured_table,
    seconds_for,
)
from datamux.cluster.measuring import Plan, synthetic_texts
from datamux.reproduce.figures.cluster import billion_lines, cluster_section

RUN = {"rows": 1000, "group_size": 20, "seconds": 30.0, "working": 10.0, "driver_mb": 300.0}
RECORD = {
    "kind": "cluster",
    "settings": {"model": "sentiment", "task": "sst2", "ray": "2.60.0", "bytes_per_text": 100.0},
    "hardware": {"cores": 2, "cpu": "a CPU"},
    "results": [
        {**RUN, "engine": "local", "workers": 1, "texts_per_second": 100.0},
        {**RUN, "engine": "ray", "workers": 1, "texts_per_second": 90.0},
        {**RUN, "engine": "ray", "workers": 2, "texts_per_second": 160.0},
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


def test_the_efficiency_is_the_lowest_that_was_measured():
    assert efficiency_of(None) == ASSUMED
    assert [row["efficiency"] for row in compared(RECORD["results"])] == pytest.approx([1.0, 0.9, 0.8])
    assert efficiency_of(RECORD) == pytest.approx(0.8)
    faster = RECORD | {"results": [*RECORD["results"][:1], {**RECORD["results"][1], "texts_per_second": 120.0}]}
    assert efficiency_of(faster) == 1.0, "noise must not promise more than the local engine gives"


def test_a_billion_texts():
    titles, rows = billion_table(RECORD)
    assert len(titles) == len(rows[0])
    cells = {(row[0], row[1]): row for row in rows}
    hours = float(cells["sentiment", "20"][4].replace(",", ""))
    rate = next(
        gear.texts_per_second for gear in measured_gears() if (gear.model, gear.group_size) == ("sentiment", 20)
    )
    assert hours == pytest.approx(BILLION / rate / 0.8 / 3600, abs=0.51)
    assert "assumed" in billion_lines(None)[0]
    assert billion_lines(RECORD)[0] == "Efficiency 80% (measured)."


def test_measured_runs_stand_beside_the_model():
    titles, rows = measured_table(RECORD)
    assert [row[2:4] for row in rows] == [["local", "1"], ["ray", "1"], ["ray", "2"]]
    assert [row[5] for row in rows] == ["100%", "90%", "80%"]
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
    plan = Plan("sentiment", [1, 20], rows=10, more_rows=[50])
    assert plan.runs() == [
        (rows, size, engine, workers)
        for rows, size in ((10, 1), (10, 20), (50, 20))
        for engine, workers in (("local", 1), ("ray", 1), ("ray", 2))
    ]


def test_the_command_explains_itself():
    done = run("bench", "cluster", "--help")
    assert done.returncode == 0
    assert "--more-rows" in done.stdout

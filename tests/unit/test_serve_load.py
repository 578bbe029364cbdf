"""What a load test computes and shows: percentiles, saturation, the latency bound, tables, the plot, the profile."""

import asyncio
import random
import statistics
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.testclient import TestClient

from datamux.reproduce.figures.serving import guide_lines, serving_section
from datamux.reproduce.records import committed
from datamux.serve.app import create_app
from datamux.serve.batcher import PassReport, Silence
from datamux.serve.gears import Gear
from datamux.serve.load.arithmetic import at_latency, at_saturation, percentile, summary_rows, table_rows
from datamux.serve.load.bench import Plan, run_serve
from datamux.serve.load.plot import draw_serve
from datamux.serve.load.profile import BATCHER, HTTP, JSON, LOGS, REST, ROUTES, USERS, part_shares
from datamux.serve.load.table import profile_table, step_table, summary_table, tables
from datamux.serve.load.wall import OUTSIDE, PASS, QUEUE, SERVER, TOKENISING, WallClock
from datamux.serve.metrics import Metrics
from datamux.serve.settings import Settings
from serving import NamingEngine, make_predictor, make_service


def step(users: int, rate: float, p95: float | None, **more: object) -> dict:
    usual = {"server": "plain", "round": 0, "texts_per_request": 32, "requests": 100, "texts": 3200, "errors": 0}
    cores = {"generator_cores": 0.1, "server_cores": 1.0, "other_cores": 0.0}
    latency = {"p50": p95 and p95 / 2, "p95": p95, "p99": p95 and p95 * 2}
    rates = {"users": users, "texts_per_second": rate, "requests_per_second": rate / 32}
    return usual | cores | latency | rates | {"gears": {"plain": 3200}, "problems": {}} | more


@given(st.lists(st.floats(0, 1e6), min_size=2), st.sampled_from([1, 25, 50, 75, 95, 99]))
def test_percentiles_are_those_of_the_standard_library(values, percent):
    values = sorted(values)
    wanted = statistics.quantiles(values, n=100, method="inclusive")[percent - 1]
    assert percentile(values, percent) == pytest.approx(wanted)


def test_a_percentile_of_little():
    assert percentile([7.0], 99) == 7.0
    assert percentile([1.0, 3.0], 50) == 2.0
    with pytest.raises(ValueError, match="no values"):
        percentile([], 50)


def test_throughput_at_a_bound_is_interpolated_where_latency_crosses_it():
    steps = [step(1, 100, 20), step(4, 300, 60), step(16, 400, 260)]
    assert at_latency(steps, 110) == (325.0, True)  # a quarter of the way from 60 to 260 ms
    assert at_latency(random.sample(steps, 3), 110) == (325.0, True)
    assert at_latency(steps, 60) == (300.0, True)
    assert at_latency(steps, 1000) == (400.0, False)  # the load did not rise far enough
    assert at_latency(steps, 10) == (0.0, True)  # not even one user


def test_the_best_step_below_the_bound_counts_even_if_a_later_one_is_slower():
    assert at_latency([step(1, 100, 20), step(4, 300, 60), step(16, 200, 90)], 100) == (300.0, False)
    assert at_latency([step(1, 300, 50), step(4, 100, 150)], 100) == (300.0, True)


def test_a_step_with_errors_is_not_within_the_bound():
    refused = step(4, 900, 30, errors=50)
    assert at_latency([step(1, 100, 20), refused], 100) == (100.0, True)
    assert at_latency([step(1, 100, None, requests=0)], 100) == (0.0, True)
    assert at_latency([step(1, 100, 20, errors=1)], 100) == (100.0, False)


def make_record() -> dict:
    steps = []
    for number, (plain, mixed) in enumerate([(100.0, 800.0), (110.0, 990.0), (90.0, 900.0)]):
        for users, share in ((1, 0.5), (8, 1.0)):
            steps.append(step(users, plain * share, 400.0 * users, round=number))
            gears = {"mux-1": 100, "mux-20": 300}
            steps.append(step(users, mixed * share, 15.0 * users, round=number, server="multiplexed", gears=gears))
    settings = {"model": "m", "plain": "p", "servers": ["plain", "multiplexed"], "texts_per_request": [32]}
    settings |= {"rounds": 3, "seconds": 1.0, "latency_ms": 60.0, "texts": "sst2"}
    profile = {
        "users": 256,
        "bare_http": {"requests_per_second": 3000.0, "generator_cores": 0.4, "microseconds": {"event loop": 90.0}},
        "server": {"requests_per_second": 1500.0, "generator_cores": 0.95, "microseconds": {"event loop": 180.0}},
        "parts": [{"thread": "event loop", "part": HTTP, "microseconds": 120.0, "share": 2 / 3}],
    }
    summary = summary_rows(steps, 60.0, "plain")
    hardware = {"cores": 2, "cpu": "a CPU"}
    about = {"kind": "serve", "settings": settings, "hardware": hardware, "profile": profile}
    return about | {"summary": summary, "steps": steps, "results": table_rows(steps)}


def test_rounds_become_medians_and_ratios_are_taken_round_by_round():
    plain, mixed = make_record()["summary"]
    assert (plain["saturation"], mixed["saturation"]) == (100, 900)
    assert plain["saturation_ratio"] == 1
    assert [mixed[f"saturation_ratio{end}"] for end in ("", "_lowest", "_highest")] == [9, 8, 10]
    assert plain["at_bound"] == 0  # and nothing can be compared with it
    assert mixed["at_bound_ratio"] is None
    assert mixed["at_bound"] == pytest.approx(900 * (0.5 + 0.5 * 45 / 105))
    assert at_saturation([step(1, 5, 1), step(2, 9, 1), step(4, 7, 1)]) == 9
    row = make_record()["results"][-1]
    assert (row["users"], row["rounds"], row["requests"]) == (8, 3, 300)
    assert (row["lowest"], row["highest"], row["gears"]) == (800, 990, {"mux-1": 300, "mux-20": 900})


def test_tables_say_what_was_measured_and_what_disturbed_it():
    record = make_record()
    summary = summary_table(record)
    assert summary.rows[0] == ["32", "plain", "100 or more", "", "plain", "none", ""]
    assert summary.rows[1][2:5] == ["900 or more", "9.00x (8.00 to 10.00)", "mux-1 25%, mux-20 75%"]
    assert "`or more` means that the most users" in summary.notes[0]
    assert "used up to 0.10 of a core" in summary.notes[1]
    assert "Other programs" not in summary.notes[1]
    for row in record["results"]:
        row |= {"other_cores": 1.2, "generator_cores": 0.97}
    assert "Other programs used up to 1.20 cores" in summary_table(record).notes[1]
    assert "may itself be the limit" in summary_table(record).notes[1]
    assert [row[:2] for row in step_table(record, 32).rows] == [
        ["plain", "1"], ["plain", "8"], ["multiplexed", "1"], ["multiplexed", "8"]
    ]  # fmt: skip
    assert all(len(row) == len(table.columns) for table in tables(record) for row in table.rows)


def test_a_profile_says_what_limits_single_texts():
    record = make_record()
    server, parts = record["profile"]["server"], record["profile"]["parts"]
    notes = profile_table(record).notes
    assert notes[1] == "Of the CPU time of a request, 67% is HTTP, 0% is ours, 0% is tokenising, 0% is the model."
    assert notes[2].startswith("Only one thread of the model was clocked")
    assert notes[3].startswith("What the ceiling is cannot be told from this record")  # an older one, without wall time
    parts[:] = [
        {"thread": thread, "part": part, "microseconds": 0.0, "share": share}
        for thread, part, share in (
            ("event loop", HTTP, 0.3),
            ("event loop", ROUTES, 0.1),
            ("event loop", JSON, 0.05),
            ("tokenising", "", 0.05),
            ("model", "", 0.2),
            ("other threads", "", 0.3),
        )
    ]
    server |= {"busy": {"event loop": 0.45, "model": 0.5}, "cores": 1.6}
    notes = profile_table(record).notes
    assert notes[1].endswith("30% is HTTP, 15% is ours, 5% is tokenising, 50% is the model.")
    assert notes[2].endswith("event loop 45%, model 50%. The whole process used 1.60 cores.")


FULL = "the machine was full: of its 2 cores the server used 1.60 and the load generator 0.40"


@pytest.mark.parametrize(
    ("pass_share", "loop", "http", "cores", "said"),
    [
        (0.95, 0.5, 0.6, 1.2, "The ceiling of single texts is the passes, at work 95% of the time: not HTTP."),
        (0.95, 0.5, 0.6, 1.6, f"at work 95% of the time: not HTTP. Also, {FULL}, so each part slows down the others"),
        (0.3, 0.96, 0.6, 1.2, "is the event loop, at work 96% of the time, most of it in HTTP."),
        (0.3, 0.96, 0.1, 1.2, "is the event loop, at work 96% of the time, most of it in our own code."),
        (0.5, 0.6, 0.6, 1.2, "No part is always at work (the passes 50%, event loop 60%): they wait for one another"),
        (
            0.5,
            0.6,
            0.6,
            1.6,
            f"(the passes 50%, event loop 60%), but {FULL}. So the ceiling of single texts is the CPU",
        ),
        (0.5, 0.6, 0.6, 1.6, "all parts together, and HTTP is 60% of the server's."),
    ],
)
def test_the_ceiling_is_what_is_always_at_work(pass_share, loop, http, cores, said):
    record = make_record()
    server = record["profile"]["server"]
    record["profile"]["parts"] = [
        {"thread": "event loop", "part": part, "microseconds": 0.0, "share": share}
        for part, share in ((HTTP, http), (ROUTES, 0.3))
    ]
    server |= {"busy": {"event loop": loop, "model": 0.99}, "cores": cores, "generator_cores": 0.4}
    server["wall"] = {"milliseconds": {QUEUE: 40.0, PASS: 12.5}, "pass_share": pass_share, "texts_per_pass": 80.0}
    notes = profile_table(record).notes
    assert notes[3].startswith(f"By the clock, a request takes: {QUEUE} 40 ms; {PASS} 12 ms. A pass ran in")
    assert said in notes[4]


def test_the_profile_has_enough_users_for_two_full_passes():
    assert 2 * Settings().max_groups * 20 < USERS
    assert USERS in Plan().steps(1), "the same load as one of the steps"


def test_a_server_answers_while_its_time_is_measured(tmp_path):
    """The clock stands in the place of the tokeniser, which is also asked whether it hangs."""
    service = make_service(make_predictor(tmp_path), NamingEngine(), single_tenant=True)
    clock = WallClock(service)
    with TestClient(create_app(service)) as client:
        for number in range(3):
            assert client.post("/predict", json={"inputs": f"a {number}"}).json()[0]["score"] == number
        found = clock.measured(users=1, requests_per_second=0.1)
        assert client.get("/livez").status_code == 200
    assert found["texts_per_pass"] == 1
    assert all(found["milliseconds"][part] > 0 for part in (TOKENISING, QUEUE, PASS, OUTSIDE))
    assert sum(found["milliseconds"].values()) == pytest.approx(10_000), "as long as each user waits for one request"


def test_a_row_is_marked_if_more_users_might_get_more():
    record = make_record()
    for row in record["summary"]:
        row["users_at_saturation"] = 1
    summary = summary_table(record)
    assert [row[2] for row in summary.rows] == ["100", "900"]
    assert "or more" not in summary.notes[0]


def test_the_committed_record_is_still_shown():
    record = committed("serve/sentiment")
    lines = "\n".join(guide_lines(record, "x.png"))
    assert "| 32 | plain | 416 |" in lines or "wall" in record["profile"]["server"]
    assert "Of the CPU time of a request" in lines


def test_a_wall_clock_divides_the_time_of_a_request():
    times = iter([0.0, 2.0, 10.0, 11.0])  # tokenising, and two passes

    async def tokeniser(tenant, texts):
        return texts

    tokeniser.busy_for = lambda now: 0.0
    batcher = SimpleNamespace(observer=Silence(), _tokeniser=tokeniser)
    service = SimpleNamespace(metrics=Metrics(dict), batcher=batcher)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("datamux.serve.load.wall.time.perf_counter", lambda: next(times))
        clock = WallClock(service)
        asyncio.run(batcher._tokeniser("a", ["x"]))
        for seconds in (1.0, 0.5):
            groups, queued = [("a", 1), ("a", 1)], [0.25, 0.75]
            batcher.observer.passed(PassReport(Gear("one", 1), "full", groups, 2, 2, queued, seconds, False))
        for _ in range(4):
            service.metrics.requested("/predict", 200, 4.0)
        found = clock.measured(users=8, requests_per_second=1.6)
    assert found["milliseconds"] == {TOKENISING: 2000, QUEUE: 500, PASS: 750, SERVER: 750, OUTSIDE: 1000}
    assert (found["pass_share"], found["texts_per_pass"]) == (0.75, 2)


def test_pages_show_the_record(tmp_path):
    record = make_record()
    lines = guide_lines(record, "../serve-sentiment.png")
    assert "| 32 | multiplexed | 900 or more | 9.00x (8.00 to 10.00) | mux-1 25%, mux-20 75% |" in "\n".join(lines)
    assert any("90 of our 180 microseconds" in line for line in lines)
    assert "### Every step of the load, batches of 32" in serving_section({"sentiment": [record]})
    draw_serve(record, tmp_path / "serve.png")
    assert (tmp_path / "serve.png").read_bytes().startswith(b"\x89PNG")


def test_a_profile_counts_built_in_functions_for_their_callers():
    routes, uvicorn = ("x/datamux/serve/routes.py", 1, "predict"), ("x/uvicorn/h.py", 2, "send")
    stats = {
        routes: (1, 1, 2.0, 9.0, {}),
        uvicorn: (1, 1, 4.0, 4.0, {routes: (1, 1, 4.0, 4.0)}),
        ("~", 0, "<built-in len>"): (2, 2, 2.0, 2.0, {routes: (1, 1, 0.5, 0.5), uvicorn: (1, 1, 1.5, 1.5)}),
        ("x/datamux/serve/batcher.py", 3, "submit"): (1, 1, 1.0, 1.0, {}),
        ("x/datamux/serve/metrics.py", 3, "passed"): (1, 1, 0.5, 0.5, {}),
        ("~", 0, "<method 'validate_json' of 'pydantic_core.SchemaValidator' objects>"): (1, 1, 0.25, 0.25, {}),
        ("x/typing.py", 3, "cast"): (1, 1, 0.25, 0.25, {}),
    }  # fmt: skip
    shares = part_shares(stats)
    assert shares == {HTTP: 0.55, ROUTES: 0.25, BATCHER: 0.1, LOGS: 0.05, JSON: 0.025, REST: 0.025}
    assert next(iter(shares)) == HTTP


def test_something_must_be_measured():
    with pytest.raises(ValueError, match="name a model to serve, or give --url"):
        run_serve(Plan())
    with pytest.raises(ValueError, match="--profile looks into a server of its own"):
        run_serve(Plan(url="http://127.0.0.1:1", profile=True))
    with pytest.raises(ValueError, match=r"no server answers at http://127\.0\.0\.1:1: "):
        run_serve(Plan(url="http://127.0.0.1:1"))


def test_the_load_rises_as_asked():
    assert Plan(users=[8, 1, 8]).steps(32) == (1, 8)
    assert Plan().steps(1)[-3:] == (128, 256, 512)
    assert "--single-tenant" in Plan().options
    assert "--single-tenant" not in Plan(separate_tenants=True, threads=1).options

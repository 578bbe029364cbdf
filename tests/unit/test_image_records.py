"""Records of the image figures: only complete ones are committed, rows and tables are right, and the paper's numbers
stand only beside MNIST.
"""

import json
import math

import pytest
from results import take

from datamux.cli.output import PLOTS
from datamux.reproduce.catalogue import choose
from datamux.reproduce.completeness import problems
from datamux.reproduce.experiment import settings_of
from datamux.reproduce.figures import draw, image_figure
from datamux.reproduce.figures.aims import image_aims
from datamux.reproduce.images import rows as image_rows
from datamux.reproduce.images.measurements import TIMED, timed_series
from datamux.reproduce.images.rows import (
    RATE,
    RATIO,
    image_table,
    rows_of,
    select_rows,
    speed_rows,
    without_accuracy,
)
from datamux.reproduce.images.runs import VERSION
from datamux.reproduce.images.stated import STATED, Stated, stated_words

FIGURES = {experiment.name: experiment for experiment in choose("mnist")}
DATA = {"source": "MNIST", "train": 60_000, "test": 10_000}
OTHER = {"source": "1,797 digits of 8x8 pixels", "train": 1347, "test": 450}
TRAINED = [name for name, figure in FIGURES.items() if figure.kind == "images"]


def made_up(name: str, data: dict = DATA) -> dict:
    """A complete record: 90% in every slot for N = 1, a little less for every further slot."""
    results = [
        {"series": s.name, "n": n, "seed": seed, "accuracy": sum(slots) / n, "slots": slots}
        for s in FIGURES[name].series
        for n in s.sizes
        for slots in [[0.9 - 0.01 * slot for slot in range(n)]]
        for seed in range(3)
    ]
    recipe = json.loads(json.dumps(settings_of(FIGURES[name].series)))
    about = {"kind": "images", "experiment": f"mnist/{name}", "seed": 0, "version": VERSION}
    return about | {"data": data, "recipe": recipe, "results": results}


def made_up_speed(data: dict = DATA) -> dict:
    results = [
        {"series": name, "n": n, "rates": [1000.0 * n, 1200.0 * n], "ratios": [0.5 * n, 0.7 * n]}
        for name, series in timed_series().items()
        for n in series.sizes
    ]
    return {"kind": "image speed", "experiment": "mnist/mnist-speed", "data": data, "results": results}


def made_up_picture() -> dict:
    series = FIGURES["mnist-picture"].series
    group = {
        "digits": [[0] * 400] * 4,
        "labels": [7, 2, 1, 0],
        "seen": [{"series": s.name, "mixture": [1] * 400, "answers": [7, 3, 1, 0]} for s in series],
    }
    return {
        "kind": "picture",
        "experiment": "mnist/mnist-picture",
        "version": VERSION,
        "recipe": json.loads(json.dumps(settings_of(series))),
        "data": DATA,
        "rows": [{"series": s.name, "n": 4, "value": 90.0} for s in series],
        "results": [group] * 3,
    }


@pytest.fixture
def all_committed(monkeypatch):
    """As if every trained figure had its record in the package."""
    records = {name: made_up(name) for name in TRAINED}
    monkeypatch.setattr(image_rows, "has_record", records.__contains__)
    monkeypatch.setattr(image_rows, "committed", records.__getitem__)


@pytest.mark.parametrize("name", TRAINED)
def test_a_complete_record_has_no_problems(name):
    assert problems(made_up(name)) == []
    assert problems(made_up_speed()) == []


def test_what_is_not_complete_is_named():
    found = problems(made_up("mnist-mlp", OTHER))
    assert len(found) == 1
    assert "1,797 digits" in found[0]

    two_seeds = made_up("mnist-mlp")
    two_seeds["results"] = [r for r in two_seeds["results"] if (r["series"], r["n"], r["seed"]) != ("ortho", 8, 2)]
    assert problems(two_seeds) == ["'ortho' at N = 8 has seeds [0, 1], not [0, 1, 2]"]

    twice = made_up("mnist-mlp")
    twice["results"].append(twice["results"][-1])
    assert problems(twice) == ["'low_rank' at N = 16 has seeds [0, 1, 2, 2], not [0, 1, 2]"]

    lacking = made_up("mnist-mlp")
    lacking["results"] = [r for r in lacking["results"] if r["n"] != 16]
    assert "'ortho' at N = 16 is missing" in problems(lacking)

    other = made_up("mnist-mlp")
    other["recipe"]["ortho"]["protocol"]["epochs"] = 1
    assert problems(other) == ["the settings of 'ortho' are not the figure's"]

    old = made_up("mnist-mlp") | {"version": VERSION - 1}
    assert problems(old) == [f"its code is of version {VERSION - 1}, not {VERSION}"]
    del old["version"]
    assert problems(old) == [f"its code is of version None, not {VERSION}"]

    empty = made_up("mnist-mlp") | {"recipe": {}}
    assert len(problems(empty)) == 3

    picture = made_up_picture()
    assert problems(picture) == []
    picture["rows"].pop()
    picture["results"] = picture["results"][:2]
    next(iter(picture["recipe"].values()))["protocol"]["epochs"] = 1
    assert problems(picture) == [
        "the settings of \"mlp ortho (the paper's)\" are not the figure's",
        "'cnn tiles' at N = 4 is missing",
        "it has 2 groups, not 3",
    ]

    further = made_up_speed()
    further["results"][0]["n"] = 3
    assert len(problems(further)) == 2


def test_only_complete_records_are_taken_into_the_package(tmp_path):
    (tmp_path / "records").mkdir()
    for number, data in enumerate((OTHER, DATA)):
        (tmp_path / "records/record.json").write_text(json.dumps(made_up("mnist-mlp", data)))
        assert len(take(tmp_path / "records", tmp_path / "package")) == 1 - number
        assert (tmp_path / "package/mnist/mnist-mlp.json").exists() == bool(number)


def test_the_papers_words():
    assert Stated("a", 8, 56.0, "there", "about").words == "about 56"
    assert Stated("a", 4, 80.0, "there", "above").words == "above 80"
    assert Stated("a", 8, 83.65, "there").words == "83.65"
    assert Stated("a", 8, None, "there", spread="about 7").words == "± about 7"
    assert Stated("a", 8, 83.0, "there", "about", of="low_rank").words == "about 83 for low_rank"


def test_a_stated_spread_as_a_number():
    assert Stated("a", 8, None, "there", spread="about 7").most_spread == 7
    assert Stated("a", 8, None, "there", spread="10 to 24").most_spread == 24
    assert Stated("a", 8, 83.65, "there").most_spread is None


def test_every_stated_number_belongs_to_a_point():
    for figure, points in STATED.items():
        there = {(s.name, n) for s in FIGURES[figure].series for n in s.sizes} or {("as_published", 8)}
        assert {(point.series, point.n) for point in points} <= there
        assert all(point.where and (point.value is None or 0 < point.value < 100) for point in points)


def test_the_papers_limits_stand_beside_ours():
    rows = {(row["series"], row["n"]): row["paper"] for row in rows_of(made_up("mnist-ours"))}
    limits = {("mlp ortho", 8): 78, ("cnn ortho", 8): 56, ("cnn nonlinear_8x", 8): 83.65}
    found = {point: value for point, value in rows.items() if value is not None}
    assert found == limits, "only of the same multiplexer"
    record = made_up("mnist-ours")
    assert stated_words(record, "mlp principal", 8) == "about 83 for low_rank"
    assert stated_words(record, "cnn tiles_8x", 16) == "53.30 for nonlinear_8x"


@pytest.mark.parametrize("source", [OTHER["source"], "MNIST, held out of training"])
def test_beside_other_digits_the_paper_is_silent(source):
    record = made_up("mnist-cnn-kernels", DATA | {"source": source})
    assert all(row["paper"] is None for row in rows_of(record))
    assert stated_words(record, "nonlinear_8x_as_published", 8) == ""


def test_some_rows_of_a_record_are_selected():
    record = made_up("mnist-mlp")
    points = [(row["series"], row["n"]) for row in rows_of(select_rows(record, ["ortho"], [2, 8]))]
    assert points == [("ortho", 2), ("ortho", 8)]
    assert len(rows_of(select_rows(record, [], [2]))) == 3
    with pytest.raises(ValueError, match=r"'othro'.*'ortho'"):
        select_rows(record, ["othro"], [])
    with pytest.raises(ValueError, match="no N = 3; it has 1, 2, 4, 8, 16"):
        select_rows(record, [], [3])
    with pytest.raises(ValueError, match="none of these series at these N"):
        select_rows(made_up("mnist-ours"), ["mlp identity"], [2])


def test_speeds_stand_beside_the_accuracy_of_the_same_network(all_committed):
    rows = [row for row in speed_rows(made_up_speed()) if (row["series"], row["n"]) == ("mnist-ours: cnn tiles", 4)]
    assert [(row["metric"], row["value"]) for row in rows] == [
        (RATE, 4400.0),
        (RATIO, pytest.approx(2.4)),
        ("accuracy, %", 88.5),
    ]
    assert [row["spread"] for row in rows[:2]] == pytest.approx([400.0, 0.4])
    assert without_accuracy(made_up_speed()) == []


def test_without_a_record_of_the_same_digits_there_is_no_accuracy(all_committed, monkeypatch):
    assert without_accuracy(made_up_speed(OTHER)) == list(TIMED)
    assert {row["metric"] for row in speed_rows(made_up_speed(OTHER))} == {RATE, RATIO}
    monkeypatch.setattr(image_rows, "has_record", lambda name: name == "mnist-mlp")
    rows = [row for row in speed_rows(made_up_speed()) if row["metric"] == "accuracy, %"]
    assert {row["series"].partition(":")[0] for row in rows} == {"mnist-mlp"}
    assert without_accuracy(made_up_speed()) == ["mnist-cnn", "mnist-cnn-kernels", "mnist-ours"]


def test_tables_of_the_page(all_committed):
    table = "\n".join(image_table(made_up("mnist-cnn")))
    assert "| ortho | 90.00 |" in table
    assert "86.50 ± 2.3 (paper: about 56)" in table
    assert "(paper: above 80)" in table
    assert "(paper: ± about 7)" in table
    speeds = image_table(made_up_speed())
    assert "| mnist-cnn: ortho | 8 | 8,800 ± 800 | 4.80 ± 0.80 | 86.50 |" in speeds
    assert "no record" in image_table(made_up_speed(OTHER))[2]


def test_aims_are_met_or_missed():
    record = made_up("mnist-ours")
    for result in record["results"]:
        if (result["series"], result["n"]) == ("cnn tiles", 8):
            result["accuracy"] = 0.912
    lines = image_aims(record)
    assert len(lines) == 2 + 6
    assert lines[2] == "| MLP, mixture as large as one image | 8 | 93 | mlp ortho, our demultiplexer | 86.50 | " + (
        "about 83 (low-rank) | missed by 6.50 |"
    )
    assert "| 8 | 90 | cnn tiles | 91.20 | about 56 (ortho) | met |" in lines[5]
    assert "mixture 8x | 16 | 92 | cnn tiles_8x |" in lines[7]


def markers(axes) -> dict[str, list[tuple[float, float]]]:
    """Where each kind of mark stands that is not a series' own."""
    found: dict[str, list] = {}
    for line in axes.get_lines():
        found.setdefault(line.get_marker(), []).extend(zip(*line.get_data(), strict=True))
    return found


def test_one_panel_per_backbone_with_bars_stars_and_the_plain_network():
    figure = image_figure(made_up("mnist-ours"))
    assert "MNIST" in figure.get_suptitle()
    mlp, cnn, wide = figure.axes
    assert [axes.get_title() for axes in figure.axes] == [
        "MLP",
        "CNN, mixtures as large as one image",
        "CNN, larger mixtures (4x, 8x)",
    ]
    for axes in figure.axes:
        colours = [bars.lines[0].get_color() for bars in axes.containers]
        assert len(colours) == len(set(colours)) > 1
        (plain,) = [line for line in axes.get_lines() if str(line.get_label()).startswith("one image per pass")]
        assert list(plain.get_ydata()) == [90.0, 90.0]
    ortho = next(bars for bars in mlp.containers if bars.get_label() == "ortho")
    assert list(ortho.lines[0].get_ydata()) == pytest.approx([86.5, 82.5])
    lengths = [float(top - bottom) for (_, bottom), (_, top) in ortho.lines[2][0].get_segments()]
    assert lengths == pytest.approx([2 * 2.291, 2 * 4.61], abs=0.01)
    assert sorted(round(y) for _, y in markers(mlp)["*"]) == [78, 83]
    assert [round(y) for _, y in markers(cnn)["*"]] == [56]
    assert [(round(x), round(y)) for x, y in markers(cnn)["^"]] == [(4, 80)], "a bound has a mark of its own"
    assert sorted(round(y, 2) for _, y in markers(wide)["*"]) == [53.3, 83.65]


def test_on_other_digits_no_stars_and_another_title():
    figure = image_figure(made_up("mnist-ours", OTHER))
    assert OTHER["source"] in figure.get_suptitle()
    assert "MNIST" not in figure.get_suptitle()
    for axes in figure.axes:
        assert not {"*", "^"} & set(markers(axes))


def test_the_plain_network_of_the_kernels_is_what_turns_by_nothing():
    record = made_up("mnist-cnn-kernels")
    for result in record["results"]:
        if result["n"] == 1 and result["series"] == "rotation":
            result["accuracy"] = 0.97
    for axes in image_figure(record).axes:
        assert [line.get_ydata()[0] for line in axes.get_lines() if "one image" in str(line.get_label())] == [97.0]


def test_speed_is_drawn_with_and_without_accuracy(all_committed):
    figure = image_figure(made_up_speed())
    upper, lower = figure.axes[:3], figure.axes[3:]
    for axes in upper:
        colours = [bars.lines[0].get_color() for bars in axes.containers]
        assert len(colours) == len(set(colours)) > 1
    tiles = next(bars for bars in upper[1].containers if bars.get_label() == "tiles (ours)")
    assert list(tiles.lines[0].get_ydata()) == [4400.0, 8800.0]
    assert (4400.0, 88.5) in markers(lower[1])["o"]
    assert figure.get_supxlabel() == ""
    without = image_figure(made_up_speed(OTHER))
    assert len(without.axes) == 3, "no empty panels"
    assert "no accuracy" in without.get_supxlabel()
    assert OTHER["source"] in without.get_suptitle()


def test_the_papers_spreads_and_every_slot_are_drawn():
    record = made_up("mnist-cnn")
    (axes,) = image_figure(record).axes
    bars = [c for c in axes.containers if not c.lines[0]]  # without a line of its own
    segments = [segment for bar in bars for segment in bar.lines[2][0].get_segments()]
    assert [float(top - bottom) for (_, bottom), (_, top) in segments] == pytest.approx([4.0, 14.0, 14.0])
    assert [float(top + bottom) / 2 for (_, bottom), (_, top) in segments[1:]] == pytest.approx([86.5, 82.5])
    dots = sum(len(part.get_offsets()) for part in axes.collections if len(part.get_offsets()) > 1)
    assert dots == sum(len(result["slots"]) for result in record["results"])


def test_a_stated_spread_stands_beside_its_own_series():
    left, _ = image_figure(made_up("mnist-cnn-kernels")).axes
    bars = {bars.get_label(): bars for bars in left.containers if bars.lines[0]}
    at_8 = {name: float(own.lines[0].get_xdata()[3]) for name, own in bars.items() if len(own.lines[0].get_xdata()) > 3}
    segments = [s for c in left.containers if not c.lines[0] for s in c.lines[2][0].get_segments()]
    spread = next(float(x) for (x, bottom), (_, top) in segments if top - bottom > 40 and 7 < x < 9)
    assert min(at_8, key=lambda name: abs(at_8[name] - spread)) == "rotation as published"


def test_a_line_is_broken_where_a_size_was_not_run():
    (axes,) = image_figure(made_up("mnist-cnn")).axes
    line = next(bars for bars in axes.containers if bars.get_label() == "nonlinear").lines[0]
    assert [round(float(x)) for x in line.get_xdata()] == [2, 4, 9]  # a little aside
    assert [math.isnan(y) for y in line.get_ydata()] == [False, True, False]


def test_a_series_of_one_image_per_pass_is_drawn():
    """It is left out only where it is the line of the plain network."""
    (axes,) = image_figure(select_rows(made_up("mnist-mlp"), ["ortho"], [1])).axes
    assert [bars.get_label() for bars in axes.containers] == ["ortho"]
    (axes,) = image_figure(select_rows(made_up("mnist-mlp"), [], [1])).axes
    assert [bars.get_label() for bars in axes.containers] == ["identity", "ortho", "low rank"]
    assert [round(y) for _, y in markers(axes)["*"]] == [95]
    mlp, *_ = image_figure(made_up("mnist-ours")).axes
    assert "identity" not in [bars.get_label() for bars in mlp.containers]


@pytest.mark.parametrize("ending", PLOTS)
def test_a_plot_of_every_ending_can_be_drawn(ending, tmp_path):
    draw(made_up("mnist-mlp"), tmp_path / f"plot{ending}")
    assert (tmp_path / f"plot{ending}").stat().st_size > 1000


def test_a_picture_reads_from_left_to_right():
    figure = image_figure(made_up_picture())
    line = figure.axes[: len(figure.axes) // 3]
    digits, *networks = line[:4], line[4:11], line[11:]
    assert all(axes.images for axes in digits)
    for network, start in zip(networks, ("→", "or"), strict=True):
        before, mixture, after, *answers = network
        assert [axes.texts[0].get_text() for axes in (before, after)] == [start, "→"]
        assert mixture.images
        assert [axes.texts[0].get_text() for axes in answers] == ["7", "3", "1", "0"]
        assert [axes.texts[0].get_color() for axes in answers[:2]] == ["tab:green", "tab:red"]
    assert line[12].get_title() == "cnn tiles:\n90.0% right"

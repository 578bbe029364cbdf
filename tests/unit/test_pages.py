"""Generated parts of pages: the README's short table, and pages that open with their result."""

import re
from dataclasses import replace
from pathlib import Path

import pytest
from pages.plots import plot_name
from results import OPENINGS

from datamux.reproduce.catalogue import EXPERIMENTS
from datamux.reproduce.figures.quality import IN_SHORT, scores, short_table
from datamux.reproduce.paper.pages import claims_table
from datamux.reproduce.records import committed, records_of
from datamux.reproduce.tables import TITLES
from datamux.zoo import shipped_models

ROOT = Path(__file__).parents[2]
FULL = records_of("sst2")


def test_the_readme_has_the_short_table():
    text = (ROOT / "README.md").read_text()
    assert "\n".join(short_table("sst2")) in text
    assert not [name for name in FULL if f"| {name} |" in text], "names of experiments are for docs/results.md"


def test_its_rows_are_those_of_the_records():
    _, _, *lines = short_table("sst2")
    assert len(lines) == len(IN_SHORT) <= 7
    for line, (name, experiment) in zip(lines, IN_SHORT.items(), strict=True):
        found = scores(FULL[experiment])
        assert line.startswith(f"| {name} | {len(FULL[experiment])} | ")
        assert f"{sum(found[1]) / len(found[1]):.1f}" in line


@pytest.mark.parametrize("page", ["results.md", "vision.md", *OPENINGS])
def test_pages_open_with_a_result_and_a_picture(page):
    text = (ROOT / "docs" / page).read_text()
    opening = text.partition("\n## ")[0]
    sentence, picture, _ = opening.partition("\n![")
    assert picture, f"docs/{page} has no picture before its first section"
    assert "|" not in sentence, "a table comes after the picture"
    assert any(letter.isdigit() for letter in sentence), "the first sentence has the result"


def test_the_verdicts_on_the_papers_images_are_those_of_the_claims():
    assert "\n".join(claims_table("images")) in (ROOT / "docs/vision.md").read_text()


@pytest.mark.parametrize(
    ("task", "train", "scored"), [("qqp", 16_000, 4_000), ("qnli", 4_370, 1_093), ("mnli", 7_852, 1_963)]
)
def test_pages_say_of_which_subsets_the_older_records_are(task, train, scored):
    """The sets have grown since: whoever compares these records with the mini scale has to know."""
    found = [record for group in records_of(task).values() for record in group]
    assert {row["rows"] for record in found for row in record["results"]} == {scored}
    said = (ROOT / "docs/training.md").read_text()
    _, _, older = said.partition("The committed records of QQP, QNLI and MNLI")
    assert f"{train:,}" in older
    assert f"{scored:,}" in older
    assert f"older subset of {train + scored:,} rows" in TITLES[task]


def test_a_plot_is_named_after_its_figure_and_experiment():
    experiment = EXPERIMENTS["frontier/sst2"]
    assert plot_name(experiment) == "frontier-sst2.png"
    assert plot_name(replace(experiment, figure="new")) == "new-sst2.png"
    assert plot_name(EXPERIMENTS["distilled-frontier/sst2"]) == "frontier-distilled-sst2.png"
    assert plot_name(EXPERIMENTS["mnist/mnist-mlp"]) == "mnist-mlp.png"


@pytest.mark.parametrize("page", ["README.md", "docs/index.md", "docs/footguns.md", "docs/guides/audit.md"])
def test_what_pages_quote_of_the_audit_is_in_its_record(page):
    rows = committed("audit/sentiment")["results"]
    (steady,) = (row for row in rows if row["part"] == "consistency" and row["group_size"] == 20)
    (attack,) = (row for row in rows if row["part"] == "worst case" and row["group_size"] == 20)
    text = " ".join((ROOT / page).read_text().split())
    assert f"{steady['flips']:.1%} of the answers change" in text
    assert f"changed {attack['changed']} of {attack['texts']} right answers" in text


def test_the_speeds_that_the_readme_quotes_are_in_the_records():
    text = " ".join((ROOT / "README.md").read_text().split())
    assert f"the {shipped_models()['sentiment']['speed']['20']['ratio']:.1f}x by itself" in text
    rows = {row["model"]: row for row in committed("distilled-frontier/sst2")["results"] if row["engine"] == "torch"}
    for name in ("1 layer of 64", "words alone"):
        score, ratio = 100 * rows[name]["score"], rows[name]["ratio"]
        assert re.search(rf"scores {score:.1f} and is {ratio:.1f} times as fast", text), name

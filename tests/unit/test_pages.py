"""The README's generated table: short, in a reader's words, and from the same records as the full one."""

import json

import pytest
from pages.common import ROOT
from pages.quality import IN_SHORT, rows_of, scores, short_table

FULL = rows_of("sst2")


def test_the_readme_has_the_short_table():
    text = (ROOT / "README.md").read_text()
    assert "\n".join(short_table("sst2")) in text
    assert not [name for name in FULL if f"| {name} |" in text], "names of records are for docs/results.md"


def test_its_rows_are_those_of_the_records():
    _, _, *lines = short_table("sst2")
    assert len(lines) == len(IN_SHORT) <= 7
    for line, (name, kept) in zip(lines, IN_SHORT.items(), strict=True):
        found = scores(FULL[kept])
        assert line.startswith(f"| {name} | {len(FULL[kept])} | ")
        assert f"{sum(found[1]) / len(found[1]):.1f}" in line


def test_seeds_of_other_settings_are_not_averaged(tmp_path):
    (tmp_path / "sst2").mkdir()
    for seed, teacher in enumerate(("a", "b", "")):
        recipe = {"run": {"seed": seed}, "task": {"teacher": teacher}, "model": {}}
        (tmp_path / f"sst2/scratch-seed{seed}.json").write_text(json.dumps({"kind": "quality", "recipe": recipe}))
    with pytest.raises(ValueError, match="'scratch' differ in more than the seed"):
        rows_of("sst2", tmp_path)
    (
        tmp_path / "sst2/scratch-seed2.json"
    ).unlink()  # what is left has a teacher each: not the same folder, the same setting
    assert len(rows_of("sst2", tmp_path)["scratch"]) == 2

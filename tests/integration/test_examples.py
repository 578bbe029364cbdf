"""Every example runs, is short, and says what a person would expect."""

import runpy
from pathlib import Path

import pytest

from datamux import MULTIPLEXERS

EXAMPLES = Path(__file__).parents[2] / "examples"
SAYS = {
    "classify_csv": ["'the film was great': praise", "'so dull was the plot': blame", "'the plot was fine': praise"],
    "own_multiplexer": ["identity: 3 inputs per pass", "shift: 3 inputs per pass"],
    "plain_module": ["1 per pass: 2000 passes", "2 per pass: 1000 passes", "4 per pass: 500 passes"],
    "tag": ["'the parcel of Anna is late': Anna", "'says Omar': Omar", "Mei, Luca"],
}


@pytest.mark.parametrize("file", sorted(EXAMPLES.glob("*.py")), ids=lambda file: file.stem)
def test_it_runs_and_says_so(file, capsys, monkeypatch):
    monkeypatch.setitem(MULTIPLEXERS, "shift", None)  # what the example adds is taken away again
    runpy.run_path(str(file), run_name="__main__")
    said = capsys.readouterr().out
    for line in SAYS[file.stem]:
        assert line in said
    if file.stem == "own_multiplexer":
        without_keys, with_keys = (int(line.split()[-2].strip("%")) for line in said.splitlines())
        assert without_keys < 75 < 95 < with_keys
    assert len(file.read_text().splitlines()) < 40

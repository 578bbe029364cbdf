"""What is shipped: wheel and sdist hold all that they should and nothing else; names, version and speed of import."""

import importlib
import re
import runpy
import subprocess
import sys
import tarfile
import time
import zipfile
from pathlib import Path

import pytest

import datamux
from datamux.cli import app

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "datamux"
HEAVY = ("torch", "transformers", "numpy", "datasets", "sklearn", "matplotlib", "onnxruntime", "accelerate")
BASES = {"Result", "MuxPreTrainedModel", "Backbone", "SequenceHead", "TokenHead", "RetrievalHead"}  # to build on
JUNK = re.compile(r"__pycache__|\.pyc$|\.DS_Store|\.venv|\.egg-info|^/runs/|^/site/|\.(pt|log|part)$")


def run(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory) -> Path:
    """A folder with the wheel and the sdist, built by the backend itself: nothing is downloaded."""
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "hatchling", "build", "--directory", str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return folder


def test_the_wheel_holds_the_package_and_nothing_else(built):
    (wheel,) = built.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        metadata = archive.read(next(name for name in names if name.endswith("METADATA"))).decode()
    package = {name for name in names if name.startswith("datamux/")}
    here = {str(file.relative_to(SOURCE.parent)) for file in SOURCE.rglob("*") if file.is_file()}
    assert package == {name for name in here if not JUNK.search(name)}
    assert "datamux/py.typed" in package
    assert sum(name.startswith("datamux/recipes/") for name in package) > 10
    assert wheel.stat().st_size < 60e6  # with the models in the package, whose weights hardly shrink
    rest = {name.partition(".dist-info/")[2] for name in names - package}
    assert rest == {"METADATA", "WHEEL", "RECORD", "entry_points.txt", "licenses/LICENSE"}
    assert f"Version: {datamux.__version__}\n" in metadata


def test_the_sdist_holds_the_whole_checkout_and_no_junk(built):
    (sdist,) = built.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert names >= {"LICENSE", "README.md", "Makefile", "pyproject.toml", "scripts/results.py"}
    assert not [name for name in names if JUNK.search(f"/{name}")]
    if not (ROOT / ".git").exists():
        pytest.skip("not a git checkout: what belongs to it is not known")
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True)
    assert {name for name in listed.stdout.splitlines() if (ROOT / name).exists()} <= names


def test_what_is_exported_is_documented():
    documented = re.findall(r"(?m)^::: (\S+)$", (ROOT / "docs/api.md").read_text())
    names = [path.rpartition(".")[2] for path in documented]
    assert sorted(set(names) - BASES) == sorted(datamux.__all__)
    assert len(names) == len(set(names))
    for path in documented:
        module, _, name = path.rpartition(".")
        found = getattr(importlib.import_module(module), name)
        assert name in BASES or found is getattr(datamux, name)


def test_neither_the_import_nor_any_help_loads_anything_heavy():
    listed = runpy.run_path(str(ROOT / "scripts/commands.py"))["commands"](app)
    commands = ["datamux", "datamux bench", *(name for name, _ in listed)]
    assert {"datamux reproduce", "datamux bench breakdown"} < set(commands)
    code = f"""
import sys
import datamux
from datamux.cli import main
for command in {commands!r}:
    sys.argv = [*command.split(), "--help"]
    try:
        main()
    except SystemExit as end:
        assert not end.code, command
print("loaded:", *(name for name in {HEAVY!r} if name in sys.modules))
"""
    assert run(code).splitlines()[-1].strip() == "loaded:"


def test_the_import_takes_less_than_half_a_second():
    code = "import time; start = time.perf_counter(); import datamux; print(time.perf_counter() - start)"
    assert min(float(run(code)) for _ in range(5)) < 0.5


def test_help_takes_less_than_a_second():
    seconds = []
    for _ in range(5):
        start = time.perf_counter()
        run("import sys; sys.argv = ['datamux', '--help']; from datamux.cli import main; main()")
        seconds.append(time.perf_counter() - start)
        if seconds[-1] < 1:
            return
    pytest.fail(f"the best of five took {min(seconds):.2f} s")

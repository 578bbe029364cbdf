"""The package as a whole: what is exported, what imports what, how long an import takes, registration."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import datamux

ROOT = Path(__file__).parents[2]


def run(*code: str) -> str:
    done = subprocess.run([sys.executable, *code], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_every_exported_name_is_there():
    for name in datamux.__all__:
        assert getattr(datamux, name) is not None
    assert sorted(name for names in datamux._HOMES.values() for name in names) == sorted(datamux.__all__)
    with pytest.raises(AttributeError, match="no attribute 'multiplexor'"):
        _ = datamux.multiplexor


def test_version_is_in_the_changelog():
    newest = re.search(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert newest
    assert newest[1] == datamux.__version__


# Folders in which every file is one entry of a registry or of the catalogue: the list names the folder.
ENTRIES = (
    *("multiplexers", "multiplexers/for_images", "demultiplexers", "tasks/formats"),
    *("tuning/families", "reproduce/catalogue", "cli/bench"),
)


def listed_files() -> set[str]:
    """The files in docs/architecture.md: a section is about one folder, or about the package if it names none."""
    page = (ROOT / "docs/architecture.md").read_text()
    files = page.partition("## The files\n")[2].partition("\n## ")[0]
    found = set()
    for section in files.split("\n### ")[1:]:
        folder = re.match(r"`(\w+/)`", section)
        found |= {(folder[1] if folder else "") + name for name in re.findall(r"(?m)^\| `([^`]+)` \|", section)}
    return found


def test_the_list_of_files_names_every_file_of_the_package_and_no_other():
    package, listed = ROOT / "src/datamux", listed_files()
    for name in sorted(listed):
        assert (package / name).exists(), f"docs/architecture.md lists {name}, which does not exist"
    parts = {f"{part.name}/" if part.is_dir() else part.name for part in package.iterdir()}
    rooms = {name.partition("/")[0] + "/" for name in listed if "/" in name}
    assert {part for part in parts - listed - rooms if not part.startswith("__")} == set()
    files = [file.relative_to(package) for file in package.rglob("*.py") if not file.name.startswith("__")]
    missing = {str(file) for file in files if str(file.parent) not in ENTRIES} - listed
    assert missing == set(), "docs/architecture.md does not list these"
    assert {f"{folder}/" for folder in ENTRIES} <= listed


def test_every_file_beside_the_package_is_in_the_list_of_files():
    text = (ROOT / "docs/architecture.md").read_text()
    for name in ("Makefile", "constraints.txt", "mkdocs.yml", "CHANGELOG.md", "CONTRIBUTING.md"):
        assert re.search(rf"(?m)^\| `{re.escape(name)}` \|", text), f"docs/architecture.md has no row for {name}"


def test_the_readme_names_every_extra():
    text = (ROOT / "README.md").read_text()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    for extra in project["optional-dependencies"]:
        assert re.search(rf"(?m)^\| .*`{extra}`.* \|", text), f"README.md does not say what the extra {extra} is for"


def test_import_does_not_load_torch():
    assert run("-c", "import sys, datamux; print('torch' in sys.modules, 'transformers' in sys.modules)").split() == [
        "False",
        "False",
    ]


ORDERS = [
    "import datamux; import transformers",
    "import transformers; import datamux",
    "import datamux; from transformers import AutoModel",
    "import datamux; from transformers import AutoTokenizer, pipeline",
    "import datamux; from transformers import Trainer",
    "import datamux; from transformers import BertModel, AutoConfig",
    "from transformers import AutoModel; import datamux",
]
FORKED = """
import os, sys
# Once, as they take longer than all the rest: every child has them from the start.
import accelerate, scipy.stats, sklearn.metrics, torch, torch._dynamo, torch.distributed.tensor

for order in ORDERS:
    child = os.fork()
    if child == 0:
        assert not {"datamux", "transformers"} & sys.modules.keys()
        exec(order)
        from transformers import AutoConfig
        print(type(AutoConfig.for_model("datamux")).__name__, order, flush=True)
        os._exit(0)
    os.waitpid(child, 0)
"""


@pytest.mark.parametrize("orders", [ORDERS[:2], pytest.param(ORDERS[2:], marks=pytest.mark.slow)])
def test_auto_classes_know_us_whatever_is_imported_first(orders):
    """Each order in a process that has imported neither us nor transformers."""
    found = run("-c", f"ORDERS = {orders!r}{FORKED}").splitlines()
    assert found == [f"MuxConfig {order}" for order in orders]


def test_imports_go_one_way():
    done = subprocess.run(
        [str(Path(sys.executable).parent / "lint-imports"), "--no-cache"], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout

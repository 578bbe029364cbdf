"""The engines of this machine, and trained models on them. Exported models are kept, for the folder of the best."""

import shutil
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from datamux.errors import check_choice
from datamux.hub.loading import load_tokenizer
from datamux.inference.export import write_exported
from datamux.inference.exported import CARD, FILES, load_exported
from datamux.inference.loading import load_runtime
from datamux.inference.predictor import Predictor
from datamux.inference.runtime import Runtime, TorchRuntime, bf16_is_quick

NEEDS = {  # the modules of each engine, and the extra that brings them
    "torch": ((), ""),
    "bf16": ((), ""),
    "onnx": (("onnx", "onnxscript", "onnxruntime"), "onnx"),
    "int8": (("onnx", "onnxscript", "onnxruntime"), "onnx"),
    "openvino": (("onnx", "onnxscript", "openvino"), "openvino"),
}


def find_engines(wanted: Sequence[str], notes: list[str]) -> list[str]:
    """The engines to measure: those that are asked for, or all that are installed. A missing one becomes a note."""
    for name in wanted:
        check_choice("engine", name, NEEDS)
    found = []
    for name, (modules, extra) in NEEDS.items():
        if wanted and name not in wanted:
            continue
        missing = [module for module in modules if find_spec(module) is None]
        if missing:
            notes.append(f"the engine {name} was left out, it is not installed: pip install 'datamux[{extra}]'")
        elif name == "bf16" and not wanted and not bf16_is_quick():
            notes.append("half precision (bf16) was left out: this processor has no instructions for it")
        else:
            found.append(name)
    return found or ["torch"]


def on_engine(model: Path, engine: str, place: Path) -> Predictor:
    """The model in folder `model` on an engine. What is exported for it is kept below `place`."""
    runtime, config, tags = load_runtime(str(model), device="cpu", original=True)
    assert isinstance(runtime, TorchRuntime)
    chosen: Runtime = runtime
    if engine in ("torch", "bf16"):
        chosen = TorchRuntime(runtime.model, bf16=engine == "bf16")
    else:
        exported = load_exported(exported_folder(runtime, engine, place), config)
        assert exported is not None
        chosen = exported
    return Predictor(chosen, load_tokenizer(model), config, token_level=tags, tells_cuts=False)


def exported_folder(runtime: TorchRuntime, engine: str, place: Path) -> Path:
    """The folder of a model exported for `engine`; it is written if it is not there yet."""
    folder = place / engine
    if (folder / "done").exists():
        return folder
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    graph = None
    if engine != "onnx":
        graph = exported_folder(runtime, "onnx", place) / FILES["onnx"]
    to = "openvino" if engine == "openvino" else "onnx"
    write_exported(runtime, folder, to, int8=engine == "int8", graph=graph)
    (folder / "done").touch()
    return folder


def exported_files(folder: Path) -> list[Path]:
    """The files of an exported model, to be put beside its weights."""
    return [file for file in sorted(folder.iterdir()) if file.name == CARD or file.name.startswith("model.")]

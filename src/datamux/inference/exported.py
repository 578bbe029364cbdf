"""Models that were exported: ONNX Runtime and OpenVINO. Groups (b n l) in, logits out, at any group size."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from datamux.grouping import Grouping
from datamux.inference.memory import bytes_a_group
from datamux.inference.runtime import Batch

CARD = "export.json"  # lies beside the exported file and says what it is
FILES = {"onnx": "model.onnx", "openvino": "model.xml"}
INPUTS = ("input_ids", "attention_mask", "token_type_ids")
Run = Callable[[list[Any]], Any]


class ExportedRuntime:
    """Runs an exported file. Incomplete groups are filled with empty rows, which contribute nothing."""

    def __init__(self, run: Run, card: dict[str, Any], config: Any) -> None:
        self._run = run
        self.config = config
        self.num_instances: int = card["num_instances"]
        self.token_level: bool = card["token_level"]
        self.inputs: list[str] = card["inputs"]
        self.name: str = "int8" if card["int8"] else card["format"]
        self.device = torch.device("cpu")

    def logits(self, batch: Batch, group_size: int) -> Tensor:
        grouping = Grouping(len(batch["input_ids"]), group_size, self.num_instances)
        given = []
        for name in self.inputs:
            rows = batch.get(name, torch.zeros_like(batch["input_ids"]))
            given.append(grouping.group(rows).numpy())
        return grouping.ungroup(torch.from_numpy(np.asarray(self._run(given)))).float()

    def bytes_a_group(self, tokens: int, group_size: int) -> int:
        return bytes_a_group(self.config, tokens, group_size, token_level=self.token_level)


def is_exported(folder: Path) -> bool:
    return (folder / CARD).is_file()


def load_exported(folder: Path, config: Any) -> ExportedRuntime | None:
    """The exported model in `folder`, or None if there is none."""
    if not is_exported(folder):
        return None
    card = json.loads((folder / CARD).read_text())
    runners = {"onnx": run_onnx, "openvino": run_openvino}
    return ExportedRuntime(runners[card["format"]](folder / FILES[card["format"]], card["inputs"]), card, config)


def run_onnx(file: Path, inputs: list[str]) -> Run:
    try:
        import onnxruntime
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError("ONNX models need: pip install 'datamux[onnx]'") from error

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    session = onnxruntime.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])
    return lambda given: session.run(None, dict(zip(inputs, given, strict=True)))[0]


def run_openvino(file: Path, inputs: list[str]) -> Run:
    try:
        import openvino
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError("OpenVINO models need: pip install 'datamux[openvino]'") from error

    settings = {"INFERENCE_NUM_THREADS": torch.get_num_threads(), "INFERENCE_PRECISION_HINT": "f32"}
    model = openvino.Core().compile_model(str(file), "CPU", settings)
    return lambda given: model(dict(zip(inputs, given, strict=True)))[0]

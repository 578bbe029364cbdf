"""Models that were exported: ONNX Runtime and OpenVINO. Groups (b n l) in, logits out, at any group size."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from datamux.errors import import_extra
from datamux.grouping import Filler, Grouping
from datamux.inference.pass_memory import memory_of_exported
from datamux.inference.runtime import Batch, padded_to, unpadded

CARD = "export.json"  # stands beside the exported file and describes it
FILES = {"onnx": "model.onnx", "openvino": "model.xml"}
INPUTS = ("input_ids", "attention_mask", "token_type_ids")
Run = Callable[[list[Any]], Any]


class ExportedRuntime:
    """Runs an exported file. Unused slots hold what the model's configuration says; empty rows contribute nothing."""

    def __init__(self, run: Run, card: dict[str, Any], config: Any) -> None:
        self._run = run
        self.config = config
        self.num_instances: int = card["num_instances"]
        self.token_level: bool = card["token_level"]
        self.inputs: list[str] = card["inputs"]
        self.name: str = "int8" if card["int8"] else card["format"]
        self.filler: Filler = getattr(config, "filler", "nothing")
        self.padded_length: int = getattr(config, "padded_length", None) or 0
        self.device = torch.device("cpu")
        self._memory = memory_of_exported(config, token_level=self.token_level)

    @property
    def groups_are_independent(self) -> bool:
        """With 8 bits, activations are scaled by their largest value in the whole pass, so groups share a scale."""
        return self.name != "int8"

    @property
    def empty_slots_change_nothing(self) -> bool:
        return self.filler == "nothing" and not self._memory.has_prefix

    def logits(self, batch: Batch, group_size: int) -> Tensor:
        tokens = batch["input_ids"].shape[1]
        batch = padded_to(self.padded_length, batch)
        grouping = Grouping(len(batch["input_ids"]), group_size, self.num_instances, self.filler)
        given = []
        for name in self.inputs:
            rows = batch.get(name, torch.zeros_like(batch["input_ids"]))
            given.append(grouping.group(rows).numpy())
        logits = grouping.ungroup(torch.from_numpy(np.asarray(self._run(given)))).float()
        return unpadded(logits, tokens)

    def bytes_per_group(self, tokens: int, group_size: int) -> int:
        return self._memory.bytes_per_group(tokens, group_size)


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
    onnxruntime = import_extra("onnxruntime", "ONNX models need", "onnx")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    session = onnxruntime.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])
    return lambda given: session.run(None, dict(zip(inputs, given, strict=True)))[0]


def run_openvino(file: Path, inputs: list[str]) -> Run:
    openvino = import_extra("openvino", "OpenVINO models need", "openvino")
    settings = {"INFERENCE_NUM_THREADS": torch.get_num_threads(), "INFERENCE_PRECISION_HINT": "f32"}
    model = openvino.Core().compile_model(str(file), "CPU", settings)
    return lambda given: model(dict(zip(inputs, given, strict=True)))[0]

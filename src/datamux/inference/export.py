"""Writes a model as ONNX or OpenVINO, for any number of groups, group size and length.

The exported model must give the same answers as the original; otherwise nothing is written.
"""

import json
import math
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from datamux.errors import check_choice
from datamux.hub.loading import load_tokenizer, tags_tokens
from datamux.hub.models import MuxPreTrainedModel
from datamux.inference.exported import CARD, FILES, INPUTS, load_exported
from datamux.inference.loading import load_runtime
from datamux.inference.runtime import Runtime, TorchRuntime
from datamux.inference.texts import Texts, max_tokens_of

TOLERANCE = 1e-2  # logits in full precision may differ by this much
AGREEMENT = 0.95  # with 8-bit weights, at least this share of the answers must be equal
SAMPLES = (
    "A film that moves at its own pace and earns every minute of it.",
    "Dull.",
    "The second half forgets what the first half promised, and the ending helps nobody.",
    "I would see it again tomorrow",
    "Neither the songs nor the jokes work, which leaves a plot that was thin to begin with and grows thinner still.",
    "Warm, quick and funny!",
    "The bank of Lisbon said on Tuesday that it would lend the city of Porto two hundred million.",
    "Why was my card declined at the shop in Vienna?",
)
PAIRS = tuple(zip(SAMPLES, SAMPLES[::-1], strict=True))  # pairs, so that segments are compared too


@dataclass(frozen=True)
class Parity:
    """How an exported file compares with its original model, at one group size."""

    group_size: int
    rows: int
    largest_difference: float  # between two logits
    equal_answers: float


class Groups(nn.Module):
    """The module that is exported: groups (b n l) in, logits (b n c) or (b n l c) out."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def forward(self, input_ids: Tensor, attention_mask: Tensor, token_type_ids: Tensor | None = None) -> Tensor:
        extra = {} if token_type_ids is None else {"token_type_ids": token_type_ids}
        if isinstance(self.model, MuxPreTrainedModel):
            return self.model.mux.answer_groups(input_ids, attention_mask.bool(), **extra)
        flat = {name: x.flatten(0, 1) for name, x in extra.items()}
        plain = self.model(input_ids=input_ids.flatten(0, 1), attention_mask=attention_mask.flatten(0, 1), **flat)
        logits: Tensor = plain.logits
        return logits.view(*input_ids.shape[:2], *logits.shape[1:])


def export_model(
    name: str, folder: Path, to: str = "onnx", *, int8: bool = False, texts: Sequence[str] = ()
) -> list[Parity]:
    """Export the model `name` and its tokenizer into `folder`. Returns how it compares with the original.

    Both answer a few texts of ours, and `texts`. `int8` stores the weights in 8 bits (only for ONNX).
    """
    check_choice("format", to, FILES)
    if int8 and to != "onnx":
        raise ValueError("8-bit weights exist only for ONNX: use --to onnx --int8, or leave --int8 out")
    if folder.exists() and any(folder.iterdir()):
        raise ValueError(f"{folder} is not empty; choose another folder")
    runtime, config, token_level = load_runtime(name, device="cpu", original=True)
    if not isinstance(runtime, TorchRuntime):
        raise ValueError(f"{name} is exported already; give the model that it was exported from")
    tokenizer = load_tokenizer(name)
    sample = Texts(tokenizer, max_tokens_of(tokenizer, config), token_level=token_level)
    with tempfile.TemporaryDirectory() as place:
        made = Path(place)
        card = write_exported(runtime, made, to, int8=int8)
        exported = load_exported(made, config)
        assert exported is not None
        found = compare(runtime, exported, sample, config.problem_type, texts)
        _refuse(found, int8)
        (made / CARD).write_text(json.dumps(card | {"parity": [asdict(parity) for parity in found]}, indent=1))
        config.save_pretrained(made)
        tokenizer.save_pretrained(made)
        folder.mkdir(parents=True, exist_ok=True)
        shutil.copytree(made, folder, dirs_exist_ok=True)
    return found


def compare(
    eager: Runtime, exported: Runtime, texts: Texts, problem: str | None = None, more: Sequence[str] = ()
) -> list[Parity]:
    """Both answer the same texts at the smallest, a middle and the largest group size, in batches of several shapes."""
    n = eager.num_instances
    given: list[Any] = [*SAMPLES, *([] if texts.token_level else PAIRS)]
    given *= 3 * n // len(given) + 1  # at least three groups
    window = texts.window([*given, *more, *([SAMPLES[0]] * (1 - len([*given, *more]) % 2))])  # and one incomplete group
    found = []
    for k in sorted({1, max(1, n // 2), n}):
        rows = len(window.lengths)
        difference, equal, count = 0.0, 0.0, 0
        for start in range(0, rows, 4 * k):
            some = list(range(start, min(start + 4 * k, rows)))
            batch = window.rows.batch(some)
            token_mask = batch["attention_mask"].bool()
            one, other = eager.logits(batch, k), exported.logits(batch, k)
            if one.dim() == 3:
                one, other = one[token_mask], other[token_mask]
            apart = float((one - other).abs().max())
            difference = apart if math.isnan(apart) else max(difference, apart)
            equal += float(_same_answers(one, other, problem).sum())
            count += len(one)
        found.append(Parity(k, rows, difference, equal / count))
    return found


def _same_answers(one: Tensor, other: Tensor, problem: str | None) -> Tensor:
    """(i c) and (i c) -> which rows get the same answer. Numbers may differ by a hundredth of their spread."""
    if problem == "regression":
        return ((one - other).abs() <= 0.01 * one.std().clamp(min=1e-6)).all(-1)
    if problem == "multi_label_classification":
        return ((one > 0) == (other > 0)).all(-1)
    return one.argmax(-1) == other.argmax(-1)


def write_exported(
    runtime: TorchRuntime, folder: Path, to: str, *, int8: bool, graph: Path | None = None
) -> dict[str, Any]:
    """Write the exported file and its card, without comparing anything. Returns the card.

    `graph` is the ONNX file of the same model in full precision, if it was written before; this saves some seconds.
    """
    model, n = runtime.model.cpu(), runtime.num_instances
    if getattr(model.config, "base_model", "") or getattr(model.config, "low_rank", 0):
        raise ValueError(
            "this model runs one network at group size 1 and a different one at larger group sizes, but an exported "
            "file can hold only one: use the model as it is, or train one without model.frozen and model.low_rank"
        )
    encoder = getattr(model.config, "backbone_config", model.config)
    inputs = list(INPUTS if getattr(encoder, "type_vocab_size", 0) > 1 else INPUTS[:2])
    file = folder / FILES["onnx"]
    if graph is None:
        _write_onnx(model, n, inputs, file)
    else:
        shutil.copyfile(graph, file)
    if int8:
        _quantise(file)
    if to == "openvino":
        import openvino

        openvino.save_model(openvino.convert_model(str(file)), str(folder / FILES[to]), compress_to_fp16=False)
        file.unlink()
    card = {"format": to, "int8": int8, "num_instances": n, "token_level": tags_tokens(model), "inputs": inputs}
    (folder / CARD).write_text(json.dumps(card, indent=1))
    return card


def _write_onnx(model: Any, n: int, inputs: list[str], file: Path) -> None:
    shape = (3, min(n, 2), 8)
    example = {name: torch.ones(shape, dtype=torch.long) for name in inputs}
    dynamic = torch.export.Dim.DYNAMIC
    sizes = {0: dynamic, 2: dynamic} | ({1: dynamic} if n > 1 else {})
    torch.onnx.export(
        Groups(model).eval(),
        kwargs=example,
        f=str(file),
        input_names=inputs,
        output_names=["logits"],
        dynamic_shapes=dict.fromkeys(inputs, sizes),
        dynamo=True,
        external_data=False,
        verbose=False,
    )


def _quantise(file: Path) -> None:
    """Store the weights of matrices in 8 bits."""
    import onnx
    from onnxruntime.quantization import QuantType, quantize_dynamic

    full = file.rename(file.with_name("full.onnx"))
    graph = onnx.load(full)
    del graph.graph.value_info[:]  # where the exporter transposed a weight, its notes on shapes are wrong
    onnx.save(graph, full)
    # Word vectors stay in full precision: they cost no arithmetic, and everything is computed from them.
    # A processor without VNNI adds pairs of products in 16 bits, which overflow unless weights have only 7 bits.
    options = {"op_types_to_quantize": ["MatMul", "Gemm"], "per_channel": True, "reduce_range": True}
    quantize_dynamic(str(full), str(file), weight_type=QuantType.QInt8, **options)
    full.unlink()


def _refuse(found: list[Parity], int8: bool) -> None:
    for parity in found:
        close = parity.equal_answers >= AGREEMENT if int8 else parity.largest_difference <= TOLERANCE
        if not close:  # this also catches a difference that is not a number
            raise ValueError(
                f"the exported model disagrees with the original at group size {parity.group_size}: "
                f"logits differ by up to {parity.largest_difference:.3g}, "
                f"{parity.equal_answers:.1%} of the answers are equal; nothing was written"
            )

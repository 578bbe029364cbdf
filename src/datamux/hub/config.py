"""The configuration of a multiplexed model: the encoder's own, and the few words that are ours."""

from typing import Any, ClassVar, Literal

from huggingface_hub.dataclasses import strict
from transformers import AutoConfig, PreTrainedConfig
from transformers.configuration_utils import SubConfigSpec

from datamux.demultiplexers import DEMULTIPLEXERS
from datamux.errors import check_at_least_one, check_choice
from datamux.multiplexers import MULTIPLEXERS

POOLING: dict[str, Literal["pool", "first"]] = {"mean": "pool", "first": "first"}

OURS_ALONE = {"num_instances", "dim", "embedding_dim", "seed"}


@strict
class MuxConfig(PreTrainedConfig):
    """What a multiplexed model is built from.

    - `num_instances`: how many slots the model has; one checkpoint serves every group size from 1 to this.
    - `mux_layer`: mix after this many layers, which each instance then runs alone; 0 mixes word vectors.
    - `multiplexer`, `demultiplexer`: their names, see `datamux ls multiplexers` and `datamux ls demultiplexers`.
    - `multiplexer_options`, `demultiplexer_options`: keyword arguments of their classes. Without any for the
        multiplexer, its scale is "sqrt", which learned faster than the paper's "mean" in a short run (see
        docs/results.md).
    - `pooling`: what a sentence head reads: "mean" over each instance's own tokens, or "first", the paper's [CLS].
    - `head_context`: how many tokens on either side a tagging head sees; 0 is Hugging Face's, the token alone.
    - `head_dropout`: dropout in the head.
    - `bypass`: the head also sees each instance's own vectors as they were before mixing (see `datamux.bypass`).
    - `retrieval_head`: whether the model can also say which word stood where (the warm-up task and its auxiliary loss).
    - `seed`: gives the fixed keys.
    """

    model_type = "datamux"
    sub_configs_defaults: ClassVar[dict[str, SubConfigSpec]] = {
        "backbone_config": SubConfigSpec(config_class=AutoConfig, model_type="bert")
    }

    backbone_config: dict[str, Any] | PreTrainedConfig | None = None
    num_instances: int = 2
    mux_layer: int = 0
    multiplexer: str = "gaussian_hadamard"
    multiplexer_options: dict[str, Any] | None = None
    demultiplexer: str = "gate"
    demultiplexer_options: dict[str, Any] | None = None
    pooling: str = "mean"
    head_context: int = 0
    head_dropout: float | int = 0.1
    bypass: bool = False
    retrieval_head: bool = False
    seed: int = 0

    def __post_init__(self, **kwargs: Any) -> None:
        check_at_least_one("num_instances", self.num_instances)
        check_choice("multiplexer", self.multiplexer, MULTIPLEXERS)
        check_choice("demultiplexer", self.demultiplexer, DEMULTIPLEXERS)
        check_choice("pooling", self.pooling, POOLING)
        if self.multiplexer_options is None:
            self.multiplexer_options = {"scale": "sqrt"}
        for options in (self.multiplexer_options, self.demultiplexer_options):
            taken = OURS_ALONE & (options or {}).keys()
            if taken:
                raise ValueError(f"{', '.join(sorted(taken))} cannot be an option of a part: the configuration sets it")
        super().__post_init__(**kwargs)
        # transformers leaves label2id empty when only id2label is given.
        if self.id2label and not getattr(self, "label2id", None):
            self.label2id = {label: index for index, label in self.id2label.items()}

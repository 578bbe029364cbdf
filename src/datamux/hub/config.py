"""The configuration of a multiplexed model: the encoder's configuration and the few settings that are ours."""

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Literal

from huggingface_hub.dataclasses import strict
from transformers import AutoConfig, PreTrainedConfig
from transformers.configuration_utils import SubConfigSpec

from datamux.demultiplexers import DEMULTIPLEXERS, Demultiplexer, build_demultiplexer
from datamux.errors import check_at_least_one, check_choice
from datamux.multiplexers import MULTIPLEXERS, Multiplexer, build_multiplexer
from datamux.registry import takes

POOLING: dict[str, Literal["pool", "first"]] = {"mean": "pool", "first": "first"}

_SET_BY_CONFIG = {"num_instances", "dim", "embedding_dim", "seed"}


@strict
class MuxConfig(PreTrainedConfig):
    """What a multiplexed model is built from.

    - `num_instances`: how many slots the model has; one checkpoint serves every group size from 1 to this.
    - `mux_layer`: mix after this many layers, which each instance runs through by itself; 0 mixes word vectors.
    - `multiplexer`, `demultiplexer`: their names, see `datamux ls multiplexers` and `datamux ls demultiplexers`.
    - `multiplexer_options`, `demultiplexer_options`: keyword arguments of their classes. Without any for the
        multiplexer, its scale is "sqrt", which learned faster than the paper's "mean" in a short run (see
        docs/results.md).
    - `pooling`: what a sentence head reads: "mean" over each instance's own tokens, or "first", the paper's [CLS].
    - `head_context`: how many tokens on either side a tagging head sees; with 0 it sees only the token.
    - `head_dropout`: dropout in the head.
    - `retrieval_head`: whether the model can also say which word is where (for the warm-up and the auxiliary loss).
    - `low_rank`: the rank of updates of the encoder's matrices that act only on mixtures of several instances.
    - `base_model`, `base_config`: the name or folder, and the configuration, of a plain classifier that stays as it is
        (`multiplex(..., frozen=True)` sets both); it is not saved with the model, and answers at group size 1.
    - `base_hash`: of the weights of that classifier, so that a change is noticed when the model is loaded.
    - `seed`: the keys are drawn with it.
    """

    model_type = "datamux"
    sub_configs_defaults: ClassVar[dict[str, SubConfigSpec]] = {
        "backbone_config": SubConfigSpec(config_class=AutoConfig, model_type="bert")
    }

    multiplexers: ClassVar[Mapping[str, Callable[..., Multiplexer]]] = MULTIPLEXERS
    demultiplexers: ClassVar[Mapping[str, Callable[..., Demultiplexer]]] = DEMULTIPLEXERS

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
    retrieval_head: bool = False
    low_rank: int = 0
    base_model: str = ""
    base_config: dict[str, Any] | None = None
    base_hash: str = ""
    seed: int = 0

    def __post_init__(self, **kwargs: Any) -> None:
        if kwargs.pop("bypass", False):
            raise ValueError(
                "this model was trained with bypass=true, which datamux no longer has; train it again without bypass"
            )
        check_at_least_one("num_instances", self.num_instances)
        if self.low_rank < 0:
            raise ValueError(f"low_rank must be 0 (no updates) or a rank of at least 1, got {self.low_rank}")
        if bool(self.base_model) != (self.base_config is not None):
            raise ValueError("base_model needs base_config: make such a model with multiplex(..., frozen=True)")
        check_choice("multiplexer", self.multiplexer, self.multiplexers)
        check_choice("demultiplexer", self.demultiplexer, self.demultiplexers)
        check_choice("pooling", self.pooling, POOLING)
        if self.multiplexer_options is None:
            self.multiplexer_options = {"scale": "sqrt"} if takes(self.multiplexers[self.multiplexer], "scale") else {}
        for options in (self.multiplexer_options, self.demultiplexer_options):
            taken = _SET_BY_CONFIG & (options or {}).keys()
            if taken:
                raise ValueError(f"{', '.join(sorted(taken))} cannot be an option of a part: the configuration sets it")
        super().__post_init__(**kwargs)
        # transformers leaves label2id empty when only id2label is given.
        if self.id2label and not getattr(self, "label2id", None):
            self.label2id = {label: index for index, label in self.id2label.items()}

    def build_multiplexer(self, dim: int) -> Multiplexer:
        """The multiplexer of this configuration, for vectors of this width, with new weights."""
        options = self.multiplexer_options or {}
        return build_multiplexer(self.multiplexer, self.num_instances, dim, seed=self.seed, **options)

    def build_demultiplexer(self, dim: int, embedding_dim: int | None = None) -> Demultiplexer:
        """The demultiplexer of this configuration, for an encoder of this width, with new weights."""
        return build_demultiplexer(
            self.demultiplexer,
            self.num_instances,
            dim,
            embedding_dim=embedding_dim,
            seed=self.seed,
            **(self.demultiplexer_options or {}),
        )

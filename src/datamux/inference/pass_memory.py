"""About how much memory one group takes while it runs, computed from the parts of a model.

First the encoder runs, then the demultiplexer takes its output apart; the larger of the two counts. A number takes
four bytes.
"""

from typing import Any

import torch

from datamux.demultiplexers import Demultiplexer
from datamux.hub.config import POOLING
from datamux.reads import Reads

NEIGHBOURS = 10  # measured: a tagging head that looks at neighbours holds this many times (n l d) numbers


class PassMemory:
    """The estimate for one model. Without a demultiplexer it is a plain model, which runs one instance per group."""

    def __init__(self, config: Any, demultiplexer: Demultiplexer | None = None, reads: Reads = "pool") -> None:
        self.encoder = getattr(config, "backbone_config", config)
        self.has_lower_layers = getattr(config, "mux_layer", 0) > 0  # which run each instance by itself
        self.head_context = getattr(config, "head_context", 0)
        self.padded_length = getattr(config, "padded_length", None) or 0  # rows are at least this long
        self.always_full = getattr(config, "filler", "nothing") == "repeat"
        self.num_instances = getattr(config, "num_instances", 1)
        self.vectors_held = getattr(config, "vectors_held", 1)  # copies of all instances' vectors
        self.demultiplexer = demultiplexer
        self.reads = reads

    @property
    def has_prefix(self) -> bool:
        """Whether there are more positions than tokens; how many more depends on the number of slots."""
        return self.demultiplexer is not None and self.demultiplexer.prefix_length(1) > 0

    def bytes_per_group(self, tokens: int, group_size: int) -> int:
        """For a group of `group_size` instances, the longest of which has `tokens` tokens."""
        tokens = max(tokens, self.padded_length)
        group_size = self.num_instances if self.always_full else group_size
        return 4 * max(self._encoded(tokens, group_size), self._taken_apart(tokens, group_size))

    def _encoded(self, tokens: int, group_size: int) -> int:
        """Word vectors of all instances, the widest layer with its inputs, and attention."""
        hidden, heads = self.encoder.hidden_size, self.encoder.num_attention_heads
        wide = getattr(self.encoder, "intermediate_size", None) or 4 * hidden
        positions = tokens + (self.demultiplexer.prefix_length(group_size) if self.demultiplexer else 0)
        sequences = group_size if self.has_lower_layers else 1
        inputs = self.vectors_held * group_size * hidden
        return int(positions * (inputs + sequences * (2 * wide + 6 * hidden + heads * positions)))

    def _taken_apart(self, tokens: int, group_size: int) -> int:
        """What the demultiplexer holds, or what the head holds if that is more."""
        if self.demultiplexer is None:
            return 0
        held = self.demultiplexer.activation_size(group_size, tokens, self.reads)
        if self.reads == "all" and self.head_context:
            held = max(held, tokens * group_size * NEIGHBOURS * self.demultiplexer.out_dim)
        return held


def memory_of_exported(config: Any, *, token_level: bool) -> PassMemory:
    """The estimate for an exported model. Its demultiplexer is built again from the configuration, without weights."""
    if not hasattr(config, "demultiplexer"):
        return PassMemory(config)
    with torch.device("meta"):
        demultiplexer = config.build_demultiplexer(config.backbone_config.hidden_size).to("meta")
    return PassMemory(config, demultiplexer, "all" if token_level else POOLING[config.pooling])

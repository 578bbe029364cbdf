"""About how much memory one group takes while it runs. Arithmetic on a configuration: knows no model.

An encoder runs, then its output is taken apart; the larger of the two counts. Four bytes a number.
"""

from typing import Any

NEIGHBOURS = 10  # times (n l d): what a tagging head that looks at neighbours was seen to hold
A_SLOT = ("key", "index", "mlp")  # demultiplexers whose activations differ from slot to slot at every token


def bytes_a_group(config: Any, tokens: int, group_size: int, *, token_level: bool) -> int:
    """For a group of that many instances, the longest of `tokens` tokens."""
    taken_apart = _taken_apart(config, tokens, group_size, token_level) if hasattr(config, "demultiplexer") else 0
    return int(4 * max(_encoded(config, tokens, group_size), taken_apart))


def _encoded(config: Any, tokens: int, group_size: int) -> int:
    """Word vectors of all instances, the widest layer with its inputs, and attention.

    Layers below `mux_layer` run every instance by itself; `index` lengthens the sequence.
    """
    encoder = getattr(config, "backbone_config", config)
    hidden, heads = encoder.hidden_size, encoder.num_attention_heads
    wide = getattr(encoder, "intermediate_size", None) or 4 * hidden
    positions = tokens + (group_size if getattr(config, "demultiplexer", None) == "index" else 0)
    alone = group_size if getattr(config, "mux_layer", 0) else 1
    return int(positions * (group_size * hidden + alone * (2 * wide + 6 * hidden + heads * positions)))


def _taken_apart(config: Any, tokens: int, group_size: int, token_level: bool) -> int:
    """Activations (n r e) before and after their nonlinearity, and what is made of them (n r d), twice."""
    hidden = config.backbone_config.hidden_size
    usual = hidden if config.demultiplexer == "mlp" else 2 * hidden
    wide = (config.demultiplexer_options or {}).get("hidden_dim") or usual
    everywhere = token_level or (config.pooling == "mean" and config.demultiplexer in A_SLOT)
    a_position = 2 * (wide + hidden) + (hidden if config.bypass else 0)
    if token_level and config.head_context:
        a_position = max(a_position, NEIGHBOURS * hidden)
    return int((tokens if everywhere else 1) * group_size * a_position)

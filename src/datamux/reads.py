"""Which positions a head may ask a demultiplexer for. Heads and demultiplexers both use this type, and nothing else."""

from typing import Literal

Reads = Literal["first", "all", "pool"]
"""Position 0; every position; or one vector pooled over the instance's own tokens."""

"""Which positions a head may ask a demultiplexer for. This type is all that heads and demultiplexers share."""

from typing import Literal

Reads = Literal["first", "all", "pool"]
"""Position 0; every position; or one vector pooled over the instance's own tokens."""

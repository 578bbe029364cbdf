"""What a head may ask of a demultiplexer. The one word that both sides of it know."""

from typing import Literal

Reads = Literal["first", "all", "pool"]
"""Position 0; every position; or one vector pooled over the instance's own tokens."""

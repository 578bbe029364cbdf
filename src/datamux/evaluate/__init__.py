"""How good and how fast models are: scores at every group size, speed, memory, and what one costs the other."""

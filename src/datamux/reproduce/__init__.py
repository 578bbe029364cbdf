"""The paper's MNIST figures: what is in each, how to run it, what came out, and what the paper says."""

"""The paper's image experiments: where digits come from, the networks, and how they are trained and scored."""

"""Training: recipes, curriculum, objectives, the two stages; and the paper's small image network."""

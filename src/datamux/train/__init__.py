"""Training models for texts: recipes, the curriculum of group sizes, objectives, and the stages."""

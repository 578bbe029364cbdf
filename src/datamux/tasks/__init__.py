"""Data, labels and metric of each task: those of the paper by name, and any file of the user's own."""

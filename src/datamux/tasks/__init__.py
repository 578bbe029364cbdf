"""The data and labels of each task: the paper's tasks by name, and any file of the user's own."""

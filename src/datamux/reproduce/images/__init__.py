"""The paper's image experiments, all of them: what is trained, how it is measured, and how it is drawn."""

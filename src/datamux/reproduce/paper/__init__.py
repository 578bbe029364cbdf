"""The paper, figure by figure and claim by claim, from records only. Nothing here trains or measures a model."""

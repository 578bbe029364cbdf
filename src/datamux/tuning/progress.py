"""How a search says how long something takes, and how much of its whole budget is left."""


def in_words(seconds: float) -> str:
    return f"{seconds:.0f} seconds" if seconds < 100 else f"{seconds / 60:.0f} minutes"


def of_budget(budget: float, spent: float) -> str:
    """The end of a line of progress: how much of the whole budget is left."""
    left = budget - spent
    return f"{in_words(left)} of the budget left" if left > 0 else "the budget is used up"

"""Small trained models that ship in the package, one folder each: weights, tokenizer, and a card with its measurements.

`datamux.load("sentiment")` finds them by name. How they were made: `experiments/zoo.sh`.
"""

import json
from pathlib import Path
from typing import Any

HOME = Path(__file__).parent


def shipped_models() -> dict[str, dict[str, Any]]:
    """Name -> card."""
    return {card.parent.name: json.loads(card.read_text()) for card in sorted(HOME.glob("*/card.json"))}


def find_model(name: str | Path) -> str:
    """The folder of a shipped model; any other name as it is. A folder of that name in the working directory wins."""
    shipped = HOME / str(name)
    if not Path(name).is_dir() and "/" not in str(name) and (shipped / "card.json").exists():
        return str(shipped)
    return str(name)

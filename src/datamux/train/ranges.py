"""The lowest and the highest value that each number in a recipe may have."""

from typing import Any

ANY = float("inf")  # no highest value
_STAGE: dict[str, tuple[float, float]] = {
    "steps": (0, ANY),
    "groups": (1, ANY),
    "candidates": (1, ANY),
    "positions": (1, ANY),
    "learning_rate": (0, 1),
    "growth": (1, ANY),
    "consistency": (0, ANY),
    "threshold": (0, 100),
    "elastic": (0, 1),
}
_WARMUP = (
    _STAGE
    | {"max_words": (1, ANY), "tokens": (1, ANY), "mask_rate": (0, 0.9), "retrieval": (0, ANY)}
    | {"match_words": (0, ANY), "match_sentences": (0, ANY)}
)
RANGES: dict[str, dict[str, tuple[float, float]]] = {
    "model": {
        "layers": (0, ANY),  # 0: a model of word vectors only
        "hidden": (1, ANY),
        "heads": (1, ANY),
        "dropout": (0, 0.9),
        "vocab_size": (6, ANY),  # five of them are special
        "keep_layers": (0, ANY),
        "max_tokens": (3, ANY),  # one word between the first and the last token, which are special
        "num_instances": (1, ANY),
        "mux_layer": (0, ANY),
        "low_rank": (0, ANY),
        "head_context": (0, ANY),
    },
    "warmup": _WARMUP,
    "pretrain": _WARMUP,
    "task": _STAGE
    | {
        "plain_steps": (0, ANY),
        "plain_learning_rate": (0, 1),
        "min_rows": (0, ANY),
        "alpha": (0, 1),
        "distill_logits": (0, 1),
        "distill_states": (0, ANY),
        "repetition": (0, 1),
        "temperature": (0.01, ANY),
        "balance": (0, 1),
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
    """Raise unless every number in a section of a recipe is in its range."""
    for key, (low, high) in RANGES[section].items():
        value = getattr(settings, key)
        if not low <= value <= high:
            allowed = f"at least {low:g}" if high == ANY else f"{low:g} to {high:g}"
            raise ValueError(f"{section}.{key} must be {allowed}, got {value!r}")

"""Words alone: one vector per word, started from the encoder's own table, hashed word pairs, and a small head.

It must reach TF-IDF with logistic regression, which sees the same words and pairs.
"""

from typing import Any

from datamux.hub.words import WordsConfig
from datamux.tuning.contender import PLAIN, PLAIN_MODEL, Contender
from datamux.tuning.subject import Subject

WIDTH = 128
# Two classes with many rows overfit at a rate that many classes with few rows need, so both take part.
RATES = {"words and word pairs": 3e-3, "words and word pairs, learned fast": 1e-2}


def contenders(subject: Subject) -> list[Contender]:
    width = min(WIDTH, subject.encoder.hidden)
    model = PLAIN_MODEL | {
        "architecture": WordsConfig.model_type,
        "layers": 0,
        "hidden": width,
        "heads": 1,
        "dropout": 0.3,
        **vectors_of(subject),
    }
    model |= {"head_context": 2} if subject.tags else {}
    task = PLAIN | {"groups": 128, "min_rows": 128, "distill_logits": 0.5}
    return [
        Contender(name, "words", model, task | {"learning_rate": rate}, epochs=40.0) for name, rate in RATES.items()
    ]


def vectors_of(subject: Subject) -> dict[str, Any]:
    """The tokenizer of the reference, and word vectors from the encoder that the user named."""
    return {"tokenizer": subject.reference, "word_vectors": subject.encoder.name}

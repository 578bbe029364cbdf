"""A small new encoder, whose word vectors start from the encoder's own."""

from datamux.tuning.contender import PLAIN, PLAIN_MODEL, Contender
from datamux.tuning.families.words import vectors_of
from datamux.tuning.subject import Subject

SHAPES = ((1, 64, 2), (2, 128, 2))  # layers, width, heads


def contenders(subject: Subject) -> list[Contender]:
    return [_narrow(subject, *shape) for shape in SHAPES if shape[1] <= subject.encoder.hidden]


def _narrow(subject: Subject, layers: int, hidden: int, heads: int) -> Contender:
    model = PLAIN_MODEL | {"layers": layers, "hidden": hidden, "heads": heads, **vectors_of(subject)}
    model |= {"head_context": 2} if subject.tags else {}
    name = f"small: {layers} layer{'s' if layers > 1 else ''} of {hidden}"
    return Contender(name, "narrow", model, PLAIN | {"learning_rate": 1e-3}, epochs=24.0)

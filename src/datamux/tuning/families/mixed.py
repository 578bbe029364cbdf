"""The whole encoder, multiplexed: texts run through its first layers by themselves, and are mixed after them."""

from datamux.tuning.contender import MIXED, MIXED_MODEL, Contender, LeftOut
from datamux.tuning.subject import Subject

SIZES = (2, 5, 10)


def contenders(subject: Subject) -> list[Contender]:
    encoder = subject.encoder
    if not encoder.name:
        return [mixed_after(subject, 0)]  # a small encoder learns to run mixed words
    if not encoder.can_be_mixed_deep:
        raise LeftOut(
            f"datamux does not know where the layers of {encoder.model_type} are, so it cannot mix after some"
        )
    depths = sorted({encoder.layers // 3, encoder.layers // 2} - {0})
    if not depths:
        raise LeftOut(f"the encoder has {encoder.layers} layer, and mixing its words makes it forget what it knows")
    return [mixed_after(subject, depth) for depth in depths]


def mixed_after(subject: Subject, depth: int, keep_layers: int = 0) -> Contender:
    """`keep_layers` also cuts the encoder, if it is not 0."""
    layers = keep_layers or subject.encoder.layers
    model = MIXED_MODEL | {"start": subject.reference, "mux_layer": depth, "keep_layers": keep_layers}
    model |= {"head_context": 2} if subject.tags else {}
    states = {"distill_states": 1.0} if subject.reference_is_ours else {}
    start = f"{layers} of {subject.encoder.layers} layers" if keep_layers else f"{layers} layers"
    family = "cut and mixed" if keep_layers else "mixed"
    task = MIXED | states | {"learning_rate": subject.encoder.learning_rate}
    return Contender(f"{start}, mixed after {depth}", family, model, task, SIZES, epochs=24.0)

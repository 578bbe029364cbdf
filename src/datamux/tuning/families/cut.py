"""The first layers of the fine-tuned encoder, with a new training that learns from all of them."""

from datamux.tuning.contender import PLAIN, PLAIN_MODEL, Contender, LeftOut
from datamux.tuning.subject import Subject


def contenders(subject: Subject) -> list[Contender]:
    layers = subject.encoder.layers
    if not subject.encoder.can_be_cut:
        raise LeftOut(f"the encoder has {layers} layer, so there is nothing to cut")
    depths = sorted({1, 2, layers // 3, layers // 2, 2 * layers // 3} - {0, layers})
    return [cut_to(subject, depth) for depth in depths if depth < layers]


def cut_to(subject: Subject, depth: int) -> Contender:
    states = {"distill_states": 1.0} if subject.reference_is_ours else {}
    model = PLAIN_MODEL | {"start": subject.reference, "keep_layers": depth}
    model |= {"head_context": 2} if subject.tags else {}
    name = f"{depth} layer{'s' if depth > 1 else ''} of {subject.encoder.layers}"
    return Contender(name, "cut", model, PLAIN | states | {"learning_rate": subject.encoder.learning_rate})

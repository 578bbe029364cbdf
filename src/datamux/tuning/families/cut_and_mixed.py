"""The first layers of the encoder, multiplexed after some of them."""

from datamux.tuning.contender import Contender, LeftOut
from datamux.tuning.families.mixed import mixed_after
from datamux.tuning.subject import Subject


def contenders(subject: Subject) -> list[Contender]:
    encoder = subject.encoder
    if not encoder.can_be_mixed_deep:
        raise LeftOut(
            f"datamux does not know where the layers of {encoder.model_type} are, so it cannot mix after some"
        )
    if encoder.layers < 4:
        raise LeftOut(f"the encoder has {encoder.layers} layers: too few to cut some and mix after others")
    keep = encoder.layers // 2
    return [mixed_after(subject, max(1, keep // 2), keep)]

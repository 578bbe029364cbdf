"""The paper's interference figure: 10 texts, each among 30 sets of neighbours, after PCA and t-SNE.

Beside the picture stand three numbers: how far the 30 representations of one text spread against the distance between
texts, how often the nearest representation is of the same text, and the cosine between the means of different texts,
seen from the mean of many other texts. (Seen from their own mean, ten points have a cosine of -1/9 whatever they are.)
"""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from datamux.audit.subject import load_subject, random_groups
from datamux.evaluate.records import make_record
from datamux.reproduce.experiment import Experiment

TEXTS, GROUPS, COMPONENTS = 10, 30, 200
OTHERS = 300  # texts whose mean is the centre
RATIO = "spread of one text, percent of the distance between texts"
NEAREST = "nearest neighbour is the same text, percent"
COSINE = "cosine between texts"


def anchors_record(experiment: Experiment, settings: Mapping[str, Any], data_dir: str | None) -> dict[str, Any]:
    """Represent the anchors of a model's task among different neighbours."""
    subject = load_subject(settings["model"], settings["data"], data_dir=data_dir, max_rows=1000)
    k = int(settings["size"])
    generator = torch.Generator().manual_seed(0)
    order = torch.randperm(len(subject.rows), generator=generator)

    def represented(texts: Tensor) -> Tensor:
        slots = torch.zeros(len(texts), dtype=torch.long)  # the published report has anchors in the first slot, too
        groups = random_groups(len(subject.rows), k, texts, slots, generator)
        return subject.represent(groups)[0][:, 0]

    states = represented(order[:TEXTS].repeat_interleave(GROUPS)).view(TEXTS, GROUPS, -1)
    centre = represented(order[TEXTS : TEXTS + OTHERS]).mean(0)
    series = experiment.name
    rows = [
        {"series": series, "n": k, "metric": metric, "value": value, "spread": 0.0, "seeds": 1, "paper": None}
        for metric, value in separation(states, centre).items()
    ]
    places = flattened(states.flatten(0, 1)).view(TEXTS, GROUPS, 2)
    about = {"task": settings["data"], "group_size": k, "texts": TEXTS, "groups": GROUPS, "others": OTHERS}
    return make_record("anchors", recipe=None, results=places.tolist(), rows=rows, settings=about)


def separation(states: Tensor, centre: Tensor) -> dict[str, float]:
    """From representations (texts, groups, d), and the mean (d) of other texts."""
    means = states.mean(1)
    within = (states - means[:, None]).norm(dim=-1).mean()
    apart = torch.pdist(means).mean()
    flat = states.flatten(0, 1)
    distances = torch.cdist(flat, flat).fill_diagonal_(float("inf"))
    text = torch.arange(len(states)).repeat_interleave(states.shape[1])
    same = (text[distances.argmin(1)] == text).float().mean()
    unit = torch.nn.functional.normalize(means - centre, dim=-1)
    others = (unit @ unit.T)[~torch.eye(len(unit), dtype=torch.bool)]
    return {RATIO: float(100 * within / apart), NEAREST: float(100 * same), COSINE: float(others.mean())}


def flattened(states: Tensor) -> Tensor:
    """(i d) -> (i 2): PCA to at most 200 components, then t-SNE, as in the paper."""
    from sklearn.decomposition import PCA
    from sklearn.manifold import TSNE

    components = min(COMPONENTS, *states.shape)
    reduced = PCA(components, random_state=0).fit_transform(states.numpy())
    return torch.from_numpy(TSNE(2, random_state=0, perplexity=20.0).fit_transform(reduced))

"""How much of the images' variance lies in their leading principal components.

    C = (X - m)^T (X - m),   share = sum of its 50 largest eigenvalues / sum of all

Paper: appendix on the MNIST models; 86.54%, and so 400 / 50 = 8 images should fit into the place of one. The published
code takes for m the mean of each image (i 1). Principal components are about the mean of each pixel (1 d).
"""

from typing import Any

import torch
from torch import Tensor

from datamux.evaluate.records import make_record
from datamux.reproduce.paper import stated_value
from datamux.tasks.images import Images

COMPONENTS = 50


def variance_shares(images: Tensor, *, published: bool) -> Tensor:
    """(i d) -> (d): the share of variance in the first 1, 2, ... components."""
    x = images.double()
    x = x - x.mean(1 if published else 0, keepdim=True)
    values = torch.linalg.eigvalsh(x.T @ x).flip(0)
    shares: Tensor = values.cumsum(0) / values.sum()
    return shares


def pca_record(data: Images) -> dict[str, Any]:
    pixels = data.train_images.shape[1]
    n = pixels // COMPONENTS
    results = {
        name: variance_shares(data.train_images, published=name == "as_published").tolist()
        for name in ("as_published", "centred")
    }
    about = {"figure": "mnist-pca", "data": data.about()}
    rows = [
        {
            "series": name,
            "n": n,
            "metric": f"variance in the top {COMPONENTS} of {pixels} components, %",
            "value": 100 * shares[COMPONENTS - 1],
            "spread": 0.0,
            "seeds": 1,
            "paper": stated_value(about, name, n),
        }
        for name, shares in results.items()
    ]
    return make_record("pca", recipe=None, **about, rows=rows, results=results)

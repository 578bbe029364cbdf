"""A linear probe: what can be read from vectors by least squares, as a curious reader would try first."""

import torch
from torch import Tensor

STRENGTHS = (1.0, 10.0, 100.0, 1000.0)  # of the ridge; the best on a part of the training vectors is taken


def probe_scores(train: Tensor, targets: Tensor, test: Tensor) -> Tensor:
    """Least-squares scores (t c) for `test` (t d), learned from `train` (i d) and one-hot or 0/1 `targets` (i c)."""
    mean, spread = train.mean(0), train.std(0).clamp(min=1e-6)
    x, y = (train - mean) / spread, (test - mean) / spread
    cut = max(1, len(x) * 4 // 5)
    errors = [float(((Ridge(x[:cut], targets[:cut], s)(x[cut:]) - targets[cut:]) ** 2).sum()) for s in STRENGTHS]
    return Ridge(x, targets, STRENGTHS[errors.index(min(errors))])(y)


class Ridge:
    """Least squares with a penalty on the weights."""

    def __init__(self, x: Tensor, targets: Tensor, strength: float) -> None:
        x64, self.middle = x.double(), targets.double().mean(0)
        gram = x64.T @ x64 + strength * torch.eye(x.shape[1], dtype=torch.float64)
        self.weights = torch.linalg.solve(gram, x64.T @ (targets.double() - self.middle))

    def __call__(self, x: Tensor) -> Tensor:
        scores: Tensor = x.double() @ self.weights + self.middle
        return scores.float()


def area_under_curve(scores: Tensor, truth: Tensor) -> float | None:
    """How often a positive example gets a higher score than a negative one; 0.5 is guessing."""
    positive = truth.bool()
    many, few = int(positive.sum()), int((~positive).sum())
    if not many or not few:
        return None
    ranks = scores.argsort().argsort().double() + 1
    return float((ranks[positive].sum() - many * (many + 1) / 2) / (many * few))

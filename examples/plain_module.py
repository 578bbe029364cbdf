"""Multiplex any nn.Module, without Hugging Face: what does it cost to answer 1, 2 or 4 inputs per pass?"""

import torch
from torch import nn

import datamux
from datamux.heads import SequenceHead

DIM, CLASSES = 64, 5
torch.manual_seed(0)
centres = torch.randn(CLASSES, DIM)


def noisy_points(rows: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Noisy points around five centres; the label is the centre."""
    labels = torch.randint(CLASSES, (rows,))
    return centres[labels] + torch.randn(rows, DIM), labels


for n in (1, 2, 4):
    model = datamux.Multiplexed(
        backbone=nn.Sequential(nn.Linear(DIM, DIM), nn.ReLU(), nn.Linear(DIM, DIM)),
        multiplexer=datamux.build_multiplexer("ortho", num_instances=n, dim=DIM, scale="sqrt"),
        demultiplexer=datamux.build_demultiplexer("gate", num_instances=n, dim=DIM),
        head=SequenceHead(DIM, CLASSES),
    )
    optimiser = torch.optim.AdamW(model.parameters(), lr=2e-3)
    for _ in range(300):
        x, labels = noisy_points(64 * n)
        nn.functional.cross_entropy(model(x), labels).backward()
        optimiser.step()
        optimiser.zero_grad()
    x, labels = noisy_points(2000)
    right = (model.eval()(x).argmax(-1) == labels).float().mean()
    print(f"{n} per pass: {len(x) // n} passes for {len(x)} inputs, {right:.1%} right")

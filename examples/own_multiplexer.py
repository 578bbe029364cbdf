"""Write your own multiplexer, register it under a name, and see why every slot needs a key of its own."""

import torch
from torch import Tensor, nn

import datamux
from datamux.heads import SequenceHead


class Shift(datamux.Multiplexer):
    """Each slot shifts the dimensions of its input by its own number of places."""

    def mix(self, x: Tensor, mask: Tensor | None) -> Tensor:
        return torch.stack([x[:, i].roll(-i, dims=-1) for i in range(x.shape[1])]).sum(0)  # b n ... d -> b ... d


datamux.MULTIPLEXERS["shift"] = Shift
N, DIM, CLASSES = 3, 48, 4
torch.manual_seed(0)
centres = torch.randn(CLASSES, DIM)
for name in ("identity", "shift"):
    model = datamux.Multiplexed(
        backbone=nn.Sequential(nn.Linear(DIM, DIM), nn.ReLU(), nn.Linear(DIM, DIM)),
        multiplexer=datamux.build_multiplexer(name, num_instances=N, dim=DIM, scale="sqrt"),
        demultiplexer=datamux.build_demultiplexer("gate", num_instances=N, dim=DIM),
        head=SequenceHead(DIM, CLASSES),
    )
    optimiser = torch.optim.AdamW(model.parameters(), lr=3e-3)
    for _ in range(300):
        labels = torch.randint(CLASSES, (64 * N,))
        nn.functional.cross_entropy(model(centres[labels]), labels).backward()
        optimiser.step()
        optimiser.zero_grad()
    labels = torch.randint(CLASSES, (999,))
    right = (model.eval()(centres[labels]).argmax(-1) == labels).float().mean()
    print(f"{name}: {N} inputs per pass, {right:.0%} right")

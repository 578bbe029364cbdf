"""Who answers a file job: how many workers, and what each of them may use."""

import logging
from dataclasses import dataclass
from typing import Any

from datamux.cluster.ray_session import starts_own
from datamux.errors import check_at_least_one
from datamux.inference.runtime import MEMORY

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Workers:
    """`concurrency` is their number; by default as many as the cluster's cores allow, or its GPUs if it has any."""

    concurrency: int | None = None
    num_cpus: float = 1
    address: str | None = None
    device: str | None = None
    memory: int = MEMORY  # bytes that one pass may take

    def __post_init__(self) -> None:
        if self.concurrency is not None:
            check_at_least_one("--concurrency", self.concurrency)
        if not self.num_cpus > 0:
            raise ValueError(f"--num-cpus must be more than 0, got {self.num_cpus:g}")

    @property
    def threads(self) -> int:
        return max(1, int(self.num_cpus))

    @property
    def own_device(self) -> str | None:
        """The device as a worker sees it: Ray shows it only the GPU that it has reserved, whose number is then 0."""
        return "cuda" if str(self.device).startswith("cuda") else self.device

    def num_gpus(self, ray: Any) -> int:
        """One GPU per worker if the cluster has any: otherwise all workers of a machine would load onto its first."""
        if self.device is None:
            return int(ray.cluster_resources().get("GPU", 0) >= 1)
        return int(self.own_device == "cuda")

    def number(self, ray: Any) -> int:
        """How many workers there are."""
        if self.concurrency is not None:
            return self.concurrency
        found = ray.cluster_resources()
        if self.num_gpus(ray):
            return max(1, int(found.get("GPU", 1)))
        return max(1, int(found.get("CPU", 1) // self.num_cpus))

    def check_fit(self, ray: Any) -> None:
        """Raise, or warn where another machine may join, if no machine has what one worker needs: Ray would wait."""
        wanted = {"CPU": self.num_cpus, "GPU": self.num_gpus(ray)}
        machines = [node["Resources"] for node in ray.nodes() if node["Alive"]]
        if any(all(has.get(name, 0) >= count for name, count in wanted.items()) for has in machines):
            return
        known = "; ".join(f"{has.get('CPU', 0):g} cores and {has.get('GPU', 0):g} GPUs" for has in machines)
        problem = (
            f"a worker needs {wanted['CPU']:g} cores and {wanted['GPU']} GPUs, and no machine has them ({known}); "
            "choose another --num-cpus or --device"
        )
        if starts_own(self.address):
            raise ValueError(problem)
        logger.warning("%s, or add such a machine: until then the job waits", problem)

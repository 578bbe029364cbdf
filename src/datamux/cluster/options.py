"""What an operator may choose about replicas, besides the options of every server. Needs no Ray."""

from dataclasses import dataclass

from datamux.errors import check_at_least_one
from datamux.serve.settings import Settings, flag, option

APPLICATION = "datamux"


@dataclass(frozen=True)
class Replicas:
    """How many copies of the model there are, and what each of them may use."""

    min_replicas: int = option(1, "With --engine ray: copies of the model that always run.")
    max_replicas: int | None = option(
        None, "With --engine ray: the most copies of the model. Default: as many as --min-replicas."
    )
    num_cpus: float = option(1.0, "With --engine ray: cores, and threads, of one copy.")
    target_requests: int | None = option(
        None,
        "With --engine ray: start another copy when each has more unanswered requests than this on average, or when "
        "more texts wait than half of --max-tenant-queue. Default: as many requests as one pass can hold texts.",
    )
    address: str | None = option(
        None,
        "With --engine ray: address of the cluster, such as 10.0.0.1:6379, or auto. Default: RAY_ADDRESS, or a Ray on "
        "this machine, which is started and stopped.",
    )
    write_config: str | None = option(
        None, "With --engine ray: write a serve.yaml for `serve deploy` or KubeRay to this file, and serve nothing."
    )

    def __post_init__(self) -> None:
        for name in ("min_replicas", "max_replicas", "target_requests"):
            if getattr(self, name) is not None:
                check_at_least_one(flag(name), getattr(self, name))
        if self.most < self.min_replicas:
            raise ValueError(f"--max-replicas {self.most} is less than --min-replicas {self.min_replicas}")
        if not self.num_cpus > 0:
            raise ValueError(f"--num-cpus must be more than 0, got {self.num_cpus:g}")

    @property
    def most(self) -> int:
        return self.min_replicas if self.max_replicas is None else self.max_replicas

    def target(self, settings: Settings, group_size: int) -> int:
        """Unanswered requests of one replica that are fine."""
        return self.target_requests or max(16, settings.max_groups * group_size)

    def most_requests(self, settings: Settings, group_size: int) -> int:
        """Unanswered requests that one replica takes before its tenants' next requests go to another replica.

        Never so few that they would keep a pass from being full.
        """
        return 2 * max(self.target(settings, group_size), settings.max_groups * group_size)

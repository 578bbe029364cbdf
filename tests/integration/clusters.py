"""A Ray cluster of two nodes on this machine, for tests. Everything that is started is ended with the block."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
NODE = {
    "num_cpus": 1,
    "object_store_memory": 100 << 20,
    "node_ip_address": "127.0.0.2",  # loopback only; Ray would replace 127.0.0.1 by an address of another network
}
SOURCE = Path(__file__).parents[2] / "src"


@contextmanager
def two_nodes(**head: Any) -> Iterator[tuple[Any, Any]]:
    """The cluster, to which this process is connected, and its second node, which may be killed."""
    import ray
    from ray.cluster_utils import Cluster

    paths = [str(SOURCE), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    os.environ["PYTHONPATH"] = os.pathsep.join(dict.fromkeys(filter(None, paths)))  # for the workers
    cluster = Cluster(initialize_head=True, head_node_args=NODE | {"include_dashboard": False} | head)
    try:
        second = cluster.add_node(**NODE)
        ray.init(cluster.address, logging_level="error")
        cluster.wait_for_nodes()
        yield cluster, second
    finally:
        ray.shutdown()
        cluster.shutdown()

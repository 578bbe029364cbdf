"""One copy of the model on a cluster: the app and batcher of `datamux serve`, asked through Ray instead of a port."""

import dataclasses
from typing import Any

from datamux.cluster.forwarding import Forwarded, Reply, call_app
from datamux.cluster.ray_session import import_ray
from datamux.cluster.scaling import LOAD, load_of
from datamux.serve.app import create_app
from datamux.serve.logs import set_up_logs
from datamux.serve.service import load_service
from datamux.serve.settings import Settings

REPLICA = b"x-datamux-replica"


class Replica:
    """What Ray Serve runs in an actor. Groups are made by our batcher; `@serve.batch` would mix tenants."""

    async def __init__(self, model: str, settings: dict[str, Any]) -> None:  # type: ignore[misc]  # Ray awaits it
        chosen = dataclasses.replace(Settings(**settings), device=own_device(settings.get("device")))
        set_up_logs(chosen.log_level)
        self.service = load_service(model, chosen)
        self.service.warm_up()
        self.name = str(import_ray("ray.serve").get_replica_context().replica_id.unique_id)
        self.app = create_app(self.service)
        self._life = self.app.router.lifespan_context(self.app)
        await self._life.__aenter__()

    async def answer(self, request: Forwarded) -> Reply:
        """Answer a request as the server would; a header names this replica."""
        reply = await call_app(self.app, request)
        reply.headers.append((REPLICA, self.name.encode()))
        return reply

    async def record_autoscaling_stats(self) -> dict[str, float]:
        """Ray asks this regularly, and gives it to `scaling.py`."""
        return {LOAD: load_of(self.service.batcher.waiting, self.service.settings)}

    async def check_health(self) -> None:
        """Ray asks this regularly, and replaces a replica whose model does not answer."""
        problem = await self.service.heartbeat.problem()
        if problem:
            raise RuntimeError(problem)

    async def __del__(self) -> None:
        """Finish what was accepted. Ray calls this before it ends the actor."""
        await self._life.__aexit__(None, None, None)


def own_device(device: str | None) -> str:
    """The device as a replica sees it: Ray shows it only the GPU that it has reserved, whose number is then 0.

    Without `--device cuda` none is reserved, and all replicas of a machine would load onto its first GPU.
    """
    return "cuda" if str(device).startswith("cuda") else device or "cpu"

"""Which replica answers a request: that of its tenant, by rendezvous hashing.

Every replica has a score for every tenant, and the highest wins. So all routers agree without talking to each other,
and when a replica comes or goes only its own tenants move. A tenant whose replica is full goes on to the next one.
Ray copies this module to its proxies by value, so it imports nothing of ours.
"""

from collections.abc import Sequence
from hashlib import blake2b
from typing import Any

from ray.serve.request_router import PendingRequest, RequestRouter, RunningReplica


def ordered(session: str, replicas: Sequence[str]) -> list[str]:
    """The replicas for a session: a tenant, followed by the replicas that have told it that they are full, by line.

    Those come last.
    """
    tenant, *full = session.split("\n")
    return sorted(ranked(tenant, replicas), key=lambda name: name in full)


def ranked(tenant: str, replicas: Sequence[str]) -> list[str]:
    """The names of the replicas, the tenant's own first."""
    return sorted(replicas, key=lambda name: (score(tenant, name), name), reverse=True)


def score(tenant: str, replica: str) -> bytes:
    return blake2b(f"{replica}\0{tenant}".encode(), digest_size=8).digest()


class TenantRouter(RequestRouter):  # type: ignore[misc]
    """Tries the replicas of a request's tenant in their order. The session of the request says who that is."""

    async def choose_replicas(
        self, candidate_replicas: list[RunningReplica], pending_request: PendingRequest | None = None
    ) -> list[list[RunningReplica]]:
        """One rank per replica: within a rank Ray would take the one with the shortest queue."""
        if pending_request is None:
            return [candidate_replicas]
        pending_request.routing_context.should_backoff = True  # when all replicas are full, wait before the next round
        about = pending_request.metadata
        by_name: dict[str, Any] = {replica.replica_id.unique_id: replica for replica in candidate_replicas}
        return [[by_name[name]] for name in ordered(about.session_id or about.internal_request_id, list(by_name))]

"""How many replicas there should be. Ray's controller calls this, with what the replicas tell about themselves.

Ray counts requests. But a request may bring hundreds of texts, and batchers refuse by texts: who sends batches
would be refused long before Ray saw many requests. So replicas also tell how many texts wait.
"""

from typing import Any

from ray.serve.autoscaling_policy import replica_queue_length_autoscaling_policy

from datamux.serve.settings import Settings

LOAD = "load"  # texts that wait, as a share of those that are fine


def load_of(waiting: int, settings: Settings) -> float:
    """Half of what one tenant may have waiting is fine: there is time to start a replica before anybody is refused."""
    return waiting / max(1.0, settings.max_tenant_queue / 2)


def by_requests_and_texts(context: Any) -> tuple[float, dict[str, Any]]:
    """As many replicas as the unanswered requests ask for, or as the texts that wait if they ask for more."""
    desired, state = replica_queue_length_autoscaling_policy(context)
    told = (context.aggregated_metrics or {}).get(LOAD, {})
    return max(desired, sum(told.values())), state

"""Joins a Ray cluster, or starts a Ray of its own on this machine and stops it at the end."""

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from datamux.errors import import_extra

OBJECT_STORE = 100 << 20  # bytes of a local Ray's store: only descriptions of work go through it
LOCAL = "local"
STARTS = 3
PATIENCE = 10.0  # seconds for a cluster to accept a connection


def import_ray(module: str = "ray") -> Any:
    """Ray, without its usage statistics. If it is missing, the error names the extra."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # do not hide GPUs from what asks for none
    return import_extra(module, "--engine ray needs", "ray")


@contextmanager
def ray_session(address: str | None = None) -> Iterator[Any]:
    """Ray, connected to `address` (or RAY_ADDRESS), or to a Ray that lives as long as this block.

    If this process is connected already, that connection is used and left open.
    """
    ray = import_ray()
    if ray.is_initialized():
        yield ray
        return
    place = _place(address)
    own: dict[str, Any] = {
        "include_dashboard": False,
        "object_store_memory": OBJECT_STORE,
        "_node_ip_address": "127.0.0.1",  # nothing listens on other networks
    }
    try:
        _connect(ray, place, own if place == LOCAL else {})
    except ConnectionError as error:
        raise ValueError(
            f"no Ray cluster answers at {place!r}; start one with `ray start --head`, or leave --address out"
        ) from error
    try:
        yield ray
    finally:
        ray.shutdown()


def starts_own(address: str | None) -> bool:
    """Whether a session at this address has a Ray of its own, which no other machine can join."""
    return _place(address) == LOCAL


def _place(address: str | None) -> str:
    return address or os.environ.get("RAY_ADDRESS") or LOCAL


def _connect(ray: Any, place: str, options: dict[str, Any]) -> None:
    """Ray waits half a minute for its own processes, which a busy machine may not manage: then it is started again."""
    _check_answers(place)
    for left in reversed(range(STARTS)):
        try:
            ray.init(place, logging_level="error", **options)
            return
        except Exception as error:
            if place != LOCAL or not left or "timed out during startup" not in str(error):
                raise
            ray.shutdown()


def _check_answers(place: str) -> None:
    """Raise at once if nothing listens at host:port; Ray would try for minutes."""
    host, _, port = place.rpartition(":")
    if port.isdigit() and "/" not in place:
        try:
            socket.create_connection((host.strip("[]"), int(port)), PATIENCE).close()
        except OSError as error:
            raise ConnectionError(str(error)) from error


def model_for_workers(model: str) -> str:
    """The folder of a model in full, because workers have other working folders; names of models stay as they are."""
    folder = Path(model).expanduser()
    return str(folder.resolve()) if (folder / "config.json").exists() else model

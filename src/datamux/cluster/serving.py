"""`datamux serve --engine ray`: the application for Ray Serve, its serve.yaml, and running it until it is stopped."""

import dataclasses
import logging
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from datamux.cluster.options import APPLICATION, Replicas
from datamux.cluster.ray_session import import_ray, model_for_workers, ray_session
from datamux.hub.loading import load_config
from datamux.serve.service import choose_gears, keys_of, read_card
from datamux.serve.settings import Settings
from datamux.serve.tuned import tuned_gears
from datamux.zoo import find_model

MODEL, FRONT = "Model", "Front"
BUILDER = "datamux.cluster.serving:build"
POLICY = "datamux.cluster.scaling:by_requests_and_texts"
ROUTER = "datamux.cluster.routing:TenantRouter"
HEALTH_EVERY = 5.0  # seconds
LOGGING = {"log_level": "WARNING", "enable_access_log": False}  # of Ray Serve; replicas log requests themselves
LOOPBACK = ("127.0.0.1", "::1", "localhost")
Options = dict[str, Any]


def build(arguments: Options) -> Any:
    """The application: a front and replicas. `serve deploy` calls this with the `args` of a serve.yaml."""
    from datamux.cluster.front import Front
    from datamux.cluster.replica import Replica

    serve = import_ray("ray.serve")
    model, settings = arguments["model"], arguments.get("settings", {})
    copies = Replicas(**arguments.get("replicas", {}))
    options = deployment_options(model, Settings(**settings), copies)
    capacity = options[MODEL]["max_ongoing_requests"] * copies.most
    replicas = serve.deployment(Replica).options(name=MODEL, **options[MODEL]).bind(model, settings)
    front = serve.deployment(serve.ingress()(Front)).options(name=FRONT, **options[FRONT])
    return front.bind(replicas, settings, capacity, copies.most - 1)


def deployment_options(model: str, settings: Settings, replicas: Replicas) -> dict[str, Options]:
    """What Ray Serve is told about the two deployments.

    A front refuses what is too much itself, in our format. So Ray's own limits are beyond those of the front.
    """
    group_size = largest_group(model, settings)
    grace = settings.grace_ms / 1000
    actor: Options = {"num_cpus": replicas.num_cpus}
    if str(settings.device).startswith("cuda"):
        actor["num_gpus"] = 1
    most, target = replicas.most_requests(settings, group_size), replicas.target(settings, group_size)
    room = settings.max_queue + most * replicas.most  # of a front
    return {
        MODEL: {
            "max_ongoing_requests": most,
            "max_queued_requests": room,
            "request_router_config": {"request_router_class": ROUTER},
            "ray_actor_options": actor,
            "health_check_period_s": HEALTH_EVERY,
            "graceful_shutdown_timeout_s": grace + HEALTH_EVERY,
            **_number(replicas, target, POLICY),
        },
        FRONT: {
            "max_ongoing_requests": 2 * room,
            "max_queued_requests": room,
            "ray_actor_options": {"num_cpus": 0},
            "health_check_period_s": HEALTH_EVERY,
            "graceful_shutdown_timeout_s": grace + HEALTH_EVERY,
            **_number(replicas, target),  # as many as replicas: each reads the requests of about one
        },
    }


def largest_group(model: str, settings: Settings) -> int:
    """How many texts a group may have in any gear of the model, or of the models of a tuned folder."""
    folder = find_model(model)
    capacity = getattr(load_config(folder), "num_instances", 1)
    gears = tuned_gears(Path(folder), settings) or choose_gears(capacity, read_card(model), settings)
    return max(gear.group_size for gear in gears)


def serve_config(model: str, settings: Settings, replicas: Replicas) -> Options:
    """A serve.yaml as a dict, checked by Ray's own schema."""
    schema = import_ray("ray.serve.schema")
    deployments = [{"name": name, **options} for name, options in deployment_options(model, settings, replicas).items()]
    found: Options = {
        "proxy_location": proxies(settings),
        "http_options": {"host": settings.host, "port": settings.port},
        "applications": [
            {
                "name": APPLICATION,
                "route_prefix": "/",
                "import_path": BUILDER,
                "logging_config": LOGGING,
                "args": _arguments(model, settings, replicas),
                "deployments": deployments,
            }
        ],
    }
    schema.ServeDeploySchema(**found)
    return found


def write_config(file: Path, model: str, settings: Settings, replicas: Replicas) -> None:
    import yaml

    found = serve_config(model, settings, replicas)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(yaml.safe_dump(found, sort_keys=False), encoding="utf-8")


@contextmanager
def serving_on_ray(model: str, settings: Settings, replicas: Replicas) -> Iterator[str]:
    """The address of a server that runs until the block ends."""
    port = settings.port or _free_port()
    with ray_session(replicas.address), ExitStack() as stack:
        serve = import_ray("ray.serve")
        logging.getLogger("ray.serve").setLevel(logging.WARNING)
        _check_free(serve)
        application = build(_arguments(model, settings, replicas))
        stack.callback(_stop_if_unused, serve)  # each before its step, which may fail or be interrupted half way
        serve.start(
            proxy_location=proxies(settings),
            http_options={"host": settings.host, "port": port, "keep_alive_timeout_s": 75},
            logging_config=LOGGING,
        )
        _check_address(settings.host, port)
        stack.callback(_remove_application, serve)
        serve.run(application, name=APPLICATION, route_prefix="/", logging_config=LOGGING)
        yield f"http://{settings.host}:{port}"


def _check_free(serve: Any) -> None:
    """A second server must not replace the first, nor take it along when it ends."""
    if APPLICATION in serve.status().applications:
        raise ValueError(
            f"this cluster has a server of ours already (the application {APPLICATION!r} of Ray Serve); stop that "
            "`datamux serve` first, or use another cluster. If it was killed and left the application behind, "
            "`serve shutdown` ends everything that Ray Serve runs there"
        )


def _check_address(host: str, port: int) -> None:
    """If the cluster runs Ray Serve already, Ray keeps the address that it has, and says so only in its log."""
    running = running_address()
    if running != (host, port):
        raise ValueError(
            f"Ray Serve runs on this cluster already, at {running[0]}:{running[1]}, and all its applications share one "
            f"address; use --host {running[0]} --port {running[1]}, or another cluster, instead of {host}:{port}"
        )


def running_address() -> tuple[str, int]:
    """Where Ray Serve listens."""
    options = import_ray("ray.serve.context")._get_global_client().http_config
    return str(options.host), int(options.port)


def _remove_application(serve: Any) -> None:
    if APPLICATION in serve.status().applications:
        serve.delete(APPLICATION)


def _stop_if_unused(serve: Any) -> None:
    """Stop Ray Serve, unless the cluster has other applications."""
    if not serve.status().applications:
        serve.shutdown()


def run_on_ray(model: str, settings: Settings, replicas: Replicas, listening: Callable[[str], None]) -> None:
    """Serve until SIGTERM or Ctrl-C."""
    stop = threading.Event()
    with serving_on_ray(model, settings, replicas) as address:
        for number in (signal.SIGTERM, signal.SIGINT):  # not earlier: Ray sets its own when it starts
            signal.signal(number, lambda *_: stop.set())
        listening(address)
        stop.wait()


def proxies(settings: Settings) -> str:
    """Where Ray listens: an address that only this machine can reach needs no proxies on others."""
    return "HeadOnly" if settings.host in LOOPBACK else "EveryNode"


def _number(replicas: Replicas, target: int, policy: str | None = None) -> Options:
    """How many replicas there are: fixed, or by the number of unanswered requests, and by what else the policy sees."""
    if replicas.most == replicas.min_replicas:
        return {"num_replicas": replicas.min_replicas}
    return {
        "autoscaling_config": {
            "min_replicas": replicas.min_replicas,
            "max_replicas": replicas.most,
            "target_ongoing_requests": target,
            "upscale_delay_s": 10,
            "downscale_delay_s": 300,
            **({"policy": {"policy_function": policy}} if policy else {}),
        }
    }


def _arguments(model: str, settings: Settings, replicas: Replicas) -> Options:
    """What `build` needs, as plain values."""
    chosen = {"threads": max(1, int(replicas.num_cpus)), **_changed(settings)}
    chosen |= _keys(settings)
    copies = {name: value for name, value in _changed(replicas).items() if name not in ("address", "write_config")}
    return {"model": model_for_workers(model), "settings": chosen, "replicas": copies}


def serves_everyone(settings: Settings) -> bool:
    """Whether replicas would be told to answer requests without a key. Keys that are added later change nothing."""
    return "no_keys" in _keys(settings)


def _keys(settings: Settings) -> Options:
    """Said outright in either case: a replica on a machine without the file must refuse to start, not serve everyone.

    A file that was named need not be on this machine, which may only write the configuration.
    """
    if settings.keys is not None and not settings.no_keys:
        return {"keys": str(Path(settings.keys).expanduser().resolve())}
    found = keys_of(settings)
    return {"no_keys": True} if found is None or not found.needed else {"keys": str(found.file.resolve())}


def _changed(chosen: Any) -> Options:
    """The options that differ from their defaults."""
    return {
        field.name: getattr(chosen, field.name)
        for field in dataclasses.fields(chosen)
        if getattr(chosen, field.name) != field.default
    }


def _free_port() -> int:
    with socket.socket() as some:
        some.bind(("127.0.0.1", 0))
        return int(some.getsockname()[1])

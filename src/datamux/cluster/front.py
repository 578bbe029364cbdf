"""What a request meets first on a cluster: it is read, and handed to its tenant's replica.

If that replica dies meanwhile, another one is asked: answering twice does no harm, because a request changes nothing.
"""

import asyncio
import itertools
from collections.abc import Sequence
from hashlib import sha256
from typing import Any
from uuid import uuid4

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Mount
from starlette.types import Receive, Scope, Send

from datamux.cluster.forwarding import Forwarded, Reply
from datamux.cluster.merged_metrics import merge_metrics
from datamux.cluster.ray_session import import_ray
from datamux.cluster.replica import REPLICA
from datamux.serve.errors import as_response
from datamux.serve.limits import read_body
from datamux.serve.refusals import Overloaded, TimedOut, Unavailable
from datamux.serve.service import secret_of
from datamux.serve.settings import Settings

TRIES = 3  # replicas that may die under one request
NONE_STARTED = "no replica could be started; the log of Ray Serve says why"
SLACK = 5.0  # seconds more than a replica's own time limit, so that the replica speaks first


class Front:
    """The ingress of the application. It has no model, and mixes nothing."""

    def __init__(self, replicas: Any, settings: dict[str, Any]) -> None:
        self.replicas = replicas
        self.settings = Settings(**settings)
        self._name = f"request-{uuid4().hex}"  # two fronts must not give two clients the same name
        self._numbers = itertools.count()

    def __serve_build_asgi_app__(self) -> Starlette:
        return Starlette(routes=[Mount("/", app=self.forward)])

    async def forward(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, also if that fails."""
        request = Request(scope, receive)
        try:
            async with asyncio.timeout(self.settings.timeout_ms / 1000 + SLACK):
                response = await self._answer(request)
        except TimeoutError:
            response = as_response(TimedOut("no replica has answered in time"))
        except Exception as error:
            response = as_response(error)
        await response(scope, receive, send)

    async def _answer(self, request: Request) -> Response:
        settings = self.settings
        body = await read_body(request, settings.max_body_bytes, settings.body_timeout_ms / 1000)
        # A load balancer may put two clients on one connection, so without keys every request is a tenant by itself.
        forwarded = Forwarded.of(request.scope, body, (self._name, next(self._numbers)))
        if forwarded.path == "/metrics":
            return _merged(await self._ask_all(forwarded))
        return _response(await self._ask(forwarded, sticky_key(request, settings)))

    async def _ask(self, forwarded: Forwarded, key: str) -> Reply:
        from ray.exceptions import RayActorError

        exceptions = import_ray("ray.serve.exceptions")
        for _ in range(TRIES):
            try:
                reply: Reply = await self.replicas.options(session_id=key).answer.remote(forwarded)
                return reply
            except RayActorError:
                continue  # the replica has died; the router does not choose it again
            except exceptions.BackPressureError as error:
                raise Overloaded("all replicas have as many requests as they may have; try again") from error
            except exceptions.DeploymentUnavailableError as error:
                raise Unavailable(NONE_STARTED) from error
        raise Unavailable(f"{TRIES} replicas died while they worked on this request; try again")

    async def _ask_all(self, forwarded: Forwarded) -> list[Reply]:
        """The replies of all replicas, without those that are dying: Ray has not replaced them yet."""
        from ray.exceptions import RayActorError

        exceptions = import_ray("ray.serve.exceptions")
        try:
            found = await self.replicas.broadcast("answer", forwarded).results_async(return_exceptions=True)
        except exceptions.DeploymentUnavailableError as error:
            raise Unavailable(NONE_STARTED) from error
        replies = [one for one in found if not isinstance(one, RayActorError)]
        for one in replies:
            if isinstance(one, BaseException):
                raise one
        if not replies:
            raise Unavailable("no replica is alive at the moment; try again")
        return replies


def sticky_key(request: Request, settings: Settings) -> str:
    """What decides on the replica: the key, which is not kept, or the connection. Replicas check the key."""
    secret = secret_of(request)
    if secret:
        return sha256(secret.encode("utf-8", "surrogateescape")).hexdigest()
    if settings.single_tenant:
        return "everyone"
    host, port = request.scope.get("client") or ("unknown", 0)
    return f"{host}:{port}"


def _response(reply: Reply) -> Response:
    response = Response(reply.body, reply.status)
    response.raw_headers = reply.headers
    return response


def _merged(replies: Sequence[Reply]) -> Response:
    """The measurements of all replicas in one page; if one refuses, its answer."""
    for reply in replies:
        if reply.status != 200:
            return _response(reply)
    names = [dict(reply.headers)[REPLICA].decode() for reply in replies]
    text = merge_metrics({name: reply.body.decode() for name, reply in zip(names, replies, strict=True)})
    return Response(text, media_type="text/plain; version=0.0.4; charset=utf-8")

"""What a request meets first on a cluster: it is read, and handed to its tenant's replica.

If that replica dies meanwhile, another one is asked: answering twice does no harm, because a request changes nothing.
"""

import asyncio
import itertools
from collections import Counter
from collections.abc import Sequence
from hashlib import sha256
from typing import Any
from uuid import uuid4

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Mount
from starlette.types import Receive, Scope, Send

from datamux.cluster.admission import Admission, Limits
from datamux.cluster.forwarding import Forwarded, Reply
from datamux.cluster.merged_metrics import merge_metrics, refusals_page
from datamux.cluster.ray_session import import_ray
from datamux.cluster.replica import REPLICA
from datamux.serve.errors import Problem, as_response
from datamux.serve.limits import Bodies, read_body
from datamux.serve.refusals import Overloaded, TimedOut, Unavailable
from datamux.serve.service import keys_of, owner_of, secret_of
from datamux.serve.settings import Settings
from datamux.serve.tokenising import time_for

TRIES = 3  # replicas that may die under one request
MOST_FULL = 8  # replicas that may say that they are full before a client is told, besides the last one
PAUSE = 0.1  # seconds before the second try, and twice as many before the third: Ray must first see what has died
NONE_STARTED = "no replica could be started; the log of Ray Serve says why"
SHORTEST = 3  # bytes of a text in a body: two quotation marks and a comma
SLACK = 5.0  # seconds more than a replica's own time limit, so that the replica speaks first


class Front:
    """The ingress of the application. It has no model, and mixes nothing.

    `capacity` is how many requests all replicas together may work on, and `others` how many of them can be asked if the
    first one is full.
    """

    def __init__(self, replicas: Any, settings: dict[str, Any], capacity: int, others: int = 0) -> None:
        self.replicas = replicas
        self.settings = Settings(**settings)
        self.admission = Admission(Limits.of(self.settings, capacity))
        self._bodies = Bodies(self.admission.limits.size)
        self.others = min(others, MOST_FULL)
        self.keys = keys_of(self.settings)
        self._name = f"request-{uuid4().hex}"  # two fronts must not give two clients the same name
        self._numbers = itertools.count()
        self._refused: Counter[int] = Counter()  # what this front has answered itself, by status

    def __serve_build_asgi_app__(self) -> Starlette:
        return Starlette(routes=[Mount("/", app=self.forward)])

    async def forward(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, also if that fails."""
        request = Request(scope, receive)
        try:
            async with asyncio.timeout(self._patience(0)) as time:
                response = await self._answer(request, time)
        except TimeoutError:
            response = self._refusal(TimedOut("no replica has answered in time"))
        except Exception as error:
            response = self._refusal(error)
        await response(scope, receive, send)

    def _patience(self, body: int) -> float:
        """Seconds for a request with so many bytes. The replica counts its texts; here we know their most."""
        return time_for(body // SHORTEST, self.settings.timeout_ms / 1000) + SLACK

    def _refusal(self, error: Exception) -> Response:
        response = as_response(error)
        self._refused[response.status_code] += 1
        return response

    async def _answer(self, request: Request, time: asyncio.Timeout) -> Response:
        key = sticky_key(request, self.settings)
        if request.method != "POST":  # it asks for no answers of the model; a full server must still tell its health
            _check_no_body(request)
            if request.url.path == "/metrics" and self.keys is not None and self.keys.needed:
                owner_of(self.keys, request)  # every replica would be asked, and each would refuse
            return await self._pass_on(request, key, b"")
        if self.keys is not None and self.keys.needed:
            owner_of(self.keys, request)  # first: who has no key may take no place and send no body
        with self.admission.request(key) as seat:
            patience = self.settings.body_timeout_ms / 1000
            body = await read_body(request, self.settings.max_body_bytes, patience, self._bodies)
            seat.hold(body)
            time.reschedule(asyncio.get_running_loop().time() + self._patience(len(body)))
            return await self._pass_on(request, key, body)

    async def _pass_on(self, request: Request, key: str, body: bytes) -> Response:
        # A load balancer may put two clients on one connection, so without keys every request is a tenant by itself.
        forwarded = Forwarded.of(request.scope, body, (self._name, next(self._numbers)))
        if forwarded.path == "/metrics":
            return _merged(await self._ask_all(forwarded), await self._all_refusals())
        return _response(await self._ask_with_room(forwarded, key))

    async def _ask_with_room(self, forwarded: Forwarded, key: str) -> Reply:
        """The reply of the first replica in the tenant's order whose batcher has room; if none has, a refusal.

        A batcher refuses a request before it takes any of its texts, so nothing is answered twice. Every replica grants
        a tenant its share of texts, and the front limits what a tenant has under way on all of them together.
        """
        full: list[str] = []
        while True:
            reply = await self._ask(forwarded, "\n".join([key, *full]))
            name = dict(reply.headers).get(REPLICA, b"").decode()
            if reply.status != 429 or forwarded.method != "POST" or name in full or len(full) >= self.others:
                return reply
            full.append(name)

    async def _ask(self, forwarded: Forwarded, session: str) -> Reply:
        exceptions = import_ray("ray.serve.exceptions")
        for number in range(TRIES):
            if number:
                await asyncio.sleep(PAUSE * 2 ** (number - 1))
            try:
                reply: Reply = await self.replicas.options(session_id=session).answer.remote(forwarded)
                return reply
            except lost():
                continue  # the replica has died, or its answer was lost with its machine
            except exceptions.BackPressureError as error:
                raise Overloaded("all replicas have as many requests as they may have; try again") from error
            except exceptions.DeploymentUnavailableError as error:
                raise Unavailable(NONE_STARTED) from error
        raise Unavailable(f"{TRIES} replicas died while they worked on this request; try again")

    async def _ask_all(self, forwarded: Forwarded) -> list[Reply]:
        """The replies of all replicas, without those that are dying: Ray has not replaced them yet."""
        exceptions = import_ray("ray.serve.exceptions")
        try:
            found = await self.replicas.broadcast("answer", forwarded).results_async(return_exceptions=True)
        except exceptions.DeploymentUnavailableError as error:
            raise Unavailable(NONE_STARTED) from error
        replies = [one for one in found if not isinstance(one, lost())]
        for one in replies:
            if isinstance(one, BaseException):
                raise one
        if not replies:
            raise Unavailable("no replica is alive at the moment; try again")
        return replies

    async def refusals(self) -> tuple[str, dict[int, int]]:
        """The name of this front, and how often it has answered itself, by status."""
        return self._name, dict(self._refused)

    def fronts(self) -> Any:
        """All fronts, this one too."""
        serve = import_ray("ray.serve")
        about = serve.get_replica_context()
        return serve.get_deployment_handle(about.deployment, about.app_name)

    async def _all_refusals(self) -> dict[str, dict[int, int]]:
        found = await self.fronts().broadcast("refusals").results_async(return_exceptions=True)
        return dict(one for one in found if not isinstance(one, BaseException))


def lost() -> tuple[type[Exception], ...]:
    """What Ray raises when a replica, or the machine that held its answer, has died."""
    from ray.exceptions import ObjectLostError, OutOfMemoryError, RayActorError

    return RayActorError, ObjectLostError, OutOfMemoryError


def _check_no_body(request: Request) -> None:
    """Only POST has a body. It would be read without a place in the admission."""
    if request.headers.get("content-length", "0") != "0" or "transfer-encoding" in request.headers:
        raise Problem(400, f"{request.method} takes no body; send it with POST", {"connection": "close"})


def sticky_key(request: Request, settings: Settings) -> str:
    """What decides on the replica: the key, which is not kept, or the connection."""
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


def _merged(replies: Sequence[Reply], refusals: dict[str, dict[int, int]]) -> Response:
    """The measurements of all replicas and fronts in one page; if a replica refuses, its answer."""
    for reply in replies:
        if reply.status != 200:
            return _response(reply)
    names = [dict(reply.headers)[REPLICA].decode() for reply in replies]
    page = merge_metrics({name: reply.body.decode() for name, reply in zip(names, replies, strict=True)})
    page += refusals_page(refusals)
    return Response(page, media_type="text/plain; version=0.0.4; charset=utf-8")

"""The FastAPI app of a service: its routes, its errors, its start and stop, and the server that runs it."""

import asyncio
import math
import os
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import uvicorn
from fastapi import FastAPI, Request, Response

import datamux
from datamux.serve.errors import Problem, add_errors, documented
from datamux.serve.limits import patient_protocol
from datamux.serve.logs import Watch
from datamux.serve.memory import give_back_regularly, keep_what_is_loaded
from datamux.serve.playground import add_playground
from datamux.serve.routes import add_answers
from datamux.serve.schemas import request_schemas
from datamux.serve.service import Service
from datamux.serve.settings import Settings

SWITCH = 0.0005  # seconds after which Python lets another thread run; the pass thread asks often and briefly
KEEP_ALIVE = 75  # seconds that an idle connection stays open
LAST_WORDS = 1  # seconds after the grace in which those who still wait are told


def create_app(service: Service) -> FastAPI:
    """All routes of a service."""

    @asynccontextmanager
    async def life(app: FastAPI) -> AsyncIterator[None]:
        service.batcher.start()
        keeping = asyncio.get_running_loop().create_task(give_back_regularly())
        yield
        keeping.cancel()
        await service.batcher.close(service.settings.grace_ms / 1000)

    app = FastAPI(
        title="datamux",
        version=datamux.__version__,
        description=f"The model `{service.name}`, with up to {service.gearbox.fastest.group_size} texts per pass.",
        lifespan=life,
        docs_url=None,  # FastAPI's own page loads its parts from another server; ours is in `playground.py`
        redoc_url=None,
    )
    app.state.service = service
    add_errors(app)
    app.add_middleware(Watch, metrics=service.metrics, closing=lambda: service.batcher.closing)
    app.router.routes[:0] = add_answers(service).routes  # in front, and without the detour of an included router
    _add_status(app, service)
    _add_openapi(app)
    if not service.settings.no_playground:
        add_playground(app, service)
    return app


def _add_status(app: FastAPI, service: Service) -> None:
    @app.get("/info", summary="The model, its gears and the limits", responses=documented(401))
    async def info(request: Request) -> dict[str, Any]:
        service.tenant_of(request)
        return service.info()

    @app.get("/health", summary="Whether the model answers", responses=documented(503))
    @app.get("/readyz", summary="Whether requests are accepted and the model answers", responses=documented(503))
    async def health() -> dict[str, str]:
        problem = await service.heartbeat.problem()
        if problem:
            raise Problem(503, problem)
        return {"status": "ok"}

    @app.get("/livez", summary="Whether the server runs; if not, start it again", responses=documented(503))
    async def livez() -> dict[str, str]:
        if not service.batcher.alive:
            raise Problem(503, "the model does not answer; start the server again")
        return {"status": "ok"}

    @app.get(
        "/metrics",
        summary="Measurements for Prometheus",
        response_class=Response,
        responses={200: {"content": {"text/plain": {}}}, **documented(401, 403)},
    )
    async def metrics(request: Request) -> Response:
        service.check_metrics(service.tenant_of(request))
        return Response(service.metrics.text(), media_type="text/plain; version=0.0.4; charset=utf-8")


def _add_openapi(app: FastAPI) -> None:
    """Add the requests' schemas, which the routes check themselves, and the two ways to send a key."""
    make = app.openapi

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            document = make()
            parts = document.setdefault("components", {})
            parts.setdefault("schemas", {}).update(request_schemas())
            parts["securitySchemes"] = {
                "bearer": {"type": "http", "scheme": "bearer"},
                "header": {"type": "apiKey", "in": "header", "name": "X-API-Key"},
            }
            document["security"] = [{}, {"bearer": []}, {"header": []}]
        return app.openapi_schema or document

    app.openapi = openapi  # type: ignore[method-assign]


async def _nobody_waits() -> None:
    """For an app that has nobody to tell."""


class Server(uvicorn.Server):
    """Tells its address when it really listens. `out_of_time` tells those who still wait when the grace is over."""

    listening: Callable[[str], None] = staticmethod(lambda address: None)
    out_of_time: Callable[[], Awaitable[None]] = staticmethod(_nobody_waits)
    grace = 0.0  # seconds

    async def startup(self, sockets: Any = None) -> None:
        await super().startup(sockets)
        for server in self.servers:
            for socket in server.sockets:
                host, port = socket.getsockname()[:2]
                self.listening(f"http://{f'[{host}]' if ':' in host else host}:{port}")

    async def shutdown(self, sockets: Any = None) -> None:
        """uvicorn would break off every request when the grace is over, so we answer them before it does."""
        telling = asyncio.get_running_loop().create_task(self._tell_when_out_of_time())
        await super().shutdown(sockets)
        telling.cancel()

    async def _tell_when_out_of_time(self) -> None:
        await asyncio.sleep(self.grace)
        await self.out_of_time()


def make_server(service: Service, listening: Callable[[str], None] = lambda address: None) -> Server:
    """A uvicorn server that is ready to run. `listening` is told the address."""
    server = server_of(create_app(service), service.settings)
    server.listening = listening
    server.out_of_time = lambda: service.batcher.close(0.0)
    return server


def server_of(app: FastAPI, settings: Settings) -> Server:
    """The uvicorn server of any app, with our limits."""
    config = uvicorn.Config(
        app,
        host=settings.host,
        port=settings.port,
        http=patient_protocol(settings.body_timeout_ms / 1000),
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,  # anybody can send them, and a tenant is known by its real connection
        timeout_keep_alive=KEEP_ALIVE,
        timeout_graceful_shutdown=math.ceil(settings.grace_ms / 1000) + LAST_WORDS,
    )
    server = Server(config)
    server.grace = settings.grace_ms / 1000
    return server


def run_server(service: Service, listening: Callable[[str], None]) -> None:
    """Serve until SIGTERM or Ctrl-C, finish what was accepted, and return. While the model warms up, both end it."""
    sys.setswitchinterval(SWITCH)
    service.warm_up()
    server = make_server(service, listening)
    keep_what_is_loaded()

    def stop(*_: object) -> None:
        """uvicorn has a handler of its own, and sends itself the signal again when it has shut down."""
        server.should_exit = True

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)
    server.run()
    if service.batcher.threads.busy:
        os._exit(1)  # Python would wait for the thread, which may hang

"""Every error in one format, that of text-embeddings-inference: {"error": "what is wrong", "error_type": "Empty"}."""

import json
import logging
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ValidationError
from starlette.exceptions import HTTPException

from datamux.serve.refusals import BadInput, Overloaded, PassFailed, TimedOut, Unavailable

logger = logging.getLogger(__name__)
KINDS = {
    400: "BadRequest",
    401: "Unauthorized",
    403: "Forbidden",
    404: "NotFound",
    405: "MethodNotAllowed",
    408: "Timeout",
    413: "TooLarge",
    422: "Validation",
    429: "Overloaded",
    500: "Backend",
    503: "Unhealthy",
    504: "Timeout",
}
MEANINGS = {
    401: "The key is missing or unknown.",
    403: "This key may not do that.",
    408: "The request was sent too slowly.",
    413: "The request body is too long.",
    422: "The request is not valid.",
    429: "Too many texts wait. The header Retry-After says when to try again.",
    500: "The model failed on a text.",
    503: "The model does not answer, or the server is shutting down.",
    504: "The answer took too long.",
}
SHOWN = 3  # problems of an invalid request that are listed


class ErrorBody(BaseModel):
    """What every error looks like."""

    error: str
    error_type: str


class Problem(Exception):
    """Something that the client is told, with its status."""

    def __init__(self, status: int, message: str, headers: dict[str, str] | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.headers = headers


class ClientGone(Exception):
    """The client has closed its connection: nobody reads the answer."""


def documented(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """For OpenAPI: these errors, with their meanings."""
    return {status: {"model": ErrorBody, "description": MEANINGS[status]} for status in statuses}


def error_body(status: int, message: str) -> bytes:
    return json.dumps({"error": message, "error_type": KINDS.get(status, "Error")}).encode()


def error_response(status: int, message: str, headers: dict[str, str] | None = None) -> Response:
    return Response(error_body(status, message), status, headers, media_type="application/json")


def as_response(error: Exception) -> Response:
    """The answer to a request that ended in `error`."""
    if isinstance(error, Problem):
        return error_response(error.status, str(error), error.headers)
    if isinstance(error, ClientGone):
        return error_response(499, "the client has gone")
    if isinstance(error, Overloaded):
        return error_response(429, str(error), {"retry-after": str(error.retry_after)})
    if isinstance(error, Unavailable):
        return error_response(503, str(error), {"retry-after": str(error.retry_after)})
    if isinstance(error, TimedOut):
        return error_response(504, str(error))
    if isinstance(error, PassFailed):
        return error_response(500, str(error))
    if isinstance(error, RequestValidationError | ValidationError):
        return error_response(422, _problems(error))
    if isinstance(error, HTTPException):
        return error_response(error.status_code, str(error.detail), dict(error.headers or {}))
    if isinstance(error, BadInput):
        return error_response(422, str(error))
    logger.error("a request failed", exc_info=error)
    return error_response(500, "the server failed; its log says why")


def add_errors(app: FastAPI) -> None:
    """One format for every error, also for those that FastAPI would word itself."""

    async def handle(request: Request, error: Exception) -> Response:
        return as_response(error)

    kinds: tuple[type[Exception], ...] = (
        Problem, ClientGone, Overloaded, Unavailable, TimedOut, PassFailed,
        RequestValidationError, ValidationError, HTTPException, BadInput,
    )  # fmt: skip
    for kind in kinds:
        app.add_exception_handler(kind, handle)


def _problems(error: RequestValidationError | ValidationError) -> str:
    """What is wrong with a request and where, without the values: they may be texts."""
    found = error.errors()
    told = []
    for one in found[:SHOWN]:
        place = ".".join(str(part) for part in one["loc"] if part != "body")
        told.append(f"{place}: {one['msg']}" if place else str(one["msg"]))
    more = f" (and {len(found) - SHOWN} more problems)" if len(found) > SHOWN else ""
    return "the request is not valid: " + "; ".join(told) + more

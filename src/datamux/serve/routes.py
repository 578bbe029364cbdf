"""The routes that answer texts. They check a request, hand its texts to the batcher, and word the answers."""

import asyncio
import math
import time
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from typing import Any, TypeVar

from fastapi import APIRouter, Request, Response
from fastapi.routing import APIRoute
from pydantic import BaseModel, ValidationError

from datamux.serve.batcher import Answered, Answers
from datamux.serve.errors import ClientGone, Problem, documented
from datamux.serve.schemas import (
    ClassifyAnswer,
    ClassifyRequest,
    Parameters,
    PooledAnswer,
    PredictAnswer,
    PredictRequest,
    TagAnswer,
    TagRequest,
    request_body,
)
from datamux.serve.service import Service, public_name
from datamux.serve.writing import Told, about, as_json, in_parts, list_as_json, object_as_json

M = TypeVar("M", bound=BaseModel)
ERRORS = documented(401, 408, 413, 422, 429, 500, 503, 504)


class PlainRoute(APIRoute):
    """A route that gets the request as it is. FastAPI's own way of reading requests costs more than the rest of it."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handler: Callable[[Request], Coroutine[Any, Any, Response]] = self.endpoint
        return handler


def add_answers(service: Service) -> APIRouter:
    """POST /predict, /classify and /tag."""
    router = APIRouter(route_class=PlainRoute)
    names, tagging = service.predictor.names, service.predictor.token_level
    pooled = service.settings.classify_shape == "vllm"

    def word(parameters: Parameters | None, raw: bool, top_k: int | None) -> Callable[[Any], Any]:
        """How the answer of one text is written."""
        if tagging:
            left_out = set(parameters.ignore_labels or ()) if parameters else set()
            if not left_out:
                return lambda found: found.spans
            return lambda found: [span for span in found.spans if span["entity_group"] not in left_out]
        function = parameters.function_to_apply if parameters else None
        if parameters and parameters.top_k:
            top_k = parameters.top_k
        if function not in (None, "none"):
            return lambda found: _label_list(names, found.order, _applied(function, found.logits), top_k)
        if raw or function == "none":
            return lambda found: _label_list(names, found.order, found.logits, top_k)
        return lambda found: _label_list(names, found.order, found.scores, top_k)

    @router.post(
        "/predict",
        summary="Classify or tag, in the shape of text-embeddings-inference or of the Hugging Face client",
        openapi_extra=request_body(PredictRequest),
        responses={200: {"model": PredictAnswer}, **ERRORS},
    )
    async def predict(request: Request) -> Response:
        asked, tenant = await _read(request, service, PredictRequest)
        inputs = asked.inputs
        single = isinstance(inputs, str) or isinstance(inputs[0], str)
        texts = []
        async for some in in_parts([inputs] if single else inputs):
            texts += [_text_or_pair(one, tagging) for one in some]
        found = await _answer(request, service, tenant, texts, asked)
        write = word(asked.parameters, asked.raw_scores, asked.top_k)
        flat = single and (tagging or asked.parameters is None)
        body = as_json(write(found[0].answer)) if flat else await list_as_json(found, lambda one: write(one.answer))
        return _response(request, tenant, await about(found), body)

    @router.post(
        "/classify",
        summary=f"Classify, in the shape of {service.settings.classify_shape}",
        include_in_schema=not tagging,
        openapi_extra=request_body(ClassifyRequest),
        responses={200: {"model": PooledAnswer if pooled else ClassifyAnswer}, **ERRORS},
    )
    async def classify(request: Request) -> Response:
        asked, tenant = await _read(request, service, ClassifyRequest)
        if tagging:
            raise Problem(404, "this model tags words and does not classify texts; use /tag")
        texts = [asked.input] if isinstance(asked.input, str) else asked.input
        found = await _answer(request, service, tenant, texts, asked)
        told, places = await about(found), count()
        write = word(None, asked.raw_scores, None if pooled else asked.top_k)

        def data(one: Answered) -> Any:
            labels = write(one.answer)
            return _pooled(next(places), labels, names) if pooled else labels

        body = {
            "object": "list" if pooled else "classify",
            "id": f"classify-{request.scope['datamux']['id']}",
            "model": service.name,
            "created": int(time.time()),
            "data": await list_as_json(found, data),
            "usage": {"prompt_tokens": told.tokens, "total_tokens": told.tokens},
        }
        return _response(request, tenant, told, object_as_json(body))

    @router.post(
        "/tag",
        summary="Find spans, with their offsets",
        include_in_schema=tagging,
        openapi_extra=request_body(TagRequest),
        responses={200: {"model": TagAnswer}, **ERRORS},
    )
    async def tag(request: Request) -> Response:
        asked, tenant = await _read(request, service, TagRequest)
        if not tagging:
            raise Problem(404, "this model classifies texts and does not tag words; use /predict or /classify")
        single = isinstance(asked.inputs, str)
        texts: Sequence[Any] = [asked.inputs] if single else asked.inputs
        found = await _answer(request, service, tenant, texts, asked)
        write = word(None, False, None)
        body = as_json(write(found[0].answer)) if single else await list_as_json(found, lambda one: write(one.answer))
        return _response(request, tenant, await about(found), body)

    return router


async def _read(request: Request, service: Service, model: type[M]) -> tuple[M, str]:
    tenant = service.tenant_of(request)
    body = await service.body_of(request, tenant)
    try:
        return model.model_validate_json(body), tenant
    except ValidationError as error:
        for field in ("inputs", "input"):
            if field in model.model_fields and any(one["loc"][:1] == (field,) for one in error.errors()):
                raise Problem(422, f"{field} must be {model.model_fields[field].description}") from None
        raise


async def _answer(request: Request, service: Service, tenant: str, texts: Sequence[Any], asked: Any) -> Answers:
    alone = service.settings.deterministic or not asked.mux
    check = None if asked.truncate else service.engine.refuse_cut
    with stops_if_client_leaves(request):
        return await service.batcher.submit(tenant, texts, alone=alone, check=check)


@contextmanager
def stops_if_client_leaves(request: Request) -> Iterator[None]:
    """Cancel what runs inside when the client closes its connection; its texts are then dropped from the queue."""
    task = asyncio.current_task()
    assert task is not None
    left = False

    async def watch() -> None:
        nonlocal left
        message = await request.receive()
        while message["type"] != "http.disconnect":
            message = await request.receive()
        left = True
        task.cancel()

    watching = asyncio.get_running_loop().create_task(watch())
    try:
        yield
    except asyncio.CancelledError:
        if not left:
            raise
        task.uncancel()
        raise ClientGone from None
    finally:
        watching.cancel()


def _text_or_pair(given: Any, tagging: bool) -> Any:
    """One text of /predict as the predictor takes it."""
    if isinstance(given, str):
        return given
    if len(given) == 1:
        return given[0]
    if tagging:
        raise Problem(
            422, "this model tags words and takes no pairs; for several texts send [[text], [text], ...] or use /tag"
        )
    return tuple(given)


def _label_list(names: Sequence[str], order: list[int], scores: list[float], top_k: int | None) -> list[dict[str, Any]]:
    pairs = zip(order[:top_k], scores, strict=False)
    return [{"label": names[label], "score": score} for label, score in pairs]


def _pooled(place: int, labels: list[dict[str, Any]], names: Sequence[str]) -> dict[str, Any]:
    """One text's labels as vLLM tells them: the best one, and the scores of all in the model's own order."""
    scores = {one["label"]: one["score"] for one in labels}
    best = max(labels, key=lambda one: one["score"])["label"]
    return {"index": place, "label": best, "probs": [scores[name] for name in names], "num_classes": len(names)}


def _applied(function: str, logits: list[float]) -> list[float]:
    """The scores of one text, where its sender chooses the function."""
    if function == "sigmoid":
        return [1 / (1 + math.exp(-logit)) if logit > -700 else 0.0 for logit in logits]
    largest = max(logits)
    powers = [math.exp(logit - largest) for logit in logits]
    total = sum(powers)
    return [power / total for power in powers]


def _response(request: Request, tenant: str, told: Told, body: bytes) -> Response:
    request.scope["datamux"].update(tenant=public_name(tenant), texts=told.texts, tokens=told.tokens, gear=told.gears)
    return Response(body, headers=told.headers, media_type="application/json")

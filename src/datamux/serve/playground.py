"""The page at `/`: try texts, see who shared a pass, and what neighbours change. The page at `/docs` lists the routes.

The pages are plain HTML, CSS and JavaScript in `playground/`, without a build step. They send nothing to any other
server: their content security policy does not allow it.
"""

import random
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Request, Response
from pydantic import BaseModel, Field

from datamux.serve.gears import Gear
from datamux.serve.recent import RecentPasses
from datamux.serve.refusals import BadInput
from datamux.serve.routes import stops_if_client_leaves
from datamux.serve.service import Service
from datamux.zoo.sentences import NEWS, OPINIONS

FOLDER = Path(__file__).parent / "playground"
# A file is listed after the files that it imports, because it holds their addresses.
FILES = (
    "icon.svg",
    "page.css",
    "api.js",
    "draw.js",
    "files.js",
    "size.js",
    "groups.js",
    "answers.js",
    "live.js",
    "page.js",
    "routes.js",
)
PAGES = {"/": "index.html", "/docs": "routes.html"}
KINDS = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
MOST_TEXTS = 256
SAFE = {
    "content-security-policy": "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
}


class Question(BaseModel):
    """What the page sends. Seed 0 groups the texts in the order given; every other seed shuffles them first."""

    texts: list[str] = Field(min_length=1, max_length=MOST_TEXTS)
    group_size: int = Field(ge=1)
    seed: int = Field(default=0, ge=0, le=2**31 - 1)


def add_playground(app: FastAPI, service: Service) -> None:
    """Add the page, its files and its JSON routes to `app`."""
    _add_files(app)
    recent = service.batcher.observer = RecentPasses(service.batcher.observer, lambda: service.batcher.waiting)

    @app.post("/playground/answers", include_in_schema=False)
    async def answers(request: Request) -> dict[str, Any]:
        tenant = service.tenant_of(request)
        question = Question.model_validate_json(await service.body_of(request, tenant))
        with stops_if_client_leaves(request):
            return await _answers(service, tenant, question)

    @app.get("/playground/stats", include_in_schema=False)
    async def stats(request: Request, response: Response) -> dict[str, Any]:
        service.tenant_of(request)
        response.headers["cache-control"] = "no-store"
        return recent.summary()

    @app.get("/playground/examples", include_in_schema=False)
    async def examples() -> dict[str, Any]:
        return {"texts": NEWS if service.predictor.token_level else OPINIONS}


def make_groups(texts: int, group_size: int, seed: int) -> list[list[int]]:
    """Which texts share a group, by number; their places in it are their slots."""
    order = list(range(texts))
    if seed:
        random.Random(seed).shuffle(order)
    return [order[start : start + group_size] for start in range(0, texts, group_size)]


async def _answers(service: Service, tenant: str, question: Question) -> dict[str, Any]:
    """The answer of every text among its neighbours, and the one that it gets alone."""
    gear = _gear(service.gearbox.gears, question.group_size)
    groups = make_groups(len(question.texts), question.group_size, question.seed)
    mixed, seconds = await _run(service, tenant, question.texts, groups, gear)
    singles = [[number] for number in range(len(question.texts))]
    alone, alone_seconds = await _run(service, tenant, question.texts, singles, service.gearbox.alone)
    told = _spans if service.predictor.token_level else _labels
    found = [
        _compare(number, group, slot, told(mixed[number]), told(alone[number]))
        for group, numbers in enumerate(groups)
        for slot, number in enumerate(numbers)
    ]
    return {
        "answers": sorted(found, key=lambda answer: answer["text_number"]),
        "group_size": question.group_size,
        "seconds": seconds,
        "alone_seconds": alone_seconds,
        "flips": sum(answer["changed"] for answer in found),
    }


async def _run(
    service: Service, tenant: str, texts: Sequence[str], groups: Sequence[Sequence[int]], gear: Gear
) -> tuple[dict[int, Any], float]:
    """The answer of each text, by number, and how many seconds the model took for all of them."""
    found = await service.batcher.run_groups(tenant, [[texts[number] for number in group] for group in groups], gear)
    pairs = [pair for some in zip(groups, found, strict=True) for pair in zip(*some, strict=True)]
    seconds = sum({answered.number: answered.ran for _, answered in pairs}.values())  # once per pass
    return {number: service.engine.predictor_answer(answered.answer) for number, answered in pairs}, seconds


def _gear(gears: Sequence[Gear], group_size: int) -> Gear:
    """The gear of this group size; sizes between two gears have no measurements."""
    for gear in gears:
        if gear.group_size == group_size:
            return gear
    if group_size > gears[-1].group_size:
        raise BadInput(f"group_size is {group_size}; this server allows 1 to {gears[-1].group_size}")
    fastest = gears[-1]
    return Gear(f"{group_size} texts per pass", group_size, fastest.engine, independent=fastest.independent)


def _compare(number: int, group: int, slot: int, mixed: dict[str, Any], alone: dict[str, Any]) -> dict[str, Any]:
    """One text's answer in its group, beside the answer that it gets by itself."""
    changed = _gist(mixed) != _gist(alone)
    return {"text_number": number, "group": group, "slot": slot, **mixed, "changed": changed, "alone": alone}


def _spans(answer: Any) -> dict[str, Any]:
    return {"spans": answer}


def _labels(answer: Any) -> dict[str, Any]:
    """A label with its score; or the names of all labels that hold, where there may be several."""
    if isinstance(answer, dict):
        return {"label": answer["label"], "score": answer["score"]}
    return {"label": ", ".join(found["label"] for found in answer), "score": None}


def _gist(told: dict[str, Any]) -> Any:
    """What must differ for an answer to count as changed: its labels, not its scores."""
    if "spans" in told:
        return [(span["start"], span["end"], span["entity_group"]) for span in told["spans"]]
    return told["label"]


def _add_files(app: FastAPI) -> None:
    """The page is asked for anew each time; its files have a new address whenever they change, and are kept."""
    kept = {"cache-control": "public, max-age=31536000, immutable", **SAFE}
    addresses: dict[str, str] = {}
    for name in FILES:
        content = _with_addresses((FOLDER / name).read_text(encoding="utf-8"), addresses)
        addresses[f"/{name}"] = f"/{name}?v={sha256(content).hexdigest()[:12]}"
        _add_file(app, f"/playground/{name}", content, f"{KINDS[Path(name).suffix]}; charset=utf-8", kept)
    for path, name in PAGES.items():
        page = _with_addresses((FOLDER / name).read_text(encoding="utf-8"), addresses)
        _add_file(app, path, page, "text/html; charset=utf-8", {"cache-control": "no-cache", **SAFE})


def _with_addresses(content: str, addresses: dict[str, str]) -> bytes:
    for name, address in addresses.items():
        content = content.replace(f'{name}"', f'{address}"')
    return content.encode()


def _add_file(app: FastAPI, path: str, content: bytes, kind: str, headers: dict[str, str]) -> None:
    async def file() -> Response:
        return Response(content, media_type=kind, headers=headers)

    app.add_api_route(path, file, methods=["GET", "HEAD"], include_in_schema=False)

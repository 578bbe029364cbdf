"""What a server holds: the model, its gears, the batcher, keys and metrics. Knows requests only by their tenant."""

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from fastapi import Request

import datamux
from datamux.inference.predictor import Predictor
from datamux.serve.batcher import Batcher, Engine, Limits
from datamux.serve.engine import PredictorEngine
from datamux.serve.errors import Problem
from datamux.serve.gears import Gear, Gearbox
from datamux.serve.health import TENANT as HEALTH
from datamux.serve.health import Heartbeat
from datamux.serve.keys import KeyFile
from datamux.serve.limits import Bodies, read_body
from datamux.serve.metrics import Metrics
from datamux.serve.settings import KEYS_FILE, Settings, group_sizes
from datamux.serve.tuned import load_gears, tuned_gears
from datamux.zoo import find_model

Card = dict[str, Any]
USUAL_SIZES = (1, 2, 5, 10, 20, 40, 80)
KEY, CONNECTION, EVERYONE = "key", "connection", "everyone"  # how the name of a tenant begins
NEIGHBOURS = (
    "Texts of one group are mixed, so a neighbour can change an answer: scores move, and labels may flip, more of them "
    "the larger the group. share_that_flips of each gear says how many labels differed when only the neighbours had "
    "changed, and audit (its numbers: audit_figures) what chosen neighbours can do, if it was measured. A group never "
    "holds texts of two tenants. Send mux: false for an answer that depends on no other text."
)


class Service:
    """One model behind one batcher. `gears` and `predictors` are the models of a tuned folder, which share the work."""

    def __init__(
        self,
        predictor: Predictor,
        *,
        name: str = "model",
        card: Card | None = None,
        settings: Settings | None = None,
        engine: Engine | None = None,
        gears: Sequence[Gear] = (),
        predictors: Mapping[str, Predictor] | None = None,
    ) -> None:
        self.predictor = predictor
        self.name = name
        self.card = card or {}
        self.settings = settings or Settings()
        fill: Any = self.settings.fill
        self.engine = PredictorEngine(predictors or {"model": predictor}, fill=fill)
        self._tuned = bool(gears)
        chosen = gears or choose_gears(predictor.num_instances, self.card, self.settings)
        self.gearbox = Gearbox([self._with_independence(gear) for gear in chosen])
        self.keys = keys_of(self.settings)
        self.batcher = Batcher(engine or self.engine, self.gearbox, _limits(self.settings))
        self._bodies = Bodies(self.settings.max_queue_characters)
        self.metrics = Metrics(self.batcher.waiting_by_tenant, public_name)
        self.metrics.healthy = lambda: self.batcher.healthy
        self.metrics.repeats = lambda: self.engine.repeats
        self.batcher.observer = self.metrics
        self.heartbeat = Heartbeat(self.batcher)

    def warm_up(self) -> None:
        """Run every gear once, so that the first request is not the slowest."""
        for gear in self.gearbox.gears:
            rows = [row for row, _ in self.engine.tokenise(["A text to warm up with."] * gear.group_size)]
            self.engine.answer([rows], gear)

    @property
    def needs_key(self) -> bool:
        """Whether clients need a key at the moment."""
        return self.keys is not None and self.keys.needed

    def tenant_of(self, request: Request) -> str:
        """Whose request this is. Texts of two tenants are never mixed."""
        if self.keys is not None and self.keys.needed:
            return f"{KEY} {owner_of(self.keys, request)}"
        if self.settings.single_tenant:
            return EVERYONE
        client = request.scope.get("client") or ("unknown", id(request))
        return f"{CONNECTION} {client[0]}:{client[1]}"

    async def body_of(self, request: Request, tenant: str) -> bytes:
        """The body of a request, which is not read if its tenant has no room for texts."""
        settings = self.settings
        self.batcher.check_room(tenant)
        return await read_body(request, settings.max_body_bytes, settings.body_timeout_ms / 1000, self._bodies)

    def check_metrics(self, tenant: str) -> None:
        """Metrics name all tenants, so the operator may keep them for one key."""
        reader = self.settings.metrics_key
        if self.needs_key and reader is not None and tenant != f"{KEY} {reader}":
            raise Problem(403, "this key may not read metrics; ask the operator for the one that may")

    def info(self) -> dict[str, Any]:
        """What /info tells: the model, what each gear costs and gains, and the limits."""
        limits, predictor = self.batcher.limits, self.predictor
        best = self._best_score()
        return {
            "model_id": self.name,
            "about": self.card.get("what"),
            "kind": "tagging" if predictor.token_level else "classification",
            "problem": None if predictor.token_level else predictor.problem,
            "labels": list(predictor.names),
            "capacity": predictor.num_instances,
            "max_input_tokens": predictor.texts.max_tokens,
            "metric": self.card.get("metric"),
            "measured_on": self.card.get("task"),
            "gears": [_told(gear, best) for gear in self.gearbox.gears],
            "deterministic": self.settings.deterministic,
            "fill": self.settings.fill,
            "neighbours": NEIGHBOURS,
            "audit": self.card.get("audit"),
            "audit_figures": self.card.get("audit_figures"),
            "tenants": "one per key"
            if self.needs_key
            else "all are one"
            if self.settings.single_tenant
            else "one per connection",
            "limits": {
                "max_wait_ms": limits.max_wait * 1000,
                "max_groups": limits.max_groups,
                "max_batch_tokens": limits.max_tokens,
                "max_queue": limits.max_queue,
                "max_tenant_queue": limits.max_tenant_queue,
                "max_queue_characters": limits.max_letters,
                "timeout_ms": limits.timeout * 1000,
                "max_body_bytes": self.settings.max_body_bytes,
            },
            "version": datamux.__version__,
        }

    def _with_independence(self, gear: Gear) -> Gear:
        runtime = self.engine.predictors[gear.engine].runtime
        return replace(gear, independent=runtime.groups_are_independent)

    def _best_score(self) -> float | None:
        """What drops are counted from: one text per pass, whether or not this server allows it.

        The gears of a tuned folder are several models, so there it is the most accurate gear.
        """
        alone: float | None = None if self._tuned else self.card.get("scores", {}).get("1")
        return self.gearbox.gears[0].score if alone is None else alone


def load_service(name: str, settings: Settings) -> Service:
    """The service of a model in the package, a folder or a name on the Hub."""
    import torch

    if settings.threads is not None:
        torch.set_num_threads(settings.threads)
    predictor = datamux.load(name, device=settings.device, bf16=settings.bf16, compiled=settings.compiled)
    folder = Path(find_model(name))
    gears = tuned_gears(folder, settings)
    predictors = load_gears(folder, gears, predictor, settings) if gears else None
    card = read_card(name)
    shown = Path(os.path.abspath(name)).name or name  # also of "." and ".."
    return Service(predictor, name=shown, card=card, settings=settings, gears=gears, predictors=predictors)


def read_card(name: str) -> Card:
    """The measurements that lie beside a model; empty if there are none."""
    file = Path(find_model(name)) / "card.json"
    card: Card = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    return card


def choose_gears(capacity: int, card: Card, settings: Settings) -> list[Gear]:
    """The gears that the operator allows, from the most accurate to the fastest."""
    scores = {int(size): float(score) for size, score in card.get("scores", {}).items()}
    speeds: dict[int, dict[str, float]] = {int(size): speed for size, speed in card.get("speed", {}).items()}
    sizes = _sizes(capacity, scores, settings)
    if settings.max_drop is not None:
        sizes = _within(settings.max_drop, sizes, scores, capacity)
    if settings.deterministic:
        sizes = [1]
    return [
        Gear(
            "plain" if capacity == 1 else f"mux-{size}",
            size,
            score=scores.get(size),
            speed=speeds.get(size, {}).get("texts_per_second"),
            ratio=speeds.get(size, {}).get("ratio"),
            flips=0.0 if size == 1 else card.get("flips", {}).get(str(size)),
        )
        for size in sizes
    ]


def _sizes(capacity: int, scores: dict[int, float], settings: Settings) -> list[int]:
    sizes = sorted({size for size in scores or USUAL_SIZES if size <= capacity} | {1, capacity})
    if settings.gears is not None:
        sizes = group_sizes(settings.gears)
    most = capacity if settings.max_group_size is None else settings.max_group_size
    for option, size in (("--gears", sizes[0]), ("--gears", sizes[-1]), ("--max-group-size", most)):
        if not 1 <= size <= capacity:
            raise ValueError(f"{option} has {size}; this model allows 1 to {capacity} texts per pass")
    if settings.max_group_size is not None:
        sizes = sorted({size for size in sizes if size <= most} | ({most} if settings.gears is None else set()))
    if not sizes:
        raise ValueError(f"no group size in --gears {settings.gears} is at most --max-group-size {most}")
    return sizes


def _within(drop: float, sizes: list[int], scores: dict[int, float], capacity: int) -> list[int]:
    if drop < 0:
        raise ValueError(f"--max-drop must be at least 0 points, got {drop:g}")
    if capacity > 1 and 1 not in scores:
        raise ValueError(
            "--max-drop needs the scores in the model's card.json, and this model has none; use --max-group-size"
        )
    kept = [size for size in sizes if size in scores and scores[size] >= scores[1] - drop / 100]
    if capacity > 1 and not kept:
        raise ValueError(f"no group size of {sizes} loses at most {drop:g} points; allow more, or use --gears 1")
    return kept or sizes


def public_name(tenant: str) -> str:
    """The name of a tenant in metrics and logs. Connections are not told apart: there are too many of them."""
    kind, _, name = tenant.partition(" ")
    if tenant == HEALTH:
        return HEALTH
    return name if kind == KEY else EVERYONE if kind == EVERYONE else "anonymous"


def _limits(settings: Settings) -> Limits:
    return Limits(
        max_wait=settings.max_wait_ms / 1000,
        max_groups=settings.max_groups,
        max_tokens=settings.max_batch_tokens,
        max_queue=settings.max_queue,
        max_tenant_queue=settings.max_tenant_queue,
        max_letters=settings.max_queue_characters,
        timeout=settings.timeout_ms / 1000,
        pass_timeout=settings.pass_timeout_ms / 1000,
    )


def keys_of(settings: Settings) -> KeyFile | None:
    """The file of keys, which need not exist yet; None if the operator wants none. An empty file lets nobody in."""
    if settings.no_keys:
        return None
    file = KeyFile(Path(settings.keys) if settings.keys else KEYS_FILE)
    if settings.keys and not file.file.exists():
        raise ValueError(
            f"no such file of keys: {file.file}; make one with `datamux serve keys add NAME --keys {settings.keys}`"
        )
    file.all()  # says so at once if the file cannot be read
    return file


def owner_of(keys: KeyFile, request: Request) -> str:
    """The name of the key that a request brings; status 401 if it brings none that is known."""
    name = keys.tenant(secret_of(request))
    if name is None:
        raise Problem(
            401,
            "the key is missing or unknown; send it as `Authorization: Bearer KEY` or `X-API-Key: KEY`",
            {"www-authenticate": "Bearer"},
        )
    return name


def secret_of(request: Request) -> str:
    """The key that a request brings; empty if it brings none."""
    scheme, _, secret = request.headers.get("authorization", "").partition(" ")
    return secret.strip() if scheme.lower() == "bearer" else request.headers.get("x-api-key", "")


def _told(gear: Gear, best: float | None) -> dict[str, Any]:
    drop = None if gear.score is None or best is None else round((best - gear.score) * 100, 3)
    return {
        "name": gear.name,
        "group_size": gear.group_size,
        "engine": gear.engine,
        "score": gear.score,
        "drop_in_points": drop,
        "texts_per_second": gear.speed,
        "times_plain": gear.ratio,
        "share_that_flips": gear.flips,
    }

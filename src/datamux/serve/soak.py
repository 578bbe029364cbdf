"""A long run through the real server: many clients of several tenants, and every answer is checked.

Two kinds of requests alternate. Mixed texts carry a number, so each is different: the answer that its client gets must
be exactly the one that the model gave for this text, whatever the gear and the neighbours. Texts with `mux: false`
depend on no other text: they must get the answer that the model gives without any server.
"""

import random
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from datamux.client import Client, ServerError
from datamux.inference.predictor import Predictor
from datamux.serve.background import running
from datamux.serve.engine import PredictorEngine, Row, Spans
from datamux.serve.gears import Gear
from datamux.serve.keys import KeyFile
from datamux.serve.memory import megabytes
from datamux.serve.service import Service
from datamux.serve.settings import Settings
from datamux.zoo.sentences import NEWS, OPINIONS

TOLERANCE = 1e-3  # between two logits of the same text, when only the padding differs
SAMPLES = 20  # how often memory is measured
FLAT = 30.0  # megabytes: memory that grows by more, from the first quarter of the run to its end, is not flat
ALONE = 4  # one request in so many has `mux: false`


class WitnessEngine:
    """An engine that remembers the answer it gave to each mixed text until the client's answer was compared with it."""

    def __init__(self, engine: PredictorEngine) -> None:
        self.engine = engine
        self.given: dict[str, Any] = {}
        self.doubled = self.mixed_tenants = 0
        self.gears: Counter[str] = Counter()

    def tokenise(self, texts: Any) -> list[tuple[Row, int]]:
        """Rows that keep their texts, so that `answer` knows them."""
        found = self.engine.tokenise(texts)
        return [(row._replace(text=text), length) for text, (row, length) in zip(texts, found, strict=True)]

    def answer(self, groups: list[list[Row]], gear: Gear) -> list[list[Any]]:
        found = self.engine.answer(groups, gear)
        for group, answers in zip(groups, found, strict=True):
            self.gears[gear.name] += len(group)
            texts = [row.text or "" for row in group]
            if not texts[0].startswith(MIXED):
                continue
            self.mixed_tenants += len(set(map(_tenant, texts))) > 1
            for text, answer in zip(texts, answers, strict=True):
                self.doubled += text in self.given
                self.given[text] = written(self.engine, answer)
        return found


MIXED = "Tenant"


def _text(tenant: int, number: int, body: str) -> str:
    digits = " ".join(str(number))  # apart: the tokenizer remembers words, and memory shall show only what leaks
    return f"{MIXED} {tenant} number {digits} : {body}"


def _tenant(text: str) -> str:
    return text.split(" ", 2)[1]


def written(engine: PredictorEngine, answer: Any) -> Any:
    """An answer as the server writes it with `raw_scores`."""
    if isinstance(answer, Spans):
        return answer.spans
    names = engine.main.names
    return [{"label": names[label], "score": logit} for label, logit in zip(answer.order, answer.logits, strict=True)]


class Soak:
    """The clients, and what they found."""

    def __init__(
        self, witness: WitnessEngine, bodies: list[str], known: dict[str, Any], texts: int, batch: int
    ) -> None:
        self.witness, self.bodies, self.known = witness, bodies, known
        self.texts, self.batch = texts, batch
        self.counts: Counter[str] = Counter()
        self.memory: list[tuple[int, float]] = []
        self.problems: list[str] = []
        self._asked = 0
        self._lock = threading.Lock()

    def run(self, url: str, keys: list[str], clients: int) -> None:
        with ThreadPoolExecutor(clients) as pool:
            each = [pool.submit(self._client, url, keys, number) for number in range(clients)]
            for one in each:
                one.result()

    def _client(self, url: str, keys: list[str], number: int) -> None:
        tenant = number % len(keys)
        client = Client(url, keys[tenant], retries=30)
        chance = random.Random(number)
        turn = 0
        while True:
            size = chance.choice((1, self.batch, 3 * self.batch))
            with self._lock:
                first, size = self._asked, min(size, self.texts - self._asked)
                self._asked += size
            if not size:
                return
            turn += 1
            bodies = [chance.choice(self.bodies) for _ in range(size)]
            mux = turn % ALONE > 0
            texts = [_text(tenant, first + place, body) for place, body in enumerate(bodies)] if mux else bodies
            self._ask(client, texts, mux)

    def _ask(self, client: Client, texts: list[str], mux: bool) -> None:
        try:
            answers = client.post("/predict", {"inputs": [[text] for text in texts], "raw_scores": True, "mux": mux})
        except ServerError as error:
            with self._lock:
                self.counts["errors"] += 1
                self.problems.append(str(error))
            return
        right = sum(map(self._is_right if mux else self._is_known, texts, answers))
        with self._lock:
            before = self.counts["answered"]
            self.counts["answered"] += len(answers)
            self.counts["lost"] += len(texts) - len(answers)
            self.counts["wrong"] += len(answers) - right
            self.counts["alone"] += 0 if mux else len(answers)
            step = max(1, self.texts // SAMPLES)
            if before // step < self.counts["answered"] // step:
                self.memory.append((self.counts["answered"], megabytes()))

    def _is_right(self, text: str, answer: Any) -> bool:
        return bool(self.witness.given.pop(text, None) == answer)

    def _is_known(self, text: str, answer: Any) -> bool:
        return alike(self.known[text], answer)


def alike(one: list[dict[str, Any]], other: list[dict[str, Any]]) -> bool:
    """Whether two answers say the same, with scores that differ by no more than rounding."""
    if len(one) != len(other):
        return False
    key = "label" if one and "label" in one[0] else "start"
    pairs = zip(sorted(one, key=lambda part: part[key]), sorted(other, key=lambda part: part[key]), strict=True)
    return all(a.keys() == b.keys() and all(_same(a[name], b[name]) for name in a) for a, b in pairs)


def _same(one: Any, other: Any) -> bool:
    return abs(one - other) <= TOLERANCE if isinstance(one, float) else bool(one == other)


def run_soak(
    predictor: Predictor,
    *,
    texts: int,
    tenants: int,
    clients: int,
    batch: int,
    name: str = "model",
    card: dict[str, Any] | None = None,
    different: int = 400,
    settings: Settings | None = None,
    tell: Callable[[str], None] = lambda line: None,
) -> dict[str, Any]:
    """Send `texts` texts, made of `different` ones, through a real server, and check every answer."""
    engine = PredictorEngine({"model": predictor})
    witness = WitnessEngine(engine)
    sentences = NEWS if predictor.token_level else OPINIONS
    bodies = [f"{one} {other}" for one in sentences for other in sentences][:different]
    known = _answers_without_server(engine, bodies)
    tell(f"{len(bodies)} different texts have known answers; {texts} texts are sent")
    with tempfile.TemporaryDirectory() as folder:
        keys = KeyFile(Path(folder) / "keys.json")
        secrets = [keys.add(f"tenant-{number}") for number in range(tenants)]
        chosen = settings or Settings()
        chosen = Settings(**{**vars(chosen), "port": 0, "keys": str(keys.file), "no_playground": True})
        service = Service(predictor, name=name, card=card, settings=chosen, engine=witness)
        soak = Soak(witness, bodies, known, texts, batch)
        before = time.perf_counter()
        with running(service) as url:
            soak.run(url, secrets, clients)
            seconds = time.perf_counter() - before
            healthy = Client(url).get("/health") == {"status": "ok"}
    growth = soak.memory[-1][1] - soak.memory[len(soak.memory) // 4][1] if len(soak.memory) > 1 else 0.0
    return {
        "texts": texts,
        "answered": soak.counts["answered"],
        "answered_alone": soak.counts["alone"],
        "wrong": soak.counts["wrong"],
        "lost": texts - soak.counts["answered"],
        "doubled": witness.doubled + len(witness.given),
        "groups_with_two_tenants": witness.mixed_tenants,
        "errors": soak.counts["errors"],
        "problems": soak.problems[:5],
        "healthy_afterwards": healthy,
        "texts_per_gear": dict(witness.gears),
        "seconds": seconds,
        "texts_per_second": texts / seconds,
        "memory_mb": [{"texts": count, "mb": mb} for count, mb in soak.memory],
        "memory_growth_mb": growth,
    }


def is_clean(found: dict[str, Any]) -> bool:
    """Whether a soak found nothing wrong."""
    counts = ("wrong", "lost", "doubled", "errors", "groups_with_two_tenants")
    flat = found["memory_growth_mb"] <= FLAT
    return found["healthy_afterwards"] and flat and not any(found[name] for name in counts)


def _answers_without_server(engine: PredictorEngine, bodies: list[str]) -> dict[str, Any]:
    gear = Gear("alone", 1)
    found: dict[str, Any] = {}
    for body in bodies:
        ((row, _),) = engine.tokenise([body])
        ((answer,),) = engine.answer([[row]], gear)
        found[body] = written(engine, answer)
    return found

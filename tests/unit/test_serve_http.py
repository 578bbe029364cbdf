"""The HTTP side in memory: shapes of other servers, one error format, keys, tenants, headers, metrics, health."""

import asyncio
import io
import json
import logging
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import httpx
import pytest
from starlette.requests import Request
from starlette.testclient import TestClient

from datamux.serve.app import create_app
from datamux.serve.batcher import Overloaded
from datamux.serve.errors import Problem
from datamux.serve.keys import KeyFile
from datamux.serve.limits import Bodies, read_body
from datamux.serve.logs import LOGGERS, set_up_logs
from serving import NamingEngine, ask, eventually, make_service, own_answers

TEXT = "the film was very good ."
TEXTS = ["good film", "bad plot", "anna lives in paris", "not a good film"]


@pytest.fixture(scope="module")
def client(classifier):
    with TestClient(create_app(make_service(classifier))) as client:
        yield client


@pytest.fixture(scope="module")
def tags(tagger):
    with TestClient(create_app(make_service(tagger))) as client:
        yield client


@pytest.fixture
def naming(classifier):
    """A client, its service, and an engine whose answers name their texts."""
    engine = NamingEngine()
    service = make_service(classifier, engine, max_wait_ms=50.0, single_tenant=True)
    with TestClient(create_app(service), raise_server_exceptions=False) as client:
        yield client, service, engine
        engine.hang.set()


def same(found, expected):
    assert [one["label"] for one in found] == [one["label"] for one in expected]
    assert [one["score"] for one in found] == pytest.approx([one["score"] for one in expected], abs=1e-5)


# Shapes


def test_predict_has_the_shape_of_text_embeddings_inference(client, classifier):
    (expected,) = own_answers(classifier, [TEXT])
    same(client.post("/predict", json={"inputs": TEXT}).json(), expected)
    same(client.post("/predict", json={"inputs": [TEXT]}).json(), expected)
    batch = client.post("/predict", json={"inputs": [[text] for text in TEXTS], "mux": False}).json()
    for found, one in zip(batch, own_answers(classifier, TEXTS), strict=True):
        same(found, one)


def test_predict_takes_pairs(client, classifier):
    (expected,) = own_answers(classifier, [("good film", "bad plot")])
    same(client.post("/predict", json={"inputs": ["good film", "bad plot"]}).json(), expected)
    mixed = client.post("/predict", json={"inputs": [["good film", "bad plot"], [TEXT]], "mux": False}).json()
    same(mixed[0], expected)
    same(mixed[1], own_answers(classifier, [TEXT])[0])


def test_predict_answers_the_hugging_face_client(client):
    plain = client.post("/predict", json={"inputs": TEXT}).json()
    assert client.post("/predict", json={"inputs": TEXT, "parameters": {}}).json() == [plain]
    best = client.post("/predict", json={"inputs": TEXT, "parameters": {"top_k": 1}}).json()
    assert best == [plain[:1]]
    raw = client.post("/predict", json={"inputs": TEXT, "raw_scores": True}).json()
    none = client.post("/predict", json={"inputs": TEXT, "parameters": {"function_to_apply": "none"}}).json()
    assert none == [raw]
    soft = client.post("/predict", json={"inputs": TEXT, "parameters": {"function_to_apply": "softmax"}}).json()
    same(soft[0], plain)
    each = client.post("/predict", json={"inputs": TEXT, "parameters": {"function_to_apply": "sigmoid"}}).json()
    assert all(0 < one["score"] < 1 for one in each[0])
    assert sum(one["score"] for one in each[0]) != pytest.approx(1.0)


def test_classify_has_the_shape_of_infinity(client, classifier):
    answer = client.post("/classify", json={"model": "tiny", "input": TEXTS, "mux": False}).json()
    assert (answer["object"], answer["model"]) == ("classify", "tiny")
    assert answer["id"].startswith("classify-")
    assert abs(answer["created"] - time.time()) < 60
    assert answer["usage"]["total_tokens"] == sum(classifier.texts.window(TEXTS).lengths)
    for found, one in zip(answer["data"], own_answers(classifier, TEXTS), strict=True):
        same(found, one)
    assert len(client.post("/classify", json={"input": TEXT, "top_k": 2}).json()["data"][0]) == 2


def test_classify_has_the_shape_of_vllm_if_the_operator_wants_it(classifier):
    with TestClient(create_app(make_service(classifier, classify_shape="vllm"))) as client:
        answer = client.post("/classify", json={"model": "tiny", "input": TEXTS, "mux": False}).json()
        document = client.get("/openapi.json").json()
    assert (answer["object"], answer["model"]) == ("list", "tiny")
    for place, (found, one) in enumerate(zip(answer["data"], own_answers(classifier, TEXTS), strict=True)):
        scores = {label["label"]: label["score"] for label in one}
        assert (found["index"], found["label"], found["num_classes"]) == (place, one[0]["label"], 3)
        assert found["probs"] == pytest.approx([scores[name] for name in classifier.names], abs=1e-5)
    shape = document["paths"]["/classify"]["post"]["responses"]["200"]["content"]["application/json"]["schema"]
    assert shape["$ref"].endswith("/PooledAnswer")
    with pytest.raises(ValueError, match="classify shape"):
        make_service(classifier, classify_shape="other")


def test_tag_gives_spans_with_offsets(tags, tagger):
    text = "anna lives in paris"
    (expected,) = own_answers(tagger, [text])
    assert expected, "the tiny tagger must find something"
    found = tags.post("/tag", json={"inputs": text}).json()
    assert [(s["entity_group"], s["word"], s["start"], s["end"]) for s in found] == [
        (s["entity_group"], text[s["start"] : s["end"]], s["start"], s["end"]) for s in expected
    ]
    assert tags.post("/tag", json={"inputs": [text]}).json()[0] == found
    assert tags.post("/tag", json={"inputs": [text.split()]}).json()[0] == found
    assert tags.post("/predict", json={"inputs": text, "parameters": {}}).json() == found
    left_out = {"ignore_labels": [expected[0]["entity_group"]]}
    kept = tags.post("/predict", json={"inputs": text, "parameters": left_out}).json()
    assert {s["entity_group"] for s in kept} == {s["entity_group"] for s in found} - {expected[0]["entity_group"]}


def test_a_route_of_another_kind_of_model_says_which_one_to_use(client, tags):
    for answer, status, hint in (
        (client.post("/tag", json={"inputs": TEXT}), 404, "use /predict or /classify"),
        (tags.post("/classify", json={"input": TEXT}), 404, "use /tag"),
        (tags.post("/predict", json={"inputs": ["a", "b"]}), 422, "takes no pairs"),
    ):
        assert answer.status_code == status
        assert hint in answer.json()["error"]


def test_long_texts_are_cut_and_told_or_refused(client):
    long = "very " * 300
    answer = client.post("/predict", json={"inputs": [[long], [TEXT]]})
    assert answer.headers["x-datamux-cut"] == "1"
    refused = client.post("/predict", json={"inputs": long, "truncate": False})
    assert (refused.status_code, refused.json()["error_type"]) == (422, "Validation")
    assert "this text has more than 50 tokens" in refused.json()["error"]
    many = [[TEXT]] * 300 + [[long]] + [[TEXT]]  # more than are tokenised together
    refused = client.post("/predict", json={"inputs": many, "truncate": False})
    assert "text 301 of 302 has more than 50 tokens" in refused.json()["error"]


def test_every_answer_says_how_it_came_about(client):
    answer = client.post("/predict", json={"inputs": TEXT}, headers={"x-request-id": "mine-1"})
    for name in ("compute", "total", "tokenization", "queue", "inference"):
        assert 0 <= float(answer.headers[f"x-{name}-time"]) < 10_000
    assert answer.headers["x-datamux-n"] == "1"
    assert answer.headers["x-datamux-gear"] == "mux-1"
    assert answer.headers["x-request-id"] == "mine-1"
    others = {client.get("/livez", headers={"x-request-id": "bad id"}).headers["x-request-id"] for _ in range(2)}
    assert len(others) == 2
    assert "bad id" not in others


# Errors

BAD = [
    ("/predict", b"", "Validation"),
    ("/predict", b"{", "Validation"),
    ("/predict", b"\xff\xfe\x00", "Validation"),
    ("/predict", b'{"inputs": "\\ud800"}', "Validation"),
    ("/predict", b"[" * 100_000, "Validation"),
    ("/predict", b'{"inputs": ' + b"[" * 5000 + b"]" * 5000 + b"}", "Validation"),
    ("/predict", b"null", "Validation"),
    ("/predict", b"{}", "Validation"),
    ("/predict", b'{"inputs": null}', "Validation"),
    ("/predict", b'{"inputs": 7}', "Validation"),
    ("/predict", b'{"inputs": []}', "Validation"),
    ("/predict", b'{"inputs": [[]]}', "Validation"),
    ("/predict", b'{"inputs": ["a", "b", "c"]}', "Validation"),
    ("/predict", b'{"inputs": [["a"], ["b", "c", "d"]]}', "Validation"),
    ("/predict", b'{"inputs": [["a"], "b"]}', "Validation"),
    ("/predict", b'{"inputs": "a", "raw_scores": "true"}', "Validation"),
    ("/predict", b'{"inputs": "a", "top_k": 0}', "Validation"),
    ("/predict", b'{"inputs": "a", "parameters": {"aggregation_strategy": "other"}}', "Validation"),
    ("/predict", b'{"inputs": [' + b"7," * 10_000 + b"7]}", "Validation"),
    ("/classify", b'{"input": {"text": "a"}}', "Validation"),
    ("/tag", b'{"inputs": [[1]]}', "Validation"),
]


@pytest.mark.parametrize(("path", "body", "kind"), BAD, ids=range(len(BAD)))
def test_bad_requests_get_one_format(client, path, body, kind):
    answer = client.post(path, content=body)
    assert answer.status_code == 422
    assert answer.headers["content-type"] == "application/json"
    assert set(answer.json()) == {"error", "error_type"}
    assert answer.json()["error_type"] == kind
    assert len(answer.content) < 1000, "the request must not come back"


def test_an_error_names_what_is_allowed(client):
    told = client.post("/predict", json={"inputs": ["a", "b", "c"]}).json()["error"]
    assert told.startswith('inputs must be "a text", ["a text", "its pair"], or a batch')


@pytest.mark.parametrize(
    ("method", "path", "status", "kind"),
    [
        ("GET", "/nothing", 404, "NotFound"),
        ("GET", "/predict", 405, "MethodNotAllowed"),
        ("DELETE", "/info", 405, "MethodNotAllowed"),
    ],
)
def test_unknown_addresses_and_methods_have_the_same_format(client, method, path, status, kind):
    answer = client.request(method, path)
    assert (answer.status_code, answer.json()["error_type"]) == (status, kind)


def test_texts_that_look_strange_are_answered(client):
    strange = ["", " ", "\x00", "a\x00b", "\u202e\u200b", "\n\r\t", "🙂" * 300, "é" * 5000, "x" * 100_000]
    for text in strange:
        assert client.post("/predict", json={"inputs": text}).status_code == 200, repr(text[:10])
    assert len(client.post("/predict", json={"inputs": [[text] for text in strange]}).json()) == len(strange)


def test_strange_words_are_tagged(tags):
    strange = [[""], ["", "anna"], ["\x00"], ["x" * 10_000], ["anna lives"], ["anna"] * 300]
    answers = tags.post("/tag", json={"inputs": strange}).json()
    assert len(answers) == len(strange)
    assert answers[0] == [], "a text without a letter has no names"
    for words, spans in zip(strange, answers, strict=True):
        text = " ".join(words)
        assert [span["word"] for span in spans] == [text[span["start"] : span["end"]] for span in spans]
        assert all(span["word"] and 0 < span["score"] <= 1 for span in spans)
    assert any(answers), "some of the words are names to this tagger"


def test_ten_thousand_texts_are_split_and_not_refused(client):
    answer = client.post("/classify", json={"input": ["good film", "bad plot"] * 5000, "top_k": 1})
    assert answer.status_code == 200
    assert len(answer.json()["data"]) == 10_000


class Counting(NamingEngine):
    """Knows how many texts are left."""

    def __init__(self, left: int) -> None:
        super().__init__()
        self.left = left

    def answer(self, groups, gear):
        found = super().answer(groups, gear)
        self.left -= sum(map(len, groups))
        return found


@pytest.mark.parametrize("shape", ["predict", "infinity", "vllm"])
def test_others_are_answered_while_a_long_answer_is_written(classifier, shape):
    """Counted in requests and not in seconds, which say nothing on a busy machine."""
    many = 20_000
    texts = [f"a {number}" for number in range(many)]
    engine = Counting(many)
    service = make_service(classifier, engine, max_groups=64, classify_shape=shape.replace("predict", "infinity"))
    path, body = (
        ("/predict", {"inputs": [[text] for text in texts]}) if shape == "predict" else ("/classify", {"input": texts})
    )

    async def scene():
        service.batcher.start()
        transport = httpx.ASGITransport(create_app(service))
        async with httpx.AsyncClient(transport=transport, base_url="http://server") as client:
            asking = asyncio.ensure_future(client.post(path, json=body, timeout=60))
            meanwhile = 0
            while not asking.done():
                await asyncio.sleep(0)  # nothing below waits for anything
                texts_are_answered = not engine.left
                assert (await client.get("/livez")).status_code == 200
                meanwhile += texts_are_answered and not asking.done()
        await service.batcher.close()
        return await asking, meanwhile

    answer, meanwhile = asyncio.run(scene())
    found = answer.json() if shape == "predict" else answer.json()["data"]
    if shape == "vllm":
        assert [one["index"] for one in found] == list(range(many))
        assert [one["probs"][2] for one in found] == list(range(many))
    else:
        assert [one[0]["score"] for one in found] == list(range(many))
    assert answer.headers["x-compute-tokens"] == str(5 * many)
    assert meanwhile > 20, "if all is written in one piece, it is one or none"


def test_a_body_that_is_too_long_is_refused_with_or_without_its_length(classifier):
    with TestClient(create_app(make_service(classifier, max_body_bytes=1000))) as client:
        body = json.dumps({"inputs": "x" * 2000}).encode()
        for content in (body, iter([body[:600], body[600:]])):
            answer = client.post("/predict", content=content)
            assert (answer.status_code, answer.json()["error_type"]) == (413, "TooLarge")
            assert "--max-body-bytes" in answer.json()["error"]
        assert client.post("/predict", json={"inputs": TEXT}).status_code == 200


def test_a_text_that_the_model_fails_on_gives_500_and_no_details(naming):
    client, _, _ = naming
    answer = client.post("/predict", json={"inputs": "poison 1"})
    assert (answer.status_code, answer.json()) == (
        500,
        {"error": "the model failed on this text", "error_type": "Backend"},
    )
    assert client.post("/predict", json={"inputs": "good 2"}).json()[0]["score"] == 2


def test_the_error_of_a_batch_says_which_text_was_bad(naming):
    client, _, _ = naming
    answer = client.post("/predict", json={"inputs": [["a 1"], ["b 2"], ["poison 3"], ["c 4"]]})
    assert (answer.status_code, answer.json()["error"]) == (500, "the model failed on text 3 of 4")


def test_a_failing_pass_is_tried_again_and_nobody_notices(naming):
    client, _, engine = naming
    engine.fail = 1
    answer = client.post("/predict", json={"inputs": [["a 1"], ["b 2"]]})
    assert [one[0]["score"] for one in answer.json()] == [1, 2]


def test_a_bug_of_ours_is_a_500_in_the_same_format(naming, monkeypatch):
    client, service, _ = naming

    def bug() -> None:
        raise KeyError("secret text")

    monkeypatch.setattr(service, "info", bug)
    answer = client.get("/info")
    assert (answer.status_code, answer.json()["error_type"]) == (500, "Backend")
    assert "secret" not in answer.text


@contextmanager
def full(classifier, **settings):
    """A client of a server with room for one text, which waits behind a pass that hangs until the engine goes on."""
    engine = NamingEngine()
    engine.hang.clear()
    settings = {"max_tenant_queue": 1, "max_groups": 1, "gears": "1", "single_tenant": True} | settings
    service = make_service(classifier, engine, **settings)
    with TestClient(create_app(service)) as client, ThreadPoolExecutor(2) as pool:
        try:
            running = pool.submit(client.post, "/predict", json={"inputs": "a 1"})
            assert eventually(lambda: engine.groups)
            waiting = pool.submit(client.post, "/predict", json={"inputs": "a 2"})
            assert eventually(lambda: service.batcher.waiting == 1)
            yield client, service
        finally:
            engine.hang.set()
        assert [one.result(10).status_code for one in (running, waiting)] == [200, 200]


def test_a_full_queue_gives_429_with_retry_after(classifier):
    with full(classifier) as (client, service):
        refused = [client.post("/predict", json={"inputs": f"b {number}"}) for number in range(3)]
    for answer in refused:
        assert answer.status_code == 429
        assert int(answer.headers["retry-after"]) >= 1
        assert answer.json()["error_type"] == "Overloaded"
    metrics = service.metrics.text().decode()
    assert 'datamux_refused_requests_total{reason="Overloaded",tenant="everyone"} 3.0' in metrics


def test_the_body_of_a_request_that_would_be_refused_is_not_read(classifier):
    """Otherwise a full server would read, hold and parse megabytes only to say no."""
    with full(classifier, max_body_bytes=500) as (client, _):
        refused = client.post("/predict", content=b"x" * 1000)
    assert refused.status_code == 429, "and not 413: its length was not looked at"
    with TestClient(create_app(make_service(classifier, NamingEngine(), max_body_bytes=500))) as client:
        assert client.post("/predict", content=b"x" * 1000).status_code == 413


def test_bodies_that_are_being_read_have_a_limit_together():
    bodies = Bodies(100)

    def request(*parts):
        messages = iter([{"type": "http.request", "body": part, "more_body": True} for part in parts])

        async def receive():
            found = next(messages, None)
            return found or await asyncio.Event().wait()

        return Request({"type": "http", "headers": []}, receive)

    async def scene():
        slow = asyncio.ensure_future(read_body(request(b"x" * 60), 1000, 5.0, bodies))
        await asyncio.sleep(0.01)
        with pytest.raises(Problem, match="too many requests are being sent") as found:
            await read_body(request(b"x" * 60), 1000, 5.0, bodies)
        assert found.value.status == 429
        assert bodies.held == 60, "only the refused one has gone"
        slow.cancel()
        await asyncio.wait({slow})
        assert bodies.held == 0

    asyncio.run(scene())


def test_a_request_that_takes_too_long_gives_504(classifier):
    engine = NamingEngine()
    engine.seconds = 0.3
    with TestClient(create_app(make_service(classifier, engine, timeout_ms=100.0))) as client:
        answer = client.post("/predict", json={"inputs": "a 1"})
        assert (answer.status_code, answer.json()["error_type"]) == (504, "Timeout")


def test_a_hanging_model_turns_health_red_and_back(classifier):
    engine = NamingEngine()
    engine.hang.clear()
    with TestClient(create_app(make_service(classifier, engine, pass_timeout_ms=100.0))) as client:
        assert client.post("/predict", json={"inputs": "a 1"}).status_code == 504
        for path in ("/health", "/readyz", "/livez"):
            answer = client.get(path)
            assert (answer.status_code, answer.json()["error_type"]) == (503, "Unhealthy")
        refused = client.post("/predict", json={"inputs": "a 2"})
        assert (refused.status_code, "retry-after" in refused.headers) == (503, True)
        engine.hang.set()
        time.sleep(0.2)
        assert client.get("/health").status_code == 200
        assert client.post("/predict", json={"inputs": "a 3"}).json()[0]["score"] == 3


def test_health_really_asks_the_model(naming):
    client, _, engine = naming
    assert client.get("/health").status_code == 200
    assert [texts for texts, _ in engine.groups] == [["Is the model still there?"]]
    assert client.get("/readyz").status_code == 200
    assert len(engine.groups) == 1, "a pass that just succeeded counts"


def test_health_is_red_when_the_model_fails(naming):
    client, _, engine = naming
    engine.fail = 10
    answer = client.get("/health")
    assert (answer.status_code, answer.json()["error"]) == (503, "the model failed on this text")


def test_health_is_red_when_the_tokenizer_breaks(naming, monkeypatch, caplog):
    client, _, engine = naming

    def broken(texts):
        raise KeyError("no such token")

    monkeypatch.setattr(engine, "tokenise", broken)
    for path in ("/health", "/readyz"):
        answer = client.get(path)
        assert (answer.status_code, answer.json()["error"]) == (503, "the model does not answer")
    assert "a health check failed" in caplog.text
    assert client.post("/predict", json={"inputs": "a 1"}).status_code == 500


def test_a_full_queue_is_healthy_only_while_passes_succeed(classifier):
    """The queue is full for everybody, and the model fails every pass."""
    service = make_service(classifier, NamingEngine(), pass_timeout_ms=2000.0)
    batcher = service.batcher

    async def full(*given, **options):
        raise Overloaded("100 texts wait already")

    async def scene() -> list[str]:
        batcher.start()
        batcher.submit = full
        found = [await service.heartbeat.problem()]  # the server has just started
        batcher.started -= 10
        found.append(await service.heartbeat.problem())
        batcher._passes.last_success = asyncio.get_running_loop().time() - 1.9
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("datamux.serve.health.RECENT", 0.0)
            found.append(await service.heartbeat.problem())
        await batcher.close()
        return found

    assert asyncio.run(scene()) == ["", "100 texts wait already", ""]


# Tenants, keys and gears


@pytest.fixture
def keyed(classifier, tmp_path):
    keys = KeyFile(tmp_path / "keys.json")
    secrets = {name: keys.add(name) for name in ("anna", "bob")}
    engine = NamingEngine()
    settings = {"no_keys": False, "keys": str(keys.file), "max_wait_ms": 100.0}
    service = make_service(classifier, engine, gears="4", **settings)
    with TestClient(create_app(service)) as client:
        yield client, secrets, engine, service


def test_a_key_is_needed_and_both_headers_work(keyed):
    client, secrets, _, _ = keyed
    for headers in ({}, {"authorization": "Bearer dmx_no"}, {"authorization": f"Basic {secrets['anna']}"}):
        for method, path in (("POST", "/predict"), ("POST", "/tag"), ("GET", "/info"), ("GET", "/metrics")):
            answer = client.request(method, path, headers=headers)
            assert (answer.status_code, answer.json()["error_type"]) == (401, "Unauthorized")
            assert answer.headers["www-authenticate"] == "Bearer"
    for path in ("/health", "/livez", "/readyz", "/openapi.json"):
        assert client.get(path).status_code == 200, path
    for headers in ({"authorization": f"Bearer {secrets['anna']}"}, {"x-api-key": secrets["bob"]}):
        assert client.post("/predict", json={"inputs": "a 1"}, headers=headers).status_code == 200


def test_texts_of_two_tenants_are_never_mixed(keyed):
    client, secrets, engine, service = keyed

    def ask(number: int):
        name = ("anna", "bob")[number % 2]
        texts = [[f"{name} {number * 10 + place}"] for place in range(1 + number % 3)]
        answer = client.post("/predict", json={"inputs": texts}, headers={"x-api-key": secrets[name]})
        assert [one[0]["score"] for one in answer.json()] == [number * 10 + place for place in range(1 + number % 3)]

    with ThreadPoolExecutor(12) as pool:
        list(pool.map(ask, range(60)))
    mixed = [texts for texts, _ in engine.groups if len(texts) > 1]
    assert mixed, "some texts must have shared a group"
    assert all(len({text.split()[0] for text in texts}) == 1 for texts, _ in engine.groups)
    lines = service.metrics.text().decode()
    for name in secrets:
        assert f'datamux_texts_total{{gear="mux-4",tenant="{name}"}} 60.0' in lines
        assert secrets[name] not in lines


def test_the_operator_may_keep_metrics_for_one_key(classifier, tmp_path):
    keys = KeyFile(tmp_path / "keys.json")
    secrets = {name: keys.add(name) for name in ("anna", "operator")}
    settings = {"no_keys": False, "keys": str(keys.file)}
    for reader, expected in ((None, {"anna": 200, "operator": 200}), ("operator", {"anna": 403, "operator": 200})):
        service = make_service(classifier, NamingEngine(), metrics_key=reader, **settings)
        with TestClient(create_app(service)) as client:
            found = {name: client.get("/metrics", headers={"x-api-key": key}) for name, key in secrets.items()}
            assert client.get("/metrics").status_code == 401
        assert {name: answer.status_code for name, answer in found.items()} == expected
    assert found["anna"].json()["error_type"] == "Forbidden"


def test_without_keys_every_connection_is_a_tenant_of_its_own(classifier):
    for single, expected in ((False, {1}), (True, {2, 4})):
        engine = NamingEngine()
        service = make_service(classifier, engine, gears="4", max_wait_ms=300.0, single_tenant=single)
        app = create_app(service)
        with TestClient(app) as client:
            portal = client.portal
            assert portal is not None
            others = [TestClient(app, client=("10.0.0.1", port)) for port in range(4)]
            for other in others:
                other.portal = portal  # the same event loop
            with ThreadPoolExecutor(4) as pool:
                list(pool.map(lambda one: one.post("/predict", json={"inputs": "a 1"}), others))
        assert {len(texts) for texts, _ in engine.groups} <= expected | ({1, 3} if single else set())
        assert single == any(len(texts) > 1 for texts, _ in engine.groups)


def test_mux_false_and_deterministic_run_each_text_by_itself(classifier):
    texts = [[f"a {number}"] for number in range(9)]
    for settings, asked in (({"gears": "4"}, {"mux": False}), ({"deterministic": True}, {})):
        engine = NamingEngine()
        with TestClient(create_app(make_service(classifier, engine, **settings))) as client:
            answer = client.post("/predict", json={"inputs": texts, **asked})
        assert answer.headers["x-datamux-n"] == "1"
        assert {len(group) for group, _ in engine.groups} == {1}


def test_the_gear_shifts_up_under_load_and_down_again(classifier):
    engine = NamingEngine()
    card = {"scores": {"1": 0.8, "2": 0.8, "4": 0.79}}
    service = make_service(classifier, engine, card, max_groups=4, max_wait_ms=20.0)
    with TestClient(create_app(service)) as client:
        seen = []
        for count in (1, 4, 7, 16, 3):
            answer = client.post("/predict", json={"inputs": [[f"a {number}"] for number in range(count)]})
            seen.append((answer.headers["x-datamux-gear"], answer.headers["x-datamux-n"]))
    assert seen == [("mux-1", "1"), ("mux-1", "1"), ("mux-2", "1,2"), ("mux-4", "4"), ("mux-1", "1")]


def test_max_drop_bounds_the_gears_and_info_tells_them(classifier):
    card = {"what": "Good?", "metric": "accuracy", "scores": {"1": 0.8, "2": 0.795, "4": 0.7},
            "speed": {"2": {"texts_per_second": 20.0, "ratio": 1.9}}, "flips": {"2": 0.03},
            "audit": "3% flip.", "audit_figures": {"share_that_flips": 0.03}}  # fmt: skip
    engine = NamingEngine()
    with TestClient(create_app(make_service(classifier, engine, card, max_drop=1.0, max_groups=2))) as client:
        client.post("/predict", json={"inputs": [[f"a {number}"] for number in range(40)]})
        info = client.get("/info").json()
    assert max(len(texts) for texts, _ in engine.groups) == 2
    assert (info["capacity"], info["labels"], info["about"]) == (4, ["neg", "neutral", "pos"], "Good?")
    told = [(g["group_size"], g["drop_in_points"], g["texts_per_second"], g["times_plain"]) for g in info["gears"]]
    assert told == [(1, 0.0, None, None), (2, 0.5, 20.0, 1.9)]
    assert [gear["share_that_flips"] for gear in info["gears"]] == [0.0, 0.03]
    assert (info["audit"], info["audit_figures"]) == ("3% flip.", {"share_that_flips": 0.03})
    assert "never holds texts of two tenants" in info["neighbours"]
    for field in ("share_that_flips", "audit_figures"):
        assert field in info["neighbours"]
    assert info["limits"]["max_body_bytes"] == 2_000_000


def test_metrics_tell_what_the_batcher_does(naming):
    client, _, _ = naming
    client.post("/predict", json={"inputs": [[f"a {number}"] for number in range(5)]})
    lines = client.get("/metrics").text.splitlines()
    for line in (
        'datamux_passes_total{gear="mux-1",reason="waited",result="ok"} 1.0',
        'datamux_texts_total{gear="mux-1",tenant="everyone"} 5.0',
        "datamux_tokens_total 25.0",
        'datamux_group_size_count{gear="mux-1"} 5.0',
        'datamux_fill_ratio_sum{gear="mux-1"} 1.0',
        "datamux_queue_seconds_count 5.0",
        "datamux_healthy 1.0",
        'datamux_requests_total{route="/predict",status="200"} 1.0',
    ):
        assert line in lines
    client.get("/secret/path")
    assert not any("secret" in line for line in client.get("/metrics").text.splitlines())


def test_repeated_texts_are_counted(classifier):
    service = make_service(classifier, fill="repeat", gears="4")
    with TestClient(create_app(service)) as client:
        answer = client.post("/predict", json={"inputs": [["good film"], ["bad plot"], ["a film"], ["bad"], ["good"]]})
    assert answer.headers["x-datamux-n"] == "1,4"
    assert b"datamux_repeated_slots_total 3.0" in service.metrics.text()


def test_logs_are_json_lines_without_texts(naming):
    client, _, _ = naming
    out = io.StringIO()
    before = {name: (logging.getLogger(name).handlers, logging.getLogger(name).level) for name in LOGGERS}
    set_up_logs("info", out)
    try:
        for told in ("Task exception was never retrieved\nfuture: <Task exception=ValueError('secret')>",
                     "Exception in callback tell('secret')"):  # fmt: skip
            logging.getLogger("asyncio").error(told, exc_info=ValueError("secret"))
        client.post("/predict", json={"inputs": "secret 1"})
        client.post("/predict", json={"inputs": "poison secret 2"})
        client.post("/predict", json={"inputs": ["secret"] * 3})
    finally:
        for name, (handlers, level) in before.items():
            logging.getLogger(name).handlers = handlers
            logging.getLogger(name).setLevel(level)
            logging.getLogger(name).propagate = True
    lines = [json.loads(line) for line in out.getvalue().splitlines()]
    assert [line["event"] for line in lines[:2]] == [
        "asyncio: Task exception was never retrieved",
        "asyncio: Exception in callback tell",
    ]
    requests = [line for line in lines if line["event"] == "request"]
    assert [line["status"] for line in requests] == [200, 500, 422]
    assert {"time", "level", "id", "method", "route", "ms", "tenant", "texts", "tokens", "gear"} <= set(requests[0])
    assert "secret" not in out.getvalue()


def test_a_client_that_leaves_is_dropped_and_counted(classifier):
    """Driven as uvicorn drives it: the client is gone while its text waits behind another pass."""
    engine = NamingEngine()
    engine.hang.clear()
    service = make_service(classifier, engine, single_tenant=True)
    app = create_app(service)

    async def scene() -> list:
        service.batcher.start()
        stays, leaves = asyncio.Event(), asyncio.Event()
        first = asyncio.create_task(ask(app, "/predict", {"inputs": "first 1"}, stays))
        await asyncio.sleep(0.1)
        second = asyncio.create_task(ask(app, "/predict", {"inputs": "second 2"}, leaves))
        await asyncio.sleep(0.1)
        leaves.set()
        gone = await second
        engine.hang.set()
        answered = await first
        await service.batcher.close()
        return [gone[0]["status"], answered[0]["status"]]

    assert asyncio.run(scene()) == [499, 200]
    assert [texts for texts, _ in engine.groups] == [["first 1"]]
    assert b'datamux_texts_total{gear="mux-1",tenant="everyone"} 1.0' in service.metrics.text()
    assert b'datamux_dropped_texts_total{reason="client left",tenant="everyone"} 1.0' in service.metrics.text()


def test_the_playgrounds_work_is_dropped_when_its_client_leaves(classifier):
    engine = NamingEngine()
    engine.hang.clear()
    service = make_service(classifier, engine, single_tenant=True, no_playground=False)
    app = create_app(service)
    question = {"texts": [f"a {number}" for number in range(200)], "group_size": 1}

    async def scene() -> list:
        leaves = asyncio.Event()
        service.batcher.start()
        asking = asyncio.create_task(ask(app, "/playground/answers", question, leaves))
        await asyncio.sleep(0.1)
        leaves.set()
        sent = await asking
        engine.hang.set()
        await service.batcher.close()
        return sent

    sent = asyncio.run(scene())
    assert sent[0]["status"] == 499
    assert len(engine.groups) <= service.batcher.limits.max_groups  # the pass that ran when the client left
    assert b'datamux_dropped_texts_total{reason="client left",tenant="everyone"} 200.0' in service.metrics.text()
    assert b"datamux_texts_total{" not in service.metrics.text(), "the pass ran, but nobody got its answers"


def test_openapi_describes_requests_with_examples_that_work(client):
    document = client.get("/openapi.json").json()
    for path in ("/predict", "/classify"):
        body = document["paths"][path]["post"]["requestBody"]["content"]["application/json"]
        assert body["schema"]["$ref"].removeprefix("#/components/schemas/") in document["components"]["schemas"]
        for example in body["examples"].values():
            assert client.post(path, json=example["value"]).status_code == 200
        assert {"401", "413", "422", "429", "500", "503", "504"} <= set(document["paths"][path]["post"]["responses"])

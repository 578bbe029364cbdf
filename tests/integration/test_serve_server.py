"""The server as its users meet it: real sockets, real clients, hostile senders, SIGTERM under load, a short soak."""

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import pairwise
from pathlib import Path
from typing import ClassVar
from urllib.parse import urlsplit

import huggingface_hub
import pytest
import requests
from huggingface_hub import InferenceClient

import datamux
from command_line import command
from datamux.client import ServerError
from datamux.serve import routes
from datamux.serve.background import running
from datamux.serve.keys import KeyFile
from datamux.serve.passes import Passes
from datamux.serve.queues import TenantQueues
from datamux.serve.settings import Settings
from datamux.serve.soak import is_clean, run_soak
from datamux.serve.tickets import Ticket
from serving import NamingEngine, make_predictor, make_service, own_answers

TESTS = Path(__file__).parents[1]
TEXTS = ["good film", "the plot was very bad .", "not good", "the film is very very good .", "bad", "anna lives"] * 7


@pytest.fixture(scope="module")
def url(classifier):
    with running(make_service(classifier, body_timeout_ms=400.0)) as url:
        yield url


@pytest.fixture(scope="module")
def tagging_url(tagger):
    with running(make_service(tagger)) as url:
        yield url


@pytest.fixture
def online(monkeypatch):
    """The Hugging Face client refuses even this machine's own servers while tests run offline."""
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", False)


def connect(url: str) -> socket.socket:
    parts = urlsplit(url)
    return socket.create_connection((parts.hostname, parts.port), timeout=10)


def everything(sock: socket.socket) -> bytes:
    """What the server sends until it closes the connection; it must do so in ten seconds."""
    found = b""
    while part := sock.recv(65_536):
        found += part
    return found


def healthy(url: str) -> bool:
    answer = requests.post(f"{url}/predict", json={"inputs": "good film"}, timeout=10)
    return answer.status_code == 200 and requests.get(f"{url}/health", timeout=10).status_code == 200


# Clients


def test_the_hugging_face_client_classifies(url, classifier, online):
    client = InferenceClient(model=f"{url}/predict")
    found = client.text_classification("good film")
    (expected,) = own_answers(classifier, ["good film"])
    assert [(one.label, pytest.approx(one.score, abs=1e-5)) for one in found] == [
        (one["label"], one["score"]) for one in expected
    ]
    assert len(client.text_classification("good film", top_k=2)) == 2
    raw = client.text_classification("good film", function_to_apply="none")
    assert [one.label for one in raw] == [one.label for one in found]


def test_the_hugging_face_client_tags(tagging_url, tagger, online):
    client = InferenceClient(model=f"{tagging_url}/predict")
    text = "anna lives in paris"
    (expected,) = own_answers(tagger, [text])
    assert expected
    for strategy in (None, "none", "simple", "first", "average", "max"):
        found = client.token_classification(text, aggregation_strategy=strategy)
        assert [(one.entity_group, one.word, one.start, one.end) for one in found] == [
            (one["entity_group"], one["word"], one["start"], one["end"]) for one in expected
        ], strategy


def test_our_client_answers_as_the_predictor_does(url, classifier):
    client = datamux.Client(url, batch_size=5)
    expected = own_answers(classifier, TEXTS)
    found = client(TEXTS, mux=False)
    assert client(TEXTS, 1) == found
    with pytest.raises(ValueError, match="the server decides how many texts share a pass"):
        client(TEXTS, group_size=20)
    with pytest.raises(ValueError, match=r"a client reads no files, got texts\.txt; give it the texts"):
        client(Path("texts.txt"))
    assert [one["label"] for one in found] == [one[0]["label"] for one in expected]
    assert [one["score"] for one in found] == pytest.approx([one[0]["score"] for one in expected], abs=1e-5)
    stream = client((text for text in TEXTS), mux=False, top_k=2)
    assert not isinstance(stream, list)
    assert [[label["label"] for label in one] for one in stream] == [
        [label["label"] for label in one[:2]] for one in expected
    ]
    assert client("good film")[0]["label"] == expected[0][0]["label"]
    assert client([]) == []
    pair = client([("good film", "bad plot"), {"text": "good film", "text_pair": "bad plot"}], mux=False)
    assert pair[0]["score"] == pytest.approx(pair[1]["score"], abs=1e-5)
    assert client.info["capacity"] == 4


def test_our_client_tags(tagging_url, tagger):
    client = datamux.Client(tagging_url)
    text = "anna lives in paris"
    (expected,) = own_answers(tagger, [text])
    for found in (client(text), client([text])[0], client([text.split()])[0]):
        assert [(one["entity_group"], one["start"]) for one in found] == [
            (one["entity_group"], one["start"]) for one in expected
        ]
    with pytest.raises(ValueError, match="either texts or lists of words"):
        client([text, text.split()])


def test_our_client_sends_its_key(classifier, tmp_path, online):
    keys = KeyFile(tmp_path / "keys.json")
    key = keys.add("anna")
    with running(make_service(classifier, no_keys=False, keys=str(keys.file))) as url:
        assert len(datamux.Client(url, key)(["good film"])) == 1
        with pytest.raises(ServerError, match="key is missing or unknown") as refused:
            datamux.Client(url, "dmx_wrong")(["good film"])
        assert (refused.value.status, refused.value.kind) == (401, "Unauthorized")
        assert InferenceClient(model=f"{url}/predict", token=key).text_classification("good film")


def test_the_first_key_protects_a_server_that_runs_already(classifier, tmp_path, monkeypatch):
    file = tmp_path / "config" / "keys.json"
    monkeypatch.setattr("datamux.serve.service.KEYS_FILE", file)
    service = make_service(classifier, no_keys=False, metrics_key="operator")
    with running(service) as url, running(make_service(classifier, no_keys=True)) as never:
        assert healthy(url)
        assert requests.get(f"{url}/info", timeout=10).json()["tenants"] == "one per connection"
        assert requests.get(f"{url}/metrics", timeout=10).status_code == 200
        key = KeyFile(file).add("anna")
        began = time.monotonic()
        _until(lambda: requests.get(f"{url}/info", timeout=10).status_code == 401)
        assert time.monotonic() - began < 2.0
        assert requests.post(f"{url}/predict", json={"inputs": "good film"}, timeout=10).status_code == 401
        mine = {"x-api-key": key}
        assert requests.post(f"{url}/predict", json={"inputs": "good"}, headers=mine, timeout=10).status_code == 200
        assert requests.get(f"{url}/info", headers=mine, timeout=10).json()["tenants"] == "one per key"
        assert requests.get(f"{url}/metrics", headers=mine, timeout=10).status_code == 403
        assert requests.get(f"{url}/health", timeout=10).status_code == 200
        assert healthy(never), "with --no-keys it never asks"


class Busy(BaseHTTPRequestHandler):
    """Refuses the first requests, each in another way, then answers."""

    protocol_version = "HTTP/1.1"
    refusals: ClassVar[list] = []
    seconds: ClassVar[float] = 0.0

    def do_GET(self):
        self._answer(200, {"kind": "classification", "problem": "single_label_classification"})

    def do_POST(self):
        texts = json.loads(self.rfile.read(int(self.headers["content-length"])))["inputs"]
        if self.refusals:
            status, headers = self.refusals.pop(0)
            if not status:
                self.close_connection = True
                return
            self._answer(status, {"error": "busy", "error_type": "Overloaded"}, headers)
        else:
            time.sleep(self.seconds)
            self._answer(200, [[{"label": text[0], "score": 1.0}] for text in texts])

    def _answer(self, status, answer, headers=()):
        body = json.dumps(answer).encode()
        self.send_response(status)
        for name, value in (*headers, ("content-length", len(body))):
            self.send_header(name, str(value))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *given):
        pass


@pytest.fixture
def busy():
    server = ThreadingHTTPServer(("127.0.0.1", 0), Busy)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def test_our_client_waits_longer_with_each_refusal(busy):
    Busy.refusals = [(429, [("retry-after", 3)]), (503, []), (0, []), (429, [])]
    pauses: list[float] = []
    client = datamux.Client(busy, sleep=pauses.append, in_flight=1)
    assert client(["a", "b"]) == [{"label": "a", "score": 1.0}, {"label": "b", "score": 1.0}]
    assert len(pauses) == 4
    for pause, least in zip(pauses, (3.0, 0.2, 0.4, 0.8), strict=True):
        assert least <= pause <= 1.25 * least


def test_a_stream_that_is_left_early_is_not_waited_for(busy, monkeypatch):
    stream = datamux.Client(busy, batch_size=1)(iter("abcdefgh"))
    assert next(stream)["label"] == "a"
    monkeypatch.setattr(Busy, "seconds", 2.0)
    assert next(stream)["label"] == "b"  # from now on, others are on their way
    began = time.monotonic()
    stream.close()
    assert time.monotonic() - began < 1.0


def test_our_client_gives_up_in_the_end(busy):
    Busy.refusals = [(429, [])] * 3
    with pytest.raises(ServerError, match="busy") as refused:
        datamux.Client(busy, sleep=lambda seconds: None, retries=2)(["a"])
    assert (refused.value.status, Busy.refusals) == (429, [])
    with pytest.raises(ServerError, match="no answer from"):
        datamux.Client("http://127.0.0.1:9", sleep=lambda seconds: None, retries=1)(["a"])
    for wrong in ({"retries": -1}, {"batch_size": 0}, {"in_flight": 0}):
        with pytest.raises(ValueError, match="must be at least"):
            datamux.Client(busy, **wrong)
    with pytest.raises(ValueError, match="must look like"):
        datamux.Client("127.0.0.1:8080")


# Hostile senders

HEAD = b"POST /predict HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: "
GARBAGE = {
    "not http": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" * 20,
    "a bad length": HEAD + b"ten\r\n\r\n",
    "a negative length": HEAD + b"-5\r\n\r\n",
    "two lengths": HEAD + b"5\r\ncontent-length: 7\r\n\r\n12345",
    "a bad chunk": b"POST /predict HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n",
    "a huge head": b"GET / HTTP/1.1\r\nhost: x\r\nx-long: " + b"a" * 200_000 + b"\r\n\r\n",
    "a strange method": b"BREW /predict HTTP/1.1\r\nhost: x\r\n\r\n",
    "a strange path": b"GET /%00%ff/../../etc/passwd HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n",
    "an upgrade": b"GET /info HTTP/1.1\r\nhost: x\r\nconnection: upgrade, close\r\nupgrade: websocket\r\n\r\n",
}


@pytest.mark.parametrize("name", GARBAGE)
def test_garbage_is_refused_without_a_500(url, name):
    with connect(url) as sock:
        sock.sendall(GARBAGE[name])
        try:
            found = everything(sock)
        except ConnectionResetError:
            found = b""
    status = found.split(b" ", 2)[1:2]
    assert not status or status[0] in (b"200", b"400", b"404", b"405", b"408", b"413", b"422", b"431"), found[:200]
    if status == [b"400"]:
        assert json.loads(found.partition(b"\r\n\r\n")[2])["error_type"] == "BadRequest"
    assert healthy(url)


def test_slow_senders_are_told_or_disconnected(url):
    with connect(url) as slow_head, connect(url) as slow_body, connect(url) as silent:
        slow_head.sendall(b"POST /predict HTTP/1.1\r\nhost: ")
        slow_body.sendall(HEAD + b'40\r\n\r\n{"inputs": ')
        assert healthy(url), "others must not notice"
        told = everything(slow_body)
        assert told.startswith(b"HTTP/1.1 408")
        assert json.loads(told.partition(b"\r\n\r\n")[2])["error_type"] == "Timeout"
        assert everything(slow_head) == everything(silent) == b""
    assert healthy(url)


def test_half_closed_and_broken_connections_hurt_nobody(url):
    body = json.dumps({"inputs": [["good film"]] * 200}).encode()
    for number in range(20):
        sock = connect(url)
        sock.sendall(HEAD + str(len(body)).encode() + b"\r\n\r\n" + body[: len(body) // (1 + number % 2)])
        if number % 4 < 2:
            sock.shutdown(socket.SHUT_WR)
        sock.close()
    assert healthy(url)


def test_who_closes_the_sending_side_counts_as_gone(url):
    """The end of what a client sends is all that tells that it has left, so there is no answer and no waiting."""
    body = json.dumps({"inputs": [["good film"]] * 200}).encode()
    with connect(url) as sock:
        sock.sendall(HEAD + str(len(body)).encode() + b"\r\nconnection: close\r\n\r\n" + body)
        sock.shutdown(socket.SHUT_WR)
        assert everything(sock) == b""
    assert healthy(url)


def test_a_refusal_before_the_body_was_read_leaves_the_connection_in_order(url):
    """The path is unknown, so the server answers at once, while 300 kB are still on their way."""
    body = b"x" * 300_000
    with connect(url) as sock:
        sock.sendall(b"POST /nothing HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n" % len(body))
        time.sleep(0.1)
        for start in range(0, len(body), 50_000):
            sock.sendall(body[start : start + 50_000])
            time.sleep(0.005 if start < 100_000 else 0)  # the last parts come as one
        sock.sendall(b"GET /livez HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
        found = everything(sock)
    assert found.count(b"HTTP/1.1 ") == 2
    assert found.startswith(b"HTTP/1.1 404")
    assert b"HTTP/1.1 200" in found


def test_a_connection_serves_one_request_after_the_other(url):
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=10)
    for body in (b'{"inputs": "good film"}', b"{", b'{"inputs": "bad"}'):
        connection.request("POST", "/predict", body)
        answer = connection.getresponse()
        assert answer.status == (422 if body == b"{" else 200)
        answer.read()
    connection.close()


def test_a_client_that_disconnects_frees_its_place(classifier):
    engine = NamingEngine()
    engine.hang.clear()
    service = make_service(classifier, engine, single_tenant=True)
    with running(service) as url:
        body = json.dumps({"inputs": [[f"gone {number}"] for number in range(50)]}).encode()
        with ThreadPoolExecutor(1) as pool:
            first = pool.submit(requests.post, f"{url}/predict", json={"inputs": "stays 7"}, timeout=10)
            _until(lambda: engine.groups)
            with connect(url) as sock:
                sock.sendall(HEAD + str(len(body)).encode() + b"\r\n\r\n" + body)
                _until(lambda: service.batcher.waiting == 50)
            time.sleep(0.1)  # the server notices that the client has gone
            engine.hang.set()
            assert first.result(10).json()[0]["score"] == 7
        assert requests.post(f"{url}/predict", json={"inputs": "next 8"}, timeout=10).json()[0]["score"] == 8
    assert [texts for texts, _ in engine.groups] == [["stays 7"], ["next 8"]]
    assert b'datamux_dropped_texts_total{reason="client left",tenant="everyone"} 50.0' in service.metrics.text()


def _until(condition, seconds: float = 10.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.01)


# Shutting down


def test_sigterm_under_load_answers_what_was_accepted(tmp_path, classifier):
    folder = tmp_path / "model"
    make_predictor(folder)
    words = command("serve", folder, "--port", 0, "--no-keys", "--threads", 1)
    server = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=dict(os.environ))
    killer = threading.Timer(100, server.kill)
    killer.start()
    try:
        url = server.stdout.readline().split(" is at ")[1].split(";")[0]
        outcomes: list[str] = []
        stop = threading.Event()
        answered = threading.Semaphore(0)

        def ask() -> None:
            session = requests.Session()
            while not stop.is_set():
                try:
                    answer = session.post(f"{url}/classify", json={"input": ["good film"] * 200}, timeout=30)
                except requests.ConnectionError:
                    outcomes.append("refused")
                    return
                complete = answer.status_code == 200 and len(answer.json()["data"]) == 200
                outcomes.append("answered" if complete else str(answer.status_code))
                answered.release()

        threads = [threading.Thread(target=ask) for _ in range(6)]
        for thread in threads:
            thread.start()
        for _ in range(12):
            assert answered.acquire(timeout=30)
        server.send_signal(signal.SIGTERM)
        out, err = server.communicate(timeout=40)
        stop.set()
        for thread in threads:
            thread.join(30)
        assert server.returncode == 0, err
        assert out.strip() == "stopped"
        assert set(outcomes) <= {"answered", "refused", "503"}
        assert "Traceback" not in err
        # What the server has read, it has answered, and every answer has arrived.
        log = [json.loads(line) for line in err.splitlines()]
        statuses = Counter(line["status"] for line in log if line["event"] == "request")
        assert statuses == Counter({200: outcomes.count("answered"), 503: outcomes.count("503")})
    finally:
        killer.cancel()
        server.kill()


HANGS = """
import sys
from pathlib import Path
from serving import NamingEngine, make_predictor, make_service
from datamux.serve.app import run_server
engine = NamingEngine()
engine.hang.clear()
service = make_service(make_predictor(Path(sys.argv[1])), engine, pass_timeout_ms=200.0, grace_ms=2000.0)
run_server(service, lambda url: print(url, flush=True))
"""


WARMS_UP = """
import signal, sys, time
from pathlib import Path
from serving import make_predictor, make_service
from datamux.serve.app import run_server
# A shell may have told what runs in the background to ignore SIGINT.
signal.signal(signal.SIGINT, signal.default_int_handler)
service = make_service(make_predictor(Path(sys.argv[1])))
def warm_up():
    print("warming up", flush=True)
    time.sleep(60)
service.warm_up = warm_up
run_server(service, lambda url: print(url, flush=True))
"""


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_server_that_warms_up_can_be_stopped(tmp_path, number):
    folders = os.pathsep.join([str(TESTS), os.environ.get("PYTHONPATH", "")])
    server = subprocess.Popen(
        [sys.executable, "-c", WARMS_UP, str(tmp_path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=os.environ | {"PYTHONPATH": folders},
    )
    try:
        assert server.stdout.readline().strip() == "warming up"
        server.send_signal(number)
        assert server.wait(10) != 0
    finally:
        server.kill()


@pytest.mark.slow
def test_sigterm_ends_a_server_whose_model_hangs(tmp_path):
    folders = os.pathsep.join([str(TESTS), os.environ.get("PYTHONPATH", "")])
    server = subprocess.Popen(
        [sys.executable, "-c", HANGS, str(tmp_path)],
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": folders},
    )
    try:
        url = server.stdout.readline().strip()
        assert requests.post(f"{url}/predict", json={"inputs": "a 1"}, timeout=10).status_code == 504
        assert requests.get(f"{url}/livez", timeout=10).status_code == 503
        server.send_signal(signal.SIGTERM)
        assert server.wait(10) == 1
    finally:
        server.kill()


def test_a_dead_loop_is_told_to_everybody(classifier):
    engine = NamingEngine()
    service = make_service(classifier, engine, single_tenant=True)

    def broken(*given, **options):
        raise RuntimeError("a bug in the queue")

    service.batcher.queues.take = broken
    with running(service) as url:
        answer = requests.post(f"{url}/predict", json={"inputs": "a 1"}, timeout=10)
        assert (answer.status_code, answer.json()["error_type"]) == (503, "Unhealthy")
        for path in ("health", "livez", "readyz"):
            assert requests.get(f"{url}/{path}", timeout=10).status_code == 503


# Soak


def test_a_short_soak_loses_and_doubles_nothing(classifier):
    found = run_soak(classifier, texts=2000, tenants=3, clients=6, batch=20, different=40)
    assert found["answered"] == 2000
    assert found["wrong"] == found["lost"] == found["doubled"] == found["errors"] == 0
    assert found["groups_with_two_tenants"] == 0
    assert set(found["texts_per_gear"]) > {"mux-1"}
    assert 0 < found["answered_alone"] < 2000
    assert is_clean(found)


@pytest.mark.parametrize("fault", ["swapped", "another text's", "lost"])
def test_a_soak_notices_a_server_that_errs(classifier, monkeypatch, fault):
    answer = Ticket.answer

    def wrong(ticket, place, answered):
        last = len(ticket.answers) - 1
        if fault == "swapped":
            place = last - place
        if fault == "another text's" and place == 3:
            answered = ticket.answers[0] or answered
            answered = answered._replace(answer=answered.answer._replace(logits=[1.0, 2.0, 3.0]))
        answer(ticket, place, answered)

    monkeypatch.setattr(Ticket, "answer", wrong)
    if fault == "lost":
        monkeypatch.setattr(Ticket, "answer", answer)
        monkeypatch.setattr("datamux.serve.routes._label_list", lambda *given: [])
    found = run_soak(classifier, texts=300, tenants=2, clients=2, batch=10, different=10)
    assert found["wrong"] > 0
    assert not is_clean(found)


def loses_an_answer(*given):
    """As `_response`, without the last answer of a batch."""
    *about, body = given
    return _response(*about, json.dumps(json.loads(body)[:-1]).encode())


async def runs_twice(passes, groups, gear):
    await _attempt(passes, groups, gear)
    return await _attempt(passes, groups, gear)


def swaps_tenants(queues, *given, **options):
    """The first texts of two tenants' groups change places; each still gets its own answer."""
    groups = _take(queues, *given, **options)
    for one, other in pairwise(groups):
        if one[0].tenant != other[0].tenant and len(one) > 1 and len(other) > 1:
            one[0], other[0] = other[0], one[0]
            break
    return groups


_response, _attempt, _take = routes._response, Passes._attempt, TenantQueues.take


@pytest.mark.parametrize(
    ("owner", "name", "wrong", "counter"),
    [
        (routes, "_response", loses_an_answer, "lost"),
        (Passes, "_attempt", runs_twice, "doubled"),
        (TenantQueues, "take", swaps_tenants, "groups_with_two_tenants"),
    ],
)
def test_every_counter_of_a_soak_can_turn_red(classifier, monkeypatch, owner, name, wrong, counter):
    monkeypatch.setattr(owner, name, wrong)
    found = run_soak(classifier, texts=400, tenants=4, clients=8, batch=10, different=10, settings=Settings(gears="4"))
    assert found[counter] > 0
    assert not is_clean(found)
    others = {"wrong", "errors", "lost", "doubled", "groups_with_two_tenants"} - {counter}
    if counter != "lost":  # an answer that is lost is never compared, so the one that was given looks doubled
        assert {one: found[one] for one in others} == dict.fromkeys(others, 0)


def test_a_soak_with_all_gears_gives_every_text_its_own_answer(classifier):
    engine = NamingEngine()
    service = make_service(classifier, engine, max_groups=4, single_tenant=True)
    with running(service) as url:

        def ask(client: int) -> None:
            session = requests.Session()
            for turn in range(20):
                first = client * 10_000 + turn * 100
                count = (1, 7, 40)[turn % 3]
                texts = [f"c{client} {first + place}" for place in range(count)]
                answer = session.post(f"{url}/classify", json={"input": texts, "top_k": 1}, timeout=20).json()
                assert [one[0]["score"] for one in answer["data"]] == [first + place for place in range(count)]

        with ThreadPoolExecutor(6) as pool:
            list(pool.map(ask, range(6)))
    sizes = {gear.group_size for _, gear in engine.groups}
    assert sizes >= {1, 4}
    ran = [text for texts, _ in engine.groups for text in texts]
    assert len(ran) == len(set(ran)) == 6 * (7 * 1 + 7 * 7 + 6 * 40)

"""`datamux serve --engine ray` on two nodes: the answers of the model, a replica per tenant, and a node that dies."""

import asyncio
import json
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections import Counter, defaultdict
from functools import partial
from pathlib import Path

import httpx
import pytest
from clusters import NODE, two_nodes

from command_line import command
from datamux.cluster.options import Replicas
from datamux.cluster.serving import _free_port, serving_on_ray, write_config
from datamux.serve.keys import KeyFile
from datamux.serve.settings import Settings
from serving import make_predictor, own_answers

TENANTS = 12
TEXTS = ["good film", "the plot was very bad .", "anna lives in paris"]

pytestmark = [pytest.mark.slow, pytest.mark.timeout(420)]


def test_a_node_dies_under_load(tmp_path):
    predictor = make_predictor(tmp_path / "model")
    expected = [found[0]["label"] for found in own_answers(predictor, TEXTS)]
    keys = KeyFile(tmp_path / "keys.json")
    secrets = [keys.add(f"tenant {number}") for number in range(TENANTS)]
    settings = Settings(port=0, keys=str(keys.file), log_level="error", timeout_ms=60_000.0)
    with two_nodes() as (cluster, second):
        with serving_on_ray(str(tmp_path / "model"), settings, Replicas(min_replicas=2)) as address:
            assert ask(address, "wrong key")[:2] == (401, "Unauthorized")
            load = Load(address, secrets, expected)
            wait_for(lambda: len(set().union(*load.take().values())) == 2, 120)  # the front knows both replicas
            load.take()
            before = load.answered
            wait_for(lambda: load.answered > before + 200, 120)
            homes = load.take()
            at_home = sum(max(replicas.values()) for replicas in homes.values())
            everywhere = sum(replicas.total() for replicas in homes.values())
            # On a busy machine a replica may take too long to say that it has room, and the next one is asked.
            assert at_home >= 0.9 * everywhere, "a tenant has one replica; at random it would be about 0.6"
            assert len(set().union(*homes.values())) == 2, "and the tenants share both"
            cluster.remove_node(second, allow_graceful=False)
            before = load.answered
            wait_for(lambda: load.answered > before + 200, 120)
            load.take()
            wait_for(lambda: load.answered > before + 400, 120)
            homes = load.take()
            assert len(set().union(*homes.values())) == 1, "all tenants have moved to the replica that is left"
            failures = load.stop()
            cluster.add_node(**NODE)
            wait_for(lambda: len(replicas_of(address, secrets[0])) == 2, 180)
        assert load.answered + len(failures) == load.sent, "every request was answered or told that it failed"
        assert not load.wrong
        for status, kind in failures:
            assert (status, kind) in ((503, "Unhealthy"), (500, "text"), (504, "Timeout")), failures
        assert len(failures) <= TENANTS, "at most what was under way on the node that died"


def test_groups_tenants_and_overload(tmp_path):
    """On a Ray of its own: texts of one tenant share groups and those of two never do; too much is refused at once."""
    predictor = make_predictor(tmp_path / "model")
    (alone,) = own_answers(predictor, TEXTS[:1])
    keys = KeyFile(tmp_path / "keys.json")
    noisy, *others = [keys.add(f"tenant {number}") for number in range(6)]
    settings = Settings(port=0, keys=str(keys.file), log_level="error", max_wait_ms=200.0, max_groups=1, max_queue=50,
                        max_tenant_queue=40, timeout_ms=60_000.0)  # fmt: skip
    replicas = Replicas()
    places = 40 + replicas.most_requests(settings, 4)  # of one tenant

    async def talk(address):
        async with httpx.AsyncClient(base_url=address, timeout=90, limits=httpx.Limits(max_connections=400)) as http:

            def ask(secret, texts=TEXTS[:1]):
                body = {"inputs": [[text] for text in texts]}
                return http.post("/predict", json=body, headers={"Authorization": f"Bearer {secret}"})

            together = await ask(noisy, ["good film", "bad film", "the plot", "very good"])
            assert together.headers["x-datamux-n"] == "4"
            for _ in range(5):  # all within the 200 ms in which a text waits for company of its tenant
                for found in await asyncio.gather(*map(ask, others)):
                    assert found.headers["x-datamux-n"] == "1"
                    assert found.json()[0][0]["score"] == pytest.approx(alone[0]["score"], abs=1e-4)
            flood = [asyncio.ensure_future(ask(noisy)) for _ in range(4 * places)]
            await asyncio.sleep(0.2)
            assert (await ask(others[0])).status_code == 200, "another tenant gets in"
            found = [(await task) for task in flood]
            statuses = [one.status_code for one in found]
            assert set(statuses) == {200, 429}
            assert statuses.count(200) >= places
            assert all("retry-after" in one.headers for one in found if one.status_code == 429)
            page = (await http.get("/metrics", headers={"Authorization": f"Bearer {noisy}"})).text
            counts = [line for line in page.splitlines() if line.startswith("datamux_front_refused_requests_total")]
            assert sum(float(line.rpartition(" ")[2]) for line in counts if 'status="429"' in line) > 0

    with serving_on_ray(str(tmp_path / "model"), settings, replicas) as address:
        asyncio.run(talk(address))
        second = pytest.raises(ValueError, match="has a server of ours already")
        with second, serving_on_ray(str(tmp_path / "model"), settings, replicas):
            pass
        assert ask(address, noisy)[0] == 200, "the first one still serves"


def test_the_config_is_deployed_and_replicas_follow_the_load(tmp_path):
    """serve.yaml through Ray's own command, with a copy more as soon as there is work for two."""
    predictor = make_predictor(tmp_path / "model")
    expected = [found[0]["label"] for found in own_answers(predictor, TEXTS)]
    settings = Settings(port=_free_port(), no_keys=True, log_level="error", fill="repeat")
    write_config(
        tmp_path / "serve.yaml", str(tmp_path / "model"), settings, Replicas(max_replicas=2, target_requests=2)
    )
    with two_nodes() as (cluster, _):
        words = [Path(sys.executable).with_name("serve"), "run", "--address", cluster.address, tmp_path / "serve.yaml"]
        # A shell may have told what runs in the background to ignore SIGINT.
        obeys = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
        deployed = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, preexec_fn=obeys)
        try:
            address = f"http://127.0.0.1:{settings.port}"
            wait_for(lambda: answers(address), 240)
            load = Load(address, [f"tenant {number}" for number in range(TENANTS)], expected)
            wait_for(lambda: load.answered > 50, 120)
            wait_for(lambda: len(set().union(*load.take().values())) == 2, 150)
            assert not load.stop()
            assert not load.wrong
            deployed.send_signal(signal.SIGINT)
            deployed.wait(60)
        finally:
            deployed.kill()


def test_the_command_serves_and_stops(tmp_path):
    make_predictor(tmp_path / "model")
    words = command("serve", tmp_path / "model", "--engine", "ray", "--no-keys", "--port", 0, "--log-level", "error")
    server = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    try:
        line = server.stdout.readline()
        assert " is at http://127.0.0.1:" in line
        address = line.partition(" is at ")[2].partition(";")[0]
        status, _, labels, _ = ask(address, "")
        assert (status, len(labels)) == (200, len(TEXTS))
        server.send_signal(signal.SIGTERM)
        assert server.wait(90) == 0
        assert "stopped" in server.stdout.read()
    finally:
        server.kill()
        server.stdout.close()
    with pytest.raises(OSError, match="refused"):
        urllib.request.urlopen(address, timeout=5)


class Load:
    """Tenants that ask without a pause, until they are stopped."""

    def __init__(self, address, secrets, expected):
        self.address, self.expected = address, expected
        self.sent = self.answered = 0
        self.wrong, self.failures, self.homes = [], [], defaultdict(Counter)
        self.lock, self.ending = threading.Lock(), threading.Event()
        self.threads = [threading.Thread(target=self._ask, args=(secret,), daemon=True) for secret in secrets]
        for thread in self.threads:
            thread.start()

    def take(self):
        """How often each replica answered every tenant since the last look."""
        with self.lock:
            found, self.homes = self.homes, defaultdict(Counter)
        return found

    def stop(self):
        self.ending.set()
        for thread in self.threads:
            thread.join(90)
            assert not thread.is_alive(), "a request was never answered"
        return self.failures

    def _ask(self, secret):
        while not self.ending.is_set():
            with self.lock:
                self.sent += 1
            status, kind, labels, replica = ask(self.address, secret)
            with self.lock:
                if status != 200:
                    self.failures.append((status, kind))
                    continue
                self.answered += 1
                self.homes[secret][replica] += 1
                if labels != self.expected:
                    self.wrong.append(labels)


def ask(address, secret):
    """(status, kind of error, labels, replica)."""
    body = json.dumps({"inputs": [[text] for text in TEXTS], "mux": False}).encode()
    request = urllib.request.Request(f"{address}/predict", body, {"Authorization": f"Bearer {secret}"})
    try:
        with urllib.request.urlopen(request, timeout=80) as response:
            labels = [found[0]["label"] for found in json.load(response)]
            return response.status, "", labels, response.headers["x-datamux-replica"]
    except urllib.error.HTTPError as error:
        text = error.read()
        return error.code, json.loads(text)["error_type"] if text.startswith(b"{") else "text", None, None


def answers(address):
    """Whether somebody answers there yet."""
    try:
        return ask(address, "")[0] == 200
    except OSError:
        return False


def replicas_of(address, secret):
    request = urllib.request.Request(f"{address}/metrics", headers={"Authorization": f"Bearer {secret}"})
    with urllib.request.urlopen(request, timeout=80) as response:
        return {line for line in response.read().decode().splitlines() if line.startswith("datamux_healthy")}


def wait_for(condition, seconds=60):
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, "it took too long"
        time.sleep(0.1)

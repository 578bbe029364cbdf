"""Serving on a cluster, without one: routing, forwarding, metrics, and what Ray Serve is told."""

import asyncio
import json
import shutil
from collections import Counter
from contextlib import nullcontext
from types import SimpleNamespace

import httpx
import pytest
import yaml
from ray.exceptions import ActorDiedError, ActorUnavailableError, ObjectLostError, OutOfMemoryError, OwnerDiedError
from ray.serve._private.common import DeploymentID
from ray.serve.exceptions import BackPressureError, DeploymentUnavailableError
from ray.serve.schema import ServeDeploySchema
from starlette.testclient import TestClient

from command_line import run, succeed
from datamux.cluster import scaling, serving
from datamux.cluster.admission import Admission, Limits
from datamux.cluster.forwarding import Forwarded, Reply, call_app
from datamux.cluster.front import TRIES, Front
from datamux.cluster.merged_metrics import merge_metrics
from datamux.cluster.options import Replicas
from datamux.cluster.replica import REPLICA, Replica, own_device
from datamux.cluster.routing import ordered, ranked
from datamux.cluster.scaling import LOAD, load_of
from datamux.cluster.serving import FRONT, MODEL, _arguments, deployment_options, proxies
from datamux.serve.app import create_app
from datamux.serve.keys import KeyFile
from datamux.serve.refusals import Overloaded
from datamux.serve.service import keys_of
from datamux.serve.settings import Settings
from datamux.zoo import find_model
from serving import make_predictor, make_service

NAMES = ["ab", "cd", "ef", "gh"]
TENANTS = [f"tenant {number}" for number in range(2000)]


def test_tenants_spread_evenly_and_every_router_agrees():
    homes = Counter(ranked(tenant, NAMES)[0] for tenant in TENANTS)
    assert all(400 < count < 600 for count in homes.values()), homes
    assert all(ranked(tenant, NAMES) == ranked(tenant, NAMES[::-1]) for tenant in TENANTS)


def test_only_the_tenants_of_a_replica_that_goes_move():
    for tenant in TENANTS:
        before, after = ranked(tenant, NAMES), ranked(tenant, NAMES[:3])
        assert after == [name for name in before if name != "gh"]


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    return make_predictor(tmp_path_factory.mktemp("model"))


@pytest.fixture
def app(tiny):
    return create_app(make_service(tiny))


class Remote:
    """Stands for Ray's handle: calls replicas in this process. Errors of `failures` come first."""

    def __init__(self, apps, failures=()):
        self.apps, self.failures, self.keys = apps, list(failures), []

    def options(self, *, session_id):
        self.keys.append(session_id)
        return self

    @property
    def answer(self):
        return self

    async def remote(self, request):
        if self.failures:
            raise self.failures.pop(0)
        return await self._ask(next(iter(self.apps)), request)

    def broadcast(self, method, request):
        assert method == "answer"
        return self._All(self, request)

    async def _ask(self, name, request):
        reply = await call_app(self.apps[name], request)
        reply.headers.append((REPLICA, name.encode()))
        return reply

    class _All:
        def __init__(self, remote, request):
            self.remote, self.request = remote, request

        async def results_async(self, *, return_exceptions=False):
            found = [await self.remote._ask(name, self.request) for name in self.remote.apps]
            if self.remote.failures and not return_exceptions:
                raise self.remote.failures[0]
            return [*self.remote.failures, *found]


class Fronts:
    """Stands for the handle of all fronts, of which there is one, beside one that is dying."""

    def __init__(self, front):
        self.front = front

    def broadcast(self, method):
        assert method == "refusals"
        return self

    async def results_async(self, *, return_exceptions):
        return [await self.front.refusals(), ActorDiedError()]


def client(app, failures=(), capacity=100, **settings):
    """A client of a front whose replica runs in this process, and the stand-in for Ray."""
    remote = Remote({"one": app}, failures)
    front = Front(remote, settings, capacity)
    front.fronts = lambda: Fronts(front)
    application = front.__serve_build_asgi_app__()
    application.router.lifespan_context = app.router.lifespan_context
    return TestClient(application), remote


def test_the_front_answers_as_the_server_does(app, tiny):
    body = {"inputs": [["good film"], ["the plot was bad"]], "mux": False}
    with TestClient(create_app(make_service(tiny))) as direct:
        expected = direct.post("/predict", json=body)
        missing, invalid = direct.get("/nothing"), direct.post("/predict", json={"inputs": 3})
    with client(app)[0] as http:
        found = http.post("/predict", json=body)
        assert (found.status_code, found.json()) == (200, expected.json())
        assert found.headers["x-datamux-n"] == "1"
        assert found.headers["x-datamux-replica"] == "one"
        assert http.get("/info").json()["model_id"] == "tiny"
        assert http.get("/health").json() == {"status": "ok"}
        assert http.get("/nothing").json() == missing.json()
        assert http.post("/predict", json={"inputs": 3}).json() == invalid.json()


def test_who_has_no_key_takes_no_place_and_sends_no_body(tmp_path, tiny):
    """Otherwise anybody could fill the front, and lock out the tenants."""
    keys = KeyFile(tmp_path / "keys.json")
    secret = keys.add("someone")
    app = create_app(make_service(tiny))
    http, remote = client(app, keys=str(keys.file), max_body_bytes=100)
    front = http.app.routes[0].app.__self__
    front.admission.limits = Limits(0, 0, 0, 0)

    def post(text, **headers):
        found = http.post("/predict", json={"inputs": text}, headers=headers)
        return found.status_code, found.json()["error_type"]

    with http:
        assert post("good") == post("good", Authorization="Bearer wrong") == (401, "Unauthorized")
        assert post("good " * 100) == (401, "Unauthorized"), "not 413: its body is not read"
        assert post("good", Authorization=f"Bearer {secret}") == (429, "Overloaded")
        assert http.get("/metrics").status_code == 401
        assert not remote.keys, "no replica was asked"
        assert http.get("/health").status_code == 200


def test_bodies_that_are_being_read_have_a_limit_together_at_the_front():
    """The size of a body is known only at its end, and many slow senders must not fill the memory until then."""
    front = Front(None, {"no_keys": True, "max_queue_characters": 1000, "max_body_bytes": 100_000}, capacity=320)
    refused = []

    def slow(number):
        part = [{"type": "http.request", "body": b"x" * 300, "more_body": True}]

        async def receive():
            return part.pop() if part else await asyncio.Event().wait()

        async def send(message):
            refused.append(message.get("status"))

        scope = {"type": "http", "method": "POST", "path": "/predict", "headers": [], "client": ("10.0.0.1", number)}
        return asyncio.ensure_future(front.forward(scope, receive, send))

    async def scene():
        senders = [slow(number) for number in range(50)]
        done, waiting = await asyncio.wait(senders, timeout=1.0)
        held = front._bodies.held
        for sender in waiting:
            sender.cancel()
        await asyncio.wait(senders)
        return len(done), len(waiting), held

    assert asyncio.run(scene()) == (47, 3, 900)
    assert refused[::2] == [429] * 47
    assert front._bodies.held == 0


def test_only_post_may_have_a_body(app):
    http, remote = client(app)
    with http:
        found = http.request("GET", "/health", content=b"x")
        assert (found.status_code, found.json()["error_type"]) == (400, "BadRequest")
        assert http.request("PUT", "/predict", content=iter([b"x"])).status_code == 400
        assert not remote.keys
        assert http.request("GET", "/health", content=b"").status_code == 200


class Ranked(Remote):
    """Replicas are asked in the order in which Ray's router would try them. Those in `full` refuse with 429."""

    def __init__(self, apps, full):
        super().__init__(apps)
        self.full, self.asked = full, []

    async def remote(self, request):
        name = ordered(self.keys[-1], list(self.apps))[0]
        self.asked.append(name)
        if name in self.full:
            return Reply(429, [(REPLICA, name.encode())], b"full")
        return await self._ask(name, request)


@pytest.mark.parametrize("others", [0, 1, 3])
@pytest.mark.parametrize("full", range(5))
def test_a_full_replica_passes_the_request_on(app, others, full):
    """A client that sends batches fills the batcher with few requests, so Ray sees no reason to pass them on."""
    order = ranked("everyone", NAMES)
    remote = Ranked(dict.fromkeys(NAMES, app), order[:full])
    application = Front(remote, {"single_tenant": True}, 100, others).__serve_build_asgi_app__()
    application.router.lifespan_context = app.router.lifespan_context
    with TestClient(application) as http:
        found = http.post("/predict", json={"inputs": "good film"})
    assert found.status_code == (200 if full <= others else 429)
    assert remote.asked == order[: min(full, others) + 1], "each in turn, and none twice"


def test_replicas_that_are_full_come_last():
    order = ranked("tenant", NAMES)
    assert ordered("tenant", NAMES) == order
    assert ordered("\n".join(["tenant", order[0], order[2], "gone"]), NAMES) == [order[1], order[3], order[0], order[2]]


def test_texts_that_wait_ask_for_replicas_as_requests_do(monkeypatch):
    """A few requests with many texts each are as much work as many requests."""
    monkeypatch.setattr(scaling, "replica_queue_length_autoscaling_policy", lambda context: (1.5, {"seen": 1}))

    def desired(*waiting):
        told = {f"replica {number}": load_of(texts, Settings()) for number, texts in enumerate(waiting)}
        return scaling.by_requests_and_texts(SimpleNamespace(aggregated_metrics={LOAD: told}))

    assert desired(0, 0) == (1.5, {"seen": 1})
    assert desired(8 * 256, 16 * 256) == (3.0, {"seen": 1})
    assert scaling.by_requests_and_texts(SimpleNamespace(aggregated_metrics=None))[0] == 1.5
    assert load_of(16 * 256, Settings()) > 1.9, "more replicas start before a tenant is refused"
    options = deployment_options("sentiment", Settings(), Replicas(max_replicas=3))
    assert options[MODEL]["autoscaling_config"]["policy"]["policy_function"] == serving.POLICY
    assert "policy" not in options[FRONT]["autoscaling_config"], "a front has no texts"


def test_a_replica_tells_how_many_texts_wait():
    service = SimpleNamespace(batcher=SimpleNamespace(waiting=4096), settings=Settings())
    told = Replica.record_autoscaling_stats(SimpleNamespace(service=service))
    assert asyncio.run(told) == {LOAD: 2.0}


def test_the_front_limits_bodies_itself(app):
    http, remote = client(app, max_body_bytes=100)
    with http:
        found = http.post("/predict", json={"inputs": "good " * 100})
    assert (found.status_code, found.json()["error_type"]) == (413, "TooLarge")
    assert not remote.keys, "no replica was asked"


def test_requests_with_one_key_have_one_replica(app):
    http, remote = client(app)
    with http:
        for headers in ({"Authorization": "Bearer a"}, {"X-API-Key": "a"}, {"X-API-Key": "b"}, {}):
            http.post("/predict", json={"inputs": "good film"}, headers=headers)
    first, again, other, anonymous = remote.keys
    assert first == again
    assert len({first, other, anonymous}) == 3
    assert "a" not in (first, other), "the key itself is not passed on to the router"
    http, remote = client(app, single_tenant=True)
    with http:
        for _ in range(2):
            http.post("/predict", json={"inputs": "good film"})
    assert set(remote.keys) == {"everyone"}


def test_without_keys_no_two_requests_are_one_tenant(app):
    seen = []
    service = app.state.service
    tenant_of = service.tenant_of
    service.tenant_of = lambda request: seen.append(tenant_of(request)) or seen[-1]
    with client(app)[0] as http:
        for _ in range(3):
            http.post("/predict", json={"inputs": "good film"})
    assert len(set(seen)) == 3


@pytest.mark.parametrize(
    "death",
    [
        ActorDiedError(),
        ActorUnavailableError("busy", None),
        ObjectLostError("ab", None, ""),
        OwnerDiedError("ab", None, ""),
        OutOfMemoryError("the memory monitor has killed it"),
    ],
)
def test_a_replica_that_dies_is_replaced_by_another(app, death):
    http, remote = client(app, failures=[death] * (TRIES - 1))
    with http:
        assert http.post("/predict", json={"inputs": "good film"}).status_code == 200
    assert len(set(remote.keys)) == 1
    assert len(remote.keys) == TRIES


@pytest.mark.parametrize(
    ("failures", "status", "kind"),
    [
        ([ActorDiedError()] * TRIES, 503, "Unhealthy"),
        ([BackPressureError(1, 1)], 429, "Overloaded"),
        ([RuntimeError("what?")], 500, "Backend"),
    ],
)
def test_what_goes_wrong_has_the_usual_format(app, failures, status, kind):
    with client(app, failures)[0] as http:
        found = http.post("/predict", json={"inputs": "good film"})
    assert (found.status_code, found.json()["error_type"]) == (status, kind)
    assert "retry-after" in found.headers or status == 500


def test_too_many_requests_are_refused_and_others_still_get_in(app, monkeypatch):
    """Two tenants against a replica that does not answer for a while."""
    http, remote = client(app, capacity=2, max_queue=4, max_tenant_queue=2)
    answer, opened = remote.remote, asyncio.Event()

    async def late(request):
        await opened.wait()
        return await answer(request)

    monkeypatch.setattr(remote, "remote", late)

    async def ask(many, key):
        async def one():
            headers = {"Authorization": f"Bearer {key}"}
            return (await asynchronous.post("/predict", json={"inputs": "good film"}, headers=headers)).status_code

        tasks = [asyncio.ensure_future(one()) for _ in range(many)]
        await asyncio.sleep(0.1)
        return tasks

    async def both():
        noisy, quiet = await ask(7, "a"), await ask(3, "b")
        health = asyncio.ensure_future(asynchronous.get("/health"))
        opened.set()
        assert (await health).status_code == 200, "a full server still tells its health"
        return [sorted([await task for task in tasks]) for tasks in (noisy, quiet)]

    with http:
        transport = httpx.ASGITransport(http.app)
        asynchronous = httpx.AsyncClient(transport=transport, base_url="http://front")
        noisy, quiet = http.portal.call(both)
        assert noisy == [200] * 4 + [429] * 3
        assert quiet == [200, 200, 429], "of six places, a tenant has four"
        assert http.post("/predict", json={"inputs": "good film"}).status_code == 200, "places become free again"
        page = http.get("/metrics").text
    (line,) = [line for line in page.splitlines() if line.startswith("datamux_front_refused_requests_total")]
    assert 'status="429"' in line
    assert line.endswith(" 4.0")


def test_bodies_of_unanswered_requests_have_a_limit():
    admission = Admission(Limits(10, 10, 100, 60))
    with admission.request("a") as first, admission.request("a") as second, admission.request("b") as third:
        first.hold(b"x" * 50)
        with pytest.raises(Overloaded, match="too long together"):
            second.hold(b"x" * 11)
        third.hold(b"x" * 50)
        with pytest.raises(Overloaded):
            second.hold(b"x" * 10)
    with admission.request("a") as again:
        again.hold(b"x" * 60)
    assert not admission._requests
    assert not admission._sizes


def test_the_front_refuses_before_ray_does():
    options = deployment_options("sentiment", Settings(max_queue=10, max_tenant_queue=5), Replicas(max_replicas=3))
    limits = Limits.of(Settings(max_queue=10, max_tenant_queue=5), 3 * options[MODEL]["max_ongoing_requests"])
    assert limits.tenant_requests < limits.requests < options[FRONT]["max_ongoing_requests"]
    assert limits.requests <= options[MODEL]["max_queued_requests"]
    assert options[FRONT]["autoscaling_config"]["max_replicas"] == 3


def test_a_replica_uses_a_gpu_only_if_it_has_reserved_one():
    assert [own_device(device) for device in (None, "cpu", "cuda", "cuda:1")] == ["cpu", "cpu", "cuda", "cuda"]


def test_a_request_that_no_replica_takes_times_out(app, monkeypatch):
    monkeypatch.setattr("datamux.cluster.front.SLACK", 0.0)
    http, remote = client(app, timeout_ms=50.0)

    async def never(request):
        await asyncio.Event().wait()

    monkeypatch.setattr(remote, "remote", never)
    with http:
        assert http.post("/predict", json={"inputs": "good film"}).status_code == 504


def test_a_cancelled_call_cancels_the_work(app):
    ended = []

    async def slow(scope, receive, send):
        try:
            await receive()
            await receive()
        finally:
            ended.append(True)

    async def leave():
        task = asyncio.ensure_future(call_app(slow, Forwarded("GET", "/", b"", [], b"", ("a", 1))))
        await asyncio.sleep(0.01)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    asyncio.run(leave())
    assert ended


def test_metrics_of_all_replicas_are_on_one_page(app):
    http, remote = client(app)
    remote.apps = {"one": app, "two": app}
    with http:
        http.post("/predict", json={"inputs": "good film"})
        found = http.get("/metrics")
    assert found.headers["content-type"].startswith("text/plain")
    for name in ("one", "two"):
        assert f'datamux_healthy{{replica="{name}"}} 1.0' in found.text
    assert found.text.count("# TYPE datamux_healthy gauge") == 1


@pytest.mark.parametrize("gone", [ActorDiedError(), ActorUnavailableError("busy dying", None)])
def test_metrics_leave_out_a_replica_that_is_dying(app, gone):
    http, remote = client(app, [gone])
    with http:
        found = http.get("/metrics")
        assert found.status_code == 200
        assert 'datamux_healthy{replica="one"} 1.0' in found.text
        remote.apps = {}
        found = http.get("/metrics")
    assert (found.status_code, found.json()["error_type"]) == (503, "Unhealthy")
    assert "no replica is alive" in found.json()["error"]


def test_metrics_tell_of_other_problems(app):
    with client(app, [RuntimeError("what?")])[0] as http:
        assert http.get("/metrics").status_code == 500


def test_metrics_without_any_replica(app, monkeypatch):
    http, remote = client(app)

    def refuse(method, request):
        raise DeploymentUnavailableError(DeploymentID("Model"))

    monkeypatch.setattr(remote, "broadcast", refuse)
    with http:
        assert http.get("/metrics").status_code == 503


def test_merging_keeps_values_and_histograms():
    page = '# HELP a_total A.\n# TYPE a_total counter\na_total{x="1"} 2.0\n'
    page += '# HELP h H.\n# TYPE h histogram\nh_bucket{le="1.0"} 1.0\nh_bucket{le="+Inf"} 2.0\nh_count 2.0\nh_sum 3.0\n'
    lines = merge_metrics({"r": page, "s": page}).decode().splitlines()
    assert 'a_total{replica="r",x="1"} 2.0' in lines
    assert 'h_bucket{le="+Inf",replica="s"} 2.0' in lines
    assert 'h_sum{replica="r"} 3.0' in lines


def test_ray_never_caps_a_pass():
    for size in (1, 20):
        settings = Settings(max_group_size=size)
        options = deployment_options("sentiment", settings, Replicas(target_requests=1))[MODEL]
        assert options["max_ongoing_requests"] >= 2 * size * settings.max_groups


def test_the_limits_of_a_tuned_folder_follow_its_largest_gear(tmp_path, tiny):
    """Its own model is plain, and the gear beside it takes 20 texts per pass."""
    assert deployment_options("sentiment-plain", Settings(), Replicas())[MODEL]["max_ongoing_requests"]
    folder = tmp_path / "tuned"
    shutil.copytree(find_model("sentiment-plain"), folder)
    gears = [
        {"name": "plain", "folder": ".", "group_size": 1, "score": 0.80, "speed": 100.0},
        {"name": "mixed", "folder": "gears/mixed", "group_size": 20, "score": 0.79, "speed": 900.0},
    ]
    (folder / "gears.json").write_text(json.dumps(gears))
    for settings in (Settings(), Settings(max_group_size=20), Settings(gears="1,20"), Settings(max_drop=2.0)):
        options = deployment_options(str(folder), settings, Replicas(target_requests=1))[MODEL]
        assert options["max_ongoing_requests"] >= 2 * 20 * settings.max_groups
    small = deployment_options(str(folder), Settings(max_group_size=1), Replicas(target_requests=1))[MODEL]
    assert small["max_ongoing_requests"] < 2 * 20 * Settings().max_groups


def test_replicas_follow_the_load_where_that_is_allowed():
    fixed = deployment_options("sentiment", Settings(), Replicas(min_replicas=2))
    assert (fixed[MODEL]["num_replicas"], fixed[FRONT]["num_replicas"]) == (2, 2)
    options = deployment_options("sentiment", Settings(device="cuda"), Replicas(max_replicas=8, num_cpus=2))[MODEL]
    assert "num_replicas" not in options
    scaling = options["autoscaling_config"]
    assert (scaling["min_replicas"], scaling["max_replicas"], scaling["target_ongoing_requests"]) == (1, 8, 160)
    assert options["ray_actor_options"] == {"num_cpus": 2, "num_gpus": 1}


@pytest.mark.parametrize("wrong", [{"min_replicas": 0}, {"min_replicas": 3, "max_replicas": 2}, {"num_cpus": 0}])
def test_wrong_numbers_are_refused(wrong):
    with pytest.raises(ValueError, match="--"):
        Replicas(**wrong)


def test_proxies_are_where_clients_can_reach_them():
    assert proxies(Settings()) == "HeadOnly"
    assert proxies(Settings(host="0.0.0.0")) == "EveryNode"


def test_the_config_is_one_that_ray_takes(tmp_path):
    file = tmp_path / "serve.yaml"
    words = ["serve", "sentiment", "--engine", "ray", "--max-replicas", 4, "--max-drop", 1.5, "--host", "0.0.0.0"]
    assert "serve deploy" in succeed(*words, "--write-config", file)
    found = yaml.safe_load(file.read_text())
    ServeDeploySchema(**found)
    (application,) = found["applications"]
    assert application["args"]["model"] == "sentiment"
    assert application["args"]["settings"]["max_drop"] == 1.5
    assert application["args"]["replicas"] == {"max_replicas": 4}
    assert found["proxy_location"] == "EveryNode"


def test_a_config_that_serves_everyone_is_warned_of(tmp_path, monkeypatch):
    """Keys that are added later do not protect what was deployed with it."""
    monkeypatch.setattr("datamux.serve.service.KEYS_FILE", tmp_path / "keys.json")
    file = tmp_path / "serve.yaml"

    def told(*options):
        done = run("serve", "sentiment", "--engine", "ray", "--write-config", file, *options)
        assert done.returncode == 0, done.stderr
        return done.stderr, yaml.safe_load(file.read_text())["applications"][0]["args"]["settings"]

    everywhere = ("--host", "0.0.0.0")
    warning, settings = told(*everywhere)
    assert "everyone who reaches this address can use it, until the configuration is written again with keys" in warning
    assert settings["no_keys"]
    assert "everyone" not in told()[0], "only this machine reaches it"
    assert "everyone" not in told(*everywhere, "--keys", "/shared/keys.json")[0], "it need not be on this machine"
    KeyFile(tmp_path / "keys.json").add("someone")
    warning, settings = told(*everywhere)
    assert "everyone" not in warning
    assert "no_keys" not in settings
    assert "everyone" in told(*everywhere, "--no-keys")[0]


def test_replicas_are_told_whether_there_are_keys(tmp_path, monkeypatch):
    """A replica on a machine without the file must not serve without keys."""
    file = tmp_path / "keys.json"
    monkeypatch.setattr("datamux.serve.service.KEYS_FILE", file)

    def told(**chosen):
        settings = _arguments("sentiment", Settings(**chosen), Replicas())["settings"]
        return settings.get("keys"), settings.get("no_keys", False)

    assert told() == (None, True)
    KeyFile(file).add("someone")
    assert told() == (str(file), False)
    assert told(no_keys=True) == (None, True)
    monkeypatch.chdir(tmp_path)
    assert told(keys="keys.json") == (str(file), False)
    assert told(keys="/elsewhere/keys.json") == ("/elsewhere/keys.json", False), "it may be only on the cluster"
    arguments = _arguments("sentiment", Settings(), Replicas())
    file.unlink()
    with pytest.raises(ValueError, match="no such file of keys"):
        keys_of(Settings(**arguments["settings"]))


class FakeServe:
    """Stands for `ray.serve`. `fails` is the step that raises, after it has done its work.

    As Ray does, it keeps its address if it runs already.
    """

    def __init__(self, fails):
        self.fails, self.applications, self.running, self.http_config = fails, {}, False, None

    def start(self, *, http_options, **options):
        self.running = True
        self.http_config = self.http_config or SimpleNamespace(**http_options)
        self._end("start")

    def run(self, application, *, name, **options):
        self.applications[name] = application
        self._end("run")

    def delete(self, name):
        del self.applications[name]

    def status(self):
        return self

    def _get_global_client(self):
        return self

    def shutdown(self):
        self.running = False

    def _end(self, step):
        if step == self.fails:
            raise KeyboardInterrupt


@pytest.mark.parametrize("fails", ["start", "run", "the block"])
@pytest.mark.parametrize("others", [{}, {"other": 1}])
def test_a_start_that_fails_leaves_nothing_behind(monkeypatch, fails, others):
    fake = FakeServe(fails)
    fake.applications = dict(others)
    monkeypatch.setattr(serving, "import_ray", lambda module: fake)
    monkeypatch.setattr(serving, "ray_session", lambda address: nullcontext())
    monkeypatch.setattr(serving, "build", lambda arguments: "application")
    with pytest.raises(KeyboardInterrupt), serving.serving_on_ray("sentiment", Settings(no_keys=True), Replicas()):
        raise KeyboardInterrupt
    assert fake.applications == others
    assert fake.running == bool(others)


def test_a_second_server_does_not_replace_the_first(monkeypatch):
    fake = FakeServe("nothing")
    fake.applications, fake.running = {"datamux": "the first"}, True
    monkeypatch.setattr(serving, "import_ray", lambda module: fake)
    monkeypatch.setattr(serving, "ray_session", lambda address: nullcontext())
    monkeypatch.setattr(serving, "build", lambda arguments: "the second")
    refused = pytest.raises(ValueError, match="has a server of ours already")
    with refused, serving.serving_on_ray("sentiment", Settings(no_keys=True), Replicas()):
        pass
    assert (fake.applications, fake.running) == ({"datamux": "the first"}, True)


@pytest.mark.parametrize("port", [8000, 8080])
def test_an_address_that_ray_would_ignore_is_refused(monkeypatch, port):
    fake = FakeServe("nothing")
    fake.applications, fake.running = {"other": 1}, True
    fake.http_config = SimpleNamespace(host="127.0.0.1", port=8000)
    monkeypatch.setattr(serving, "import_ray", lambda module: fake)
    monkeypatch.setattr(serving, "ray_session", lambda address: nullcontext())
    monkeypatch.setattr(serving, "build", lambda arguments: "application")
    running = serving.serving_on_ray("sentiment", Settings(no_keys=True, port=port), Replicas())
    if port == 8000:
        with running as address:
            assert address == "http://127.0.0.1:8000"
            assert "datamux" in fake.applications
    else:
        told = r"at 127\.0\.0\.1:8000, .* use --host 127\.0\.0\.1 --port 8000, .* instead of 127\.0\.0\.1:8080"
        with pytest.raises(ValueError, match=told), running:
            pass
    assert (fake.applications, fake.running) == ({"other": 1}, True)


def test_options_of_a_cluster_need_the_engine():
    done = run("serve", "sentiment", "--max-replicas", 4)
    assert done.returncode == 2
    assert "--max-replicas can only be used with --engine ray" in done.stderr
    assert "unknown engine 'rya'" in run("serve", "sentiment", "--engine", "rya").stderr
    done = run("predict", "sentiment", "in.csv", "-o", "out.csv", "--concurrency", 2)
    assert "--concurrency can only be used with --engine ray" in done.stderr


def test_without_keys_no_two_requests_are_one_tenant_even_through_two_fronts(app):
    seen = []

    class Watched(Remote):
        async def remote(self, request):
            seen.append(request.client)
            return await super().remote(request)

    for _ in range(2):
        client = TestClient(Front(Watched({"ab": app}), {}, 100).__serve_build_asgi_app__())
        for _ in range(3):
            client.get("/livez")
    assert len(seen) == len(set(seen)) == 6

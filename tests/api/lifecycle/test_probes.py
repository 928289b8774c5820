"""`aioproducer.asgi.Probes`: the answers to probes, without I/O."""

from __future__ import annotations

import json
from typing import Any

import attrs
import pytest

from aioproducer import BrokerUnavailableError, Health, Producer
from aioproducer.asgi import Probes
from aioproducer.testing import MockProducer

GOOD = Health(state="running", ready=True)
SLOW = Health(state="running", ready=False, problems=("no metadata was read yet",))
DEAD = Health(state="failed", live=False, ready=False, problems=("the background task ended",))


@attrs.frozen
class Answer:
    """The answer of an app."""

    status: int
    headers: dict[bytes, bytes]
    body: bytes

    @property
    def facts(self) -> Any:
        """The body."""
        return json.loads(self.body)


async def asked(app: Probes, path: str, method: str = "GET", **scope: Any) -> Answer:
    """One request, as a server makes it."""
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    async def receive() -> Any:
        raise AssertionError("a probe has no body")

    await app({"type": "http", "path": path, "method": method, "headers": []} | scope, receive, send)
    begin, body = sent
    assert (begin["type"], body["type"]) == ("http.response.start", "http.response.body")
    return Answer(begin["status"], dict(begin["headers"]), body["body"])


def found(health: Health, name: str = "aioproducer") -> MockProducer:
    """A producer in this condition."""
    producer = MockProducer(client_id=name)
    producer.health = lambda: health  # type: ignore[method-assign]  # the condition of the moment
    return producer


@pytest.mark.parametrize(
    ("health", "path", "status"),
    [
        (GOOD, "/live", 200),
        (GOOD, "/ready", 200),
        (GOOD, "/health", 200),
        (SLOW, "/live", 200),
        (SLOW, "/ready", 503),
        (SLOW, "/health", 200),
        (DEAD, "/live", 503),
        (DEAD, "/ready", 503),
        (DEAD, "/health", 200),
    ],
)
async def test_status(health: Health, path: str, status: int) -> None:
    """`/live` and `/ready` follow the producer; `/health` tells and does not judge. Every answer has both facts."""
    answer = await asked(Probes(found(health)), path)
    assert answer.status == status
    assert (answer.facts["live"], answer.facts["ready"]) == (health.live, health.ready)
    assert answer.headers == {
        b"content-type": b"application/json",
        b"content-length": b"%d" % len(answer.body),
        b"cache-control": b"no-store",
    }


async def test_a_producer_that_does_not_run_says_so() -> None:
    """A probe that fails has a reason, also before the start and behind the end."""
    producer: Producer[Any, Any] = Producer("localhost:9092")
    app = Probes(producer)
    answer = await asked(app, "/ready")
    assert (answer.status, answer.facts["problems"]) == (503, ["the producer was not started"])
    await producer.close()
    answer = await asked(app, "/ready")
    assert (answer.status, answer.facts["problems"]) == (503, ["the producer is closed"])


async def test_producers_of_the_state() -> None:
    """Those that the lifespan of the application has made; without it there is nothing to tell."""
    app = Probes.of_state()
    state = {"producers": (found(GOOD, "orders"), found(SLOW, "audit"))}
    answer = await asked(app, "/ready", state=state)
    assert answer.facts["problems"] == ["audit: no metadata was read yet"]
    assert (await asked(app, "/ready", state={"producer": found(GOOD)})).status == 200
    with pytest.raises(RuntimeError, match="is lifespan"):
        await asked(app, "/ready", state={})
    wrong: Any = MockProducer
    with pytest.raises(TypeError, match=r"Probes\.of_state"):
        Probes(wrong)


async def test_problems_are_told_in_words() -> None:
    """The body of a probe that fails says why: Kubernetes shows it in the events of the pod."""
    answer = await asked(Probes(found(SLOW)), "/ready")
    assert answer.facts == {"live": True, "ready": False, "problems": ["no metadata was read yet"]}


async def test_several_producers_are_as_good_as_the_worst() -> None:
    """One producer that is not ready, or not live, decides; its problems carry its name."""
    app = Probes(found(GOOD, "orders"), found(SLOW, "audit"))
    answer = await asked(app, "/ready")
    assert answer.status == 503
    assert answer.facts["problems"] == ["audit: no metadata was read yet"]
    assert (await asked(app, "/live")).status == 200
    assert (await asked(Probes(found(GOOD), found(DEAD)), "/live")).status == 503


async def test_health_has_all_facts_of_each_producer() -> None:
    """Each producer is there by its client id, with its health as plain JSON."""
    health = attrs.evolve(GOOD, last_error=BrokerUnavailableError("gone: \ud800"), connected_brokers=2)
    answer = await asked(Probes(found(health, "orders"), found(SLOW, "audit")), "/health")
    assert answer.facts["producers"] == [
        {"client_id": "orders"} | health.as_dict(),
        {"client_id": "audit"} | SLOW.as_dict(),
    ]


async def test_head_has_no_body() -> None:
    """HEAD answers as GET, with the length and without the body."""
    app = Probes(found(SLOW))
    head, get = await asked(app, "/ready", "HEAD"), await asked(app, "/ready")
    assert (head.status, head.headers, head.body) == (get.status, get.headers, b"")


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS"])
async def test_other_methods(method: str) -> None:
    """A probe is read only."""
    answer = await asked(Probes(found(GOOD)), "/live", method)
    assert (answer.status, answer.headers[b"allow"]) == (405, b"GET, HEAD")
    assert answer.headers[b"cache-control"] == b"no-store"


@pytest.mark.parametrize("path", ["", "/", "/alive", "/live//", "/live/x", "/x/live", "//live", "/LIVE"])
@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_other_paths(path: str, method: str) -> None:
    """Other paths are not found, by any method."""
    answer = await asked(Probes(found(GOOD)), path, method)
    assert (answer.status, answer.headers[b"cache-control"]) == (404, b"no-store")


@pytest.mark.parametrize(
    ("root", "path", "status"),
    [
        ("/probes", "/probes/live", 200),
        ("/probes", "/live", 200),
        ("/api/probes", "/api/probes/ready", 200),
        ("/probes/", "/probes/live", 200),
        ("/", "/live", 200),
        ("", "/live/", 200),
        ("/probes", "/probes/live/", 200),
        ("/live", "/live/live", 200),
        ("/live", "/live", 200),
        ("/probes", "/probes", 404),
        ("/live", "/live/", 404),
        ("/probes", "/probeslive", 404),
        ("/probes", "/probes/probes/live", 404),
    ],
)
async def test_where_it_is_mounted(root: str, path: str, status: int) -> None:
    """Frameworks name the place of a mounted app beside the whole path, or cut it off; both are understood."""
    assert (await asked(Probes(found(GOOD)), path, root_path=root)).status == status


async def test_a_web_socket_is_closed() -> None:
    """A WebSocket finds nothing here."""
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    async def receive() -> Any:
        raise AssertionError("nothing is read from it")

    await Probes(found(GOOD))({"type": "websocket", "path": "/live"}, receive, send)
    assert sent == [{"type": "websocket.close"}]


async def test_the_lifespan_of_a_server_is_refused() -> None:
    """As ASGI has it: a server that serves nothing else then goes on without these events."""
    with pytest.raises(ValueError, match="HTTP only, not 'lifespan'"):
        await Probes(found(GOOD))({"type": "lifespan"}, None, None)  # type: ignore[arg-type]  # it uses neither


async def test_before_and_after_the_life_of_a_producer() -> None:
    """A producer that is not started, or is closed, is live and not ready: it takes no requests."""
    producer = Producer("127.0.0.1:1")
    app = Probes(producer)
    assert ((await asked(app, "/live")).status, (await asked(app, "/ready")).status) == (200, 503)
    assert (await asked(app, "/health")).facts["producers"][0]["state"] == "new"
    await producer.close()
    assert ((await asked(app, "/live")).status, (await asked(app, "/ready")).status) == (200, 503)
    assert (await asked(app, "/health")).facts["producers"][0]["state"] == "closed"


def test_no_producer_is_a_mistake() -> None:
    """Without a producer there is no condition to tell."""
    with pytest.raises(TypeError, match="pass the producer"):
        Probes()

"""The web hooks that are written once: killed at every step, repeated at the same time, failed, fenced."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator

import httpx
import pytest

from aioproducer.testing import EmbeddedKafka
from examples.exactly_once_webhook import LARGEST, Once, app, once_of
from tests.examples.programs import example, serving

UVICORN = (
    "-m", "uvicorn", "--app-dir", example("exactly_once_webhook.py").parent, "exactly_once_webhook:app", "--port", "0"
)  # fmt: skip
LIMIT = 20.0
# Where the application is killed: at a request of this kind, before the broker has carried it out (True) or after.
MOMENTS = {
    1: [("AddPartitionsToTxn", False), ("EndTxn", False)],
    2: [
        ("InitProducerId", False),
        ("Produce", True),
        ("Produce", False),
        ("EndTxn", True),
        ("EndTxn", False),
    ],
}


@pytest.fixture(params=[1, 2], ids=["level1", "level2"])
async def kafka(request: pytest.FixtureRequest) -> AsyncIterator[EmbeddedKafka]:
    """A cluster with transactions of either version."""
    async with EmbeddedKafka(transaction_version=request.param) as kafka:
        kafka.create_topic("hooks", 2)
        kafka.create_topic("hooks-seen", 2)
        yield kafka


def written(kafka: EmbeddedKafka) -> list[tuple[bytes | None, bytes | None]]:
    """The committed records of the topic, by key."""
    return sorted((each.key, each.value) for each in kafka.records("hooks"))


async def post(client: httpx.AsyncClient, key: str, hook: bytes = b"paid") -> httpx.Response:
    """Send a hook, once."""
    return await client.post("/hooks", content=hook, headers={"Idempotency-Key": key})


async def repeated(client: httpx.AsyncClient, key: str) -> int:
    """Send a hook as its senders do: until it is taken; the answer's status."""
    async with asyncio.timeout(LIMIT):
        while (answer := await post(client, key)).status_code == 503:
            pass
    return answer.status_code


async def test_killed_anywhere(kafka: EmbeddedKafka, request: pytest.FixtureRequest) -> None:
    """Whatever request a SIGKILL comes at, the hook that had no answer is repeated, and is there once; so are all others (E08)."""
    moments = MOMENTS[request.node.callspec.params["kafka"]]
    answers = []
    for number, (api, before) in enumerate(moments):
        async with serving(kafka, *UVICORN) as (server, address):
            async with httpx.AsyncClient(base_url=address, timeout=LIMIT) as client:
                if number:
                    answers.append(await repeated(client, f"{number - 1}"))
                held = kafka.faults.delay(api=api, before=before)
                lost = asyncio.create_task(post(client, f"{number}"))
                async with asyncio.timeout(LIMIT):
                    await held.reached()
                assert await server.stop(signal.SIGKILL) == -signal.SIGKILL
                with pytest.raises(httpx.TransportError):
                    await lost
            held.release()
    async with (
        serving(kafka, *UVICORN) as (server, address),
        httpx.AsyncClient(base_url=address, timeout=LIMIT) as client,
    ):
        answers.append(await repeated(client, f"{len(moments) - 1}"))
        assert {(await post(client, f"{number}")).status_code for number in range(len(moments))} == {200}
        assert await server.stop(signal.SIGTERM) == -signal.SIGTERM
    # The commit of the last one was carried out before the application was killed.
    assert answers == [*[201] * (len(moments) - 1), 200]
    assert written(kafka) == [(b"%d" % number, b"paid") for number in range(len(moments))]
    assert "Traceback" not in server.output


@pytest.fixture
async def once(kafka: EmbeddedKafka) -> AsyncIterator[Once]:
    """That of an application in this process."""
    once = Once(kafka.bootstrap_servers)
    app.dependency_overrides[once_of] = lambda: once
    yield once
    app.dependency_overrides.clear()
    await once.close()


@pytest.fixture
async def client(once: Once) -> AsyncIterator[httpx.AsyncClient]:
    """A sender of hooks, without a server."""
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://here") as client:
        yield client


async def test_repeated_at_the_same_time(client: httpx.AsyncClient, kafka: EmbeddedKafka) -> None:
    """Of ten that come together with three keys, three are new."""
    answers = await asyncio.gather(*[post(client, f"{number % 3}") for number in range(10)])
    assert sorted(answer.status_code for answer in answers) == [200] * 7 + [201] * 3
    assert written(kafka) == [(b"0", b"paid"), (b"1", b"paid"), (b"2", b"paid")]


@pytest.mark.parametrize("before", [True, False], ids=["not_committed", "committed"])
async def test_nobody_knows_of_the_commit(
    once: Once, client: httpx.AsyncClient, kafka: EmbeddedKafka, *, before: bool
) -> None:
    """When the sender's patience ends during the commit, the repetition finds out, and the hook is there once."""
    await post(client, "0")
    held = kafka.faults.delay(api="EndTxn", before=before)
    impatient = asyncio.create_task(once.write(b"1", b"paid"))
    await held.reached()
    impatient.cancel()
    with pytest.raises(asyncio.CancelledError):
        await impatient
    held.release()
    assert await repeated(client, "1") == (201 if before else 200)
    assert written(kafka) == [(b"0", b"paid"), (b"1", b"paid")]


async def test_refused_by_a_broker(client: httpx.AsyncClient, kafka: EmbeddedKafka) -> None:
    """503 for an aborted hook, with a time to come back; the repetition is written."""
    kafka.faults.error("TOPIC_AUTHORIZATION_FAILED", api="Produce", topic="hooks")
    answer = await post(client, "0")
    assert (answer.status_code, answer.headers["retry-after"], written(kafka)) == (503, "2", [])
    assert await repeated(client, "0") == 201
    assert written(kafka) == [(b"0", b"paid")]


async def test_the_second_one_takes_over(client: httpx.AsyncClient, kafka: EmbeddedKafka) -> None:
    """The first instance can write nothing any more, and still knows the hooks that were written before."""
    assert await repeated(client, "0") == 201
    second = Once(kafka.bootstrap_servers)
    assert await second.write(b"1", b"paid")
    assert [(await post(client, key)).status_code for key in ("2", "3", "0")] == [503, 503, 200]
    assert await second.write(b"2", b"paid")
    assert not await second.write(b"0", b"paid")
    await second.close()
    assert [key for key, _ in written(kafka)] == [b"0", b"1", b"2"]


async def test_what_is_no_hook(client: httpx.AsyncClient, kafka: EmbeddedKafka) -> None:
    """Without a key, or too large: refused before anything is sent."""
    assert (await client.post("/hooks", content=b"paid")).status_code == 422
    assert (await post(client, "0", bytes(LARGEST + 1))).status_code == 413
    assert kafka.requests == ()

"""A producer used at the wrong time or place raises a StateError that names the reason; it never hangs."""

from __future__ import annotations

import asyncio
import os
import pickle
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from aioproducer import Outcome, Producer, ProducerConfig, Record, StateError
from aioproducer.testing import EmbeddedKafka
from tests.api.conftest import Make
from tests.api.support import LIMIT, values, warm

Use = Callable[[Producer[Any, Any]], Any]

ASYNC_USES: dict[str, Use] = {
    "send": lambda producer: producer.send("one", b"v"),
    "send with headers": lambda producer: producer.send("one", b"v", headers={"a": b"b"}),
    "send_and_wait": lambda producer: producer.send_and_wait("one", b"v"),
    "send_batch": lambda producer: producer.send_batch("one", [b"v"]),
    "send_all": lambda producer: producer.send_all([Record("one", b"v")]),
    "flush": lambda producer: producer.flush(),
    "partitions_for": lambda producer: producer.partitions_for("one"),
    "ready": lambda producer: producer.ready(1),
}
SYNC_USES: dict[str, Use] = {
    "send_nowait": lambda producer: producer.send_nowait("one", b"v"),
    "purge": lambda producer: producer.purge(),
}
SENDS = [name for name in (*ASYNC_USES, *SYNC_USES) if name.startswith("send")]


async def use(producer: Producer[Any, Any], name: str) -> Any:
    """Call one method and await its result, for a limited time."""
    if name in SYNC_USES:
        return SYNC_USES[name](producer)

    async def awaited() -> Any:
        return await ASYNC_USES[name](producer)

    return await asyncio.wait_for(awaited(), LIMIT)


def from_properties(given: Any) -> Producer[Any, Any]:
    """A producer from properties, with one setting on top."""
    return Producer.from_properties(given, client_id="test")


@pytest.mark.parametrize("name", [*ASYNC_USES, *SYNC_USES])
async def test_before_start(make: Make, name: str) -> None:
    """Before start() the error says how to start."""
    with pytest.raises(StateError, match="start") as caught:
        await use(make(), name)
    assert caught.value.outcome is Outcome.NOT_WRITTEN


@pytest.mark.parametrize("name", [*ASYNC_USES, *SYNC_USES])
async def test_after_close(producer: Producer, name: str) -> None:
    """After close() the error says that it was closed."""
    await producer.close()
    with pytest.raises(StateError, match="closed"):
        await use(producer, name)


@pytest.mark.parametrize("name", [*ASYNC_USES, *SYNC_USES])
async def test_from_another_thread(producer: Producer, kafka: EmbeddedKafka, name: str) -> None:
    """In another thread the error names send_threadsafe(), and nothing is sent."""
    refusals: list[BaseException] = []

    def other() -> None:
        async def main() -> None:
            await use(producer, name)

        try:
            asyncio.run(main())
        except BaseException as error:  # noqa: BLE001  # reported to the test
            refusals.append(error)

    await asyncio.to_thread(other)
    assert [type(error) for error in refusals] == [StateError]
    assert "thread" in str(refusals[0])
    await producer.flush()
    assert values(kafka) == []


@pytest.fixture
def two_loops() -> Iterator[tuple[asyncio.AbstractEventLoop, asyncio.AbstractEventLoop]]:
    """Two loops of one thread; remaining tasks in them are cancelled."""
    loops = asyncio.new_event_loop(), asyncio.new_event_loop()
    yield loops
    for loop in loops:
        loop.close()


@pytest.mark.parametrize("name", [*ASYNC_USES, *SYNC_USES])
def test_in_another_loop(
    two_loops: tuple[asyncio.AbstractEventLoop, asyncio.AbstractEventLoop], name: str
) -> None:
    """In another loop of the same thread the error names the loop, and nothing is accepted."""
    home, other = two_loops
    kafka = EmbeddedKafka()

    async def begin() -> Producer[Any, Any]:
        await kafka.start()
        kafka.create_topic("one")
        kafka.create_topic("four", 4)
        return await warm(Producer(kafka.bootstrap_servers))

    async def end(producer: Producer[Any, Any]) -> int:
        await producer.close(timeout=1)
        await kafka.stop()
        return producer.stats().records_accepted

    producer = home.run_until_complete(begin())
    try:
        with pytest.raises(StateError, match="loop"):
            other.run_until_complete(use(producer, name))
    finally:
        accepted = home.run_until_complete(end(producer))
    assert accepted == 0


@pytest.mark.parametrize("name", ["send_nowait", "purge"])
def test_outside_of_any_loop(
    two_loops: tuple[asyncio.AbstractEventLoop, asyncio.AbstractEventLoop], name: str
) -> None:
    """Outside of any running loop it is a StateError as well."""
    home, _ = two_loops
    producer: Producer[Any, Any] = Producer("127.0.0.1:1")
    home.run_until_complete(producer.start())
    try:
        with pytest.raises(StateError):
            SYNC_USES[name](producer)
    finally:
        home.run_until_complete(producer.close(timeout=0))


def test_close_in_another_loop(
    two_loops: tuple[asyncio.AbstractEventLoop, asyncio.AbstractEventLoop],
) -> None:
    """close() in another loop is a StateError; close() in its own loop still works."""
    home, other = two_loops
    producer: Producer[Any, Any] = Producer("127.0.0.1:1")
    home.run_until_complete(producer.start())
    with pytest.raises(StateError, match="loop"):
        other.run_until_complete(producer.close())
    home.run_until_complete(producer.close(timeout=0))


def in_child(check: Callable[[], None]) -> int:
    """Fork, run the check in the child, and return its exit code: 0 if it raised nothing."""
    child = os.fork()
    if child == 0:
        try:
            check()
        except BaseException:  # noqa: BLE001  # reported by the exit code
            os._exit(1)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status)


@pytest.mark.parametrize("name", SENDS)
async def test_after_fork(producer: Producer[Any, Any], kafka: EmbeddedKafka, name: str) -> None:
    """In a forked child every send is a StateError that says so; the parent continues to send."""

    def check() -> None:
        uses = ASYNC_USES | SYNC_USES
        try:
            sending = uses[name](producer)
            sending.send(None)
        except StateError as error:
            assert "fork" in str(error)  # noqa: PT017  # there is no pytest in the child
        else:
            raise AssertionError("the child could send")

    assert in_child(check) == 0
    await producer.send_and_wait("one", b"parent")
    assert values(kafka) == [b"parent"]


async def test_health_after_fork(producer: Producer[Any, Any]) -> None:
    """A forked child cannot use the producer: it is not ready there, and the problem tells what to do."""

    def check() -> None:
        health = producer.health()
        assert (health.live, health.ready) == (True, False)
        assert health.problems == (
            "this process was forked after the producer was started: create a new one in the child",
        )

    await producer.ready(LIMIT)
    assert in_child(check) == 0
    assert producer.health().ready
    await producer.close()
    assert in_child(lambda: _is_closed(producer)) == 0


def _is_closed(producer: Producer[Any, Any]) -> None:
    assert producer.health().problems == ("the producer is closed",)


async def test_own_producer_after_fork(producer: Producer) -> None:
    """A forked child can make and start a producer of its own."""
    servers = [str(server) for server in producer.config.bootstrap_servers]

    def check() -> None:
        async def main() -> None:
            own: Producer[Any, Any] = Producer(servers)
            await own.start()
            await own.close(timeout=0)

        asyncio.events._set_running_loop(None)
        asyncio.run(main())

    assert in_child(check) == 0


async def test_child_that_drops_the_producer_does_not_close_the_parents_connection(
    producer: Producer[Any, Any], kafka: EmbeddedKafka
) -> None:
    """A child that drops or closes its copy does not affect the parent."""
    await producer.send_and_wait("one", b"before")

    def check() -> None:
        try:
            producer.close().send(None)
        except StateError:
            return
        raise AssertionError("the child could close")

    assert in_child(check) == 0
    await producer.send_and_wait("one", b"after")
    assert kafka.brokers[0].connections == 2
    assert producer.stats().connections[0].connects == 1


async def test_is_not_picklable(producer: Producer) -> None:
    """Pickling a producer is a TypeError that names the configuration, which can be pickled."""
    with pytest.raises(TypeError, match="config"):
        pickle.dumps(producer)
    assert pickle.loads(pickle.dumps(producer.config)) == producer.config


async def test_from_config(kafka: EmbeddedKafka) -> None:
    """A configuration that was made on its own makes a producer."""
    config = ProducerConfig(kafka.bootstrap_servers, linger_ms=7)
    async with Producer.from_config(config) as producer:
        assert producer.config is config
        assert (await producer.send_and_wait("one", b"v")).offset == 0


async def test_from_properties(kafka: EmbeddedKafka, tmp_path: Any) -> None:
    """Kafka's dotted names, from a mapping or a .properties file, with overrides on top."""
    file = tmp_path / "client.properties"
    file.write_text(f"# a client\nbootstrap.servers={kafka.bootstrap_servers}\nlinger.ms = 7\nacks=all\n")
    mapping = {"bootstrap.servers": kafka.bootstrap_servers, "linger.ms": "7"}
    for given in (file, str(file), mapping):
        # A file is read when the producer is made: not in the event loop, where that would block.
        made = await asyncio.to_thread(from_properties, given)
        async with made as producer:
            assert (producer.config.linger_ms, producer.config.client_id) == (7, "test")
            await producer.send_and_wait("one", b"v")
    assert len(values(kafka)) == 3

"""The beginning and the end of a serializer: `warm()` after the start, `close()` after the last record."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Callable
from typing import Any

import attrs
import pytest

from aioproducer import KafkaError, Producer, StateError
from aioproducer._calls.lifecycle import SHORTLY
from aioproducer._net.runtime import preparing
from aioproducer.serializers import NotPrepared
from aioproducer.testing import EmbeddedKafka, MockProducer
from tests.net.support import LIMIT, Make, engine, turns, until, warm
from tests.simulation.loop import SimulatedLoop


@attrs.define(eq=False)
class Warming:
    """Serializes the topics that it was warmed or prepared for, and records its calls."""

    calls: list[str] = attrs.Factory(list)
    known: set[str] = attrs.Factory(set)
    gate: asyncio.Event = attrs.Factory(asyncio.Event)
    error: BaseException | None = None
    running: int = 0
    on_close: Callable[[], None] = lambda: None

    def serialize(self, topic: str, headers: Any, data: Any) -> Any:
        if topic not in self.known:
            raise NotPrepared
        return data

    async def prepare(self, topic: str, headers: Any, data: Any) -> None:
        self.calls.append(f"prepare {topic}")
        self.known.add(topic)

    async def warm(self, topic: str) -> None:
        self.calls.append(f"warm {topic}")
        self.running += 1
        try:
            await self.gate.wait()
        finally:
            self.running -= 1
        if self.error is not None:
            raise self.error
        self.known.add(topic)

    async def close(self) -> None:
        self.on_close()
        self.calls.append("close")


async def test_warm_runs_behind_the_start(make: Make, kafka: EmbeddedKafka) -> None:
    """For each topic of the setting; start() does not wait, and the first record finds the results."""
    warming = Warming()
    producer = await warm(make(kafka, value_serializer=warming, topics=["one", "four"]), "one")
    await until(lambda: len(warming.calls) == 2)
    warming.gate.set()
    await until(lambda: warming.known == {"one", "four"})
    sending = producer.send("one", b"v")
    assert sending.delivery is not None
    await sending
    assert sorted(warming.calls) == ["warm four", "warm one"]


async def test_a_record_waits_for_the_warming(make: Make, kafka: EmbeddedKafka) -> None:
    """The warming is a preparation of the topic like others: nothing is requested twice."""
    warming = Warming()
    producer = await warm(make(kafka, value_serializer=warming, topics=["one"]), "one")
    sending = asyncio.ensure_future(producer.send_and_wait("one", b"v"))
    await turns(5)
    assert not sending.done()
    warming.gate.set()
    await sending
    assert warming.calls == ["warm one"]


@pytest.mark.parametrize("error", [ZeroDivisionError("no registry"), asyncio.CancelledError()], ids=repr)
async def test_the_first_record_prepares_again_what_was_not_warmed(
    error: BaseException, make: Make, kafka: EmbeddedKafka, caplog: pytest.LogCaptureFixture
) -> None:
    """A warming that fails is a line in the log."""
    warming = Warming(error=error)
    warming.gate.set()
    producer = await warm(make(kafka, value_serializer=warming, topics=["one"]), "one")
    await until(lambda: "warm() of the value serializer" in caplog.text)
    await producer.send_and_wait("one", b"v")
    assert warming.calls == ["warm one", "prepare one"]


async def test_one_object_for_both_parts(make: Make, kafka: EmbeddedKafka) -> None:
    """It is warmed once for each topic, and closed once; two objects are warmed and closed each."""
    both, other = Warming(), Warming()
    both.gate.set()
    other.gate.set()
    producer = await warm(make(kafka, key_serializer=both, value_serializer=both, topics=["one"]), "one")
    await until(lambda: both.known)
    await producer.close()
    assert both.calls == ["warm one", "close"]
    both.calls.clear()
    second = await warm(make(kafka, key_serializer=both, value_serializer=other, topics=["one"]), "one")
    await until(lambda: other.known)
    await second.close()
    assert both.calls == other.calls == ["warm one", "close"]


async def test_closed_after_the_last_record(make: Make, kafka: EmbeddedKafka) -> None:
    """All records have their outcomes, and no call of the serializer runs any more."""
    warming = Warming(known={"one"})
    producer = await warm(make(kafka, value_serializer=warming, topics=["four"], linger_ms=10_000), "one")
    await until(lambda: warming.calls == ["warm four"])
    delivery = await producer.send("one", b"v")
    seen: list[Any] = []
    warming.on_close = lambda: seen.append((delivery.done(), warming.running, producer.health().state))
    await producer.close()
    assert seen == [(True, 0, "closed")]
    assert warming.calls == ["warm four", "close"]
    await producer.close()
    assert warming.calls.count("close") == 1


async def test_a_close_that_fails(make: Make, kafka: EmbeddedKafka, caplog: pytest.LogCaptureFixture) -> None:
    """The failure is a line in the log, and the other serializer is closed."""

    def fails() -> None:
        raise ZeroDivisionError("the session")

    bad, good = Warming(on_close=fails), Warming()
    producer = await warm(make(kafka, key_serializer=bad, value_serializer=good), "one")
    await producer.close()
    assert "close() of the serializer Warming failed: ZeroDivisionError('the session')" in caplog.text
    assert good.calls == ["close"]


async def test_a_close_that_hangs(
    make: Make, kafka: EmbeddedKafka, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """close() of the producer ends in its time; the serializer is given up soon."""
    monkeypatch.setattr(preparing, "CLOSE_LIMIT", 0.5)

    class Hanging(Warming):
        async def close(self) -> None:
            await asyncio.Event().wait()

    producer = await warm(make(kafka, value_serializer=Hanging()), "one")
    began = asyncio.get_running_loop().time()
    await asyncio.wait_for(producer.close(timeout=0.05), LIMIT)
    assert asyncio.get_running_loop().time() - began < 0.5
    closing = engine(producer).preparing.closing
    assert closing is not None
    await asyncio.wait([closing])
    assert "close() of the serializer Hanging failed: TimeoutError" in caplog.text


@pytest.mark.parametrize("timeout", [0.0, 0.5])
def test_a_close_that_hangs_behind_a_task_that_goes_on(timeout: float) -> None:
    """The producer waits for both together as long as it may for one."""

    class Deaf(Warming):
        async def prepare(self, topic: str, headers: Any, data: str) -> None:
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.sleep(LIMIT)  # virtual time
            await asyncio.sleep(LIMIT)  # virtual time

        async def close(self) -> None:
            await asyncio.Event().wait()

    async def life() -> None:
        producer = MockProducer(value_serializer=Deaf())
        await producer.start()
        send = asyncio.ensure_future(producer.send("one", "a"))
        await asyncio.sleep(0.01)  # virtual time
        began = asyncio.get_running_loop().time()
        await producer.close(timeout)
        assert asyncio.get_running_loop().time() == pytest.approx(began + max(timeout, SHORTLY), abs=0.01)
        with pytest.raises(StateError):
            await send
        await asyncio.sleep(3 * LIMIT)  # virtual time

    loop = SimulatedLoop(random.Random(7))
    loop.run_until_complete(life())
    assert not loop.troubles
    loop.close()


async def test_a_close_that_is_a_function(make: Make, kafka: EmbeddedKafka) -> None:
    """As in other clients; a plain function has no close(), even if its object has one."""
    calls: list[str] = []

    class Plain:
        def serialize(self, topic: str, headers: Any, data: Any) -> Any:
            return data

        def encode(self, data: Any) -> Any:
            return data

        def close(self) -> None:
            calls.append("close")

    await (await warm(make(kafka, value_serializer=Plain()), "one")).close()
    assert calls == ["close"]
    await (await warm(make(kafka, value_serializer=Plain().encode), "one")).close()
    assert calls == ["close"]


async def test_a_producer_that_died_closes_them_as_well(make: Make, kafka: EmbeddedKafka) -> None:
    """Its close() closes them, at any later time."""
    warming = Warming(known={"one"})
    producer = await warm(make(kafka, value_serializer=warming), "one")
    engine(producer).crash(StateError("a bug"))
    await until(lambda: producer.health().state == "failed")
    assert warming.calls == []
    await producer.close()
    assert warming.calls == ["close"]


async def test_a_start_that_failed_closes_nothing(make: Make) -> None:
    """The start may be repeated with the same serializers; close() closes them."""
    warming = Warming()
    producer = make("127.0.0.1:1", value_serializer=warming, topics=["one"])
    for _ in range(2):
        with pytest.raises(KafkaError):
            await producer.start(wait_ready=0.05)
    assert warming.calls == ["warm one"] * 2
    await producer.close()
    assert warming.calls == ["warm one", "warm one", "close"]


async def test_a_start_that_failed_closes_what_was_made_for_it(make: Make) -> None:
    """The next start makes another; close() closes the one that stays."""
    made: list[Warming] = []

    class Maker(Warming):
        def for_part(self, part: str) -> Warming:
            made.append(Warming())
            return made[-1]

    staying = Warming()
    producer = make("127.0.0.1:1", key_serializer=staying, value_serializer=Maker(), topics=["one"])
    for _ in range(2):
        with pytest.raises(KafkaError):
            await producer.start(wait_ready=0.05)
    assert [each.calls for each in made] == [["warm one", "close"]] * 2
    await producer.close()
    assert [each.calls for each in made] == [["warm one", "close"]] * 2
    assert staying.calls == ["warm one", "warm one", "close"]


async def test_a_producer_that_never_started_closes_nothing() -> None:
    """There is nothing to close."""
    warming = Warming()
    producer: Producer[Any, Any] = Producer("127.0.0.1:1", value_serializer=warming)
    await producer.close()
    assert warming.calls == []

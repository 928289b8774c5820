"""Cancellation at every await point of every public coroutine, enumerated: step by step until the call gets through."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import attrs
import pytest

from aioproducer import CloseReport, Outcome, Producer, Record
from aioproducer.testing import EmbeddedKafka
from tests.net.support import LIMIT, Make, memory_in_use, turns, warm
from tests.runtime.stepping import Ended, Moment, cancelled_at
from tests.runtime.support import History, no_task_left, sound

MEMORY = 3_000
MOST_STEPS = 60
MOMENTS = pytest.mark.parametrize("moment", Moment, ids=lambda moment: moment.name.lower())
DOUBLE = pytest.mark.parametrize("double", [False, True], ids=["once", "twice"])

Check = Callable[[Ended], Awaitable[None]]


@pytest.fixture(autouse=True)
async def nothing_told(nothing_left: None) -> AsyncIterator[None]:
    """Nothing may be told to the loop's exception handler."""
    told: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context))
    yield
    await turns()
    assert told == []


@attrs.define
class Scene:
    """A running producer whose brokers are slow, what it was given, and the number of the step."""

    producer: Producer[Any, Any]
    kafka: EmbeddedKafka
    history: History = attrs.Factory(History)
    topics: list[str] = attrs.Factory(lambda: ["one", "four"])

    def new_topic(self) -> str:
        """A topic that the producer does not know."""
        self.topics.append(f"new-{len(self.topics)}")
        return self.topics[-1]

    async def told_of(self, value: bytes, delivery: Any) -> None:
        """Accepted records are written, for any cancelled caller."""
        assert await delivery.wait(LIMIT) is Outcome.ACKED
        self.history.accepted(value, delivery)


def judged(scene: Scene, topic: str, value: bytes, sending: Any) -> Check:
    """A record that was accepted is written once; one that was withdrawn is not."""

    async def check(ended: Ended) -> None:
        if sending.delivery is None:
            assert ended.cancelled
            scene.history.refused(value, topic)
        else:
            await scene.told_of(value, sending.delivery)

    return check


async def send_to_an_unknown_topic(scene: Scene) -> tuple[Awaitable[Any], Check]:
    """send() waits for metadata."""
    topic, value = scene.new_topic(), scene.history.value()
    sending = scene.producer.send(topic, value)
    return sending, judged(scene, topic, value, sending)


async def send_with_full_memory(scene: Scene) -> tuple[Awaitable[Any], Check]:
    """send() waits for memory."""
    filling = bytes(MEMORY // 3)
    values = [scene.history.value(filling) for _ in range(4)]
    sendings = [scene.producer.send("one", value) for value in values]
    assert [sending.delivery is None for sending in sendings] == [False, False, True, True]
    behind = asyncio.ensure_future(sendings[3])
    for sending in sendings[:2]:
        await sending

    async def check(ended: Ended) -> None:
        for value, sending in zip(values[:2], sendings[:2], strict=True):
            await scene.told_of(value, sending.delivery)
        await judged(scene, "one", values[2], sendings[2])(ended)
        # A call behind one that went away moves up.
        await scene.told_of(values[3], await asyncio.wait_for(behind, LIMIT))

    return sendings[2], check


async def send_through_a_coroutine_serializer(scene: Scene) -> tuple[Awaitable[Any], Check]:
    """send() waits for its serializer, which is slow for this record."""
    slow, behind = scene.history.value(b"slow"), scene.history.value()
    sending = scene.producer.send("one", slow)
    following = asyncio.ensure_future(scene.producer.send("one", behind))

    async def check(ended: Ended) -> None:
        await judged(scene, "one", slow, sending)(ended)
        await scene.told_of(behind, await asyncio.wait_for(following, LIMIT))

    return sending, check


async def send_and_wait_to_a_known_topic(scene: Scene) -> tuple[Awaitable[Any], Check]:
    """send_and_wait() waits for the answer."""
    value = scene.history.value()
    sending = scene.producer.send_and_wait("one", value)
    return sending, judged(scene, "one", value, sending)


async def send_and_wait_to_an_unknown_topic(scene: Scene) -> tuple[Awaitable[Any], Check]:
    """send_and_wait() waits for metadata, then for the answer."""
    topic, value = scene.new_topic(), scene.history.value()
    sending = scene.producer.send_and_wait(topic, value)
    return sending, judged(scene, topic, value, sending)


async def send_batch_of_more_than_fits(scene: Scene) -> tuple[Awaitable[Any], Check]:
    """send_batch() waits for memory again and again, its result for the answers."""
    sending = scene.producer.send_batch("four", [b"%03d" % i + bytes(500) for i in range(20)], partition=2)
    before = len(scene.kafka.records("four"))

    async def both() -> Any:
        return await (await sending)

    async def check(ended: Ended) -> None:
        assert sending.delivery is not None
        result = await asyncio.wait_for(sending.delivery, LIMIT)
        written = [int((record.value or b"")[:3]) for record in scene.kafka.records("four")[before:]]
        # In order, each once; records that were not accepted when the caller left are not written.
        assert written == [index for index in range(20) if index not in result.errors]
        assert result.acked == len(written)
        assert ended.cancelled or result.acked == 20

    return both(), check


async def send_all_of_more_than_fits(scene: Scene) -> tuple[Awaitable[Any], Check]:
    """send_all() waits for memory, then for all outcomes."""
    before = len(scene.kafka.records("four"))

    async def records() -> AsyncIterator[Record[Any, Any]]:
        for index in range(12):
            yield Record("four", b"%03d" % index + bytes(500), partition=1)

    async def check(ended: Ended) -> None:
        await scene.producer.flush()
        written = [int((record.value or b"")[:3]) for record in scene.kafka.records("four")[before:]]
        assert written == list(range(len(written)))
        assert ended.cancelled or len(written) == 12

    return scene.producer.send_all(records()), check


async def flush(scene: Scene) -> tuple[Awaitable[Any], Check]:
    """flush() waits for the answers, and for a record that is queued for its topic."""
    topic, value, queued = scene.new_topic(), scene.history.value(), scene.history.value()
    delivery = await scene.producer.send("one", value)
    waiting = scene.producer.send_nowait(topic, queued)

    async def check(ended: Ended) -> None:
        await scene.told_of(value, delivery)
        await scene.told_of(queued, waiting)
        # The report of a flush that was cancelled is not lost: the next one counts the records.
        assert ended.cancelled == ((await scene.producer.flush()).acked > 0)

    return scene.producer.flush(), check


async def flush_with_a_limit(scene: Scene) -> tuple[Awaitable[Any], Check]:
    """flush(timeout) does the same inside a limit."""
    value = scene.history.value()
    delivery = await scene.producer.send("one", value)

    async def check(ended: Ended) -> None:
        await scene.told_of(value, delivery)

    return scene.producer.flush(LIMIT), check


async def partitions_for(scene: Scene) -> tuple[Awaitable[Any], Check]:
    """partitions_for() waits for metadata."""
    topic = scene.new_topic()

    async def check(ended: Ended) -> None:
        assert len(await asyncio.wait_for(scene.producer.partitions_for(topic), LIMIT)) == 1

    return scene.producer.partitions_for(topic), check


async def await_a_delivery(scene: Scene) -> tuple[Awaitable[Any], Check]:
    """`await delivery` waits for the answer."""
    value = scene.history.value()
    delivery = await scene.producer.send("one", value)
    return delivery, lambda _: scene.told_of(value, delivery)


async def wait_for_a_delivery(scene: Scene) -> tuple[Awaitable[Any], Check]:
    """`delivery.wait()` does, too, with a limit."""
    value = scene.history.value()
    delivery = await scene.producer.send("one", value)
    return delivery.wait(LIMIT), lambda _: scene.told_of(value, delivery)


Play = Callable[[Scene], Awaitable[tuple[Awaitable[Any], Check]]]
PLAYS: list[Play] = [
    send_to_an_unknown_topic,
    send_with_full_memory,
    send_through_a_coroutine_serializer,
    send_and_wait_to_a_known_topic,
    send_and_wait_to_an_unknown_topic,
    send_batch_of_more_than_fits,
    send_all_of_more_than_fits,
    flush,
    flush_with_a_limit,
    partitions_for,
    await_a_delivery,
    wait_for_a_delivery,
]


async def slowly(value: bytes) -> bytes:
    """A serializer that takes a few turns for some values."""
    if value.endswith(b"slow"):
        await turns(2)
    return value


@DOUBLE
@MOMENTS
@pytest.mark.parametrize("play", PLAYS)
async def test_f03_every_await_point(
    play: Play, moment: Moment, double: bool, make: Make, kafka: EmbeddedKafka
) -> None:
    """Wherever a call is cancelled, once or twice: it says so, nothing is lost, and the producer is as before."""
    settings: dict[str, Any] = {"value_serializer": slowly} if "serializer" in play.__name__ else {}
    producer = await warm(make(kafka, buffer_memory=MEMORY, batch_size=1_000, **settings), "one", "four")
    await sound(producer)
    kafka.faults.delay(0.001, api=None, times=None)
    scene = Scene(producer, kafka)
    for step in itertools.count(1):
        assert step < MOST_STEPS
        awaitable, check = await play(scene)
        ended = await cancelled_at(awaitable, {step, step + 1} if double else {step}, moment)
        assert ended.error is None
        # It is never swallowed: who was cancelled while it waited, ends as cancelled.
        assert ended.cancelled == (ended.cancels > 0)
        await check(ended)
        await sound(producer)
        if not ended.cancels:
            break
    assert step > 1, "the call never waited"
    scene.history.check(kafka, [topic for topic in scene.topics if topic != "four"])


# -- calls that begin or end a producer: a new one for each step


@DOUBLE
@MOMENTS
async def test_f03_f21_every_await_point_of_start(
    moment: Moment, double: bool, make: Make, kafka: EmbeddedKafka
) -> None:
    """A start(wait_ready) that is cancelled anywhere has ended what it began, and the next one works."""
    kafka.faults.delay(0.001, api=None, times=None)
    for step in itertools.count(1):
        producer = make(kafka)
        ended = await cancelled_at(
            producer.start(wait_ready=LIMIT), {step, step + 1} if double else {step}, moment
        )
        assert ended.error is None
        assert ended.cancelled == (ended.cancels > 0)
        if not ended.cancels:
            assert producer.health().state == "running"
            break
        assert producer.health().state == "new"
        await no_task_left()
        await producer.start(wait_ready=LIMIT)
        await sound(producer)
        await producer.close()
    assert step > 2


@MOMENTS
async def test_f03_every_await_point_of_ready(moment: Moment, make: Make, kafka: EmbeddedKafka) -> None:
    """A ready() that is cancelled anywhere leaves the producer starting."""
    kafka.faults.delay(0.001, api=None, times=None)
    for step in itertools.count(1):
        producer = make(kafka)
        await producer.start()
        ended = await cancelled_at(producer.ready(LIMIT), {step}, moment)
        assert (ended.cancelled, ended.error) == (ended.cancels > 0, None)
        await producer.ready(LIMIT)
        await sound(producer)
        await producer.close()
        if not ended.cancels:
            break
    assert step > 1


@DOUBLE
@MOMENTS
async def test_f03_f20_every_await_point_of_close(
    moment: Moment, double: bool, make: Make, kafka: EmbeddedKafka
) -> None:
    """A close() that is cancelled anywhere has closed: every record has its outcome, and no task is left."""
    for step in itertools.count(1):
        producer = await warm(make(kafka), "one")
        kafka.faults.delay(0.001, api=None, times=None)
        deliveries = [await producer.send("one", b"%d" % number) for number in range(3)]
        queued = producer.send_nowait("unheard-of", b"queued")
        ended = await cancelled_at(producer.close(5), {step, step + 1} if double else {step}, moment)
        assert (ended.cancelled, ended.error) == (ended.cancels > 0, None)
        assert producer.health().state == "closed"
        assert all(delivery.done() for delivery in deliveries)
        assert queued.done()
        assert isinstance(await asyncio.wait_for(producer.close(), 1), CloseReport)
        await no_task_left()
        assert memory_in_use(producer) == 0
        kafka.faults.heal()
        if not ended.cancels:
            assert {delivery.outcome for delivery in deliveries} == {Outcome.ACKED}
            break
    assert step > 2

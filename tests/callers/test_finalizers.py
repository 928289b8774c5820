"""Code that runs in the middle of a call: a finalizer that the collector runs, or a handler of log lines, uses the producer.

The collector runs where memory is asked for, and from Python 3.12 on between any two steps: in the middle of a send, of what
leaves with a request, of an answer. What such code does there must be done, or refused, and nothing else may notice it.
"""

from __future__ import annotations

import asyncio
import contextvars
import gc
import random
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import attrs
import pytest

from aioproducer import BufferFullError, Delivery, Outcome, Producer
from aioproducer._net.timers.wakeup import Wakeup
from aioproducer._state.queues.partition_queue import PartitionQueue
from aioproducer.testing import EmbeddedKafka
from tests.effort import seeds
from tests.net.support import LIMIT, Make, engine, memory_in_use, timers_of_the_library, until, warm
from tests.runtime.support import sound

if TYPE_CHECKING:
    from aioproducer._core import Sending

TOPICS = ("one", "two")


@attrs.define
class Ledger:
    """The sent records, and the result of each call."""

    told: list[tuple[str, bytes, Delivery]] = attrs.Factory(list)

    def add(self, topic: str, value: bytes, delivery: Delivery) -> None:
        """A call gave this delivery for this record."""
        self.told.append((topic, value, delivery))

    def compare(self, kafka: EmbeddedKafka) -> None:
        """Each record is where its delivery says, once, or nowhere."""
        records = {topic: kafka.records(topic) for topic in TOPICS}
        at = {
            (topic, record.partition, record.offset): record.value
            for topic in TOPICS
            for record in records[topic]
        }
        copies = Counter((topic, record.value) for topic in TOPICS for record in records[topic])
        for topic, value, delivery in self.told:
            assert delivery.topic == topic
            if delivery.outcome is Outcome.ACKED:
                metadata = delivery.result()
                assert at.get((topic, metadata.partition, metadata.offset)) == value
                assert copies[topic, value] == 1
            else:
                assert delivery.outcome is Outcome.NOT_WRITTEN
                assert not copies[topic, value]


def while_opening(producer: Producer[Any, Any], act: Callable[[Any], object]) -> Callable[[], None]:
    """The collector runs whenever a batch has just been opened, and a finalizer does this; returns what ends that."""
    accumulator: Any = engine(producer).accumulator
    opens = PartitionQueue.roll

    def opened(queue: PartitionQueue, *about: Any) -> None:
        opens(queue, *about)
        if queue.accumulator is accumulator:
            act(queue)

    def rolled(queue: PartitionQueue, now: float, awaited: bool) -> None:
        accumulator.effects.event(opened, queue, now, awaited)

    setattr(PartitionQueue, "roll", rolled)  # noqa: B010  # to mypy it is a method
    return as_before


def as_before() -> None:
    """No finalizer runs while a batch is opened."""
    if "roll" in vars(PartitionQueue):
        delattr(PartitionQueue, "roll")


@pytest.fixture(autouse=True)
def _opened_as_before() -> Iterator[None]:
    yield
    as_before()


@contextmanager
def at_each_collection(act: Callable[[], object]) -> Iterator[None]:
    """The collector runs at every third object that it has to know of, and each time a finalizer of the user's does this."""
    running = False

    def collected(phase: str, info: dict[str, int]) -> None:
        del info
        nonlocal running
        if phase == "stop" and not running:
            running = True
            try:
                act()
            finally:
                running = False

    before = gc.get_threshold()
    gc.callbacks.append(collected)
    gc.set_threshold(3, 2, 2)
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.callbacks.remove(collected)


@pytest.mark.parametrize("elsewhere", [True, False], ids=["to another topic", "to the same partition"])
async def test_a_record_sent_while_a_batch_is_opened(
    elsewhere: bool, make: Make, kafka: EmbeddedKafka
) -> None:
    """The batch that is opened for one record has that record first, and each delivery is that of its own record."""
    producer = await warm(make(kafka, linger_ms=5), *TOPICS)
    ledger = Ledger()
    refused: list[BufferFullError] = []
    nested = TOPICS[1] if elsewhere else TOPICS[0]

    def opened(_: object) -> None:
        stop()
        try:
            # A later time than the outer record's takes more bytes.
            ledger.add(nested, b"nested", producer.send_nowait(nested, b"nested", partition=0, timestamp=5))
        except BufferFullError as error:
            refused.append(error)

    stop = while_opening(producer, opened)
    ledger.add(TOPICS[0], b"outer", producer.send_nowait(TOPICS[0], b"outer", partition=0))
    ledger.add(TOPICS[0], b"behind", producer.send_nowait(TOPICS[0], b"behind", partition=0))
    await producer.flush(LIMIT)
    ledger.compare(kafka)
    assert len(ledger.told) + len(refused) == 3
    assert [delivery.outcome for _, _, delivery in ledger.told] == [Outcome.ACKED] * len(ledger.told)
    await sound(producer)


async def test_a_send_that_waits_goes_on_after_the_batch_is_opened(make: Make, kafka: EmbeddedKafka) -> None:
    """A send() from such code waits for the record that it came into the middle of."""
    producer = await warm(make(kafka, linger_ms=5), "one")
    nested: list[asyncio.Future[Delivery]] = []

    def opened(_: object) -> None:
        stop()
        nested.append(asyncio.ensure_future(producer.send("one", b"nested", partition=0)))

    stop = while_opening(producer, opened)
    delivery = producer.send_nowait("one", b"outer", partition=0)
    assert (await delivery).offset == 0
    async with asyncio.timeout(LIMIT):
        assert (await (await nested[0])).offset == 1


async def test_a_purge_while_a_batch_is_opened(make: Make, kafka: EmbeddedKafka) -> None:
    """A batch that has no record yet is nothing to withdraw."""
    producer = await warm(make(kafka, linger_ms=5), "one")

    def opened(_: object) -> None:
        assert producer.purge() == 0

    while_opening(producer, opened)
    assert (await producer.send_nowait("one", b"v")).offset == 0
    await sound(producer)


@pytest.mark.parametrize("how", ["try_cancel", "purge"])
async def test_a_queued_record_is_not_withdrawn_while_it_is_placed(
    how: str, make: Make, kafka: EmbeddedKafka
) -> None:
    """try_cancel() and purge() come too late for it, and say so."""
    producer = await warm(make(kafka, linger_ms=5))
    delivery, said = producer.send_nowait("one", b"v"), []

    def opened(_: object) -> None:
        said.append(delivery.try_cancel() if how == "try_cancel" else producer.purge())

    while_opening(producer, opened)
    assert await delivery.wait(LIMIT) is Outcome.ACKED
    assert said == [0]
    assert [record.value for record in kafka.records("one")] == [b"v"]
    await sound(producer)


async def test_a_send_is_not_withdrawn_while_it_is_placed(make: Make, kafka: EmbeddedKafka) -> None:
    """The end of its await comes too late: the record is accepted, and the call has its delivery."""
    producer = await warm(make(kafka, linger_ms=5))
    call = producer.send("one", b"v")
    call.send(None)
    while_opening(producer, lambda _: call.close())
    await until(lambda: call.delivery)
    assert call.delivery is not None
    assert await call.delivery.wait(LIMIT) is Outcome.ACKED
    assert [record.value for record in kafka.records("one")] == [b"v"]
    await sound(producer)


@pytest.mark.parametrize(("singly", "placed"), [(False, 6), (True, 3)], ids=["at once", "one by one"])
async def test_a_bulk_send_that_is_withdrawn_while_it_is_placed(
    singly: bool, placed: int, make: Make, kafka: EmbeddedKafka
) -> None:
    """The record in placement has its place, those behind it have none, and each is reported once."""
    settings: dict[str, Any] = {"partitioner": lambda *_: 0} if singly else {}
    producer = await warm(make(kafka, linger_ms=5, batch_size=200, **settings))
    values = [b"%d" % number + bytes(90) for number in range(6)]
    call = producer.send_batch("one", values)
    call.send(None)
    opened: list[object] = []

    def opening(queue: object) -> None:
        opened.append(queue)
        if len(opened) == 3:
            call.close()

    while_opening(producer, opening)
    await until(lambda: call.delivery is not None and call.delivery.done())
    assert call.delivery is not None
    result = await call.delivery
    assert (result.acked, result.not_written, result.unknown) == (placed, len(values) - placed, 0)
    assert sorted(result.errors) == list(range(placed, len(values)))
    assert [record.value for record in kafka.records("one")] == values[:placed]
    await sound(producer)


async def test_a_bulk_send_that_is_withdrawn_while_one_of_its_records_has_waited_for_memory(
    make: Make, kafka: EmbeddedKafka
) -> None:
    """That record has its place, and the call none of those behind it."""
    producer = await warm(make(kafka, linger_ms=5, buffer_memory=3_000, batch_size=1_000), "one")
    admission = engine(producer).admission
    kafka.faults.delay(before=True, times=None)
    values = [bytes(2_700), bytes(2_600), bytes(300)]
    call = producer.send_batch("one", values, partition=0)
    call.send(None)
    await until(lambda: admission.memory.lines)
    while_opening(producer, lambda _: call.close())
    kafka.faults.heal()
    await until(lambda: call.delivery is not None and call.delivery.done())
    assert call.delivery is not None
    result = await call.delivery
    assert (result.acked, sorted(result.errors)) == (2, [2])
    assert [record.value for record in kafka.records("one")] == values[:2]
    await sound(producer)


async def test_a_batch_that_ends_while_it_is_opened(make: Make, kafka: EmbeddedKafka) -> None:
    """The record has the next one."""
    producer = await warm(make(kafka, linger_ms=5), "one")
    accumulator = engine(producer).accumulator

    def opened(queue: Any) -> None:
        stop()
        accumulator.unroll(queue)

    stop = while_opening(producer, opened)
    assert (await producer.send_nowait("one", b"v")).offset == 0
    await sound(producer)


async def test_nothing_is_withdrawn_while_it_is_chosen_for_a_request(
    make: Make, kafka: EmbeddedKafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    """try_cancel() and purge() come too late for records that are about to leave, and return that."""
    producer = await warm(make(kafka, linger_ms=5), "one")
    sequences = engine(producer).accumulator.sequences
    delivery = producer.send_nowait("one", b"v")
    checksum, said = sequences.checksum, []

    def taking(batch: memoryview) -> int:
        said.append((delivery.try_cancel(), producer.purge()))
        return checksum(batch)

    monkeypatch.setattr(sequences, "checksum", taking)
    assert await delivery.wait(LIMIT) is Outcome.ACKED
    assert said == [(False, 0)]
    assert [record.value for record in kafka.records("one")] == [b"v"]


async def test_room_that_comes_back_while_a_record_is_placed(
    make: Make, kafka: EmbeddedKafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The record that has just got its place from a line for memory does not get another."""
    producer = await warm(make(kafka, linger_ms=5, buffer_memory=3_000, batch_size=1_000), "one")
    admission, effects = engine(producer).admission, engine(producer).effects
    kafka.faults.delay(before=True, times=None)
    # The memory of the first has room for the others more than once.
    values = [bytes(2_700), *(b"%d" % number + bytes(300) for number in range(4))]
    calls = [asyncio.ensure_future(producer.send("one", value, partition=0)) for value in values]
    await until(lambda: admission.memory.lines)
    accept = admission.calls.accept

    def accepting(*call: Any) -> None:
        effects.event(effects.room, call[0].share)
        accept(*call)

    monkeypatch.setattr(admission.calls, "accept", accepting)
    kafka.faults.heal()
    async with asyncio.timeout(LIMIT):
        await asyncio.gather(*[await call for call in calls])
    assert [record.value for record in kafka.records("one")] == values
    await sound(producer)


class EarlyFuture:
    """A loop in which something happens once, as the first future or timer is made."""

    def __init__(self, loop: asyncio.AbstractEventLoop, happens: Callable[[], object]) -> None:
        self.time = loop.time
        self._loop, self._happens = loop, happens

    def _collect(self) -> None:
        happens, self._happens = self._happens, lambda: None
        happens()

    def create_future(self) -> asyncio.Future[None]:
        """A future of the loop."""
        self._collect()
        return self._loop.create_future()

    def call_at(
        self, when: float, callback: Callable[[], object], *, context: contextvars.Context
    ) -> asyncio.TimerHandle:
        """A timer of the loop."""
        self._collect()
        return self._loop.call_at(when, callback, context=context)


async def test_a_bell_that_rings_as_its_task_goes_to_sleep() -> None:
    """The task is woken, or what a finalizer has sent at that moment would wait for the next record."""
    loop: Any = EarlyFuture(asyncio.get_running_loop(), lambda: bell.ring())  # noqa: PLW0108  # made below
    bell = Wakeup(loop)
    await asyncio.wait_for(bell.wait(), LIMIT)


async def test_an_earlier_time_that_is_asked_for_as_a_timer_is_set() -> None:
    """The earlier one stays, and the other timer goes: it would outlive the producer."""
    running = asyncio.get_running_loop()
    now = running.time()
    loop: Any = EarlyFuture(running, lambda: bell.by(now + 1))
    bell = Wakeup(loop)
    bell.by(now + 2)
    assert [timer.when() for timer in timers_of_the_library()] == [now + 1]
    bell.silence()
    assert timers_of_the_library() == []


async def test_a_record_sent_as_the_sender_goes_to_sleep(
    make: Make, kafka: EmbeddedKafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It leaves: it would set an asyncio.Event without waking a task, then or later."""
    producer = await warm(make(kafka), "one")
    loop = asyncio.get_running_loop()
    create_future = loop.create_future
    nested: list[Delivery] = []

    def finalizing() -> asyncio.Future[Any]:
        task = asyncio.current_task()
        if task is not None and task.get_name().startswith("aioproducer sender") and not nested:
            nested.append(producer.send_nowait("one", b"nested"))
        return create_future()

    monkeypatch.setattr(loop, "create_future", finalizing)
    await producer.send_and_wait("one", b"v")
    await until(lambda: nested)
    assert await nested[0].wait(LIMIT / 2) is Outcome.ACKED


ERRORS = ("NOT_LEADER_OR_FOLLOWER", "NOT_ENOUGH_REPLICAS", "MESSAGE_TOO_LARGE", "INVALID_RECORD")


@attrs.define
class Finalizers:
    """The actions of finalizers: they send, withdraw and ask to be called, in the order that a seed draws."""

    producer: Producer[Any, Any]
    rng: random.Random
    ledger: Ledger = attrs.Factory(Ledger)
    tasks: set[asyncio.Task[None]] = attrs.Factory(set)
    asked: int = 0
    called: int = 0

    def act(self) -> None:
        """Do one thing, or nothing."""
        if asyncio._get_running_loop() is not None and len(self.ledger.told) < 3_000:
            acts = (self.send, self.send_later, self.withdraw, self.ask, self.purge)
            for act in self.rng.choices((*acts, None), (30, 10, 10, 10, 1, 40)):
                if act is not None:
                    act()

    def record(self) -> tuple[str, bytes]:
        """A topic, and a value that no other record has."""
        value = b"%d" % self.rng.getrandbits(64) + bytes(self.rng.randrange(60))
        return self.rng.choice(TOPICS), value

    def send(self) -> None:
        """Send a record, which may be refused."""
        topic, value = self.record()
        with suppress(BufferFullError):
            delivery = self.producer.send_nowait(topic, value, timeout=self.rng.choice([None, 60]))
            self.ledger.add(topic, value, delivery)

    def send_later(self) -> None:
        """Send a record that waits for its place."""
        topic, value = self.record()
        self.tasks.add(asyncio.ensure_future(self._awaited(topic, value, self.producer.send(topic, value))))

    async def _awaited(self, topic: str, value: bytes, call: Sending[Delivery]) -> None:
        with suppress(BufferFullError):
            self.ledger.add(topic, value, await call)

    def withdraw(self) -> None:
        """Take one of the last records back."""
        for _, _, delivery in self.rng.choices(self.ledger.told[-20:] or [], k=bool(self.ledger.told)):
            delivery.try_cancel()

    def purge(self) -> None:
        """Take back all that can be."""
        self.producer.purge()

    def ask(self) -> None:
        """Ask to be called when a record has its outcome."""
        for _, _, delivery in self.rng.choices(self.ledger.told, k=bool(self.ledger.told)):
            delivery.add_done_callback(self._count)
            self.asked += 1

    def _count(self, _: Delivery) -> None:
        self.called += 1


@pytest.mark.parametrize("seed", seeds(20))
async def test_finalizers_that_use_the_producer(seed: int, make: Make, kafka: EmbeddedKafka) -> None:
    """For any action at any moment: the reported outcome of each record is true."""
    rng = random.Random(seed)
    producer = make(
        kafka,
        batch_size=rng.choice([400, 2_000]),
        linger_ms=rng.choice([0, 5]),
        compression_type=rng.choice(["none", "lz4", "gzip"]),
        buffer_memory=rng.choice([20_000, 1 << 25]),
        max_request_size=10_000,
    )
    await warm(producer, *TOPICS)
    for _ in range(rng.randrange(6)):
        kafka.faults.error(rng.choice(ERRORS), topic=rng.choice(TOPICS))
    finalizers = Finalizers(producer, rng)
    with at_each_collection(finalizers.act):
        for number in range(300):
            finalizers.send()
            if number % 20 == 0:
                await asyncio.sleep(0)
        await until(lambda: len(finalizers.ledger.told) > 1_000 or not memory_in_use(producer))
    async with asyncio.timeout(LIMIT):
        await asyncio.gather(*finalizers.tasks)
        await producer.flush()
    finalizers.ledger.compare(kafka)
    await until(lambda: finalizers.called == finalizers.asked)
    await sound(producer)

"""Interceptors on the compiled path: each record that they see is reported once, whatever they do to the call."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Any

import attrs
import pytest

from aioproducer import DeliveryError, KafkaError, Outcome, Producer, Record, RecordError, RecordMetadata
from aioproducer._core import Batch, BatchSettings, queued_delivery
from aioproducer._net.accepting.reports import Reports
from aioproducer.testing import EmbeddedKafka
from tests.api.conftest import Make
from tests.api.support import LIMIT, first_step, held_requests, turns, values, warm
from tests.state.machines import HandLoop

Change = Callable[[Record[Any, Any]], Any]


class Changing:
    """An interceptor that changes each record by a function, and keeps the values that it sees."""

    def __init__(self, change: Change) -> None:
        self.change = change
        self.seen: list[Any] = []
        self.reports: list[tuple[RecordMetadata | None, BaseException | None]] = []
        self.on_report: Callable[[], object] = int
        self.reports_at_close = -1

    def on_send(self, record: Record[Any, Any]) -> Any:
        """Change the record."""
        self.seen.append(record.value)
        return self.change(record)

    def on_acknowledgement(self, metadata: RecordMetadata | None, error: BaseException | None) -> None:
        """Record it."""
        self.reports.append((metadata, error))
        self.on_report()

    def close(self) -> None:
        """Note how many reports came before."""
        self.reports_at_close = len(self.reports)


def made_of_numbers(numbers: list[int]) -> bytes:
    """A serializer."""
    return bytes(numbers)


def unchanged(record: Record[Any, Any]) -> Record[Any, Any]:
    """An interceptor that only looks."""
    return record


async def test_a_record_is_accepted_within_the_call(make: Make, kafka: EmbeddedKafka) -> None:
    """Where nothing has to wait, the interceptors, serializers and the append are steps of the call itself."""
    watcher = Changing(
        lambda record: attrs.evolve(record, value=[*(record.value or ()), 2], headers={"h": b"1"})
    )
    producer = await warm(make(interceptors=[watcher], value_serializer=made_of_numbers))
    delivery = first_step(producer.send("one", [1]))
    assert (delivery.partition, watcher.seen, watcher.reports) == (0, [[1]], [])
    metadata = await delivery
    await turns()
    assert watcher.reports == [(metadata, None)]
    assert [(record.value, record.headers) for record in kafka.records("one")] == [
        (b"\x01\x02", (("h", b"1"),))
    ]


async def test_the_record_has_the_fields_of_the_call(make: Make) -> None:
    """The record that the compiled path makes equals one that its class makes."""
    seen: list[Record[Any, Any]] = []

    def keep(record: Record[Any, Any]) -> Record[Any, Any]:
        seen.append(record)
        return record

    producer = await warm(make(interceptors=[Changing(keep)]))
    await producer.send_and_wait("four", b"v", key=b"k", partition=1, timestamp=5, headers=[("a", b"b")])
    await producer.send("four")
    assert seen == [
        Record("four", b"v", key=b"k", partition=1, timestamp=5, headers=[("a", b"b")]),
        Record("four"),
    ]
    assert hash(seen[1]) == hash(Record("four"))


async def test_a_record_that_moves_to_an_unknown_topic_is_seen_once(make: Make, kafka: EmbeddedKafka) -> None:
    """It waits for its topic, and is neither intercepted nor reported twice."""
    watcher = Changing(lambda record: attrs.evolve(record, topic="late"))
    producer = await warm(make(interceptors=[watcher]))
    kafka.create_topic("late", 1)
    metadata = await producer.send_and_wait("one", b"v")
    await turns()
    assert (watcher.seen, watcher.reports) == ([b"v"], [(metadata, None)])
    assert values(kafka, "late") == [b"v"]


async def test_a_refused_record_is_reported_once(make: Make) -> None:
    """Refused by its serializer, its partitioner or the checks: one report each, with the error of the call."""

    def fails(*_args: Any) -> Any:
        raise ZeroDivisionError

    for settings in ({"value_serializer": fails}, {"partitioner": fails}, {}):
        watcher = Changing(lambda record: attrs.evolve(record, timestamp=-5))
        producer = await warm(make(interceptors=[watcher], **settings))
        raised: list[BaseException] = []
        for send in (producer.send, producer.send_and_wait):
            with pytest.raises(RecordError) as caught:
                await send("one", b"v")
            raised.append(caught.value)
        with pytest.raises(RecordError) as caught:
            producer.send_nowait("one", b"v")
        raised.append(caught.value)
        assert watcher.reports == [(None, error) for error in raised], settings


def test_the_end_of_the_program_keeps_the_other_reports() -> None:
    """An interceptor that ends the program in a report: the other reports of this turn come in the next one."""
    loop = HandLoop()
    told: list[object] = []

    def tell(delivery: object, *_outcome: object) -> None:
        told.append(delivery)
        if len(told) == 1:
            raise KeyboardInterrupt

    batch = Batch("t", 0, 1000, BatchSettings(loop))
    reports = Reports(loop, tell)  # type: ignore[arg-type]
    deliveries = [queued_delivery(batch), queued_delivery(batch)]
    batch.fail(DeliveryError("gone"))
    for delivery in deliveries:
        reports.note(delivery)
    with pytest.raises(KeyboardInterrupt):
        loop.turn()
    loop.turn()
    assert told == deliveries


async def test_a_report_that_sends(make: Make, kafka: EmbeddedKafka) -> None:
    """An interceptor may send from its report; the flush that covers the first record has had its report."""
    watcher = Changing(unchanged)
    producer = await warm(make(interceptors=[watcher]))
    more = [b"second"]

    def send_another() -> None:
        if more:
            producer.send_nowait("one", more.pop())

    watcher.on_report = send_another
    await producer.send("one", b"first")
    await producer.flush()
    assert len(watcher.reports) == 1
    await producer.flush()
    assert len(watcher.reports) == 2
    assert values(kafka) == [b"first", b"second"]


async def test_an_interceptor_is_closed_behind_its_last_report(make: Make, kafka: EmbeddedKafka) -> None:
    """A close() that runs out of time reports the lost records, more than are woken in one turn, before it closes."""
    held_requests(kafka)
    watcher = Changing(unchanged)
    producer = await warm(make(interceptors=[watcher]))
    for _ in range(600):
        producer.send_nowait("one", b"v")
    report = await producer.close(timeout=0)
    assert (report.not_written, len(watcher.reports), watcher.reports_at_close) == (600, 600, 600)


def test_a_report_that_leads_to_the_other_reports() -> None:
    """A report may close the producer, which makes the reports behind it: each is made once."""
    loop = HandLoop()
    told: list[object] = []
    batch = Batch("t", 0, 1000, BatchSettings(loop))
    deliveries = [queued_delivery(batch) for _ in range(3)]

    def tell(delivery: object, *_outcome: object) -> None:
        told.append(delivery)
        reports.make()

    reports = Reports(loop, tell)  # type: ignore[arg-type]
    batch.fail(DeliveryError("gone"))
    for delivery in deliveries:
        reports.note(delivery)
    loop.turn()
    assert told == deliveries


CHANGES: list[Change] = [
    unchanged,
    lambda record: attrs.evolve(record, topic="four"),
    lambda record: attrs.evolve(record, topic="missing"),
    lambda record: attrs.evolve(record, topic=None),  # type: ignore[arg-type]
    lambda record: attrs.evolve(record, headers=[("a", b"b")]),
    lambda record: attrs.evolve(record, headers=5),  # type: ignore[arg-type]
    lambda record: attrs.evolve(record, partition=7),
    lambda record: attrs.evolve(record, timestamp="now"),  # type: ignore[arg-type]
    lambda record: attrs.evolve(record, value=bytes(2_000_000)),
    lambda record: attrs.evolve(record, value=object()),
    lambda _record: None,
]


@pytest.mark.parametrize("seed", range(8))
async def test_every_record_that_is_seen_is_reported_once(
    make: Make, kafka: EmbeddedKafka, seed: int
) -> None:
    """Random changes, ways to send, serializers, faults and nested sends; the log has the records that were reported as written."""
    rng = Random(seed)
    producer: Producer[Any, Any]

    def change(record: Record[Any, Any]) -> Record[Any, Any]:
        if rng.random() < 0.1:
            with_suppressed(lambda: producer.send_nowait("one", b"nested"))
        changed: Record[Any, Any] = rng.choice(CHANGES)(record)
        return changed

    def serialize(data: Any) -> bytes:
        if rng.random() < 0.1:
            raise ValueError("not this one")
        return bytes(data) if isinstance(data, bytes) else repr(data).encode()

    watcher = Changing(change)
    settings: dict[str, Any] = {} if seed % 2 else {"value_serializer": serialize}
    if seed % 4 > 1:
        settings["partitioner"] = lambda _topic, _key, _value, partitions, _available: len(partitions) - 1
    producer = await warm(make(interceptors=[watcher], max_block_ms=200, **settings))
    for _ in range(60):
        if rng.random() < 0.1:
            kafka.faults.error("INVALID_REQUIRED_ACKS")
        await sent(producer, rng)
    await producer.flush(timeout=LIMIT)
    await turns()
    reported = Counter(
        Outcome.ACKED if metadata is not None else getattr(error, "outcome", None)
        for metadata, error in watcher.reports
    )
    written = sum(len(kafka.records(topic)) for topic in ("one", "four", "missing"))
    assert (len(watcher.reports), reported[Outcome.ACKED]) == (len(watcher.seen), written)
    assert set(reported) == {Outcome.ACKED, Outcome.NOT_WRITTEN}


def with_suppressed(call: Callable[[], object]) -> None:
    """Call it: the interceptor gets the error of a record that is refused."""
    try:
        call()
    except KafkaError:
        return


async def sent(producer: Producer[Any, Any], rng: Random) -> None:
    """Send one record in one of the ways."""
    way = rng.choice(["send", "send_and_wait", "send_nowait"])
    try:
        if way == "send":
            await (await producer.send("one", b"v")).wait()
        elif way == "send_and_wait":
            await producer.send_and_wait("one", b"v", key=b"k")
        else:
            await producer.send_nowait("one", b"v").wait()
    except KafkaError:
        return

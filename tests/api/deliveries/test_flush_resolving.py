"""`flush(resolve=True)`: records of unknown outcome are looked for, also those that no object of the program stands for."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from aioproducer import ConfigurationError, DeliveryError, FlushReport, Outcome, Producer, Record
from aioproducer._net.resolving import resolver  # noqa: F401  # the first flush does not wait for its import
from aioproducer._state.delivery import tally
from aioproducer._state.delivery.found import NOT_KEPT
from aioproducer._state.resolving.known import UNNUMBERED
from aioproducer.testing import EmbeddedKafka, MockProducer
from tests.api.conftest import Make
from tests.api.support import LIMIT, values, warm

HASTY: dict[str, Any] = {"linger_ms": 0, "request_timeout_ms": 60, "delivery_timeout_ms": 60}


async def hasty(make: Make) -> Producer[Any, Any]:
    """A producer with short time limits, which has written a record to both partitions that the tests use."""
    producer = await warm(make(**HASTY))
    for partition in range(2):
        await producer.send_and_wait("four", b"before", partition=partition, timeout=LIMIT)
    await producer.flush()
    return producer


async def test_calls_without_a_delivery(make: Make, kafka: EmbeddedKafka) -> None:
    """A delivery that was dropped, many records of one call, and a stream; a report has them once."""
    producer = await hasty(make)
    lost = kafka.faults.drop_answer(topic="four", times=None)
    producer.send_nowait("four", b"dropped", partition=0)
    many = await producer.send_batch("four", [b"many"] * 5, partition=1)
    assert (await producer.send_all([Record("four", b"stream", partition=0)] * 3)).unknown == 3
    assert (await many).unknown == 5
    async with producer.scope() as scope:
        await scope.flush()
    lost.heal()
    report = await producer.flush(LIMIT, resolve=True)
    assert (report.acked, report.unknown, report.resolved_acked) == (9, 0, 9)
    assert report.first_errors == ()
    report.raise_for_errors()
    assert await producer.flush(resolve=True) == FlushReport()
    assert len(values(kafka, "four")) == 2 + 9


async def test_a_plain_flush_looks_for_nothing(make: Make, kafka: EmbeddedKafka) -> None:
    """Its report has the outcomes as they are, and takes the records."""
    producer = await hasty(make)
    kafka.faults.drop_answer(topic="four", times=None)
    await producer.send("four", b"v", partition=0)
    report = await producer.flush()
    assert (report.unknown, report.resolved_acked, report.unknown_reasons) == (1, 0, {})
    assert await producer.flush(resolve=True) == FlushReport()
    assert not [request for request in kafka.requests if request.api == "Fetch"]


async def flushed(producer: Producer[Any, Any]) -> FlushReport:
    """By a task of its own, to which the report belongs."""
    return await producer.flush(LIMIT, resolve=True)


async def test_several_flushes_at_once(make: Make, kafka: EmbeddedKafka) -> None:
    """Each owner gets its report, and the log is read once for all of them."""
    producer = await hasty(make)
    lost = kafka.faults.drop_answer(topic="four", times=None)
    delivery = await producer.send("four", b"v", partition=0)
    assert await delivery.wait(LIMIT) is Outcome.UNKNOWN
    lost.heal()
    reports = await asyncio.gather(*(asyncio.create_task(flushed(producer)) for _ in range(5)))
    assert [report.resolved_acked for report in reports] == [1] * 5
    assert sum(request.api == "Fetch" for request in kafka.requests) == 1


async def test_more_than_is_kept(make: Make, kafka: EmbeddedKafka, monkeypatch: pytest.MonkeyPatch) -> None:
    """The newest are looked for; the report counts the others as UNKNOWN, and says why."""
    monkeypatch.setattr(tally, "KEPT_IN_DOUBT", 1)
    producer = await hasty(make)
    lost = kafka.faults.drop_answer(topic="four", times=None)
    deliveries = [await producer.send("four", b"v", partition=partition) for partition in range(2)]
    assert [await delivery.wait(LIMIT) for delivery in deliveries] == [Outcome.UNKNOWN] * 2
    lost.heal()
    report = await producer.flush(LIMIT, resolve=True)
    assert (report.resolved_acked, report.unknown, report.unknown_reasons) == (1, 1, {NOT_KEPT: 1})
    assert [error.partition for error in report.first_errors] == [0]


async def test_a_mock() -> None:
    """A record that the test lost has no log: it stays UNKNOWN."""
    async with MockProducer() as mock:
        mock.fail_delivery(DeliveryError("lost", outcome=Outcome.UNKNOWN))
        await mock.send("t", b"v")
        await mock.send("t", b"w")
        report = await mock.flush(resolve=True)
        assert (report.acked, report.unknown, report.unknown_reasons) == (1, 1, {UNNUMBERED: 1})
        with pytest.raises(DeliveryError, match="1 of 2"):
            report.raise_for_errors()


@pytest.mark.parametrize("resolve", [1, "yes", None])
async def test_a_wrong_argument(make: Make, resolve: Any) -> None:
    """It is refused by name."""
    producer = await warm(make())
    with pytest.raises(ConfigurationError, match="resolve must be True or False"):
        await producer.flush(resolve=resolve)

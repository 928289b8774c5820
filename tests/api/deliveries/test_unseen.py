"""A failed delivery that was never looked at is reported once through the logger."""

from __future__ import annotations

import asyncio
import gc

import pytest

from aioproducer import Delivery, Producer
from aioproducer.testing import EmbeddedKafka
from tests.api.conftest import Make
from tests.api.support import unknown_topic, until, values, warm

REFUSED = "INVALID_REQUIRED_ACKS"


def errors(caplog: pytest.LogCaptureFixture) -> list[str]:
    """The texts logged as errors."""
    return [record.getMessage() for record in caplog.records if record.levelname == "ERROR"]


async def test_dropped_deliveries(
    producer: Producer, kafka: EmbeddedKafka, caplog: pytest.LogCaptureFixture
) -> None:
    """Dropped deliveries: one line with topic, partition, error and count."""
    kafka.faults.error(REFUSED)
    for _ in range(50):
        await producer.send("one", b"v")
    await producer.flush()
    await until(lambda: errors(caplog))
    (line,) = errors(caplog)
    assert line.startswith("aioproducer: 50 records for topic one (partition 0) failed with")
    assert "the program never read their delivery" in line
    assert REFUSED in line


async def test_one_record_in_proper_words(
    producer: Producer, kafka: EmbeddedKafka, caplog: pytest.LogCaptureFixture
) -> None:
    """The line about a single record is in the singular; a record that never got a partition has none in it."""
    unknown_topic(kafka)
    producer.send_nowait("new", b"v", timeout=0.01)
    await until(lambda: errors(caplog))
    (line,) = errors(caplog)
    assert line.startswith("aioproducer: 1 record for topic new failed with DeliveryTimeoutError")
    assert "the program never read its delivery" in line


async def test_several_partitions(make: Make, kafka: EmbeddedKafka, caplog: pytest.LogCaptureFixture) -> None:
    """All partitions of a report are named, in order."""
    producer = await warm(make(linger_ms=10_000))
    kafka.faults.error(REFUSED, times=None)
    for partition in (2, 0):
        await producer.send("four", b"v", partition=partition)
    await producer.flush()
    await until(lambda: errors(caplog))
    assert errors(caplog)[0].startswith("aioproducer: 2 records for topic four (partitions 0, 2) failed")


async def test_kept_and_dropped_later(
    producer: Producer, kafka: EmbeddedKafka, caplog: pytest.LogCaptureFixture
) -> None:
    """A delivery that is kept without a look at it and dropped later is reported then."""
    kafka.faults.error(REFUSED)
    delivery = await producer.send("one", b"v")
    await producer.flush()
    early = errors(caplog)
    del delivery
    await producer.send_and_wait("one", b"w")
    await producer.close()
    assert early == []
    assert len(errors(caplog)) == 1


@pytest.mark.parametrize("look", ["await", "exception", "result", "outcome", "wait", "callback", "gather"])
async def test_seen(
    producer: Producer, kafka: EmbeddedKafka, caplog: pytest.LogCaptureFixture, look: str
) -> None:
    """After a look of any kind, nothing is logged."""
    kafka.faults.error(REFUSED)
    delivery = await producer.send("one", b"v")
    if look == "callback":
        delivery.add_done_callback(lambda one: one.exception())
    if look == "gather":
        await asyncio.gather(delivery, return_exceptions=True)
    await producer.flush()
    await _look(delivery, look)
    del delivery
    gc.collect()
    await producer.close()
    assert errors(caplog) == []


async def _look(delivery: Delivery, look: str) -> None:
    if look in {"await", "result"}:
        with pytest.raises(Exception, match="one"):
            await delivery if look == "await" else delivery.result()
    elif look == "wait":
        await delivery.wait()
    elif look == "exception":
        delivery.exception()
    elif look == "outcome":
        assert delivery.outcome is not None


async def test_success_is_not_reported(producer: Producer, caplog: pytest.LogCaptureFixture) -> None:
    """Written records that were never looked at are not logged."""
    for _ in range(10):
        await producer.send("one", b"v")
    await producer.close()
    assert errors(caplog) == []


async def test_rate_limited(make: Make, kafka: EmbeddedKafka, caplog: pytest.LogCaptureFixture) -> None:
    """Thousands of failures in many batches give a few lines."""
    producer = await warm(make(batch_size=0, linger_ms=0))
    kafka.faults.error(REFUSED, times=None)
    for _ in range(500):
        await producer.send("one", b"v")
    await producer.flush()
    await producer.close()
    assert 1 <= len(errors(caplog)) <= 10


async def test_no_storm_of_asyncio(producer: Producer, kafka: EmbeddedKafka) -> None:
    """asyncio does not log "exception was never retrieved"."""
    contexts: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: contexts.append(context))
    kafka.faults.error(REFUSED)
    await producer.send("one", b"v")
    await producer.flush()
    await producer.send_and_wait("one", b"w")
    gc.collect()
    assert contexts == []
    assert values(kafka) == [b"w"]

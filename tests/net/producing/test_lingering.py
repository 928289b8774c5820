"""The end of a linger: its batches are written in the callback of the timer."""

from __future__ import annotations

import pytest

from aioproducer.testing import EmbeddedKafka
from tests.net.support import Make, all_acked, engine, send_all, until, warm


@pytest.mark.parametrize("codec", ["none", "gzip"])
async def test_the_end_of_a_linger_wakes_no_task(
    codec: str, make: Make, kafka: EmbeddedKafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each task would take a turn of the loop: the request leaves before the timekeeper and the sender could run."""
    producer = await warm(make(kafka, linger_ms=300, compression_type=codec), "four")
    await producer.send_and_wait("four", b"", partition=0)
    (sender,) = engine(producer).senders.values()
    woken: list[str] = []
    monkeypatch.setattr(sender.work, "ring", lambda: woken.append("sender"))
    monkeypatch.setattr(engine(producer).wakeup, "ring", lambda: woken.append("timekeeper"))
    sent = producer.stats().requests
    deliveries = [await producer.send("four", bytes(100), partition=partition) for partition in range(4)]
    await until(lambda: all(delivery.done() for delivery in deliveries))
    assert woken == []
    assert producer.stats().requests == sent + 1


async def test_a_linger_that_ends_without_a_permit(make: Make, kafka: EmbeddedKafka) -> None:
    """The batch leaves when the request before it has its answer."""
    producer = await warm(make(kafka, linger_ms=20, max_in_flight_requests_per_connection=1), "four")
    await producer.send_and_wait("four", b"", partition=1)
    hold = kafka.faults.delay()
    (first,) = await send_all(producer, [0], "four", partition=0)
    await hold.reached()
    (second,) = await send_all(producer, [1], "four", partition=1)
    (sender,) = engine(producer).senders.values()
    await until(lambda: sender.link is not None and sender.link.permits.statistics().tasks_waiting)
    hold.heal()
    assert await all_acked([first, second])

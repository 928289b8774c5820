"""The answer that gives a permit back may demand a pause: the next holder of the permit keeps the pause too."""

from __future__ import annotations

import time

from aioproducer.testing import EmbeddedKafka
from tests.net.support import Make, all_acked, engine, until, warm

PAUSE_MS = 200


async def test_a_request_that_waits_for_a_permit_keeps_the_pause(make: Make, kafka: EmbeddedKafka) -> None:
    """A second request, held back by the only permit, leaves after the pause and not with the answer (KIP-219)."""
    producer = await warm(make(kafka, max_in_flight_requests_per_connection=1, batch_size=1), "four")
    for partition in (0, 1):
        await producer.send_and_wait("four", b"", partition=partition)
    hold = kafka.faults.delay(before=True)
    kafka.faults.throttle(PAUSE_MS, mute=False)
    first = await producer.send("four", b"1", partition=0)
    await hold.reached()
    second = await producer.send("four", b"2", partition=1)
    (sender,) = engine(producer).senders.values()
    await until(lambda: sender.link is not None and sender.link.permits.statistics().tasks_waiting)
    sent = producer.stats().requests
    hold.release()
    await first
    began = time.monotonic()
    await until(lambda: sender.history.state == "throttled")
    assert producer.stats().requests == sent
    assert await all_acked([second])
    assert time.monotonic() - began > PAUSE_MS / 1000 * 0.9

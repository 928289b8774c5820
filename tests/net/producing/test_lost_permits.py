"""Permits of a connection that breaks, or that is about to end."""

from __future__ import annotations

import pytest

from aioproducer.testing import EmbeddedKafka
from tests.net.support import Make, all_acked, engine, turns, until, warm


async def test_a_wait_for_a_permit_of_a_broken_connection_ends(make: Make, kafka: EmbeddedKafka) -> None:
    """The one request that may be in flight is lost with the connection, and another batch waits for its permit."""
    producer = await warm(make(kafka, max_in_flight_requests_per_connection=1, batch_size=1), "four")
    for partition in (0, 1):
        await producer.send_and_wait("four", b"", partition=partition)
    broker = kafka.leader_of("four")
    silence = kafka.faults.silence(api="Produce")
    first = await producer.send("four", b"1", partition=0)
    await silence.reached()
    second = await producer.send("four", b"2", partition=1)
    (sender,) = engine(producer).senders.values()
    await until(lambda: sender.link is not None and sender.link.permits.statistics().tasks_waiting)
    silence.heal()
    kafka.faults.drop_connections(broker)
    await turns()
    assert await all_acked([first, second])


@pytest.mark.parametrize("acks", [0, "all"])
async def test_connection_whose_end_comes_does_not_hold_the_loop(
    make: Make, kafka: EmbeddedKafka, acks: int | str
) -> None:
    """The transport has ended, and the loop reports it in its next turn: without a backoff the sender waits for that."""
    settings = {"acks": acks, "enable_idempotence": acks == "all", "retry_backoff_ms": 0}
    producer = await warm(make(kafka, **settings), "one")
    await producer.send_and_wait("one", b"")
    (sender,) = engine(producer).senders.values()
    delivery = await producer.send("one", b"1")
    assert sender.link is not None
    transport = sender.link.connection.transport
    assert transport is not None
    transport.abort()
    assert await all_acked([delivery])

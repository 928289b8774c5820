"""A request whose connection breaks gives its permit back to whoever waits for one."""

from __future__ import annotations

from aioproducer.testing import EmbeddedKafka
from tests.net.support import Make, all_acked, engine, turns, until, warm


async def test_who_waits_for_a_permit_of_a_broken_connection_goes_on(
    make: Make, kafka: EmbeddedKafka
) -> None:
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

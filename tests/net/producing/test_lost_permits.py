"""Permits of a connection that breaks, that is about to end, or that leads to a former address."""

from __future__ import annotations

import pytest

from aioproducer._net.connecting.link import Link
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


async def test_request_that_waited_for_a_permit_goes_to_the_present_address(
    make: Make, kafka: EmbeddedKafka
) -> None:
    """The broker moves while the only permit is in use: the next request does not go to its former address (D12)."""
    producer = await warm(make(kafka, max_in_flight_requests_per_connection=1, batch_size=1), "four")
    for partition in (0, 1):
        await producer.send_and_wait("four", b"", partition=partition)
    hold = kafka.faults.delay(before=True)
    first = await producer.send("four", b"1", partition=0)
    await hold.reached()
    second = await producer.send("four", b"2", partition=1)
    (sender,) = engine(producer).senders.values()
    link = sender.link
    assert link is not None
    await until(lambda: link.permits.statistics().tasks_waiting)
    link.address = ("elsewhere", 1)
    sender.look_at_address()
    written = link.connection.next_correlation_id()
    hold.release()
    assert await all_acked([first, second])
    assert link.connection.closed
    assert link.connection.next_correlation_id() == written + 1


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


async def test_the_successor_of_a_former_address_stays(
    make: Make, kafka: EmbeddedKafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another link takes the place of the one whose answers are waited for: it is not closed with its requests in flight."""
    producers = [await warm(make(kafka), "one") for _ in range(2)]
    for producer in producers:
        await producer.send_and_wait("one", b"")
    sender, other = (next(iter(engine(producer).senders.values())) for producer in producers)
    former, successor = sender.link, other.link
    assert former is not None
    assert successor is not None

    async def permit(_: Link) -> None:
        sender.link = successor

    with monkeypatch.context() as patch:
        patch.setattr(Link, "permit", permit)
        await sender._leave(former)
    assert former.connection.closed
    assert not successor.connection.closed
    assert sender.link is successor
    sender.link = None

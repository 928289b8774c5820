"""Peers that say nothing: accepted and silent, silent in the middle, half-open, half-closed, or not reading."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

import pytest

from aioproducer import Outcome, Producer
from aioproducer._net.connecting.connection.connection import Connection
from aioproducer.testing import EmbeddedKafka
from tests.net.support import engine, in_flight, memory_in_use, warm
from tests.proxy.proxy import Cut, Ending, Passage, Proxy, Side
from tests.proxy.reach import cuts
from tests.proxy.support import (
    API_VERSIONS,
    FILLING,
    INIT_PRODUCER_ID,
    METADATA,
    PRODUCE,
    Make,
    Polls,
    Story,
    outcomes,
    produce_requests,
    so,
)

RT_MS = 80
RT = RT_MS / 1000
IMPATIENT: dict[str, Any] = {"request_timeout_ms": RT_MS}
BUSY = 150
"""Turns of the loop while one request is waited for in vain, and sent again."""


def link_of(producer: Producer[Any, Any]) -> Connection:
    """The one connection it produces over."""
    (sender,) = engine(producer).senders.values()
    assert sender.link is not None
    return sender.link.connection


def unsent(connection: Connection) -> int:
    """Bytes that its transport holds."""
    assert connection.transport is not None
    return connection.transport.get_write_buffer_size()


async def left(passages: list[Passage]) -> None:
    """Wait until the client is gone from all of these."""
    assert passages
    await so(lambda: all(passage.client_left for passage in passages))


# -- A04: silence


@pytest.mark.parametrize("side", list(Side))
async def test_a04_silence_at_every_byte(side: Side, make: Make, proxy: Proxy, story: Story) -> None:
    """Silent from any byte of a request or an answer on, the connection is closed at RT and never used again."""
    producer = await warm(make(**IMPATIENT), "one")
    await story.send(producer)
    await story.end()
    (size,) = proxy.sizes(side, PRODUCE)
    for at in cuts(size):
        before = proxy.accepted
        plan = proxy.plan(side, PRODUCE, Cut(at, Ending.SILENCE))
        start = asyncio.get_running_loop().time()
        with Polls() as polls:
            assert await outcomes([await story.send(producer)]) == {Outcome.ACKED}, at
        took = asyncio.get_running_loop().time() - start
        assert plan.count == 1, at
        assert polls.count < BUSY, at
        answered = side is Side.ANSWER and at == size
        assert took < 5 if answered else RT <= took < 5, at
        # On a busy machine a good connection may time out as well.
        assert before + (not answered) <= proxy.accepted <= before + 3, at
        for passage in proxy.open:
            if passage.ending is not None:
                passage.drop()
    assert await story.findings() == []


@pytest.mark.parametrize("api", [API_VERSIONS, METADATA, INIT_PRODUCER_ID])
@pytest.mark.parametrize("side", list(Side))
async def test_a04_silence_in_the_opening(
    side: Side, api: int, make: Make, proxy: Proxy, story: Story
) -> None:
    """Silence in place of a first answer ends at CT or RT; the next connection is as good as new."""
    for at in (0, 9):
        plan = proxy.plan(side, api, Cut(at, Ending.SILENCE), times=2)
        producer = make(**IMPATIENT, socket_connection_setup_timeout_ms=RT_MS)
        await producer.start()
        assert await outcomes(await story.send_many(producer, 2)) == {Outcome.ACKED}
        await producer.close(timeout=1)
        assert plan.count == 2
    assert await story.findings() == []


async def test_a04_accept_then_silence(make: Make, proxy: Proxy, story: Story) -> None:
    """A peer that takes calls and never says a word costs CT each time, in a few attempts, then all is well."""
    proxy.greetings.extend([Ending.SILENCE, Ending.DEAF] * 2)
    producer = make(**IMPATIENT, socket_connection_setup_timeout_ms=RT_MS)
    await producer.start()
    with Polls() as polls:
        assert await outcomes(await story.send_many(producer, 3)) == {Outcome.ACKED}
    assert 6 <= proxy.accepted <= 9
    assert polls.count < 4 * BUSY
    assert await story.findings() == []


async def test_a04_silent_until_the_deadline(make: Make, proxy: Proxy, story: Story) -> None:
    """With every connection silent, written records are UNKNOWN and others NOT_WRITTEN, at the deadline."""
    producer = await warm(make(**IMPATIENT, delivery_timeout_ms=200, batch_size=1), "one")
    await story.send(producer)
    await story.end()
    proxy.plan(Side.REQUEST, PRODUCE, Cut(0, Ending.SILENCE), times=None)
    deliveries = await story.send_many(producer, 8)
    assert await outcomes(deliveries) == {Outcome.UNKNOWN, Outcome.NOT_WRITTEN}
    assert await story.findings() == []
    proxy.heal()
    assert await outcomes(await story.send_many(producer, 3)) == {Outcome.ACKED}
    assert await story.findings() == []


async def test_a04_late_answers_are_not_paired(
    make: Make, proxy: Proxy, story: Story, kafka: EmbeddedKafka
) -> None:
    """Answers that come after RT meet a closed connection: each batch keeps the offset of its own answer."""
    producer = await warm(make(**IMPATIENT, batch_size=1), "one")
    await story.send(producer)
    await story.end()
    delay = kafka.faults.delay(1.5 * RT, times=3)
    await story.send_many(producer, 5)
    await story.end()
    assert await story.findings() == []
    assert delay.hits >= 1
    assert {call.delivery.outcome for call in story.calls} == {Outcome.ACKED}


async def test_a04_errors_do_not_refer_to_each_other(make: Make, proxy: Proxy, story: Story) -> None:
    """However many records expire while a broker is silent, the error of each has a cause, and not a chain (I6)."""
    producer = await warm(
        make(
            delivery_timeout_ms=20,
            request_timeout_ms=10,
            batch_size=1,
            socket_connection_setup_timeout_ms=9_000,
        ),
        "one",
    )
    proxy.greetings.extend([Ending.SILENCE] * 1_000)
    for passage in proxy.open:
        passage.drop()
    for _ in range(5):
        await outcomes(await story.send_many(producer, 10))
    error: BaseException | None = story.calls[-1].delivery.exception()
    links = 0
    while error is not None:
        error, links = error.__cause__, links + 1
    assert 1 <= links <= 4
    assert await story.findings() == []


# -- A10: half-open


async def test_a10_half_open_connection_is_found_at_the_request_timeout(
    make: Make, proxy: Proxy, story: Story
) -> None:
    """The peer is gone without a packet and the kernel still accepts bytes: found at RT, all written once."""
    producer = await warm(make(**IMPATIENT, batch_size=1), "one")
    await story.send(producer)
    await story.end()
    for passage in proxy.open:
        passage.end(Ending.DEAF)
    start = asyncio.get_running_loop().time()
    assert await outcomes(await story.send_many(producer, 5)) == {Outcome.ACKED}
    assert RT <= asyncio.get_running_loop().time() - start < 5
    assert await story.findings() == []


async def test_a10_kernel_watches_idle_connections(make: Make, proxy: Proxy) -> None:
    """The sockets of a running producer have keepalive on, and do not retransmit beyond the request timeout."""
    producer = await warm(make(request_timeout_ms=12_345), "one")
    await producer.send_and_wait("one", b"")
    transport = link_of(producer).transport
    assert transport is not None
    sock = transport.get_extra_info("socket")
    assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
    assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 12_345


# -- A11: half-close


@pytest.mark.parametrize("in_flight_then", [False, True])
async def test_a11_half_closed_peer_is_a_closed_one(
    in_flight_then: bool, make: Make, proxy: Proxy, story: Story
) -> None:
    """A peer that only shuts its own side is left at once, with requests in flight or none, and nothing spins."""
    producer = await warm(make(reconnect_backoff_ms=100, reconnect_backoff_max_ms=100), "one")
    await story.send(producer)
    await story.end()
    passages = proxy.open
    with Polls() as polls:
        if in_flight_then:
            proxy.plan(Side.REQUEST, PRODUCE, Cut(5, Ending.FIN))
            sent = await story.send_many(producer, 3)
            await so(lambda: sum(passage.client_left for passage in passages) == 1)
        else:
            for passage in passages:
                passage.end(Ending.FIN)
            await left(passages)
            sent = await story.send_many(producer, 3)
        assert await outcomes(sent) == {Outcome.ACKED}
    assert polls.count < BUSY
    assert await story.findings() == []


# -- A12: a peer that does not read


async def test_a12_peer_that_stops_reading(
    make: Make, proxy: Proxy, story: Story, kafka: EmbeddedKafka
) -> None:
    """With the window closed, the transport holds one request more than its mark, and senders wait for memory."""
    request = 100_000
    producer = await warm(
        make(buffer_memory=1_000_000, batch_size=request, max_request_size=request, send_buffer_bytes=16_384),
        "four",
    )
    await story.send(producer, "four", partition=0)
    await story.end()
    plan = proxy.plan(Side.REQUEST, PRODUCE, Cut(0, Ending.DEAF))
    sendings = [
        asyncio.ensure_future(story.send(producer, "four", filling=bytes(20_000), partition=number % 4))
        for number in range(200)
    ]
    await so(lambda: plan.count)
    connection = link_of(producer)
    await so(lambda: producer.stats().waiting_calls and not connection.gate.writable())
    assert unsent(connection) <= 64 * 1024 + request + 1_000
    assert memory_in_use(producer) <= 1_000_000
    assert producer.stats().waiting_calls > 100
    assert in_flight(producer) < 5
    plan.times = 0
    (deaf,) = (passage for passage in proxy.open if passage.ending is Ending.DEAF)
    deaf.hear_again()
    assert await outcomes(await asyncio.gather(*sendings)) == {Outcome.ACKED}
    assert await story.findings() == []
    assert producer.stats().records_retried == 0
    assert unsent(connection) == 0


async def test_a12_request_timeout_counts_from_the_hand_over(make: Make, proxy: Proxy, story: Story) -> None:
    """A request that only reached our own buffers is timed out RT after it was handed over, and sent again."""
    producer = await warm(make(request_timeout_ms=150, send_buffer_bytes=16_384), "one")
    await story.send(producer)
    await story.end()
    proxy.plan(Side.REQUEST, PRODUCE, Cut(0, Ending.DEAF))
    delivery = await story.send(producer, filling=bytes(900_000))
    connection = link_of(producer)
    start = connection.last_used
    await so(lambda: connection.closed)
    took = asyncio.get_running_loop().time() - start
    assert 0.15 <= took < 2
    assert await outcomes([delivery]) == {Outcome.ACKED}
    assert await story.findings() == []


async def test_a12_slow_reader_is_not_given_up(make: Make, proxy: Proxy, story: Story) -> None:
    """A peer that reads again before RT receives the rest, byte for byte, over the same connection."""
    producer = await warm(make(send_buffer_bytes=16_384, request_timeout_ms=5_000), "one")
    await story.send(producer)
    await story.end()
    before = proxy.accepted
    for _ in range(2):
        proxy.plan(Side.REQUEST, PRODUCE, Cut(0, Ending.DEAF))
        delivery = await story.send(producer, filling=FILLING * 4_000)
        await so(lambda: any(passage.ending is Ending.DEAF for passage in proxy.open))
        next(passage for passage in proxy.open if passage.ending is Ending.DEAF).hear_again()
        assert await outcomes([delivery]) == {Outcome.ACKED}
    assert proxy.accepted == before
    assert await story.findings() == []


# -- A15: closed as it is used


@pytest.mark.parametrize("ending", [Ending.FIN, Ending.RESET])
@pytest.mark.parametrize("first", ["close", "send"])
async def test_a15_idle_close_exactly_as_a_request_is_written(
    first: str, ending: Ending, make: Make, proxy: Proxy, story: Story, caplog: pytest.LogCaptureFixture
) -> None:
    """A connection that ends in the very turn in which a request is written: one retry at most, and no warning."""
    producer = await warm(make(), "one")
    await story.send(producer)
    await story.end()
    caplog.clear()
    for _ in range(20):
        retried, idle = producer.stats().records_retried, proxy.open_for(PRODUCE)
        if first == "close":
            for passage in idle:
                passage.end(ending)
        delivery = await story.send(producer)
        if first == "send":
            for passage in idle:
                passage.end(ending)
        assert await outcomes([delivery]) == {Outcome.ACKED}
        assert producer.stats().records_retried - retried <= 1
        await left(idle)
    assert [record for record in caplog.records if record.levelname == "WARNING"] == []
    assert await story.findings() == []


async def test_a15_idle_close_by_the_broker_is_not_noticed(
    make: Make, proxy: Proxy, story: Story, caplog: pytest.LogCaptureFixture, kafka: EmbeddedKafka
) -> None:
    """A broker that closed an idle connection: the next record takes a new connection, without a retry."""
    producer = await warm(make(), "one")
    await story.send(producer)
    await story.end()
    passages = proxy.open
    kafka.faults.drop_connections(1, reset=False)
    await left(passages)
    caplog.clear()
    assert await outcomes([await story.send(producer)]) == {Outcome.ACKED}
    assert producer.stats().records_retried == 0
    assert len(produce_requests(kafka)) == 2
    assert [record for record in caplog.records if record.levelname == "WARNING"] == []
    assert await story.findings() == []

"""Connections that end at each byte of a frame: nothing is lost, doubled or reordered, and sending goes on."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from aioproducer import KafkaError, Outcome, Producer
from aioproducer.testing import EmbeddedKafka
from tests.net.support import warm
from tests.net.transactional import MovableClock
from tests.proxy.proxy import Cut, Ending, Proxy, Side
from tests.proxy.reach import cuts
from tests.proxy.support import (
    API_VERSIONS,
    INIT_PRODUCER_ID,
    METADATA,
    PRODUCE,
    Make,
    Polls,
    Story,
    disconnected,
    outcomes,
    produce_requests,
    so,
)

ENDINGS = (Ending.RESET, Ending.FIN)
THREE = 3
SKIPPED = 20.0
"""Seconds that a record has, and that are skipped when it was sent: less than the request timeout."""
BUSY = 150
"""Turns of the loop in the few milliseconds of a reconnect; one that is busy with an EOF has thousands."""


async def sent_through(
    cut: tuple[Side, int, Ending], size: int, producer: Producer[Any, Any], proxy: Proxy, story: Story
) -> None:
    """Three records of one batch, whose request or answer is cut at this byte: ACKED, by at most one new connection."""
    side, at, ending = cut
    before = proxy.accepted
    plan = proxy.plan(side, PRODUCE, Cut(at, ending))
    deliveries = await story.send_many(producer, THREE)
    with Polls() as polls:
        assert await outcomes(deliveries) == {Outcome.ACKED}, cut
    assert plan.count == 1, cut
    assert polls.count < BUSY, cut
    answered = side is Side.ANSWER and at == size
    assert proxy.accepted == before + (not answered), cut
    if answered:
        await so(lambda: disconnected(producer))


async def cut_everywhere(side: Side, ending: Ending, make: Make, proxy: Proxy, story: Story) -> None:
    """Cut one request after the other, each a little later than the one before."""
    producer = await warm(make(linger_ms=1, linger_awaited=True), "one")
    assert await outcomes(await story.send_many(producer, THREE)) == {Outcome.ACKED}
    (size,) = proxy.sizes(side, PRODUCE)
    for at in cuts(size):
        await sent_through((side, at, ending), size, producer, proxy, story)


@pytest.mark.parametrize("ending", [*ENDINGS, Ending.FIN_TO_BROKER])
async def test_a06_reset_at_every_byte_of_a_request(
    ending: Ending, make: Make, proxy: Proxy, story: Story
) -> None:
    """Cut at any byte of a Produce request, the broker never sees it; it is sent again, and there once (A05, A06)."""
    await cut_everywhere(Side.REQUEST, ending, make, proxy, story)
    assert await story.findings() == []


@pytest.mark.parametrize("ending", ENDINGS)
async def test_a09_reset_at_every_byte_of_an_answer(
    ending: Ending, make: Make, proxy: Proxy, story: Story
) -> None:
    """Cut at any byte of its answer, the batch is sent again and acknowledged where it is already (A08, A09)."""
    await cut_everywhere(Side.ANSWER, ending, make, proxy, story)
    assert await story.findings() == []


async def test_a07_reset_before_the_append(make: Make, proxy: Proxy, story: Story) -> None:
    """A request that came whole and was lost all the same is sent again, and is in the log once."""
    producer = await warm(make(), "one")
    proxy.plan(Side.REQUEST, PRODUCE, Cut(0, Ending.STRAY), times=5)
    assert await outcomes(await story.send_many(producer, THREE)) == {Outcome.ACKED}
    assert producer.stats().records_retried >= 5
    assert await story.findings() == []


async def test_a08_reset_after_the_append(make: Make, proxy: Proxy, story: Story) -> None:
    """The answers of five requests in flight are lost: each batch is acknowledged at its first offset, in order."""
    producer = await warm(make(batch_size=1), "one")
    await story.send(producer)
    await story.end()
    proxy.plan(Side.ANSWER, PRODUCE, Cut(0, Ending.RESET), times=3)
    await story.send_many(producer, 20)
    assert await story.findings() == []
    assert {call.delivery.outcome for call in story.calls} == {Outcome.ACKED}
    assert len(story.log()) == 21


async def test_a08_late_request_is_no_second_copy(
    make: Make, proxy: Proxy, story: Story, kafka: EmbeddedKafka
) -> None:
    """A request that the network kept while its repetition was written comes late: the broker knows it."""
    producer = await warm(make(), "one")
    await story.send_many(producer, 2)
    await story.end()
    proxy.plan(Side.REQUEST, PRODUCE, Cut(0, Ending.STRAY), times=3)
    await story.send_many(producer, 10)
    await story.end()
    strays = [passage for passage in proxy.passages if passage.ending is Ending.STRAY]
    before = len(produce_requests(kafka))
    for passage in strays:
        passage.deliver_stray()
    # After the kept part of a frame, other frames may have been in flight.
    await so(lambda: len(produce_requests(kafka)) >= before + len(strays))
    assert len(strays) == 3
    assert await story.findings() == []


async def test_a08_late_request_of_a_record_that_was_given_up(
    make: Make, proxy: Proxy, story: Story, kafka: EmbeddedKafka
) -> None:
    """It comes after its delivery ended as UNKNOWN and later records were written: it is refused, order holds."""
    producer = await warm(make(delivery_timeout_ms=150, request_timeout_ms=100), "one")
    await story.send(producer)
    await story.end()
    plan = proxy.plan(Side.REQUEST, PRODUCE, Cut(0, Ending.STRAY), times=None)
    given_up = await story.send(producer)
    assert await given_up.wait(5) is Outcome.UNKNOWN
    plan.times = plan.count
    await story.send_many(producer, 3)
    await story.end()
    strays = [passage for passage in proxy.passages if passage.ending is Ending.STRAY]
    before = len(produce_requests(kafka))
    for passage in strays:
        passage.deliver_stray()
    await so(lambda: len(produce_requests(kafka)) >= before + len(strays))
    assert strays
    assert await story.findings() == []
    assert [call.delivery.outcome for call in story.calls[2:]] == [Outcome.ACKED] * 3


@pytest.mark.parametrize("ending", ENDINGS)
async def test_a08_without_idempotence(ending: Ending, make: Make, proxy: Proxy, story: Story) -> None:
    """Without idempotence a lost answer makes a second copy, as documented; nothing is lost, and order holds."""
    producer = await warm(make(enable_idempotence=False, max_in_flight_requests_per_connection=1), "one")
    proxy.plan(Side.ANSWER, PRODUCE, Cut(0, ending), skip=1, times=3)
    await story.send_many(producer, 8, filling=b"")
    await story.end()
    await story.send_many(producer, 8, filling=b"")
    assert await story.findings(duplicates=True) == []
    assert len(story.log()) > len(story.calls)


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("side", list(Side))
async def test_a06_a09_cuts_with_five_requests_in_flight(
    side: Side, ending: Ending, make: Make, proxy: Proxy, story: Story
) -> None:
    """The second, third or fourth of five requests is cut, or its answer: order and single copies survive."""
    producer = await warm(make(batch_size=1), "one", "four")
    await story.send(producer)
    await story.end()
    (size,) = proxy.sizes(side, PRODUCE)
    for at in cuts(size):
        proxy.plan(side, PRODUCE, Cut(at, ending), skip=1 + at % 3)
        await story.send_many(producer, 10)
        await story.end()
    assert await story.findings() == []
    assert {call.delivery.outcome for call in story.calls} == {Outcome.ACKED}


@pytest.mark.parametrize("at", [0, 1, 100, 65_536, 400_000, 899_000])
async def test_a06_cut_while_a_large_request_is_being_written(
    at: int, make: Make, proxy: Proxy, story: Story
) -> None:
    """A request that is longer than all buffers is cut while the rest of it is still with the client."""
    producer = await warm(make(), "one")
    proxy.plan(Side.REQUEST, PRODUCE, Cut(at, Ending.RESET), times=2)
    assert await outcomes([await story.send(producer, filling=bytes(900_000))]) == {Outcome.ACKED}
    assert await story.findings() == []


# -- the opening: versions, metadata, producer id


OPENING = [(API_VERSIONS, 0), (API_VERSIONS, 1), (METADATA, 0), (INIT_PRODUCER_ID, 0)]


async def one_life(producer: Producer[Any, Any], story: Story) -> set[Outcome]:
    """Start, send two records, close."""
    await producer.start()
    result = await outcomes(await story.send_many(producer, 2))
    await producer.close(timeout=1)
    return result


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("side", list(Side))
@pytest.mark.parametrize(("api", "skip"), OPENING)
async def test_a06_a09_opening_cut_at_every_byte(
    api: int, skip: int, side: Side, ending: Ending, make: Make, proxy: Proxy, story: Story
) -> None:
    """Cut anywhere in the opening of either connection, the producer dials again, and succeeds."""
    assert await one_life(make(), story) == {Outcome.ACKED}
    normal = proxy.accepted
    size = proxy.sizes(side, api)[skip]
    for at in cuts(size):
        before = proxy.accepted
        plan = proxy.plan(side, api, Cut(at, ending), skip=skip)
        with Polls() as polls:
            assert await one_life(make(), story) == {Outcome.ACKED}, at
        assert plan.count == 1, at
        assert proxy.accepted <= before + normal + 1, at
        assert polls.count < 2 * BUSY, at
    assert await story.findings() == []


# -- nothing at all gets through


async def test_a05_nothing_ever_reached_a_transport(make: Make, proxy: Proxy, story: Story) -> None:
    """While every connection is reset before its first byte, records end as NOT_WRITTEN at their deadline."""
    producer = await warm(make(), "one")
    await story.send(producer)
    await story.end()
    proxy.greetings.extend([Ending.RESET] * 1000)
    for passage in proxy.open:
        passage.drop()
    await so(lambda: disconnected(producer))
    refused = await story.send_many(producer, THREE, timeout=0.3)
    assert await outcomes(refused) == {Outcome.NOT_WRITTEN}
    assert await story.findings() == []
    proxy.greetings.clear()
    assert await outcomes(await story.send_many(producer, THREE)) == {Outcome.ACKED}
    assert await story.findings() == []


@pytest.mark.parametrize(("side", "copies"), [(Side.REQUEST, 0), (Side.ANSWER, 3)])
async def test_a05_a08_every_request_is_reset_until_the_deadline(
    side: Side, copies: int, loop_clock: MovableClock, make: Make, proxy: Proxy, story: Story
) -> None:
    """Records that were handed to a transport and never answered are UNKNOWN at their deadline, there or not."""
    producer = await warm(make(linger_ms=1, linger_awaited=True), "one")
    plan = proxy.plan(side, PRODUCE, Cut(0, Ending.RESET), times=None)
    deliveries = await story.send_many(producer, THREE, timeout=SKIPPED)
    await so(lambda: plan.count > 1)
    loop_clock.skip(SKIPPED)
    assert await outcomes(deliveries) == {Outcome.UNKNOWN}
    assert await story.findings() == []
    assert len(story.log()) == copies
    assert plan.count <= 30
    proxy.heal()
    assert await outcomes(await story.send_many(producer, THREE)) == {Outcome.ACKED}
    assert await story.findings() == []


# -- storms


PAUSES: dict[str, Any] = {"reconnect_backoff_ms": 5, "reconnect_backoff_max_ms": 100}
"""A tenth of what the settings are by default, so that one second shows what ten would."""


@pytest.mark.parametrize("ending", ENDINGS)
async def test_a05_reconnects_follow_the_backoff(
    ending: Ending, make: Make, proxy: Proxy, story: Story
) -> None:
    """A broker that takes calls and hangs up is called at most 17 times in the time of ten backoffs (I10)."""
    proxy.greetings.extend([ending] * 1000)
    producer = make(**PAUSES, max_block_ms=1000, delivery_timeout_ms=1000, request_timeout_ms=500)
    await producer.start()
    with Polls() as polls, pytest.raises(KafkaError):
        await story.send(producer)
    assert 2 <= proxy.accepted <= 17
    assert polls.count < 10 * BUSY


@pytest.mark.parametrize("side", list(Side))
@pytest.mark.parametrize("at", [0, 20])
async def test_a06_a09_reconnects_follow_the_backoff_when_many_partitions_wait(
    at: int, side: Side, make: Make, proxy: Proxy, story: Story, kafka: EmbeddedKafka
) -> None:
    """Where each connection ends in its first request or answer, a hundred partitions call no more than one (I10)."""
    kafka.create_topic("hundred", 100)
    producer = make(
        **PAUSES, retry_backoff_ms=1, max_in_flight_requests_per_connection=1, max_request_size=400
    )
    await warm(producer, "hundred")
    before = proxy.accepted
    plan = proxy.plan(side, PRODUCE, Cut(at, Ending.RESET), times=None)
    deliveries = [await story.send(producer, "hundred", partition=number) for number in range(100)]
    loop = asyncio.get_running_loop()
    second = loop.create_future()
    loop.call_later(1.0, second.set_result, None)
    await second
    calls = proxy.accepted - before
    plan.times = plan.count
    assert await outcomes(deliveries) == {Outcome.ACKED}
    assert await story.findings() == []
    assert calls <= 17

"""Answers that are wrong: whose number, length or bytes cannot be; the connection ends at once and nothing is believed."""

from __future__ import annotations

import asyncio
import logging
import random
import tracemalloc
from collections.abc import Sequence
from typing import Any

import pytest

from aioproducer import Outcome, Producer
from aioproducer._wire.codec import decode_response
from aioproducer._wire.frames import FRAME_LIMIT, UNTRUSTED_FRAME_LIMIT
from aioproducer._wire.messages.api_versions import ApiVersionsResponse
from aioproducer._wire.messages.init_producer_id import InitProducerIdResponse
from aioproducer._wire.messages.produce import ProduceResponse
from aioproducer.errors import ProtocolError
from tests.net.support import engine, warm
from tests.proxy.frames import (
    HTTP,
    SSH,
    TLS_ALERT,
    TLS_HELLO,
    flipped,
    framed,
    instead,
    longer,
    shorter,
    twice,
    with_id,
    with_length,
)
from tests.proxy.frames import (
    Make as Remake,
)
from tests.proxy.proxy import Head, Proxy, Rewrite, Side
from tests.proxy.reach import PROOF, seeds
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
    so,
)

ALL = (API_VERSIONS, METADATA, INIT_PRODUCER_ID, PRODUCE)
IDS = (1, -1, 2**31, 12_345)
LENGTHS = (-(2**31), -1, 0, 3, FRAME_LIMIT + 1, 2**31 - 1)
AT_ONCE = 30.0
"""Seconds: half of the timeouts here, and hundreds of times what a reconnect takes: for a machine that stands still for a while."""
PATIENT: dict[str, Any] = {
    "request_timeout_ms": 60_000,
    "socket_connection_setup_timeout_ms": 60_000,
    "socket_connection_setup_timeout_max_ms": 60_000,
}
BUSY = 200


@pytest.fixture
async def producer(make: Make, story: Story) -> Producer[Any, Any]:
    """A running one that is known to the partition: up to five batches, of one record each, are in flight."""
    producer = await warm(make(batch_size=1, **PATIENT), "one")
    await story.send(producer)
    await story.end()
    return producer


async def survives(
    remake: Remake, producer: Producer[Any, Any], proxy: Proxy, story: Story, *, skip: int = 0
) -> None:
    """One answer is remade, with others in flight: the connection ends at once, and all is written once, in order."""
    before = proxy.accepted
    plan = proxy.plan(Side.ANSWER, PRODUCE, Rewrite(remake), skip=skip)
    start = asyncio.get_running_loop().time()
    with Polls() as polls:
        assert await outcomes(await story.send_many(producer, 5)) == {Outcome.ACKED}
        await plan.reached.wait()
    assert asyncio.get_running_loop().time() - start < AT_ONCE
    assert polls.count < BUSY
    # One more, in case that all had their answers before the bad one came.
    assert await outcomes([await story.send(producer)]) == {Outcome.ACKED}
    assert proxy.accepted <= before + 3


async def opens_all_the_same(api: int, remake: Remake, make: Make, proxy: Proxy, story: Story) -> None:
    """One of the first answers is remade: the producer dials again, at once, and all goes well."""
    plan = proxy.plan(Side.ANSWER, api, Rewrite(remake))
    producer = make(**PATIENT)
    start = asyncio.get_running_loop().time()
    await producer.start()
    assert await outcomes(await story.send_many(producer, 2)) == {Outcome.ACKED}
    assert asyncio.get_running_loop().time() - start < AT_ONCE
    await producer.close(timeout=1)
    assert plan.count == 1


# -- B01, B02: numbers


@pytest.mark.parametrize("added", IDS)
async def test_b01_wrong_correlation_id(
    added: int, producer: Producer[Any, Any], proxy: Proxy, story: Story, caplog: pytest.LogCaptureFixture
) -> None:
    """The connection ends at once, the requests in flight are sent again, and the warning names the broker."""
    for skip in range(3):
        await survives(with_id(added), producer, proxy, story, skip=skip)
    warning = next(record.getMessage() for record in caplog.records if record.levelname == "WARNING")
    assert "correlation id" in warning
    assert f"127.0.0.1:{proxy.port} (id 1)" in warning
    assert await story.findings() == []


@pytest.mark.parametrize("api", ALL)
@pytest.mark.parametrize("added", IDS)
async def test_b01_wrong_correlation_id_in_the_opening(
    api: int, added: int, make: Make, proxy: Proxy, story: Story
) -> None:
    """Versions, metadata or a producer id under a wrong number are not believed either."""
    await opens_all_the_same(api, with_id(added), make, proxy, story)
    assert await story.findings() == []


async def test_b02_same_answer_twice(producer: Producer[Any, Any], proxy: Proxy, story: Story) -> None:
    """The first counts, the second ends the connection; no record gets the offset of another."""
    for skip in range(5):
        await survives(twice, producer, proxy, story, skip=skip)
    assert await story.findings() == []


@pytest.mark.parametrize("api", ALL)
async def test_b02_same_answer_twice_in_the_opening(api: int, make: Make, proxy: Proxy, story: Story) -> None:
    """Neither does it spoil what follows."""
    await opens_all_the_same(api, twice, make, proxy, story)
    assert await story.findings() == []


async def test_b02_answer_that_nobody_asked_for(
    producer: Producer[Any, Any], proxy: Proxy, story: Story, caplog: pytest.LogCaptureFixture
) -> None:
    """With nothing in flight it ends the connection, with an effect on the log only."""
    for body in (bytes(4), bytes(100), b"\xff" * 64):
        for passage in proxy.open_for(PRODUCE):
            passage.say(framed(body))
        await so(lambda: disconnected(producer))
        assert await outcomes([await story.send(producer)]) == {Outcome.ACKED}
    assert "no request waits for one" in caplog.text
    assert producer.stats().records_retried == 0
    assert await story.findings() == []


# -- B03: lengths


@pytest.mark.parametrize("length", LENGTHS)
async def test_b03_impossible_length(
    length: int, producer: Producer[Any, Any], proxy: Proxy, story: Story, caplog: pytest.LogCaptureFixture
) -> None:
    """The connection ends before anything of that size is made, and the log says which length it was."""
    await survives(with_length(length), producer, proxy, story)
    tracemalloc.start()
    try:
        await survives(with_length(length), producer, proxy, story)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 2 << 20
    assert f"an answer of {length} bytes" in caplog.text
    assert await story.findings() == []


@pytest.mark.parametrize("length", [*LENGTHS, UNTRUSTED_FRAME_LIMIT + 1])
async def test_b03_impossible_length_in_the_opening(
    length: int, make: Make, proxy: Proxy, story: Story
) -> None:
    """A peer that has not shown that it is a broker is trusted with even less."""
    await opens_all_the_same(API_VERSIONS, with_length(length), make, proxy, story)
    assert await story.findings() == []


@pytest.mark.parametrize(
    ("said", "hint"),
    [(HTTP, "web server"), (TLS_ALERT, "speaks TLS"), (TLS_HELLO, "speaks TLS"), (SSH, "SSH server")],
)
async def test_b03_other_protocols_are_recognised(
    said: bytes, hint: str, make: Make, proxy: Proxy, story: Story, caplog: pytest.LogCaptureFixture
) -> None:
    """A web, TLS or SSH server in place of a broker, at the first answer or at any later one, is called by its name."""
    for api in ALL:
        caplog.clear()
        await opens_all_the_same(api, instead(said), make, proxy, story)
        assert hint in caplog.text
    assert await story.findings() == []


# -- B04: garbage


@pytest.mark.parametrize("seed", seeds(20))
async def test_b04_garbage(seed: int, make: Make, proxy: Proxy, story: Story) -> None:
    """Random bytes in place of an answer, or of what stands behind its number, are no answer."""
    print(f"seed {seed}")
    rng = random.Random(seed)

    def body(frame: bytes) -> list[bytes]:
        return [framed(frame[4:8] + rng.randbytes(rng.randrange(200)))]

    def anything(_: bytes) -> list[bytes]:
        return [rng.randbytes(rng.randrange(1, 200))]

    producer = await warm(make(batch_size=1, request_timeout_ms=150), "one")
    await story.send(producer)
    await story.end()
    for remake in (body, anything, body, anything):
        await survives(remake, producer, proxy, story, skip=rng.randrange(3))
    for api in ALL:
        plan = proxy.plan(Side.ANSWER, api, Rewrite(rng.choice([body, anything])))
        one = make(request_timeout_ms=150, socket_connection_setup_timeout_ms=150)
        await one.start()
        assert await outcomes([await story.send(one)]) == {Outcome.ACKED}
        await one.close(timeout=1)
        assert plan.count == 1
    assert await story.findings() == []


RESPONSES: dict[int, type[tuple[Any, ...]]] = {
    PRODUCE: ProduceResponse,
    API_VERSIONS: ApiVersionsResponse,
    INIT_PRODUCER_ID: InitProducerIdResponse,
}


def what_it_says(api: int, version: int, frame: bytes) -> object:
    """The codes and offsets of an answer; None for one that cannot be read."""
    try:
        _, answer = decode_response(RESPONSES[api], version, memoryview(frame)[4:])
    except ProtocolError:
        return None
    if isinstance(answer, ProduceResponse):
        return [
            (one.error_code, one.base_offset)
            for topic in answer.responses
            for one in topic.partition_responses
        ]
    return answer.error_code  # type: ignore[attr-defined]  # both others have one


def is_a_lie(api: int, version: int, frame: bytes, bit: int) -> bool:
    """Does the broker, with this bit flipped, name another code or offset? No client could tell that from the truth."""
    told, told_now = (what_it_says(api, version, one) for one in (frame, flipped(bit)(frame)[0]))
    return told_now not in (None, told)


class Flips:
    """Flips the next bit of each answer, but for those where that makes a lie."""

    def __init__(self, api: int, version: int, every: int) -> None:
        self.api = api
        self.version = version
        self.every = every
        self.bit = 0
        self.flips = 0
        self.lies = 0

    def __call__(self, frame: bytes) -> Sequence[bytes]:
        while self.bit < len(frame) * 8 and is_a_lie(self.api, self.version, frame, self.bit):
            self.bit += self.every
            self.lies += 1
        bit, self.bit = self.bit, self.bit + self.every
        self.flips += 1
        return flipped(bit)(frame) if bit < len(frame) * 8 else [frame]


def first(proxy: Proxy, api: int) -> Head:
    """The first answer of this kind."""
    return next(head for head in proxy.heads if head.side is Side.ANSWER and head.api == api)


async def test_b04_flipped_bits_of_an_answer(make: Make, proxy: Proxy, story: Story) -> None:
    """Any bit of a Produce answer may flip, except those of code and offset: an unreadable answer leads to a repetition."""
    producer = await warm(make(request_timeout_ms=50), "one")
    await story.send(producer)
    await story.end()
    head = first(proxy, PRODUCE)
    flips = Flips(PRODUCE, head.version, 1 if PROOF else 7)
    while flips.bit < head.size * 8:
        plan = proxy.plan(Side.ANSWER, PRODUCE, Rewrite(flips))
        assert await outcomes([await story.send(producer)]) == {Outcome.ACKED}, flips.bit
        assert plan.count == 1
        # The broker may have asked for a pause of weeks; one ends with its connection.
        for passage in proxy.open_for(PRODUCE):
            passage.drop()
        await so(lambda: disconnected(producer))
    assert flips.flips > 50
    assert flips.lies <= 80
    assert await story.findings() == []


@pytest.mark.parametrize(("api", "every"), [(API_VERSIONS, 29), (INIT_PRODUCER_ID, 7)])
async def test_b04_flipped_bits_in_the_opening(
    api: int, every: int, make: Make, proxy: Proxy, story: Story
) -> None:
    """The same for versions and producer ids."""
    settings: dict[str, Any] = {"request_timeout_ms": 50, "socket_connection_setup_timeout_ms": 50}
    one = await warm(make(**settings), "one")
    await one.close()
    head = first(proxy, api)
    flips = Flips(api, head.version, max(every // 10, 1) if PROOF else every)
    while flips.bit < head.size * 8:
        proxy.plan(Side.ANSWER, api, Rewrite(flips))
        one = make(**settings)
        await one.start()
        assert await outcomes([await story.send(one)]) == {Outcome.ACKED}, flips.bit
        await one.close(timeout=1)
        proxy.heal()
    assert flips.flips > 20
    assert await story.findings() == []


# -- B05: too short, too long


TOO_SHORT = [pytest.param(shorter(by), id=f"{by} bytes short") for by in (1, 2, 5, 16)]
TOO_LONG = [
    pytest.param(longer(by), id=f"{by.hex()} behind it")
    for by in (b"\0", b"\x01", bytes(64), b"\x01\x00\x01\xff")
]


@pytest.mark.parametrize("remake", TOO_LONG)
async def test_b05_bytes_behind_the_last_field(
    remake: Remake,
    producer: Producer[Any, Any],
    proxy: Proxy,
    story: Story,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A Produce answer with bytes behind its last field is believed, and its connection goes on."""
    for skip in range(3):
        await survives(remake, producer, proxy, story, skip=skip)
    assert engine(producer).supervisor.crashed is None
    assert not [line for line in caplog.records if line.levelno > logging.DEBUG]
    assert await story.findings() == []


@pytest.mark.parametrize("remake", TOO_SHORT)
async def test_b05_body_that_does_not_fill_its_frame(
    remake: Remake,
    producer: Producer[Any, Any],
    proxy: Proxy,
    story: Story,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A Produce answer that is too short is not believed; its batch is acknowledged by the next one."""
    for skip in range(3):
        await survives(remake, producer, proxy, story, skip=skip)
    assert engine(producer).supervisor.crashed is None
    assert "the connection to a broker was given up" in caplog.text
    assert await story.findings() == []


@pytest.mark.parametrize("api", ALL)
@pytest.mark.parametrize("remake", [*TOO_SHORT, *TOO_LONG])
async def test_b05_body_that_does_not_fill_its_frame_in_the_opening(
    api: int, remake: Remake, make: Make, proxy: Proxy, story: Story
) -> None:
    """The same holds for versions, metadata and a producer id: none of it keeps a producer from starting."""
    await opens_all_the_same(api, remake, make, proxy, story)
    assert await story.findings() == []

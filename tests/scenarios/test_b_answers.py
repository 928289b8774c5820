"""B01-B14, B16: answers without sense, and servers that are no broker.

Every scenario is judged. Any bytes cost a connection and never more than that: no other exception than `ProtocolError`
leaves the decoder (no line of the log reports a bug), and the producer continues.
"""

from __future__ import annotations

import asyncio
import ssl
import time
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any, Final
from unittest import mock

import pytest

from aioproducer import (
    BrokerError,
    Delivery,
    KafkaError,
    MetadataTimeoutError,
    Outcome,
    Producer,
    ProtocolError,
)
from aioproducer._wire.apis import APIS
from aioproducer._wire.codec import decode_response, encode_response
from aioproducer._wire.frames import FRAME_LIMIT
from aioproducer._wire.messages.metadata import (
    MetadataResponse,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from aioproducer.testing import EmbeddedKafka
from aioproducer.testing.broker.cluster.cluster import key_of
from aioproducer.testing.broker.rules import Fault
from tests.collector import keep_what_is_there
from tests.scenarios.support import (
    TOPIC,
    all_acked,
    dials,
    leader,
    outcomes,
    port_of_leader,
    scenario,
    send,
    stage,
)
from tests.simulation.world import World

DT, RT, MB = 20.0, 2.0, 5.0
RECOVERY: Final = 3.0
HUGE_VARINT: Final = b"\xff\xff\xff\xff\x07"
"""2^31-1, as the count of an array or string."""

DIALOGUE: Final = ("ApiVersions", "InitProducerId", "Metadata", "Produce")
"""The requests of a producer until its first record is written."""

Change = Callable[[bytes], bytes]


# -- results


async def fresh(world: World, **settings: Any) -> Producer[Any, Any]:
    """Another producer, which has sent no request yet."""
    producer = world.producer(linger_ms=0, **settings)
    await producer.start()
    return producer


async def goes_on(world: World, fault: Fault, api: str) -> None:
    """A producer meets the fault, and its records are acknowledged."""
    producer = await fresh(world)
    began = world.now
    await all_acked(await send(world, producer, 3, partition=0))
    assert fault.hits == fault.times, f"{fault.hits} answers to {api} were spoilt, and not {fault.times}"
    assert world.now - began < RECOVERY + RT
    await producer.close()
    sound(world)


@contextmanager
def noted(words: str) -> Iterator[None]:
    """A failure inside names its case."""
    try:
        yield
    except BaseException as error:
        error.add_note(words)
        raise


def sound(world: World) -> None:
    """No line of the log reports a bug."""
    bugs = [line for line in world.log if line.exc_info]
    assert not bugs, [(line.getMessage(), line.exc_info) for line in bugs]


def warnings_with(world: World, text: str) -> list[str]:
    """The warnings with this text."""
    return [line for line in world.warnings() if text in line]


def framed(body: bytes) -> bytes:
    """A frame of these bytes, with the right length."""
    return len(body).to_bytes(4, "big") + body


def version_of(world: World, api: str) -> int:
    """The version of the last request."""
    return next(request.version for request in reversed(world.kafka.requests) if request.api == api)


def decoded(api: str, version: int, body: bytes) -> Any:
    """The answer as the codec reads it; None if it is unreadable."""
    key = key_of(api)
    try:
        return decode_response(APIS[key].response, version, body)
    except ProtocolError:
        return None


def unreadable(world: World, api: str, spoil: Change) -> Change:
    """Spoils an answer so that it cannot be read: a client must believe a readable one, even with other contents."""

    def change(frame: bytes) -> bytes:
        version = version_of(world, api)
        for _ in range(1000):
            body = spoil(frame[4:])
            if decoded(api, version, body) is None:
                return framed(body)
        raise AssertionError("every change of the answer can be read")

    return change


async def at_each_api(world: World, arm: Callable[[str], Fault], apis: tuple[str, ...] = DIALOGUE) -> None:
    """A fault of each answer of the dialogue, one after the other."""
    if TOPIC not in world.kafka.topics:
        world.kafka.create_topic(TOPIC, 3, min_insync_replicas=2)
    for api in apis:
        with noted(f"in the answer to {api}"):
            await goes_on(world, arm(api), api)


# -- correlation ids


@scenario()
async def test_b01_a_wrong_correlation_id(world: World) -> None:
    """The connection is closed at once, all its requests are sent again, and the broker is named."""
    producer = await stage(world, linger_ms=0, batch_size=1)
    await all_acked(await send(world, producer, partition=0))
    port = port_of_leader(world)
    for count in (1, 2, 5):
        by, at = world.rng.choice((1, -1, 5, 2**31)), world.rng.randrange(count)
        wrong = world.kafka.faults.wrong_correlation_id(by, topic=TOPIC, partition=0, skip=at)
        before, closed = world.now, list[float]()
        for link in world.network.links(port):
            watch_end(link.client, world, closed)
        deliveries = await send(world, producer, count, partition=0)
        await wrong.reached()
        reached = world.now
        await all_acked(deliveries)
        assert closed
        assert closed[0] - reached < 0.01
        assert dials(world, port, before, RECOVERY) == 1
        assert world.now - before < RECOVERY
        await asyncio.sleep(11.0)
    assert len(warnings_with(world, "correlation id")) == 3
    assert warnings_with(world, f"(id {leader(world)})")
    sound(world)


def watch_end(transport: Any, world: World, ends: list[float]) -> None:
    """Record the time at which a transport is closed."""
    ended = transport._finish

    def finish(*arguments: Any) -> None:
        ends.append(world.now)
        ended(*arguments)

    transport._finish = finish


@scenario()
async def test_b01_every_answer_has_a_wrong_correlation_id(world: World) -> None:
    """No answer can be trusted: UNKNOWN at the deadline with the reason, and few connections until then."""
    producer = await stage(world, linger_ms=0)
    await all_acked(await send(world, producer, partition=0))
    world.kafka.faults.wrong_correlation_id(topic=TOPIC, partition=0, times=None)
    began = world.now
    deliveries = await send(world, producer, 2, partition=0)
    assert await outcomes(deliveries) == {Outcome.UNKNOWN: 2}
    assert DT - 0.01 <= world.now - began <= DT + 0.1
    error = deliveries[0].exception()
    assert error is not None
    assert isinstance(error.cause, ProtocolError)
    assert f"(id {leader(world)})" in str(error.cause.broker)
    assert dials(world, port_of_leader(world), began) <= 16
    world.kafka.faults.heal()
    healed = world.now
    await all_acked(await send(world, producer, partition=0))
    assert world.now - healed < RECOVERY
    sound(world)


@scenario()
async def test_b01_in_the_rest_of_the_dialogue(world: World) -> None:
    """The same holds for answers about versions, metadata and producer ids: the connection is replaced."""
    await at_each_api(world, lambda api: world.kafka.faults.wrong_correlation_id(api=api))


@scenario()
async def test_b02_an_answer_comes_twice(world: World) -> None:
    """The first is accepted, the second belongs to no request: the connection is replaced, no record is there twice."""
    await at_each_api(world, lambda api: world.kafka.faults.answer_twice(api=api))


@scenario()
async def test_b02_twice_with_others_in_flight(world: World) -> None:
    """The second copy is not taken for the answer to the next request."""
    producer = await stage(world, linger_ms=0, batch_size=1)
    await all_acked(await send(world, producer, partition=0))
    offset = 1
    for count in (1, 2, 5):
        world.kafka.faults.answer_twice(topic=TOPIC, partition=0, skip=world.rng.randrange(count), times=2)
        deliveries = await send(world, producer, count + 2, partition=0)
        await all_acked(deliveries)
        assert [one.result().offset for one in deliveries] == list(range(offset, offset + count + 2))
        offset += count + 2
        await asyncio.sleep(11.0)
    assert len(warnings_with(world, "correlation id")) >= 3
    sound(world)


@scenario()
async def test_b02_an_answer_to_nothing(world: World) -> None:
    """An answer without a request ends the connection; the next record uses another one."""
    producer = await stage(world, linger_ms=0)
    await all_acked(await send(world, producer, partition=0))
    port, began = port_of_leader(world), world.now
    for link in world.network.links(port):
        link.server.write(framed(bytes(4) + world.rng.randbytes(30)))
    await asyncio.sleep(0.1)
    assert all(link.client.gone for link in world.network.links(port))
    assert warnings_with(world, "no request waits for one")
    await all_acked(await send(world, producer, partition=0))
    assert world.now - began < RECOVERY
    sound(world)


# -- lengths

LENGTHS: Final = (-1, -(2**31), 0, 3, 2**31 - 1, FRAME_LIMIT + 1)


@contextmanager
def little_memory(limit: int = 2 * 1024 * 1024) -> Iterator[None]:
    """No allocation inside may exceed this size."""
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        yield
        assert tracemalloc.get_traced_memory()[1] - before < limit
    finally:
        tracemalloc.stop()


def impossible(world: World, length: int) -> Callable[[str], Fault]:
    """The answers to an API claim this length."""
    return lambda api: world.kafka.faults.wrong_length(length, api=api)


@scenario()
async def test_b03_impossible_lengths(world: World) -> None:
    """The connection is closed before anything is allocated, in every part of the dialogue."""
    world.kafka.create_topic(TOPIC, 3, min_insync_replicas=2)
    for length in LENGTHS:
        with little_memory() if length > FRAME_LIMIT else nullcontext():
            await at_each_api(world, impossible(world, length))
        assert warnings_with(world, f"an answer of {length} bytes")


STRANGERS: Final = {
    "HTTP": b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n",
    "TLS": bytes.fromhex("15030300020246"),
    "SSH": b"SSH-2.0-OpenSSH_9.2\r\n",
}


def replaced(world: World, change: Change, times: int = 1) -> Callable[[str], Fault]:
    """The answers to an API are changed."""
    return lambda api: world.kafka.faults.rewrite(change, api=api, times=times)


def words_instead(words: bytes) -> Change:
    """These bytes come in place of any answer."""
    return lambda _frame: words


@scenario()
async def test_b03_lengths_that_are_words(world: World) -> None:
    """When the bytes identify the protocol of the server, the error names it."""
    world.kafka.create_topic(TOPIC, 3, min_insync_replicas=2)
    for kind, words in STRANGERS.items():
        await at_each_api(world, replaced(world, words_instead(words)))
        assert warnings_with(world, kind)


# -- bytes


@scenario()
async def test_b04_garbage(world: World) -> None:
    """Random bytes in place of an answer cost the connection, in every part of the dialogue, several times in a row."""

    def noise(_frame: bytes) -> bytes:
        data = world.rng.randbytes(world.rng.randrange(4, 300))
        return framed(data) if world.rng.random() < 0.5 else data

    # A length that exceeds the bytes looks like an answer in transit: its end is the request timeout.
    def arm(api: str) -> Fault:
        return world.kafka.faults.rewrite(lambda frame: noise(frame) + bytes(600_000), api=api, times=2)

    await at_each_api(world, arm)


@scenario()
async def test_b04_flipped_bits(world: World) -> None:
    """An answer with flipped bits that cannot be read costs the connection, in every part of the dialogue."""

    def flip(body: bytes) -> bytes:
        bits = bytearray(body)
        for _ in range(world.rng.randrange(1, 4)):
            at = world.rng.randrange(8 * len(bits))
            bits[at // 8] ^= 1 << at % 8
        return bytes(bits)

    await at_each_api(
        world, lambda api: world.kafka.faults.rewrite(unreadable(world, api, flip), api=api, times=3)
    )


@pytest.mark.parametrize("api", DIALOGUE)
@scenario()
async def test_b04_flipped_bits_that_can_be_read(world: World, api: str) -> None:
    """Answers with other contents are believed or not, but no task fails, and every record has an outcome."""
    world.kafka.create_topic(TOPIC, 3)
    # A producer that believes an error in place of an identity has ended.
    tolerated = KafkaError if api == "InitProducerId" else MetadataTimeoutError
    # A false offset or error cannot be distinguished from a true one, so the log is not judged.
    world.forgotten.add(TOPIC)

    def flip(frame: bytes) -> bytes:
        bits = bytearray(frame)
        bits[world.rng.randrange(4, len(bits))] ^= 1 << world.rng.randrange(8)
        return bytes(bits)

    world.kafka.faults.rewrite(flip, api=api, times=20)
    for _ in range(8):
        producer = world.producer(linger_ms=0, delivery_timeout_ms=3_000)
        await producer.start()
        for _ in range(5):
            sent: list[Delivery] = []
            for number in range(3):
                try:
                    sent.append(await producer.send(TOPIC, b"v", partition=number))
                except tolerated:
                    continue
            assert Outcome.PENDING not in await outcomes(sent)
        await producer.close()
    world.kafka.faults.heal()
    producer = await fresh(world)
    for partition in range(3):
        delivery = await producer.send(TOPIC, b"v", partition=partition)
        assert await delivery.wait(None) is Outcome.ACKED
    sound(world)


@scenario()
async def test_b05_a_body_that_is_too_short(world: World) -> None:
    """A body that ends before its last field is no answer."""

    def arm(api: str) -> Fault:
        def cut(body: bytes) -> bytes:
            return body[: world.rng.randrange(4, len(body))]

        return world.kafka.faults.rewrite(unreadable(world, api, cut), api=api, times=3)

    await at_each_api(world, arm)


@scenario()
async def test_b05_bytes_behind_the_last_field(world: World) -> None:
    """Bytes behind the last field of an answer are ignored, as other clients do: no connection ends by them."""

    def longer(frame: bytes) -> bytes:
        return framed(frame[4:] + world.rng.randbytes(world.rng.randrange(1, 50)))

    await at_each_api(world, lambda api: world.kafka.faults.rewrite(longer, api=api))
    assert not world.warnings()
    assert any("behind the last field" in line.getMessage() for line in world.log)


COUNTS: Final = (HUGE_VARINT, b"\xff\xff\x7f", b"\x7f\xff\xff\xff", b"\x7f\xff")
"""As counts and lengths: varints of 2^31-1 and 2^21-1, and the highest numbers of 4 and 2 bytes."""


@scenario()
async def test_b06_counts_beyond_the_end(world: World) -> None:
    """Arrays, strings, bytes and tags that claim more than is there are refused before memory is allocated for them."""

    def claim(body: bytes) -> bytes:
        count = world.rng.choice(COUNTS)
        at = world.rng.randrange(4, len(body))
        taken = 1 if len(count) in {3, 5} else len(count)
        return body[:at] + count + body[at + taken :]

    with little_memory():
        await at_each_api(
            world, lambda api: world.kafka.faults.rewrite(unreadable(world, api, claim), api=api, times=4)
        )


@scenario()
async def test_b06_counts_in_old_versions(world: World) -> None:
    """The same holds where counts are four bytes and strings have two."""
    world.kafka.limit_version("Produce", 3, 7)
    world.kafka.limit_version("Metadata", 0, 7)
    world.kafka.limit_version("InitProducerId", 0, 1)
    world.kafka.limit_version("ApiVersions", 0, 2)

    def claim(body: bytes) -> bytes:
        at = world.rng.randrange(4, len(body) - 1)
        count = world.rng.choice((b"\x7f\xff\xff\xff", b"\x7f\xff", b"\xff\xff\xff\xff", b"\xff\xff"))
        return (body[:at] + count + body[at + len(count) :])[: len(body)]

    with little_memory():
        # An answer to InitProducerId has no counts in these versions.
        apis = ("ApiVersions", "Metadata", "Produce")
        await at_each_api(
            world,
            lambda api: world.kafka.faults.rewrite(unreadable(world, api, claim), api=api, times=4),
            apis,
        )


ODD_VARINTS: Final = (
    b"\x82\x00",
    b"\x80\x80\x80\x80\x00",
    b"\x81\x80\x80\x80\x80\x00",
    b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
    b"\xff\xff\xff\xff\x1f",
    b"\x00",
)
"""Longer than needed, five bytes, longer than five, ten bytes, more than 32 bits; and null."""


@scenario()
async def test_b07_odd_varints_and_nulls(world: World) -> None:
    """Over-long varints, and nulls where none may be."""

    def arm(api: str) -> Fault:
        def spoil(body: bytes) -> bytes:
            at = world.rng.randrange(4, len(body))
            spoilt = body[:at] + world.rng.choice(ODD_VARINTS) + body[at + 1 :]
            version = version_of(world, api)
            assert spoilt == body or decoded(api, version, spoilt) != decoded(api, version, body), (
                "another spelling of the same is understood"
            )
            return spoilt

        return world.kafka.faults.rewrite(unreadable(world, api, spoil), api=api, times=4)

    await at_each_api(world, arm)


TAGS: Final = {
    "twice": b"\x02" + b"\x63\x01\x00" * 2,
    "out of order": b"\x02" + b"\x64\x01\x00" + b"\x63\x01\x00",
    "beyond the end": b"\x01\x63\x7f",
    "more than there are": b"\x05\x63\x01\x00",
}


@scenario()
async def test_b07_tags(world: World) -> None:
    """Tagged fields that come twice, out of order, or beyond the bytes of the answer, cost the connection."""
    world.kafka.create_topic(TOPIC, 3, min_insync_replicas=2)
    # The answer to ApiVersions ends with tags of its own.
    apis = ("InitProducerId", "Metadata", "Produce")
    for kind, tags in TAGS.items():
        with noted(kind):
            await at_each_api(world, replaced(world, tagged(tags), times=2), apis)


def tagged(tags: bytes) -> Change:
    """The answer ends with these tagged fields, where it had none."""

    def change(frame: bytes) -> bytes:
        assert frame.endswith(b"\x00"), "the answer does not end with its tags"
        return framed(frame[4:-1] + tags)

    return change


@scenario()
async def test_b07_unknown_tags_are_no_fault(world: World) -> None:
    """Unknown tags in order are ignored: this is their purpose."""
    producer = await stage(world, linger_ms=0)

    in_order = tagged(b"\x02" + b"\x63\x01\x00" + b"\x64\x02\x00\x00")
    passed_over = world.kafka.faults.rewrite(in_order, api="Produce", times=5)
    before = len(world.network.dials)
    for _ in range(5):
        await all_acked(await send(world, producer, partition=0))
    assert passed_over.hits == 5
    assert len(world.network.dials) - before <= 1


# -- partitions in the answer to Produce

OF_ONE_BROKER: Final = (0, 3, 6, 9)


async def many(world: World) -> Producer[Any, Any]:
    """A producer whose requests to one broker have four partitions."""
    producer = await stage(world, 12, linger_ms=0)
    for at in OF_ONE_BROKER:
        await all_acked(await send(world, producer, partition=at))
    return producer


async def together(world: World, producer: Producer[Any, Any]) -> dict[int, Delivery]:
    """One record for each of them."""
    return {at: (await send(world, producer, partition=at))[0] for at in OF_ONE_BROKER}


def of_partitions(change: Callable[[list[Any]], list[Any]]) -> Callable[[Any], Any]:
    """A change of the list of partitions of a Produce answer."""

    def altered(answer: Any) -> Any:
        (topic,) = answer.responses
        return answer._replace(
            responses=[topic._replace(partition_responses=change(list(topic.partition_responses)))]
        )

    return altered


def written(world: World, partition: int) -> list[tuple[int, int, int]]:
    """Epoch, number and checksum of each batch that a broker saw of a partition."""
    return [
        (batch.producer_epoch, batch.base_sequence, batch.crc)
        for request in world.kafka.requests
        for batch in request.batches
        if batch.partition == partition
    ]


@pytest.mark.parametrize("appended", [True, False])
@scenario()
async def test_b08_an_answer_leaves_partitions_out(world: World, appended: bool) -> None:
    """Their batches are sent again, with the same bytes; the others are acknowledged at once."""
    producer = await many(world)
    missing = set(world.rng.sample(OF_ONE_BROKER, world.rng.randrange(1, 5)))
    for at in missing:
        if not appended:
            world.kafka.faults.error(7, topic=TOPIC, partition=at)
    omitted = world.kafka.faults.alter(
        of_partitions(lambda partitions: [one for one in partitions if one.index not in missing])
    )
    world.kafka.forget_requests()
    began = world.now
    deliveries = await together(world, producer)
    await all_acked(delivery for at, delivery in deliveries.items() if at not in missing)
    assert world.now - began < 0.1
    await all_acked(deliveries.values())
    assert world.now - began < RECOVERY
    assert omitted.hits == 1
    for at in missing:
        copies = written(world, at)
        assert len(copies) == 1 + appended
        assert len(set(copies)) == 1
    sound(world)


@scenario()
async def test_b08_an_answer_is_empty_for_ever(world: World) -> None:
    """No call hangs: UNKNOWN at the deadline."""
    producer = await many(world)
    world.kafka.faults.alter(lambda answer: answer._replace(responses=[]), times=None)
    began = world.now
    deliveries = await together(world, producer)
    assert await outcomes(deliveries.values()) == {Outcome.UNKNOWN: 4}
    assert DT - 0.01 <= world.now - began <= DT + 0.1
    sound(world)


@scenario()
async def test_b09_a_partition_twice_with_different_results(world: World) -> None:
    """The first result counts, and the connection is closed."""
    producer = await many(world)

    def twice(partitions: list[Any]) -> list[Any]:
        lies = [
            one._replace(error_code=world.rng.choice((32, 45, -1, 6)), base_offset=-1) for one in partitions
        ]
        return [*partitions, *world.rng.sample(lies, 2)]

    doubled = world.kafka.faults.alter(of_partitions(twice))
    began, before = world.now, world.network.links(port_of_leader(world))
    deliveries = await together(world, producer)
    await all_acked(deliveries.values())
    assert doubled.hits == 1
    assert [delivery.result().offset for delivery in deliveries.values()] == [1, 1, 1, 1]
    await all_acked((await together(world, producer)).values())
    assert world.now - began < RECOVERY
    assert dials(world, port_of_leader(world), began) == 1
    assert before
    (connection,) = [one for one in producer.stats().connections if one.broker == str(leader(world))]
    assert connection.failures == 1
    assert warnings_with(world, "a partition twice, or one that was not requested")
    sound(world)


@scenario()
async def test_b09_a_partition_that_was_not_asked_for(world: World) -> None:
    """Its result has no effect; the connection is closed."""
    producer = await many(world)
    number = world.rng.choice((1, 11, 12, 2**31 - 1, -1))
    held = world.kafka.faults.delay(0.5, topic=TOPIC, partition=1)
    elsewhere = (await send(world, producer, partition=1))[0]
    await held.reached()

    def add(partitions: list[Any]) -> list[Any]:
        stranger = partitions[0]._replace(index=number, error_code=world.rng.choice((0, 32, 45)))
        return [*partitions, stranger] if world.rng.random() < 0.5 else [stranger, *partitions]

    world.kafka.faults.alter(of_partitions(add), partition=0, topic=TOPIC)
    began = world.now
    await all_acked((await together(world, producer)).values())
    assert elsewhere.outcome is Outcome.PENDING
    await all_acked([elsewhere, *(await together(world, producer)).values()])
    assert dials(world, port_of_leader(world), began) == 1
    assert warnings_with(world, "a partition twice, or one that was not requested")
    sound(world)


# -- offsets and codes


@scenario()
async def test_b10_written_at_no_offset(world: World) -> None:
    """NONE with the offset -1: acknowledged without an offset, for every record of the batch."""
    producer = await stage(world, linger_ms=5)
    await all_acked(await send(world, producer, partition=0))
    world.kafka.faults.alter(
        of_partitions(lambda partitions: [one._replace(base_offset=-1) for one in partitions])
    )
    deliveries = await send(world, producer, 4, partition=0)
    await all_acked(deliveries)
    assert [(one.result().offset, one.result().has_offset) for one in deliveries] == [(-1, False)] * 4
    await all_acked(await send(world, producer, partition=0))


@scenario()
async def test_b10_written_where_something_was_before(world: World) -> None:
    """An offset that was acknowledged before is accepted, counted as a suspected loss, and logged."""
    producer = await stage(world, linger_ms=0)
    world.rules = type(world.rules)(loss=True)
    for _ in range(5):
        await all_acked(await send(world, producer, partition=0))
    assert producer.stats().suspected_data_losses == 0
    world.kafka.faults.truncate(TOPIC, 0, 2)
    deliveries = await send(world, producer, 1, partition=0)
    await all_acked(deliveries)
    assert deliveries[0].result().offset == 2
    assert producer.stats().suspected_data_losses == 1
    assert warnings_with(world, "suspected data loss")
    await all_acked(await send(world, producer, 3, partition=1))
    assert producer.stats().suspected_data_losses == 1


@pytest.mark.parametrize("append", [True, False])
@scenario()
async def test_b11_an_unknown_code(world: World, append: bool) -> None:
    """Like an unknown server error: final, and UNKNOWN; later records are written."""
    producer = await stage(world, linger_ms=0, batch_size=1)
    await all_acked(await send(world, producer, partition=0))
    for code in (999, 32_767, -2, -32_768):
        world.kafka.faults.error(code, append=append, topic=TOPIC, partition=0)
        began = world.now
        first, *others = await send(world, producer, 3, partition=0)
        assert await first.wait(None) is Outcome.UNKNOWN
        assert world.now - began < 0.1
        error = first.exception()
        assert isinstance(error, BrokerError)
        assert (error.code, error.attempts, error.retriable) == (code, 1, False)
        assert str(code) in str(error)
        await all_acked([*others, *await send(world, producer, partition=0)])
        assert world.now - began < RECOVERY
    sound(world)


# -- versions


@scenario()
async def test_b12_the_version_of_the_question_is_unknown(world: World) -> None:
    """UNSUPPORTED_VERSION: asked again in version 0 on the same connection (KIP-511)."""
    world.kafka.limit_version("ApiVersions", 0, world.rng.randrange(3))
    producer = await stage(world, linger_ms=0)
    await all_acked(await send(world, producer, 3))
    asked = [request for request in world.kafka.requests if request.api == "ApiVersions"]
    assert {request.version for request in asked} == {0}
    assert len(asked) == len(world.network.dials)


@scenario()
async def test_b12_refused_again_and_again(world: World) -> None:
    """A broker that refuses even version 0 is given up with a reason, and tried again with a backoff."""
    world.kafka.create_topic(TOPIC, 3)
    world.kafka.faults.error("UNSUPPORTED_VERSION", api="ApiVersions", times=None)
    world.kafka.faults.alter(lambda answer: answer._replace(error_code=35), api="ApiVersions", times=None)
    producer = await fresh(world)
    began = world.now
    assert await world.ledger.send(producer, TOPIC) is None
    assert MB - 0.01 <= world.now - began <= MB + 0.1
    error = world.ledger.entries[-1].error
    assert error is not None
    assert "UNSUPPORTED_VERSION" in str(error)
    assert all(dials(world, broker.port, began) <= 16 for broker in world.kafka.brokers)
    world.kafka.faults.heal()
    await all_acked(await send(world, producer, 3))
    sound(world)


def _keys(change: Callable[[list[Any]], list[Any]]) -> Callable[[Any], Any]:
    return lambda answer: answer._replace(api_keys=change(list(answer.api_keys)))


def _upside_down(keys: list[Any]) -> list[Any]:
    return [one._replace(min_version=9, max_version=2) if one.api_key in {0, 3} else one for one in keys]


def _no_produce(keys: list[Any]) -> list[Any]:
    return [one for one in keys if one.api_key != 0]


def _only_new(keys: list[Any]) -> list[Any]:
    return [one._replace(min_version=90, max_version=99) if one.api_key == 0 else one for one in keys]


def _only_old(keys: list[Any]) -> list[Any]:
    return [one._replace(min_version=0, max_version=2) if one.api_key == 0 else one for one in keys]


NO_BROKERS: Final = {
    "ApiVersions answer is invalid": _upside_down,
    "supports no Produce requests": _no_produce,
    "supports Produce v90-v99": _only_new,
    "supports Produce v0-v2": _only_old,
}


@pytest.mark.parametrize("text", NO_BROKERS)
@scenario()
async def test_b12_no_version_in_common(world: World, text: str) -> None:
    """The reason is given within the time that a call may block; the producer works as soon as the brokers are others."""
    world.kafka.create_topic(TOPIC, 3)
    world.kafka.faults.alter(_keys(NO_BROKERS[text]), api="ApiVersions", times=None)
    producer = await fresh(world)
    began = world.now
    assert await world.ledger.send(producer, TOPIC) is None
    assert world.now - began <= MB + 0.1
    error = world.ledger.entries[-1].error
    assert error is not None
    assert text in str(error)
    assert all(dials(world, broker.port, began) <= 16 for broker in world.kafka.brokers)
    world.kafka.faults.heal()
    healed = world.now
    await all_acked(await send(world, producer, 3))
    assert world.now - healed < RECOVERY
    sound(world)


@pytest.mark.parametrize("missing", ["Metadata", "InitProducerId"])
@scenario()
async def test_b12_one_broker_lacks_what_others_have(world: World, missing: str) -> None:
    """Another one is asked: the producer works for any order of the brokers."""
    world.kafka.create_topic(TOPIC, 3)
    without = _keys(lambda keys: [one for one in keys if one.api_key != key_of(missing)])
    for lacking in (1, 2, 3):
        with noted(f"broker {lacking} cannot"):
            world.kafka.faults.alter(without, api="ApiVersions", broker=lacking, times=None)
            began = world.now
            producer = await fresh(world)
            await all_acked([one for at in range(3) for one in await send(world, producer, partition=at)])
            assert world.now - began < RECOVERY
            await producer.close()
            world.kafka.faults.heal()
    sound(world)


@scenario()
async def test_b12_brokers_are_counted_once(world: World) -> None:
    """Two of three give no producer ids, and are known under two names each: the third is still asked."""
    world.kafka.create_topic(TOPIC, 3)
    world.network.names["kafka.example"] = ["127.0.0.1"]
    without = _keys(lambda keys: [one for one in keys if one.api_key != key_of("InitProducerId")])
    for lacking in (1, 2):
        world.kafka.faults.alter(without, api="ApiVersions", broker=lacking, times=None)
    began = world.now
    producer = await fresh(
        world, bootstrap_servers=[f"kafka.example:{world.port(broker)}" for broker in (1, 2, 3)]
    )
    await all_acked(await send(world, producer, 3))
    assert world.now - began < RECOVERY
    sound(world)


@scenario()
async def test_b12_versions_change_from_connection_to_connection(world: World) -> None:
    """A rolling downgrade and upgrade: each connection uses the versions that its broker listed when it was opened."""
    producer = await stage(world, linger_ms=0)
    for high in (13, 9, 12, 3, 7, 13):
        world.kafka.limit_version("Produce", 3, high)
        world.kafka.limit_version("Metadata", 0, world.rng.randrange(4, 13))
        for broker in world.kafka.brokers:
            world.network.reset(broker.port)
        world.kafka.forget_requests()
        await all_acked([one for at in range(3) for one in await send(world, producer, partition=at)])
        spoken = {request.version for request in world.kafka.requests if request.api == "Produce"}
        assert spoken == {high}
    assert world.kafka.high_watermark(TOPIC, 0) == 6
    sound(world)


# -- metadata


def _of_topic(change: Callable[[list[Any]], list[Any]]) -> Callable[[Any], Any]:
    return lambda answer: answer._replace(
        topics=[topic._replace(partitions=change(list(topic.partitions))) for topic in answer.topics]
    )


def _led_by(broker: int) -> Callable[[Any], Any]:
    # An invalid leader is believed only under a newer leader epoch; this is the same one.
    return _of_topic(lambda rows: [row._replace(leader_id=broker) for row in rows])


def _numbered(number: int) -> Callable[[Any], Any]:
    return _of_topic(lambda rows: [rows[0]._replace(partition_index=number), *rows[1:]])


NONSENSE: Final[dict[str, Callable[[Any], Any]]] = {
    "a broker that is not listed leads": _led_by(77),
    "a negative partition": _numbered(-1),
    "a partition twice": _numbered(1),
    "a gap": _numbered(2**31 - 1),
    "no partitions": _of_topic(lambda rows: []),
    "no brokers": lambda answer: answer._replace(brokers=[]),
    "only impossible brokers": lambda answer: answer._replace(
        brokers=[one._replace(node_id=-1) for one in answer.brokers]
    ),
    "no topics": lambda answer: answer._replace(topics=[]),
    "an error for the whole": lambda answer: answer._replace(error_code=-1),
    "a topic without a name": lambda answer: answer._replace(
        topics=[one._replace(name=None) for one in answer.topics]
    ),
}


def metadata_questions(world: World) -> int:
    """The number of metadata requests to the brokers."""
    return sum(request.api == "Metadata" for request in world.kafka.requests)


@pytest.mark.parametrize("kind", NONSENSE)
@scenario()
async def test_b13_metadata_that_makes_no_sense(world: World, kind: str) -> None:
    """The former metadata is kept and used, and requests follow with a backoff until an answer makes sense."""
    producer = await stage(world, linger_ms=0)
    await all_acked([one for at in range(3) for one in await send(world, producer, partition=at)])
    nonsense = world.kafka.faults.alter(NONSENSE[kind], api="Metadata", times=None)
    before, began = metadata_questions(world), world.now
    producer._engine.cluster.stale(TOPIC)  # type: ignore[union-attr]
    for _ in range(10):
        sent = world.now
        await all_acked([one for at in range(3) for one in await send(world, producer, partition=at)])
        assert world.now - sent < 0.1, "the old view was not used"
        await asyncio.sleep(1.0)
    assert len(await producer.partitions_for(TOPIC)) == 3
    assert 4 <= metadata_questions(world) - before <= 20
    assert nonsense.hits > 3
    world.network.reset(port_of_leader(world))
    await all_acked(await send(world, producer, 3, partition=0))
    nonsense.heal()
    world.kafka.faults.move_leader(TOPIC, 0, leader(world, 1))
    await all_acked(await send(world, producer, 3, partition=0))
    assert world.now - began < 10.0 + 2 * RECOVERY
    sound(world)


@scenario()
async def test_b13_nonsense_before_the_first_view(world: World) -> None:
    """There is no old view: calls wait, at most their time, and continue when an answer makes sense."""
    world.kafka.create_topic(TOPIC, 3)
    for kind, change in NONSENSE.items():
        with noted(kind):
            nonsense = world.kafka.faults.alter(change, api="Metadata", times=None)
            producer = await fresh(world)
            began = world.now
            if await world.ledger.send(producer, TOPIC, partition=0) is None:
                assert MB - 0.01 <= world.now - began <= MB + 0.1
            waiting = asyncio.create_task(send(world, producer, 3, partition=0))
            await asyncio.sleep(1.0)
            nonsense.heal()
            healed = world.now
            await all_acked(await waiting)
            assert world.now - healed < RECOVERY
            await producer.close()
    sound(world)


@scenario()
async def test_b13_a_partition_without_a_leader(world: World) -> None:
    """Its records wait, with requests for metadata; the topic's other partitions work, and no record is lost."""
    producer = await stage(world, linger_ms=0)
    await all_acked([one for at in range(3) for one in await send(world, producer, partition=at)])
    old = leader(world)
    world.kafka.faults.move_leader(TOPIC, 0, -1)
    before = metadata_questions(world)
    waiting = await send(world, producer, 3, partition=0)
    for _ in range(5):
        await all_acked(await send(world, producer, partition=1))
        await asyncio.sleep(1.0)
    assert 4 <= metadata_questions(world) - before <= 20
    assert {one.outcome for one in waiting} == {Outcome.PENDING}
    world.kafka.faults.move_leader(TOPIC, 0, old)
    healed = world.now
    await all_acked(waiting)
    assert world.now - healed < RECOVERY


# -- much metadata, in real time

PARTITIONS: Final = 200_000
# The aim is 0.1 s in slices of 5 ms, which holds for topics without records (50 ms, slices of 5-13 ms). A topic with
# records gets a queue for each partition: 0.6-2 s in slices of a millisecond, between which the garbage collector visits
# all of them.
LONGEST: Final = {False: 0.5, True: 5.0}
WORST_SLICE: Final = {False: 0.06, True: 0.5}


def large_answer(wanted: bool, topic_id: bytes) -> bytes:
    """An answer with 200,000 partitions: of the wanted topic, or of 2,000 others beside it."""
    sizes = (
        {TOPIC: PARTITIONS} if wanted else {TOPIC: 3, **{f"other-{n}": 100 for n in range(PARTITIONS // 100)}}
    )
    topics = [
        MetadataResponseTopic(
            0,
            name,
            topic_id if name == TOPIC else name.encode().ljust(16),
            partitions=[
                MetadataResponsePartition(0, at, 1, 0, (1, 2, 3), (1, 2, 3)) for at in range(partitions)
            ],
        )
        for name, partitions in sizes.items()
    ]
    return encode_response(MetadataResponse(topics=topics), 13, 0)


@pytest.mark.parametrize("wanted", [True, False], ids=["wanted", "unwanted"])
async def test_b14_metadata_with_200000_partitions(wanted: bool, record_property: Any) -> None:
    """It is read in slices that leave the loop free, in bounded time, and only the wanted topic is kept."""
    keep_what_is_there()
    async with EmbeddedKafka() as kafka:
        kafka.create_topic(TOPIC, 3)
        (broker,) = kafka.brokers
        body = large_answer(wanted, kafka.topic_id(TOPIC))

        def enlarge(frame: bytes) -> bytes:
            # The list of brokers is its own: the topics begin behind it.
            small = decode_response(MetadataResponse, 13, frame[4:])[1]
            if not small.topics:
                return frame
            return framed(frame[4:8] + with_brokers(small.brokers))

        def with_brokers(brokers: Any) -> bytes:
            empty = encode_response(MetadataResponse(), 13, 0)
            full = encode_response(MetadataResponse(brokers=list(brokers)), 13, 0)
            # Correlation id, tags and throttle time; then the brokers; the rest is the same in both.
            count = 4 + 1 + 4
            listed = full[count : len(full) - (len(empty) - count - 1)]
            return body[4:count] + listed + body[count + 1 :]

        kafka.faults.rewrite(enlarge, api="Metadata", times=None)
        # The bound is one of processor time: beside twenty other programs that takes twenty seconds and more.
        producer: Producer[Any, Any] = Producer(f"127.0.0.1:{broker.port}", max_block_ms=200_000)
        await producer.start()
        assert len(body) > 6_000_000
        with slices() as measured:
            began = time.thread_time()
            delivery = await producer.send(TOPIC, b"v", partition=0)
            total = time.thread_time() - began
        await delivery
        assert producer._engine is not None
        view = producer._engine.view
        assert list(view._facts) == [TOPIC], "topics are kept that were never requested"
        assert len(view._facts[TOPIC].partitions) == (PARTITIONS if wanted else 3)
        await producer.close()
    worst = sorted(measured, reverse=True)[:3]
    words = f"{total * 1000:.0f} ms in all; the longest slices: {[round(1000 * one, 1) for one in worst]} ms"
    record_property("b14", words)
    print(words)
    assert total < LONGEST[wanted], words
    assert worst[0] < WORST_SLICE[wanted], words


@contextmanager
def slices() -> Iterator[list[float]]:
    """The processor time of each callback of the loop, as other programs use the machine as well."""
    measured: list[float] = []
    run = asyncio.Handle._run

    def timed(handle: asyncio.Handle) -> None:
        began = time.thread_time()
        run(handle)
        measured.append(time.thread_time() - began)

    with mock.patch("asyncio.Handle._run", timed):
        yield measured


# -- no broker at all


class Stranger(asyncio.Protocol):
    """A server that is no broker: answers the first bytes in its own protocol, and closes the connection."""

    def __init__(self, answer: Callable[[bytes], bytes], received: list[bytes]) -> None:
        self.answer = answer
        self.received = received

    def connection_made(self, transport: Any) -> None:
        """asyncio: a client has connected."""
        self.transport = transport
        self.data = b""

    def data_received(self, data: bytes) -> None:
        """asyncio: bytes have arrived."""
        self.data += data
        # The length, and enough of the request to identify it.
        if len(self.data) >= 20:
            self.received.append(self.data)
            self.transport.write(self.answer(self.data))
            self.transport.close()


def tls_server(data: bytes) -> bytes:
    """The answer of a real TLS server to bytes that are not TLS."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    session = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).wrap_bio(incoming, outgoing, server_side=True)
    incoming.write(data)
    with pytest.raises(ssl.SSLError):
        session.do_handshake()
    return outgoing.read()


def tls_client(_data: bytes) -> bytes:
    """The first bytes of a real TLS client."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    session = context.wrap_bio(incoming, outgoing)
    with pytest.raises(ssl.SSLWantReadError):
        session.do_handshake()
    return outgoing.read()


def web_server(_data: bytes) -> bytes:
    """The answer of a web server to bytes that are not HTTP."""
    return STRANGERS["HTTP"]


@pytest.mark.parametrize(("answer", "word"), [(tls_server, "TLS"), (tls_client, "TLS"), (web_server, "HTTP")])
@scenario()
async def test_b16_a_stranger_listens(world: World, answer: Callable[[bytes], bytes], word: str) -> None:
    """The error names its protocol, within the time for connecting; it received only the request for versions."""
    received: list[bytes] = []
    world.network.listen(lambda: Stranger(answer, received), "127.0.0.1", 7_000)
    producer = world.producer(bootstrap_servers="127.0.0.1:7000")
    began = world.now
    with pytest.raises(KafkaError) as caught:
        await producer.start(wait_ready=1.0)
    assert world.now - began <= 1.0 + 0.1
    assert word in str(caught.value)
    assert "127.0.0.1:7000" in str(caught.value)
    await producer.start()
    assert await world.ledger.send(producer, TOPIC) is None
    error = world.ledger.entries[-1].error
    assert isinstance(error, KafkaError)
    assert error.outcome is Outcome.NOT_WRITTEN
    assert word in str(error)
    assert received
    assert all(data[4:6] == b"\x00\x12" for data in received), "something else than ApiVersions was said"
    assert dials(world, 7_000, began) <= 16
    sound(world)


@scenario()
async def test_b16_one_of_the_addresses_is_no_broker(world: World) -> None:
    """Beside right addresses a wrong one causes a warning, and no failure."""
    world.kafka.create_topic(TOPIC, 3)
    world.network.listen(lambda: Stranger(web_server, []), "127.0.0.1", 7_000)
    producer = world.producer(bootstrap_servers=f"127.0.0.1:7000,127.0.0.1:{world.port(2)}", linger_ms=0)
    began = world.now
    await producer.start(wait_ready=5.0)
    await all_acked(await send(world, producer, 3))
    assert world.now - began < RECOVERY

"""Each fault changes only the requests that it matches, as it says."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from aioproducer._wire.error_codes import ErrorCode
from aioproducer._wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from aioproducer._wire.messages.init_producer_id import InitProducerIdRequest
from aioproducer._wire.messages.metadata import MetadataRequest
from aioproducer._wire.messages.produce import BatchIndexAndErrorMessage
from aioproducer.testing import EmbeddedKafka, Fault
from tests.contract.batches import plain, sequenced
from tests.contract.client import WireClient, produce_request

SOON = 5.0


async def _codes(client: WireClient, count: int, partition: int = 0) -> list[int]:
    return [(await client.produce("t", plain(), partition=partition)).error_code for _ in range(count)]


async def _stays_silent(client: WireClient) -> bool:
    """Is nothing answered before the broker has answered another connection?"""
    waiting = asyncio.create_task(client.receive_frame())
    async with WireClient(client.address) as other:
        await other.ask(MetadataRequest([]), 9)
    silent = not waiting.done()
    waiting.cancel()
    await asyncio.wait([waiting])
    return silent


# ----- which requests


async def test_an_error_happens_once_unless_told_otherwise(kafka: EmbeddedKafka, client: WireClient) -> None:
    """The next request of the API gets the fault, the one after does not; the first appends nothing."""
    kafka.faults.error("NOT_LEADER_OR_FOLLOWER")
    assert await _codes(client, 2) == [ErrorCode.NOT_LEADER_OR_FOLLOWER, 0]
    assert kafka.high_watermark("t") == 1


async def test_requests_can_be_passed_over(kafka: EmbeddedKafka, client: WireClient) -> None:
    """`skip` and `times` choose the n-th requests."""
    fault = kafka.faults.error(999, skip=1, times=2)
    assert await _codes(client, 5) == [0, 999, 999, 0, 0]
    assert (fault.hits, fault.active) == (2, False)


async def test_a_fault_can_be_for_one_partition(kafka: EmbeddedKafka, client: WireClient) -> None:
    """Requests for other partitions neither get the fault nor count for it."""
    kafka.faults.error("REQUEST_TIMED_OUT", topic="t", partition=1)
    assert await _codes(client, 1, partition=0) == [0]
    assert await _codes(client, 2, partition=1) == [ErrorCode.REQUEST_TIMED_OUT, 0]


async def test_a_fault_can_be_for_one_topic(kafka: EmbeddedKafka, client: WireClient) -> None:
    """The fault also matches a request that names topics by id."""
    other = kafka.create_topic("other")
    kafka.faults.error("INVALID_TOPIC_EXCEPTION", topic=other, times=None)
    assert await _codes(client, 1) == [0]
    request = produce_request("", plain(), topic_id=kafka.topic_id(other))
    assert (await client.only_answer(request, 13)).error_code == ErrorCode.INVALID_TOPIC_EXCEPTION


async def test_a_fault_can_be_for_one_broker(three: EmbeddedKafka) -> None:
    """The same request to another broker is answered."""
    three.faults.error(999, broker=2, api="InitProducerId", times=None)
    answers = []
    for broker in three.brokers:
        async with WireClient(broker.address) as client:
            answers.append((await client.ask(InitProducerIdRequest(None, 1000), 4)).error_code)
    assert answers == [0, 999, 0]


async def test_a_fault_can_be_for_one_client(kafka: EmbeddedKafka, client: WireClient) -> None:
    """The client id selects the connection."""
    kafka.faults.error(999, client_id="another client")
    assert await _codes(client, 1) == [0]
    kafka.faults.error(999, client_id="contract")
    assert await _codes(client, 1) == [999]


async def test_a_fault_ends_with_its_block(kafka: EmbeddedKafka, client: WireClient) -> None:
    """As a context manager a fault is active inside the block and gone after it."""
    with kafka.faults.error(999, times=None):
        assert await _codes(client, 2) == [999, 999]
    assert await _codes(client, 1) == [0]


async def test_all_faults_can_be_healed_at_once(kafka: EmbeddedKafka, client: WireClient) -> None:
    """`heal` removes every rule."""
    kafka.faults.error(999, times=None)
    kafka.faults.cut(times=None)
    kafka.faults.heal()
    assert await _codes(client, 1) == [0]


def test_a_wrong_name_is_refused(kafka_not_started: EmbeddedKafka) -> None:
    """Errors and APIs have Kafka's names; a misspelt name would never match."""
    with pytest.raises(ValueError, match="no error named 'NOT_LEADER'"):
        kafka_not_started.faults.error("NOT_LEADER")
    with pytest.raises(ValueError, match="no API is named 'Prodduce'"):
        kafka_not_started.faults.drop_answer(api="Prodduce")


@pytest.fixture
def kafka_not_started() -> EmbeddedKafka:
    return EmbeddedKafka()


# ----- errors


async def test_after_append_really_appends(kafka: EmbeddedKafka, client: WireClient) -> None:
    """NOT_ENOUGH_REPLICAS_AFTER_APPEND refuses records that are in the log."""
    kafka.faults.error("NOT_ENOUGH_REPLICAS_AFTER_APPEND")
    assert await _codes(client, 1) == [ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND]
    assert kafka.high_watermark("t") == 1


@pytest.mark.parametrize("append", [False, True])
async def test_any_error_may_append_or_not(kafka: EmbeddedKafka, client: WireClient, append: bool) -> None:
    """REQUEST_TIMED_OUT can mean either; a retry of an appended batch is a duplicate."""
    batch = sequenced(await client.new_producer(), 0)
    kafka.faults.error("REQUEST_TIMED_OUT", append=append)
    assert (await client.produce("t", batch)).error_code == ErrorCode.REQUEST_TIMED_OUT
    assert kafka.high_watermark("t") == int(append)
    assert (await client.produce("t", batch)).base_offset == 0
    assert kafka.high_watermark("t") == 1


async def test_records_can_be_blamed(kafka: EmbeddedKafka, client: WireClient) -> None:
    """KIP-467: the answer names records and has a text for each."""
    kafka.faults.record_errors({0: "too blue", 2: "too green"}, message="colours")
    answer = await client.produce("t", plain(3))
    assert (answer.error_code, answer.error_message) == (ErrorCode.INVALID_RECORD, "colours")
    assert answer.record_errors == (
        BatchIndexAndErrorMessage(0, "too blue"),
        BatchIndexAndErrorMessage(2, "too green"),
    )


async def test_metadata_can_lack_a_leader(kafka: EmbeddedKafka, client: WireClient) -> None:
    """A partition of the metadata has an error; LEADER_NOT_AVAILABLE comes without a leader."""
    kafka.faults.error("LEADER_NOT_AVAILABLE", api="Metadata", topic="t", partition=1)
    first, second = (await client.describe("t")).partitions
    assert (first.error_code, first.leader_id) == (0, 1)
    assert (second.error_code, second.leader_id) == (ErrorCode.LEADER_NOT_AVAILABLE, -1)


async def test_metadata_can_refuse_a_topic(kafka: EmbeddedKafka, client: WireClient) -> None:
    """A topic of the metadata has an error."""
    kafka.faults.error("TOPIC_AUTHORIZATION_FAILED", api="Metadata", topic="t")
    assert [(await client.describe("t")).error_code for _ in range(2)] == [29, 0]


async def test_metadata_can_fail_as_a_whole(kafka: EmbeddedKafka, client: WireClient) -> None:
    """From version 13 on the answer has a top-level error."""
    kafka.faults.error("REBOOTSTRAP_REQUIRED", api="Metadata")
    assert (await client.ask(MetadataRequest([]), 13)).error_code == 129


@pytest.mark.parametrize("mute", [True, False])
async def test_throttling_is_told_and_done(kafka: EmbeddedKafka, client: WireClient, mute: bool) -> None:
    """The answer comes at once with its throttle time; with `mute` the next request waits for that time."""
    milliseconds = 120 if mute else 60_000
    kafka.faults.throttle(milliseconds, mute=mute)
    loop = asyncio.get_running_loop()
    answer = await client.ask(produce_request("t", plain()), 12)
    answered = loop.time()
    await client.produce("t", plain())
    assert answer.throttle_time_ms == milliseconds
    assert (loop.time() - answered >= 0.9 * milliseconds / 1000) is mute


# ----- time


async def test_an_answer_is_held_until_released(kafka: EmbeddedKafka, client: WireClient) -> None:
    """The records are appended, the client waits, and later requests of the connection wait behind it."""
    hold = kafka.faults.delay()
    client.send(produce_request("t", plain()), 12)
    client.send(produce_request("t", plain()), 12)
    await asyncio.wait_for(hold.reached(), SOON)
    assert await _stays_silent(client)
    assert kafka.high_watermark("t") == 1
    hold.release()
    await client.receive_frame()
    await client.receive_frame()
    assert kafka.high_watermark("t") == 2


async def test_the_handling_itself_can_be_held(kafka: EmbeddedKafka, client: WireClient) -> None:
    """With `before` nothing is appended until the release."""
    hold = kafka.faults.delay(before=True)
    client.send(produce_request("t", plain()), 12)
    await asyncio.wait_for(hold.reached(), SOON)
    assert kafka.high_watermark("t") == 0
    hold.heal()
    await client.receive_frame()
    assert kafka.high_watermark("t") == 1


async def test_a_delay_may_end_by_itself(kafka: EmbeddedKafka, client: WireClient) -> None:
    """The answer is held for the given number of seconds."""
    kafka.faults.delay(0.05)
    asked = asyncio.get_running_loop().time()
    assert await _codes(client, 1) == [0]
    assert asyncio.get_running_loop().time() - asked >= 0.04


async def test_an_answer_can_be_lost(kafka: EmbeddedKafka, client: WireClient) -> None:
    """The records are appended without an answer; the next answer of the connection is that of the next request."""
    kafka.faults.drop_answer()
    client.send(produce_request("t", plain()), 12)
    assert (await client.produce("t", plain())).base_offset == 1


async def test_a_broker_can_be_a_black_hole(kafka: EmbeddedKafka, client: WireClient) -> None:
    """Requests are read and lost until the fault is healed."""
    with kafka.faults.silence(client_id="contract", api="Produce") as hole:
        client.send(produce_request("t", plain()), 12)
        await asyncio.wait_for(hole.reached(), SOON)
        assert await _stays_silent(client)
    assert kafka.high_watermark("t") == 0
    assert await _codes(client, 1) == [0]


async def test_a_broker_can_stop_reading(kafka: EmbeddedKafka, client: WireClient) -> None:
    """Requests pile up at the client, and are handled when the broker reads again."""
    with kafka.faults.stop_reading(broker=1):
        request = produce_request("t", plain(5000))
        for _ in range(200):
            client.send(request, 12)
        await asyncio.sleep(0)
        assert client.unsent > 1_000_000
        assert kafka.high_watermark("t") == 0
    for _ in range(200):
        await client.receive_frame()
    assert kafka.high_watermark("t") == 1_000_000


# ----- connections


@pytest.mark.parametrize("reset", [True, False])
@pytest.mark.parametrize(("before", "appended"), [(True, 0), (False, 1)])
async def test_the_connection_can_end_around_the_append(
    kafka: EmbeddedKafka, client: WireClient, before: bool, reset: bool, appended: int
) -> None:
    """A cut before handling leaves the log empty. A cut after it leaves the records in the log, unacknowledged."""
    kafka.faults.cut(before=before, reset=reset)
    client.send(produce_request("t", plain()), 12)
    assert await client.rest() == b""
    assert kafka.high_watermark("t") == appended


@pytest.mark.parametrize("at_byte", [8, 9, 40, 10_000])
async def test_the_connection_can_end_inside_a_request(
    kafka: EmbeddedKafka, client: WireClient, at_byte: int
) -> None:
    """The request is not handled, wherever it is cut; a number past its end cuts after the last byte."""
    kafka.faults.cut_request(at_byte)
    client.send(produce_request("t", plain()), 12)
    assert await client.rest() == b""
    assert (kafka.high_watermark("t"), kafka.requests) == (0, ())


@pytest.mark.parametrize("at_byte", [0, 1, 4, 20])
async def test_the_connection_can_end_inside_an_answer(
    kafka: EmbeddedKafka, client: WireClient, at_byte: int
) -> None:
    """The given number of bytes arrives; the records are in the log."""
    kafka.faults.cut_answer(at_byte)
    client.send(produce_request("t", plain()), 12)
    assert len(await client.rest()) == at_byte
    assert kafka.high_watermark("t") == 1


async def test_the_broker_can_stop_talking_and_go_on_listening(
    kafka: EmbeddedKafka, client: WireClient
) -> None:
    """After a half-close requests are still handled, without answers."""
    kafka.faults.half_close()
    await client.produce("t", plain())
    seen = kafka.faults.delay(0)
    client.send(produce_request("t", plain(), acks=0), 12)
    await asyncio.wait_for(seen.reached(), SOON)
    assert kafka.high_watermark("t") == 2
    assert await client.rest() == b""


async def test_connections_can_be_hung_up(kafka: EmbeddedKafka) -> None:
    """The next connection is closed as soon as it is accepted; the one after it lives."""
    kafka.faults.hang_up(broker=1)
    async with WireClient(kafka.bootstrap_servers) as refused, WireClient(kafka.bootstrap_servers) as other:
        assert await refused.rest() == b""
        assert (await other.produce("t", plain())).error_code == 0


async def test_connections_can_be_refused(kafka: EmbeddedKafka, client: WireClient) -> None:
    """The port closes, the open connection lives, and later the port opens again."""
    await kafka.faults.refuse_connections(1)
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection("127.0.0.1", kafka.brokers[0].port)
    assert await _codes(client, 1) == [0]
    await kafka.faults.accept_connections(1)
    async with WireClient(kafka.bootstrap_servers) as another:
        assert await _codes(another, 1) == [0]


async def test_connections_can_be_dropped(kafka: EmbeddedKafka, client: WireClient) -> None:
    """All connections of a broker are dropped at once."""
    await client.describe("t")
    assert kafka.brokers[0].connections == 1
    kafka.faults.drop_connections(1)
    assert await client.rest() == b""
    assert kafka.brokers[0].connections == 0


# ----- wrong answers


@pytest.mark.parametrize(
    ("fault", "expected"),
    [
        (lambda k: k.faults.garbage(b"nonsense"), lambda good: b"nonsense"),
        (lambda k: k.faults.wrong_correlation_id(), lambda good: good[:7] + b"\x08" + good[8:]),
        (lambda k: k.faults.wrong_length(-1), lambda good: b"\xff\xff\xff\xff" + good[4:]),
        (lambda k: k.faults.wrong_length(2**31 - 1), lambda good: b"\x7f\xff\xff\xff" + good[4:]),
        (lambda k: k.faults.answer_twice(), lambda good: good + good),
        (lambda k: k.faults.rewrite(lambda frame: frame[:-1]), lambda good: good[:-1]),
    ],
    ids=["garbage", "correlation id", "negative length", "huge length", "twice", "rewritten"],
)
async def test_the_bytes_of_an_answer_can_be_wrong(
    kafka: EmbeddedKafka,
    client: WireClient,
    fault: Callable[[EmbeddedKafka], Fault],
    expected: Callable[[bytes], bytes],
) -> None:
    """The client receives the answer as the fault alters it."""
    batch = sequenced(await client.new_producer(), 0)
    await client.produce("t", batch)
    request = produce_request("t", batch)
    client.send(request, 12, correlation_id=7)
    good = await client.receive_frame()
    good = len(good).to_bytes(4, "big") + good
    fault(kafka)
    kafka.faults.half_close()
    client.send(request, 12, correlation_id=7)
    assert await client.rest() == expected(good)


async def test_the_message_of_an_answer_can_be_altered(kafka: EmbeddedKafka, client: WireClient) -> None:
    """A fault alters any field, or leaves out a whole partition."""
    kafka.faults.alter(lambda answer: answer._replace(responses=[]))
    assert (await client.ask(produce_request("t", plain()), 12)).responses == []


async def test_faults_compose(kafka: EmbeddedKafka, client: WireClient) -> None:
    """All faults that match a request apply to it."""
    kafka.faults.error("NOT_ENOUGH_REPLICAS")
    kafka.faults.throttle(5, mute=False)
    hold = kafka.faults.delay()
    client.send(request := produce_request("t", plain()), 12)
    await asyncio.wait_for(hold.reached(), SOON)
    hold.release()
    _, answer = await client.receive(request, 12)
    assert answer.throttle_time_ms == 5
    assert answer.responses[0].partition_responses[0].error_code == ErrorCode.NOT_ENOUGH_REPLICAS


async def test_a_fetch_can_be_refused(kafka: EmbeddedKafka, client: WireClient) -> None:
    """A fault can match the partitions of a fetch."""
    kafka.faults.error("KAFKA_STORAGE_ERROR", api="Fetch", topic="t", partition=0)
    asked = FetchTopic("", kafka.topic_id("t"), [FetchPartition(0), FetchPartition(1)])
    answer = await client.ask(FetchRequest(max_wait_ms=5000, min_bytes=1, topics=[asked]), 17)
    assert [part.error_code for part in answer.responses[0].partitions] == [56, 0]

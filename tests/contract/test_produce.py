"""Produce: the batches that it appends, those that it refuses, and its answers."""

from __future__ import annotations

import pytest

from aioproducer._wire.error_codes import ErrorCode
from aioproducer._wire.messages.produce import (
    BatchIndexAndErrorMessage,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    TopicProduceData,
)
from aioproducer.testing.broker.logs.records import NewRecord, write_batch
from tests.contract.batches import NOW, plain, records
from tests.contract.client import WireClient, produce_request, until

HOUR = 3_600_000


def _appended(offset: int) -> PartitionProduceResponse:
    return PartitionProduceResponse(0, base_offset=offset, log_start_offset=0)


def _refused(code: ErrorCode, *, log_start: int = -1, message: str | None = None) -> PartitionProduceResponse:
    return PartitionProduceResponse(
        0, code, base_offset=-1, log_start_offset=log_start, error_message=message
    )


@pytest.mark.parametrize("version", range(3, 13))
async def test_offsets_follow_each_other(client: WireClient, name: str, version: int) -> None:
    """The answer to a batch has the offset of its first record and, from version 5 on, the start of the log."""
    await client.create_topic(name)
    answers = [await client.produce(name, plain(count), version=version) for count in (3, 1, 2)]
    start = 0 if version >= 5 else -1
    assert answers == [_appended(offset)._replace(log_start_offset=start) for offset in (0, 3, 4)]


async def test_version_13_names_topics_by_id(client: WireClient, name: str) -> None:
    """Request and answer of version 13 hold the topic's id in place of its name."""
    topic = await client.create_topic(name)
    request = produce_request("", plain(), topic_id=topic.topic_id)
    response = await client.ask(request, 13)
    assert (response.responses[0].name, response.responses[0].topic_id) == ("", topic.topic_id)
    assert await client.only_answer(request, 13) == _appended(1)


@pytest.mark.parametrize("acks", [1, -1])
async def test_an_answer_comes_for_acks_1_and_all(client: WireClient, name: str, acks: int) -> None:
    """A single broker answers both the same way."""
    await client.create_topic(name)
    assert await client.produce(name, plain(), acks=acks) == _appended(0)


async def test_acks_0_has_no_answer(client: WireClient, name: str) -> None:
    """The next answer on the connection is that to the next request, and the records are there."""
    await client.create_topic(name)
    client.send(produce_request(name, plain(2), acks=0), 12)
    assert await client.produce(name, plain()) == _appended(2)


async def test_an_error_with_acks_0_ends_the_connection(client: WireClient, name: str) -> None:
    """Having no answer to put it in, the broker tells an error by closing."""
    client.send(produce_request(name, plain(), acks=0), 12)
    assert await client.rest() == b""


async def test_acks_2_is_refused(client: WireClient, name: str) -> None:
    """Only -1, 0 and 1 are acks."""
    await client.create_topic(name)
    assert await client.produce(name, plain(), acks=2) == _refused(ErrorCode.INVALID_REQUIRED_ACKS)


@pytest.mark.parametrize("partition", [-1, 1, 2**31 - 1])
async def test_an_unknown_partition_is_refused(client: WireClient, name: str, partition: int) -> None:
    """A partition that the topic does not have is UNKNOWN_TOPIC_OR_PARTITION."""
    await client.create_topic(name)
    refused = _refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)._replace(index=partition)
    assert await client.produce(name, plain(), partition=partition) == refused


async def test_an_unknown_topic_is_refused(client: WireClient, name: str) -> None:
    """A topic that is not there is UNKNOWN_TOPIC_OR_PARTITION; producing creates nothing."""
    assert await client.produce(name, plain()) == _refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


async def test_an_unknown_topic_id_is_refused(client: WireClient) -> None:
    """An id that is not there is UNKNOWN_TOPIC_ID."""
    assert await client.only_answer(produce_request("", plain(), topic_id=b"x" * 16), 13) == _refused(
        ErrorCode.UNKNOWN_TOPIC_ID
    )


async def test_each_partition_has_its_own_outcome(client: WireClient, name: str) -> None:
    """A request may hold many partitions; one that is refused does not harm the others."""
    await client.create_topic(name, 3)
    data = [PartitionProduceData(0, plain()), PartitionProduceData(1, b""), PartitionProduceData(2, plain())]
    request = ProduceRequest(None, -1, 10_000, [TopicProduceData(name, bytes(16), data)])
    answers = (await client.ask(request, 12)).responses[0].partition_responses
    assert {one.index: one.error_code for one in answers} == {0: 0, 1: ErrorCode.INVALID_RECORD, 2: 0}


async def test_a_wrong_checksum_is_refused(client: WireClient, name: str) -> None:
    """One changed byte makes the batch CORRUPT_MESSAGE."""
    await client.create_topic(name)
    batch = bytearray(plain(2))
    batch[-1] ^= 1
    assert await client.produce(name, bytes(batch)) == _refused(ErrorCode.CORRUPT_MESSAGE)


@pytest.mark.parametrize(
    ("sent", "code", "message"),
    [
        pytest.param(b"", ErrorCode.INVALID_RECORD, None, id="nothing"),
        pytest.param(b"abc", ErrorCode.INVALID_RECORD, None, id="less than a length"),
        pytest.param(plain()[:-1], ErrorCode.INVALID_RECORD, None, id="cut batch"),
        pytest.param(plain() + plain(), ErrorCode.INVALID_RECORD, None, id="two batches"),
        pytest.param(write_batch(records(1), magic=1), ErrorCode.INVALID_RECORD, None, id="magic 1"),
        pytest.param(
            write_batch(records(1), magic=3),
            ErrorCode.CORRUPT_MESSAGE,
            "Invalid magic found in record: 3",
            id="magic 3",
        ),
        pytest.param(
            bytes(50),
            ErrorCode.CORRUPT_MESSAGE,
            "Record size 0 is less than the minimum record overhead (14)",
            id="zeros",
        ),
    ],
)
async def test_what_is_not_one_batch_is_refused(
    client: WireClient, name: str, sent: bytes, code: ErrorCode, message: str | None
) -> None:
    """A partition gets exactly one whole batch of magic 2; this is found before the log is asked."""
    await client.create_topic(name)
    assert await client.produce(name, sent) == _refused(code, message=message)


async def test_a_beginning_of_a_second_batch_is_left_out(client: WireClient, name: str) -> None:
    """Bytes after the batch that are no whole batch are ignored, and not stored."""
    await client.create_topic(name)
    assert await client.produce(name, plain(2) + b"abc") == _appended(0)
    assert await client.produce(name, plain()) == _appended(2)


@pytest.mark.parametrize(
    "batch",
    [
        pytest.param(write_batch(records(2), count=3), id="more records claimed than offsets"),
        pytest.param(write_batch(records(2), count=1), id="fewer records claimed than offsets"),
        pytest.param(write_batch(records(2), count=0), id="no records claimed"),
        pytest.param(write_batch([]), id="no records"),
        pytest.param(write_batch(records(2), last_offset_delta=-1), id="negative last offset"),
        pytest.param(write_batch(records(2), count=3, last_offset_delta=2), id="a record missing"),
        pytest.param(write_batch(records(2), count=1, last_offset_delta=0), id="a record too many"),
        pytest.param(write_batch(records(1), attributes=0x20), id="control batch"),
        pytest.param(write_batch(records(1), producer_id=1, epoch=0, sequence=-1), id="no sequence"),
        pytest.param(b"\x00" * 7 + b"\x01" + plain()[8:], id="offset other than 0"),
    ],
)
async def test_a_batch_that_contradicts_itself_is_refused(
    client: WireClient, name: str, batch: bytes
) -> None:
    """The log refuses a batch with INVALID_RECORD if its header or its records are impossible."""
    await client.create_topic(name)
    assert await client.produce(name, batch) == _refused(ErrorCode.INVALID_RECORD, log_start=0)


@pytest.mark.parametrize("compression", range(5))
async def test_every_codec_is_taken(client: WireClient, name: str, compression: int) -> None:
    """Batches may be plain, gzip, snappy, lz4 or zstd."""
    await client.create_topic(name)
    assert await client.produce(name, write_batch(records(3), compression=compression)) == _appended(0)


async def test_an_unknown_codec_is_an_unknown_error(client: WireClient, name: str) -> None:
    """Kafka does not expect codec 5 and says UNKNOWN_SERVER_ERROR."""
    await client.create_topic(name)
    batch = write_batch(records(1), attributes=5)
    assert await client.produce(name, batch) == _refused(ErrorCode.UNKNOWN_SERVER_ERROR, log_start=0)


@pytest.mark.parametrize(
    ("version", "code"), [(6, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE), (7, ErrorCode.NONE)]
)
async def test_zstd_needs_version_7(client: WireClient, name: str, version: int, code: ErrorCode) -> None:
    """Consumers of that age cannot read zstd (KIP-110)."""
    await client.create_topic(name)
    batch = write_batch(records(1), compression=4)
    assert (await client.produce(name, batch, version=version)).error_code == code


async def test_max_message_bytes_is_the_size_of_the_batch(client: WireClient, name: str) -> None:
    """A batch of exactly max.message.bytes is taken, one byte more is MESSAGE_TOO_LARGE."""
    batches = [write_batch([NewRecord(bytes(length), timestamp=NOW)]) for length in (100, 101)]
    await client.create_topic(name, max_message_bytes=len(batches[0]))
    assert await client.produce(name, batches[0]) == _appended(0)
    assert await client.produce(name, batches[1]) == _refused(ErrorCode.MESSAGE_TOO_LARGE)


async def test_a_time_too_far_in_the_future_names_the_record(client: WireClient, name: str) -> None:
    """More than message.timestamp.after.max.ms ahead of the broker's clock is INVALID_TIMESTAMP for that record."""
    await client.create_topic(name)
    batch = write_batch([NewRecord(b"", timestamp=NOW), NewRecord(b"", timestamp=NOW + 2 * HOUR)])
    answer = await client.produce(name, batch)
    assert (answer.error_code, answer.base_offset, answer.log_start_offset) == (
        ErrorCode.INVALID_TIMESTAMP,
        -1,
        0,
    )
    assert answer.error_message == "One or more records have been rejected due to invalid timestamp"
    [error] = answer.record_errors
    assert error.batch_index == 1
    begin = f"Timestamp {NOW + 2 * HOUR} of message with offset 1 is out of range. The timestamp should be within ["
    assert (error.batch_index_error_message or "").startswith(begin)


@pytest.mark.parametrize("timestamp", [0, -5, NOW + HOUR // 2], ids=["1970", "before 1970", "soon"])
async def test_other_times_are_taken(client: WireClient, name: str, timestamp: int) -> None:
    """By default any past is taken, even before 1970, and the near future."""
    await client.create_topic(name)
    assert await client.produce(name, plain(1, timestamp)) == _appended(0)


async def test_a_compacted_topic_names_the_records_without_key(client: WireClient, name: str) -> None:
    """Each record without a key is an error of its own (KIP-467), and nothing is appended."""
    await client.create_topic(name, cleanup_policy="compact")
    keyed, bare = NewRecord(b"v", b"k", NOW), NewRecord(b"v", None, NOW)
    answer = await client.produce(name, write_batch([bare, keyed, bare, bare, bare]))
    text = f"Compacted topic cannot accept message without key in topic partition {name}-0"
    assert answer == _refused(ErrorCode.INVALID_RECORD, log_start=0)._replace(
        record_errors=tuple(BatchIndexAndErrorMessage(index, text) for index in (0, 2, 3, 4)),
        error_message="One or more records have been rejected due to 4 record errors in total, and only showing "
        "the first three errors at most: ["
        + ", ".join(f"RecordError(batchIndex={index}, message='{text}')" for index in (0, 2, 3))
        + "]",
    )
    assert await client.produce(name, write_batch([keyed])) == _appended(0)


async def test_min_insync_replicas_above_the_replicas_means_all_of_them(
    client: WireClient, name: str
) -> None:
    """Kafka 4 does not refuse writes for want of replicas that the topic never had."""
    await client.create_topic(name, min_insync_replicas=2)
    assert await client.produce(name, plain()) == _appended(0)


async def test_a_deleted_topic_is_unknown_by_name_and_by_id(client: WireClient, name: str) -> None:
    """After a deletion both spellings are refused, each with its error."""
    topic = await client.create_topic(name)
    await client.delete_topic(name)
    assert (await until(lambda: client.produce(name, plain()), lambda one: one.error_code != 0)) == _refused(
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    )
    assert await client.only_answer(produce_request("", plain(), topic_id=topic.topic_id), 13) == _refused(
        ErrorCode.UNKNOWN_TOPIC_ID
    )

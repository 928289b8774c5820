"""The limit: requests made beforehand, five of them in flight, on a blocking socket.

Idempotent like the clients: each batch gets its sequence number and its checksum before it is sent. But it makes no
records and reports no deliveries: only the socket and the broker remain.
"""

from __future__ import annotations

import struct

import attrs
from crc32c import crc32c

from aioproducer._core import Batch, BatchSettings
from aioproducer._wire.codec import decode_response
from aioproducer._wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from benchmarks.clients.blocking import PRODUCE_VERSION, Wire, check, framed
from benchmarks.measure import BATCH_SIZE, Round, Stopwatch, Work, work

_PARTITIONS = 4
_IN_FLIGHT = 5
_NOW = 1_700_000_000_000
_CRC, _CRC_START, _SEQUENCE = 17, 21, 53  # places in a batch


@attrs.define
class _Frame:
    """A request with a batch for each partition; only the sequence numbers change."""

    data: bytearray
    batches: list[memoryview]
    records: int
    sequence: int = 0

    def next(self) -> bytearray:
        """The next request."""
        for batch in self.batches:
            struct.pack_into(">i", batch, _SEQUENCE, self.sequence)
            struct.pack_into(">I", batch, _CRC, crc32c(batch[_CRC_START:]))
        self.sequence += self.records
        return self.data


def _batch(value: bytes, producer_id: int, epoch: int) -> tuple[bytes, int]:
    batch = Batch("limit", 0, BATCH_SIZE, BatchSettings())
    while batch.size + len(value) + 16 < BATCH_SIZE:
        batch.append(None, value, None, _NOW)
    batch.stamp(producer_id, epoch, 0, crc32c)
    return bytes(batch), batch.record_count


def _frame(topic: str, batch: bytes, records: int) -> _Frame:
    partitions = [PartitionProduceData(index=index, records=batch) for index in range(_PARTITIONS)]
    request = ProduceRequest(
        acks=-1, timeout_ms=30_000, topic_data=[TopicProduceData(name=topic, partition_data=partitions)]
    )
    data = bytearray(framed(request, PRODUCE_VERSION))
    places, at = [], -1
    for _ in range(_PARTITIONS):
        at = data.index(batch, at + 1)
        places.append(memoryview(data)[at : at + len(batch)])
    return _Frame(data, places, records)


def _check_answer(answer: bytes) -> None:
    _, response = decode_response(ProduceResponse, PRODUCE_VERSION, answer)
    for topic in response.responses:
        for partition in topic.partition_responses:
            check(partition.error_code)


def _send_all(wire: Wire, frame: _Frame, requests: int) -> None:
    for number in range(requests):
        if number >= _IN_FLIGHT:
            _check_answer(wire.receive())
        wire.send(frame.next())
    for _ in range(min(_IN_FLIGHT, requests)):
        _check_answer(wire.receive())


def _run(one: Work) -> Round:
    with Wire(one.bootstrap_servers) as wire:
        (value,) = one.values(1)
        batch, count = _batch(value, *wire.identity())
        frame = _frame(one.topic, batch, count)
        requests = -(-one.records // (count * _PARTITIONS))
        _send_all(wire, frame, _IN_FLIGHT)
        with Stopwatch() as watch:
            _send_all(wire, frame, requests)
    return watch.round(requests * count * _PARTITIONS, "pre-encoded requests")


if __name__ == "__main__":
    _run(work()).tell()

"""The limit: requests made beforehand, five of them in flight, on a blocking socket.

Idempotent as the others are: each batch gets its sequence number and its checksum before it goes out. But no record is
made and no delivery is told: what is left is the socket and the broker.
"""

from __future__ import annotations

import socket
import struct
import time

import attrs
from crc32c import crc32c

from aioproducer._core import Batch
from aioproducer._wire.codec import decode_response, encode_request
from aioproducer._wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from aioproducer._wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from benchmarks.measure import BATCH_SIZE, Round, Stopwatch, Work, work

_PARTITIONS = 4
_IN_FLIGHT = 5
_VERSION = 12  # the last that names topics
_INIT_VERSION = 4
# A broker that has just started says so for a moment: coordinator loading, or not available.
_NOT_YET, _PATIENCE = (14, 15), 100
_NOW = 1_700_000_000_000
_CRC, _CRC_START, _SEQUENCE = 17, 21, 53  # places in a batch


@attrs.define
class _Frame:
    """A request with a batch for each partition, of which only the sequence numbers change."""

    data: bytearray
    batches: list[memoryview]
    records: int
    sequence: int = 0

    def next(self) -> bytearray:
        """The request that follows the last one."""
        for batch in self.batches:
            struct.pack_into(">i", batch, _SEQUENCE, self.sequence)
            struct.pack_into(">I", batch, _CRC, crc32c(batch[_CRC_START:]))
        self.sequence += self.records
        return self.data


def _batch(value: bytes, producer_id: int, epoch: int) -> tuple[bytes, int]:
    batch = Batch("limit", 0, BATCH_SIZE)
    while batch.size + len(value) + 16 < BATCH_SIZE:
        batch.append(None, value, None, _NOW)
    batch.stamp(producer_id, epoch, 0, crc32c)
    return bytes(batch), batch.record_count


def _frame(topic: str, batch: bytes, records: int) -> _Frame:
    partitions = [PartitionProduceData(index=index, records=batch) for index in range(_PARTITIONS)]
    request = ProduceRequest(
        acks=-1, timeout_ms=30_000, topic_data=[TopicProduceData(name=topic, partition_data=partitions)]
    )
    body = encode_request(request, _VERSION, 1, "limit")
    data = bytearray(struct.pack(">i", len(body)) + body)
    places, at = [], -1
    for _ in range(_PARTITIONS):
        at = data.index(batch, at + 1)
        places.append(memoryview(data)[at : at + len(batch)])
    return _Frame(data, places, records)


def _identity(wire: socket.socket) -> tuple[int, int]:
    question = InitProducerIdRequest(
        transactional_id=None, transaction_timeout_ms=60_000, producer_id=-1, producer_epoch=-1
    )
    body = encode_request(question, _INIT_VERSION, 1, "limit")
    for _ in range(_PATIENCE):
        wire.sendall(struct.pack(">i", len(body)) + body)
        _, response = decode_response(InitProducerIdResponse, _INIT_VERSION, _receive_frame(wire))
        if response.error_code not in _NOT_YET:
            break
        time.sleep(0.1)
    if response.error_code:
        raise SystemExit(f"the broker gives no producer id: error {response.error_code}")
    return response.producer_id, response.producer_epoch


def _check(answer: bytes) -> None:
    _, response = decode_response(ProduceResponse, _VERSION, answer)
    for topic in response.responses:
        for partition in topic.partition_responses:
            if partition.error_code:
                raise SystemExit(f"the broker answered with error {partition.error_code}")


def _receive(wire: socket.socket, size: int) -> bytes:
    data = bytearray(size)
    view = memoryview(data)
    while view:
        got = wire.recv_into(view)
        if not got:
            raise SystemExit("the broker closed the connection")
        view = view[got:]
    return bytes(data)


def _receive_frame(wire: socket.socket) -> bytes:
    (size,) = struct.unpack(">i", _receive(wire, 4))
    return _receive(wire, size)


def _send_all(wire: socket.socket, frame: _Frame, requests: int) -> None:
    for number in range(requests):
        if number >= _IN_FLIGHT:
            _check(_receive_frame(wire))
        wire.sendall(frame.next())
    for _ in range(min(_IN_FLIGHT, requests)):
        _check(_receive_frame(wire))


def _run(one: Work) -> Round:
    host, port = one.bootstrap_servers.split(",")[0].rsplit(":", 1)
    with socket.create_connection((host, int(port))) as wire:
        wire.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        (value,) = one.values(1)
        batch, count = _batch(value, *_identity(wire))
        frame = _frame(one.topic, batch, count)
        requests = -(-one.records // (count * _PARTITIONS))
        _send_all(wire, frame, _IN_FLIGHT)
        with Stopwatch() as watch:
            _send_all(wire, frame, requests)
    return watch.round(requests * count * _PARTITIONS, "pre-encoded requests")


if __name__ == "__main__":
    _run(work()).tell()

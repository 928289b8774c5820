"""The limit: requests made beforehand, five of them in flight, on a blocking socket.

No record is made, no delivery is told: what is left is the socket and the broker.
"""

from __future__ import annotations

import socket
import struct

from crc32c import crc32c

from aioproducer._core import Batch
from aioproducer._wire.codec import decode_response, encode_request
from aioproducer._wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from benchmarks.measure import BATCH_SIZE, VALUE, Round, Stopwatch, Task, task

_PARTITIONS = 4
_IN_FLIGHT = 5
_VERSION = 12  # the last that names topics
_NOW = 1_700_000_000_000


def _batch() -> tuple[bytes, int]:
    batch = Batch("limit", 0, BATCH_SIZE)
    while batch.size + len(VALUE) + 16 < BATCH_SIZE:
        batch.append(None, VALUE, None, _NOW)
    batch.stamp(-1, -1, -1, crc32c)
    return bytes(batch), batch.record_count


def _frame(topic: str, batch: bytes) -> bytes:
    partitions = [PartitionProduceData(index=index, records=batch) for index in range(_PARTITIONS)]
    request = ProduceRequest(
        acks=-1, timeout_ms=30_000, topic_data=[TopicProduceData(name=topic, partition_data=partitions)]
    )
    body = encode_request(request, _VERSION, 1, "limit")
    return struct.pack(">i", len(body)) + body


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


def _take_answer(wire: socket.socket) -> None:
    (size,) = struct.unpack(">i", _receive(wire, 4))
    _check(_receive(wire, size))


def _send_all(wire: socket.socket, frame: bytes, requests: int) -> None:
    for number in range(requests):
        if number >= _IN_FLIGHT:
            _take_answer(wire)
        wire.sendall(frame)
    for _ in range(min(_IN_FLIGHT, requests)):
        _take_answer(wire)


def _run(one: Task) -> Round:
    batch, count = _batch()
    frame = _frame(one.topic, batch)
    host, port = one.bootstrap_servers.split(",")[0].rsplit(":", 1)
    requests = -(-one.records // (count * _PARTITIONS))
    with socket.create_connection((host, int(port))) as wire:
        wire.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        _send_all(wire, frame, _IN_FLIGHT)
        with Stopwatch() as watch:
            _send_all(wire, frame, requests)
    return watch.round(requests * count * _PARTITIONS, "pre-encoded requests")


if __name__ == "__main__":
    _run(task()).tell()

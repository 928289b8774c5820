"""The format of the history on its way to the judge: records with their outcome, and marks, as bytes in a pipe."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import BinaryIO, Final

import attrs

from aioproducer import Outcome
from tests.judge.history import Sent

_OUTCOMES: Final = tuple(Outcome)
_CODES: Final = {outcome: code for code, outcome in enumerate(_OUTCOMES)}
_RECORD: Final = struct.Struct(">cq8shBqdd?BH")
_MARK: Final = struct.Struct(">qdd?")
_IS_RECORD, _IS_MARK = b"r", b"m"
_NO_PARTITION: Final = -1
_LONGEST_ERROR: Final = 300


@attrs.frozen
class Mark:
    """Every record below this number has its outcome, and is in the pipe before this mark; the last mark ends the judge."""

    below: int
    slack: float
    """Seconds by which an outcome may have been late, because the loop was."""
    timeout: float
    """Seconds for which the judge may wait for acknowledged records in the log."""
    last: bool = False


def of_record(sent: Sent) -> bytes:
    """One record."""
    topic, error = sent.topic.encode(), sent.error.encode()[:_LONGEST_ERROR]
    partition = _NO_PARTITION if sent.partition is None else sent.partition
    head = _RECORD.pack(
        _IS_RECORD,
        sent.number,
        sent.digest,
        partition,
        _CODES[sent.outcome],
        sent.offset,
        sent.due_at,
        sent.resolved_at,
        sent.on_wire,
        len(topic),
        len(error),
    )
    return head + topic + error


def of_mark(mark: Mark) -> bytes:
    """One mark."""
    return _IS_MARK + _MARK.pack(mark.below, mark.slack, mark.timeout, mark.last)


def read(source: BinaryIO) -> Iterator[Sent | Mark]:
    """All records and marks, until the pipe ends."""
    while kind := source.read(1):
        yield _record(source) if kind == _IS_RECORD else Mark(*_MARK.unpack(_exactly(source, _MARK.size)))


def _record(source: BinaryIO) -> Sent:
    head = _RECORD.unpack(_IS_RECORD + _exactly(source, _RECORD.size - 1))
    _, number, digest, partition, code, offset, due_at, resolved_at, on_wire, of_topic, of_error = head
    topic = _exactly(source, of_topic).decode()
    error = _exactly(source, of_error).decode(errors="replace")
    place = None if partition == _NO_PARTITION else partition
    return Sent(
        number,
        digest,
        topic,
        place,
        _OUTCOMES[code],
        offset,
        due_at,
        resolved_at,
        on_wire=on_wire,
        error=error,
    )


def _exactly(source: BinaryIO, size: int) -> bytes:
    data = source.read(size)
    if len(data) < size:
        raise EOFError(f"the history ends inside a record: {len(data)} of {size} bytes")
    return data

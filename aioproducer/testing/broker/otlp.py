"""The reader of OTLP `MetricsData` (protobuf), as clients push it: gauges and sums of numbers."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from typing import Any, Final

import attrs

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_WIDTHS: Final = {_FIXED64: 8, _FIXED32: 4}
_LONGEST_VARINT: Final = 10
# The fields of a metric, by its kind.
_KINDS: Final = {5: "gauge", 7: "sum"}


@attrs.frozen
class PushedMetric:
    """One value of a metric; `attributes` are those of the value, times are nanoseconds since the epoch."""

    name: str
    kind: str
    """ "gauge" or "sum"."""
    value: float
    """An int where the client wrote an integer."""
    attributes: Mapping[str, Any]
    is_delta: bool
    is_monotonic: bool
    start_ns: int
    time_ns: int


@attrs.frozen
class PushedMetrics:
    """Everything in one payload; `scopes` are names with versions."""

    resource: Mapping[str, Any]
    scopes: tuple[tuple[str, str], ...]
    metrics: tuple[PushedMetric, ...]


def read_metrics(data: bytes) -> PushedMetrics:
    """The metrics of a payload; ValueError if it is no valid one."""
    resource: dict[str, Any] = {}
    scopes: list[tuple[str, str]] = []
    metrics: list[PushedMetric] = []
    for _, of_resource in _fields(data, 1):
        for number, part in _fields(of_resource):
            if number == 1:
                resource |= _attributes(part, 1)
            elif number == 2:
                scopes += [(_text(scope, 1), _text(scope, 2)) for _, scope in _fields(part, 1)]
                metrics += [point for _, metric in _fields(part, 2) for point in _points(metric)]
    return PushedMetrics(resource, tuple(scopes), tuple(metrics))


def _points(metric: bytes) -> Iterator[PushedMetric]:
    name = _text(metric, 1)
    for number, kind in _KINDS.items():
        for _, content in _fields(metric, number):
            told = dict(_fields(content))
            for _, point in _fields(content, 1):
                value, started, ended = _value_and_times(point)
                yield PushedMetric(
                    name,
                    kind,
                    value,
                    _attributes(point, 7),
                    kind == "sum" and told.get(2) == 1,
                    bool(kind == "sum" and told.get(3)),
                    started,
                    ended,
                )


def _value_and_times(point: bytes) -> tuple[float, int, int]:
    found = dict(_fields(point))
    as_double, as_int = found.get(4), found.get(6)
    if (as_double is None) == (as_int is None):
        raise ValueError("a point must have one value")
    value: float = (
        int.from_bytes(as_int or b"", "little", signed=True)
        if as_double is None
        else struct.unpack("<d", as_double)[0]
    )
    return value, int.from_bytes(found.get(2, b""), "little"), int.from_bytes(found.get(3, b""), "little")


def _attributes(message: bytes, number: int) -> dict[str, Any]:
    return {_text(pair, 1): _any(dict(_fields(pair)).get(2, b"")) for _, pair in _fields(message, number)}


def _any(value: bytes) -> Any:
    for number, content in _fields(value):
        if number == 1:
            return content.decode()
        if number == 2:
            return bool(content)
        if number == 3:
            return content - (1 << 64) if content >= 1 << 63 else content
        if number == 4:
            return struct.unpack("<d", content)[0]
    raise ValueError("an attribute must have a value")


def _text(message: bytes, number: int) -> str:
    found = dict(_fields(message)).get(number, b"")
    return str(found, "utf-8")


def _fields(message: bytes, only: int | None = None) -> Iterator[tuple[int, Any]]:
    """The fields of a message: a number for a varint, bytes for all other kinds."""
    at = 0
    while at < len(message):
        tag, at = _varint(message, at)
        number, kind = tag >> 3, tag & 7
        content: Any
        if kind == _VARINT:
            content, at = _varint(message, at)
        elif kind == _BYTES:
            length, at = _varint(message, at)
            content, at = _piece(message, at, length)
        elif kind in _WIDTHS:
            content, at = _piece(message, at, _WIDTHS[kind])
        else:
            raise ValueError(f"the protobuf has a field of the unknown kind {kind}")
        if only in (None, number):
            yield number, content


def _piece(message: bytes, at: int, length: int) -> tuple[bytes, int]:
    if at + length > len(message):
        raise ValueError("the protobuf ends within a field")
    return message[at : at + length], at + length


def _varint(message: bytes, at: int) -> tuple[int, int]:
    value = 0
    for place in range(_LONGEST_VARINT):
        if at + place >= len(message):
            raise ValueError("the protobuf ends within a number")
        value |= (message[at + place] & 0x7F) << 7 * place
        if message[at + place] < 0x80:
            return value, at + place + 1
    raise ValueError("the protobuf has a number of more than 64 bits")

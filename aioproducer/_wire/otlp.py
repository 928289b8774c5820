"""The writer of OTLP `MetricsData` (opentelemetry.proto.metrics.v1), as protobuf: gauges and monotonic sums of numbers."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from typing import Final, Literal, NamedTuple, TypeAlias

__all__ = ["AttributeValue", "Attributes", "Kind", "Metric", "Point", "fits", "metrics_data"]

AttributeValue: TypeAlias = str | bool | int | float
Attributes: TypeAlias = Sequence[tuple[str, AttributeValue]]
Kind: TypeAlias = Literal["gauge", "sum"]

# The kinds of encoding that a field may have.
_VARINT, _FIXED64, _BYTES = 0, 1, 2
_DELTA, _CUMULATIVE = 1, 2
_DOUBLE = struct.Struct("<d")
# The fields of a point that all points have, each behind its tag.
_STARTED, _ENDED = 2 << 3 | _FIXED64, 3 << 3 | _FIXED64
_AS_DOUBLE, _AS_INT = 4 << 3 | _FIXED64, 6 << 3 | _FIXED64
_POINT_OF_DOUBLE, _POINT_OF_INT = struct.Struct("<BQBQBd"), struct.Struct("<BQBQBq")
# A varint has a negative number as its two's complement of 64 bits.
_MODULUS: Final = 1 << 64
_INT64_RANGE: Final = range(-(1 << 63), 1 << 63)


class Point(NamedTuple):
    """One value of a metric; times are nanoseconds since the epoch. A float is written as a double, an int as an integer."""

    value: float
    started_ns: int
    ended_ns: int
    attributes: Attributes = ()


class Metric(NamedTuple):
    """A metric with its values. A sum is monotonic; `is_delta`: its values are those of the interval alone."""

    name: str
    kind: Kind
    points: Sequence[Point]
    is_delta: bool = False


def fits(number: int) -> bool:
    """Whether a point can have this integer."""
    return number in _INT64_RANGE


def metrics_data(resource: Attributes, scope: tuple[str, str], metrics: Iterable[Metric]) -> bytes:
    """All metrics of one resource and one scope, which has a name and a version; b"" without a metric."""
    kept, encoded = list(metrics), dict[int, bytes]()
    written = b"".join([_field(2, _metric(metric, encoded)) for metric in kept])
    if not written:
        return b""
    named = _field(1, scope[0].encode()) + _field(2, scope[1].encode())
    scoped = _field(1, named) + written
    return _field(1, _field(1, _attributes(1, resource)) + _field(2, scoped))


def _metric(metric: Metric, encoded: dict[int, bytes]) -> bytes:
    points = b"".join([_point(point, encoded) for point in metric.points])
    if metric.kind == "gauge":
        return _field(1, metric.name.encode()) + _field(5, points)
    temporality = _DELTA if metric.is_delta else _CUMULATIVE
    monotonic = _number(2, temporality) + _number(3, 1)
    return _field(1, metric.name.encode()) + _field(7, points + monotonic)


def _point(point: Point, encoded: dict[int, bytes]) -> bytes:
    value, started_ns, ended_ns, attributes = point
    whole = isinstance(value, int)
    fixed = (_POINT_OF_INT if whole else _POINT_OF_DOUBLE).pack(
        _STARTED, started_ns, _ENDED, ended_ns, _AS_INT if whole else _AS_DOUBLE, value
    )
    if not attributes:
        return _field(1, fixed)
    # Thousands of points share the attributes of as many topics. All of them live as long as this table.
    found = encoded.get(id(attributes))
    if found is None:
        found = encoded[id(attributes)] = _attributes(7, attributes)
    return _field(1, fixed + found)


def _attributes(number: int, attributes: Attributes) -> bytes:
    return b"".join(
        [_field(number, _field(1, key.encode()) + _field(2, _any(value))) for key, value in attributes]
    )


def _any(value: AttributeValue) -> bytes:
    if isinstance(value, str):
        return _field(1, value.encode())
    if isinstance(value, bool):
        return _number(2, int(value))
    if isinstance(value, int):
        return _number(3, value)
    return _fixed(4, _DOUBLE.pack(value))


# -- protobuf


def _field(number: int, content: bytes) -> bytes:
    length = len(content)
    if number < 16 and length < 0x80:
        return bytes((number << 3 | _BYTES, length)) + content
    return _varint(number << 3 | _BYTES) + _varint(len(content)) + content


def _fixed(number: int, content: bytes) -> bytes:
    return _varint(number << 3 | _FIXED64) + content


def _number(number: int, value: int) -> bytes:
    return _varint(number << 3 | _VARINT) + _varint(value % _MODULUS)


def _varint(value: int) -> bytes:
    if value < 0x80:
        return bytes((value,))
    digits = bytearray()
    while value >= 0x80:
        digits.append(value & 0x7F | 0x80)
        value >>= 7
    digits.append(value)
    return bytes(digits)

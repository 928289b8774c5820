"""Checking what `MockProducer` is given: the errors are of the classes that the real producer raises."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

from aioproducer.config import topic_problem
from aioproducer.errors import ConfigurationError, RecordError, SerializationError

PlainHeaders: TypeAlias = tuple[tuple[str, bytes | None], ...] | None

EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
LARGEST_TIMESTAMP = (1 << 63) - 1


def checked_topic(topic: object) -> str:
    """A topic name that Kafka accepts."""
    problem = topic_problem(topic)
    if problem is not None or not isinstance(topic, str):
        raise RecordError(problem, topic=topic if isinstance(topic, str) else None)
    # Not a subclass, whose methods may answer otherwise the next time.
    return str.__str__(topic)


def checked_bytes(part: str, data: object, topic: str) -> bytes | None:
    """The bytes of a key or value."""
    made = _copied(data)
    if made is None and data is not None:
        text = f"a {part} must be bytes-like or None, not {type(data).__name__}; {part}_serializer can convert it"
        raise SerializationError(text, topic=topic, part=part)
    return made


def _copied(data: Any) -> bytes | None:
    """The bytes of something bytes-like, None for anything else."""
    try:
        return None if data is None else memoryview(data).tobytes()
    except (TypeError, BufferError):
        return None


def checked_partition(partition: Any, topic: str) -> int | None:
    """A partition number, or None to have one chosen."""
    if partition is None:
        return None
    number = _whole("partition", partition, topic)
    if not 0 <= number < 1 << 31:
        raise RecordError(f"there is no partition {number}", topic=topic)
    return number


def checked_timestamp(timestamp: Any, topic: str) -> int | None:
    """Milliseconds since the epoch, or None for the time of acceptance."""
    if timestamp is None:
        return None
    if isinstance(timestamp, datetime.datetime):
        if timestamp.utcoffset() is None:
            text = "timestamp is a naive datetime: give it a time zone, as in datetime.now(timezone.utc)"
            raise RecordError(text, topic=topic)
        timestamp = (timestamp - EPOCH) // datetime.timedelta(milliseconds=1)
    number = _whole("timestamp", timestamp, topic)
    if not 0 <= number <= LARGEST_TIMESTAMP:
        raise RecordError(f"timestamp {number} is not a number of milliseconds since 1970", topic=topic)
    return number


def _whole(name: str, number: Any, topic: str) -> int:
    if isinstance(number, bool) or not hasattr(type(number), "__index__"):
        raise RecordError(f"{name} cannot be of type {type(number).__name__}", topic=topic)
    return int(number.__index__())


def checked_headers(headers: Any, topic: str) -> PlainHeaders:
    """Headers as a tuple of `(str, bytes | None)` pairs, or None."""
    if headers is None:
        return None
    if isinstance(headers, str | bytes) or not isinstance(headers, Iterable):
        text = f"headers must be (str, bytes-like | None) pairs or a mapping, not {type(headers).__name__}"
        raise RecordError(text, topic=topic)
    pairs = headers.items() if isinstance(headers, Mapping) else headers
    return tuple(_checked_header(pair, topic) for pair in pairs) or None


def _checked_header(pair: Any, topic: str) -> tuple[str, bytes | None]:
    if not isinstance(pair, tuple | list) or len(pair) != 2:
        raise RecordError(f"a header must be a pair of a name and a value, not {pair!r:.60}", topic=topic)
    name, value = pair
    if not isinstance(name, str):
        raise RecordError(f"the name of a header must be a str, not {type(name).__name__}", topic=topic)
    if not name.isascii():
        _check_encodable(name, topic)
    made = _copied(value)
    if made is None and value is not None:
        text = f"the value of header {name!r:.60} must be bytes-like or None, not {type(value).__name__}"
        raise RecordError(text, topic=topic)
    return name, made


def _check_encodable(name: str, topic: str) -> None:
    try:
        name.encode()
    except UnicodeEncodeError:
        raise RecordError("the name of a header cannot be encoded as UTF-8", topic=topic) from None


def checked_seconds(name: str, seconds: Any, topic: str | None = None) -> float | None:
    """A length of time in seconds, or None, of a record."""
    if not _is_time(seconds):
        raise RecordError(f"{name} must be a number of seconds, not {seconds!r:.60}", topic=topic)
    return None if seconds is None else float(seconds)


def checked_timeout(name: str, seconds: Any) -> float | None:
    """A length of time in seconds, or None, of a call that is about no record."""
    if not _is_time(seconds):
        raise ConfigurationError(f"{name} must be a number of seconds, not {seconds!r:.60}")
    return None if seconds is None else float(seconds)


def _is_time(seconds: Any) -> bool:
    if seconds is None:
        return True
    if isinstance(seconds, bool) or not isinstance(seconds, int | float):
        return False
    try:
        return 0 <= float(seconds) < float("inf")
    except OverflowError:
        return False


def checked_partitions(partitions: Any) -> tuple[dict[str, int], int]:
    """How many partitions topics have: those that are named, and all others."""
    named = dict(partitions) if isinstance(partitions, Mapping) else {}
    others = 1 if isinstance(partitions, Mapping) else partitions
    problems = [f"partitions: {problem}" for problem in map(topic_problem, named) if problem is not None]
    problems += [
        f"partitions={count!r:.60}: a topic has at least one partition, and a whole number of them"
        for count in (*named.values(), others)
        if isinstance(count, bool) or not isinstance(count, int) or count < 1
    ]
    if problems:
        raise ConfigurationError(problems)
    return named, others

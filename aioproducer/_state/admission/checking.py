"""Checks of the user's arguments: each is converted to the form that is appended, or refused by name."""

from __future__ import annotations

import datetime
import operator
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any

from aioproducer.config.names import topic_problem
from aioproducer.config.seconds import seconds_of
from aioproducer.errors import RecordError, SerializationError
from aioproducer.records import MOST_HEADERS

if TYPE_CHECKING:
    from aioproducer._state.admission.ready import PlainHeaders

LARGEST_TIMESTAMP = (1 << 63) - 1
LARGEST_PARTITION = (1 << 31) - 1


def checked_topic(topic: object) -> str:
    """A topic name that Kafka accepts."""
    problem = topic_problem(topic)
    if problem is not None:
        raise RecordError(problem, topic=topic if isinstance(topic, str) else None)
    assert isinstance(topic, str)  # noqa: S101  # that is what topic_problem() found out
    # Not a subclass, whose methods could return something else the next time.
    return str.__str__(topic)


def checked_bytes(part: str, data: object, topic: str) -> bytes | None:
    """The bytes of a key or value; they are copied unless they are `bytes` already."""
    if data is None or type(data) is bytes:
        return data
    refused = partial(SerializationError, topic=topic, part=part)
    return _copied(data, f"the {part}", f"; {part}_serializer can convert it", refused)


def _copied(data: Any, name: str, advice: str, refused: Callable[..., RecordError]) -> bytes:
    """The bytes of a buffer of the user's."""
    try:
        return memoryview(data).tobytes()
    except (TypeError, BufferError):
        raise refused(f"{name} must be bytes-like or None, not {type(data).__name__}{advice}") from None
    except Exception as error:
        raise refused(f"reading {name} failed (a released memoryview?)", cause=error) from error


def checked_partition(partition: object, topic: str) -> int | None:
    """A partition number, or None to have one chosen."""
    if partition is None:
        return None
    if isinstance(partition, bool) or not hasattr(type(partition), "__index__"):
        text = f"partition must be a whole number or None, not {type(partition).__name__}"
        raise RecordError(text, topic=topic)
    number = _whole(partition)
    if not 0 <= number <= LARGEST_PARTITION:
        raise RecordError(f"invalid partition {number}: must be 0 or more", topic=topic)
    return number


def _whole(number: Any) -> int:
    """An exact `int`, whatever `__index__` returns."""
    return int.__index__(operator.index(number))


def checked_timestamp(timestamp: object, topic: str) -> int | None:
    """Milliseconds since the epoch, or None for the time of acceptance."""
    if timestamp is None:
        return None
    if isinstance(timestamp, datetime.datetime):
        return _milliseconds(timestamp, topic)
    if isinstance(timestamp, bool) or not hasattr(type(timestamp), "__index__"):
        text = f"timestamp must be milliseconds or an aware datetime, not {type(timestamp).__name__}"
        raise RecordError(text, topic=topic)
    number = _whole(timestamp)
    if not 0 <= number <= LARGEST_TIMESTAMP:
        raise RecordError(f"timestamp {number} is not a number of milliseconds since 1970", topic=topic)
    return number


def _milliseconds(moment: datetime.datetime, topic: str) -> int:
    if moment.tzinfo is None or moment.utcoffset() is None:
        text = "timestamp is a naive datetime: give it a time zone, as in datetime.now(timezone.utc)"
        raise RecordError(text, topic=topic)
    epoch = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
    milliseconds = _whole((moment - epoch) // datetime.timedelta(milliseconds=1))
    if milliseconds < 0:
        raise RecordError("timestamp is before 1970", topic=topic)
    if milliseconds > LARGEST_TIMESTAMP:
        raise RecordError(f"timestamp {milliseconds} is too large", topic=topic)
    return milliseconds


def checked_headers(headers: Any, topic: str) -> PlainHeaders:  # any object from the user
    """Headers as a tuple of `(str, bytes | None)` pairs, or None; order and repeats are kept."""
    if headers is None:
        return None
    if isinstance(headers, (str, bytes)) or not isinstance(headers, Iterable):
        raise RecordError(_headers_text(headers), topic=topic)
    pairs = headers.items() if isinstance(headers, Mapping) else headers
    return all_headers((_checked_header(pair, topic) for pair in pairs), topic) or None


def all_headers(items: Iterable[Any], topic: str) -> tuple[Any, ...]:
    """The items; refused if there are too many of them, as an iterable of the user may have no end."""
    found = tuple(islice(items, MOST_HEADERS + 1))
    if len(found) > MOST_HEADERS:
        raise RecordError(f"headers has more than {MOST_HEADERS:,} items", topic=topic)
    return found


def _headers_text(headers: object) -> str:
    return f"headers must be (str, bytes-like | None) pairs or a mapping, not {type(headers).__name__}"


def _checked_header(pair: object, topic: str) -> tuple[str, bytes | None]:
    if not isinstance(pair, (tuple, list)) or len(pair) != 2:  # a pair
        raise RecordError(f"a header must be a pair of a name and a value, not {pair!r:.60}", topic=topic)
    name, value = pair
    if not isinstance(name, str):
        raise RecordError(f"the name of a header must be a str, not {type(name).__name__}", topic=topic)
    plain = str.__str__(name)
    try:
        plain.encode()
    except UnicodeEncodeError:
        raise RecordError("the name of a header cannot be encoded as UTF-8", topic=topic) from None
    if value is None or type(value) is bytes:
        return plain, value
    return plain, _copied(value, f"the value of header {plain!r:.60}", "", partial(RecordError, topic=topic))


def checked_seconds(name: str, seconds: object, topic: str | None = None) -> float | None:
    """A length of time in seconds, or None, of a record."""
    if seconds is None:
        return None
    try:
        return seconds_of(name, seconds)
    except ValueError as error:
        raise RecordError(str(error), topic=topic) from None

"""The key and value of a record as bytes: serialized within the call, or later where a serializer has to wait."""

from __future__ import annotations

import asyncio
import copy
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from aioproducer._callers.refusals import refusal_of
from aioproducer._state.admission.checking import (
    checked_bytes,
    checked_headers,
    checked_partition,
    checked_timestamp,
    checked_topic,
)
from aioproducer._state.admission.ready import ReadyRecord, check_size
from aioproducer.errors import RecordError, SerializationError
from aioproducer.serializers import Encoded, NotPrepared, Unserialized
from aioproducer.serializers import bind as bind_serializer

if TYPE_CHECKING:
    from collections.abc import Iterable

    from aioproducer._net.accepting.contexts import CallContext
    from aioproducer._net.runtime.engine import Engine
    from aioproducer._net.runtime.first_step import Suspended
    from aioproducer._state.admission.ready import PlainHeaders
    from aioproducer.records import Record
    from aioproducer.serializers import Bound, Part


class Unready(NamedTuple):
    """A record whose key or value has no bytes yet. The rest is checked and copied: the caller may change its objects."""

    topic: str
    key: bytes | Encoded | Unserialized | None
    value: bytes | Encoded | Unserialized | None
    headers: PlainHeaders
    timestamp: int | None
    partition: int | None
    # The count of successful preparations when its serializers were called.
    learned: int
    context: CallContext | None


class Serializing:
    """The serializers of one running producer."""

    def __init__(self, engine: Engine) -> None:
        config = engine.config
        self.key = None if config.key_serializer is None else bind_serializer(config.key_serializer, "key")
        self.value = (
            None if config.value_serializer is None else bind_serializer(config.value_serializer, "value")
        )
        # Read for each record that takes the slow path.
        self.is_awaited = any(serializer.is_coroutine for serializer in self._both())
        self._accumulator = engine.accumulator
        self._preparing = engine.preparing

    def without_user_code(self) -> Self:
        """The same without serializers."""
        bare = copy.copy(self)
        bare.key = bare.value = None
        bare.is_awaited = False
        return bare

    def _both(self) -> tuple[Bound, ...]:
        return tuple(serializer for serializer in (self.key, self.value) if serializer is not None)

    # -- within the call

    def taken(self, record: Record[Any, Any], context: CallContext | None = None) -> ReadyRecord | Unready:
        """The record as far as it is ready without waiting. A coroutine serializer is not called yet."""
        topic = checked_topic(record.topic)
        headers = headers_of(record, context)
        key, value = (
            self._asked_now(serializer, topic, headers, data)
            for serializer, data in ((self.key, record.key), (self.value, record.value))
        )
        return self.serialized(record, headers, key, value, context)

    def _asked_now(self, serializer: Bound | None, topic: str, headers: PlainHeaders, data: Any) -> Any:
        if serializer is None:
            return data
        # Where one part is awaited, both serializers are called later, in the order of the parts.
        return Unserialized(serializer, data) if self.is_awaited else serializer(topic, headers, data)

    def serialized(
        self,
        record: Record[Any, Any],
        headers: PlainHeaders,
        key: Any,
        value: Any,
        context: CallContext | None = None,
    ) -> ReadyRecord | Unready:
        """The record with the results of its serializers."""
        topic = record.topic
        unready = Unready(
            topic,
            _part("key", self.key, key, topic),
            _part("value", self.value, value, topic),
            headers,
            checked_timestamp(record.timestamp, topic),
            checked_partition(record.partition, topic),
            self._preparing.preparations.succeeded,
            context,
        )
        if isinstance(unready.key, Unserialized) or isinstance(unready.value, Unserialized):
            return unready
        return self.ready(unready, unready.key, unready.value)

    def ready(
        self, record: Unready, key: bytes | Encoded | None, value: bytes | Encoded | None
    ) -> ReadyRecord:
        """The record in the form that is appended."""
        headers = record.headers
        for made in (key, value):
            if isinstance(made, Encoded) and made.headers:
                headers = (headers or ()) + made.headers  # type: ignore[operator]  # a tuple, by _part()
        ready = ReadyRecord(
            key=_data(key),
            value=_data(value),
            headers=headers,
            timestamp=record.timestamp,
            partition=record.partition,
            context=None if record.context is None else record.context.token,
        )
        if record.context is not None and record.context.trace is not None:
            record.context.trace.ready(ready)
        check_size(self._accumulator, record.topic, ready)
        return ready

    # -- later

    def begun(self, record: Unready, until: float) -> ReadyRecord | Suspended[ReadyRecord]:
        """The record, as far as this call can make it: complete, or the rest of a coroutine."""
        self._preparing.tasks.check(record.topic)
        try:
            return self._preparing.tasks.first_steps.take(self.made_later(record, until))
        except (GeneratorExit, asyncio.CancelledError) as error:
            # Raised by the serializer: the caller is not cancelled.
            raise refusal_of(error, record.topic) from error

    async def made_later(self, record: Unready, until: float) -> ReadyRecord:
        """The record when its serializers have returned its bytes; `until`: when its call ends."""
        key = await self._made(record.key, "key", record, until)
        value = await self._made(record.value, "value", record, until)
        return self.ready(record, key, value)

    async def _made(
        self, part: bytes | Encoded | Unserialized | None, name: Part, record: Unready, until: float
    ) -> bytes | Encoded | None:
        preparations = self._preparing.preparations
        was_prepared, learned = False, record.learned
        while isinstance(part, Unserialized):
            if part.cause is not None:
                if was_prepared:
                    raise _not_prepared(part, record.topic, "again after prepare()")
                # A preparation since the call of the serializer may be enough.
                if learned == preparations.succeeded:
                    was_prepared = await preparations.prepared(part, record.topic, record.headers, until)
            learned = preparations.succeeded
            made = await _asked(part.serializer, record.topic, record.headers, part.data)
            part = _part(name, part.serializer, made, record.topic)
        return part

    # -- without waiting

    def prepare_for_later(self, record: Unready) -> SerializationError:
        """Prepare the serializers for a record that cannot wait; returns the error that tells its caller to try again."""
        missing = [part for part in (record.key, record.value) if isinstance(part, Unserialized)]
        for part in missing:
            self._preparing.preparations.begin(part, record.topic, record.headers)
        return _not_prepared(missing[0], record.topic, "and is being prepared; try again", retriable=True)

    # -- at the ends of the producer

    def warm(self, topics: Iterable[str]) -> None:
        """Start `warm()` of the serializers for these topics, in the background."""
        both = self._both()
        distinct = both[:1] if len(both) > 1 and both[0].owner is both[1].owner else both
        for topic in topics:
            for serializer in distinct:
                self._preparing.preparations.warm(serializer, topic)

    def close(self) -> None:
        """Begin to close the serializers."""
        self._preparing.close(self._both())

    def close_made(self) -> None:
        """Begin to close those that were made for this start, which has failed: the next one makes others."""
        self._preparing.close(serializer for serializer in self._both() if serializer.is_made)


def headers_of(record: Record[Any, Any], context: CallContext | None) -> PlainHeaders:
    """The headers of a record, and behind them those of the context of its call."""
    headers = checked_headers(record.headers, record.topic)
    return headers if context is None else context.joined(headers)


def _data(made: bytes | Encoded | None) -> bytes | None:
    return made.data if isinstance(made, Encoded) else made  # type: ignore[return-value]  # bytes, by _part()


def _part(
    name: Part, serializer: Bound | None, made: Any, topic: str
) -> bytes | Encoded | Unserialized | None:
    """The result of a serializer, copied: the user may change the object later."""
    if serializer is not None:
        if isinstance(made, Unserialized):
            return made
        if isinstance(made, Encoded):
            return Encoded(checked_bytes(name, made.data, topic), _headers(name, made.headers, topic))
    return checked_bytes(name, made, topic)


def _headers(name: Part, headers: Any, topic: str) -> PlainHeaders:
    try:
        return checked_headers(headers, topic)
    except RecordError as error:
        text = f"the {name} serializer returned headers that cannot be sent"
        raise SerializationError(text, topic=topic, part=name, cause=error) from error


async def _asked(serializer: Bound, topic: str, headers: PlainHeaders, data: Any) -> Any:
    try:
        if serializer.is_coroutine:
            return await serializer(topic, headers, data)
        return serializer(topic, headers, data)
    except (SerializationError, KeyboardInterrupt, SystemExit, GeneratorExit):
        raise
    except BaseException as error:
        # Cancelled: by this producer if its call has ended, otherwise by the object that the serializer awaited.
        what = "was cancelled" if isinstance(error, asyncio.CancelledError) else "failed"
        text = f"the {serializer.part} serializer {what}"
        raise SerializationError(text, topic=topic, part=serializer.part, cause=error) from error


def _not_prepared(
    part: Unserialized, topic: str, what: str, *, retriable: bool = False
) -> SerializationError:
    name = part.serializer.part
    text = f"the {name} serializer raised NotPrepared {what}"
    return SerializationError(text, topic=topic, part=name, cause=part.cause, retriable=retriable)


def is_being_prepared(error: BaseException) -> bool:
    """True for the refusal of a record that may be sent again when its serializer is prepared."""
    return isinstance(error, SerializationError) and error.retriable and isinstance(error.cause, NotPrepared)

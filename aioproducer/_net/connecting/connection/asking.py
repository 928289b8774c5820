"""Requests whose answer a task waits for."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from aioproducer._net.connecting.connection.ends import at_broker
from aioproducer._state.cluster.facts import OUT_OF_MEMORY
from aioproducer._wire.apis import SASL_AUTHENTICATE, SASL_HANDSHAKE, api_of
from aioproducer._wire.codec import decode_response, encode_request
from aioproducer._wire.frames import FRAME_LIMIT
from aioproducer.errors import KafkaError, ProtocolError

if TYPE_CHECKING:
    from aioproducer._net.connecting.connection.connection import Connection
    from aioproducer._state.connecting.dialogue import Ask

__all__ = ["answer_to", "ask", "optional_answer_to"]

M = TypeVar("M", bound=tuple[Any, ...])
R = TypeVar("R")

_OF_AUTHENTICATIONS: Final = frozenset((SASL_HANDSHAKE, SASL_AUTHENTICATE))


async def answer_to(
    connection: Connection,
    message: tuple[Any, ...],
    response_type: type[M],
    *,
    timeout: float,
    version: int | None = None,
    answer_limit: int = FRAME_LIMIT,
) -> M:
    """Send a request and decode its answer; BrokerUnavailableError or ProtocolError otherwise.

    A dialogue that holds the connection is waited for, for at most `timeout` seconds; the time for the answer counts from
    the write. If the waiting task is cancelled, the answer is read and dropped.
    """
    gate = connection.gate
    if gate.is_held or gate.session_is_over():
        await gate.free(timeout)
    if version is None:
        version = connection.versions.choose(api_of(response_type).key)
    chosen = version
    return await _answer(
        connection,
        lambda correlation_id: encode_request(message, chosen, correlation_id, connection.client_id),
        timeout,
        lambda frame: decode_response(response_type, chosen, frame, connection.remarks.surplus)[1],
        answer_limit,
    )


async def ask(connection: Connection, question: Ask, *, timeout: float) -> bytes:
    """Send the question of a dialogue, and give its answer as it came, from the correlation id on."""
    api = api_of(type(question.message))
    if api.key in _OF_AUTHENTICATIONS:
        connection.authenticating = api.name
    return await _answer(
        connection,
        lambda correlation_id: encode_request(
            question.message, question.version, correlation_id, connection.client_id
        ),
        timeout,
        bytes,
    )


async def optional_answer_to(
    connection: Connection, message: tuple[Any, ...], response_type: type[M], *, timeout: float
) -> M:
    """Send a request that the connection can do without, and decode its answer; a KafkaError or TimeoutError otherwise.

    Without an answer in time the connection is closed, but other than with `answer_to()` that is no fault of the broker. No
    other request waits behind this one (`Connection.has_optional`).
    """
    try:
        async with asyncio.timeout(timeout):
            await connection.gate.free(timeout)
            version = connection.versions.choose(api_of(response_type).key)
            correlation_id = connection.next_correlation_id()
            reply = _Reply(connection.loop.create_future(), bytes, connection.broker)
            request = encode_request(message, version, correlation_id, connection.client_id)
            connection.write_optional(correlation_id, request, reply)
            frame: bytes = await reply.future
    except TimeoutError:
        connection.close()
        raise
    return decode_response(response_type, version, frame, connection.remarks.surplus)[1]


async def _answer(
    connection: Connection,
    encoded: Callable[[int], bytes],
    timeout: float,
    read: Callable[[memoryview], R],
    answer_limit: int = FRAME_LIMIT,
) -> R:
    # No local variable holds the request, which may have a secret: some error reports show the variables of each frame.
    correlation_id = connection.next_correlation_id()
    reply = _Reply(connection.loop.create_future(), read, connection.broker)
    if answer_limit > FRAME_LIMIT:
        connection.frames.limit = answer_limit
    connection.write_request(correlation_id, (encoded(correlation_id),), reply, timeout, answer_limit)
    try:
        answer: R = await reply.future
        return answer
    finally:
        del reply  # its future holds the exception, whose traceback holds this frame


class _Reply(Generic[R]):
    """Reads the answer into a future; if that was cancelled, the answer is dropped unread.

    The future's errors are copies: raising adds a traceback, and a shared error would collect the tracebacks of all
    tasks that raise it.
    """

    __slots__ = ("_broker", "_read", "future")

    def __init__(self, future: asyncio.Future[R], read: Callable[[memoryview], R], broker: str) -> None:
        self.future = future
        self._read = read
        self._broker = broker

    def answered(self, frame: memoryview) -> None:
        """Read the answer. An invalid one fails the future and is raised, which ends the connection.

        Any other error (no memory) is raised only: the future fails with the connection, and the request is made again.
        """
        if self.future.done():
            return
        try:
            self.future.set_result(self._read(frame))
        except ProtocolError as error:
            self.future.set_exception(copy.copy(at_broker(error, self._broker)))
            raise

    def failed(self, error: KafkaError, *, written: bool) -> None:
        """Pass the error to the waiting task; without memory for a copy, the shared error itself."""
        if self.future.done():
            return
        own = error
        with suppress(*OUT_OF_MEMORY):
            own = copy.copy(error)
        self.future.set_exception(own)

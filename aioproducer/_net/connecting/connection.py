"""One connection to one broker: requests go out, answers come in, and each answer finds its request.

A request that is not answered in time ends the connection: its late answer would be paired with another. A connection
ends once, for one reason, and then each request that waits for an answer fails with it, once.
"""

from __future__ import annotations

import asyncio
import copy
import enum
import math
import struct
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeVar, cast

import anyio

from aioproducer._net.connecting.acknowledged import is_acknowledged
from aioproducer._net.connecting.gate import WriteGate
from aioproducer._net.connecting.handover import Part, hand_over
from aioproducer._net.connecting.replies import Reply, at_broker
from aioproducer._net.connecting.traffic import Traffic
from aioproducer._net.log import log_of
from aioproducer._net.timers.alarm import Alarm
from aioproducer._net.timers.wakeup import wake
from aioproducer._state.connecting.dialogue import Ask
from aioproducer._state.connecting.opening import NO_VERSIONS, BrokerVersions, Opened
from aioproducer._state.connecting.pairing import AnswerHandler, Pairing, SentRequest
from aioproducer._state.connecting.sessions import AuthenticatedSession
from aioproducer._wire.apis import api_of
from aioproducer._wire.codec import decode_response, encode_request
from aioproducer._wire.frames import FRAME_LIMIT, FrameAssembler
from aioproducer.errors import BrokerUnavailableError, KafkaError, ProtocolError

__all__ = ["Connection", "Ending"]


M = TypeVar("M", bound=tuple[Any, ...])
R = TypeVar("R")

_INT32 = struct.Struct(">i")
# A peer that hangs up after nothing was said for so many seconds has an idle limit. Those that are in use begin at 50 s.
_QUIET = 30.0
# No event says that a retired connection has all answers, or that a socket has all bytes of a TLS connection.
_LOOK_AGAIN = 0.02
# The peer has acknowledged each byte for so many seconds: it is not waited for until it closes a TLS connection as well.
_ACKNOWLEDGED = 1.0


class Ending(enum.Enum):
    """How a connection ended."""

    LEFT = "this producer needed it no longer"
    IDLE = "the peer closed it, over which nothing had been said for a while"
    CUT = "the peer closed it, or it was lost"
    GIVEN_UP = "the peer did not answer in time, or with nonsense"


class Connection(asyncio.BufferedProtocol):
    """A connection, open for requests; `dialing.dial` makes them.

    All of it belongs to the thread of its event loop. Handlers and callbacks run synchronously and may call any
    method of the connection; an exception in one of them ends the connection.
    """

    __slots__ = (
        "__weakref__",
        "_alarm",
        "_close_callbacks",
        "_frames",
        "_is_finishing",
        "_loop",
        "_pairing",
        "_remarks",
        "_transport",
        "answered_at",
        "answers",
        "broker",
        "client_id",
        "close_reason",
        "closed",
        "ending",
        "gate",
        "is_retired",
        "last_used",
        "log",
        "muted_until",
        "next_correlation_id",
        "reads",
        "session",
        "traffic",
        "versions",
    )

    def __init__(self, broker: str, client_id: str | None, loop: asyncio.AbstractEventLoop) -> None:
        self.broker = broker
        self.client_id = client_id
        self.log = log_of(client_id)
        self.versions: BrokerVersions = NO_VERSIONS
        # None: the connection is not authenticated.
        self.session: AuthenticatedSession | None = None
        self.gate = WriteGate()
        # It takes no further request, and is closed when its requests have their answers.
        self.is_retired = False
        self._is_finishing = False
        self.closed = False
        self.close_reason: KafkaError | None = None
        self.ending: Ending | None = None
        self.last_used = loop.time()
        self.muted_until = -math.inf
        self.reads = 0
        self.answers = 0
        self.answered_at: float | None = None
        # Replaced by the counters of all connections to this broker, once it is open.
        self.traffic = Traffic()
        self._loop = loop
        self._transport: asyncio.Transport | None = None
        self._frames = FrameAssembler(broker)
        self._pairing = Pairing(broker)
        self._frames.on_long = self._pairing.check_length
        # Requests must be written in the order of their ids.
        self.next_correlation_id: Callable[[], int] = self._pairing.next_correlation_id
        self._remarks: set[str] = set()
        self._alarm = Alarm(loop, self)
        self._close_callbacks: list[Callable[[Connection], None]] = []

    def __repr__(self) -> str:
        state = f"closed: {self.close_reason}" if self.closed else f"open, {self.in_flight} in flight"
        return f"<Connection {self.broker}: {state}>"

    @property
    def in_flight(self) -> int:
        """Requests that wait for their answer."""
        return len(self._pairing.waiting)

    @property
    def bytes_in_flight(self) -> int:
        """The bytes of those requests."""
        return self._pairing.bytes_in_flight()

    # ------------------------------------------------------------------------------------------ lifecycle

    def opened(self, result: Opened) -> None:
        """The opening dialogue is over: the broker is trusted with longer answers."""
        self.versions, self.session = result.versions, result.session
        self._frames.limit = FRAME_LIMIT

    def close(self, reason: KafkaError | None = None) -> None:
        """End the connection now, without sending the remaining bytes. Only the first call has an effect."""
        ending = Ending.LEFT if reason is None else Ending.GIVEN_UP
        self._end(reason or self._unavailable("the connection was closed by this producer"), ending)

    def add_close_callback(self, callback: Callable[[Connection], None]) -> None:
        """Call it when the connection has ended, after the handlers; in the next turn if it already has."""
        if self.closed:
            self._loop.call_soon(callback, self)
        else:
            self._close_callbacks.append(callback)

    def mute(self, seconds: float) -> None:
        """The broker requested a pause of so many seconds (KIP-219). Senders must check `muted_until`."""
        now = self._loop.time()
        before = max(self.muted_until, now)
        self.muted_until = max(self.muted_until, now + seconds)
        self.traffic.throttle_seconds += max(self.muted_until, now) - before

    def _end(self, reason: KafkaError, ending: Ending = Ending.CUT, overdue_at: float = -math.inf) -> None:
        if self.closed:
            return
        self.closed = True
        self.close_reason = reason
        self.ending = Ending.IDLE if ending is Ending.CUT and self._was_quiet() else ending
        self._alarm.stop()
        self._hang_up()
        self._quietly(self.gate.open_for_good)
        waiting = self._pairing.waiting
        self.traffic.request_errors += len(waiting)
        while waiting:
            sent = waiting.popleft()
            error = self._timed_out(sent.timeout) if sent.deadline <= overdue_at else reason
            self._quietly(partial(sent.handler.failed, error, written=True))
        callbacks, self._close_callbacks = self._close_callbacks, []
        for callback in callbacks:
            self._quietly(partial(callback, self))

    def _was_quiet(self) -> bool:
        return not self._pairing.waiting and self._loop.time() - self.last_used >= _QUIET

    def _hang_up(self) -> None:
        # Without its loop a transport cannot do anything; its finalizer then closes the socket, with a warning.
        if self._transport is not None and not self._loop.is_closed():
            self._transport.abort()
        self._transport = None

    def _quietly(self, call: Callable[[], None]) -> None:
        try:
            call()
        except Exception:
            if self._loop.is_closed():
                # No task can be woken: those that wait were destroyed with the loop.
                return
            self.log.exception(
                "a handler of the connection to broker %s failed while it was closed", self.broker
            )

    # ------------------------------------------------------------------------------------------ out

    def writable(self) -> bool:
        """Whether the transport takes more without piling it up, and no dialogue holds the connection."""
        return self.gate.is_open and not self.closed and (self.session is None or not self._session_is_over())

    def _session_is_over(self) -> bool:
        """Whether the broker may have ended the session: a request that is written now would get no answer."""
        session = self.session
        if session is None or self._loop.time() < session.last_write_at:
            return False
        # The loop may have been blocked, so that nothing has noticed the end yet.
        self.retire()
        return True

    @property
    def takes_requests(self) -> bool:
        """Whether a request may be written now, or when the dialogue is over that holds the connection."""
        return not (self.closed or self.is_retired) and (self.gate.is_held or not self._session_is_over())

    def leave_when_answered(self) -> None:
        """Take no further request, and close the connection when its requests have their answers; returns at once.

        A dialogue that holds the connection is waited for as well.
        """
        self.retire()
        if self.closed:
            return
        if self.in_flight or not self.is_retired:
            self._loop.call_later(_LOOK_AGAIN, self.leave_when_answered)
        else:
            self.leave()

    def retire(self) -> None:
        """Take no further request: the connection is closed when its requests have their answers."""
        # A connection that has ended keeps its gate open: requests that wait for the gate fail at their next check.
        if not self.closed and not self.gate.is_held:
            self.is_retired = True
            self.gate.hold()

    def hold(self) -> None:
        """Shut the gate for one dialogue; BrokerUnavailableError if the connection takes no further request."""
        if self.closed or self.is_retired or self._session_is_over():
            raise self._gone()
        self.gate.hold()

    def free_at(self) -> float:
        """When the broker reads the next request, at the latest: behind the requests in flight, and a pause."""
        return max(self._loop.time(), self.muted_until, self._pairing.latest_deadline())

    async def drained(self) -> None:
        """Wait until `writable()`; BrokerUnavailableError when the connection has ended."""
        while not self.writable():
            if self.closed:
                raise self._gone()
            await self.gate.wait()

    @property
    def unsent(self) -> int:
        """The bytes that wait in the transport for room in the socket."""
        return 0 if self._transport is None else self._transport.get_write_buffer_size()

    async def free(self, timeout: float) -> None:
        """Wait until a request may be written, for at most so many seconds; BrokerUnavailableError otherwise.

        Other than in `drained()`, the bytes that wait in the transport do not count.
        """
        if not (self.closed or self.gate.is_held or self._session_is_over()):
            # A time limit costs a request of a transaction 4 %, and there is nothing to wait for.
            return
        with anyio.move_on_after(timeout):
            while not self.closed and (self.gate.is_held or self._session_is_over()):
                await self.gate.wait()
            if self.closed:
                raise self._gone()
            return
        raise self._unavailable(
            "the request was not written", TimeoutError(f"the connection was not free within {timeout:g} s")
        )

    def leave(self) -> None:
        """Close the connection when its written bytes are in the socket; returns at once. All requests must have their answers.

        Only bytes without an answer (acks=0) are waited for. The transport itself waits: over TLS, parts of them are in buffers
        that have no public size.
        """
        self.retire()
        transport = self._transport
        if transport is None or not self._pairing.has_unanswered:
            self.close()
        elif not self._is_finishing:
            self._is_finishing = True
            transport.close()
            if transport.get_extra_info("ssl_object") is not None:
                self._close_acknowledged(0)

    def _close_acknowledged(self, looks: int) -> None:
        """Over TLS the transport waits until the peer closes as well, for up to 30 s, although the peer has every byte."""
        if self.closed:
            return
        looks = looks + 1 if is_acknowledged(self._transport) else 0
        if looks * _LOOK_AGAIN >= _ACKNOWLEDGED:
            self.close()
        else:
            self._loop.call_later(_LOOK_AGAIN, self._close_acknowledged, looks)

    async def finish(self) -> None:
        """Close the connection when its written bytes are in the socket, and wait for that: see `leave()`."""
        self.leave()
        if not self.closed:
            ended = self._loop.create_future()
            self.add_close_callback(lambda _: wake(ended))
            await ended

    def write_request(
        self,
        correlation_id: int,
        parts: Sequence[Part],
        on_answer: AnswerHandler | None,
        timeout: float,
        answer_limit: int = FRAME_LIMIT,
        size: int = 0,
    ) -> None:
        """Hand a request over to the transport: header and body, in parts, without the length that goes before.

        The parts must not be changed until the answer came or the connection has ended: the transport may still
        refer to them. `timeout` (seconds) counts from here, whatever arrives in between. An answer that is longer than
        `answer_limit` ends the connection before it is taken in. None for `on_answer`: no answer will come. `size`, of
        all parts, is for the statistics of bytes in flight.
        On a connection that has ended nothing is written: the handler is told so at once (`written=False`); where
        there is none, BrokerUnavailableError is raised.
        """
        transport = self._transport
        if transport is None or transport.is_closing():
            self._refuse(on_answer)
            return
        now = self.last_used = self._loop.time()
        self.traffic.requests += 1
        if on_answer is not None:
            self._pairing.waiting.append(
                SentRequest(correlation_id, on_answer, now + timeout, timeout, answer_limit, size, now)
            )
            self._alarm.expect(now + timeout)
        else:
            self._pairing.expect_no_answer(correlation_id)
        try:
            self.traffic.bytes_sent += hand_over(transport, parts)
        except Exception as error:
            # Without the frames: some handlers show their variables, and the parts may have a password or a record.
            self.log.error(  # noqa: TRY400
                "a request to broker %s could not be written; closing the connection",
                self.broker,
                exc_info=error.with_traceback(None),
            )
            self._end(self._unavailable("a request could not be written", error))
            if on_answer is None:
                raise self._gone() from None

    async def request(
        self,
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
        if self.gate.is_held or self._session_is_over():
            await self.free(timeout)
        if version is None:
            version = self.versions.choose(api_of(response_type).key)
        chosen = version
        return await self._ask(
            lambda correlation_id: encode_request(message, chosen, correlation_id, self.client_id),
            timeout,
            lambda frame: self.read(response_type, chosen, frame),
            answer_limit,
        )

    def read(self, response_type: type[M], version: int, frame: memoryview) -> M:
        """Decode an answer of this broker."""
        return decode_response(response_type, version, frame, self.surplus)[1]

    def surplus(self, count: int) -> None:
        """An answer has so many bytes behind its last field: they are ignored."""
        self._remark("it writes bytes behind the last field of its answers", f"({count})")

    def _remark(self, text: str, detail: str = "") -> None:
        """A peculiarity of the broker that does no harm: one DEBUG line for each connection."""
        if text not in self._remarks:
            self._remarks.add(text)
            self.log.debug("broker %s: %s %s", self.broker, text, detail)

    async def ask(self, question: Ask, *, timeout: float) -> bytes:
        """Send the question of a dialogue, and give its answer as it came, from the correlation id on."""
        return await self._ask(
            lambda correlation_id: encode_request(
                question.message, question.version, correlation_id, self.client_id
            ),
            timeout,
            bytes,
        )

    async def _ask(
        self,
        encoded: Callable[[int], bytes],
        timeout: float,
        read: Callable[[memoryview], R],
        answer_limit: int = FRAME_LIMIT,
    ) -> R:
        # No local variable holds the request, which may have a secret: some error reports show the variables of each frame.
        correlation_id = self.next_correlation_id()
        reply = Reply(self._loop.create_future(), read, self.broker)
        if answer_limit > FRAME_LIMIT:
            self._frames.limit = answer_limit
        self.write_request(correlation_id, (encoded(correlation_id),), reply, timeout, answer_limit)
        try:
            answer: R = await reply.future
            return answer
        finally:
            del reply  # its future holds the exception, whose traceback holds this frame

    def _refuse(self, on_answer: AnswerHandler | None) -> None:
        # The loop reports the end of a transport in its next turn: until then the connection takes nothing more.
        self.gate.room(has_room=self.closed)
        error = self._gone()
        if on_answer is None:
            raise error
        on_answer.failed(error, written=False)

    # ------------------------------------------------------------------------------------------ in

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """asyncio: the transport is there."""
        self._transport = cast(asyncio.Transport, transport)
        self.gate.room(has_room=True)
        if self.closed:
            self._hang_up()

    def get_buffer(self, sizehint: int) -> memoryview:
        """asyncio: where to put what arrives."""
        return self._frames.writable()

    def buffer_updated(self, nbytes: int) -> None:
        """asyncio: so much was put there."""
        frames = self._frames
        frames.received(nbytes)
        self.reads += 1
        self.traffic.bytes_received += nbytes
        try:
            while not self.closed and (frame := frames.next_frame()) is not None:
                self._pair(frame)
        except ProtocolError as error:
            self.traffic.request_errors += 1
            self._end(at_broker(error, self.broker).with_traceback(None), Ending.GIVEN_UP)
        except Exception as error:
            self.log.exception(
                "the handler of an answer from broker %s failed; closing the connection", self.broker
            )
            self._end(self._unavailable("the handler of an answer failed", error.with_traceback(None)))
        if self.closed:
            frames.discard()

    def eof_received(self) -> bool:
        """asyncio: the peer will send nothing more, so that no answer will come either."""
        self._left(None)
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        """asyncio: the transport is gone."""
        self._left(exc)
        self._transport = None
        self._frames.discard()

    def _left(self, exc: Exception | None) -> None:
        if self._is_finishing and exc is None:
            self.close()
        else:
            self._end(self._unavailable(self._how_it_left(exc), exc))

    def pause_writing(self) -> None:
        """asyncio: the transport's buffer is above its high-water mark."""
        self.gate.room(has_room=False)

    def resume_writing(self) -> None:
        """asyncio: there is room again."""
        self.gate.room(has_room=True)

    def _pair(self, frame: memoryview) -> None:
        (correlation_id,) = _INT32.unpack_from(frame)
        sent = self._pairing.pair(correlation_id)
        if sent is None:
            self._remark("it answers requests that want no answer", "(acks=0)")
            return
        now = self.last_used = self.answered_at = self._loop.time()
        self.answers += 1
        self.traffic.request_time.add(now - sent.sent_at)
        sent.handler.answered(frame)

    # ------------------------------------------------------------------------------------------ time

    def earliest_deadline(self) -> float:
        """Of all requests that wait for their answer; infinite if there are none."""
        return self._pairing.earliest_deadline()

    def overdue(self, now: float) -> None:
        """A late answer would be paired with another request, so that nothing can follow on this connection."""
        reason = self._unavailable("the connection was closed because a request timed out")
        self._end(reason, Ending.GIVEN_UP, overdue_at=now)

    # ------------------------------------------------------------------------------------------ words

    def _unavailable(self, text: str, cause: BaseException | None = None) -> BrokerUnavailableError:
        return BrokerUnavailableError(text, broker=self.broker, cause=cause)

    def _timed_out(self, timeout: float) -> BrokerUnavailableError:
        return self._unavailable("request timed out", TimeoutError(f"no answer within {timeout:g} s"))

    def _gone(self) -> KafkaError:
        # A copy, because raising adds a traceback, and with it every frame that it went through.
        reason = self.close_reason
        return copy.copy(reason) if reason else self._unavailable("the connection is about to be closed")

    def _how_it_left(self, exc: Exception | None = None) -> str:
        what = "the broker closed the connection" if exc is None else "the connection was lost"
        missing = self._frames.missing
        if missing is not None:
            received, expected = missing
            cut = f"after {received} of its {expected} bytes" if expected else "within its length"
            return f"{what} in the middle of an answer, {cut}"
        if not self.answers:
            return f"{what} without an answer; its listener may want TLS"
        return what

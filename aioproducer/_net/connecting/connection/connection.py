"""One connection to one broker: requests go out, answers come in, and each answer finds its request.

A request that is not answered in time ends the connection: its late answer would be paired with another. A connection
ends once, for one reason, and then each request that waits for an answer fails with it, once.
"""

from __future__ import annotations

import asyncio
import copy
import math
import struct
from collections.abc import Callable, Sequence
from functools import partial
from typing import cast

from aioproducer._net.connecting.connection.departure import Departure
from aioproducer._net.connecting.connection.ends import Ending, at_broker, how_the_peer_left
from aioproducer._net.connecting.connection.gate import WriteGate
from aioproducer._net.connecting.connection.handover import Part, hand_over
from aioproducer._net.connecting.connection.remarks import Remarks
from aioproducer._net.connecting.connection.traffic import Traffic
from aioproducer._net.log import log_of
from aioproducer._net.timers.alarm import Alarm
from aioproducer._state.connecting.opening import NO_VERSIONS, BrokerVersions, Opened
from aioproducer._state.connecting.pairing import AnswerHandler, Pairing, SentRequest
from aioproducer._wire.frames import FRAME_LIMIT, FrameAssembler
from aioproducer.errors import BrokerUnavailableError, KafkaError, ProtocolError

__all__ = ["Connection"]

_INT32 = struct.Struct(">i")
# A peer that hangs up after nothing was said for so many seconds has an idle limit. Those that are in use begin at 50 s.
_QUIET = 30.0


class Connection(asyncio.BufferedProtocol):
    """A connection, open for requests; `dialing.dial` makes them.

    All of it belongs to the thread of its event loop. Handlers and callbacks run synchronously and may call any
    method of the connection; an exception in one of them ends the connection.
    """

    __slots__ = (
        "__weakref__",
        "_alarm",
        "_close_callbacks",
        "_longest_delay",
        "_pairing",
        "answered_at",
        "answers",
        "answers_at_opening",
        "authenticating",
        "broker",
        "client_id",
        "close_reason",
        "closed",
        "departure",
        "ending",
        "frames",
        "gate",
        "last_used",
        "log",
        "loop",
        "muted_until",
        "next_correlation_id",
        "reads",
        "remarks",
        "traffic",
        "transport",
        "versions",
    )

    def __init__(self, broker: str, client_id: str | None, loop: asyncio.AbstractEventLoop) -> None:
        self.broker = broker
        self.client_id = client_id
        self.log = log_of(client_id)
        self.loop = loop
        self.versions: BrokerVersions = NO_VERSIONS
        self.closed = False
        self.close_reason: KafkaError | None = None
        self.ending: Ending | None = None
        self.last_used = loop.time()
        self.muted_until = -math.inf
        self.reads = 0
        self.answers = 0
        self.answers_at_opening = -1
        self.answered_at: float | None = None
        self._longest_delay = 0.0
        # The newest request of an authentication that is not over; empty outside of one.
        self.authenticating = ""
        # Replaced by the counters of all connections to this broker, once it is open.
        self.traffic = Traffic()
        self.transport: asyncio.Transport | None = None
        self.frames = FrameAssembler(broker)
        self.remarks = Remarks(broker, self.log)
        self._pairing = Pairing(broker)
        self.frames.on_long = self._pairing.check_length
        # Requests must be written in the order of their ids.
        self.next_correlation_id: Callable[[], int] = self._pairing.next_correlation_id
        self.gate = WriteGate(broker, loop, self._gone)
        self.departure = Departure(self, self._pairing, loop)
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
    def has_optional(self) -> bool:
        """Whether a request waits for its answer that may fail to come. Later requests take another connection."""
        return bool(self._pairing.optional)

    @property
    def bytes_in_flight(self) -> int:
        """The bytes of those requests."""
        return self._pairing.bytes_in_flight()

    # ------------------------------------------------------------------------------------------ lifecycle

    def opened(self, result: Opened) -> None:
        """The opening dialogue is over: the broker is trusted with longer answers."""
        self.versions, self.gate.session = result.versions, result.session
        self.authenticating = ""
        self.answers_at_opening = self.answers
        self.frames.limit = FRAME_LIMIT

    def close(self, reason: KafkaError | None = None) -> None:
        """End the connection now, without sending the remaining bytes. Only the first call has an effect."""
        ending = Ending.LEFT if reason is None else Ending.GIVEN_UP
        self._end(reason or self._unavailable("the connection was closed by this producer"), ending)

    def add_close_callback(self, callback: Callable[[Connection], None]) -> None:
        """Call it when the connection has ended, after the handlers; in the next turn if it already has."""
        if self.closed:
            self.loop.call_soon(callback, self)
        else:
            self._close_callbacks.append(callback)

    def remove_close_callback(self, callback: Callable[[Connection], None]) -> None:
        """Another user has the connection from now on."""
        if callback in self._close_callbacks:
            self._close_callbacks.remove(callback)

    def mute(self, seconds: float) -> None:
        """The broker requested a pause of so many seconds (KIP-219). Senders must check `muted_until`."""
        now = self.loop.time()
        before = max(self.muted_until, now)
        self.muted_until = max(self.muted_until, now + seconds)
        self.traffic.throttled(seconds, max(self.muted_until, now) - before)

    def _end(self, reason: KafkaError, ending: Ending = Ending.CUT, overdue_at: float = -math.inf) -> None:
        if self.closed:
            return
        self.closed = self.gate.has_ended = True
        self.close_reason = reason
        self.ending = Ending.IDLE if ending is Ending.CUT and self._was_quiet() else ending
        self.traffic.request_errors += len(self._pairing.waiting)
        try:
            self._alarm.stop()
            self._hang_up()
            self._quietly(self.gate.open_for_good)
        finally:
            self._tell(reason, overdue_at)

    def _tell(self, reason: KafkaError, overdue_at: float = -math.inf) -> None:
        """Call all handlers and callbacks; the next call goes on where memory was lacking in the middle."""
        waiting, callbacks = self._pairing.waiting, self._close_callbacks
        while waiting:
            sent = waiting[0]
            error = self._timed_out(sent.timeout) if sent.deadline <= overdue_at else reason
            call = partial(sent.handler.failed, error, written=True)
            waiting.popleft()
            self._quietly(call)
        optional = self._pairing.optional
        while optional:
            call = partial(next(iter(optional.values())).handler.failed, reason, written=True)
            del optional[next(iter(optional))]
            self._quietly(call)
        while callbacks:
            call = partial(callbacks[0], self)
            del callbacks[0]
            self._quietly(call)

    def _was_quiet(self) -> bool:
        return not self._pairing.waiting and self.loop.time() - self.last_used >= _QUIET

    def _hang_up(self) -> None:
        # Without its loop a transport cannot do anything; its finalizer then closes the socket, with a warning.
        if self.transport is not None and not self.loop.is_closed():
            self.transport.abort()
        self.transport = None

    def _quietly(self, call: Callable[[], None]) -> None:
        try:
            call()
        except Exception:
            if self.loop.is_closed():
                # No task can be woken: those that wait were destroyed with the loop.
                return
            self.log.exception(
                "a handler of the connection to broker %s failed while it was closed",
                self.broker,
                extra={"broker": self.broker},
            )

    # ------------------------------------------------------------------------------------------ out

    def free_at(self) -> float:
        """When the broker reads the next request, at the latest: behind the requests in flight, and a pause."""
        return max(self.loop.time(), self.muted_until, self._pairing.latest_deadline())

    @property
    def unsent(self) -> int:
        """The bytes that wait in the transport for room in the socket."""
        return 0 if self.transport is None else self.transport.get_write_buffer_size()

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
        On a connection that has ended nothing is written: the handler is called at once (`written=False`); where
        there is none, BrokerUnavailableError is raised.
        """
        transport = self.transport
        if transport is None or transport.is_closing():
            self._refuse(on_answer)
            return
        now = self.last_used = self.loop.time()
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
                extra={"broker": self.broker},
            )
            self._end(self._unavailable("a request could not be written", error))
            if on_answer is None:
                raise self._gone() from None

    def write_optional(self, correlation_id: int, request: bytes, on_answer: AnswerHandler) -> None:
        """Write a request whose answer may fail to come: it is not among those in flight, and has no time limit.

        On a connection that has ended nothing is written: the handler is called at once (`written=False`).
        """
        transport = self.transport
        if transport is None or transport.is_closing():
            self._refuse(on_answer)
            return
        now = self.last_used = self.loop.time()
        self.traffic.requests += 1
        self._pairing.expect_perhaps(
            SentRequest(correlation_id, on_answer, math.inf, math.inf, FRAME_LIMIT, len(request), now)
        )
        try:
            self.traffic.bytes_sent += hand_over(transport, (request,))
        except Exception as error:  # noqa: BLE001  # a part of it may be written: nothing can follow
            self._end(self._unavailable("a request could not be written", error.with_traceback(None)))

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
        self.transport = cast(asyncio.Transport, transport)
        self.gate.room(has_room=True)
        if self.closed:
            self._hang_up()

    def get_buffer(self, sizehint: int) -> memoryview:
        """asyncio: where to put what arrives."""
        return self.frames.writable()

    def buffer_updated(self, nbytes: int) -> None:
        """asyncio: so much was put there."""
        frames = self.frames
        frames.received(nbytes)
        self.reads += 1
        self.traffic.bytes_received += nbytes
        try:
            while not self.closed and (frame := frames.next_frame()) is not None:
                self._pair(frame)
        except ProtocolError as error:
            self.traffic.request_errors += 1
            # In place of an answer that the producer can do without, nonsense is no reason to think worse of the broker.
            ending = Ending.LEFT if self.has_optional and not self.in_flight else Ending.GIVEN_UP
            self._end(at_broker(error, self.broker).with_traceback(None), ending)
        except Exception as error:
            self.log.exception(
                "the handler of an answer from broker %s failed; closing the connection",
                self.broker,
                extra={"broker": self.broker},
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
        if self.close_reason is not None:
            self._tell(self.close_reason)
        self.transport = None
        self.frames.discard()

    def _left(self, exc: Exception | None) -> None:
        if self.departure.is_under_way and exc is None:
            self.close()
        else:
            self._end(self._unavailable(how_the_peer_left(exc, self.frames.missing, self._hint()), exc))

    def _hint(self) -> str:
        """The likely cause of an end at the first request, in an authentication, and at the first request after the opening."""
        if not self.answers:
            return " without an answer; its listener may want TLS"
        if self.authenticating and self.in_flight <= 1 and not self._pairing.has_unanswered:
            # Behind requests that are not answered, such as those of acks=0, it may be the end of one of them.
            return (
                f" during the authentication, at {self.authenticating}; some services do so in place of a refusal: "
                "check sasl_mechanism and the credentials"
            )
        if self.in_flight and self.answers == self.answers_at_opening and self.gate.session is None:
            return " at the first request; its listener may require SASL"
        return ""

    def pause_writing(self) -> None:
        """asyncio: the transport's buffer is above its high-water mark."""
        self.gate.room(has_room=False)

    def resume_writing(self) -> None:
        """asyncio: there is room again."""
        self.gate.room(has_room=True)

    def _pair(self, frame: memoryview) -> None:
        (correlation_id,) = _INT32.unpack_from(frame)
        sent: SentRequest | None = None
        try:
            sent = self._pairing.pair(correlation_id)
            if sent is None:
                self.remarks.unasked_answer()
                return
            now = self.last_used = self.answered_at = self.loop.time()
            self.answers += 1
            delay = now - sent.sent_at
            self._longest_delay = max(self._longest_delay, delay)
            self.traffic.request_time.add(delay)
            sent.handler.answered(frame)
        except BaseException:
            if sent is not None:
                self._not_answered(sent)
            raise

    def _not_answered(self, sent: SentRequest) -> None:
        """The answer could not be handled: its handler fails with the connection."""
        if self.closed:
            self._quietly(partial(sent.handler.failed, self._gone(), written=True))
        else:
            # The peer's next answer cannot be paired, where nothing else ends the connection before.
            self._pairing.waiting.appendleft(sent)

    # ------------------------------------------------------------------------------------------ time

    def earliest_deadline(self) -> float:
        """Of all requests that wait for their answer; infinite if there are none."""
        return self._pairing.earliest_deadline()

    def overdue(self, now: float) -> None:
        """A late answer would be paired with another request, so that nothing can follow on this connection."""
        reason = self._unavailable("the connection was closed because a request timed out")
        self._end(reason, Ending.GIVEN_UP, overdue_at=now)

    def longest_delay(self) -> float:
        """The longest time from a request to its answer since `take_longest_delay()`, also of those that still wait."""
        waiting = self._pairing.waiting
        return max(self._longest_delay, self.loop.time() - waiting[0].sent_at if waiting else 0.0)

    def take_longest_delay(self) -> float:
        """The same of the requests that were answered; the next call counts those after it."""
        longest, self._longest_delay = self._longest_delay, 0.0
        return longest

    # ------------------------------------------------------------------------------------------ words

    def _unavailable(self, text: str, cause: BaseException | None = None) -> BrokerUnavailableError:
        return BrokerUnavailableError(text, broker=self.broker, cause=cause)

    def _timed_out(self, timeout: float) -> BrokerUnavailableError:
        return self._unavailable(
            "request timed out", TimeoutError(f"no answer within {round(timeout, 3):g} s")
        )

    def _gone(self) -> KafkaError:
        # A copy, because raising adds a traceback, and with it every frame that it went through.
        reason = self.close_reason
        return copy.copy(reason) if reason else self._unavailable("the connection is about to be closed")

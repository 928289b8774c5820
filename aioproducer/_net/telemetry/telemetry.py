"""The telemetry task: pushes metrics to the broker of the control connection, if the broker asks for them (KIP-714)."""

from __future__ import annotations

import asyncio
import math
import uuid
from typing import TYPE_CHECKING, Any, Final, TypeVar

from aioproducer._net.connecting.connection.asking import optional_answer_to
from aioproducer._net.connecting.dialing import SOFTWARE_VERSION
from aioproducer._net.telemetry.reading import reading_of
from aioproducer._net.timers.wakeup import Wakeup, wake
from aioproducer._state.telemetry.payload import Payload, payload_of
from aioproducer._state.telemetry.readings import Interval, Ledger, Reading, metrics_of
from aioproducer._state.telemetry.registered import as_metric, complaint_about
from aioproducer._state.telemetry.schedule import NO_ID, Move, Schedule
from aioproducer._wire.apis import TELEMETRY_APIS, api_of
from aioproducer._wire.error_codes import describe
from aioproducer._wire.messages.get_telemetry_subscriptions import (
    GetTelemetrySubscriptionsRequest,
    GetTelemetrySubscriptionsResponse,
)
from aioproducer._wire.messages.push_telemetry import PushTelemetryRequest, PushTelemetryResponse
from aioproducer.errors import KafkaError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from aioproducer._net.connecting.connection.connection import Connection
    from aioproducer._net.runtime.engine import Engine
    from aioproducer._state.telemetry.registered import RegisteredMetric, RegisteredMetrics
    from aioproducer._state.telemetry.subscription import Subscription
    from aioproducer._wire.otlp import Attributes, Metric

SCOPE: Final = ("aioproducer", SOFTWARE_VERSION)
# The last push of a producer that closes takes at most so many seconds.
LAST_PUSH_LIMIT: Final = 1.0
# A request waits for the answers to the requests of others: this often it looks whether they are there.
LOOK_AGAIN: Final = 0.05
# No event says that the brokers accept the credentials again.
LOOK_AGAIN_AT_ADDRESSES: Final = 5.0
_END_OF_THE_PROGRAM = (KeyboardInterrupt, SystemExit)

R = TypeVar("R", GetTelemetrySubscriptionsResponse, PushTelemetryResponse)


def is_spoken_over(connection: Connection | None) -> bool:
    """Whether the broker of this connection takes metrics."""
    return connection is not None and connection.versions.chosen.keys() >= TELEMETRY_APIS


class Telemetry:
    """Asks which metrics are wanted, and pushes them; `engine.control` opens the connections, this task never does."""

    def __init__(
        self,
        engine: Engine,
        registered: Callable[[], RegisteredMetrics],
        began_at: float,
        counted_before: Reading | None,
    ) -> None:
        self.engine = engine
        # The producer has them, weakly: they refer to the program, and may refer to the producer.
        self.registered = registered
        self.log = engine.log
        self.loop = engine.loop
        self.schedule = Schedule(self.loop.time())
        # The wall clock at the start of the producer.
        age = self.loop.time() - began_at
        started_ns = engine.wall_ms() * 1_000_000 - round(age * 1e9)
        # The counters at that time: 0, but for a producer that was started before.
        self.at_start = counted_before or Reading(at=began_at, wall_ns=started_ns)
        self.ledger = Ledger(self.at_start)
        self.wakeup = Wakeup(self.loop)
        self.waiters: list[asyncio.Future[None]] = []
        self.has_ended = False
        # No request before this time: the broker throttles this client.
        self.muted_until = -math.inf
        self._is_closing = False
        self._has_told_of_size = False

    # -- the task

    async def run(self) -> None:
        """Send each request when it is due, over the control connection; ends with the telemetry."""
        try:
            while not (self.schedule.is_over or self._is_closing):
                await self._next()
        finally:
            self.has_ended = True
            self.wakeup.silence()
            self._wake_waiters()

    async def _next(self) -> None:
        connection = self._connection()
        due_at = max(self.schedule.at, self.muted_until)
        if self.loop.time() < due_at:
            self.wakeup.by(due_at)
            await self.wakeup.wait()
        elif connection is None:
            if self.engine.addresses.are_not_accepted():
                self.wakeup.by(self.loop.time() + LOOK_AGAIN_AT_ADDRESSES)
            await self.wakeup.wait()
        elif connection.in_flight:
            # Others would open a connection of their own rather than wait behind a request of this task.
            self.wakeup.by(self.loop.time() + LOOK_AGAIN)
            await self.wakeup.wait()
        else:
            try:
                await self._send(connection)
            except Exception:  # telemetry never ends a producer, whatever is wrong with it
                self.log.debug("telemetry failed; it is tried again after the interval", exc_info=True)
                self.schedule.later(self.loop.time())
            self._wake_waiters()

    def connected(self) -> None:
        """There is a new control connection."""
        self.wakeup.ring()

    def _connection(self) -> Connection | None:
        control = self.engine.control
        if not control.is_connected or self.engine.addresses.are_not_accepted():
            # A request without an answer would close a connection that may be the last one.
            return None
        return control.connection if is_spoken_over(control.connection) else None

    async def _send(self, connection: Connection) -> None:
        if self.schedule.move is Move.ASK:
            await self._ask_for_subscription(connection)
        else:
            await self._push(connection, is_last=False)

    # -- the requests

    async def _ask_for_subscription(self, connection: Connection) -> None:
        self.schedule.asking(self.loop.time())
        request = GetTelemetrySubscriptionsRequest(self.schedule.client_instance_id)
        answer = await self._answer(connection, request, GetTelemetrySubscriptionsResponse)
        if answer is None:
            self.schedule.later(self.loop.time())
            return
        self._log_refusal(Move.ASK, answer.error_code)
        if self.schedule.told(answer, self.loop.time(), self.engine.rng.random()):
            self.log.info(
                "the cluster asks for client metrics: %s (client instance id %s); enable_metrics_push=False sends none",
                self.schedule.subscription,
                uuid.UUID(bytes=self.schedule.client_instance_id),
            )

    async def _push(self, connection: Connection, *, is_last: bool) -> None:
        subscription = self.schedule.subscription
        assert subscription is not None  # noqa: S101  # the schedule pushes nothing without one
        payload = self._payload(subscription)
        if payload is None:
            self._not_taken()
            self.schedule.later(self.loop.time())
            return
        request = PushTelemetryRequest(
            self.schedule.client_instance_id, subscription.id, is_last, payload.compression_type, payload.data
        )
        answer = await self._answer(connection, request, PushTelemetryResponse)
        if answer is None:
            # The broker may have taken it: its values are not pushed twice.
            self.schedule.later(self.loop.time())
            return
        self._log_refusal(Move.PUSH, answer.error_code)
        if not self.schedule.pushed(answer.error_code, self.loop.time()):
            self._not_taken()

    def _not_taken(self) -> None:
        self.ledger.refused()
        self.registered().refused()

    def _log_refusal(self, move: Move, code: int) -> None:
        if code:
            self.log.debug("the broker refused %s: %s (error %d)", move.value, describe(code), code)

    async def _answer(
        self, connection: Connection, message: tuple[Any, ...], response_type: type[R]
    ) -> R | None:
        """The answer; None, and a DEBUG line, if there is none or it cannot be read."""
        limit = self.engine.config.request_timeout_ms / 1000
        name = api_of(response_type).name
        try:
            answer: R = await optional_answer_to(connection, message, response_type, timeout=limit)
        except TimeoutError:
            self.log.debug("broker %s did not answer %s within %g s", connection.broker, name, limit)
        except KafkaError as error:
            self.log.debug("no answer to %s: %s", name, error)
        else:
            self._heed_throttling(connection, answer.throttle_time_ms)
            return answer
        finally:
            self._leave(connection)
        return None

    def _heed_throttling(self, connection: Connection, milliseconds: int) -> None:
        """The broker reads nothing from this connection for so long: `engine.control` opens another one when it needs one."""
        if milliseconds > 0:
            connection.mute(milliseconds / 1000)
            self.muted_until = connection.muted_until

    def _leave(self, connection: Connection) -> None:
        """Have a new connection made in place of one that ended; close one whose place was taken meanwhile."""
        if connection is not self.engine.control.connection:
            connection.close()
        elif connection.closed:
            self.engine.cluster.stale(None)

    # -- the metrics

    def _payload(self, subscription: Subscription) -> Payload | None:
        interval = self.ledger.interval(reading_of(self.engine))
        self.at_start = self.at_start.before(interval.after)
        standard = list(
            metrics_of(interval, self.at_start, is_delta=subscription.is_delta, wants=subscription.wants)
        )
        registered = list(self._read_registered(subscription, interval))
        payload = payload_of(subscription, self._resource(), SCOPE, standard, registered)
        if payload is None or (registered and not payload.has_registered):
            self._log_size(subscription, payload)
        if payload is not None and not payload.has_registered:
            self.registered().refused()
        return payload

    def _resource(self) -> Attributes:
        # init_transactions() may change the id.
        transactions = self.engine.transactions
        transactional_id = None if transactions is None else transactions.transactional_id
        return resource_of(transactional_id, self.engine.config.client_rack)

    def _log_size(self, subscription: Subscription, payload: Payload | None) -> None:
        if not self._has_told_of_size:
            self._has_told_of_size = True
            dropped = "nothing is pushed" if payload is None else "those of register_metric() are left out"
            self.log.warning(
                "the client metrics are longer than the %d bytes that the broker takes: %s",
                subscription.max_bytes,
                dropped,
            )

    def _read_registered(self, subscription: Subscription, interval: Interval) -> Iterator[Metric]:
        for metric in self.registered().wanted(subscription.wants):
            try:
                found = self._read(metric, subscription, interval)
            except _END_OF_THE_PROGRAM:
                raise
            except BaseException as error:  # noqa: BLE001  # code of the application
                if metric.is_first_complaint():
                    self.log.warning("the metric %s is left out: %r", metric.name, error)
            else:
                yield found

    def _read(self, metric: RegisteredMetric, subscription: Subscription, interval: Interval) -> Metric:
        began = self.loop.time()
        value = metric.read()
        complaint = complaint_about(self.loop.time() - began)
        if complaint is not None:
            raise ValueError(complaint)
        point = metric.point(
            value,
            self.at_start.wall_ns,
            interval.before.wall_ns,
            interval.after.wall_ns,
            is_delta=subscription.is_delta,
        )
        return as_metric(metric, point, is_delta=subscription.is_delta)

    # -- callers

    async def close(self, limit: float) -> None:
        """Make the last push, for at most so many seconds, and end."""
        connection = self._connection()
        self._is_closing = True
        try:
            if connection is not None and self.schedule.owes_a_last_push:
                async with asyncio.timeout(min(limit, LAST_PUSH_LIMIT)):
                    await self._push(connection, is_last=True)
        except TimeoutError:
            self.log.debug("broker %s did not answer the last push of metrics in time", connection)
        except Exception:  # close() goes on
            self.log.debug("the last push of metrics failed", exc_info=True)
        finally:
            self.schedule.stop()
            self.wakeup.ring()

    async def instance_id(self) -> uuid.UUID | None:
        """The id that the cluster gave to this producer, when it is known; None if the telemetry has ended without one."""
        while self.schedule.client_instance_id == NO_ID:
            if self.has_ended:
                return None
            waiter = self.loop.create_future()
            self.waiters.append(waiter)
            try:
                await waiter
            finally:
                if waiter in self.waiters:
                    self.waiters.remove(waiter)
        return uuid.UUID(bytes=self.schedule.client_instance_id)

    def _wake_waiters(self) -> None:
        waiters, self.waiters = self.waiters, []
        for waiter in waiters:
            wake(waiter)


def resource_of(transactional_id: str | None, rack: str | None) -> Attributes:
    """The attributes of all metrics of a producer."""
    named = {"transactional_id": transactional_id, "client_rack": rack}
    return tuple((key, value) for key, value in named.items() if value is not None)

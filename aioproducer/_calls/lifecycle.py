"""The lifecycle of a producer: its start, its end, and whether a call may be made."""

from __future__ import annotations

import asyncio
import atexit
import os
import random
import warnings
import weakref
from asyncio.events import _get_running_loop  # asyncio's own low-level form: None where no loop runs
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Generic, Self

from aioproducer import _core
from aioproducer._callers.loading import load
from aioproducer._calls.task_owners import TaskOwners
from aioproducer._core import Clock, SendPath
from aioproducer._deferred import deferred
from aioproducer._net.observing.not_running import FORKED
from aioproducer.config import ProducerConfig, require_config
from aioproducer.config.seconds import checked_timeout
from aioproducer.errors import KafkaError, StateError
from aioproducer.records import CloseReport

if TYPE_CHECKING:
    from collections.abc import Callable

    from typing_extensions import TypeVar

    from aioproducer._calls import running
    from aioproducer._net.accepting.bulk_intake import BulkIntake
    from aioproducer._net.accepting.intake import Intake
    from aioproducer._net.connecting.dialing import Network
    from aioproducer._net.observing.counters import Counters
    from aioproducer._net.runtime.engine import Engine
    from aioproducer._net.telemetry.start import TelemetryStart
    from aioproducer._state.delivery.tally import Totals
    from aioproducer._state.telemetry.registered import RegisteredMetrics
    from aioproducer._state.transactions import table
    from aioproducer.records import BytesLike

    # Without serializers keys and values are bytes-like.
    K_contra = TypeVar("K_contra", default=BytesLike, contravariant=True)
    V_contra = TypeVar("V_contra", default=BytesLike, contravariant=True)
else:
    from typing import TypeVar

    running = deferred("aioproducer._calls.running")
    table = deferred("aioproducer._state.transactions.table")
    K_contra = TypeVar("K_contra", contravariant=True)
    V_contra = TypeVar("V_contra", contravariant=True)


SHORTLY = 0.2
# close() logs its remaining work after so many seconds.
WORTH_A_LINE = 1.0
STARTED_ONCE = (
    "the producer was closed, and can be started once only: create a new one where it is started, not at module level "
    "(Producer.from_config(producer.config) has the same settings)"
)

os.register_at_fork(after_in_child=_core.forked) if hasattr(os, "register_at_fork") else None

_ENGINE: Final = ("aioproducer._calls.running",)
_SECURITY: Final = ("aioproducer._net.securing.protocol",)
_TRANSACTIONS: Final = (
    "aioproducer._net.transactions.transactions",
    "aioproducer._state.transactions.current",
    "aioproducer._state.transactions.ownership",
)

# Running producers: those left at the end of the interpreter were never closed.
_running: weakref.WeakSet[Lifecycle[Any, Any]] = weakref.WeakSet()


@atexit.register
def _tell_what_is_left() -> None:
    """Records that will never be sent are logged, with their count."""
    for producer in list(_running):
        producer._tell_losses("the program ended without close()")  # noqa: SLF001  # its own


class Lifecycle(SendPath[K_contra, V_contra], Generic[K_contra, V_contra]):
    """The states of a producer: new, running, closing, closed or failed. It has an engine from its start on."""

    config: ProducerConfig
    close_report: CloseReport | None
    if TYPE_CHECKING:
        # The network that connections are opened in; None: sockets.
        _network: Network | None
        # The records that had their outcome when close() began.
        _before_close: Totals
    else:
        _network = None

    def _set_up(self, config: ProducerConfig) -> None:
        try:
            require_config(config)
            self.config = config
        finally:
            # No frame of a traceback keeps a mapping of settings.
            del config
        self.close_report = None
        self._state = "new"
        self._engine: Engine | None = None
        self._intake: Intake | None = None
        self._bulk: BulkIntake | None = None
        self._cause: BaseException | None = None
        self._closing: asyncio.Future[None] | None = None
        self._losses_told = False
        self._owners = TaskOwners()
        self._last_looks: tuple[Callable[[Any], object], ...] = ()
        # Listeners beside those of the setting.
        self._listeners: tuple[Any, ...] = ()
        self._registered: RegisteredMetrics | None = None
        self._telemetry: TelemetryStart | None = None

    async def start(self, *, wait_ready: float | None = None) -> None:
        """Bind to the running loop and start the background task; works with every broker down.

        With `wait_ready`, wait at most so many seconds until one broker has answered, or raise the reason.
        """
        # Before all checks: other calls may come meanwhile.
        await load(*engine_modules(self.config))
        if self._state in ("running", "closing"):
            if not self._same_process():
                raise StateError(FORKED)
            raise StateError(f"the producer is already {self._state}")
        if self._state == "closed":
            raise StateError(STARTED_ONCE)
        timeout = checked_timeout("wait_ready", wait_ready)
        engine = self._begin(asyncio.get_running_loop())
        try:
            await engine.supervisor.begun()
            if self._intake is not None:
                self._intake.serializing.warm(self.config.topics)
            if timeout is not None:
                await self.ready(timeout)
        except BaseException:
            await self._undo_start()
            raise

    def _begin(self, loop: asyncio.AbstractEventLoop) -> Engine:
        clock = self._clock_for(loop)
        # The tasks hold the producer weakly: one that is dropped without close() is noticed, and ends.
        me = weakref.proxy(self)
        rng = random.Random()  # noqa: S311  # jitter, not secrets
        counters = self._counters_of_start()
        engine = running.Engine(
            self.config,
            me,
            loop,
            rng,
            wall_ms=lambda: me._wall_ms(),  # noqa: PLW0108, SLF001
            counters=counters,
            network=self._network or running.SOCKETS,
        )
        # Calls user code, such as `for_producer()` of a partitioner: its exception must not leave a partial state.
        intake = self._intake_of(engine, lambda: me._pace(), lambda: me._still_taking())  # noqa: PLW0108, SLF001
        self._bind(engine.accumulator.cluster.topics, clock, loop, _get_running_loop, self._largest_record())
        self._owners.entries.clear()
        self._follow_tasks(self._owners.entries, asyncio.current_task, engine.tally.told_now)
        engine.uncounted_before = self._accepted_records - engine.tally.ended
        self._telemetry = None
        if self.config.enable_metrics_push:
            self._telemetry = running.TelemetryStart(engine, lambda: me._registered_metrics())  # noqa: PLW0108, SLF001
        for listener in self._listeners:
            engine.add_listener(listener)
        self._before_close = running.Totals()
        # The intake first: another thread that finds an engine must find its intake.
        self._intake = intake
        self._engine = engine
        self._bulk = running.BulkIntake(self._intake, me)
        self._plain = self._intake.answers_at_once
        self._serialize_key = intake.serializing.key
        self._serialize_value = intake.serializing.value
        self._choose = None if intake.partitioner is None else intake.choose_now
        self._intercept = intake.intercept if intake.intercepts_at_once else None
        self._report_outcome = intake.watch
        self._traces = intake.contexts.exist
        if self._traces and self._plain:
            # The fast path of such a producer begins with the context.
            self._plain, self._context_of_call = False, intake.contexts.ask
        self._cause = None
        self._state = "running"
        _running.add(self)
        if engine.transactions is not None:
            engine.transactions.accepting_changed = lambda: me._update_accepting()  # noqa: PLW0108, SLF001
            engine.transactions.queued = lambda: list(me._intake.queued)  # noqa: SLF001
        self._update_accepting()
        engine.on_death = _weakly(self)
        for topic in self.config.topics:
            engine.cluster.want(topic)
        # Last: an eager task runs at once, as far as it gets.
        try:
            engine.supervisor.start()
        except BaseException:
            self._accepting = False
            self._state = "new"
            raise
        return engine

    def _counters_of_start(self) -> Counters:
        """New counters at the first start; later, those of the former engine: no counter of a producer goes back."""
        if self._engine is None:
            return running.Counters()
        self._engine.counters.begin_again()
        return self._engine.counters

    def _clock_for(self, loop: asyncio.AbstractEventLoop) -> Clock:
        """The clock of the compiled core, which agrees with that of the loop."""
        del loop
        return Clock()

    def _intake_of(self, engine: Engine, pace: Callable[[], bool], usable: Callable[[], object]) -> Intake:
        """The object for the records that the fast path leaves."""
        return running.Intake(engine, pace, usable)

    def _add_listener(self, listener: object) -> None:
        """Call `on_batch(report)` of a listener that is not in the settings, from the next report on."""
        self._listeners += (listener,)
        if self._engine is not None:
            self._engine.add_listener(listener)

    def _remove_listener(self, listener: object) -> None:
        """Undo `_add_listener`."""
        self._listeners = tuple(one for one in self._listeners if one is not listener)
        if self._engine is not None:
            self._engine.listeners.remove(listener)

    def _update_accepting(self) -> None:
        """Records are taken while the producer runs, of a transactional one only within a transaction."""
        engine = self._engine
        transactions = None if engine is None else engine.transactions
        self._accepting = self._state == "running" and (transactions is None or transactions.table.is_open)

    def _registered_metrics(self) -> RegisteredMetrics:
        """The metrics of the application that are pushed."""
        if self._registered is None:
            # Most producers never need it.
            from aioproducer._state.telemetry.registered import RegisteredMetrics  # noqa: PLC0415

            self._registered = RegisteredMetrics()
        return self._registered

    def _largest_record(self) -> int:
        return min(self.config.max_request_size, self.config.buffer_memory)

    async def _undo_start(self) -> None:
        engine = self._engine
        assert engine is not None  # noqa: S101  # start() made it
        if self._state in ("running", "failed"):  # otherwise another call closes it
            self._accepting = False
            self._state = "new"
        engine.supervisor.stop()
        if self._intake is not None:
            self._intake.serializing.close_made()
        if engine.supervisor.task is not None:
            await asyncio.wait([engine.supervisor.task])
        await self._serializers_closed(SHORTLY)

    async def ready(self, timeout: float | None = None) -> None:
        """Wait at most `timeout` seconds until one broker has answered, or raise the reason.

        The topics of the setting `topics` are known then, if they exist.
        """
        engine = self._running()
        await running.first_answer(engine, checked_timeout("timeout", timeout), self._running)

    def _died(self, cause: BaseException) -> None:
        self._accepting = False
        if self._state != "closing" and self._engine is not None:
            # The report of close() begins here: records with an earlier outcome were not lost by the end.
            self._before_close = self._engine.tally.totals
        self._cause = cause
        self._state = "failed"

    def _running(self) -> Engine:
        """The engine, or the reason why there is none to be used from here."""
        engine = self._engine
        if engine is None or self._state in ("new", "closed", "failed"):
            raise self._not_running()
        if engine.supervisor.crashed is not None:
            raise ended(engine.supervisor.crashed)
        if not self._same_process():
            raise StateError(FORKED)
        if not self._same_thread():
            raise StateError("the producer runs in another thread: use send_threadsafe() from here")
        if engine.loop is not _get_running_loop():
            raise StateError("the producer belongs to another event loop: create one per loop")
        return engine

    def _not_running(self) -> KafkaError:
        if self._state == "failed":
            return ended(self._cause)
        if self._state == "closed":
            return StateError("the producer was closed")
        return StateError(
            "the producer was not started: use `async with producer:` or `await producer.start()`"
        )

    def _taking(self) -> Engine:
        engine = self._running()
        if self._state != "running":
            raise StateError("the producer is closing and accepts no more records")
        return engine

    def _still_taking(self) -> None:
        """The same check again, after user code ran in the middle of a call: the call stays in its thread and loop."""
        if not self._accepting or not self._same_process():
            self._taking()

    def _usable(self) -> Engine:
        engine = self._taking()
        if engine.transactions is not None:
            engine.transactions.table.check(table.Event.SEND)
        self._note_task()
        return engine

    async def close(self, timeout: float | None = None) -> CloseReport:
        """Stop accepting, send the buffered records, wait for answers; always returns within `timeout` seconds.

        The default is the setting `close_timeout_ms`. Every remaining delivery is resolved. A second call waits for the
        first, and shortens it if its own limit is shorter.
        """
        timeout = checked_timeout("timeout", timeout)
        if self._state == "new":
            self._state = "closed"
            self.close_report = CloseReport()
            if self._intake is not None:
                # A start that failed may have begun to prepare them.
                self._intake.serializing.close()
        if self._state in ("closed", "failed") and self._closing is None:
            report = self._closed_before()
            limit = self.config.close_timeout_ms / 1000 if timeout is None else timeout
            await self._serializers_closed(max(limit, SHORTLY))
            return report
        self._check_closable()
        timeout = self.config.close_timeout_ms / 1000 if timeout is None else timeout
        if self._closing is None:
            return await self._close(timeout)
        await asyncio.wait([self._closing], timeout=timeout)
        if not self._closing.done():
            self._finish("close() ran out of time")
        return self.close_report or CloseReport()

    def _check_closable(self) -> None:
        engine = self._engine
        assert engine is not None  # noqa: S101  # the producer was started
        if not self._same_process():
            raise StateError(
                "this process was forked after the producer was started: there is nothing to close here"
            )
        if not self._same_thread() or engine.loop is not _get_running_loop():
            raise StateError("call close() from the thread and event loop that called start()")

    def _closed_before(self) -> CloseReport:
        if self._state == "failed" and self.close_report is None:
            self._report_close(None)
        self._state = "closed"
        return self.close_report or CloseReport()

    async def _close(self, timeout: float) -> CloseReport:
        engine = self._engine
        assert engine is not None  # noqa: S101  # the producer was started
        assert self._intake is not None  # noqa: S101  # made with the engine
        self._closing = engine.loop.create_future()
        self._accepting = False
        self._state = "closing"
        self._before_close = engine.tally.totals
        until = engine.loop.time() + timeout
        engine.refuse_callers()
        long = engine.loop.call_later(WORTH_A_LINE, running.log_waits, engine, self._intake, until)
        try:
            if timeout > 0:
                async with asyncio.timeout(timeout):
                    if engine.transactions is not None:
                        await engine.transactions.wind_up(timeout)
                    engine.accumulator.drain_all(engine.loop.time())
                    await running.resolved(engine, self._intake)
                    if not engine.acks:
                        await engine.brokers.handed_over()
                    if self._telemetry is not None:
                        # All records have their outcome: there is nothing left to log.
                        long.cancel()
                        await self._telemetry.close(until - engine.loop.time())
        except TimeoutError:
            pass
        finally:
            long.cancel()
            self._finish("close() ran out of time")
        # Both end at once, unless a serializer ignores its cancellation, or is slow to close.
        until = max(until, engine.loop.time() + SHORTLY)
        if engine.supervisor.task is not None:
            await asyncio.wait([engine.supervisor.task], timeout=until - engine.loop.time())
        await self._serializers_closed(until - engine.loop.time())
        return self.close_report or CloseReport()

    async def _serializers_closed(self, timeout: float) -> None:
        closing = None if self._engine is None else self._engine.preparing.closing
        if closing is not None and closing.get_loop() is _get_running_loop():
            await asyncio.wait([closing], timeout=timeout)

    def _finish(self, text: str) -> None:
        engine = self._engine
        if self._state == "closed" or engine is None:
            return
        assert self._intake is not None  # noqa: S101  # made with the engine
        left = running.waits_for(engine, self._intake)
        engine.give_up(text, None)
        engine.supervisor.stop()
        self._report_close(left)
        self._state = "closed"
        if self._closing is not None and not self._closing.done():
            self._closing.set_result(None)

    def _report_close(self, waited_for: str | None) -> None:
        assert self._engine is not None  # noqa: S101  # the producer was started
        assert self._intake is not None  # noqa: S101  # made by start()
        self.close_report = running.report_of_close(
            self._engine, self._intake, self._before_close, waited_for
        )

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    def _at_end(self, last_look: Callable[[Any], object]) -> None:
        """Call this with the producer when it is garbage-collected, in any thread; it must not raise."""
        self._last_looks += (last_look,)

    def __del__(self) -> None:
        for last_look in getattr(self, "_last_looks", ()):
            last_look(self)
        engine = getattr(self, "_engine", None)
        if engine is None or self._state not in ("running", "closing") or not self._same_process():
            return
        warnings.warn(f"{self!r} was never closed", ResourceWarning, source=self, stacklevel=1)
        self._tell_losses("the producer was garbage-collected without close()")
        gone = StateError("the producer was garbage-collected without close()")
        if not engine.loop.is_closed():
            engine.loop.call_soon_threadsafe(engine.crash, gone)
        elif self._same_thread():
            engine.settle_without_loop(gone)

    def _tell_losses(self, what: str) -> None:
        """Log the number of records that will not be sent, once."""
        engine = self._engine
        if engine is None or self._state not in ("running", "closing") or not self._same_process():
            return
        assert self._intake is not None  # noqa: S101  # made with the engine
        if not self._losses_told:
            self._losses_told = running.log_losses(engine, self._intake, what)


def engine_modules(config: ProducerConfig) -> tuple[str, ...]:
    """The modules of a producer with these settings that are loaded when it starts."""
    security = () if config.security_protocol == "PLAINTEXT" else _SECURITY
    return _ENGINE + security + (() if config.transactional_id is None else _TRANSACTIONS)


def _weakly(producer: Lifecycle[Any, Any]) -> Callable[[BaseException], None]:
    """Tell the producer of the death of its tasks, if it is still there."""
    reference = weakref.ref(producer)

    def died(cause: BaseException) -> None:
        found = reference()
        if found is not None:
            found._died(cause)  # noqa: SLF001  # its own news

    return died


def ended(cause: BaseException | None) -> KafkaError:
    """The error of every call after the end of the background task, or shortly before it."""
    return running.denied(cause) or StateError(
        "the producer's background task has ended; close the producer and create a new one", cause=cause
    )

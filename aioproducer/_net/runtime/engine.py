"""The engine: a producer between `start()` and `close()`, and the outcome of what remains at its end."""

from __future__ import annotations

import contextlib
import copy
from functools import partial
from typing import TYPE_CHECKING, Any

from aioproducer._callers.loading import load
from aioproducer._callers.threads import require_loop
from aioproducer._codecs import CODECS
from aioproducer._deferred import deferred
from aioproducer._net.cluster.control import Control
from aioproducer._net.cluster.metadata_task import Cluster
from aioproducer._net.connecting.addresses import Addresses
from aioproducer._net.connecting.connection.ends import Ending
from aioproducer._net.connecting.contact import Contact
from aioproducer._net.connecting.dialing import SOCKETS, Network
from aioproducer._net.connecting.security import PLAINTEXT
from aioproducer._net.log import log_of
from aioproducer._net.observing.batch_reports import BatchReporter, address_of
from aioproducer._net.observing.fault_log import FaultLog
from aioproducer._net.observing.listeners import Listeners
from aioproducer._net.observing.unseen import UnseenFailures
from aioproducer._net.producing.brokers import Brokers
from aioproducer._net.producing.compression import Compressor
from aioproducer._net.producing.producer_id import IdentitySource
from aioproducer._net.runtime.dispatch import Dispatcher
from aioproducer._net.runtime.flushes import Flushes
from aioproducer._net.runtime.preparing import Preparing
from aioproducer._net.runtime.supervisor import Supervisor
from aioproducer._net.runtime.timekeeper import Timekeeper
from aioproducer._net.timers.wakeup import Wakeup
from aioproducer._state.backoff import Backoff
from aioproducer._state.batching.limits import Limits
from aioproducer._state.cluster.metadata import MetadataView
from aioproducer._state.machines import Machines
from aioproducer.errors import (
    AuthenticationError,
    AuthorizationError,
    BufferFullError,
    DeliveryError,
    KafkaError,
    MetadataTimeoutError,
    StateError,
    TransactionError,
    error_name,
)
from aioproducer.outcome import Outcome
from aioproducer.partitioners import bind as bind_partitioner

RESOLVER = "aioproducer._net.resolving.resolver"

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable
    from random import Random

    from aioproducer._net.connecting.connection.connection import Connection
    from aioproducer._net.observing.counters import Counters
    from aioproducer._net.producing.sender import Sender
    from aioproducer._net.resolving import resolver
    from aioproducer._net.securing import protocol
    from aioproducer._net.tasks import Tasks
    from aioproducer._net.transactions import transactions
    from aioproducer._state.admission.waiting import Appender, Waiting
    from aioproducer._state.effects import Settled
    from aioproducer._state.queues.batches import QueuedBatch
    from aioproducer.config import ProducerConfig
    from aioproducer.records import Resolution
else:
    resolver = deferred(RESOLVER)
    # Both are loaded by start(), where the settings need them.
    protocol = deferred("aioproducer._net.securing.protocol")
    transactions = deferred("aioproducer._net.transactions.transactions")


class Engine:
    """A producer between `start()` and `close()`: the machines of `_state`, and the tasks that serve them."""

    def __init__(
        self,
        config: ProducerConfig,
        appender: Appender,
        loop: asyncio.AbstractEventLoop,
        rng: Random,
        *,
        wall_ms: Callable[[], int],
        counters: Counters,
        network: Network = SOCKETS,
    ) -> None:
        self.config = config
        self.log = log_of(config.client_id)
        self.loop = loop
        self.rng = rng
        self.wall_ms = wall_ms
        self.acks = config.acks
        self.unseen = UnseenFailures(self.log)
        self.fault_log = FaultLog(lambda: self.stalls.recent, self.log)
        self.tracer = tracer_of(config)
        self.listeners = Listeners((*config.listeners, self.tracer), loop, self.log)
        self.counters = counters
        # The stalls of the loop that the timekeeper noticed.
        self.stalls = counters.stalls
        # Records that the producer had accepted before this engine was made, and whose outcome a bug left uncounted.
        self.uncounted_before = 0
        self.supervisor = Supervisor(
            loop, begin=self._begin, before_end=self._let_go, end=self._end, after=self._ended
        )
        self.preparing = Preparing(loop, self.crash, preparation_limit(config), self.log)
        self.view = MetadataView(
            max_age=config.metadata_max_age_ms / 1000,
            max_idle=config.metadata_max_idle_ms / 1000,
            backoff=Backoff(config.retry_backoff_ms / 1000, config.retry_backoff_max_ms / 1000),
            rebootstrap_after=rebootstrap_after(config),
        )
        self.machines = Machines(
            limits_of(config),
            appender,
            self.view,
            rng,
            buffer_memory=config.buffer_memory,
            retries=config.retries,
            backoff=Backoff(config.retry_backoff_ms / 1000, config.retry_backoff_max_ms / 1000),
            idempotent=config.enable_idempotence,
            transactional_id=config.transactional_id,
            transaction_timeout=config.transaction_timeout_ms / 1000,
            one_at_a_time=config.max_in_flight_requests_per_connection == 1,
            gapless=config.gapless,
            loop=loop,
            unseen_log=self.unseen.batches,
            tally=counters.tally,
            waits=counters.waits,
        )
        self.effects = self.machines.effects
        self.tally = self.machines.tally
        self.sequences = self.machines.sequences
        self.accumulator = self.machines.accumulator
        self.admission = self.machines.admission
        self.machines.call_expiry.unprepared = self.preparing.preparations.trouble
        self.accumulator.withdraw = partial(_withdraw_here, loop, self.accumulator.withdraw)
        is_plain = config.security_protocol == "PLAINTEXT"
        security = PLAINTEXT if is_plain else protocol.security_of(config, loop, rng)
        self.addresses = Addresses(config, loop, rng, security, network)
        self.addresses.on_ended = self._connection_ended
        self.control: Control = Control(self, Contact(self.log), counters.metadata)
        self.senders: dict[int, Sender] = {}
        self.cluster = Cluster(self, self.machines, self.senders)
        self.identity = IdentitySource(self, self.machines)
        current = self.machines.transaction
        self.transactions = (
            None if current is None else transactions.Transactions(self, current, counters.transactions)
        )
        self.timekeeper = Timekeeper(self)
        self.dispatcher = Dispatcher(self)
        self.wakeup = Wakeup(loop, self.timekeeper.on_alarm, self.supervisor.context)
        self.brokers = Brokers(
            self,
            self.machines,
            self.cluster,
            self.transactions,
            self.senders,
            counters.brokers,
            on_connection=self.listeners.on_connection,
            look_after=self.supervisor.look_after,
            compress=self.dispatcher.compress,
            crash=self.crash,
        )
        self.flushes = Flushes(self.machines, loop)
        self.accumulator.resolve = self._resolve
        # Made when it is first needed.
        self._resolver: resolver.Resolver | None = None
        self.on_death: Callable[[BaseException], None] | None = None
        self.compressor: Compressor | None = None
        self.control.history.on_change = self.listeners.on_connection
        self.batch_reporter: BatchReporter | None = None
        self._report_batches()

    def add_listener(self, listener: object) -> None:
        """Call this listener with each later report of a batch."""
        self.listeners.add(listener)
        self._report_batches()

    def _report_batches(self) -> None:
        if self.listeners.on_batch is not None and self.batch_reporter is None:
            self.batch_reporter = BatchReporter(self.view, self.wall_ms, self.listeners.on_batch)
            self.effects.reports_outcomes = True

    @property
    def tasks(self) -> Tasks | None:
        """The tasks that end with the producer; None before it began, and after its end."""
        return self.supervisor.tasks

    @property
    def crashed(self) -> BaseException | None:
        """The cause of the end of the producer, if it ends because of a bug, or cannot go on."""
        return self.supervisor.crashed

    def crash(self, cause: BaseException) -> None:
        """End the producer because of a bug that showed outside its tasks."""
        self.supervisor.crash(cause)

    # -- lifecycle

    def _begin(self, tasks: Tasks) -> None:
        look_after = self.supervisor.look_after
        self._set_up_compression(tasks)
        look_after("accumulator", self.timekeeper.run)
        look_after("metadata", self.cluster.run)
        if self.transactions is not None:
            look_after("transactions", self.transactions.run)
        elif self.config.enable_idempotence:
            look_after("identity", self.identity.run)

    def _let_go(self) -> None:
        if self.transactions is not None:
            self.transactions.steps.let_go()

    async def _ended(self) -> None:
        await self.preparing.ended()

    def _end(self, cause: BaseException | None) -> None:
        if self.supervisor.stopping:
            self.give_up("the producer was closed", None)
        else:
            self._die(cause if cause is not None else StateError("the producer's tasks ended unexpectedly"))
        self.accumulator.waker.finish()
        self.unseen.report_all()
        self.wakeup.silence()
        self.cluster.close()
        self.control.end()
        self.addresses.close()
        self.listeners.deliver()
        self.tally.forget_batches()

    def _die(self, cause: BaseException) -> None:
        bug = cause if isinstance(cause, Exception) and not isinstance(cause, KafkaError) else None
        self.log.error(
            "producer stopped: its background task ended; %d unresolved records failed: %r",
            self.unresolved(),
            cause,
            exc_info=bug,
            extra={"records": self.unresolved(), "error": error_name(cause)},
        )
        self.last_error = cause
        # First of all: a callback below may try to send the next record at once.
        if self.on_death is not None:
            self.on_death(cause)
        self.give_up("the producer's background task was ended", cause)

    def unresolved(self) -> int:
        """The number of accepted records without an outcome."""
        return sum(batch.pending for batch in self.accumulator.live)

    def refuse_callers(self) -> None:
        """The producer closes: calls that still wait to be accepted are refused."""

        def closing(call: Waiting) -> KafkaError:
            return StateError("the producer was closed before the record was accepted", topic=call.topic)

        self.admission.refuse_all(closing, but_queued=True)

    def give_up(self, text: str, cause: BaseException | None) -> None:
        """Every record and every waiting call gets its outcome now."""

        def closed(call: Waiting) -> KafkaError:
            return denied(cause) or StateError(
                f"{text} before the record was accepted", topic=call.topic, cause=cause
            )

        if self.transactions is not None:
            self.transactions.give_up(denied(cause) or StateError(text, cause=cause))
        self.note_reach()
        try:
            self.effects.event(self._end_all, closed, text, cause)
        except Exception as bug:
            # The state may be inconsistent, as after the error that ended the producer. No call may wait without end
            # because of it.
            self.log.exception("settling the remaining records failed")
            for batch in self.accumulator.live:
                if not batch.settled:
                    batch.fail(DeliveryError(text, topic=batch.topic, outcome=Outcome.UNKNOWN, cause=bug))
        self.flushes.end_all()

    def _end_all(
        self, closed: Callable[[Waiting], KafkaError], text: str, cause: BaseException | None
    ) -> None:
        self.admission.refuse_all(closed)
        self.machines.endings.abandon(text, cause, self.loop.time())

    def settle_without_loop(self, cause: BaseException) -> None:
        """The loop was closed first, so no task can end any more; each record still gets its outcome."""
        # No timer can be set, and a waiting task cannot be woken: it was destroyed with the loop.
        self.dispatcher.has_loop = False
        with contextlib.suppress(RuntimeError):
            self.give_up("the event loop was closed before the producer", cause)
        # Deliveries that the program keeps refer to the connections, whose sockets must not stay open as long.
        self.addresses.close()
        self.listeners.deliver()

    def _set_up_compression(self, tasks: Tasks) -> None:
        codec = CODECS[self.config.compression_type].id
        if codec:
            self.compressor = Compressor(
                self.accumulator,
                self.machines.losses,
                tasks,
                codec=codec,
                level=self.config.compression_level,
                now=self.loop.time,
            )

    # -- brokers

    def note_reach(self) -> None:
        """Store the errors of unreachable brokers, for the errors of the next event."""
        reach = self.machines.reach
        # Not the error of a record that waited for it: each error would then have the previous one as its cause,
        # without end.
        reach.last_error, reach.present_error = root_of(self.last_error), root_of(self.present_trouble)
        control = self.control.connection
        reach.has_metadata = self.cluster.known and control is not None and not control.closed

    async def _resolve(self, batch: QueuedBatch, index: int, timeout: float | None) -> Resolution:
        """`Delivery.resolve_unknown()`."""
        require_loop(self.loop, "resolve_unknown")
        return await (await self.loaded_resolver()).resolve(batch, index, timeout)

    async def loaded_resolver(self) -> resolver.Resolver:
        """The searches for records of unknown outcome."""
        await load(RESOLVER)
        if self._resolver is None:
            self._resolver = resolver.Resolver(
                self, self.cluster, wall_ms=self.wall_ms, look_after=self.supervisor.look_after
            )
        return self._resolver

    def report_outcome(self, settled: Settled) -> None:
        """Records of a batch have their outcome."""
        if self.batch_reporter is not None:
            self.batch_reporter.report(settled)

    def address_of(self, topic: str, partition: int | None) -> str | None:
        """The address of the broker that leads a partition, as far as it is known."""
        queues = self.accumulator.cluster.topics.get(topic)
        if queues is None or partition is None or not 0 <= partition < len(queues.partitions):
            return None
        return address_of(self.view, queues.leaders[partition])

    def _connection_ended(self, connection: Connection) -> None:
        """A connection of any kind has ended: metadata may show the reason, if any broker answers."""
        if connection.ending is not Ending.IDLE and connection.close_reason is not None:
            self.last_error = connection.close_reason
        self.cluster.stale(None)

    @property
    def last_error(self) -> BaseException | None:
        """The newest error of a record or broker."""
        return self.tally.last_error

    @last_error.setter
    def last_error(self, error: BaseException) -> None:
        self.tally.went_wrong(error, self.loop.time())

    @property
    def present_trouble(self) -> BaseException | None:
        """The newest error, unless the cluster has answered a request since."""
        answered, failed = self.addresses.answered_at, self.tally.last_error_at
        over = failed is None or (answered is not None and answered > failed)
        return None if over else self.last_error

    def refused(self, error: BaseException) -> None:
        """A record was not accepted: if it is part of a transaction, the whole transaction fails."""
        if self.transactions is not None:
            self.transactions.on_refused(error)

    @property
    def waits_for_calls(self) -> bool:
        """True while a transaction ends that contains the records of waiting calls."""
        return self.transactions is not None and self.transactions.table.waits_for_calls

    def flush(self) -> asyncio.Future[None]:
        """Send the buffered records without lingering; done when all of them have their outcome."""
        return self.flushes.begin()[1]

    async def no_call_waits(self) -> None:
        """Wait until no call waits to be accepted."""
        await self.flushes.no_call_waits()


def _withdraw_here(
    loop: asyncio.AbstractEventLoop,
    withdraw: Callable[[QueuedBatch, int], bool],
    batch: QueuedBatch,
    index: int,
) -> bool:
    """`try_cancel()` of a record that has its place: from the producer's own loop only."""
    require_loop(loop)
    return withdraw(batch, index)


def tracer_of(config: ProducerConfig) -> Any:
    """The tracer of one producer: that of the setting, or the one that it makes for this producer."""
    make = getattr(config.tracing, "for_producer", None)
    return config.tracing if make is None else make(config.client_id)


def root_of(error: BaseException | None) -> BaseException | None:
    """The error of a broker, where the last error is that of a record which waited for the broker."""
    while isinstance(error, (DeliveryError, BufferFullError, MetadataTimeoutError)):
        error = error.cause
    return error


def denied(cause: BaseException | None) -> KafkaError | None:
    """The error of every call of a producer that cannot work at all; a copy, as raising adds a traceback."""
    final = (AuthenticationError, AuthorizationError, TransactionError)
    return copy.copy(cause) if isinstance(cause, final) else None


def rebootstrap_after(config: ProducerConfig) -> float | None:
    """The seconds without metadata after which the bootstrap addresses are used again (KIP-899, KIP-1102)."""
    if config.metadata_recovery_strategy == "none":
        return None
    return config.metadata_recovery_rebootstrap_trigger_ms / 1000


def preparation_limit(config: ProducerConfig) -> float:
    """The seconds that a serializer may prepare itself: longer than one call waits, as later calls need it too."""
    return max(config.max_block_ms, config.request_timeout_ms) / 1000


def limits_of(config: ProducerConfig) -> Limits:
    """The settings of the accumulator."""
    return Limits(
        linger=config.linger_ms / 1000,
        batch_size=max(config.batch_size, 1),
        max_request_size=config.max_request_size,
        delivery_timeout=config.delivery_timeout_ms / 1000,
        codec=CODECS[config.compression_type].id,
        adaptive=config.partitioner_adaptive_partitioning_enable,
        ignore_keys=config.partitioner_ignore_keys,
        custom_partitioner=bind_partitioner(config.partitioner) is not None,
        linger_awaited=config.linger_awaited,
        rack=config.client_rack if config.partitioner_rack_aware else None,
        availability_timeout=config.partitioner_availability_timeout_ms / 1000,
        topic_buffers=dict(config.topic_buffer_limits),
    )

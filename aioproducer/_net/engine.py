"""The engine: the one supervised task of a producer, and the tasks it owns.

`start()` and `close()` of the producer may be called from different tasks, but a task group must be left by the task
that entered it; so one supervisor task owns the group, and everybody else only talks to it. If the supervisor dies,
whoever did it, every delivery fails with the cause: no call ever waits on a dead task.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

import anyio

from aioproducer._core import Budget
from aioproducer._net.cluster import Cluster
from aioproducer._net.compression import Compressor
from aioproducer._net.control import Control
from aioproducer._net.identity import IdentitySource
from aioproducer._net.sender import Sender
from aioproducer._net.unseen import UnseenFailures
from aioproducer._net.wakeup import Wakeup
from aioproducer._state.accumulator import Accumulator, Limits
from aioproducer._state.admission import Admission
from aioproducer._state.backoff import Backoff
from aioproducer._state.metadata import MetadataView, Node
from aioproducer._state.sequences import Sequences
from aioproducer._state.settlement import Settlement
from aioproducer._state.tally import Tally
from aioproducer._wire.compression import CODECS
from aioproducer.errors import KafkaError, StateError
from aioproducer.partitioners import bind as bind_partitioner
from aioproducer.stats import Stats

if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random

    from anyio.abc import TaskGroup

    from aioproducer._state.admission import Appender, Waiting
    from aioproducer._state.batches import Flush, QueuedBatch
    from aioproducer._state.queues import NodeQueue
    from aioproducer.config import ProducerConfig

log = logging.getLogger("aioproducer")

LOOK_FOR_IDLE_EVERY = 30.0


class Engine:
    """What runs between `start()` and `close()`: the machines of `_state`, and the tasks that serve them."""

    def __init__(
        self,
        config: ProducerConfig,
        appender: Appender,
        loop: asyncio.AbstractEventLoop,
        rng: Random,
        *,
        wall_ms: Callable[[], int],
    ) -> None:
        self.config = config
        self.loop = loop
        self.rng = rng
        self.wall_ms = wall_ms
        self.acks = config.acks
        self.tally = Tally()
        self.unseen = UnseenFailures()
        self.sequences = Sequences(
            idempotent=config.enable_idempotence,
            one_at_a_time=config.max_in_flight_requests_per_connection == 1,
        )
        self.accumulator = Accumulator(
            limits_of(config),
            Budget(config.buffer_memory),
            self.sequences,
            rng,
            loop=loop,
            unseen_log=self.unseen.batches,
        )
        self.settlement = Settlement(
            self.accumulator,
            self.tally,
            retries=config.retries,
            backoff=Backoff(config.retry_backoff_ms / 1000, config.retry_backoff_max_ms / 1000),
            rng=rng,
        )
        self.admission = Admission(self.accumulator, appender)
        self.reconnect_backoff = Backoff(
            config.reconnect_backoff_ms / 1000, config.reconnect_backoff_max_ms / 1000
        )
        self.setup_timeout = Backoff(
            config.socket_connection_setup_timeout_ms / 1000,
            config.socket_connection_setup_timeout_max_ms / 1000,
        )
        self.view = MetadataView(
            max_age=config.metadata_max_age_ms / 1000,
            max_idle=config.metadata_max_idle_ms / 1000,
            backoff=Backoff(config.retry_backoff_ms / 1000, config.retry_backoff_max_ms / 1000),
            rebootstrap_after=rebootstrap_after(config),
        )
        self.control = Control(self)
        self.cluster = Cluster(self)
        self.identity = IdentitySource(self)
        self.wakeup = Wakeup(loop)
        self.senders: dict[int, Sender] = {}
        self.dead: set[int] = set()
        self.tasks: TaskGroup | None = None
        self.supervisor: asyncio.Task[None] | None = None
        self.stop_requested = asyncio.Event()
        self.flushes: dict[Flush, asyncio.Future[None]] = {}
        self.last_error: BaseException | None = None
        self.on_death: Callable[[BaseException], None] | None = None
        self._connect_machines()

    def _connect_machines(self) -> None:
        """The effects of the machines, and what carries them out."""
        self.accumulator.signal = self._has_work
        self.accumulator.wake_by = self.wakeup.by
        self.settlement.on_room = self.admission.room
        self.settlement.on_flushed = self._flushed
        self.settlement.on_stale_metadata = self.cluster.stale
        self.admission.on_wanted = self.cluster.want
        self.sequences.on_exhausted = self.identity.want

    # -- life

    def start(self) -> None:
        """Start the supervisor."""
        self.supervisor = self.loop.create_task(self._supervise(), name="aioproducer supervisor")

    async def _supervise(self) -> None:
        cause: BaseException | None = None
        try:
            async with anyio.create_task_group() as tasks:
                self.tasks = tasks
                self._set_up_compression(tasks)
                tasks.start_soon(self._keep_time, name="aioproducer accumulator")
                tasks.start_soon(self.cluster.run, name="aioproducer metadata")
                if self.config.enable_idempotence:
                    tasks.start_soon(self.identity.run, name="aioproducer identity")
                await self.stop_requested.wait()
                tasks.cancel_scope.cancel()
        except BaseException as error:  # noqa: BLE001  # the last words of the producer: told to every delivery below
            cause = error
        finally:
            self.tasks = None
            self._end(cause)

    def _end(self, cause: BaseException | None) -> None:
        unexpected = not self.stop_requested.is_set()
        if unexpected:
            cause = cause if cause is not None else StateError("the producer's tasks ended by themselves")
            log.error("the producer's background task was ended, all deliveries fail: %r", cause)
            self.last_error = cause
        self.give_up(
            "the producer was closed" if not unexpected else "the producer's background task was ended", cause
        )
        self.unseen.report_all()
        self.wakeup.silence()
        self.control.close()
        for sender in self.senders.values():
            sender.close()
        if unexpected and self.on_death is not None and cause is not None:
            self.on_death(cause)

    def refuse_callers(self) -> None:
        """The producer closes: whoever still waits to be accepted is refused."""

        def closing(call: Waiting) -> KafkaError:
            return StateError("the producer was closed before the record was accepted", topic=call.topic)

        self.admission.refuse_all(closing, but_queued=True)

    def give_up(self, text: str, cause: BaseException | None) -> None:
        """Every record and every waiting call gets its outcome now."""

        def closed(call: Waiting) -> KafkaError:
            return StateError(f"{text} before the record was accepted", topic=call.topic, cause=cause)

        self.admission.refuse_all(closed)
        self.settlement.abandon(text, cause, self.loop.time())
        for waiter in self.flushes.values():
            if not waiter.done():
                waiter.set_result(None)

    def stop(self) -> None:
        """Ask the supervisor to end."""
        self.stop_requested.set()

    def _set_up_compression(self, tasks: TaskGroup) -> None:
        codec = CODECS[self.config.compression_type]
        if codec:
            self.accumulator.compress = Compressor(
                self.accumulator,
                self.settlement,
                tasks,
                codec=codec,
                level=self.config.compression_level,
                now=self.loop.time,
            ).take

    # -- the accumulator's task: everything that is due at a time

    async def _keep_time(self) -> None:
        next_idle_look = self.loop.time() + LOOK_FOR_IDLE_EVERY
        while True:
            now = self.loop.time()
            self.settlement.expire(now)
            self.admission.expire(now)
            self.unseen.report(now)
            if now >= next_idle_look:
                next_idle_look = now + LOOK_FOR_IDLE_EVERY
                for sender in self.senders.values():
                    sender.close_if_idle(now)
            self._set_alarm(next_idle_look)
            await self.wakeup.wait()

    def _set_alarm(self, next_idle_look: float) -> None:
        due = [next_idle_look, self.accumulator.next_deadline(), self.admission.deadlines.earliest(), self.unseen.due()]
        self.wakeup.by(min(moment for moment in due if moment is not None))

    # -- senders

    def _has_work(self, queue: NodeQueue) -> None:
        sender = self.senders.get(queue.node_id)
        if sender is None:
            if self.tasks is None:
                return
            sender = self.senders[queue.node_id] = Sender(self, queue)
            self.tasks.start_soon(sender.run, name=f"aioproducer sender {queue.node_id}")
        sender.work.set()

    def alive(self, node_id: int) -> None:
        """The broker answers."""
        if node_id in self.dead:
            self.dead.discard(node_id)
            self.accumulator.share_memory(self.dead)

    def troubled(self, node_id: int, error: BaseException) -> None:
        """The broker does not answer."""
        self.last_error = error
        self.tally.last_error = error
        if node_id not in self.dead:
            self.dead.add(node_id)
            self.accumulator.share_memory(self.dead)
            log.warning("broker %d is in trouble: %s", node_id, error)
        self.cluster.stale(None)

    def hint(self, topic: str, partition: int, leader_id: int, leader_epoch: int, node: Node | None) -> None:
        """A broker said who leads a partition now (KIP-951)."""
        self.cluster.apply(self.view.leader_hint(topic, partition, leader_id, leader_epoch, node))

    def connected_brokers(self) -> int:
        """How many brokers are connected for producing."""
        return sum(sender.link is not None for sender in self.senders.values())

    # -- looking

    def oldest_unacked(self, now: float) -> float | None:
        """For how long the oldest record without an outcome has waited."""
        oldest = next(iter(self.accumulator.live), None)
        return None if oldest is None else now - oldest.opened_at

    def stats(self) -> Stats:
        """A snapshot of everything that is counted here."""
        tally = self.tally
        buffered, flying = Load(), Load()
        for batch in self.accumulator.live:
            (flying if batch.in_flight else buffered).add(batch)
        return Stats(
            records_acked=tally.acked,
            bytes_acked=tally.acked_bytes,
            records_failed=tally.not_written + tally.unknown,
            records_retried=tally.retried,
            failed_by_error=dict(tally.failed_by_error),
            losses_by_topic=dict(tally.losses_by_topic),
            suspected_data_losses=tally.suspected_losses,
            batches=tally.batches,
            requests=tally.requests,
            records_buffered=buffered.records,
            bytes_buffered=buffered.bytes,
            records_in_flight=flying.records,
            bytes_in_flight=flying.bytes,
            waiting_calls=self.admission.waiting,
            oldest_unacked_seconds=self.oldest_unacked(self.loop.time()),
            queue_time=tally.queue_time.snapshot(),
            request_time=tally.request_time.snapshot(),
            batch_size=tally.batch_size.snapshot(),
            compression_ratio=tally.compression_ratio.snapshot(),
            connections=tuple(sender.stats() for sender in self.senders.values()),
        )

    # -- flush

    def flush(self) -> asyncio.Future[None]:
        """Send what is buffered without lingering; done when all of it has its outcome."""
        done = self.loop.create_future()
        flush = self.accumulator.flush(self.loop.time())
        if flush.done:
            done.set_result(None)
        else:
            self.flushes[flush] = done
        return done

    def _flushed(self, flush: Flush) -> None:
        done = self.flushes.pop(flush)
        if not done.done():
            done.set_result(None)


class Load:
    """Records and bytes that are somewhere."""

    def __init__(self) -> None:
        self.records = 0
        self.bytes = 0

    def add(self, batch: QueuedBatch) -> None:
        """Count what is left of a batch."""
        self.records += batch.pending
        self.bytes += batch.charged


def rebootstrap_after(config: ProducerConfig) -> float | None:
    """After how many seconds without metadata the bootstrap addresses are used again (KIP-899, KIP-1102)."""
    if config.metadata_recovery_strategy == "none":
        return None
    return config.metadata_recovery_rebootstrap_trigger_ms / 1000


def limits_of(config: ProducerConfig) -> Limits:
    """The settings that the accumulator follows."""
    return Limits(
        linger=config.linger_ms / 1000,
        batch_size=max(config.batch_size, 1),
        max_request_size=config.max_request_size,
        delivery_timeout=config.delivery_timeout_ms / 1000,
        codec=CODECS[config.compression_type],
        adaptive=config.partitioner_adaptive_partitioning_enable,
        ignore_keys=config.partitioner_ignore_keys,
        custom_partitioner=bind_partitioner(config.partitioner) is not None,
        linger_awaited=config.linger_awaited,
        rack=config.client_rack if config.partitioner_rack_aware else None,
        availability_timeout=config.partitioner_availability_timeout_ms / 1000,
    )

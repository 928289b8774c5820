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
from aioproducer._net.alarm import Alarm
from aioproducer._net.cluster import Cluster
from aioproducer._net.compression import Compressor
from aioproducer._net.control import Control
from aioproducer._net.identity import IdentitySource
from aioproducer._net.sender import Sender
from aioproducer._state.accumulator import Accumulator, Limits
from aioproducer._state.admission import Admission
from aioproducer._state.backoff import Backoff
from aioproducer._state.metadata import MetadataView, Node
from aioproducer._state.sequences import Sequences
from aioproducer._state.settlement import Settlement
from aioproducer._state.tally import Tally
from aioproducer._wire.compression import CODECS
from aioproducer.errors import KafkaError, StateError

if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random

    from anyio.abc import TaskGroup

    from aioproducer._state.admission import Appender, Waiting
    from aioproducer._state.batches import Flush
    from aioproducer._state.queues import NodeQueue
    from aioproducer.config import ProducerConfig

log = logging.getLogger("aioproducer")

LOOK_FOR_IDLE_EVERY = 30.0


class Engine:
    """What runs between `start()` and `close()`: the machines of `_state`, and the tasks that serve them."""

    def __init__(
        self, config: ProducerConfig, appender: Appender, loop: asyncio.AbstractEventLoop, rng: Random
    ) -> None:
        self.config = config
        self.loop = loop
        self.rng = rng
        self.acks = config.acks_number
        self.tally = Tally()
        self.unseen: list[object] = []
        self.sequences = Sequences(
            idempotent=config.enable_idempotence,
            one_at_a_time=config.max_in_flight_requests_per_connection == 1,
        )
        self.accumulator = Accumulator(
            limits_of(config), Budget(config.buffer_memory), self.sequences, rng, loop=loop, unseen_log=self.unseen
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
            config.socket_connection_setup_timeout_ms / 1000, config.socket_connection_setup_timeout_max_ms / 1000
        )
        self.view = MetadataView(
            max_age=config.metadata_max_age_ms / 1000,
            max_idle=config.metadata_max_idle_ms / 1000,
            backoff=Backoff(config.retry_backoff_ms / 1000, config.retry_backoff_max_ms / 1000),
        )
        self.control = Control(self)
        self.cluster = Cluster(self)
        self.identity = IdentitySource(self)
        self.alarm = Alarm(loop)
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
        self.accumulator.wake_by = self.alarm.by
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
        self.give_up("the producer was closed" if not unexpected else "the producer's background task was ended", cause)
        self.alarm.silence()
        self.control.close()
        for sender in self.senders.values():
            sender.close()
        if unexpected and self.on_death is not None and cause is not None:
            self.on_death(cause)

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
            self._report_unseen()
            if now >= next_idle_look:
                next_idle_look = now + LOOK_FOR_IDLE_EVERY
                for sender in self.senders.values():
                    sender.close_if_idle(now)
            self._set_alarm(next_idle_look)
            await self.alarm.wait()

    def _set_alarm(self, next_idle_look: float) -> None:
        due = [next_idle_look, self.accumulator.next_deadline(), self.admission.deadlines.earliest()]
        self.alarm.by(min(moment for moment in due if moment is not None))

    def _report_unseen(self) -> None:
        """Failures that nobody looked at are told once, together."""
        reports, self.unseen[:] = list(self.unseen), []
        for batch in reports:
            count = batch.take_unseen()  # type: ignore[attr-defined]  # the core appends batches only
            if count:
                log.error(
                    "%d record(s) for %s-%d were not delivered, and nobody looked at their delivery: %s",
                    count, batch.topic, batch.partition, batch.error or "withdrawn or expired",  # type: ignore[attr-defined]
                )

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
        custom_partitioner=config.partitioner is not None,
        linger_awaited=config.linger_awaited,
    )

"""The way of a record in a mock: refused by order, held for the test, or sent and answered before the call returns."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from aioproducer._net.accepting.intake import Intake
from aioproducer._net.accepting.serializing import Serializing
from aioproducer.testing.mock.brokers import NODE_ID
from aioproducer.testing.mock.orders import delivery_error

if TYPE_CHECKING:
    from aioproducer._net.runtime.engine import Engine
    from aioproducer._state.queues.batches import QueuedBatch
    from aioproducer.testing.mock.brokers import MockCluster
    from aioproducer.testing.mock.orders import Orders


class MockSerializing(Serializing):
    """Refuses valid records as ordered."""

    orders: Orders

    def taken(self, record: Any, context: Any = None) -> Any:
        """See `Serializing.taken`."""
        ready = super().taken(record, context)
        error = self.orders.take("send", record.topic)
        if error is not None:
            raise error
        return ready


class MockIntake(Intake):
    """Accepts records one by one."""

    serializing: MockSerializing
    make_serializing = MockSerializing
    watches_each = True
    answers_at_once = False
    intercepts_at_once = False


class SendingAtOnce:
    """Replaces the wakeup of the sender: sends ready batches, and ends the batches that the test holds."""

    def __init__(self, engine: Engine, cluster: MockCluster) -> None:
        self._engine = engine
        self._cluster = cluster
        # Held batches that fail when the event ends that has appended their records.
        self._failing: list[tuple[QueuedBatch, Exception]] = []

    def start(self) -> None:
        """Take the place of the sender's wakeup, and send what other tasks have sent meanwhile."""
        self._engine.accumulator.cluster.node(NODE_ID).wakeup = self
        self.ring()

    def ring(self) -> None:
        """Send ready batches. The dispatcher calls this when an event ends, so that all of its records are in place."""
        failing, self._failing = self._failing, []
        for batch, error in failing:
            self.end(batch, error)
        sender = self._engine.senders.get(NODE_ID)
        if sender is not None:
            while sender.send_at_once():
                self._cluster.network.deliver()
            # The task of the sender sends what has to wait: for a permit, or for a connection.
            sender.work.ring()

    def learn(self, name: object) -> None:
        """Make a topic known before the metadata task asks for it."""
        engine = self._engine
        if type(name) is not str or name in engine.accumulator.cluster.topics or not engine.cluster.known:
            return
        topic = self._cluster.find(name, b"", by_id=False)
        if topic is not None:
            engine.cluster.want(name)
            engine.machines.learn(name, topic.id, (NODE_ID,) * len(topic.partitions), engine.loop.time())

    # -- batches that the test holds

    def hold(self, batch: QueuedBatch, error: Exception | None) -> None:
        """Keep the batch from being sent, until the test ends it, or the end of this event fails it with `error`."""
        # As if it had failed before, with a pause that does not end by itself.
        batch.retry_at, batch.retry_leader = math.inf, NODE_ID
        if error is not None:
            self._failing.append((batch, error))
            self._engine.effects.nodes[batch.queue.node] = None

    def end(self, batch: QueuedBatch, error: Exception | None) -> None:
        """Send the batch, which the broker writes and acknowledges, or end it unsent with the error of the test."""
        # In gapless mode, the failure of a record before it may have ended it.
        if batch.settled:
            return
        now = self._engine.loop.time()
        if error is None:
            batch.retry_at, batch.urgent = 0.0, True
        else:
            self._engine.machines.losses.fail(batch, delivery_error(error, batch.topic, batch.partition), now)
        self._engine.accumulator.update_readiness_of((batch.queue,), now)


def is_held(batch: QueuedBatch) -> bool:
    """True when the batch waits for the test."""
    return batch.retry_at == math.inf

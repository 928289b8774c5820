"""What a test looks at in a mock, and what it has records do."""

from __future__ import annotations

import asyncio
import math
from typing import TYPE_CHECKING

from aioproducer.errors import KafkaError, StateError
from aioproducer.outcome import Outcome
from aioproducer.testing.mock.brokers import NODE_ID
from aioproducer.testing.mock.orders import Orders, check_failure, delivery_error

if TYPE_CHECKING:
    from aioproducer._net.runtime.engine import Engine
    from aioproducer._state.batching.batches import QueuedBatch
    from aioproducer.testing.broker.pipes import Pipes
    from aioproducer.testing.mock.ledger import Entry, Ledger, MockRecord


class MockControls:
    """The part of a `MockProducer` that a `Producer` does not have."""

    _engine: Engine | None
    _ledger: Ledger
    _orders: Orders
    _pipes: Pipes
    _auto_complete: bool
    _accepted: asyncio.Event

    @property
    def history(self) -> tuple[MockRecord, ...]:
        """Every record that was accepted, in order, whatever became of it."""
        return tuple(self._ledger.history)

    @property
    def written(self) -> tuple[MockRecord, ...]:
        """Every record that was acknowledged, in the order in which that happened."""
        self._ledger.look()
        return tuple(self._ledger.written)

    @property
    def committed(self) -> tuple[MockRecord, ...]:
        """Every record that a reader of committed records finds; without a `transactional_id` the same as `written`."""
        self._ledger.look()
        return tuple(self._ledger.committed)

    @property
    def pending(self) -> tuple[MockRecord, ...]:
        """Every accepted record without an outcome, oldest first."""
        self._ledger.look()
        return tuple(entry.record for entry in self._ledger.open)

    def clear(self) -> None:
        """Forget the history and the failures that were ordered.

        Offsets go on; what is pending stays so, and so does what an open transaction has written.
        """
        self._ledger.clear()
        self._orders.clear()

    async def wait_pending(self, count: int = 1) -> None:
        """Wait until at least `count` records are pending."""
        while len(self.pending) < count:
            self._accepted.clear()
            await self._accepted.wait()

    def complete_next(self, topic: str | None = None) -> MockRecord:
        """Acknowledge the oldest pending record (of one topic); `StateError` if there is none."""
        entry = self._oldest(topic)
        self._complete(entry)
        return entry.record

    def complete_all(self, topic: str | None = None) -> int:
        """Acknowledge every pending record (of one topic), oldest first; returns how many there were."""
        held = self._held(topic)
        for entry in held:
            self._complete(entry)
        return len(held)

    def fail_next(self, error: Exception, topic: str | None = None) -> MockRecord:
        """Fail the oldest pending record (of one topic); `StateError` if there is none.

        Its delivery ends with `error`, or with a `DeliveryError` of which `error` is the cause. `error.outcome` says
        whether the record may be in the log: `DeliveryTimeoutError(outcome=Outcome.UNKNOWN)`.
        """
        check_failure(error)
        entry = self._oldest(topic)
        self._fail(entry, error)
        return entry.record

    def fail_all(self, error: Exception, topic: str | None = None) -> int:
        """Fail every pending record (of one topic) as `fail_next` does; returns how many there were."""
        check_failure(error)
        held = self._held(topic)
        for entry in held:
            self._fail(entry, error)
        return len(held)

    def fail_send(self, error: KafkaError, topic: str | None = None, *, times: int | None = 1) -> None:
        """Refuse the next `times` records (of one topic; None: all that follow) with this error: not accepted."""
        if not isinstance(error, KafkaError):
            raise TypeError(f"send() raises only KafkaError, never {type(error).__name__}")
        if error.outcome is not Outcome.NOT_WRITTEN:
            raise ValueError(f"a record that is refused is NOT_WRITTEN, not {error.outcome}")
        self._orders.refusals.order(error, topic, times)

    def fail_delivery(self, error: Exception, topic: str | None = None, *, times: int | None = 1) -> None:
        """Accept the next `times` records (of one topic; None: all that follow), then fail them as `fail_next` does."""
        check_failure(error)
        self._orders.failures.order(error, topic, times)

    # -- how a record is held, and let go

    def _held(self, topic: str | None) -> list[Entry]:
        self._ledger.look()
        return [e for e in self._ledger.open if e.held is not None and topic in (None, e.record.topic)]

    def _oldest(self, topic: str | None) -> Entry:
        held = self._held(topic)
        if not held:
            advice = (
                "fail_delivery() orders failures of records to come, and MockProducer(auto_complete=False) waits"
                if self._auto_complete
                else "`await wait_pending()` waits for one"
            )
            raise StateError(f"no record is pending; {advice}", topic=topic)
        return held[0]

    def _complete(self, entry: Entry) -> None:
        """End the hold: the record is sent, and the broker answers."""
        engine, batch = self._taken(entry)
        batch.retry_at, batch.urgent = 0.0, True
        engine.accumulator.update_readiness_of((batch.queue,), engine.loop.time())
        self._send_at_once(engine)
        self._ledger.look()

    def _fail(self, entry: Entry, error: Exception) -> None:
        """The one outcome that no broker gives: the batch, which was never sent, ends with the error of the test."""
        engine, batch = self._taken(entry)
        now = engine.loop.time()
        engine.settlement.fail(batch, delivery_error(error, batch.topic, batch.partition), now)
        engine.accumulator.update_readiness_of((batch.queue,), now)
        self._ledger.look()

    def _taken(self, entry: Entry) -> tuple[Engine, QueuedBatch]:
        batch, entry.held = entry.held, None
        assert batch is not None  # noqa: S101  # of _held()
        assert self._engine is not None  # noqa: S101  # it has accepted a record
        return self._engine, batch

    def _send_at_once(self, engine: Engine) -> None:
        """Send what is ready, and take in the answers, as far as nothing has to be waited for."""
        sender = engine.senders.get(NODE_ID)
        while sender is not None and sender.send_at_once():
            self._pipes.deliver()


def hold(batch: QueuedBatch) -> None:
    """Keep a batch from being sent: as if it had failed before, with a pause that does not end by itself."""
    batch.retry_at, batch.retry_leader = math.inf, NODE_ID

"""What a test looks at in a `MockProducer`, and what it tells it to do."""

from __future__ import annotations

from collections.abc import Callable

from aioproducer.errors import KafkaError, StateError
from aioproducer.outcome import Outcome
from aioproducer.testing.mock.ledger import Held, Ledger, MockRecord, check_failure
from aioproducer.testing.mock.plan import Plan


class MockControls:
    """The part of a `MockProducer` that a `Producer` does not have."""

    _ledger: Ledger
    _plan: Plan

    @property
    def history(self) -> tuple[MockRecord, ...]:
        """Every record that was accepted, in order, whatever became of it."""
        return tuple(self._ledger.history)

    @property
    def written(self) -> tuple[MockRecord, ...]:
        """Every record that was acknowledged, in the order in which that happened."""
        return tuple(self._ledger.written)

    @property
    def committed(self) -> tuple[MockRecord, ...]:
        """Every record that a reader of committed records finds; without a `transactional_id` the same as `written`."""
        return tuple(self._ledger.committed)

    @property
    def pending(self) -> tuple[MockRecord, ...]:
        """Every accepted record without an outcome, oldest first."""
        return tuple(held.record for held in self._ledger.pending.values())

    def clear(self) -> None:
        """Forget the history and the failures that were ordered.

        Offsets go on; what is pending stays so, and so does what an open transaction has written.
        """
        for records in (self._ledger.history, self._ledger.written, self._ledger.committed):
            records.clear()
        self._plan.clear()

    async def wait_pending(self, count: int = 1) -> None:
        """Wait until at least `count` records are pending."""
        while len(self._ledger.pending) < count:
            await self._ledger.news()

    def complete_next(self, topic: str | None = None) -> MockRecord:
        """Acknowledge the oldest pending record (of one topic); `StateError` if there is none."""
        held = self._oldest(topic)
        self._ledger.acknowledge(held)
        return held.record

    def complete_all(self, topic: str | None = None) -> int:
        """Acknowledge every pending record (of one topic), oldest first; returns how many there were."""
        return self._for_all(topic, self._ledger.acknowledge)

    def fail_next(self, error: Exception, topic: str | None = None) -> MockRecord:
        """Fail the oldest pending record (of one topic); `StateError` if there is none.

        Its delivery ends with `error`, or with a `DeliveryError` of which `error` is the cause. `error.outcome` says
        whether the record may be in the log: `DeliveryTimeoutError(outcome=Outcome.UNKNOWN)`.
        """
        check_failure(error)
        held = self._oldest(topic)
        self._ledger.fail(held, error)
        return held.record

    def fail_all(self, error: Exception, topic: str | None = None) -> int:
        """Fail every pending record (of one topic) as `fail_next` does; returns how many there were."""
        check_failure(error)
        return self._for_all(topic, lambda held: self._ledger.fail(held, error))

    def fail_send(self, error: KafkaError, topic: str | None = None, *, times: int | None = 1) -> None:
        """Refuse the next `times` records (of one topic; None: all that follow) with this error: not accepted."""
        if not isinstance(error, KafkaError):
            raise TypeError(f"send() raises only KafkaError, never {type(error).__name__}")
        if error.outcome is not Outcome.NOT_WRITTEN:
            raise ValueError(f"a record that is refused is NOT_WRITTEN, not {error.outcome}")
        self._plan.refusals.add(error, topic, times)

    def fail_delivery(self, error: Exception, topic: str | None = None, *, times: int | None = 1) -> None:
        """Accept the next `times` records (of one topic; None: all that follow), then fail them as `fail_next` does."""
        check_failure(error)
        self._plan.failures.add(error, topic, times)

    def _oldest(self, topic: str | None) -> Held:
        held = next(self._ledger.waiting(topic), None)
        if held is None:
            advice = (
                "fail_delivery() orders failures of records to come, and MockProducer(auto_complete=False) waits"
                if self._plan.auto_complete
                else "`await wait_pending()` waits for one"
            )
            raise StateError(f"no record is pending; {advice}", topic=topic)
        return held

    def _for_all(self, topic: str | None, settle: Callable[[Held], object]) -> int:
        waiting = list(self._ledger.waiting(topic))
        for held in waiting:
            settle(held)
        return len(waiting)

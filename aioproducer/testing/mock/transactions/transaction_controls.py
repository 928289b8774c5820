"""What a test looks at in the transactions of a `MockProducer`, and what it tells them to do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from aioproducer._callers.consumed import group_of, offsets_of
from aioproducer.config import checked_transactional_id
from aioproducer.errors import CommitOutcomeUnknownError, KafkaError, ProducerFencedError, StateError
from aioproducer.testing.mock.plan import LostAnswer, Plan
from aioproducer.testing.mock.transactions.coordinators import MockCoordinators
from aioproducer.testing.mock.transactions.transactions import MockTransactions


class MockTransactionControls:
    """The part of a `MockProducer` about transactions that a `Producer` does not have."""

    _plan: Plan
    _coordinators: MockCoordinators
    _mock_transactions: MockTransactions

    @property
    def fenced(self) -> tuple[str, ...]:
        """Every transactional id that `fence()` was called with, in order."""
        return tuple(self._coordinators.fenced)

    def fence_me(self) -> None:
        """Have another producer take over the transactional id: every call raises `ProducerFencedError` from now on.

        What is pending fails, and nothing of the open transaction becomes visible.
        """
        if not self._mock_transactions.is_transactional:
            raise StateError("without a transactional_id nobody can take it over")
        self._mock_transactions.end_for_good(ProducerFencedError())

    def fail_commit(self, error: KafkaError, *, times: int | None = 1) -> None:
        """Have the coordinator refuse the next `times` commits (None: all that follow).

        They raise `TransactionAbortedError` with this cause, and only an abort is possible. It is retriable if `error` is.
        """
        if isinstance(error, CommitOutcomeUnknownError | ProducerFencedError):
            raise ValueError("lose_commit_answer() is for commits of unknown outcome, fence_me() for fencing")
        if not isinstance(error, KafkaError):
            raise TypeError(f"a commit raises only KafkaError, never {type(error).__name__}")
        self._plan.commit_refusals.add(error, None, times)

    def lose_commit_answer(self, *, committed: bool = True, times: int = 1) -> None:
        """Have the next commit raise `CommitOutcomeUnknownError`, `times` times if it is repeated.

        The call after that is told: it was committed, or else its time was over (`TransactionAbortedError`).
        """
        if times < 1:
            raise ValueError(f"times must be at least 1, not {times!r}")
        self._plan.lost_answers.append(LostAnswer(committed, times))

    def fail_offsets(self, error: KafkaError, group: str | None = None, *, times: int | None = 1) -> None:
        """Refuse the next `times` offsets (of one group; None: all that follow), as after a rebalance.

        The transaction can only be aborted then.
        """
        if not isinstance(error, KafkaError):
            raise TypeError(f"a transaction fails only with KafkaError, never {type(error).__name__}")
        self._plan.offset_refusals.add(error, group, times)

    def set_committed_offsets(self, group: str, offsets: Mapping[Any, Any]) -> None:
        """Have `committed_offsets` tell that the group committed these before: partitions, and where it goes on."""
        self._coordinators.commit({group_of(group).group_id: offsets_of(offsets)})

    def set_transaction(self, transactional_id: str, state: str = "Ongoing") -> None:
        """Have `list_transactions` tell of somebody else's transaction; fencing it makes it "Empty"."""
        self._coordinators.note(checked_transactional_id(transactional_id), state)

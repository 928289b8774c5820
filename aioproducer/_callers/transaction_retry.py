"""How a block that is a transaction may end: what holds for a producer and for its mock alike."""

from __future__ import annotations

import asyncio
import weakref
from typing import Any

from aioproducer.errors import (
    CommitOutcomeUnknownError,
    KafkaError,
    TransactionAbortedError,
    TransactionTimeoutError,
)

__all__ = ["LastAbort", "may_run_again"]


class LastAbort:
    """The last aborted transaction, and the task that aborted it. A finished task matches no caller."""

    def __init__(self) -> None:
        self._number = -1
        self._task: weakref.ref[asyncio.Task[Any]] | None = None

    def note(self, number: int) -> None:
        """The task that runs now aborts the transaction with this number."""
        task = asyncio.current_task()
        self._number, self._task = number, None if task is None else weakref.ref(task)

    def require_own(self, number: int) -> None:
        """Raise if another task than the one that runs now has aborted this transaction: its block did not end well."""
        task = None if self._task is None else self._task()
        if number == self._number and task is not asyncio.current_task():
            raise TransactionAbortedError("another task called abort_transaction() before the block ended")


def may_run_again(error: Exception, failure: TransactionAbortedError | None) -> bool:
    """Whether the same may succeed in another transaction, after this error has ended the one that failed so."""
    if isinstance(error, ExceptionGroup):
        # Of a TaskGroup: what failed first is known, and the others may be its consequences, but no user's errors.
        of_users = error.split(KafkaError)[1] is not None
        return failure is not None and failure.retriable and not of_users
    if not isinstance(error, KafkaError) or isinstance(
        error, CommitOutcomeUnknownError | TransactionTimeoutError
    ):
        return False
    return (failure or error).retriable

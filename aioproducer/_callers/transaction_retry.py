"""The ways in which a transaction's block may end."""

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
        """The current task aborts the transaction with this number."""
        task = asyncio.current_task()
        self._number, self._task = number, None if task is None else weakref.ref(task)

    def require_own(self, number: int) -> None:
        """Raise if another task has aborted this transaction: its block did not succeed."""
        task = None if self._task is None else self._task()
        if number == self._number and task is not asyncio.current_task():
            raise TransactionAbortedError("another task called abort_transaction() before the block ended")


def may_run_again(error: Exception, failure: TransactionAbortedError | None) -> bool:
    """Whether another attempt may succeed, after this error has ended the transaction with this failure."""
    if isinstance(error, ExceptionGroup):
        # In a TaskGroup the first failure is known. The others may be its consequences, but not errors of the user.
        of_users = error.split(KafkaError)[1] is not None
        return failure is not None and failure.retriable and not of_users
    if not isinstance(error, KafkaError) or isinstance(
        error, CommitOutcomeUnknownError | TransactionTimeoutError
    ):
        return False
    return (failure or error).retriable

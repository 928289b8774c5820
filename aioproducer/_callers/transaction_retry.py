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

__all__ = ["Aborters", "may_run_again"]


class Aborters:
    """The tasks whose calls aborted one transaction, or settled its commit without an outcome."""

    def __init__(self) -> None:
        # The first of these calls.
        self._call = ""
        self._may_be_committed = False
        self._tasks: weakref.WeakSet[asyncio.Task[Any]] = weakref.WeakSet()

    def note(self, call: str, *, may_be_committed: bool = False) -> None:
        """The current task ends the transaction by this call."""
        self._call = self._call or call
        self._may_be_committed = self._may_be_committed or may_be_committed
        task = asyncio.current_task()
        if task is not None:
            self._tasks.add(task)

    def require_own(self) -> None:
        """Raise if only other tasks have ended the transaction so: its block did not succeed, or may not have."""
        if self._call and asyncio.current_task() not in self._tasks:
            text = f"another task called {self._call} before the block ended"
            if self._may_be_committed:
                raise CommitOutcomeUnknownError(text)
            # The call was deliberate: `run_transaction()` would repeat a function that ends so without end.
            raise TransactionAbortedError(text, retriable=False)


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

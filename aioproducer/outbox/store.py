"""The interface between a relay and the tables of an outbox."""

from __future__ import annotations

from collections.abc import Awaitable, Collection, Sequence
from typing import Any, Protocol, runtime_checkable

from aioproducer.errors import KafkaError
from aioproducer.outbox.rows import Row
from aioproducer.records import Record

__all__ = ["DeadLetterOutlet", "Store"]


@runtime_checkable
class Store(Protocol):
    """A table of rows, and the lock by which one relay at a time sends them.

    A relay makes one call at a time. Any of them may raise: the relay then gives the lock back and begins again.
    """

    async def acquire(self) -> bool:
        """Take the lock, without waiting for it. The relay that has it asks again now and then: False, if it is lost."""
        ...

    async def read(self, limit: int, skip: Collection[int]) -> Sequence[Row]:
        """The oldest rows, at most `limit`, in the order of their ids, without those whose id is in `skip`."""
        ...

    async def delete(self, ids: Collection[int]) -> None:
        """Delete these rows; those that are gone already count as deleted."""
        ...

    async def wait(self, timeout: float) -> None:
        """Wait until there may be new rows, at most `timeout` seconds. The relay may cancel it."""
        ...

    async def release(self) -> None:
        """Give the lock back, if it is held. After it `acquire()` may be called again."""
        ...


class DeadLetterOutlet(Protocol):
    """The part of `aioproducer.outlets.DeadLetters` that a relay uses."""

    def put(self, record: Record[Any, Any], error: KafkaError) -> Awaitable[Any]:
        """Set a record aside; the awaited delivery, or its metadata, tells that it is written."""
        ...

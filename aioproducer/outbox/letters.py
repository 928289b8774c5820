"""The dead letters of rows."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from aioproducer import Delivery
from aioproducer.errors import KafkaError
from aioproducer.outbox.rows import record_of, record_without_headers
from aioproducer.outbox.signals import END_OF_THE_PROGRAM, is_cancelled

if TYPE_CHECKING:
    from aioproducer.outbox.rows import Row
    from aioproducer.outbox.store import DeadLetterOutlet
    from aioproducer.records import Record

__all__ = ["DeadLetterFailedError", "Letters"]


class DeadLetterFailedError(Exception):
    """The dead letter of a row was not written, or could not be made, for the reason that `error` tells."""

    def __init__(self, error: BaseException) -> None:
        super().__init__(error)
        self.error = error


class Letters:
    """Writes them to the outlet, one at a time."""

    def __init__(self, outlet: DeadLetterOutlet) -> None:
        self._outlet = outlet
        self._one_at_a_time = asyncio.Lock()

    async def write(self, row: Row, error: KafkaError) -> None:
        """Write the letter of this row."""
        try:
            record = record_of(row)
        except KafkaError:
            record = record_without_headers(row)
        async with self._one_at_a_time:
            await self._put(record, error)

    async def _put(self, record: Record[Any, Any], error: KafkaError) -> None:
        try:
            put = await self._outlet.put(record, error)
            if isinstance(put, Delivery):
                await put
        except END_OF_THE_PROGRAM:
            raise
        except BaseException as failure:
            if isinstance(failure, asyncio.CancelledError) and is_cancelled():
                raise
            raise DeadLetterFailedError(failure) from failure

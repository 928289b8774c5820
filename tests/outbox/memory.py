"""An outbox in memory: its rows, its lock, and its faults."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Sequence
from typing import Any

import attrs

from aioproducer.outbox import Row


class BrokenStoreError(Exception):
    """The error of a store that fails."""


@attrs.define(eq=False)
class Table:
    """The rows that are committed, and the relay that has the lock."""

    rows: dict[int, Row] = attrs.Factory(dict)
    deleted: list[int] = attrs.Factory(list)
    owner: MemoryStore | None = None
    last_id: int = 0
    server: int = 0
    changed: asyncio.Event = attrs.Factory(asyncio.Event)
    on_delete: Callable[[Collection[int]], object] = lambda _ids: None

    def reserve(self) -> int:
        """The id of a row whose transaction is open."""
        self.last_id += 1
        return self.last_id

    def commit(self, *rows: Row) -> None:
        """The end of a transaction."""
        self.rows.update((row.id, row) for row in rows)
        self.rows = dict(sorted(self.rows.items()))
        self.changed.set()

    def fail_over(self, rows: dict[int, Row], last_id: int) -> None:
        """A replica takes over that has only these rows and numbers: all sessions end."""
        self.rows, self.last_id, self.owner = dict(rows), last_id, None
        self.server += 1

    def add(self, topic: str, value: bytes | None, **columns: Any) -> int:
        """A transaction with one row."""
        number = self.reserve()
        self.commit(Row(number, topic, value, **columns))
        return number


@attrs.define(eq=False)
class MemoryStore:
    """The view of one relay."""

    table: Table
    step: Callable[[str], Any] | None = None
    """Called before each call with its name; what it returns is awaited, and it may raise."""
    calls: list[str] = attrs.Factory(list)
    reads: list[tuple[int, tuple[int, ...]]] = attrs.Factory(list)
    _server: int | None = None

    async def _step(self, name: str) -> None:
        self.calls.append(name)
        if self.step is not None:
            awaited = self.step(name)
            if awaited is not None:
                await awaited

    def _check_session(self) -> None:
        if self._server not in (None, self.table.server):
            raise BrokenStoreError("the connection was lost")

    async def acquire(self) -> bool:
        """Take the lock."""
        await self._step("acquire")
        if self._server not in (None, self.table.server):
            self._server = None
            return False
        if self.table.owner is None:
            self.table.owner = self
            self._server = self.table.server
        return self.table.owner is self

    async def read(self, limit: int, skip: Collection[int]) -> Sequence[Row]:
        """The oldest rows."""
        await self._step("read")
        self.reads.append((limit, tuple(sorted(skip))))
        self._check_session()
        self.table.changed.clear()
        skipped = set(skip)
        return [row for number, row in self.table.rows.items() if number not in skipped][:limit]

    async def delete(self, ids: Collection[int]) -> None:
        """Delete rows."""
        await self._step("delete")
        self._check_session()
        self.table.on_delete(ids)
        for one in ids:
            if self.table.rows.pop(one, None) is not None:
                self.table.deleted.append(one)
        await self._step("deleted")

    async def wait(self, timeout: float) -> None:
        """Wait for a commit."""
        await self._step("wait")
        try:
            async with asyncio.timeout(timeout):
                await self.table.changed.wait()
        except TimeoutError:
            return

    async def release(self) -> None:
        """Give the lock back."""
        self._server = None
        if self.table.owner is self:
            self.table.owner = None
        await self._step("release")

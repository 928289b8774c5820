"""An outbox in a SQLite database: the standard library, in a thread of its own."""

from __future__ import annotations

import asyncio
import json
import os
import sqlite3
from collections.abc import Callable, Collection, Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from pathlib import Path
from typing import Final, TypeVar

from aioproducer.errors import ConfigurationError
from aioproducer.outbox.columns import COLUMNS, Columns, quoted_table
from aioproducer.outbox.reading import row_of
from aioproducer.outbox.rows import Row
from aioproducer.records import BytesLike, Headers

__all__ = ["SqliteStore"]

T = TypeVar("T")
_File = tuple[int, int]

# A writer waits so long for another one, in seconds.
BUSY_TIMEOUT: Final = 5.0
# New rows are looked for at this interval, in seconds: SQLite has no notifications.
LOOK_INTERVAL: Final = 0.05


class _Id(int):
    """The id of a new row, which may be awaited as that of `PostgresStore.add()`."""

    def __await__(self) -> Generator[None, None, int]:
        yield from ()
        return int(self)


class SqliteStore:
    """An outbox in a table of a SQLite database, which other connections and processes may use at the same time.

    The database is switched to WAL mode, so that writers do not wait for the relay's reads. The lock is that of a second,
    empty database beside it (`<path>.<table>.relay`); it ends with the process.
    """

    def __init__(self, path: str | os.PathLike[str], table: str = "outbox") -> None:
        self._path = os.fspath(path)
        if not self._path or self._path == ":memory:" or self._path.startswith("file:"):
            raise ConfigurationError(
                f"path={self._path!r:.80} is not a file: a relay has connections of its own to the database"
            )
        self._table = quoted_table(table)
        # SQLite takes names that differ in upper and lower case for the same.
        self._lock_name = f"{table.lower().removeprefix('main.')}.relay"
        columns = ", ".join(f'"{name}"' for name in COLUMNS)
        self._insert = f"INSERT INTO {self._table} ({columns}) VALUES (?, ?, ?, ?, ?)"  # noqa: S608  # the name is checked
        self._select = (
            f'SELECT id, topic, value, "key", headers, "partition", timestamp FROM {self._table} '  # noqa: S608
            "WHERE id NOT IN (SELECT value FROM json_each(?)) ORDER BY id LIMIT ?"
        )
        self._delete = f"DELETE FROM {self._table} WHERE id IN (SELECT value FROM json_each(?))"  # noqa: S608
        self._place: _Place | None = None

    def schema_sql(self) -> str:
        """The statement that makes the table, if it is not there."""
        return (
            f"CREATE TABLE IF NOT EXISTS {self._table} (\n"
            "    id INTEGER PRIMARY KEY AUTOINCREMENT,\n"
            "    topic TEXT NOT NULL,\n"
            "    value BLOB,\n"
            '    "key" BLOB,\n'
            "    headers TEXT,\n"
            '    "partition" INTEGER,\n'
            "    timestamp INTEGER NOT NULL"
            " DEFAULT (CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER))\n"
            ");\n"
        )

    def add(
        self,
        connection: sqlite3.Connection,
        topic: str,
        value: BytesLike | None = None,
        *,
        key: BytesLike | None = None,
        headers: Headers | None = None,
        partition: int | None = None,
    ) -> _Id:
        """Insert a row with the connection of the caller, in its transaction; the row's id, which may be awaited.

        The row is inserted when this returns, in the thread of the caller.
        """
        row = Columns.of(topic, value, key, headers, partition)
        with closing(connection.execute(self._insert, row)) as cursor:
            return _Id(cursor.lastrowid or 0)

    # -- the store of a relay

    async def acquire(self) -> bool:
        """Take the lock, without waiting for it."""
        place = self._used()
        return await place.run(place.acquire)

    async def read(self, limit: int, skip: Collection[int]) -> Sequence[Row]:
        """The oldest rows, at most `limit`, in the order of their ids, without those in `skip`."""
        place, skipped = self._used(), json.dumps(list(skip))
        return await place.run(lambda: place.read(self._select, skipped, limit))

    async def delete(self, ids: Collection[int]) -> None:
        """Delete these rows, in one transaction."""
        place, gone = self._used(), json.dumps(list(ids))
        await place.run(lambda: place.opened().execute(self._delete, (gone,)))

    async def wait(self, timeout: float) -> None:
        """Wait until another connection has changed the database, at most `timeout` seconds."""
        loop = asyncio.get_running_loop()
        end = loop.time() + timeout
        while (left := end - loop.time()) > 0:
            await asyncio.sleep(min(left, LOOK_INTERVAL))
            place = self._used()
            if await place.run(place.has_changed):
                return

    async def release(self) -> None:
        """Close the connections and end the thread, also if this is cancelled: then when its last statement has ended."""
        place, self._place = self._place, None
        if place is not None:
            await place.end()

    def _used(self) -> _Place:
        if self._place is None:
            self._place = _Place(self._path, self._lock_name)
        return self._place


class _Place:
    """A thread with the connections of a relay, from `acquire()` to `release()`.

    A later one has its own: it cannot take the lock before this one has given it back.
    """

    def __init__(self, path: str, lock_name: str) -> None:
        self._given_path = path
        self._lock_name = lock_name
        self._executor = ThreadPoolExecutor(1, "aioproducer outbox")
        # Of the thread.
        self._lock: sqlite3.Connection | None = None
        self._connection: sqlite3.Connection | None = None
        self._version: int | None = None
        self._used_path = ""
        # The files that the connections have opened: another one may have got their name since.
        self._files: dict[str, _File | None] = {}

    async def run(self, work: Callable[[], T]) -> T:
        """Do this in the thread."""

        def worked() -> T:
            try:
                return work()
            except StopIteration as stop:
                # A value of the caller may raise it. No future takes it, so that this call would not end.
                raise RuntimeError("a value raised StopIteration") from stop

        return await asyncio.get_running_loop().run_in_executor(self._executor, worked)

    async def end(self) -> None:
        """Close the connections in the thread, and end it."""
        loop = asyncio.get_running_loop()
        over = asyncio.Event()

        def tell(_closed: object) -> None:
            # The loop may be closed by then.
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(over.set)

        # Not cancelled with this call: it may stand behind a statement that waits for another writer.
        closed = self._executor.submit(self._close)
        closed.add_done_callback(tell)
        self._executor.shutdown(wait=False)
        await over.wait()
        closed.result()

    # -- in the thread

    def acquire(self) -> bool:
        """Take the lock; False once after a file was removed or replaced."""
        if self._lock is not None:
            is_same = os.path.realpath(self._given_path) == self._used_path
            if is_same and all(_file_of(path) == file for path, file in self._files.items()):
                return True
            self._close()
            return False
        lock_path = f"{self._path()}.{self._lock_name}"
        lock = sqlite3.connect(lock_path, timeout=0, isolation_level=None, check_same_thread=False)
        try:
            lock.execute("BEGIN EXCLUSIVE")
        except sqlite3.OperationalError as error:
            lock.close()
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY:
                raise
            return False
        self._lock = lock
        self._files[lock_path] = _file_of(lock_path)
        return True

    def opened(self) -> sqlite3.Connection:
        """The connection to the database."""
        if self._connection is None:
            path = self._path()
            connection = sqlite3.connect(
                path, timeout=BUSY_TIMEOUT, isolation_level=None, check_same_thread=False
            )
            # Text of a row that is no UTF-8 must not keep the others from being read: its record is refused.
            connection.text_factory = _readable
            try:
                connection.execute("PRAGMA journal_mode=WAL")
                # Durable up to the last checkpoint: after a loss of power, deleted rows may be there and be sent again.
                connection.execute("PRAGMA synchronous=NORMAL")
            except BaseException:
                connection.close()
                raise
            self._connection = connection
            self._files[path] = _file_of(path)
        return self._connection

    def _path(self) -> str:
        """The file has one lock, whatever names and links lead to it."""
        if not self._used_path:
            self._used_path = os.path.realpath(self._given_path)
        return self._used_path

    def read(self, select: str, skipped: str, limit: int) -> list[Row]:
        """The rows that this statement selects."""
        connection = self.opened()
        # Before the rows: a commit in between is noticed by the next wait().
        self._version = self._data_version()
        rows = connection.execute(select, (skipped, limit)).fetchall()
        return [row_of(*row) for row in rows]

    def has_changed(self) -> bool:
        """True when another connection has committed since the last read."""
        return self._data_version() != self._version

    def _data_version(self) -> int:
        version: int = self.opened().execute("PRAGMA data_version").fetchone()[0]
        return version

    def _close(self) -> None:
        connection, self._connection = self._connection, None
        lock, self._lock = self._lock, None
        self._files.clear()
        self._used_path = ""
        try:
            if connection is not None:
                connection.close()
        finally:
            if lock is not None:
                lock.close()


def _file_of(path: str) -> _File | None:
    """The file that has this name now."""
    try:
        found = Path(path).stat()
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino


def _readable(text: bytes) -> str:
    return text.decode(errors="surrogateescape")

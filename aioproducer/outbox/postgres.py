"""An outbox in a PostgreSQL database, by asyncpg."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any, Final

from aioproducer.outbox.columns import COLUMNS, Columns, checked_channel, quoted_table
from aioproducer.outbox.inserting import inserted
from aioproducer.outbox.ranges import gaps_between
from aioproducer.outbox.reading import row_of
from aioproducer.outbox.rows import Row
from aioproducer.outbox.signals import first_of
from aioproducer.records import BytesLike, Headers

if TYPE_CHECKING:
    import asyncpg

__all__ = ["PostgresStore"]

# The longest time of one statement, in seconds.
STATEMENT_TIMEOUT: Final = 30.0
_TYPES: Final = ("text", "bytea", "bytea", "text", "integer")
_HOLDS_LOCK: Final = """\
SELECT EXISTS (
    SELECT FROM pg_locks
    WHERE current_setting('transaction_read_only') = 'off'
        AND locktype = 'advisory' AND pid = pg_backend_pid() AND granted AND objsubid = 1
        AND (classid::bigint << 32) | objid::bigint = $1
        AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
)"""


# Of the connection of a relay. Deleted rows may come back after a crash of the server: they are sent twice then, and never
# lost. Rows are read in the order of the index: the planner, which does not know the ranges, would read and sort them all.
# A serializable read of the table would make transactions of the program fail that insert rows at the same time. A limit for
# idle sessions (PostgreSQL 14) would end the lock. The memory has room for the scattered ids.
_SESSION: Final = """\
SELECT set_config(name, value, false) FROM pg_settings JOIN (
    VALUES ('synchronous_commit', 'off'), ('enable_bitmapscan', 'off'), ('enable_seqscan', 'off'), ('jit', 'off'),
        ('default_transaction_isolation', 'read committed'), ('work_mem', '4MB'), ('idle_session_timeout', '0')
) AS wanted (name, value) USING (name)"""


class PostgresStore:
    """An outbox in a table of a PostgreSQL database.

    `pool` is an asyncpg pool; a relay keeps one of its connections while it has the lock, an advisory lock of the session.
    With `channel`, `add()` notifies it, and the relay listens: rows are sent when they are committed. Without it, an idle
    relay looks every `poll` seconds.
    """

    def __init__(
        self, pool: asyncpg.Pool[Any] | None, table: str = "outbox", channel: str | None = None
    ) -> None:
        self._pool = pool
        self._channel = checked_channel(channel)
        self._table = quoted_table(table)
        digest = hashlib.sha256(f"aioproducer.outbox {table}".encode()).digest()
        self._lock_key = int.from_bytes(digest[:8], "big", signed=True)
        self._insert = _insert_of(self._table, channel)
        self._delete = f"DELETE FROM {self._table} WHERE id = ANY($1::bigint[])"  # noqa: S608  # the name is checked
        self._connection: Any = None
        self._events = _Events()

    def schema_sql(self) -> str:
        """The statement that makes the table, if it is not there."""
        return (
            f"CREATE TABLE IF NOT EXISTS {self._table} (\n"
            "    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,\n"
            "    topic text NOT NULL,\n"
            "    value bytea,\n"
            '    "key" bytea,\n'
            "    headers text,\n"
            '    "partition" integer,\n'
            "    timestamp bigint NOT NULL DEFAULT (extract(epoch FROM clock_timestamp()) * 1000)::bigint\n"
            ");\n"
        )

    async def add(
        self,
        connection: Any,
        topic: str,
        value: BytesLike | None = None,
        *,
        key: BytesLike | None = None,
        headers: Headers | None = None,
        partition: int | None = None,
    ) -> int:
        """Insert a row with the connection of the caller, in its transaction; the row's id.

        `connection`: of asyncpg, an AsyncSession or AsyncConnection of SQLAlchemy, or an AsyncConnection of psycopg.
        """
        return await inserted(connection, self._insert, Columns.of(topic, value, key, headers, partition))

    # -- the store of a relay

    async def acquire(self) -> bool:
        """Take the lock, without waiting for it; False once after it was lost."""
        if self._connection is None:
            return await self._take()
        if not self._events.lost.is_set() and await self._connection.fetchval(
            _HOLDS_LOCK, self._lock_key, timeout=STATEMENT_TIMEOUT
        ):
            return True
        await self.release()
        return False

    async def read(self, limit: int, skip: Collection[int]) -> Sequence[Row]:
        """The oldest rows, at most `limit`, in the order of their ids, without those in `skip`."""
        self._events.notified.clear()
        firsts, lasts, scattered = gaps_between(skip)
        select = _select_of(self._table, limit, has_scattered=bool(scattered))
        places = (firsts, lasts, scattered) if scattered else (firsts, lasts)
        found = await self._held().fetch(select, *places, timeout=STATEMENT_TIMEOUT)
        return [row_of(*each) for each in found]

    async def delete(self, ids: Collection[int]) -> None:
        """Delete these rows, in one transaction."""
        await self._held().execute(self._delete, list(ids), timeout=STATEMENT_TIMEOUT)

    async def wait(self, timeout: float) -> None:
        """Wait until a notification comes or the connection is lost, at most `timeout` seconds."""
        await first_of(self._events.notified.wait(), timeout=timeout)

    async def release(self) -> None:
        """Give the lock and the connection back; cancelled, it closes the connection, which ends the lock as well."""
        connection, self._connection = self._connection, None
        if connection is not None:
            await self._give_back(connection, self._events, has_lock=True)

    # -- the connection

    def _held(self) -> Any:
        if self._connection is None or self._events.lost.is_set():
            raise ConnectionError(
                "the connection to the database was lost, and the lock of the outbox with it"
            )
        return self._connection

    async def _take(self) -> bool:
        if self._pool is None:
            raise ConnectionError("the store has no pool: it can only add rows")
        events = _Events()
        connection: Any = await self._pool.acquire(timeout=STATEMENT_TIMEOUT)
        has_lock = False
        try:
            connection.add_termination_listener(events.ended)
            await connection.execute(_SESSION, timeout=STATEMENT_TIMEOUT)
            has_lock = await connection.fetchval(
                "SELECT pg_try_advisory_lock($1)", self._lock_key, timeout=STATEMENT_TIMEOUT
            )
            if has_lock:
                # A standby, a server that has become read-only, a missing right: rows that stay are sent again and again.
                await connection.execute(self._delete, [], timeout=STATEMENT_TIMEOUT)
            if has_lock and self._channel is not None:
                async with asyncio.timeout(STATEMENT_TIMEOUT):
                    await connection.add_listener(self._channel, events.heard)
        except BaseException:
            if not events.lost.is_set():
                connection.terminate()
            await self._pool.release(connection)
            raise
        if not has_lock:
            await self._give_back(connection, events, has_lock=False)
            return False
        self._connection, self._events = connection, events
        return True

    async def _give_back(self, connection: Any, events: _Events, *, has_lock: bool) -> None:
        assert self._pool is not None  # noqa: S101  # it is from there
        is_clean = False
        try:
            if not events.lost.is_set():
                connection.remove_termination_listener(events.ended)
                if has_lock:
                    await self._unlock(connection, events)
            is_clean = True
        finally:
            if not is_clean and not events.lost.is_set():
                connection.terminate()
            await self._pool.release(connection)

    async def _unlock(self, connection: Any, events: _Events) -> None:
        if self._channel is not None:
            async with asyncio.timeout(STATEMENT_TIMEOUT):
                await connection.remove_listener(self._channel, events.heard)
        await connection.fetchval("SELECT pg_advisory_unlock($1)", self._lock_key, timeout=STATEMENT_TIMEOUT)


class _Events:
    """The notifications and the end of one connection."""

    def __init__(self) -> None:
        self.notified = asyncio.Event()
        self.lost = asyncio.Event()

    def heard(self, _connection: Any, _pid: int, _channel: str, _payload: object) -> None:
        """A transaction with new rows was committed."""
        self.notified.set()

    def ended(self, _connection: Any) -> None:
        """The connection was closed, and the lock with it."""
        self.lost.set()
        self.notified.set()


def _insert_of(table: str, channel: str | None) -> str:
    """The statement of `add()`, with a place such as `{topic}` for each column."""
    columns = ", ".join(f'"{name}"' for name in COLUMNS)
    values = ", ".join(f"CAST({{{name}}} AS {kind})" for name, kind in zip(COLUMNS, _TYPES, strict=True))
    insert = f"INSERT INTO {table} ({columns}) VALUES ({values}) RETURNING id"  # noqa: S608  # the name is checked
    if channel is None:
        return insert
    return f"WITH added AS ({insert}) SELECT id, pg_notify('{channel}', '') FROM added"  # noqa: S608  # as above


def _select_of(table: str, limit: int, *, has_scattered: bool) -> str:
    # The limit is a part of the text: a plan for an unknown limit could read and sort the whole table. The ids that are left
    # out one by one are a subquery, which each version hashes: `<> ALL` compares each row with all of them before version 15.
    scattered = "AND id NOT IN (SELECT unnest($3::bigint[]))" if has_scattered else ""
    return f"""\
SELECT found.id, found.topic, found.value, found."key", found.headers, found."partition", found.timestamp
FROM unnest($1::bigint[], $2::bigint[]) AS gap(first, last)
CROSS JOIN LATERAL (
    SELECT * FROM {table} WHERE id BETWEEN gap.first AND gap.last {scattered} ORDER BY id LIMIT {limit:d}
) AS found
ORDER BY found.id LIMIT {limit:d}"""  # noqa: S608  # the name is checked

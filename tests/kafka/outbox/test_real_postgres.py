"""`PostgresStore` on a real server: each kind of connection, the lock, notifications, the end of sessions."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Final

import asyncpg
import psycopg
import pytest
from psycopg.rows import dict_row
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine

from aioproducer import ConfigurationError, Producer, RecordError
from aioproducer.outbox import ID_HEADER, PostgresStore, Relay, ranges
from aioproducer.outbox import postgres as stores
from aioproducer.outbox.ranges import gaps_between
from aioproducer.testing import EmbeddedKafka
from tests.net.support import LIMIT, until
from tests.outbox.killed import KilledRelay
from tools.postgres import Postgres

pytestmark = pytest.mark.kafka

Pool = asyncpg.Pool


@pytest.fixture
async def store(pool: Pool[Any]) -> PostgresStore:
    """A store with its table, which notifies."""
    store = PostgresStore(pool, channel="new_rows")
    await pool.execute(store.schema_sql())
    return store


@pytest.fixture
async def kafka() -> AsyncIterator[EmbeddedKafka]:
    """One broker with a topic of one partition."""
    async with EmbeddedKafka() as kafka:
        kafka.create_topic("one", 1)
        yield kafka


@pytest.fixture
async def producer(kafka: EmbeddedKafka) -> AsyncIterator[Producer[Any, Any]]:
    """A running gapless producer."""
    async with Producer(kafka.bootstrap_servers, gapless=True) as producer:
        yield producer


def values(kafka: EmbeddedKafka) -> list[bytes | None]:
    """The written values, in order."""
    return [record.value for record in kafka.records("one")]


# -- connections of callers


@asynccontextmanager
async def of_asyncpg(server: Postgres) -> AsyncIterator[tuple[Any, Any, Any]]:
    """A connection, and what begins and rolls back."""
    connection = await asyncpg.connect(**server.address)
    try:
        transaction = connection.transaction()
        await transaction.start()
        yield connection, transaction.commit, transaction.rollback
    finally:
        await connection.close()


@asynccontextmanager
async def of_a_pool(server: Postgres) -> AsyncIterator[tuple[Any, Any, Any]]:
    """A connection that a pool lends."""
    async with asyncpg.create_pool(**server.address, min_size=1) as pool, pool.acquire() as connection:
        transaction = connection.transaction()
        await transaction.start()
        yield connection, transaction.commit, transaction.rollback


def of_sqlalchemy(
    driver: str, kind: str
) -> Callable[[Postgres], AbstractAsyncContextManager[tuple[Any, Any, Any]]]:
    """A session or a connection of SQLAlchemy."""

    @asynccontextmanager
    async def opened(server: Postgres) -> AsyncIterator[tuple[Any, Any, Any]]:
        engine = create_async_engine(server.url(driver))
        try:
            async with AsyncSession(engine) if kind == "session" else engine.connect() as connection:
                yield connection, connection.commit, connection.rollback
        finally:
            await engine.dispose()

    return opened


def of_psycopg(**options: Any) -> Callable[[Postgres], AbstractAsyncContextManager[tuple[Any, Any, Any]]]:
    """A connection of psycopg, which gives rows in any form."""

    @asynccontextmanager
    async def opened(server: Postgres) -> AsyncIterator[tuple[Any, Any, Any]]:
        where = f"host={server.address['host']} user={server.address['user']} dbname=postgres"
        async with await psycopg.AsyncConnection.connect(where, **options) as connection:
            yield connection, connection.commit, connection.rollback

    return opened


KINDS: Final = {
    "asyncpg": of_asyncpg,
    "asyncpg-pool": of_a_pool,
    "sqlalchemy-session": of_sqlalchemy("asyncpg", "session"),
    "sqlalchemy-connection": of_sqlalchemy("asyncpg", "connection"),
    "sqlalchemy-psycopg": of_sqlalchemy("psycopg", "session"),
    "psycopg": of_psycopg(),
    "psycopg-dict": of_psycopg(row_factory=dict_row),
}


@pytest.mark.parametrize("channel", [None, "new_rows"])
@pytest.mark.parametrize("kind", KINDS)
async def test_a_row_belongs_to_the_callers_transaction(
    postgres: Postgres, pool: Pool[Any], kind: str, channel: str | None
) -> None:
    """It is there when the caller commits, with all of its columns, and never when the caller rolls back."""
    store = PostgresStore(pool, "shop.outbox", channel)
    await pool.execute(store.schema_sql())
    headers = [("a", b"50%"), ("a", None), ("b", b"\xff\x00"), ("c:d", b":x $1 {topic}")]
    assert await store.acquire()
    async with KINDS[kind](postgres) as (connection, commit, rollback):
        one = await store.add(
            connection, "one", bytearray(b"v\x00"), key=memoryview(b"k"), headers=headers, partition=3
        )
        two = await store.add(connection, "two", None)
        assert isinstance(one, int)
        assert two == one + 1
        assert await store.read(10, ()) == []
        await commit()
        first, second = await store.read(10, ())
    assert first[:6] == (one, "one", b"v\x00", b"k", headers, 3)
    assert second[:6] == (two, "two", None, None, None, None)
    assert isinstance(first.timestamp, int)
    assert first.timestamp > 1_700_000_000_000
    await store.delete([one, two])
    async with KINDS[kind](postgres) as (connection, commit, rollback):
        await store.add(connection, "one", b"v")
        await rollback()
    assert await store.read(10, ()) == []
    await store.release()


async def test_other_connections_are_refused(pool: Pool[Any], store: PostgresStore) -> None:
    """The error names those that are taken; what cannot be sent is refused before."""
    with pytest.raises(ConfigurationError, match="AsyncSession"):
        await store.add(object(), "one", b"v")
    connection = sqlite3.connect(":memory:")
    with pytest.raises(ConfigurationError, match="asyncpg"):
        await store.add(connection, "one", b"v")
    connection.close()
    with pytest.raises(RecordError):
        await store.add(pool, "no/topic", b"v")
    with pytest.raises(ConfigurationError, match="channel"):
        PostgresStore(pool, channel="a; drop table outbox")


# -- reading


@pytest.mark.parametrize("few", [0, 5, 100])
async def test_reads_leave_out_what_is_skipped(
    few: int, pool: Pool[Any], store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows below, between and above the skipped ones are found, in order and up to the limit."""
    monkeypatch.setattr(ranges, "FEW", few)
    await pool.execute("INSERT INTO outbox (topic) SELECT 'one' FROM generate_series(1, 20)")
    assert await store.acquire()

    async def ids(limit: int, *skip: int) -> list[int]:
        return [row.id for row in await store.read(limit, skip)]

    try:
        assert await ids(3) == [1, 2, 3]
        assert await ids(100, *range(1, 18)) == [18, 19, 20]
        assert await ids(4, 10, 2, 3, 4, 1, 6, 8, 9) == [5, 7, 11, 12]
        assert await ids(100, *range(1, 21)) == []
        # Ids in a row beside others that are not, in plans that are made for them, and in one for any.
        for shift in range(12):
            skip = [1 + shift % 3, 4, 6, 7, *range(9, 15), 16 + shift % 4]
            assert await ids(100, *skip) == [one for one in range(1, 21) if one not in skip]
            assert await ids(3, *skip) == [one for one in range(1, 21) if one not in skip][:3]
        await store.delete([1, 2, 99])
        assert await ids(2, 4) == [3, 5]
    finally:
        await store.release()


async def test_reads_leave_out_many_ids_one_by_one(postgres: Postgres, store: PostgresStore) -> None:
    """They are hashed, also where the server has little memory for each statement."""
    options: Any = {"server_settings": {"work_mem": "64kB"}}
    async with asyncpg.create_pool(**postgres.address, **options, min_size=1) as pool:
        await pool.execute("INSERT INTO outbox (topic) SELECT 'one' FROM generate_series(1, 20000)")
        skip = range(1, 20001, 2)
        reading = PostgresStore(pool)
        assert await reading.acquire()
        try:
            for _ in range(7):
                assert [row.id for row in await reading.read(3, skip)] == [2, 4, 6]
            select = stores._select_of('"outbox"', 3, has_scattered=True)
            plan = await reading._connection.fetch(f"EXPLAIN {select}", *gaps_between(skip))
            assert any("hashed SubPlan" in line for (line,) in plan)
        finally:
            await reading.release()


# -- the lock


async def test_the_ends_of_the_ids(pool: Pool[Any], store: PostgresStore) -> None:
    """The lowest and the highest id of the column are read as others, and left out as others."""
    ends = [-(2**63), 2**63 - 1]
    assert await store.acquire()
    await pool.executemany(
        "INSERT INTO outbox (id, topic, value) OVERRIDING SYSTEM VALUE VALUES ($1, 'one', '')",
        [(each,) for each in (*ends, 5)],
    )
    assert [row.id for row in await store.read(10, ())] == [ends[0], 5, ends[1]]
    assert [row.id for row in await store.read(10, ends)] == [5]
    assert [row.id for row in await store.read(10, [5])] == ends
    await store.release()


async def test_one_relay_at_a_time(postgres: Postgres, pool: Pool[Any], store: PostgresStore) -> None:
    """The lock belongs to a table; it ends with its session; the store says so once."""
    second, other = PostgresStore(pool), PostgresStore(pool, "shop.outbox")
    await pool.execute(other.schema_sql())
    assert await store.acquire()
    assert await store.acquire()
    assert not await second.acquire()
    assert await other.acquire()
    await other.release()
    await pool.execute("SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory'")
    async with asyncio.timeout(LIMIT):
        await store.wait(60)
    assert not await store.acquire()
    assert await second.acquire()
    assert not await store.acquire()
    await second.release()
    assert await store.acquire()
    await store.release()
    await store.release()


async def test_a_lock_that_was_taken_away_in_its_session(pool: Pool[Any], store: PostgresStore) -> None:
    """A pooler that resets sessions ends the lock without ending the connection."""
    assert await store.acquire()
    await store._connection.execute("SELECT pg_advisory_unlock_all()")
    assert not await store.acquire()
    assert await store.acquire()
    await store.release()


async def test_the_second_relay_takes_over(
    kafka: EmbeddedKafka, producer: Producer[Any, Any], pool: Pool[Any], store: PostgresStore
) -> None:
    """The session of the first is ended; it sends no more, and is the one that stands by."""
    second = PostgresStore(pool, channel="new_rows")
    one, two = Relay(producer, store, poll=0.05), Relay(producer, second, poll=0.05)
    async with one:
        await until(lambda: one.stats().active)
        async with two:
            await store.add(pool, "one", b"1")
            await until(lambda: one.stats().deleted == 1)
            await pool.execute("SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory'")
            await until(lambda: two.stats().active or one.stats().sent < 0)
            await store.add(pool, "one", b"2")
            await until(lambda: one.stats().deleted + two.stats().deleted == 2)
    assert values(kafka) == [b"1", b"2"]


@pytest.mark.parametrize("reason", ["read-only", "permission denied"])
async def test_a_relay_that_cannot_delete_sends_nothing(
    reason: str,
    kafka: EmbeddedKafka,
    producer: Producer[Any, Any],
    postgres: Postgres,
    pool: Pool[Any],
    store: PostgresStore,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A standby has locks of its own, and a user may lack the right: the rows are left to other relays, and the log says why."""
    await pool.execute(
        "DROP ROLE IF EXISTS reader; CREATE ROLE reader LOGIN; GRANT SELECT ON outbox TO reader"
    )
    options: dict[str, Any] = {"server_settings": {"default_transaction_read_only": "on"}}
    if reason != "read-only":
        options = {"user": "reader"}
    await store.add(pool, "one", b"v")
    async with (
        asyncpg.create_pool(**postgres.address | options, min_size=1) as other,
        Relay(producer, PostgresStore(other), poll=0.05) as relay,
    ):
        await until(lambda: reason in caplog.text)
        assert relay.stats().sent == 0
        async with Relay(producer, store, poll=0.05) as able:
            await until(lambda: able.stats().deleted == 1)
    await pool.execute("DROP OWNED BY reader; DROP ROLE reader")
    assert values(kafka) == [b"v"]


async def test_a_server_that_becomes_read_only(pool: Pool[Any], store: PostgresStore) -> None:
    """The relay sends no more until rows can be deleted again."""
    assert await store.acquire()
    try:
        await store._connection.execute("SET default_transaction_read_only = on")
        assert not await store.acquire()
        assert await store.acquire()
    finally:
        await store.release()


async def test_a_read_makes_no_serializable_transaction_fail(
    postgres: Postgres, store: PostgresStore
) -> None:
    """The default of the database is serializable: a relay is beside such transactions, and not one of them."""
    options: Any = {"server_settings": {"default_transaction_isolation": "serializable"}}
    async with asyncpg.create_pool(**postgres.address, **options, min_size=3) as pool:
        await pool.execute("DROP TABLE IF EXISTS stock; CREATE TABLE stock (count integer)")
        await pool.execute("INSERT INTO stock VALUES (1)")
        relaying = PostgresStore(pool)
        assert await relaying.acquire()
        try:
            async with pool.acquire() as connection, connection.transaction():
                await connection.fetchval("SELECT count FROM stock")
                await pool.execute("UPDATE stock SET count = 2")
                assert await relaying.read(10, ()) == []
                await store.add(connection, "one", b"v")
            assert len(await relaying.read(10, ())) == 1
        finally:
            await relaying.release()


async def test_columns_of_other_types(pool: Pool[Any]) -> None:
    """A table that was made by hand: texts are sent in UTF-8, and JSON may have a codec."""
    await pool.execute(
        """CREATE TABLE shop.outbox (id serial PRIMARY KEY, topic text, value jsonb, "key" text, headers jsonb,
        "partition" smallint, timestamp timestamptz DEFAULT now())"""
    )
    await pool.execute(
        """INSERT INTO shop.outbox (topic, value, "key", headers) VALUES ('one', '{"a": 1}', 'ü', '{"h": "v"}')"""
    )
    store = PostgresStore(pool, "shop.outbox")
    assert await store.acquire()
    for _ in range(2):
        (row,) = await store.read(10, ())
        assert row[:6] == (1, "one", b'{"a": 1}', "ü".encode(), [("h", b"v")], None)
        await store._connection.set_type_codec("jsonb", encoder=str, decoder=decoded, schema="pg_catalog")
    await store.release()


def decoded(text: str) -> object:
    """The values as they are, and headers as objects."""
    return json.loads(text) if "h" in text else text


async def test_a_notification_wakes_the_relay(
    kafka: EmbeddedKafka, producer: Producer[Any, Any], pool: Pool[Any], store: PostgresStore
) -> None:
    """It is sent with the commit; the relay would look after a minute by itself."""
    async with Relay(producer, store, poll=60) as relay:
        for number in range(1, 6):
            async with pool.acquire() as connection, connection.transaction():
                await store.add(connection, "one", b"%d" % number)
            await until(lambda number=number: relay.stats().deleted == number)  # type: ignore[misc]
    record = kafka.records("one")[0]
    assert record.headers == ((ID_HEADER, b"1"),)


async def test_the_server_is_killed_and_comes_back(
    kafka: EmbeddedKafka,
    producer: Producer[Any, Any],
    postgres: Postgres,
    pool: Pool[Any],
    store: PostgresStore,
) -> None:
    """The relay takes its lock again by itself."""
    async with Relay(producer, store, poll=0.05) as relay:
        await store.add(pool, "one", b"1")
        await until(lambda: relay.stats().deleted == 1)
        await asyncio.to_thread(postgres.kill)
        await until(lambda: not relay.stats().active)
        # By this thread: the server ends with the one that has started it.
        postgres.start()
        await pool.expire_connections()
        await store.add(pool, "one", b"2")
        await until(lambda: b"2" in values(kafka))
        assert relay.error is None


@pytest.mark.parametrize("is_refused", [True, False])
@pytest.mark.parametrize("is_written", [True, False])
async def test_a_process_that_is_killed_while_rows_are_held(
    is_written: bool,
    is_refused: bool,
    kafka: EmbeddedKafka,
    producer: Producer[Any, Any],
    postgres: Postgres,
    pool: Pool[Any],
    store: PostgresStore,
) -> None:
    """No row is lost, each copy has its id, and all other rows are in order."""

    async def add(numbers: Collection[int]) -> None:
        async with pool.acquire() as connection, connection.transaction():
            for number in numbers:
                assert await store.add(connection, "one", b"%d" % number, key=b"k") == number

    async def left() -> Collection[int]:
        return [row["id"] for row in await pool.fetch("SELECT id FROM outbox")]

    life = KilledRelay(kafka, postgres.address["host"], add, left)
    await life.run(is_written=is_written)
    await life.succeed(producer, store, is_refused=is_refused)
    life.check(is_written=is_written)


async def test_a_cancelled_release_ends_the_session(pool: Pool[Any], store: PostgresStore) -> None:
    """So the lock is free at once, whatever the server does."""
    assert await store.acquire()
    task = asyncio.ensure_future(store.release())
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait([task])
    second = PostgresStore(pool)
    async with asyncio.timeout(LIMIT):
        while not await second.acquire():  # noqa: ASYNC110  # a server has no event for it
            await asyncio.sleep(0)
    await second.release()


@pytest.mark.parametrize("call", ["add_listener", "remove_listener"])
async def test_a_server_that_does_not_answer_a_listener(
    call: str, postgres: Postgres, store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The call ends with the limit of a statement, and the session with it."""

    async def hang(_connection: object, *_arguments: object) -> None:
        await asyncio.Event().wait()

    class Silent(asyncpg.Connection):
        pass

    setattr(Silent, call, hang)
    monkeypatch.setattr(stores, "STATEMENT_TIMEOUT", 0.2)
    async with asyncpg.create_pool(**postgres.address, connection_class=Silent, min_size=1) as pool:
        silent = PostgresStore(pool, channel="new_rows")
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(5) as limit:
                await silent.acquire()
                await silent.release()
        assert not limit.expired()
        async with asyncio.timeout(LIMIT):
            while not await store.acquire():  # noqa: ASYNC110  # a server has no event for it
                await asyncio.sleep(0)
        await store.release()


async def test_a_limit_for_idle_sessions(postgres: Postgres, store: PostgresStore) -> None:
    """It does not hold for that of a relay, whose lock would end with it, and holds again when it is given back."""
    options: Any = {"server_settings": {"idle_session_timeout": "100"}}
    async with asyncpg.create_pool(**postgres.address, **options, min_size=1, max_size=1) as limited:
        idle = PostgresStore(limited)
        assert await idle.acquire()
        assert await idle._connection.fetchval("SHOW idle_session_timeout") == "0"
        await idle.release()
        assert await limited.fetchval("SHOW idle_session_timeout") == "100ms"


async def test_a_store_without_a_pool_adds_rows(pool: Pool[Any], store: PostgresStore) -> None:
    """A program that only writes rows needs no pool of asyncpg."""
    writing = PostgresStore(None)
    await writing.add(pool, "one", b"v")
    with pytest.raises(ConnectionError):
        await writing.acquire()
    with pytest.raises(ConnectionError):
        await writing.read(1, ())
    assert await store.acquire()
    assert len(await store.read(10, ())) == 1
    await store.release()

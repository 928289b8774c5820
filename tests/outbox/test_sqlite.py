"""`SqliteStore` on real files: transactions of callers, concurrent writers, the lock, contents of rows."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import sqlite3
import subprocess
import sys
import threading
from collections import UserDict
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

import pytest

from aioproducer import ConfigurationError, Producer, RecordError
from aioproducer.outbox import ID_HEADER, Relay, Row, SqliteStore
from aioproducer.outlets import DeadLetters
from aioproducer.testing import EmbeddedKafka
from tests.net.support import LIMIT, until
from tests.outbox.killed import KilledRelay
from tests.repo.source import ROOT


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A database with the table of an outbox."""
    path = tmp_path / "orders.db"
    with sqlite3.connect(path) as connection:
        connection.executescript(SqliteStore(path).schema_sql())
    connection.close()
    return path


@pytest.fixture
def connection(path: Path) -> Iterator[sqlite3.Connection]:
    """A connection of the application."""
    connection = sqlite3.connect(path)
    yield connection
    connection.close()


def values(kafka: EmbeddedKafka) -> list[bytes | None]:
    """The written values, in order."""
    return [record.value for record in kafka.records("one")]


async def read(store: SqliteStore) -> list[Row]:
    """The rows of the table."""
    try:
        return list(await store.read(100, ()))
    finally:
        await store.release()


class Stops:
    """A number that raises when it is read."""

    def __conform__(self, _protocol: object) -> int:
        raise StopIteration


async def test_a_value_that_raises_stop_iteration(path: Path) -> None:
    """The call ends with an error: no future of a thread takes this one."""
    store = SqliteStore(path)
    async with asyncio.timeout(LIMIT):
        with pytest.raises(RuntimeError, match="StopIteration"):
            await store.read(Stops(), ())  # type: ignore[arg-type]
        assert await read(store) == []


async def test_a_row_belongs_to_the_callers_transaction(
    kafka: EmbeddedKafka, producer: Producer[Any, Any], path: Path, connection: sqlite3.Connection
) -> None:
    """A row that is rolled back is never sent; a committed one is, with an id that the caller knows."""
    store = SqliteStore(path)
    store.add(connection, "one", b"rolled back")
    connection.rollback()
    number = store.add(connection, "one", b"committed", key=b"k", headers={"h": b"\xff"}, partition=0)
    async with Relay(producer, store) as relay:
        await until(lambda: relay.stats().active)
        assert values(kafka) == []
        connection.commit()
        await until(lambda: relay.stats().deleted == 1)
        assert await store.add(connection, "one", b"awaited") == number + 1
        connection.commit()
        await until(lambda: relay.stats().deleted == 2)
    assert values(kafka) == [b"committed", b"awaited"]
    record = kafka.records("one")[0]
    assert record.headers == (("h", b"\xff"), (ID_HEADER, b"%d" % number))
    assert connection.execute("SELECT count(*) FROM outbox").fetchone() == (0,)
    assert number == 1


async def test_the_columns_of_a_row(path: Path, connection: sqlite3.Connection) -> None:
    """Each of them comes back as it was added; the timestamp is that of the insertion."""
    store = SqliteStore(path)
    headers = [("a", b"text"), ("a", None), ("ü", "ß\0".encode()), ("b", b"\xff\x00")]
    store.add(connection, "one", bytearray(b"v"), key=memoryview(b"k"), headers=headers, partition=3)
    store.add(connection, "two", None)
    connection.commit()
    first, second = await read(store)
    assert first[:6] == (1, "one", b"v", b"k", headers, 3)
    assert second[:6] == (2, "two", None, None, None, None)
    assert isinstance(first.timestamp, int)
    assert first.timestamp > 1_700_000_000_000


async def test_headers_that_were_written_by_hand(path: Path, connection: sqlite3.Connection) -> None:
    """An object is taken as well; a text that cannot be read is left to the relay, which refuses the record."""
    texts = [
        '{"a": "1", "b": null}',
        "[]",
        "nonsense",
        '[["a"]]',
        '[["a", 1]]',
        '[["a", {"base64": "?"}]]',
        "3",
    ]
    for text in texts:
        connection.execute("INSERT INTO outbox (topic, headers) VALUES ('one', ?)", (text,))
    connection.commit()
    found = [row.headers for row in await read(SqliteStore(path))]
    assert found == [[("a", b"1"), ("b", None)], [], *texts[2:]]


class Broken(UserDict[str, bytes]):
    """A mapping of a program, with a defect."""

    def __getitem__(self, key: str) -> bytes:
        raise LookupError(key)


@pytest.mark.parametrize(
    ("topic", "options"),
    [
        ("", {}),
        ("no/topic", {}),
        ("one", {"value": "text"}),
        ("one", {"key": 3}),
        ("one", {"partition": -1}),
        ("one", {"partition": True}),
        ("one", {"headers": ["text"]}),
        ("one", {"headers": {"a": "text"}}),
        ("one", {"headers": {1: b"v"}}),
        ("one", {"headers": {"\ud800": b"v"}}),
        ("one", {"headers": 3}),
        ("one", {"headers": Broken(a=b"v")}),
    ],
)
def test_what_cannot_be_sent_is_not_added(
    path: Path, connection: sqlite3.Connection, topic: str, options: Any
) -> None:
    """The caller gets the error before anything is inserted."""
    arguments = {"value": b"v"} | options
    with pytest.raises(RecordError):
        SqliteStore(path).add(connection, topic, **arguments)
    assert connection.execute("SELECT count(*) FROM outbox").fetchone() == (0,)


@pytest.mark.parametrize(
    "arguments", [(":memory:",), ("",), ("file:x?mode=rw",), ("a.db", 'out"box'), ("a.db", "a.b.c")]
)
def test_names_are_checked(arguments: tuple[str, ...]) -> None:
    """A database in memory has one connection only; a name is no place for SQL."""
    with pytest.raises(ConfigurationError):
        SqliteStore(*arguments)


@pytest.mark.parametrize(
    "headers", ["CAST(x'ff' AS TEXT)", "'" + "[" * 200_000 + "'"], ids=["no UTF-8", "nested"]
)
async def test_a_row_that_cannot_be_read(
    headers: str,
    kafka: EmbeddedKafka,
    producer: Producer[Any, Any],
    path: Path,
    connection: sqlite3.Connection,
) -> None:
    """One that was inserted by hand: it is set aside, and those behind it are sent."""
    connection.execute(f"INSERT INTO outbox (topic, value, headers) VALUES ('one', x'01', {headers})")
    store = SqliteStore(path)
    store.add(connection, "one", b"behind")
    connection.commit()
    kafka.create_topic("dead", 1)
    async with Relay(producer, store, poll=0.01, dead_letters=DeadLetters(producer, "dead")):
        await until(lambda: values(kafka) == [b"behind"])
    assert [record.value for record in kafka.records("dead")] == [b"\x01"]


async def test_rows_that_were_inserted_by_sql(
    kafka: EmbeddedKafka, producer: Producer[Any, Any], path: Path, connection: sqlite3.Connection
) -> None:
    """A text is sent in UTF-8, and a time with a fraction by its milliseconds."""
    connection.execute(
        """INSERT INTO outbox (topic, value, "key", timestamp) VALUES ('one', '{"a": "ü"}', 'k', 1700000000000.25)"""
    )
    connection.execute("INSERT INTO outbox (topic, value) VALUES ('one', CAST(x'ff' AS TEXT))")
    connection.commit()
    async with Relay(producer, SqliteStore(path), poll=0.01) as relay:
        await until(lambda: relay.stats().deleted == 2)
    first, second = kafka.records("one")
    assert (first.value, first.key, first.timestamp) == ('{"a": "ü"}'.encode(), b"k", 1700000000000)
    assert second.value == b"\xff"


async def test_concurrent_writers(kafka: EmbeddedKafka, producer: Producer[Any, Any], path: Path) -> None:
    """Four threads write while the relay reads and deletes: no call fails, no row is lost, none is doubled."""
    store = SqliteStore(path)
    failures: list[Exception] = []

    def write(writer: int) -> None:
        connection = sqlite3.connect(path, timeout=30)
        try:
            for number in range(50):
                with connection:
                    store.add(connection, "four", b"%d" % number, partition=writer)
        except Exception as error:  # noqa: BLE001  # raised by the test
            failures.append(error)
        finally:
            connection.close()

    threads = [threading.Thread(target=write, args=(writer,)) for writer in range(4)]
    async with Relay(producer, store, batch=20) as relay:
        for thread in threads:
            thread.start()
        await until(lambda: relay.stats().deleted == 200)
    for thread in threads:
        thread.join()
    assert failures == []
    for partition in range(4):
        found = [record.value for record in kafka.records("four", partition)]
        assert found == [b"%d" % number for number in range(50)]


async def test_a_writer_that_holds_the_database_delays_the_deletion(
    kafka: EmbeddedKafka,
    producer: Producer[Any, Any],
    path: Path,
    connection: sqlite3.Connection,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The rows are sent once: acknowledged rows are not read again."""
    monkeypatch.setattr("aioproducer.outbox.sqlite.BUSY_TIMEOUT", 0.01)
    store = SqliteStore(path)
    for number in range(10):
        store.add(connection, "one", b"%d" % number)
    connection.commit()
    async with Relay(producer, store, poll=0.02) as relay:
        await until(lambda: len(values(kafka)) == 10)
        connection.execute("BEGIN IMMEDIATE")
        await until(lambda: relay.stats().deleted == 10 or len(values(kafka)) == 10)
        connection.rollback()
        await until(lambda: relay.stats().deleted == 10)
    assert len(values(kafka)) == 10


async def test_one_relay_at_a_time(path: Path) -> None:
    """Another store of this table does not get the lock, also in another process, until it is given back."""
    first, second, other = SqliteStore(path), SqliteStore(path), SqliteStore(path, "other")
    assert await first.acquire()
    assert await first.acquire()
    assert not await second.acquire()
    assert await other.acquire()
    program = f"import asyncio; from aioproducer.outbox import SqliteStore; print(asyncio.run(SqliteStore({str(path)!r}).acquire()))"
    run = [sys.executable, "-c", program]
    told = await asyncio.to_thread(subprocess.run, run, capture_output=True, text=True, cwd=ROOT, check=True)
    assert told.stdout == "False\n"
    await first.release()
    assert await second.acquire()
    for store in (first, second, other):
        await store.release()
        await store.release()


@pytest.mark.parametrize("table", ["outbox", "OutBox", "main.outbox"])
async def test_a_database_has_one_lock_by_any_name(
    path: Path, table: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A link, a relative path, or the table in other letters: it is the same table, and one relay sends its rows."""
    link = path.with_name("link.db")
    link.symlink_to(path)
    monkeypatch.chdir(path.parent)
    first = SqliteStore(path)
    assert await first.acquire()
    for name in (path, link, path.name):
        second = SqliteStore(name, table)
        assert not await second.acquire()
        await second.release()
    await first.release()


async def test_a_lock_file_that_was_removed(path: Path) -> None:
    """Another relay takes the lock of a new file: the first one has it no longer, and says so once."""
    first, second = SqliteStore(path), SqliteStore(path)
    assert await first.acquire()
    path.with_name("orders.db.outbox.relay").unlink()
    assert await second.acquire()
    assert not await first.acquire()
    await second.release()
    assert await first.acquire()
    await first.release()


async def test_a_database_that_was_replaced(
    kafka: EmbeddedKafka, producer: Producer[Any, Any], path: Path, connection: sqlite3.Connection
) -> None:
    """A backup was restored in its place: the relay opens the new file."""
    store = SqliteStore(path)
    store.add(connection, "one", b"old")
    connection.commit()
    restored = path.with_name("restored.db")
    with contextlib.closing(sqlite3.connect(restored)) as other:
        other.executescript(store.schema_sql())
        store.add(other, "one", b"new")
        other.commit()
    async with Relay(producer, store, poll=0.02) as relay:
        await until(lambda: relay.stats().deleted == 1)
        connection.close()
        for suffix in ("-wal", "-shm"):
            path.with_name(path.name + suffix).unlink(missing_ok=True)
        restored.replace(path)
        await until(lambda: relay.stats().deleted == 2)
    assert values(kafka) == [b"old", b"new"]


async def test_a_release_that_is_cancelled(path: Path, connection: sqlite3.Connection) -> None:
    """The lock is given back behind the statement that waits for a writer, and not taken for one that is held."""
    first, second = SqliteStore(path), SqliteStore(path)
    assert await first.acquire()
    await first.read(1, ())
    connection.execute("INSERT INTO outbox (topic) VALUES ('one')")
    deleting = asyncio.create_task(first.delete([1]))
    await asyncio.sleep(0)
    releasing = asyncio.create_task(first.release())
    await asyncio.sleep(0)
    releasing.cancel()
    await asyncio.wait([releasing])
    assert not await first.acquire()
    connection.commit()
    await deleting
    async with asyncio.timeout(LIMIT):
        while not await second.acquire():  # noqa: ASYNC110  # the thread of the first has no event
            await asyncio.sleep(0)
    assert not await first.acquire()
    await asyncio.gather(first.release(), second.release())


async def test_the_lock_ends_with_its_process(path: Path) -> None:
    """A process that is killed leaves nothing behind that a successor would have to remove."""
    program = (
        "import asyncio\nfrom aioproducer.outbox import SqliteStore\n"
        "async def main() -> None:\n"
        f"    assert await SqliteStore({str(path)!r}).acquire()\n"
        "    print('has it', flush=True)\n"
        "    await asyncio.Event().wait()\n"
        "asyncio.run(main())\n"
    )
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", program, stdout=asyncio.subprocess.PIPE, cwd=ROOT
    )
    assert process.stdout is not None
    assert await process.stdout.readline() == b"has it\n"
    store = SqliteStore(path)
    assert not await store.acquire()
    process.kill()
    await process.wait()
    assert await store.acquire()
    await store.release()


async def test_a_process_that_is_killed_between_the_acknowledgement_and_the_deletion(
    kafka: EmbeddedKafka, producer: Producer[Any, Any], path: Path, connection: sqlite3.Connection
) -> None:
    """Its successor writes all rows again: copies have the same id, key, value and time, and first copies are in order."""
    store = SqliteStore(path)
    for number in range(5):
        store.add(connection, "four", b"%d" % number, key=b"alice", headers={"h": b"1"})
    connection.commit()
    program = (
        "import asyncio, os, sys\nfrom aioproducer import Producer\nfrom aioproducer.outbox import Relay, SqliteStore\n"
        "class Killed(SqliteStore):\n"
        "    async def delete(self, ids):\n"
        "        os._exit(9)\n"
        "async def main(servers, path):\n"
        "    async with Producer(servers, gapless=True) as producer:\n"
        "        await Relay(producer, Killed(path)).run()\n"
        "asyncio.run(main(*sys.argv[1:]))\n"
    )
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", program, kafka.bootstrap_servers, str(path), cwd=ROOT
    )
    assert await process.wait() == 9
    written = len(kafka.records("four"))
    assert written > 0
    assert connection.execute("SELECT count(*) FROM outbox").fetchone() == (5,)
    connection.rollback()
    async with Relay(producer, store, poll=0.01) as relay:
        await until(lambda: relay.stats().deleted == 5)
    records = kafka.records("four")
    assert len(records) == written + 5
    assert list(dict.fromkeys(record.headers[-1] for record in records)) == [
        (ID_HEADER, b"%d" % number) for number in range(1, 6)
    ]
    # A reader that drops copies by their id sees each row once, whichever copy it takes.
    facts = {(one.partition, one.key, one.value, one.timestamp, one.headers) for one in records}
    assert len(facts) == 5


@pytest.mark.parametrize("is_refused", [True, False])
@pytest.mark.parametrize("is_written", [True, False])
async def test_a_process_that_is_killed_while_rows_are_held(
    is_written: bool,
    is_refused: bool,
    kafka: EmbeddedKafka,
    producer: Producer[Any, Any],
    path: Path,
    connection: sqlite3.Connection,
) -> None:
    """No row is lost, each copy has its id, and all other rows are in order."""
    store = SqliteStore(path)

    async def add(numbers: Collection[int]) -> None:
        for number in numbers:
            assert store.add(connection, "one", b"%d" % number, key=b"k") == number
        connection.commit()

    async def left() -> Collection[int]:
        return [number for (number,) in connection.execute("SELECT id FROM outbox")]

    life = KilledRelay(kafka, str(path), add, left)
    await life.run(is_written=is_written)
    await life.succeed(producer, store, is_refused=is_refused)
    life.check(is_written=is_written)


async def test_a_missing_table_is_told_and_waited_for(
    kafka: EmbeddedKafka, producer: Producer[Any, Any], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The relay may start before the migrations; one line of the log tells the reason."""
    path = tmp_path / "late.db"
    store = SqliteStore(path)
    async with Relay(producer, store, poll=0.02) as relay:
        await until(lambda: "no such table: outbox" in caplog.text)
        with sqlite3.connect(path) as connection:
            connection.executescript(store.schema_sql())
            store.add(connection, "one", b"v")
        connection.close()
        await until(lambda: relay.stats().deleted == 1)
    assert caplog.text.count("no such table") == 1


async def test_ids_are_never_used_again(path: Path, connection: sqlite3.Connection) -> None:
    """Also after the newest rows were deleted: readers tell copies by them."""
    store = SqliteStore(path)
    numbers = []
    for number in itertools.chain([1], [2]):
        numbers.append(int(store.add(connection, "one", b"%d" % number)))
        connection.commit()
        await store.delete(numbers)
    await store.release()
    assert numbers == [1, 2]

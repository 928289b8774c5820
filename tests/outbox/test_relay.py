"""The relay on a store in memory: order, deletion, failures, the lock, the end."""

from __future__ import annotations

import asyncio
import time
from datetime import datetime
from typing import Any

import pytest

from aioproducer import (
    ConfigurationError,
    DeliveryError,
    KafkaError,
    MetadataTimeoutError,
    Producer,
    Record,
    RecordError,
    RecordTooLargeError,
    StateError,
)
from aioproducer.outbox import ID_HEADER, Relay, RelayStats, Row, Store
from aioproducer.outbox.session import MANY_IN_DOUBT, PAGES
from aioproducer.outlets import DeadLetters
from aioproducer.testing import EmbeddedKafka, MockProducer
from tests.net.support import LIMIT, until
from tests.outbox.memory import BrokenStoreError, MemoryStore, Table


class Own(BaseException):
    """An exception that is no Exception."""


class Letters:
    """The part of `DeadLetters` that a relay uses."""

    def __init__(self, producer: Producer[Any, Any] | None = None, failures: int = 0) -> None:
        self.producer = producer
        self.failures = failures
        self.put_aside: list[tuple[Record[Any, Any], KafkaError]] = []

    async def put(self, record: Record[Any, Any], error: KafkaError) -> Any:
        """Set a record aside."""
        if self.failures:
            self.failures -= 1
            raise DeliveryError("dead letters")
        self.put_aside.append((record, error))
        if self.producer is None:
            return None
        return await self.producer.send("dead", record.value, headers=record.headers)

    @property
    def ids(self) -> list[int]:
        """The rows that were set aside."""
        return [int(dict(record.headers or ())[ID_HEADER] or b"") for record, _ in self.put_aside]


def ids(kafka: EmbeddedKafka, topic: str = "one", partition: int | None = None) -> list[int]:
    """The rows in the log, in its order."""
    records = kafka.records(topic, partition)
    return [int(dict(record.headers)[ID_HEADER] or b"") for record in records]


def large() -> bytes:
    """A value that no producer here accepts."""
    return b"x" * 20_000


# -- rows that are sent


async def test_rows_are_sent_in_order_and_deleted(
    kafka: EmbeddedKafka, producer: Producer[Any, Any], table: Table, store: MemoryStore
) -> None:
    """The records have the columns of their rows, and the id behind their headers."""
    table.add("one", b"v", key=b"k", headers=[("a", b"1"), ("a", None)], partition=0, timestamp=1234)
    for _ in range(99):
        table.add("one", b"more", headers={"b": b"2"})
    async with Relay(producer, store) as relay:
        await until(lambda: not table.rows)
        assert relay.stats() == RelayStats(100, 100, 0, None, active=True)
    assert relay.stats() == RelayStats(100, 100, 0, None, active=False)
    assert relay.error is None
    assert ids(kafka) == list(range(1, 101))
    first, second, *_ = kafka.records("one")
    assert (first.key, first.value, first.timestamp) == (b"k", b"v", 1234)
    assert first.headers == (("a", b"1"), ("a", None), (ID_HEADER, b"1"))
    assert second.headers == (("b", b"2"), (ID_HEADER, b"2"))
    assert table.owner is None
    assert isinstance(store, Store)


async def test_nothing_is_deleted_before_its_acknowledgement(
    kafka: EmbeddedKafka, producer: Producer[Any, Any], table: Table, store: MemoryStore
) -> None:
    """Rows are sent without waiting for each other, and deleted together when their answer is there."""
    answers = kafka.faults.delay(times=None)
    for _ in range(50):
        table.add("one", b"v")
    async with Relay(producer, store) as relay:
        await until(lambda: len(ids(kafka)) == 50)
        assert "delete" not in store.calls
        assert relay.stats().pending == 50
        oldest = relay.stats().oldest_seconds
        assert oldest is not None
        assert 0 <= oldest < 60
        answers.release()
        await until(lambda: not table.rows)
    # On a busy machine they may be several requests.
    answers_given = sum(request.api == "Produce" for request in kafka.requests)
    assert store.calls.count("delete") <= answers_given


async def test_a_row_that_is_committed_late_is_sent_when_it_is_seen(
    kafka: EmbeddedKafka, producer: Producer[Any, Any], table: Table, store: MemoryStore
) -> None:
    """Its id is smaller than those that were sent already, and it is read while these are on their way."""
    late = table.reserve()
    table.add("one", b"2")
    answers = kafka.faults.delay(times=None)
    async with Relay(producer, store, poll=0.05):
        await until(lambda: ids(kafka) == [2])
        table.commit(Row(late, "one", b"1"))
        await until(lambda: store.reads[-1][1] == (1, 2))
        answers.release()
        await until(lambda: not table.rows)
    assert ids(kafka) == [2, 1]


async def test_pages_are_read_while_others_are_on_their_way(
    kafka: EmbeddedKafka, producer: Producer[Any, Any], table: Table, store: MemoryStore
) -> None:
    """A read leaves out the rows on their way; at most four pages are."""
    answers = kafka.faults.delay(times=None)
    for _ in range(100):
        table.add("one", b"v")
    async with Relay(producer, store, batch=10):
        await until(lambda: len(store.reads) == 4)
        assert [len(skip) for _, skip in store.reads] == [0, 10, 20, 30]
        answers.release()
        await until(lambda: not table.rows)
    assert ids(kafka) == list(range(1, 101))
    assert all(limit == 10 for limit, _ in store.reads)


async def test_new_rows_do_not_wait_for_those_on_their_way(
    kafka: EmbeddedKafka, producer: Producer[Any, Any], table: Table, store: MemoryStore
) -> None:
    """A partition without an answer holds up no other one."""
    kafka.faults.delay(before=True, times=None, topic="one")
    table.add("one", b"held")
    async with Relay(producer, store, poll=30.0) as relay:
        await until(lambda: relay.stats().sent == 1)
        table.add("four", b"free")
        await until(lambda: relay.stats().sent == 2)
        kafka.faults.heal()


# -- failures


async def test_a_failure_stops_what_is_behind_it(
    kafka: EmbeddedKafka, producer: Producer[Any, Any], table: Table, store: MemoryStore
) -> None:
    """Each partition has its rows in order, once, though some batches were refused at first."""
    for number in range(200):
        table.add("four", b"v", partition=number % 4)
    kafka.faults.error("TOPIC_AUTHORIZATION_FAILED", times=3)
    async with Relay(producer, store, batch=20):
        await until(lambda: not table.rows)
    for partition in range(4):
        assert ids(kafka, "four", partition) == list(range(partition + 1, 201, 4))


async def test_a_record_that_is_found_is_not_sent_again(
    kafka: EmbeddedKafka, producer: Producer[Any, Any], table: Table, store: MemoryStore
) -> None:
    """The broker has written it, and answers with an error that does not tell."""
    for value in (b"1", b"2"):
        table.add("one", value)
    kafka.faults.error("UNKNOWN_SERVER_ERROR", append=True)
    async with Relay(producer, store) as relay:
        await until(lambda: not table.rows)
    assert ids(kafka) == [1, 2]
    assert (relay.stats().sent, relay.stats().deleted) == (2, 2)


@pytest.mark.parametrize("is_written", [True, False])
async def test_an_unknown_outcome_is_sent_again_with_the_same_id(
    kafka: EmbeddedKafka, producer: Producer[Any, Any], table: Table, store: MemoryStore, is_written: bool
) -> None:
    """The record is not in the log, or the relay may not read it."""
    table.add("one", b"v")
    kafka.faults.error("UNKNOWN_SERVER_ERROR", append=is_written)
    if is_written:
        kafka.faults.error("TOPIC_AUTHORIZATION_FAILED", api="Fetch", times=None)
    async with Relay(producer, store) as relay:
        await until(lambda: not table.rows)
    assert ids(kafka) == ([1, 1] if is_written else [1])
    assert (relay.stats().sent, relay.stats().deleted) == (2, 1)


async def test_a_record_that_is_found_later_is_not_set_aside(
    kafka: EmbeddedKafka, producer: Producer[Any, Any], table: Table, store: MemoryStore
) -> None:
    """Its first attempt was written, and could not be found at once; the brokers refuse its second one."""
    table.add("one", b"v")
    kafka.faults.error("UNKNOWN_SERVER_ERROR", append=True)
    kafka.faults.error("TOPIC_AUTHORIZATION_FAILED", api="Fetch")
    refused = kafka.faults.error("INVALID_RECORD", skip=1, times=2)
    letters = Letters()
    async with Relay(producer, store, dead_letters=letters) as relay:
        await until(lambda: not table.rows)
    assert refused.hits == 2
    assert ids(kafka) == [1]
    assert letters.ids == []
    assert relay.stats().deleted == 1


async def test_brokers_that_never_tell_an_outcome(
    kafka: EmbeddedKafka, producer: Producer[Any, Any], table: Table, store: MemoryStore
) -> None:
    """No record is forgotten. With many of them only the oldest row is sent again; none of a row that is gone is kept."""
    for _ in range(20):
        table.add("one", b"v")
    kafka.faults.error("TOPIC_AUTHORIZATION_FAILED", api="Fetch", times=None)
    kafka.faults.error("UNKNOWN_SERVER_ERROR", append=True, times=None)
    many, page = 2 * PAGES * MANY_IN_DOUBT, 2 * PAGES
    async with Relay(producer, store, batch=2) as relay:
        flight = relay._flight
        await until(lambda: flight.records_in_doubt >= many)
        seen = flight.records_in_doubt
        await until(lambda: flight.records_in_doubt >= seen + 5)
        assert seen < many + page
        assert set(ids(kafka)[-5:]) == {1}
        assert len(flight.doubts[1].deliveries) in range(ids(kafka).count(1) - 1, ids(kafka).count(1) + 1)
        assert set(flight.doubts) <= set(table.rows)
        del table.rows[1]
        await until(lambda: 1 not in flight.doubts)
        kafka.faults.heal()
        await until(lambda: not table.rows)
        await until(lambda: not flight.doubts)


@pytest.mark.parametrize("doubts", [1, 4, 7])
async def test_a_record_that_is_found_after_many_doubts(
    kafka: EmbeddedKafka, producer: Producer[Any, Any], table: Table, store: MemoryStore, doubts: int
) -> None:
    """The first one is in the log, and brokers refuse a later one: it is remembered, however many follow it."""
    table.add("one", b"v")
    kafka.faults.error("UNKNOWN_SERVER_ERROR", append=True)
    kafka.faults.error("UNKNOWN_SERVER_ERROR", append=False, skip=1, times=doubts - 1)
    unread = kafka.faults.error("TOPIC_AUTHORIZATION_FAILED", api="Fetch", times=None)
    refused = kafka.faults.error("INVALID_RECORD", skip=doubts, times=None)
    letters = Letters()
    async with Relay(producer, store, dead_letters=letters) as relay:
        await until(lambda: refused.hits)
        unread.heal()
        await until(lambda: not table.rows)
    assert (ids(kafka), letters.ids, relay.stats().deleted) == ([1], [], 1)


async def test_a_row_whose_record_may_be_written_is_not_set_aside(
    kafka: EmbeddedKafka,
    producer: Producer[Any, Any],
    table: Table,
    store: MemoryStore,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Without READ the relay cannot tell: it holds the row, and deletes it when the partition shows its record."""
    table.add("one", b"v")
    kafka.faults.error("UNKNOWN_SERVER_ERROR", append=True)
    unread = kafka.faults.error("TOPIC_AUTHORIZATION_FAILED", api="Fetch", times=None)
    kafka.faults.error("INVALID_RECORD", skip=1, times=None)
    letters = Letters()
    async with Relay(producer, store, dead_letters=letters):
        await until(lambda: "row 1 is held" in caplog.text)
        assert (list(table.rows), letters.ids) == ([1], [])
        unread.heal()
        await until(lambda: not table.rows)
    assert (ids(kafka), letters.ids) == ([1], [])


async def test_a_doubt_outlives_the_lock(
    kafka: EmbeddedKafka, producer: Producer[Any, Any], table: Table, store: MemoryStore
) -> None:
    """A relay that loses its lock and has it again knows that a record may be written."""
    table.add("one", b"v")
    kafka.faults.error("UNKNOWN_SERVER_ERROR", append=True)
    unread = kafka.faults.error("TOPIC_AUTHORIZATION_FAILED", api="Fetch")
    kafka.faults.error("INVALID_RECORD", skip=1, times=2)
    letters = Letters()
    async with Relay(producer, store, dead_letters=letters, poll=0.01) as relay:
        await until(lambda: unread.hits > 0)
        table.owner = MemoryStore(table)
        await until(lambda: not relay.stats().active)
        table.owner = None
        await until(lambda: not table.rows)
    assert (ids(kafka), letters.ids) == ([1], [])


async def test_a_relay_whose_lock_is_lost_while_it_searches(
    kafka: EmbeddedKafka, producer: Producer[Any, Any], table: Table, store: MemoryStore
) -> None:
    """It deletes nothing, and sends nothing more."""
    table.add("one", b"v")
    kafka.faults.error("UNKNOWN_SERVER_ERROR", append=True)
    held = kafka.faults.delay(api="Fetch", times=None)
    async with Relay(producer, store, poll=0.05) as relay:
        await until(lambda: held.hits > 0)
        table.owner = MemoryStore(table)
        await until(lambda: not relay.stats().active)
        held.release()
    assert list(table.rows) == [1]
    assert (relay.stats().sent, relay.stats().deleted) == (1, 0)


async def test_a_record_that_can_never_be_written_stops_the_relay(
    kafka: EmbeddedKafka, producer: Producer[Any, Any], table: Table, store: MemoryStore
) -> None:
    """The rows before it are written, it and the rows behind it stay, and the lock is given back."""
    table.add("one", b"before")
    table.add("one", large())
    table.add("one", b"behind")
    relay = Relay(producer, store)
    with pytest.raises(RecordTooLargeError):
        await relay.run()
    assert isinstance(relay.error, RecordTooLargeError)
    assert ids(kafka) == [1]
    assert list(table.rows) == [2, 3]
    assert table.owner is None
    assert not relay.stats().active
    await relay.close()
    with pytest.raises(StateError):
        await relay.run()


@pytest.mark.parametrize("has_own_delivery", [True, False])
async def test_a_record_that_can_never_be_written_is_set_aside(
    kafka: EmbeddedKafka,
    producer: Producer[Any, Any],
    table: Table,
    store: MemoryStore,
    has_own_delivery: bool,
) -> None:
    """It goes to the dead letters with its id, and the others are written."""
    kafka.create_topic("dead", 1)
    for value in (b"1", large(), b"3", b"4", b"5"):
        table.add("one", value)
    table.commit(Row(table.reserve(), "one", b"6", headers="no headers"))  # type: ignore[arg-type]
    table.commit(Row(table.reserve(), "", b"7"))
    table.add("one", b"8")
    letters = Letters(failures=2)
    if has_own_delivery:
        letters.producer = Producer(kafka.bootstrap_servers)
        await letters.producer.start()
    async with Relay(producer, store, dead_letters=letters, poll=0.01) as relay:
        await until(lambda: not table.rows)
        assert relay.error is None
    if letters.producer is not None:
        await letters.producer.close()
    assert letters.ids == [2, 6, 7]
    assert isinstance(letters.put_aside[0][1], RecordTooLargeError)
    assert isinstance(letters.put_aside[1][1], RecordError)
    assert ids(kafka) == [1, 3, 4, 5, 8]
    assert len(kafka.records("dead")) == (3 if has_own_delivery else 0)


@pytest.mark.parametrize("is_own", [True, False])
async def test_the_dead_letters_of_the_library(
    kafka: EmbeddedKafka, producer: Producer[Any, Any], table: Table, store: MemoryStore, is_own: bool
) -> None:
    """Of the gapless producer itself or of another one, also where the first letters are not written."""
    kafka.create_topic("dead", 1)
    for value in (b"1", large(), b"3"):
        table.add("one", value)
    table.commit(Row(table.reserve(), "no/topic", b"4"))
    table.commit(Row(table.reserve(), "one", b"5", headers="no headers"))  # type: ignore[arg-type]
    table.add("one", b"6")
    kafka.faults.error("TOPIC_AUTHORIZATION_FAILED", api="Produce", topic="dead", times=2)
    other: Producer[Any, Any] = Producer(kafka.bootstrap_servers)
    async with other:
        letters = DeadLetters(producer if is_own else other, "dead")
        async with Relay(producer, store, dead_letters=letters, poll=0.01) as relay:
            await until(lambda: not table.rows)
            assert relay.error is None
        assert letters.producer.stats().dead_letters == {"one": 2, "_other": 1}
    assert ids(kafka) == [1, 3, 6]
    assert ids(kafka, "dead") == [2, 4, 5]
    assert table.deleted == sorted(set(table.deleted))


async def test_a_dead_letter_is_written_once_though_its_row_stays(
    kafka: EmbeddedKafka, producer: Producer[Any, Any], table: Table, store: MemoryStore
) -> None:
    """The deletion of its row fails several times: only the deletion is tried again."""
    failing = iter([True, True, True])

    def step(called: str) -> None:
        if called == "delete" and next(failing, False):
            raise BrokenStoreError(called)

    store.step = step
    table.add("one", large())
    table.add("one", b"behind")
    letters = Letters()
    async with Relay(producer, store, dead_letters=letters, poll=0.01) as relay:
        await until(lambda: not table.rows)
        assert relay.stats() == RelayStats(2, 2, 0, None, active=True)
    assert letters.ids == [1]
    assert ids(kafka) == [2]


async def test_a_batch_that_is_refused_as_a_whole_is_sent_one_by_one(
    kafka: EmbeddedKafka, producer: Producer[Any, Any], table: Table, store: MemoryStore
) -> None:
    """The broker did not tell which record it refuses: only the one that is refused alone is set aside."""
    for number in range(20):
        table.add("one", b"%d" % number)
    refusals = kafka.faults.error("INVALID_RECORD", times=1)
    letters = Letters()
    async with Relay(producer, store, dead_letters=letters):
        await until(lambda: not table.rows)
    assert not refusals.active
    assert letters.put_aside == []
    assert ids(kafka) == list(range(1, 21))


async def test_a_record_that_is_refused_alone_is_set_aside(
    kafka: EmbeddedKafka, producer: Producer[Any, Any], table: Table, store: MemoryStore
) -> None:
    """A compacted topic refuses a record without a key, and names it."""
    kafka.create_topic("compacted", 1, cleanup_policy="compact")
    for number in range(20):
        table.add("compacted", b"v", key=None if number == 5 else b"k")
    letters = Letters()
    async with Relay(producer, store, dead_letters=letters):
        await until(lambda: not table.rows)
    assert letters.ids == [6]
    assert ids(kafka, "compacted") == [*range(1, 6), *range(7, 21)]


async def test_a_topic_that_is_not_there_is_no_fault_of_the_record(
    kafka: EmbeddedKafka, table: Table, store: MemoryStore
) -> None:
    """The row waits until the topic is created; no dead letter is made of it."""
    table.add("later", b"v", partition=5)
    letters = Letters()
    settings: dict[str, Any] = {"max_block_ms": 50, "retry_backoff_ms": 1, "metadata_max_age_ms": 100}
    async with Producer(kafka.bootstrap_servers, gapless=True, **settings) as producer:
        kafka.create_topic("later", 2)
        async with Relay(producer, store, dead_letters=letters) as relay:
            await until(lambda: relay.stats().pending == 1)
            kafka.add_partitions("later", 6)
            await until(lambda: not table.rows)
    assert letters.put_aside == []


async def test_a_partition_that_does_not_exist_holds_up_no_other_row(
    kafka: EmbeddedKafka, producer: Producer[Any, Any], table: Table, store: MemoryStore
) -> None:
    """Its rows are set aside when the brokers have confirmed it twice; a topic without this partition is no reason to wait."""
    for number in range(6):
        table.add("four", b"v", partition=4 if number % 2 else 3)
    table.add("one", b"v")
    letters = Letters()
    async with Relay(producer, store, dead_letters=letters) as relay:
        await until(lambda: not table.rows)
        assert relay.error is None
    assert letters.ids == [2, 4, 6]
    assert isinstance(letters.put_aside[0][1], MetadataTimeoutError)
    assert ids(kafka, "four") == [1, 3, 5]
    assert ids(kafka) == [7]


async def test_a_partition_that_does_not_exist_stops_a_relay_without_dead_letters(
    producer: Producer[Any, Any], table: Table, store: MemoryStore, caplog: pytest.LogCaptureFixture
) -> None:
    """Its error and the log name the row."""
    table.add("four", b"v", partition=0)
    table.add("four", b"v", partition=4)
    async with asyncio.timeout(LIMIT):
        with pytest.raises(MetadataTimeoutError, match="the partition does not exist") as caught:
            await Relay(producer, store).run()
    assert caught.value.__notes__ == ["row 2 of the outbox"]
    assert "the relay was stopped by row 2" in caplog.text
    assert list(table.rows) == [2]


async def test_a_partition_that_is_added_meanwhile(
    kafka: EmbeddedKafka, producer: Producer[Any, Any], table: Table, store: MemoryStore
) -> None:
    """One answer of a broker that does not know it yet is not enough."""
    table.add("one", b"v", partition=1)
    letters = Letters()
    relay = Relay(producer, store, dead_letters=letters)
    async with relay:
        await until(lambda: relay.stats().pending == 1)
        kafka.add_partitions("one", 2)
        await until(lambda: not table.rows)
    assert letters.put_aside == []
    assert ids(kafka, "one", 1) == [1]


HOUR = 3_600_000


@pytest.mark.parametrize("ahead", [2 * HOUR, -2 * HOUR])
async def test_a_database_clock_that_is_wrong_sets_no_row_aside(
    kafka: EmbeddedKafka, producer: Producer[Any, Any], table: Table, store: MemoryStore, ahead: int
) -> None:
    """Rows whose timestamp the broker refuses are sent with the present time, in order; others keep their own."""
    kafka.create_topic("timed", 1, message_timestamp_before_max_ms=HOUR)
    wall = time.time_ns() // 1_000_000
    for number in range(30):
        table.add("timed", b"v", timestamp=wall - 5_000 if number % 3 == 0 else wall + ahead)
    letters = Letters()
    async with Relay(producer, store, dead_letters=letters, batch=7) as relay:
        await until(lambda: not table.rows)
        assert relay.error is None
    assert letters.put_aside == []
    assert ids(kafka, "timed") == list(range(1, 31))
    for number, record in enumerate(kafka.records("timed")):
        if number % 3 == 0:
            assert record.timestamp == wall - 5_000
        else:
            assert 0 <= record.timestamp - wall < 60_000


async def test_a_topic_that_takes_no_present_time_either(
    kafka: EmbeddedKafka, producer: Producer[Any, Any], table: Table, store: MemoryStore
) -> None:
    """The clock of this machine is wrong: its rows go to the dead letters with the time that they have."""
    kafka.faults.error("INVALID_TIMESTAMP", topic="one", times=3)
    table.add("one", b"v", timestamp=1234)
    letters = Letters()
    async with Relay(producer, store, dead_letters=letters):
        await until(lambda: not table.rows)
    assert [record.timestamp for record, _ in letters.put_aside] == [1234]


# Without a time zone, as drivers of databases give them.
MOST, LEAST = datetime.max, datetime.min  # noqa: DTZ901


@pytest.mark.parametrize("stamp", [MOST, LEAST, 10**400], ids=["most", "least", "large"])
async def test_a_moment_that_no_record_can_have(
    stamp: datetime | int,
    kafka: EmbeddedKafka,
    producer: Producer[Any, Any],
    table: Table,
    store: MemoryStore,
) -> None:
    """A store gave it, such as for `infinity`: its row is set aside, and holds up no other."""
    table.add("one", b"1", timestamp=stamp)
    table.add("one", b"2")
    letters = Letters()
    async with Relay(producer, store, dead_letters=letters):
        await until(lambda: not table.rows)
    assert letters.ids == [1]
    assert ids(kafka) == [2]


# -- the lock


async def test_a_read_that_outlasts_the_lock_is_not_sent(
    kafka: EmbeddedKafka, producer: Producer[Any, Any], table: Table, store: MemoryStore
) -> None:
    """The answer of the store comes when another relay has the lock."""
    table.add("one", b"v")
    reading, answer = asyncio.Event(), asyncio.Event()

    async def step(name: str) -> None:
        if name == "read":
            reading.set()
            await answer.wait()

    store.step = step
    async with Relay(producer, store, poll=0.01) as relay:
        await reading.wait()
        other = table.owner = MemoryStore(table)
        # The lock is looked at again when the last answer is so old.
        await asyncio.wait([asyncio.ensure_future(asyncio.Event().wait())], timeout=0.02)
        answer.set()
        await until(lambda: not relay.stats().active)
        assert relay.stats().sent == 0
        await other.release()
        await until(lambda: not table.rows)
    assert ids(kafka) == [1]


async def test_a_process_that_stood_still_between_two_rows(
    kafka: EmbeddedKafka,
    producer: Producer[Any, Any],
    table: Table,
    store: MemoryStore,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Another relay has the lock by then: the other rows of the page are not sent."""
    loop = asyncio.get_running_loop()
    time_of, stood_still = loop.time, 0.0
    monkeypatch.setattr(loop, "time", lambda: time_of() + stood_still)
    other = MemoryStore(table)

    class Stopped(dict[str, bytes]):
        def items(self) -> Any:
            nonlocal stood_still
            stood_still, table.owner = 0.2, other
            return ()

    async with Relay(producer, store, poll=0.1) as relay:
        table.add("one", b"the topic is known")
        await until(lambda: not table.rows)
        first, second = table.reserve(), table.reserve()
        table.commit(Row(first, "one", b"v", headers=Stopped(a=b"")), Row(second, "one", b"v"))
        await until(lambda: bool(stood_still) and not relay.stats().active)
        assert relay.stats().sent == 2
        await other.release()
    assert second not in ids(kafka)


async def test_a_dead_letter_that_takes_long_keeps_the_lock(
    producer: Producer[Any, Any], table: Table, store: MemoryStore
) -> None:
    """The store is asked again and again: a lease would end. When the lock is lost, the dead letter is withdrawn."""
    table.add("one", large())
    cancelled = asyncio.Event()

    class Slow(Letters):
        async def put(self, record: Record[Any, Any], error: KafkaError) -> Any:
            try:
                await asyncio.Event().wait()
            finally:
                cancelled.set()

    async with Relay(producer, store, poll=0.01, dead_letters=Slow()) as relay:
        await until(lambda: store.calls.count("acquire") == 5)
        assert relay.stats().active
        table.owner = MemoryStore(table)
        await until(lambda: not relay.stats().active)
        assert cancelled.is_set()
        assert list(table.rows) == [1]


async def test_the_second_relay_takes_over(
    kafka: EmbeddedKafka, producer: Producer[Any, Any], table: Table, store: MemoryStore
) -> None:
    """It sends nothing while the first one works."""
    first = Relay(producer, store, poll=0.01)
    second = Relay(producer, MemoryStore(table), poll=0.01)
    async with second:
        await until(lambda: second.stats().active)
        async with first:
            table.add("one", b"1")
            await until(lambda: not table.rows)
            assert (first.stats().sent, second.stats().sent) == (0, 1)
            await second.close()
            table.add("one", b"2")
            await until(lambda: not table.rows)
            assert first.stats() == RelayStats(1, 1, 0, None, active=True)
    assert ids(kafka) == [1, 2]


async def test_a_relay_whose_lock_is_gone_sends_no_more(
    kafka: EmbeddedKafka, producer: Producer[Any, Any], table: Table, store: MemoryStore
) -> None:
    """Buffered records are withdrawn; those on their way are not sent again by it."""
    kafka.faults.delay(before=True, times=None)
    for _ in range(100):
        table.add("one", b"x" * 2_000)
    async with Relay(producer, store, poll=0.02, batch=25) as relay:
        await until(lambda: relay.stats().sent == 100)
        other = MemoryStore(table)
        table.owner = other
        await until(lambda: not relay.stats().active)
        sent = relay.stats().sent
        buffered = producer.stats().records_buffered
        kafka.faults.heal()
        await until(lambda: not (producer.stats().records_in_flight or producer.stats().records_buffered))
        assert buffered < 100
        assert relay.stats().sent == sent
        assert len(ids(kafka)) < 100
        await other.release()
        await until(lambda: not table.rows)
    found = ids(kafka)
    assert list(dict.fromkeys(found)) == list(range(1, 101))


async def test_a_call_that_waits_for_memory_is_withdrawn_with_the_lock(
    kafka: EmbeddedKafka, table: Table, store: MemoryStore
) -> None:
    """The relay is in the middle of a page, and asks for its lock all the same."""
    kafka.faults.delay(before=True, times=None)
    for _ in range(100):
        table.add("one", b"x" * 2_000)
    async with Producer(kafka.bootstrap_servers, gapless=True, buffer_memory=50_000) as producer:
        async with Relay(producer, store, poll=0.02) as relay:
            await until(lambda: producer.stats().waiting_calls)
            table.owner = MemoryStore(table)
            await until(lambda: not relay.stats().active)
            assert producer.stats().waiting_calls == 0
            await relay.close(timeout=0)
        kafka.faults.heal()


@pytest.mark.parametrize("name", ["acquire", "read", "delete", "wait", "release"])
@pytest.mark.parametrize("failure", [BrokenStoreError, asyncio.CancelledError, TimeoutError, Own])
async def test_a_store_that_fails_is_tried_again(
    kafka: EmbeddedKafka,
    producer: Producer[Any, Any],
    table: Table,
    store: MemoryStore,
    name: str,
    failure: type[BaseException],
) -> None:
    """Any call may raise, the first time and in between; all rows are written in order."""
    failing = iter([True, True, False, True])

    def step(called: str) -> None:
        if called == name and next(failing, False):
            raise failure(called)

    store.step = step
    async with Relay(producer, store, poll=0.02) as relay:
        for number in range(1, 51):
            table.add("one", b"v")
            if number % 10 == 0:
                await until(lambda: not table.rows)
        assert relay.error is None
    assert list(dict.fromkeys(ids(kafka))) == list(range(1, 51))
    assert table.owner is None


async def test_a_lock_that_is_told_only_once(
    kafka: EmbeddedKafka, producer: Producer[Any, Any], table: Table
) -> None:
    """A store whose `acquire()` is False for the one who has the lock makes the relay slow, and not wrong."""

    class Once(MemoryStore):
        async def acquire(self) -> bool:
            if self.table.owner is not None:
                return False
            self.table.owner = self
            return True

    async with Relay(producer, Once(table), poll=0.01):
        for number in range(1, 31):
            table.add("one", b"v")
            if number % 10 == 0:
                await until(lambda: not table.rows)
    assert ids(kafka) == list(range(1, 31))


# -- databases that lose transactions


async def test_an_id_that_is_used_again_after_a_failover_is_sent(
    kafka: EmbeddedKafka, producer: Producer[Any, Any], table: Table, store: MemoryStore
) -> None:
    """A replica took over before it had the rows that were just acknowledged: their ids belong to other rows now."""
    for _ in range(3):
        table.add("one", b"lost")

    def step(called: str) -> None:
        if called == "delete" and table.rows[1].value == b"lost":
            # The connection ends with the old server, and the new one has neither the rows nor the numbers of its sequence.
            table.fail_over({}, 0)
            table.add("one", b"new")
            table.add("one", b"new")
            raise BrokenStoreError(called)

    store.step = step
    async with Relay(producer, store, poll=0.01) as relay:
        await until(lambda: not table.rows)
        assert relay.stats().pending == 0
    assert [record.value for record in kafka.records("one")] == [b"lost"] * 3 + [b"new"] * 2
    assert table.deleted == [1, 2]


async def test_rows_that_were_on_their_way_when_the_session_ended(
    kafka: EmbeddedKafka, producer: Producer[Any, Any], table: Table, store: MemoryStore
) -> None:
    """Their acknowledgement comes in the next session, behind the failover, and belongs to rows that are lost."""
    answers = kafka.faults.delay(times=None)
    for _ in range(3):
        table.add("one", b"lost")
    # It asks for its lock before each read.
    async with Relay(producer, store, poll=1e-6) as relay:
        await until(lambda: len(ids(kafka)) == 3)
        table.fail_over({}, 0)
        table.add("one", b"new")
        await until(lambda: not relay.stats().active)
        await until(lambda: relay.stats().active)
        answers.release()
        await until(lambda: not table.rows)
    assert [record.value for record in kafka.records("one")] == [b"lost"] * 3 + [b"new"]


async def test_a_session_that_ends_before_its_first_read_deletes_nothing(
    kafka: EmbeddedKafka, producer: Producer[Any, Any], table: Table, store: MemoryStore
) -> None:
    """It waits for records of an earlier one; their acknowledgement comes when the lock can no longer be asked for."""
    answers = kafka.faults.delay(times=None)
    for _ in range(3):
        table.add("one", b"lost")
    sessions = 0

    def step(called: str) -> None:
        nonlocal sessions
        if called != "acquire" or not relay.stats().active or sessions > 2:
            return
        if not sessions:
            sessions = 1
            table.fail_over({}, 0)
            table.add("one", b"new")
        elif sessions == 1 and store._server is not None:
            sessions = 2
            answers.release()
            raise BrokenStoreError(called)

    relay = Relay(producer, store, poll=1e-6)
    async with relay:
        await until(lambda: len(ids(kafka)) == 3)
        store.step = step
        await until(lambda: not table.rows)
    assert sessions == 2
    assert [record.value for record in kafka.records("one")] == [b"lost"] * 3 + [b"new"]


async def test_rows_that_come_back_are_compared_with_what_was_acknowledged(
    kafka: EmbeddedKafka, producer: Producer[Any, Any], table: Table, store: MemoryStore
) -> None:
    """The connection breaks before a deletion: rows that are the same are deleted, and not sent again."""
    failing = iter([True, True])

    def step(called: str) -> None:
        if called == "delete" and next(failing, False):
            raise BrokenStoreError(called)

    store.step = step
    for number in range(25):
        table.add("one", b"%d" % number, headers=[("a", b"1")], timestamp=number)
    async with Relay(producer, store, poll=0.01, batch=10) as relay:
        await until(lambda: not table.rows)
        assert relay.stats() == RelayStats(25, 25, 0, None, active=True)
    assert ids(kafka) == list(range(1, 26))


# -- the end


async def test_close_waits_for_what_is_on_its_way(
    kafka: EmbeddedKafka, producer: Producer[Any, Any], table: Table, store: MemoryStore
) -> None:
    """Sent rows are deleted; nothing further is read."""
    answers = kafka.faults.delay(times=None)
    table.add("one", b"1")
    relay = Relay(producer, store)
    running = asyncio.ensure_future(relay.run())
    await until(lambda: ids(kafka) == [1])
    closing = asyncio.ensure_future(relay.close())
    await asyncio.sleep(0)
    table.add("one", b"2")
    answers.release()
    await closing
    await running
    assert list(table.rows) == [2]
    assert table.owner is None
    await relay.close()


@pytest.mark.parametrize("hanging", ["", "acquire", "read", "delete", "wait", "release"])
async def test_close_ends_in_its_time(
    kafka: EmbeddedKafka, producer: Producer[Any, Any], table: Table, store: MemoryStore, hanging: str
) -> None:
    """Kafka does not answer, or the store: close() returns, and no row is lost."""
    table.add("one", b"1")
    if not hanging:
        kafka.faults.delay(before=True, times=None)
    hangs = asyncio.Event()

    async def hang(name: str) -> None:
        if name == hanging:
            hangs.set()
            await asyncio.Event().wait()

    store.step = hang
    async with Relay(producer, store) as relay:
        if hanging != "release":
            await until(lambda: hangs.is_set() or (not hanging and relay.stats().sent))
        async with asyncio.timeout(5):
            await relay.close(timeout=0.01)
    assert table.owner is None or hanging == "acquire"
    assert (1 in table.rows) or ids(kafka) == [1]


async def test_a_cancelled_run_gives_the_lock_back(
    kafka: EmbeddedKafka, producer: Producer[Any, Any], table: Table, store: MemoryStore
) -> None:
    """Rows that are acknowledged by then are deleted."""
    table.add("one", b"1")
    task = asyncio.ensure_future(Relay(producer, store).run())
    await until(lambda: not table.rows)
    kafka.faults.delay(before=True, times=None)
    table.add("one", b"2")
    await until(lambda: producer.stats().records_in_flight)
    task.cancel()
    await asyncio.wait([task])
    assert task.cancelled()
    assert table.owner is None
    assert list(table.rows) == [2]


@pytest.mark.parametrize("turn", range(0, 60, 2))
async def test_a_relay_may_be_cancelled_at_any_await(
    kafka: EmbeddedKafka, producer: Producer[Any, Any], table: Table, store: MemoryStore, turn: int
) -> None:
    """Its successor writes all rows, in order of their first copies."""
    for _ in range(30):
        table.add("one", b"v")
    task = asyncio.ensure_future(Relay(producer, store, batch=7).run())
    for _ in range(turn):
        await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait([task])
    assert table.owner is None
    async with Relay(producer, MemoryStore(table)):
        await until(lambda: not table.rows)
    assert list(dict.fromkeys(ids(kafka))) == list(range(1, 31))


@pytest.mark.parametrize("is_second", [False, True])
@pytest.mark.parametrize("turn", range(1, 24, 4))
async def test_close_may_be_cancelled_at_any_await(
    kafka: EmbeddedKafka,
    producer: Producer[Any, Any],
    table: Table,
    store: MemoryStore,
    turn: int,
    is_second: bool,
) -> None:
    """The relay ends with it and gives its lock back; a second call of close() waits for that."""
    held = kafka.faults.delay(before=True, times=1)
    for _ in range(30):
        table.add("one", b"v")
    relay = Relay(producer, store, batch=7)
    running = asyncio.ensure_future(relay.run())
    await held.reached()
    closing = asyncio.ensure_future(relay.close())
    second = asyncio.ensure_future(relay.close()) if is_second else None
    for at in range(turn):
        if at == turn // 2:
            held.release()
        await asyncio.sleep(0)
    closing.cancel()
    held.release()
    await asyncio.wait([closing, running, *([second] if second else [])])
    assert running.exception() is None
    assert table.owner is None
    assert not relay.stats().active
    async with Relay(producer, MemoryStore(table)):
        await until(lambda: not table.rows)
    assert list(dict.fromkeys(ids(kafka))) == list(range(1, 31))


async def test_an_exception_in_the_block_closes_the_relay(
    producer: Producer[Any, Any], table: Table, store: MemoryStore
) -> None:
    """It passes through."""
    table.add("one", b"1")
    with pytest.raises(ZeroDivisionError):
        async with Relay(producer, store):
            await until(lambda: not table.rows)
            raise ZeroDivisionError
    assert table.owner is None


async def test_the_end_of_the_producer_stops_the_relay(
    kafka: EmbeddedKafka, producer: Producer[Any, Any], table: Table, store: MemoryStore
) -> None:
    """The relay tells it by `error`, and leaves the rows to others."""
    async with Relay(producer, store) as relay:
        table.add("one", b"1")
        await until(lambda: not table.rows)
        await producer.close()
        table.add("one", b"2")
        await until(lambda: relay.error is not None)
        assert isinstance(relay.error, StateError)
        assert table.owner is None
        assert list(table.rows) == [2]


# -- refusals


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({}, "gapless=True"),
        ({"gapless": True, "transactional_id": "t"}, "transactional_id"),
        ({"gapless": True, "value_serializer": str.encode}, "without serializers"),
    ],
)
def test_the_producer_must_be_gapless(store: MemoryStore, settings: dict[str, Any], text: str) -> None:
    """And neither transactional nor with serializers."""
    with pytest.raises(ConfigurationError, match=text):
        Relay(Producer("localhost:9092", **settings), store)


@pytest.mark.parametrize("options", [{"batch": 0}, {"batch": 1.5}, {"poll": 0}, {"poll": float("inf")}])
def test_numbers_are_checked(store: MemoryStore, options: dict[str, Any]) -> None:
    """The error names the option."""
    with pytest.raises(ConfigurationError, match=next(iter(options))):
        Relay(Producer("localhost:9092", gapless=True), store, **options)


@pytest.mark.parametrize(
    ("timeout", "text"), [(-1, "0 or more, not -1"), ("1", "not str"), (True, "not bool")]
)
async def test_the_timeout_of_close_is_checked(
    producer: Producer[Any, Any], store: MemoryStore, timeout: Any, text: str
) -> None:
    """Before the relay is asked to end."""
    async with Relay(producer, store) as relay:
        with pytest.raises(ConfigurationError, match=f"timeout must be a number of seconds.*{text}"):
            await relay.close(timeout)
        await until(lambda: relay.stats().active)


async def test_the_producer_must_run(store: MemoryStore) -> None:
    """A relay of a producer that was not started yet says so at once."""
    relay = Relay(Producer("localhost:9092", gapless=True), store)
    with pytest.raises(StateError, match="must be running"):
        await relay.run()
    with pytest.raises(StateError, match="must be running"):
        async with relay:
            pass


async def test_with_the_mock(table: Table, store: MemoryStore) -> None:
    """A relay is tested without a broker."""
    async with MockProducer(gapless=True) as producer:
        table.add("orders", b"1")
        async with Relay(producer, store):
            await until(lambda: not table.rows)
        assert [record.value for record in producer.history] == [b"1"]


async def test_a_record_of_another_program_sets_no_row_aside(
    kafka: EmbeddedKafka, producer: Producer[Any, Any], table: Table, store: MemoryStore
) -> None:
    """The broker refused the batch that both were in, and did not tell which record was at fault: the row is sent again."""
    refusals = kafka.faults.error("INVALID_RECORD", topic="one", times=1)
    await producer.send("one", b"bad", partition=0)
    table.add("one", b"good", partition=0)
    letters = Letters()
    async with Relay(producer, store, dead_letters=letters):
        await until(lambda: not table.rows)
    assert not refusals.active
    assert letters.put_aside == []
    assert [record.value for record in kafka.records("one")] == [b"good"]


async def test_a_row_that_is_refused_again_alone_is_set_aside(
    kafka: EmbeddedKafka, producer: Producer[Any, Any], table: Table, store: MemoryStore
) -> None:
    """It is the record."""
    kafka.faults.error("INVALID_RECORD", topic="one", times=2)
    table.add("one", b"bad", partition=0)
    letters = Letters()
    async with Relay(producer, store, dead_letters=letters):
        await until(lambda: not table.rows)
    assert letters.ids == [1]


@pytest.mark.parametrize("failing", ["store", "dead letter"])
async def test_the_log_tells_what_has_failed(
    failing: str,
    producer: Producer[Any, Any],
    table: Table,
    store: MemoryStore,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The store, or the outlet of dead letters."""
    table.add("one", large())
    letters = Letters(failures=int(failing == "dead letter"))
    if failing == "store":
        store.step = lambda name: once(caplog, name)
    async with Relay(producer, store, dead_letters=letters):
        await until(lambda: not table.rows)
    (line,) = [record.message for record in caplog.records if "is tried again" in record.message]
    expected = {
        "store": "outbox: the store has failed, and is tried again: BrokenStoreError: delete",
        "dead letter": "outbox: the dead letter of row 1 was not written, and is tried again: DeliveryError: dead letters (it was not written)",
    }
    assert line == expected[failing]


def once(caplog: pytest.LogCaptureFixture, name: str) -> None:
    """The first deletion fails."""
    if name == "delete" and not caplog.records:
        raise BrokenStoreError(name)

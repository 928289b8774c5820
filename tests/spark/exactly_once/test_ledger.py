"""Marks that do not expire: the ledger, where brokers have forgotten the offsets, and where it cannot be used."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from pathlib import Path

import attrs
import pytest

from aioproducer import (
    AuthorizationError,
    ConfigurationError,
    DeliveryError,
    KafkaError,
    MetadataTimeoutError,
    OffsetAndMetadata,
    Producer,
    StateError,
    TransactionTimeoutError,
)
from aioproducer.ledgers import Ledger
from aioproducer.spark.exactly_once import absent, jobs
from aioproducer.spark.exactly_once.absent import require_no_absent_tasks
from aioproducer.spark.exactly_once.jobs import Job, LeftOpen
from aioproducer.spark.exactly_once.ledger import ledger_topic, note_of, partition_of
from aioproducer.spark.exactly_once.markers import OtherRowsError, Place
from aioproducer.spark.options import LEDGER, SinkOptions
from aioproducer.spark.preflight import check_kafka
from aioproducer.spark.shipping.worker import this_worker
from aioproducer.testing import Allow, EmbeddedKafka
from tests.spark.exactly_once.attempts import (
    TOPIC,
    create_ledger,
    epoch_written,
    forgotten,
    handles,
    options_for,
    seen,
    written,
)

NAMED = {"write.id": "nightly"}
WITHOUT = {"ledger.topic": "none"}
DAY = 86_400.0
GROUP = "aioproducer-spark-query-0"


@attrs.define
class Time:
    """The clock of the brokers: it can be moved on."""

    skipped: float = 0.0

    def __call__(self) -> float:
        return time.monotonic() + self.skipped

    def stands_still(self) -> None:
        """A pause in which brokers forget offsets and transactional ids."""
        self.skipped += 8 * DAY


@pytest.fixture
def clock() -> Time:
    """The clock of `kafka`."""
    return Time()


@pytest.fixture(params=[1, 2], ids=["level 1", "level 2"])
async def kafka(clock: Time, request: pytest.FixtureRequest) -> AsyncIterator[EmbeddedKafka]:
    """A cluster on both levels of transactions, with the topic of the rows."""
    async with EmbeddedKafka(
        2, clock=clock, transaction_version=request.param, auto_create_topics=False
    ) as kafka:
        kafka.create_topic(TOPIC, 1)
        create_ledger(kafka)
        yield kafka


@pytest.fixture(autouse=True)
def nothing_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Transactional ids that brokers have forgotten are looked for without a wait."""
    for module in (jobs, absent):
        monkeypatch.setattr(module, "SECONDS_BETWEEN_LOOKS", 0.0)


# -------------------------------------------------------------------------------------------- streams
@pytest.mark.parametrize(("more", "copies"), [({}, 1), (WITHOUT, 2)], ids=["ledger", "offsets only"])
async def test_an_epoch_that_is_repeated_after_the_offsets_are_forgotten(
    kafka: EmbeddedKafka, clock: Time, more: dict[str, str], copies: int
) -> None:
    """The query stood still for eight days: without a ledger its last epoch is doubled."""
    options = options_for(kafka, **more)
    for epoch, row in enumerate((b"a", b"b")):
        await epoch_written(options, epoch, row)
    clock.stands_still()
    assert kafka.committed_offset(GROUP, TOPIC) is None
    for _ in range(2):
        again = await epoch_written(options, 1, b"b")
        assert again.skipped == (copies == 1) or kafka.committed_offset(GROUP, TOPIC) is not None
    assert seen(kafka) == [b"a", *[b"b"] * copies]
    await epoch_written(options, 2, b"c")
    assert len(seen(kafka)) == copies + 2
    await forgotten(options)


async def test_other_rows_are_refused_after_the_offsets_are_forgotten(
    kafka: EmbeddedKafka, clock: Time
) -> None:
    """The fingerprint and the topic are in the ledger."""
    options = options_for(kafka)
    await epoch_written(options, 0, b"a")
    clock.stands_still()
    with pytest.raises(OtherRowsError, match="not deterministic"):
        await epoch_written(options, 0, b"b")
    elsewhere = options_for(kafka, **{"marker.topic": TOPIC, "topic": LEDGER[:-1]})
    kafka.create_topic(LEDGER[:-1], 1)
    with pytest.raises(OtherRowsError, match="was committed to topic 'orders'"):
        await epoch_written(elsewhere, 0, b"a")
    with pytest.raises(StateError, match="has committed epoch 0"):
        await epoch_written(options, -1, b"a")
    assert seen(kafka) == [b"a"]
    for each in (options, elsewhere):
        await forgotten(each)


async def test_tasks_that_are_absent_are_found_after_all_is_forgotten(
    kafka: EmbeddedKafka, clock: Time, caplog: pytest.LogCaptureFixture
) -> None:
    """Brokers list no transactional id any more: the ledger has the third task."""
    options = options_for(kafka)
    await epoch_written(options, 0, b"c", partition=2)
    # The name of another query begins like that of this one.
    await epoch_written(options, 5, b"x", partition=2, name="query-7")
    clock.stands_still()
    for partition, value in enumerate((b"a", b"bc")):
        await epoch_written(options, 0, value, partition=partition)

    async def checked(epoch: int, tasks: int) -> None:
        await asyncio.to_thread(
            lambda: this_worker().run(require_no_absent_tasks(options, "query", epoch, tasks))
        )

    with pytest.raises(OtherRowsError, match=r"repeated with 2 tasks, and 'aioproducer-spark-query-2'"):
        await checked(0, 2)
    await checked(0, 3)
    await checked(1, 2)
    kafka.limit_version("ListTransactions", 99, 99)
    with pytest.raises(OtherRowsError, match=r"repeated with 2 tasks"):
        await checked(0, 2)
    assert "detected only where those tasks have ended" in caplog.text
    await forgotten(options)


async def test_work_whose_name_begins_in_the_same_way_is_not_waited_for(
    kafka: EmbeddedKafka, clock: Time
) -> None:
    """Its job has the marks of its tasks in open transactions for as long as it runs."""
    options, other = options_for(kafka), options_for(kafka, **{"write.id": "query-7"})
    await epoch_written(options, 0, b"a")
    job, left = await run(other, b"x", b"y")

    async def checked_at_once() -> None:
        async with asyncio.timeout(20):
            await require_no_absent_tasks(options, "query", 0, 1)

    await asyncio.to_thread(lambda: this_worker().run(checked_at_once()))
    await committed(job, left)
    for each in (options, other):
        await forgotten(each)


async def test_marks_of_an_older_version_move_to_the_ledger(kafka: EmbeddedKafka, clock: Time) -> None:
    """The first repeat finds the offset and keeps it; the older version still finds the offset afterwards."""
    older, options = options_for(kafka, **WITHOUT), options_for(kafka)
    await epoch_written(older, 0, b"a")
    assert kafka.records(LEDGER) == []
    for _ in range(2):
        assert (await epoch_written(options, 0, b"a")).skipped == 1
        assert len(kafka.records(LEDGER)) == 1
    assert (await epoch_written(older, 0, b"a")).skipped == 1
    clock.stands_still()
    assert (await epoch_written(options, 0, b"a")).skipped == 1
    assert seen(kafka) == [b"a"]
    for each in (older, options):
        await forgotten(each)


async def test_another_ledger_gets_the_marks(kafka: EmbeddedKafka, clock: Time) -> None:
    """The option was changed while brokers still had the offset."""
    kafka.create_topic("others", 16, cleanup_policy="compact")
    options, other = options_for(kafka), options_for(kafka, **{"ledger.topic": "others"})
    await epoch_written(options, 0, b"a")
    assert (await epoch_written(other, 0, b"a")).skipped == 1
    clock.stands_still()
    assert (await epoch_written(other, 0, b"a")).skipped == 1
    assert seen(kafka) == [b"a"]
    for each in (options, other):
        await forgotten(each)


async def test_a_ledger_that_has_more_partitions_now(kafka: EmbeddedKafka, clock: Time) -> None:
    """Marks stay where they are."""
    options = options_for(kafka)
    for partition in range(5):
        await epoch_written(options, 0, b"a", partition=partition)
    kafka.add_partitions(LEDGER, 50)
    clock.stands_still()
    for partition in range(5):
        assert (await epoch_written(options, 0, b"a", partition=partition)).skipped == 1
    await forgotten(options)


def test_marks_stay_where_they_are() -> None:
    """The key and the partition are those of every version: other ones would not be found any more."""
    places = [Place(f"aioproducer-spark-query-{task}", TOPIC, LEDGER) for task in range(4)]
    assert places[0].key == b'["aioproducer-spark-query-0", "orders"]'
    assert [partition_of(place.key) for place in places] == [11, 14, 0, 5]


async def test_an_attempt_that_was_aborted_has_left_no_mark(kafka: EmbeddedKafka, clock: Time) -> None:
    """The zombie wrote rows and mark, and was fenced before its commit."""
    options = options_for(kafka)
    place = Place(GROUP, TOPIC, LEDGER)
    await epoch_written(options, 0, b"a")
    async with Producer(kafka.bootstrap_servers, transactional_id=GROUP) as zombie:
        await zombie.init_transactions()
        await zombie.begin_transaction()
        note = await place.note(zombie)
        assert note is not None
        await zombie.send_and_wait(TOPIC, b"b")
        await place.write(zombie, OffsetAndMetadata(2, note.metadata))
        clock.stands_still()
        assert (await epoch_written(options, 1, b"b")).skipped == 0
    clock.stands_still()
    assert (await epoch_written(options, 1, b"b")).skipped == 1
    assert seen(kafka) == [b"a", b"b"]
    await forgotten(options)


async def test_an_open_transaction_of_another_sink_hides_no_mark(kafka: EmbeddedKafka, clock: Time) -> None:
    """It has a record in the same partition of the ledger, before the mark."""
    options = options_for(kafka)
    key = Place(GROUP, TOPIC, LEDGER).key
    async with Producer(kafka.bootstrap_servers, transactional_id="slow") as slow:
        await slow.init_transactions()
        await slow.begin_transaction()
        await epoch_written(options, 0, b"a")
        clock.stands_still()
        await slow.abort_transaction()
        await slow.init_transactions("slower")
        await slow.begin_transaction()
        await slow.send_and_wait(LEDGER, b"x", key=b"other", partition=partition_of(key))
        await epoch_written(options, 1, b"b")
        async with Ledger(options.producer, ledger_topic(LEDGER)) as ledger:
            found = await ledger.last_values([partition_of(key)], key.__eq__)
            assert note_of(found[key]).offset == 2
            with pytest.raises(TransactionTimeoutError, match="an open transaction may hold values back"):
                await ledger.last_values([partition_of(key)], b"other".__eq__, timeout=0.2)
        assert kafka.last_stable_offset(LEDGER, partition_of(key)) < kafka.high_watermark(
            LEDGER, partition_of(key)
        )
        await slow.abort_transaction()
    await forgotten(options)


@pytest.mark.parametrize(
    ("api", "error"),
    [
        ("Fetch", "NOT_LEADER_OR_FOLLOWER"),
        ("Fetch", "UNKNOWN_TOPIC_ID"),
        ("ListOffsets", "OFFSET_NOT_AVAILABLE"),
        ("ListOffsets", None),
        ("Fetch", None),
    ],
)
async def test_a_ledger_whose_leader_moves_is_asked_again(
    kafka: EmbeddedKafka, clock: Time, api: str, error: str | None
) -> None:
    """A new leader, one that does not know the end of the log yet, and a connection that ends."""
    options = options_for(kafka)
    await epoch_written(options, 0, b"a")
    clock.stands_still()
    if error is None:
        kafka.faults.cut(api=api)
    else:
        kafka.faults.error(error, api=api, times=2)
    assert (await epoch_written(options, 0, b"a")).skipped == 1
    await forgotten(options)


async def test_a_ledger_that_may_not_be_read(kafka: EmbeddedKafka) -> None:
    """The task fails at once, and writes nothing."""
    options = options_for(kafka)
    await epoch_written(options, 0, b"a")
    kafka.faults.error("TOPIC_AUTHORIZATION_FAILED", api="ListOffsets", topic=LEDGER, times=None)
    with pytest.raises(AuthorizationError, match="may not read this topic"):
        await epoch_written(options, 0, b"b", partition=1)
    assert seen(kafka) == [b"a"]
    await forgotten(options)


async def test_a_ledger_whose_first_records_are_gone(kafka: EmbeddedKafka, clock: Time) -> None:
    """An operator has deleted records: the rest is read."""
    options = options_for(kafka)
    for epoch in range(3):
        await epoch_written(options, epoch, b"a")
    where = partition_of(Place(GROUP, TOPIC, LEDGER).key)
    kafka.faults.delete_records(LEDGER, where, 3)
    clock.stands_still()
    assert (await epoch_written(options, 2, b"a")).skipped == 1
    kafka.faults.delete_records(LEDGER, where, kafka.high_watermark(LEDGER, where))
    clock.stands_still()
    with pytest.raises(StateError, match="has no mark at all"):
        await epoch_written(options, 2, b"a", is_query=True)
    await forgotten(options)


# -------------------------------------------------------------------------------------------- marks that are lost
@pytest.mark.parametrize("last", [None, 0])
async def test_marks_that_are_lost_are_noticed_in_a_query(
    kafka: EmbeddedKafka, clock: Time, caplog: pytest.LogCaptureFixture, last: int | None
) -> None:
    """The first task of a query is in every epoch; a sink.id may be new in a later epoch."""
    options = options_for(kafka)
    if last is not None:
        await epoch_written(options, last, b"old")
        older = options_for(kafka, **WITHOUT)
        await epoch_written(older, last + 1, b"a")
        clock.stands_still()
    for partition in (0, 1):
        with pytest.raises(StateError, match=r"marks were lost.*set a new sink\.id"):
            await epoch_written(options, 2, b"b", partition=partition, is_query=True)
    assert b"b" not in seen(kafka)
    await epoch_written(options, 2, b"b")
    assert "If epoch 2 was committed before, its rows are doubled" in caplog.text
    # Now the marks are complete.
    await epoch_written(options, 2, b"c", partition=1, is_query=True)
    await epoch_written(options, 3, b"d", is_query=True)
    await forgotten(options)


async def test_a_ledger_that_was_deleted_and_created_again(kafka: EmbeddedKafka, clock: Time) -> None:
    """While brokers have the offset nothing is lost; afterwards a query is refused."""
    options = options_for(kafka)
    for epoch in range(3):
        await epoch_written(options, epoch, b"a", is_query=True)
    kafka.delete_topic(LEDGER)
    create_ledger(kafka)
    assert (await epoch_written(options, 2, b"a", is_query=True)).skipped == 1
    clock.stands_still()
    with pytest.raises(StateError, match=r"has no mark at all for topic 'orders': .*marks were lost"):
        await epoch_written(options, 2, b"a", is_query=True)
    assert len(seen(kafka)) == 3
    await forgotten(options)


async def test_an_epoch_whose_topic_was_created_again_is_not_taken_for_written(
    kafka: EmbeddedKafka, clock: Time
) -> None:
    """Its rows went with the former topic; the next epoch is written."""
    options = options_for(kafka)
    await epoch_written(options, 0, b"a")
    kafka.delete_topic(TOPIC)
    kafka.create_topic(TOPIC, 1)
    clock.stands_still()
    with pytest.raises(StateError, match=r"topic 'orders', which was deleted.*set another sink\.id"):
        await epoch_written(options, 0, b"a", is_query=True)
    await epoch_written(options, 1, b"b", is_query=True)
    assert (await epoch_written(options, 1, b"b")).skipped == 1
    assert seen(kafka) == [b"b"]
    await forgotten(options)


async def test_a_mark_of_a_newer_version_is_refused(kafka: EmbeddedKafka, clock: Time) -> None:
    """A mark that cannot be read is not a missing one."""
    options = options_for(kafka)
    key = Place(GROUP, TOPIC, LEDGER).key
    async with Producer(kafka.bootstrap_servers) as newer:
        await newer.send_and_wait(LEDGER, b"\x02what", key=key, partition=partition_of(key))
    with pytest.raises(StateError, match="written by a newer version"):
        await epoch_written(options, 0, b"a")
    assert seen(kafka) == []
    await forgotten(options)


# -------------------------------------------------------------------------------------------- batches
async def run(options: SinkOptions, *tasks: bytes) -> tuple[Job, list[LeftOpen]]:
    """A run of a job whose tasks have all ended, each with one row."""
    job = await asyncio.to_thread(Job.of(options).begin)
    return job, [await written(job, at + 1, value, partition=at) for at, value in enumerate(tasks)]


async def committed(job: Job, left: list[LeftOpen]) -> None:
    """The driver's commit after that."""
    await asyncio.to_thread(job.commit, handles(*left))


@pytest.mark.parametrize(("more", "copies"), [({}, 1), (WITHOUT, 2)], ids=["ledger", "offsets only"])
async def test_a_job_that_is_repeated_after_the_offsets_are_forgotten(
    kafka: EmbeddedKafka, clock: Time, more: dict[str, str], copies: int
) -> None:
    """Without a ledger the whole job is written a second time."""
    options = options_for(kafka, **NAMED, **more)
    await committed(*await run(options, b"a", b"b"))
    clock.stands_still()
    await committed(*await run(options, b"a", b"b"))
    assert sorted(map(str, seen(kafka))) == sorted(["b'a'", "b'b'"] * copies)
    await forgotten(options)


async def test_the_number_of_tasks_is_remembered(kafka: EmbeddedKafka, clock: Time) -> None:
    """A job that was committed by three tasks is not repeated with two or four."""
    options = options_for(kafka, **NAMED)
    await committed(*await run(options, b"a", b"b", b"c"))
    for rows in ([b"a", b"b"], [b"a", b"b", b"c", b"new"]):
        clock.stands_still()
        job, left = await run(options, *rows)
        with pytest.raises(OtherRowsError, match="was committed by 3 tasks"):
            await committed(job, left)
    clock.stands_still()
    await committed(*await run(options, b"a", b"b", b"c"))
    assert len(seen(kafka)) == 3
    await forgotten(options)


async def test_a_job_whose_topic_was_created_again_is_not_taken_for_written(
    kafka: EmbeddedKafka, clock: Time
) -> None:
    """Nothing of it is in the new topic: another write.id writes it."""
    options, other = options_for(kafka, **NAMED), options_for(kafka, **{"write.id": "again"})
    for _ in range(2):
        await committed(*await run(options, b"a"))
    kafka.delete_topic(TOPIC)
    kafka.create_topic(TOPIC, 1)
    clock.stands_still()
    with pytest.raises(StateError, match=r"which was deleted.*set another write\.id"):
        await run(options, b"a")
    assert seen(kafka) == []
    await committed(*await run(other, b"a"))
    assert seen(kafka) == [b"a"]
    for each in (options, other):
        await forgotten(each)


async def test_a_job_without_a_name_leaves_nothing_in_the_ledger(kafka: EmbeddedKafka) -> None:
    """It cannot be repeated."""
    options = options_for(kafka)
    await committed(*await run(options, b"a"))
    assert kafka.records(LEDGER, isolation="read_uncommitted") == []
    await forgotten(options)


async def test_the_driver_moves_the_marks_of_an_older_job(kafka: EmbeddedKafka, clock: Time) -> None:
    """Two runs of this version after one of the older version, with pauses."""
    older, options = options_for(kafka, **NAMED, **WITHOUT), options_for(kafka, **NAMED)
    await committed(*await run(older, b"a", b"b"))
    await committed(*await run(options, b"a", b"b"))
    keys = [json.loads(record.key or b"")[0].rpartition("-")[2] for record in kafka.records(LEDGER)]
    assert sorted(keys) == ["0", "1", "job"]
    clock.stands_still()
    await committed(*await run(options, b"a", b"b"))
    assert len(seen(kafka)) == 2
    for each in (older, options):
        await forgotten(each)


# -------------------------------------------------------------------------------------------- the topic
async def checked(options: SinkOptions) -> None:
    """The driver's checks of a stream."""
    await asyncio.to_thread(lambda: check_kafka(options, is_stream=True))


async def test_the_topic_is_created(kafka: EmbeddedKafka) -> None:
    """With 16 partitions, compacted; only where marks are kept."""
    kafka.delete_topic(LEDGER)
    for options in (
        options_for(kafka, **WITHOUT),
        options_for(kafka, delivery="at-least-once"),
    ):
        await checked(options)
    await asyncio.to_thread(check_kafka, options_for(kafka))
    assert LEDGER not in kafka.topics
    await checked(options_for(kafka))
    assert kafka.topics[LEDGER] == 16
    assert kafka._cluster.topic(LEDGER).config("cleanup.policy") == "compact"
    await checked(options_for(kafka))
    await asyncio.to_thread(check_kafka, options_for(kafka, **NAMED, **{"ledger.topic": "named"}))
    assert kafka.topics["named"] == 16


def test_the_command_that_creates_the_topic() -> None:
    """The page has the command of the error."""
    page = (Path(__file__).parents[3] / "docs" / "spark.md").read_text()
    command = ledger_topic(LEDGER).creation().replace("<broker>", "localhost:9092")
    assert command in page.replace("\\\n    ", "")


async def test_a_topic_that_would_forget_marks_is_refused(kafka: EmbeddedKafka) -> None:
    """Deletion by time beside compaction too; the error has the command."""
    for number, policy in enumerate(("delete", "compact,delete")):
        kafka.create_topic(f"short-{number}", 16, cleanup_policy=policy)
        with pytest.raises(
            ConfigurationError,
            match=rf"has cleanup\.policy={policy}, and would forget.*--add-config cleanup\.policy=compact",
        ):
            await checked(options_for(kafka, **{"ledger.topic": f"short-{number}"}))


async def test_a_topic_with_too_few_partitions_is_refused(kafka: EmbeddedKafka) -> None:
    """The error has the command."""
    kafka.create_topic("few", 15, cleanup_policy="compact")
    with pytest.raises(ConfigurationError, match=r"has 15 partitions.*--alter --topic few --partitions 16"):
        await checked(options_for(kafka, **{"ledger.topic": "few"}))


@pytest.mark.parametrize("error", ["TOPIC_AUTHORIZATION_FAILED", "POLICY_VIOLATION"])
async def test_a_topic_that_cannot_be_created(kafka: EmbeddedKafka, error: str) -> None:
    """The error has the command."""
    kafka.delete_topic(LEDGER)
    kafka.faults.error(error, api="CreateTopics", times=None)
    with pytest.raises(
        ConfigurationError,
        match=rf"cannot be created \({error}.*kafka-topics\.sh .*--create --topic {LEDGER} --partitions 16 "
        r"--config cleanup\.policy=compact .*ledger\.topic=none",
    ):
        await checked(options_for(kafka))
    assert LEDGER not in kafka.topics


async def test_a_topic_that_another_driver_creates_at_once(kafka: EmbeddedKafka) -> None:
    """Its answer is no error, and a controller that moves is asked again."""
    kafka.delete_topic(LEDGER)
    kafka.faults.error("NOT_CONTROLLER", api="CreateTopics")
    options = options_for(kafka)
    await asyncio.gather(*(checked(options) for _ in range(3)))
    assert kafka.topics[LEDGER] == 16


async def test_a_mark_that_the_ledger_refuses(kafka: EmbeddedKafka) -> None:
    """It is sent beside the rows: all of them are written by then, and none is committed."""
    options = options_for(kafka)
    kafka.faults.error("INVALID_RECORD", api="Produce", topic=LEDGER)
    with pytest.raises(KafkaError):
        await epoch_written(options, 0, b"a")
    assert seen(kafka) == []
    assert (await epoch_written(options, 0, b"a")).rows == 1
    assert seen(kafka) == [b"a"]
    await forgotten(options)


async def test_a_mark_that_cannot_be_sent(kafka: EmbeddedKafka, monkeypatch: pytest.MonkeyPatch) -> None:
    """The ledger is deleted behind the fence: no record of it is accepted, and the rows are not committed."""

    async def refused(*_: object) -> None:
        raise MetadataTimeoutError("the ledger is gone")

    options = options_for(kafka)
    with monkeypatch.context() as patched:
        patched.setattr(Place, "keep", refused)
        with pytest.raises(MetadataTimeoutError, match="the ledger is gone"):
            await epoch_written(options, 0, b"a")
    assert seen(kafka) == []
    assert (await epoch_written(options, 0, b"a")).rows == 1
    await forgotten(options)


async def test_a_row_that_is_refused_beside_its_mark(kafka: EmbeddedKafka) -> None:
    """The error is that of the row, and the mark is not committed."""
    options = options_for(kafka)
    kafka.faults.error("INVALID_RECORD", api="Produce", topic="orders")
    with pytest.raises(DeliveryError, match="rows of an Arrow batch were not written"):
        await epoch_written(options, 0, b"a")
    assert (await epoch_written(options, 0, b"a")).rows == 1
    assert seen(kafka) == [b"a"]
    await forgotten(options)


async def test_a_task_whose_ledger_is_gone_writes_nothing(
    kafka: EmbeddedKafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was deleted after the driver's checks."""
    monkeypatch.setattr("aioproducer._net.ledgers.reading._MADE_JUST_NOW", 0.0)
    kafka.delete_topic(LEDGER)
    options = options_for(kafka)
    with pytest.raises(MetadataTimeoutError, match="does not exist"):
        await epoch_written(options, 0, b"a")
    assert seen(kafka) == []
    await forgotten(options)


@pytest.mark.parametrize("missing", ["READ", "WRITE", "CREATE"])
async def test_missing_rights_are_named(missing: str) -> None:
    """The error has the command for the missing right; with all of them the topic is created and used."""
    rights = [
        Allow("READ", "WRITE", topic="*"),
        Allow("ALL", group="*"),
        Allow("ALL", transactional_id="*"),
        Allow("CREATE", topic="*"),
        Allow("DESCRIBE", cluster=True),
    ]
    async with EmbeddedKafka(
        users={"etl": "secret"}, acls={"etl": rights}, auto_create_topics=False
    ) as kafka:
        kafka.create_topic(TOPIC, 1)
        options = options_for(
            kafka,
            **{
                "kafka.security.protocol": "SASL_PLAINTEXT",
                "kafka.sasl.mechanism": "SCRAM-SHA-256",
                "kafka.sasl.username": "etl",
                "kafka.sasl.password": "secret",
            },
        )
        assert kafka.acls is not None
        if missing == "CREATE":
            kafka.acls["etl"] = [one for one in rights if one != Allow("CREATE", topic="*")]
            with pytest.raises(ConfigurationError, match=r"cannot be created .*--create"):
                await checked(options)
            kafka.acls["etl"] = rights
        await checked(options)
        await epoch_written(options, 0, b"a")
        assert len(kafka.records(LEDGER)) == 1
        if missing != "CREATE":
            left = "WRITE" if missing == "READ" else "READ"
            kafka.acls["etl"] = [
                Allow("READ", "WRITE", topic=TOPIC), Allow(left, topic=LEDGER), *rights[1:]
            ]  # fmt: skip
            with pytest.raises(
                ConfigurationError, match=rf"lacks {missing} on the topic: kafka-acls\.sh .*--operation"
            ):
                await checked(options)
        await forgotten(options)

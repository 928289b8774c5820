"""Attempts of tasks that Spark has given up, and that start or continue: none of them harms its successor."""

from __future__ import annotations

import asyncio
from collections import Counter
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from aioproducer import (
    DeliveryError,
    Producer,
    ProducerFencedError,
    StateError,
    TransactionAbortedError,
    TransactionError,
)
from aioproducer.spark.exactly_once.epochs import write_epoch
from aioproducer.spark.exactly_once.jobs import Job
from aioproducer.spark.exactly_once.markers import Mark, Place
from aioproducer.spark.preflight import check_kafka
from aioproducer.spark.shipping import shipment
from aioproducer.spark.shipping.columns import Layout
from aioproducer.testing import EmbeddedKafka
from tests.net.support import until
from tests.spark.exactly_once.attempts import (
    SCHEMA,
    TOPIC,
    epoch_written,
    forgotten,
    handles,
    options_for,
    rows,
    seen,
    states,
    written,
)


@pytest.mark.parametrize("name", [{}, {"write.id": "nightly"}], ids=["nameless", "with an id"])
async def test_an_attempt_that_starts_behind_its_successors_end(
    kafka: EmbeddedKafka, name: dict[str, str]
) -> None:
    """Spark gets the result of one attempt: its rows are there, once, and no transaction of the other stays open."""
    job = await asyncio.to_thread(Job.of(options_for(kafka, **name)).begin)
    left = await written(job, 8, b"a")
    await written(job, 7, b"a")
    await asyncio.to_thread(job.commit, handles(left))
    assert seen(kafka) == [b"a"]
    assert "Ongoing" not in await states(kafka)
    await forgotten(job.options)


async def test_what_an_earlier_attempt_left_open_is_not_waited_for(kafka: EmbeddedKafka) -> None:
    """Without its end, the mark of the earlier attempt would block until its transaction times out."""
    job = await asyncio.to_thread(Job.of(options_for(kafka, **{"write.id": "nightly"})).begin)
    await written(job, 7, b"lost")
    left = await written(job, 8, b"a")
    await asyncio.to_thread(job.commit, handles(left))
    assert seen(kafka) == [b"a"]
    await forgotten(job.options)


@pytest.mark.parametrize("name", [{}, {"write.id": "nightly"}], ids=["nameless", "with an id"])
@pytest.mark.parametrize("end", ["commit", "abort"])
async def test_an_attempt_that_starts_behind_the_end_of_a_job(
    kafka: EmbeddedKafka, name: dict[str, str], end: str
) -> None:
    """Its executor was frozen, or Spark has just started it: it finds that the job has ended, and leaves nothing open."""
    job = await asyncio.to_thread(Job.of(options_for(kafka, **name)).begin)
    left = await written(job, 7, b"a")
    await asyncio.to_thread(*((job.commit, handles(left)) if end == "commit" else (job.abort,)))
    with pytest.raises(TransactionAbortedError, match="the driver has ended"):
        await written(job, 8, b"a")
    assert seen(kafka) == ([b"a"] if end == "commit" else [])
    assert "Ongoing" not in await states(kafka)
    await forgotten(job.options)


@pytest.mark.parametrize("ends", [["abort", "commit"], ["commit", "abort"], ["", "commit"]])
async def test_an_attempt_that_starts_behind_a_later_run_of_its_job(
    kafka: EmbeddedKafka, ends: list[str]
) -> None:
    """Its executor was frozen meanwhile. Its open transaction would hide all later records for 15 minutes."""
    options = options_for(kafka, **{"write.id": "nightly"})
    first = await asyncio.to_thread(Job.of(options).begin)
    if ends[0] == "abort":
        await asyncio.to_thread(first.abort)
    rows = 0
    for end in ends[1:] if ends[0] != "commit" else ends:
        job = await asyncio.to_thread(Job.of(options).begin)
        left = [await written(job, 7, b"a")]
        rows += end == "commit"
        await asyncio.to_thread(*((job.commit, handles(*left)) if end == "commit" else (job.abort,)))
    with pytest.raises(TransactionAbortedError, match=r"behind the end of its run: another run"):
        await written(first, 8, b"a")
    assert len(seen(kafka)) == rows
    assert "Ongoing" not in await states(kafka)
    await forgotten(options)


async def test_a_run_that_fails_ends_no_task_of_another(kafka: EmbeddedKafka) -> None:
    """Its driver was taken for dead, and its job started again; the second run failed, and the first goes on."""
    options = options_for(kafka, **{"write.id": "nightly"})
    first = await asyncio.to_thread(Job.of(options).begin)
    other = await asyncio.to_thread(Job.of(options).begin)
    await asyncio.to_thread(other.abort)
    left = await written(first, 7, b"a")
    await asyncio.to_thread(first.commit, handles(left))
    assert seen(kafka) == [b"a"]
    await forgotten(options)


async def test_two_repeats_of_a_job_that_is_whole(kafka: EmbeddedKafka) -> None:
    """Neither writes anything, so neither ends the other: both succeed."""
    options = options_for(kafka, **{"write.id": "nightly"})
    job = await asyncio.to_thread(Job.of(options).begin)
    await asyncio.to_thread(job.commit, handles(await written(job, 1, b"a")))
    first, other = [await asyncio.to_thread(Job.of(options).begin) for _ in range(2)]
    await asyncio.to_thread(first.commit, handles(await written(first, 2, b"a")))
    await asyncio.to_thread(other.commit, handles(await written(other, 3, b"a")))
    assert seen(kafka) == [b"a"]
    await forgotten(options)


async def test_a_verdict_that_is_refused_behind_the_commit(
    kafka: EmbeddedKafka, caplog: pytest.LogCaptureFixture
) -> None:
    """The rows are visible, and an error would lead to a second run: it is a warning. The other attempt is aborted."""
    job = await asyncio.to_thread(Job.of(options_for(kafka)).begin)
    await written(job, 7, b"a")
    left = await written(job, 8, b"a")
    kafka.faults.error("GROUP_AUTHORIZATION_FAILED", api="TxnOffsetCommit", times=None)
    await asyncio.to_thread(job.commit, handles(left))
    assert seen(kafka) == [b"a"]
    assert "a repeated task may have left a transaction open" in caplog.text
    assert "Ongoing" not in await states(kafka)
    await forgotten(job.options)


@pytest.mark.parametrize("tasks", [2, 7])
async def test_tasks_of_a_job_that_can_be_repeated_ask_for_no_list(kafka: EmbeddedKafka, tasks: int) -> None:
    """The driver has the marks of all tasks: with many tasks, lists of all transactional ids would be most of the work."""
    options = options_for(kafka, **{"write.id": "nightly"})
    for run in range(2):
        job = await asyncio.to_thread(Job.of(options).begin)
        kafka.forget_requests()
        left = [await written(job, 1 + at, b"%d" % at, partition=at) for at in range(tasks)]
        asked = Counter(one.api for one in kafka.requests)
        assert asked["ListTransactions"] == asked["Fetch"] == 0
        # The driver's verdict.
        assert asked["OffsetFetch"] == tasks
        assert [one.written.skipped for one in left] == [run] * tasks
        await asyncio.to_thread(job.commit, handles(*left))
    assert len(seen(kafka)) == tasks
    await forgotten(options)


async def test_transactions_that_are_longer_than_brokers_allow(kafka: EmbeddedKafka) -> None:
    """The driver is refused before there are tasks, and the error names the limit of the brokers."""
    kafka._cluster.transactions.max_timeout_ms = 600_000
    with pytest.raises(
        TransactionError, match=r"-driver' was refused: .*larger than transaction\.max\.timeout\.ms"
    ):
        await asyncio.to_thread(Job.of(options_for(kafka)).begin)
    too_long = {"sink.id": "orders", "kafka.transaction.timeout.ms": "700000"}
    with pytest.raises(TransactionError, match=r"larger than transaction\.max\.timeout\.ms"):
        await asyncio.to_thread(check_kafka, options_for(kafka, **too_long), "orders", is_stream=True)
    await asyncio.to_thread(Job.of(options_for(kafka, **{"kafka.transaction.timeout.ms": "600000"})).begin)


@pytest.mark.parametrize("epochs", [[0, 7], [7]])
async def test_a_job_with_the_name_of_a_stream(kafka: EmbeddedKafka, epochs: list[int]) -> None:
    """Its marks would replace those of the stream, whose last epoch would be written again when it is repeated."""
    options = options_for(kafka)
    for epoch in epochs:
        await epoch_written(options, epoch, b"row", name="nightly")
    with pytest.raises(
        StateError, match=r"'nightly' of write\.id is that of a stream as well.*committed epoch 7"
    ):
        await asyncio.to_thread(Job.of(options_for(kafka, **{"write.id": "nightly"})).begin)
    assert (await epoch_written(options, 7, b"row", name="nightly")).skipped == 1
    assert len(seen(kafka)) == len(epochs)
    await forgotten(options)


async def test_a_job_leaves_others_alone_whose_names_begin_like_its_own(kafka: EmbeddedKafka) -> None:
    """`daily` and `daily-2` may run at the same time."""
    first, other = (Job.of(options_for(kafka, **{"write.id": name})) for name in ("daily", "daily-2"))
    other = await asyncio.to_thread(other.begin)
    left = await written(other, 3, b"other")
    first = await asyncio.to_thread(first.begin)
    await asyncio.to_thread(first.abort)
    await asyncio.to_thread(other.commit, handles(left))
    assert seen(kafka) == [b"other"]
    for job in (first, other):
        await forgotten(job.options)


@pytest.mark.parametrize(("seconds", "is_told"), [(59.0, False), (61.0, True)])
async def test_a_task_that_is_slower_than_its_transaction_may_be(
    kafka: EmbeddedKafka, monkeypatch: pytest.MonkeyPatch, seconds: float, is_told: bool
) -> None:
    """The broker reports only an old producer; the error adds the advice about time where it applies."""
    options = options_for(kafka)
    clock = iter([0.0, seconds])
    monkeypatch.setattr(shipment, "time", SimpleNamespace(monotonic=lambda: next(clock)))
    kafka.faults.error("INVALID_PRODUCER_EPOCH", api="Produce", times=None)
    with pytest.raises(DeliveryError) as failure:
        await asyncio.to_thread(write_epoch, rows(b"a"), Layout.of(SCHEMA, options), options, ("query", 0), 0)
    assert ("kafka.transaction.timeout.ms is 60 s" in str(failure.value)) is is_told
    await forgotten(options)


async def test_an_attempt_without_input_takes_nothing_over(kafka: EmbeddedKafka) -> None:
    """In a stream, where attempts share an id, an attempt whose input ends at once leaves its successor alone."""
    options = options_for(kafka)
    task = ("query", 0)

    def gone() -> pa.RecordBatch:
        raise EOFError

    with pytest.raises(EOFError):
        await asyncio.to_thread(write_epoch, iter(gone, None), Layout.of(SCHEMA, options), options, task, 0)
    assert await states(kafka) == set()
    await asyncio.to_thread(write_epoch, rows(b"a"), Layout.of(SCHEMA, options), options, task, 0)
    await asyncio.to_thread(write_epoch, rows(b"a"), Layout.of(SCHEMA, options), options, task, 0)
    assert seen(kafka) == [b"a"]
    await forgotten(options)


async def test_an_attempt_that_commits_while_its_successor_reads_the_mark(
    kafka: EmbeddedKafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was fenced before: the successor knows that there is no mark, and writes the rows."""
    options, loop, whole = options_for(kafka), asyncio.get_running_loop(), Place.read
    former = Producer(kafka.bootstrap_servers, transactional_id="aioproducer-spark-query-0")
    await former.start()
    await former.init_transactions()
    await former.begin_transaction()
    await former.send_and_wait("orders", b"a")

    async def committed() -> None:
        with pytest.raises(ProducerFencedError):
            await former.commit_transaction()

    async def read(place: Place, producer: Producer[Any, Any]) -> Mark | None:
        found = await whole(place, producer)
        await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(committed(), loop))
        return found

    monkeypatch.setattr(Place, "read", read)
    await epoch_written(options, 0, b"a")
    assert seen(kafka) == [b"a"]
    await former.close(timeout=0)
    await forgotten(options)


async def test_an_epoch_that_is_written_to_a_topic_that_was_created_again(kafka: EmbeddedKafka) -> None:
    """The worker knows the former topic until its rows are refused; the mark names the topic that has them."""
    options = options_for(kafka)
    await epoch_written(options, 0, b"a")
    kafka.delete_topic(TOPIC)
    kafka.create_topic(TOPIC, 1)
    await epoch_written(options, 1, b"b", is_query=True)
    assert (await epoch_written(options, 1, b"b", is_query=True)).skipped == 1
    assert seen(kafka) == [b"b"]
    await forgotten(options)


async def test_the_mark_does_not_wait_for_the_rows(kafka: EmbeddedKafka) -> None:
    """In small epochs each round trip counts."""
    options = options_for(kafka)
    await epoch_written(options, 0, b"a")
    kafka.forget_requests()
    held = kafka.faults.delay(api="Produce", topic="orders")
    writing = asyncio.create_task(epoch_written(options, 1, b"b"))
    await until(lambda: any(one.api == "TxnOffsetCommit" for one in kafka.requests))
    assert seen(kafka) == [b"a"]
    held.release()
    await writing
    assert seen(kafka) == [b"a", b"b"]
    await forgotten(options)

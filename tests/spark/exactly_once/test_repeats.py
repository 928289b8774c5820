"""Repeated work: with fewer or more tasks, for another topic, after marks of an older version, or too late."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import pytest

from aioproducer import (
    BrokerUnavailableError,
    OffsetAndMetadata,
    Outcome,
    Producer,
    ProducerFencedError,
    StateError,
    TopicPartition,
    TransactionAbortedError,
    TransactionError,
    TransactionHandle,
    fence,
)
from aioproducer.spark.exactly_once import absent, commits, jobs
from aioproducer.spark.exactly_once.absent import may_be_repeated, require_no_absent_tasks
from aioproducer.spark.exactly_once.jobs import Job, LeftOpen, write_and_leave_open
from aioproducer.spark.exactly_once.markers import OtherRowsError
from aioproducer.spark.facts import TaskFacts
from aioproducer.spark.options import SinkOptions
from aioproducer.spark.shipping.columns import Layout
from aioproducer.spark.shipping.worker import this_worker
from aioproducer.testing import EmbeddedKafka
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

NAMED = {"write.id": "nightly"}


@pytest.fixture(autouse=True)
def nothing_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """A moved coordinator is found without a wait."""
    for module in (jobs, absent):
        monkeypatch.setattr(module, "SECONDS_BETWEEN_LOOKS", 0.0)


async def begun(options: SinkOptions) -> Job:
    """The next run of a job."""
    return await asyncio.to_thread(Job.of(options).begin)


async def run(options: SinkOptions, *tasks: bytes) -> tuple[Job, list[LeftOpen]]:
    """A run of a job whose tasks have all ended, each with one row."""
    job = await begun(options)
    return job, [await written(job, at + 1, value, partition=at) for at, value in enumerate(tasks)]


async def committed(job: Job, left: list[LeftOpen]) -> None:
    """The driver's commit after that."""
    await asyncio.to_thread(job.commit, handles(*left))


async def committed_by_halves(
    job: Job, left: list[LeftOpen], only: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A driver that dies after the commit of one task."""
    wanted = left[only].handle
    whole = commits._committed

    async def one_of_them(handle: TransactionHandle, *settings: Any) -> None:
        if handle == wanted:
            await whole(handle, *settings)

    with monkeypatch.context() as patch:
        patch.setattr(commits, "_committed", one_of_them)
        await committed(job, left)


# -------------------------------------------------------------------------------------------- batches
@pytest.mark.parametrize("name", [{}, NAMED], ids=["nameless", "with an id"])
@pytest.mark.parametrize("gone", [0, 1])
async def test_a_job_of_which_one_transaction_is_gone_is_aborted(
    kafka: EmbeddedKafka, name: dict[str, str], gone: int
) -> None:
    """The coordinator has aborted one transaction, as its time was over: no other is committed, and none stays open."""
    job, left = await run(options_for(kafka, **name), b"a", b"b")
    handle = left[gone].handle
    assert handle is not None
    await handle.abort(kafka.bootstrap_servers)
    with pytest.raises(
        TransactionAbortedError, match=r"no longer open.*transaction\.timeout\.ms allows \(900 s\)"
    ):
        await committed(job, left)
    assert seen(kafka) == []
    assert "Ongoing" not in await states(kafka)
    again, left = await run(job.options, b"a", b"b")
    await committed(again, left)
    assert sorted(map(str, seen(kafka))) == ["b'a'", "b'b'"]
    await forgotten(job.options)


async def test_a_transaction_that_is_left_out_once_is_asked_for_again(kafka: EmbeddedKafka) -> None:
    """Coordinators move; for a moment no list has the transaction."""
    job, left = await run(options_for(kafka), b"a", b"b")
    kafka.faults.alter(_nothing_listed, api="ListTransactions", times=2)
    await committed(job, left)
    assert len(seen(kafka)) == 2
    await forgotten(job.options)


async def test_a_transaction_that_nobody_knows_is_not_open(kafka: EmbeddedKafka) -> None:
    """A job that the brokers never list is aborted."""
    job, left = await run(options_for(kafka), b"a", b"b")
    fault = kafka.faults.alter(_nothing_listed, api="ListTransactions", times=None)
    with pytest.raises(TransactionAbortedError, match="its state is 'unknown'"):
        await committed(job, left)
    fault.heal()
    await asyncio.to_thread(job.abort)
    assert seen(kafka) == []
    await forgotten(job.options)


def _nothing_listed(answer: Any) -> Any:
    return answer._replace(transaction_states=[])


@pytest.mark.parametrize("only", [0, 2])
async def test_a_job_that_was_committed_by_halves_is_repeated_with_as_many_tasks(
    kafka: EmbeddedKafka, monkeypatch: pytest.MonkeyPatch, only: int
) -> None:
    """With another number of tasks the job is refused, and no row of that run is visible."""
    options = options_for(kafka, **NAMED)
    await committed_by_halves(*await run(options, b"a", b"b", b"c"), only, monkeypatch)
    half = [b"abc"[only : only + 1]]
    assert seen(kafka) == half
    for values in ([b"a", b"bc"], [b"a", b"b", b"c", b""])[only == 0 :]:
        job = await begun(options)
        left = [await written(job, at + 1, value, partition=at) for at, value in enumerate(values)]
        with pytest.raises(
            OtherRowsError, match=r"committed by 3 tasks, at least in part, and is now repeated"
        ):
            await committed(job, left)
        assert seen(kafka) == half
        assert "Ongoing" not in await states(kafka)
    job, left = await run(options, b"a", b"b", b"c")
    await committed(job, left)
    assert sorted(map(str, seen(kafka))) == ["b'a'", "b'b'", "b'c'"]
    await forgotten(options)


async def test_a_repeat_that_completes_a_job_keeps_what_is_remembered_of_it(
    kafka: EmbeddedKafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Brokers forget the first run's commits sooner than the second's: a third run adds nothing."""
    options = options_for(kafka, **NAMED)
    await committed_by_halves(*await run(options, b"a", b"b", b"c"), 1, monkeypatch)
    groups = [f"aioproducer-spark-nightly-{which}" for which in ("0", "1", "2", "job")]
    notes = [kafka._cluster.groups.make(group).committed for group in groups]
    of_the_first = [dict(each) for each in notes]
    await committed(*await run(options, b"a", b"b", b"c"))
    for now, before in zip(notes, of_the_first, strict=True):
        for place, note in before.items():
            if now[place] is note:
                del now[place]
    await committed(*await run(options, b"a", b"b", b"c"))
    assert sorted(map(str, seen(kafka))) == ["b'a'", "b'b'", "b'c'"]
    with pytest.raises(OtherRowsError, match="committed by 3 tasks"):
        await committed(*await run(options, b"a", b"b", b"c", b"new"))
    await forgotten(options)


async def test_what_a_driver_that_died_has_left_open_is_not_waited_for(kafka: EmbeddedKafka) -> None:
    """The driver wrote the number of tasks and died before its commit: the next run finds that transaction."""
    options = options_for(kafka, **NAMED, **{"kafka.max.block.ms": "2000"})
    name, place = "aioproducer-spark-nightly-driver", TopicPartition(TOPIC, 0)
    async with Producer(kafka.bootstrap_servers, transactional_id=name) as driver:
        await driver.init_transactions()
        async with driver.transaction() as transaction:
            note = {place: OffsetAndMetadata(0, '{"tasks": 1}')}
            transaction.send_offsets(note, "aioproducer-spark-nightly-job")
            await transaction.detach()
    await committed(*await run(options, b"a"))
    assert seen(kafka) == [b"a"]
    await forgotten(options)


async def test_a_job_that_is_whole_takes_no_task_more(kafka: EmbeddedKafka) -> None:
    """Another run adds nothing, also where the rows of all its former tasks are the same."""
    options = options_for(kafka, **NAMED)
    await committed(*await run(options, b"a", b"b"))
    job, left = await run(options, b"a", b"b", b"new")
    with pytest.raises(
        OtherRowsError, match="committed by 2 tasks, at least in part, and is now repeated with 3"
    ):
        await committed(job, left)
    assert len(seen(kafka)) == 2
    await forgotten(options)


async def test_a_job_of_which_nothing_was_committed_may_have_other_tasks(
    kafka: EmbeddedKafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The driver died before the first commit, but after the mark with the number of tasks."""
    options = options_for(kafka, **NAMED)
    job, left = await run(options, b"a", b"b", b"c")
    with monkeypatch.context() as patch:
        patch.setattr(commits, "_committed", _not_committed)
        await committed(job, left)
    for tasks in ([b"a", b"bc"], [b"a", b"bc"]):
        await committed(*await run(options, *tasks))
    assert len(seen(kafka)) == 2
    await forgotten(options)


async def _not_committed(*_: Any) -> None:
    """A job whose driver dies before the commit."""


async def test_a_job_that_an_older_version_has_committed_by_halves(kafka: EmbeddedKafka) -> None:
    """The job has no mark with the number of tasks: the transactional ids show the tasks that committed."""
    options = options_for(kafka, **NAMED)
    job, left = await run(options, b"a", b"b", b"c")
    handle = left[2].handle
    assert handle is not None
    await handle.commit(kafka.bootstrap_servers)
    job, left = await run(options, b"ab", b"c")
    with pytest.raises(OtherRowsError, match="committed by more tasks, at least in part"):
        await committed(job, left)
    assert seen(kafka) == [b"c"]
    await committed(*await run(options, b"a", b"b", b"c"))
    assert len(seen(kafka)) == 3
    await forgotten(options)


async def test_a_job_whose_commit_fails_leaves_nothing_open(
    kafka: EmbeddedKafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A transaction that could not be committed is aborted: it would hide all later records."""
    job, left = await run(options_for(kafka), b"a", b"b")
    with monkeypatch.context() as patch:
        patch.setattr(commits, "_committed", _not_answered)
        with pytest.raises(TransactionError, match="2 of 2 tasks are not certainly committed"):
            await committed(job, left)
    assert seen(kafka) == []
    assert "Ongoing" not in await states(kafka)
    await forgotten(job.options)


async def test_a_job_whose_commits_nobody_answers_is_not_told_as_not_written(
    kafka: EmbeddedKafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All rows are visible: an error that says not written would lead to a second run, which doubles them."""
    job, left = await run(options_for(kafka), b"a", b"b")
    whole = commits._committed

    async def told_nothing(handle: TransactionHandle, *settings: Any) -> None:
        await whole(handle, *settings)
        raise TransactionError("no answer", outcome=Outcome.UNKNOWN)

    with monkeypatch.context() as patch:
        patch.setattr(commits, "_committed", told_nothing)
        with pytest.raises(TransactionError, match="2 of 2 tasks are not certainly committed") as failure:
            await committed(job, left)
    assert failure.value.outcome is Outcome.UNKNOWN
    assert len(seen(kafka)) == 2
    await forgotten(job.options)


@pytest.mark.parametrize(("others", "outcome"), [([b"b"], Outcome.UNKNOWN), ([], Outcome.NOT_WRITTEN)])
async def test_a_job_is_told_as_not_written_if_nothing_of_it_is(
    kafka: EmbeddedKafka, monkeypatch: pytest.MonkeyPatch, others: list[bytes], outcome: Outcome
) -> None:
    """The first task is aborted after the last check, and the others are committed before or are missing."""
    job, left = await run(options_for(kafka), b"a", *others)
    whole = commits._committed

    async def aborted_first(handle: TransactionHandle, *settings: Any) -> None:
        if handle == left[0].handle:
            await handle.abort(kafka.bootstrap_servers)
        await whole(handle, *settings)

    with monkeypatch.context() as patch:
        patch.setattr(commits, "_committed", aborted_first)
        with pytest.raises(TransactionError, match=r"1 of . tasks were not committed") as failure:
            await committed(job, left)
    assert failure.value.outcome is outcome
    assert seen(kafka) == others
    await forgotten(job.options)


async def test_an_abort_that_fails_too_does_not_hide_why(
    kafka: EmbeddedKafka, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The error is that of the failed commit."""
    job, left = await run(options_for(kafka), b"a")
    with monkeypatch.context() as patch:
        patch.setattr(commits, "_committed", _not_answered)
        patch.setattr(jobs, "fence", _no_broker)
        with pytest.raises(TransactionError, match="1 of 1 tasks are not certainly committed"):
            await committed(job, left)
    assert "its open transactions were not aborted: no broker is there" in caplog.text
    await asyncio.to_thread(job.abort)
    await forgotten(job.options)


async def _not_answered(*_: Any) -> None:
    raise TransactionError("no answer", outcome=Outcome.UNKNOWN)


async def _no_broker(*_: Any, **__: Any) -> None:
    raise BrokerUnavailableError("no broker is there")


async def two_runs_at_once(kafka: EmbeddedKafka) -> tuple[Job, LeftOpen, Job, LeftOpen]:
    """Two runs of one job: both have searched for marks before there were any, and have written all of their rows."""
    first = await begun(options_for(kafka, **NAMED))
    other = await begun(options_for(kafka, **NAMED, **{"kafka.client.id": "other"}))
    left, left_by_other = await written_at_once(first, b"a", other, b"a")
    return first, left, other, left_by_other


async def written_at_once(first: Job, row: bytes, other: Job, others_row: bytes) -> tuple[LeftOpen, LeftOpen]:
    """The open transaction of each run's first task; neither run has found the other's mark."""
    task = TaskFacts(0, 1, None, None, speculation=False)
    layout = Layout.of(SCHEMA, first.options)
    others: list[LeftOpen] = []

    def meanwhile() -> Iterator[Any]:
        others.append(write_and_leave_open(rows(others_row), layout, other, task))
        yield from rows(row)

    return await asyncio.to_thread(write_and_leave_open, meanwhile(), layout, first, task), others[0]


async def test_two_runs_of_a_job_that_end_at_once(
    kafka: EmbeddedKafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One run is committed while the other is about to be: the rows of both together are there once."""
    first, left, other, left_by_other = await two_runs_at_once(kafka)
    whole = commits._committed
    refusals: list[str] = []

    async def both(handle: TransactionHandle, *settings: Any) -> None:
        await whole(handle, *settings)
        if handle == left.handle:
            with pytest.raises(TransactionAbortedError) as refusal:
                await other._commit([left_by_other.handle])
            refusals.append(str(refusal.value))

    with monkeypatch.context() as patch:
        patch.setattr(commits, "_committed", both)
        await committed(first, [left])
    assert seen(kafka) == [b"a"]
    assert "another run of the job with write.id 'nightly' has taken over" in refusals[0]
    assert "Ongoing" not in await states(kafka)
    for job in (first, other):
        await forgotten(job.options)


async def test_a_run_that_died_leaves_no_open_transaction_behind_another(kafka: EmbeddedKafka) -> None:
    """Readers of committed records would wait for it until it times out, which a job allows to take long."""
    first, left, other, _ = await two_runs_at_once(kafka)
    assert "Ongoing" in await states(kafka)
    await committed(first, [left])
    assert "Ongoing" not in await states(kafka)
    assert seen(kafka) == [b"a"]
    for job in (first, other):
        await forgotten(job.options)


async def test_a_run_that_is_not_listed_while_another_is_committed(kafka: EmbeddedKafka) -> None:
    """The coordinator of the other run's transactions is elected anew, so that they are neither listed nor fenced."""
    first, left, other, left_by_other = await two_runs_at_once(kafka)

    def without_other(answer: Any) -> Any:
        listed = answer.transaction_states
        return answer._replace(
            transaction_states=[one for one in listed if other.run not in one.transactional_id]
        )

    fault = kafka.faults.alter(without_other, api="ListTransactions", times=None)
    await committed(first, [left])
    fault.heal()
    with pytest.raises(TransactionAbortedError, match=r"another run of the job with write\.id 'nightly'"):
        await committed(other, [left_by_other])
    assert seen(kafka) == [b"a"]
    assert "Ongoing" not in await states(kafka)
    await committed(*await run(first.options, b"a"))
    assert seen(kafka) == [b"a"]
    for job in (first, other):
        await forgotten(job.options)


async def test_a_run_that_is_refused_does_not_say_how_many_tasks_there_are(
    kafka: EmbeddedKafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The refused run had fewer tasks than the other, whose open transactions it fences: the other can be repeated."""
    more = {"kafka.client.id": "other"}
    first = await begun(options_for(kafka, **NAMED))
    other = await begun(options_for(kafka, **NAMED, **more))
    second_task = await written(first, 2, b"b", partition=1)
    left, left_by_other = await written_at_once(first, b"a", other, b"ab")
    commit = iter([first])

    async def meanwhile(*names: Any, **settings: Any) -> None:
        for job in commit:
            await committed_by_halves(job, [left, second_task], 0, monkeypatch)
        await fence(*names, **settings)

    with monkeypatch.context() as patch:
        patch.setattr(jobs, "fence", meanwhile)
        with pytest.raises(TransactionAbortedError, match="another run of the job"):
            await other._commit([left_by_other.handle])
    assert seen(kafka) == [b"a"]
    await committed(*await run(first.options, b"a", b"b"))
    assert seen(kafka) == [b"a", b"b"]
    for job in (first, other):
        await forgotten(job.options)


async def test_a_run_that_began_before_another_was_committed_is_refused(kafka: EmbeddedKafka) -> None:
    """Its tasks begin after that, with the marks that its driver found before: they leave nothing open, and a third adds nothing."""
    first = await begun(options_for(kafka, **NAMED))
    other = await begun(options_for(kafka, **NAMED, **{"kafka.client.id": "other"}))
    await committed(first, [await written(first, 1, b"a")])
    with pytest.raises(TransactionAbortedError, match=r"another run of the job with write\.id 'nightly'"):
        await written(other, 1, b"a")
    assert "Ongoing" not in await states(kafka)
    (again,) = (await run(first.options, b"a"))[1]
    assert again.written.skipped == 1
    assert seen(kafka) == [b"a"]
    for job in (first, other):
        await forgotten(job.options)


async def test_a_run_that_fails_leaves_another_run_alone(kafka: EmbeddedKafka) -> None:
    """The driver of the first run was taken for dead, and its job started again."""
    first, _, other, left = await two_runs_at_once(kafka)
    await asyncio.to_thread(first.abort)
    await committed(other, [left])
    assert seen(kafka) == [b"a"]
    assert "Ongoing" not in await states(kafka)
    for job in (first, other):
        await forgotten(job.options)


# -------------------------------------------------------------------------------------------- streams
async def checked(options: SinkOptions, epoch: int, tasks: int) -> None:
    """The driver's check at the end of an epoch that may be a repeated one."""
    await asyncio.to_thread(
        lambda: this_worker().run(require_no_absent_tasks(options, "query", epoch, tasks))
    )


async def test_an_epoch_that_was_written_in_part_by_more_tasks_is_noticed(kafka: EmbeddedKafka) -> None:
    """No task of the two that have its rows now reads the mark of the third: the driver does."""
    options = options_for(kafka)
    await epoch_written(options, 0, b"c", partition=2)
    for partition, value in enumerate((b"a", b"bc")):
        await epoch_written(options, 0, value, partition=partition)
    with pytest.raises(OtherRowsError, match=r"repeated with 2 tasks, and 'aioproducer-spark-query-2'"):
        await checked(options, 0, 2)
    with pytest.raises(OtherRowsError):
        await checked(options, 0, 2)
    await checked(options, 0, 3)
    # Fewer tasks in the next epoch are common.
    await checked(options, 1, 1)
    await forgotten(options)


@pytest.mark.parametrize("times", [3, 4])
async def test_a_listing_that_leaves_out_tasks_of_the_run_itself_is_asked_for_again(
    kafka: EmbeddedKafka, caplog: pytest.LogCaptureFixture, times: int
) -> None:
    """The coordinator is being elected: it may also have tasks of an earlier run."""
    options = options_for(kafka, **{"ledger.topic": "none"})
    await epoch_written(options, 0, b"c", partition=2)
    for partition, value in enumerate((b"a", b"bc")):
        await epoch_written(options, 0, value, partition=partition)
    fault = kafka.faults.alter(_nothing_listed, api="ListTransactions", times=2 * times)
    if times < jobs.LOOKS:
        with pytest.raises(OtherRowsError, match=r"repeated with 2 tasks, and 'aioproducer-spark-query-2'"):
            await checked(options, 0, 2)
    else:
        await checked(options, 0, 2)
        assert "brokers did not list all transactional ids of epoch 0" in caplog.text
    fault.heal()
    await forgotten(options)


async def test_a_task_that_nobody_repeats_commits_nothing_behind_the_check(kafka: EmbeddedKafka) -> None:
    """The executor of the task froze in the run before, and resumes: its epoch has been given to other tasks."""
    options = options_for(kafka)
    await epoch_written(options, 0, b"a")
    name = "aioproducer-spark-query-2"
    async with Producer(kafka.bootstrap_servers, transactional_id=name) as zombie:
        await zombie.init_transactions()
        await zombie.begin_transaction()
        await zombie.send_and_wait(TOPIC, b"c")
        await checked(options, 0, 1)
        with pytest.raises(ProducerFencedError):
            await zombie.commit_transaction()
    assert seen(kafka) == [b"a"]
    await forgotten(options)


async def test_brokers_that_do_not_list_transactions(
    kafka: EmbeddedKafka, caplog: pytest.LogCaptureFixture
) -> None:
    """Before Kafka 3.0 there is only a warning without a ledger."""
    options = options_for(kafka, **{"ledger.topic": "none"})
    await epoch_written(options, 0, b"a")
    kafka.limit_version("ListTransactions", 99, 99)
    await checked(options, 0, 0)
    assert "repeated with fewer tasks than before is not detected" in caplog.text
    await forgotten(options)


def test_which_epochs_may_be_repeated_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first epoch of each run of a query in this process, and one that returns."""
    monkeypatch.setattr(absent, "_last", {})
    repeated = [
        may_be_repeated(name, run, epoch)
        for name, run, epoch in (
            ("a", "run 1", 5), ("a", "run 1", 6), ("b", "run 2", 6), ("a", "run 1", 7), ("a", "run 3", 8),
            ("a", "run 3", 9), ("a", "run 3", 9), ("a", None, 10), ("a", None, 11), ("a", None, 3),
        )
    ]  # fmt: skip
    # Without a run id, another process may have begun it.
    assert repeated == [True, False, True, False, True, False, True, True, True, True]


@pytest.mark.parametrize("last", [None, 3])
async def test_a_task_that_is_new_knows_that_the_checkpoint_was_set_back(
    kafka: EmbeddedKafka, last: int | None
) -> None:
    """With a sink.id, a new checkpoint and more tasks than before: the first task's mark is there to be read."""
    options = options_for(kafka)
    if last is not None:
        await epoch_written(options, last, b"old", partition=5)
    await epoch_written(options, 7, b"a")
    before = seen(kafka)
    with pytest.raises(StateError, match=r"has committed epoch 7.*set a new sink\.id.*a-lost-checkpoint"):
        await epoch_written(options, 5, b"b", partition=5)
    assert seen(kafka) == before
    # The first task may have finished the same epoch, and the next one.
    for epoch in (7, 8):
        await epoch_written(options, epoch, b"b", partition=5)
    assert len(seen(kafka)) == len(before) + 2
    await forgotten(options)


async def test_two_writes_of_an_epoch_to_different_topics(kafka: EmbeddedKafka) -> None:
    """The marks of both are in one place, as marker.topic says: the second is not taken for the first."""
    kafka.create_topic("others", 1)
    one = options_for(kafka, **{"marker.topic": TOPIC})
    other = options_for(kafka, **{"marker.topic": TOPIC, "topic": "others"})
    await epoch_written(one, 0, b"a")
    with pytest.raises(OtherRowsError, match=r"committed to topic 'orders'.*repeated for topic 'others'"):
        await epoch_written(other, 0, b"a")
    assert (await epoch_written(one, 0, b"a")).skipped == 1
    named = {"marker.topic": TOPIC, **NAMED}
    await committed(*await run(options_for(kafka, **named), b"a"))
    with pytest.raises(OtherRowsError, match="repeated for topic 'others'"):
        await run(options_for(kafka, **named, topic="others"), b"a")
    for options in (one, other):
        await forgotten(options)


async def test_a_query_whose_topic_was_changed(kafka: EmbeddedKafka) -> None:
    """Marks are offsets of the topic: the error names the option, and with the former one for marks the query goes on."""
    kafka.create_topic("others", 1)
    await epoch_written(options_for(kafka), 0, b"a", is_query=True)
    changed = options_for(kafka, topic="others")
    with pytest.raises(
        StateError, match=r"no mark at all for topic 'others': the option marker\.topic .*was changed"
    ):
        await epoch_written(changed, 1, b"b", is_query=True)
    assert [record.value for record in kafka.records("others")] == []
    changed = options_for(kafka, topic="others", **{"marker.topic": TOPIC})
    await epoch_written(changed, 1, b"b", is_query=True)
    assert [record.value for record in kafka.records("others")] == [b"b"]
    await forgotten(changed)


async def test_marks_of_an_older_version_are_understood(kafka: EmbeddedKafka) -> None:
    """Old marks do not have their topic; the rows must be the same."""
    options = options_for(kafka)
    name = "aioproducer-spark-query-0"
    await epoch_written(options, 0, b"a")
    async with Producer(kafka.bootstrap_servers, transactional_id="older") as producer:
        place = TopicPartition(TOPIC, 0)
        mark = (await producer.committed_offsets(name, [place]))[place]
        facts = json.loads(mark.metadata)
        assert facts.pop("topic") == TOPIC
        await producer.init_transactions()
        async with producer.transaction() as transaction:
            transaction.send_offsets({place: OffsetAndMetadata(mark.offset, json.dumps(facts))}, name)
    assert (await epoch_written(options, 0, b"a")).skipped == 1
    with pytest.raises(OtherRowsError, match=r"not deterministic.*or another write has the same name"):
        await epoch_written(options, 0, b"b")
    assert seen(kafka) == [b"a"]
    await forgotten(options)

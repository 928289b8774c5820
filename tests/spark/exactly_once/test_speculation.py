"""Two attempts of a task at the same time, as Spark's speculation starts them: neither ends the work of the other."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest

from aioproducer import DeliveryError, Producer, ProducerFencedError, StateError
from aioproducer._wire.error_codes import ErrorCode
from aioproducer.spark.exactly_once import epochs
from aioproducer.spark.exactly_once.epochs import EpochOfTask, write_epoch
from aioproducer.spark.exactly_once.jobs import Job
from aioproducer.spark.exactly_once.markers import OtherRowsError
from aioproducer.spark.options import SinkOptions
from aioproducer.spark.shipping.columns import Layout
from aioproducer.spark.shipping.shipment import Written
from aioproducer.testing import EmbeddedKafka
from tests.contract.client import WireClient
from tests.contract.transactions.transacting import Transactor
from tests.spark.exactly_once.attempts import (
    SCHEMA,
    TOPIC,
    create_ledger,
    epoch_written,
    forgotten,
    handles,
    options_for,
    rows,
    seen,
    states,
    written,
)

NAMES = [{}, {"write.id": "nightly"}]


def of_another_executor(kafka: EmbeddedKafka, **more: str) -> SinkOptions:
    """Options with which an attempt has a producer of its own in this process."""
    return options_for(kafka, **{"kafka.client.id": "another"}, **more)


def write(options: SinkOptions, epoch: int, *values: bytes) -> Written:
    """An attempt of the first task, in this thread."""
    layout = Layout.of(SCHEMA, options)
    return write_epoch(rows(*values), layout, options, ("query", 0), epoch, speculation=True)


def in_the_middle(
    monkeypatch: pytest.MonkeyPatch, what: Callable[[], Any], *, sent: bool = True
) -> list[Any]:
    """Call this once, in the next attempt that has its transaction, after or before it has sent its rows.

    The list gets the result.
    """
    whole, results = epochs.counted, list[Any]()
    calls = iter([what])

    def counted(batches: Iterable[Any], *rest: Any) -> Iterator[Any]:
        def interrupted() -> Iterator[Any]:
            for batch in batches:
                if not sent:
                    results.extend(call() for call in calls)
                yield batch
            results.extend(call() for call in calls)

        return whole(interrupted(), *rest)

    monkeypatch.setattr(epochs, "counted", counted)
    return results


# -------------------------------------------------------------------------------------------- streams
@pytest.mark.parametrize("sent", [False, True])
@pytest.mark.parametrize("version", [1, 2])
async def test_an_attempt_that_is_taken_over_succeeds_with_the_other(
    monkeypatch: pytest.MonkeyPatch, version: int, sent: bool
) -> None:
    """The other has its rows before the first has committed: the rows are there once, and no attempt fails."""
    async with EmbeddedKafka(2, transaction_version=version) as kafka:
        kafka.create_topic(TOPIC, 1)
        create_ledger(kafka)
        options, other = options_for(kafka), of_another_executor(kafka)
        results = in_the_middle(monkeypatch, lambda: write(other, 0, b"a"), sent=sent)
        first = await epoch_written(options, 0, b"a", speculation=True)
        assert (first.rows, first.skipped) == (0, 1)
        assert [(one.rows, one.skipped) for one in results] == [(1, 0)]
        assert seen(kafka) == [b"a"]
        assert "Ongoing" not in await states(kafka)
        for each in (options, other):
            await forgotten(each)


@pytest.mark.parametrize("gets_it", [False, True])
@pytest.mark.parametrize("version", [1, 2])
async def test_a_commit_while_the_other_is_taking_over(
    monkeypatch: pytest.MonkeyPatch, version: int, gets_it: bool
) -> None:
    """The first request of the other for the id has aborted the transaction; its next one comes behind the refused commit.

    It may get the id before the first attempt asks for the reason of the refusal.
    """
    commit, begun = Producer.commit_transaction, list[int]()
    behind = set[asyncio.Task[Any]]()

    async def late(producer: Producer[Any, Any]) -> None:
        if begun:
            return await commit(producer)
        async with WireClient(kafka.bootstrap_servers) as client:
            other = Transactor(client, "aioproducer-spark-query-0", TOPIC)
            begun.append((await other.ask_init()).error_code)
            if gets_it:
                behind.add(asyncio.create_task(other.init(1000)))
            try:
                await commit(producer)
            finally:
                await asyncio.gather(*behind)

    async with EmbeddedKafka(transaction_version=version) as kafka:
        kafka.create_topic(TOPIC, 1)
        create_ledger(kafka)
        if gets_it:
            kafka.faults.delay(0.2, before=True, api="DescribeTransactions")
        options = options_for(kafka, **{"kafka.transaction.timeout.ms": "1000"})
        monkeypatch.setattr(Producer, "commit_transaction", late)
        assert (await epoch_written(options, 0, b"a", speculation=True)).rows == 1
        assert begun == [ErrorCode.CONCURRENT_TRANSACTIONS]
        assert seen(kafka) == [b"a"]
        await forgotten(options)


async def test_an_attempt_that_takes_over_and_dies(
    kafka: EmbeddedKafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The fenced attempt has its rows still, and writes them when the transaction of the other has timed out."""
    options = options_for(kafka, **{"kafka.transaction.timeout.ms": "1000"})
    other = Producer(kafka.bootstrap_servers, transactional_id="aioproducer-spark-query-0")

    async def taken_over() -> None:
        await other.start()
        await other.init_transactions()
        await other.begin_transaction()
        await other.send_and_wait(TOPIC, b"a")

    loop = asyncio.get_running_loop()
    in_the_middle(monkeypatch, lambda: asyncio.run_coroutine_threadsafe(taken_over(), loop).result())
    assert (await epoch_written(options, 0, b"a", speculation=True)).rows == 1
    assert seen(kafka) == [b"a"]
    with pytest.raises(ProducerFencedError):
        await other.commit_transaction()
    await other.close(timeout=0)
    await forgotten(options)


async def test_an_attempt_that_is_late_fences_nobody(
    kafka: EmbeddedKafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The epoch is committed, and the next one has begun in another worker: that one is not interrupted."""
    options, other = options_for(kafka), of_another_executor(kafka)
    await epoch_written(options, 0, b"a", speculation=True)
    results = in_the_middle(monkeypatch, lambda: write(other, 0, b"a"))
    assert (await epoch_written(options, 1, b"b", speculation=True)).aborted_attempts == 0
    assert [one.skipped for one in results] == [1]
    assert seen(kafka) == [b"a", b"b"]
    with pytest.raises(StateError, match="has committed epoch 1"):
        await epoch_written(other, 0, b"a", speculation=True)
    for each in (options, other):
        await forgotten(each)


async def test_an_attempt_with_other_rows_than_the_other(
    kafka: EmbeddedKafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The plan is not deterministic: that is refused as it is without speculation."""
    options, other = options_for(kafka), of_another_executor(kafka)
    in_the_middle(monkeypatch, lambda: write(other, 0, b"b"))
    with pytest.raises(OtherRowsError):
        await epoch_written(options, 0, b"a", speculation=True)
    assert seen(kafka) == [b"b"]
    for each in (options, other):
        await forgotten(each)


async def test_an_attempt_that_is_always_taken_over_ends(
    kafka: EmbeddedKafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two queries have the same sink.id: the error comes after some takeovers."""
    options, waited = options_for(kafka), list[int]()

    async def at_once(work: EpochOfTask) -> None:
        waited.append(work.epoch)

    monkeypatch.setattr(epochs, "_other_has_ended", at_once)
    kafka.faults.error("INVALID_PRODUCER_EPOCH", api="Produce", times=None)
    with pytest.raises(DeliveryError):
        await epoch_written(options, 0, b"a", speculation=True)
    assert waited == [0] * (epochs.MOST_TAKEOVERS - 1)
    assert seen(kafka) == []
    await forgotten(options)


# -------------------------------------------------------------------------------------------- batches
@pytest.mark.parametrize("name", NAMES, ids=["nameless", "with an id"])
@pytest.mark.parametrize("reported", [7, 8])
async def test_two_attempts_of_a_job_with_all_of_their_rows(
    kafka: EmbeddedKafka, name: dict[str, str], reported: int
) -> None:
    """Spark takes the result of one of them, the first or the second one; the other leaves nothing open."""
    job = await asyncio.to_thread(Job.of(options_for(kafka, **name)).begin)
    left = {attempt: await written(job, attempt, b"a") for attempt in (7, 8)}
    await asyncio.to_thread(job.commit, handles(left[reported]))
    assert seen(kafka) == [b"a"]
    assert "Ongoing" not in await states(kafka)
    again = await asyncio.to_thread(Job.of(job.options).begin)
    once_more = await written(again, 1, b"a")
    assert once_more.written.skipped == (1 if name else 0)
    await asyncio.to_thread(again.abort)
    assert seen(kafka) == [b"a"]
    await forgotten(job.options)

"""MockProducer with transactions: visible records, refused calls, and the orders of a test."""

from __future__ import annotations

import asyncio
import logging
import pickle
from collections.abc import AsyncIterator, Iterable

import pytest

from aioproducer import (
    BufferFullError,
    CommitOutcomeUnknownError,
    DeliveryError,
    DeliveryTimeoutError,
    GroupMetadata,
    OffsetAndMetadata,
    Outcome,
    ProducerFencedError,
    RecordError,
    StateError,
    TopicPartition,
    TransactionAbortedError,
    TransactionError,
    TransactionTimeoutError,
)
from aioproducer.testing import MockProducer
from aioproducer.testing.mock.brokers import MockTransactionHandle
from aioproducer.testing.mock.controls import MockRecord
from tests.net.support import engine

PLACE = TopicPartition("in", 3)


@pytest.fixture
async def mock() -> AsyncIterator[MockProducer]:
    """A running transactional mock that acknowledges at once."""
    async with MockProducer(transactional_id="orders-7") as producer:
        yield producer


@pytest.fixture
async def manual() -> AsyncIterator[MockProducer]:
    """A running transactional mock whose records wait for the test."""
    async with MockProducer(auto_complete=False, transactional_id="orders-7") as producer:
        yield producer
        producer.complete_all()


def values(records: Iterable[MockRecord]) -> list[bytes | None]:
    """The values of these records."""
    return [record.value for record in records]


async def turns(count: int = 30) -> None:
    """Let the loop run."""
    for _ in range(count):
        await asyncio.sleep(0)


# -- with and without a transactional id


async def test_without_a_transactional_id_there_are_none() -> None:
    """Every transactional call is a StateError, as with the real producer, and records are visible at once."""
    async with MockProducer() as mock:
        for call in (
            mock.init_transactions,
            mock.begin_transaction,
            mock.commit_transaction,
            mock.abort_transaction,
            mock.transaction().__aenter__,
        ):
            with pytest.raises(StateError, match="require a transactional_id"):
                await call()
        with pytest.raises(StateError):
            mock.fence_me()
        await mock.send("orders", b"1")
    assert values(mock.committed) == [b"1"]


# -- visibility


async def test_a_commit_makes_all_of_it_visible(mock: MockProducer) -> None:
    """Readers find nothing until the block has ended, and then all of its records."""
    async with mock.transaction() as tx:
        await mock.send("orders", b"2 apples")
        tx.send_offsets({PLACE: OffsetAndMetadata(42)}, "group")
        assert (values(mock.history), values(mock.written), mock.committed) == ([b"2 apples"],) * 2 + ((),)
        assert await mock.committed_offsets("group", [PLACE], timeout=0.1) == {}
    assert values(mock.committed) == [b"2 apples"]
    assert await mock.committed_offsets("group", [("in", 3), ("in", 4)]) == {PLACE: OffsetAndMetadata(42)}


async def test_an_error_of_the_user_aborts(mock: MockProducer) -> None:
    """No record of the block becomes visible; the error propagates, and the next transaction works."""
    with pytest.raises(ZeroDivisionError):
        async with mock.transaction() as tx:
            await mock.send("orders", b"1")
            tx.send_offsets({PLACE: 1}, "group")
            raise ZeroDivisionError
    async with mock.transaction():
        await mock.send("orders", b"2")
    assert (values(mock.history), values(mock.committed)) == ([b"1", b"2"], [b"2"])
    assert await mock.committed_offsets("group", [PLACE]) == {}


async def test_consumed_records_are_noted(mock: MockProducer) -> None:
    """The committed offset of each partition is the one behind its last."""

    class Consumed:
        topic, partition, offset = "in", 3, 6

    async with mock.transaction() as tx:
        tx.consumed([Consumed()], GroupMetadata("group", 4, "me"))
    assert await mock.committed_offsets("group", [PLACE]) == {PLACE: OffsetAndMetadata(7)}


async def test_clear_forgets_what_was_committed(mock: MockProducer) -> None:
    """Records of an open transaction stay a part of it."""
    async with mock.transaction():
        await mock.send("orders", b"1")
    async with mock.transaction():
        await mock.send("orders", b"2")
        mock.clear()
        assert mock.committed == ()
    assert values(mock.committed) == [b"2"]


# -- waiting


async def test_a_commit_waits_for_its_records(manual: MockProducer) -> None:
    """The commit ends when the test has completed the last record."""
    await manual.init_transactions()
    await manual.begin_transaction()
    for value in (b"1", b"2"):
        await manual.send("orders", value)
    commit = asyncio.create_task(manual.commit_transaction())
    await turns()
    manual.complete_next()
    await turns()
    assert not commit.done()
    manual.complete_next()
    await commit
    assert values(manual.committed) == [b"1", b"2"]


# -- failures


async def test_a_commit_is_refused_after_a_failed_delivery(mock: MockProducer) -> None:
    """The commit is refused also when the delivery was not read; the block aborts, and its error has the cause."""
    mock.fail_delivery(DeliveryTimeoutError(outcome=Outcome.UNKNOWN))
    with pytest.raises(TransactionAbortedError, match="can only be aborted") as caught:
        async with mock.transaction():
            await mock.send("orders", b"1")
    assert isinstance(caught.value.cause, DeliveryTimeoutError)
    assert (caught.value.retriable, mock.committed) == (True, ())
    async with mock.transaction():
        await mock.send("orders", b"2")
    assert values(mock.committed) == [b"2"]


async def test_a_commit_is_refused_after_a_refused_send(mock: MockProducer) -> None:
    """The commit is refused also when the error was caught and dropped."""
    mock.fail_send(RecordError())
    with pytest.raises(TransactionAbortedError) as caught:
        async with mock.transaction():
            with pytest.raises(RecordError):
                await mock.send("orders", b"1")
    assert (type(caught.value.cause), caught.value.retriable) == (RecordError, False)


async def test_the_rest_is_dropped_after_a_failure(manual: MockProducer) -> None:
    """Records without an outcome in the turn of the failure fail with it; a waiting commit raises at once."""
    await manual.init_transactions()
    await manual.begin_transaction()
    first, second, third = [await manual.send("orders", b"%d" % number) for number in range(3)]
    commit = asyncio.create_task(manual.commit_transaction())
    await turns()
    manual.fail_next(DeliveryTimeoutError())
    manual.complete_next()
    with pytest.raises(TransactionAbortedError, match=r"commit_transaction\(\) is not possible"):
        await commit
    assert [each.outcome for each in (first, second, third)] == [
        Outcome.NOT_WRITTEN,
        Outcome.ACKED,
        Outcome.NOT_WRITTEN,
    ]
    error = third.exception()
    assert isinstance(error, DeliveryError)
    assert isinstance(error.cause, TransactionAbortedError)
    await manual.abort_transaction()
    assert manual.committed == ()


async def test_an_abort_drops_what_is_pending(manual: MockProducer) -> None:
    """The deliveries fail with a TransactionAbortedError as the cause; the records were not written."""
    await manual.init_transactions()
    await manual.begin_transaction()
    delivery = await manual.send("orders", b"1")
    await manual.abort_transaction()
    with pytest.raises(DeliveryError, match="aborted before the record was sent") as caught:
        await delivery
    assert isinstance(caught.value.cause, TransactionAbortedError)
    assert (delivery.outcome, manual.pending) == (Outcome.NOT_WRITTEN, ())


# -- the orders of a test


async def test_refused_commits_can_be_ordered(mock: MockProducer) -> None:
    """The commit raises TransactionAbortedError with that cause, and the transaction can only be aborted."""
    mock.fail_commit(DeliveryTimeoutError())
    await mock.init_transactions()
    await mock.begin_transaction()
    await mock.send("orders", b"1")
    with pytest.raises(TransactionAbortedError) as caught:
        await mock.commit_transaction()
    assert isinstance(caught.value.cause, DeliveryTimeoutError)
    with pytest.raises(TransactionAbortedError):
        await mock.commit_transaction()
    await mock.abort_transaction()
    assert mock.committed == ()


@pytest.mark.parametrize("times", [1, 2])
async def test_an_answer_that_is_lost_after_the_commit(times: int, mock: MockProducer) -> None:
    """The transaction is committed; the next call with an answer returns."""
    mock.lose_commit_answer(times=times)
    with pytest.raises(CommitOutcomeUnknownError):
        async with mock.transaction():
            await mock.send("orders", b"1")
    assert values(mock.committed) == [b"1"]
    for _ in range(times - 1):
        with pytest.raises(CommitOutcomeUnknownError):
            await mock.commit_transaction()
    await mock.commit_transaction()
    async with mock.transaction():
        pass


async def test_an_answer_that_is_lost_without_the_commit(mock: MockProducer) -> None:
    """No record is visible; the next call with an answer raises that an abort is needed."""
    mock.lose_commit_answer(committed=False)
    with pytest.raises(CommitOutcomeUnknownError) as unknown:
        async with mock.transaction():
            await mock.send("orders", b"1")
    assert unknown.value.outcome is Outcome.UNKNOWN
    with pytest.raises(TransactionAbortedError, match="the coordinator aborted the transaction") as caught:
        await mock.commit_transaction()
    assert caught.value.retriable
    await mock.abort_transaction()
    assert mock.committed == ()


async def test_a_lost_answer_is_settled_by_init(mock: MockProducer) -> None:
    """init_transactions() settles the outcome without reporting which it was."""
    mock.lose_commit_answer()
    with pytest.raises(CommitOutcomeUnknownError):
        async with mock.transaction():
            await mock.send("orders", b"1")
    await mock.init_transactions()
    async with mock.transaction():
        await mock.send("orders", b"2")
    assert values(mock.committed) == [b"1", b"2"]


async def test_refused_offsets_can_be_ordered(mock: MockProducer) -> None:
    """Offsets are refused as after a rebalance: at once, or with the commit."""
    mock.fail_offsets(RecordError("another generation"), "group", times=2)
    await mock.init_transactions()
    await mock.begin_transaction()
    await mock.send_offsets_to_transaction({PLACE: 1}, "other")
    with pytest.raises(TransactionAbortedError, match="another generation"):
        await mock.send_offsets_to_transaction({PLACE: 1}, "group")
    await mock.abort_transaction()
    with pytest.raises(TransactionAbortedError, match="another generation"):
        async with mock.transaction() as tx:
            tx.send_offsets({PLACE: 1}, "group")
    async with mock.transaction() as tx:
        tx.send_offsets({PLACE: 2}, "group")
    assert await mock.committed_offsets("group", [PLACE]) == {PLACE: OffsetAndMetadata(2)}
    assert await mock.committed_offsets("other", [PLACE]) == {}


async def test_a_fenced_producer(manual: MockProducer) -> None:
    """Waiting calls raise, pending records fail, and every later call raises; closing works."""
    await manual.init_transactions()
    await manual.begin_transaction()
    delivery = await manual.send("orders", b"1")
    commit = asyncio.create_task(manual.commit_transaction())
    await turns()
    manual.fence_me()
    with pytest.raises(ProducerFencedError):
        await commit
    await delivery.wait()
    error = delivery.exception()
    assert isinstance(error, DeliveryError)
    assert isinstance(error.cause, ProducerFencedError)
    for call in (manual.init_transactions, manual.flush, manual.abort_transaction):
        with pytest.raises(ProducerFencedError):
            await call()
    with pytest.raises(ProducerFencedError):
        await manual.send("orders", b"2")
    with pytest.raises(ProducerFencedError):
        manual.send_nowait("orders", b"2")
    with pytest.raises(ProducerFencedError):
        async with manual.transaction():
            raise AssertionError
    health = manual.health()
    assert (health.state, type(health.last_error)) == ("failed", ProducerFencedError)
    await manual.close()
    assert manual.committed == ()


async def test_fenced_at_any_moment_of_a_commit() -> None:
    """The error of the commit says NOT_WRITTEN before the broker has committed, and UNKNOWN after it: both are true.

    The moments are the turns of the loop until the commit returns.
    """
    moments: set[tuple[bool, bool, Outcome | None]] = set()
    for count in range(30):
        async with MockProducer(transactional_id="orders-7") as mock:
            await mock.init_transactions()
            await mock.begin_transaction()
            await mock.send("orders", b"1")
            commit = asyncio.create_task(mock.commit_transaction())
            await turns(count)
            transactions = engine(mock).transactions
            assert transactions is not None
            is_asked, is_committed = transactions.parts.asked_to_commit, mock.committed != ()
            mock.fence_me()
            (result,) = await asyncio.gather(commit, return_exceptions=True)
            await turns()
            assert (mock.committed != ()) is is_committed
            assert result is None or isinstance(result, ProducerFencedError)
            moments.add((is_asked, is_committed, None if result is None else result.outcome))
    assert moments == {
        (False, False, Outcome.NOT_WRITTEN),
        (True, False, Outcome.NOT_WRITTEN),
        (True, True, Outcome.UNKNOWN),
        (True, True, None),
    }


@pytest.mark.parametrize("is_committed", [False, True])
async def test_fenced_after_a_lost_answer(mock: MockProducer, is_committed: bool) -> None:
    """The repeated commit raises NOT_WRITTEN only if the transaction was not committed."""
    mock.lose_commit_answer(committed=is_committed)
    with pytest.raises(CommitOutcomeUnknownError):
        async with mock.transaction():
            await mock.send("orders", b"1")
    mock.fence_me()
    with pytest.raises(ProducerFencedError) as caught:
        await mock.commit_transaction()
    assert (caught.value.outcome is Outcome.UNKNOWN, mock.committed != ()) == (is_committed, is_committed)


async def test_fenced_inside_a_block(mock: MockProducer, caplog: pytest.LogCaptureFixture) -> None:
    """The end of the block raises the fencing; an error of the user's own takes precedence."""
    with pytest.raises(ProducerFencedError):
        async with mock.transaction():
            await mock.send("orders", b"1")
            mock.fence_me()
    async with MockProducer(transactional_id="other") as other:
        with caplog.at_level(logging.WARNING, "aioproducer"), pytest.raises(ZeroDivisionError):
            async with other.transaction():
                other.fence_me()
                raise ZeroDivisionError
    assert "was not aborted" in caplog.text


async def test_fenced_while_an_error_leaves_the_block(mock: MockProducer) -> None:
    """An error of this library that leaves the block is the context of the fencing; a second fencing adds nothing."""
    with pytest.raises(ProducerFencedError) as caught:
        async with mock.transaction():
            mock.fence_me()
            mock.fence_me()
            raise BufferFullError
    assert isinstance(caught.value.cause, BufferFullError)


async def test_orders_are_checked_and_cleared(mock: MockProducer) -> None:
    """An error that a commit never raises cannot be ordered; clear() forgets the orders."""
    for wrong, kind in ((CommitOutcomeUnknownError(), ValueError), (ValueError(), TypeError)):
        with pytest.raises(kind):
            mock.fail_commit(wrong)  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        mock.fail_offsets(ValueError())  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="times"):
        mock.lose_commit_answer(times=0)
    mock.fail_commit(BufferFullError())
    mock.fail_offsets(BufferFullError())
    mock.lose_commit_answer()
    mock.clear()
    async with mock.transaction() as tx:
        tx.send_offsets({PLACE: 1}, "group")


# -- repeated transactions


async def test_run_transaction_runs_again(mock: MockProducer) -> None:
    """A transaction is repeated after retriable failures; each attempt is a transaction of its own."""
    mock.fail_delivery(DeliveryTimeoutError())
    mock.fail_commit(BufferFullError())
    seen = []

    async def work(value: bytes) -> int:
        seen.append(value)
        await mock.send("orders", value)
        return len(seen)

    assert await mock.run_transaction(work, b"1") == 3
    assert (values(mock.history), values(mock.committed)) == ([b"1"] * 3, [b"1"])


# -- handles


async def test_a_handle_ends_it_in_the_mock(manual: MockProducer) -> None:
    """detach() waits for the records; a handle commits after pickling, and may repeat the commit."""
    async with manual.transaction() as tx:
        await manual.send("orders", b"1")
        tx.send_offsets({PLACE: 1}, "group")
        with pytest.raises(TransactionTimeoutError):
            await tx.detach(timeout=0)
        manual.complete_all()
        handle = pickle.loads(pickle.dumps(await tx.detach()))
    assert (handle.transactional_id, handle.is_empty, manual.committed) == ("orders-7", False, ())
    with pytest.raises(StateError, match="DETACHED"):
        await manual.begin_transaction()
    for _ in range(2):
        await handle.commit("localhost:9092")
    assert values(manual.committed) == [b"1"]
    assert await manual.committed_offsets("group", [PLACE]) == {PLACE: OffsetAndMetadata(1)}
    with pytest.raises(TransactionError, match="was committed before"):
        await handle.abort("localhost:9092")
    await manual.init_transactions()


async def test_a_handle_aborts(mock: MockProducer) -> None:
    """No record becomes visible, and the handle cannot commit; closing the mock does not end the transaction."""
    async with mock.transaction() as tx:
        await mock.send("orders", b"1")
        handle = await tx.detach()
    await mock.close()
    await handle.abort("localhost:9092")
    await handle.abort("localhost:9092")
    with pytest.raises(TransactionAbortedError):
        await handle.commit("localhost:9092")
    assert mock.committed == ()


async def test_handles_of_nothing_and_of_nobody(mock: MockProducer) -> None:
    """An empty transaction has nothing to end; without its mock a handle raises an error that says so."""
    async with mock.transaction() as tx:
        handle = await tx.detach()
    assert handle.is_empty
    await handle.commit("localhost:9092")
    stray = MockTransactionHandle("orders-7", -1, 0, 2)
    with pytest.raises(StateError, match="does not exist in this process"):
        await stray.commit("localhost:9092")


# -- other transactions


async def test_others_are_listed_and_fenced(mock: MockProducer) -> None:
    """A test describes other transactions, and sees those that the code under test has fenced."""
    mock.set_transaction("job-1")
    mock.set_transaction("job-2", "Empty")
    found = [
        each.transactional_id for each in await mock.list_transactions("job-") if each.state == "Ongoing"
    ]
    await mock.fence(found)
    assert (found, mock.fenced) == (["job-1"], ("job-1",))
    assert [each.state for each in await mock.list_transactions("job-")] == ["Empty", "Empty"]


async def test_committed_offsets_can_be_set() -> None:
    """The test sets offsets for code that asks where to resume; this needs no transactional_id."""
    async with MockProducer() as mock:
        mock.set_committed_offsets("group", {PLACE: 9})
        assert await mock.committed_offsets("group", [PLACE]) == {PLACE: OffsetAndMetadata(9)}


# -- closing


async def test_closing_aborts_an_open_transaction(caplog: pytest.LogCaptureFixture) -> None:
    """Pending records fail, and no record becomes visible."""
    async with MockProducer(auto_complete=False, transactional_id="id") as mock:
        await mock.init_transactions()
        await mock.begin_transaction()
        delivery = await mock.send("orders", b"1")
        await mock.send("orders", b"2")
        mock.complete_next()
    assert (await delivery).offset == 0
    assert mock.committed == ()
    assert mock.close_report is not None
    assert mock.close_report.not_written == 1

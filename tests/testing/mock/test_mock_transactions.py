"""MockProducer with transactions: what becomes visible, what is refused, and what a test can order."""

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
from aioproducer.testing.mock.history import MockRecord
from aioproducer.testing.mock.transactions import MockTransactionHandle

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
    """What was written in these records."""
    return [record.value for record in records]


async def turns(count: int = 30) -> None:
    """Let the loop run."""
    for _ in range(count):
        await asyncio.sleep(0)


# -- with and without


async def test_without_a_transactional_id_there_are_none() -> None:
    """Every call of a transaction is a StateError, as the real producer's, and records are visible at once."""
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


# -- what becomes visible


async def test_a_commit_makes_all_of_it_visible(mock: MockProducer) -> None:
    """Readers find nothing until the block has ended, and then everything."""
    async with mock.transaction() as tx:
        await mock.send("orders", b"2 apples")
        tx.send_offsets({PLACE: OffsetAndMetadata(42)}, "group")
        assert (values(mock.history), values(mock.written), mock.committed) == ([b"2 apples"],) * 2 + ((),)
        assert await mock.committed_offsets("group", [PLACE], timeout=0.1) == {}
    assert values(mock.committed) == [b"2 apples"]
    assert await mock.committed_offsets("group", [("in", 3), ("in", 4)]) == {PLACE: OffsetAndMetadata(42)}


async def test_an_error_of_the_user_aborts(mock: MockProducer) -> None:
    """Nothing of the block becomes visible; the error goes on, and the next transaction works."""
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
    """The offset behind the last of each partition counts."""

    class Consumed:
        topic, partition, offset = "in", 3, 6

    async with mock.transaction() as tx:
        tx.consumed([Consumed()], GroupMetadata("group", 4, "me"))
    assert await mock.committed_offsets("group", [PLACE]) == {PLACE: OffsetAndMetadata(7)}


async def test_clear_forgets_what_was_committed(mock: MockProducer) -> None:
    """What an open transaction has written stays a part of it."""
    async with mock.transaction():
        await mock.send("orders", b"1")
    async with mock.transaction():
        await mock.send("orders", b"2")
        mock.clear()
        assert mock.committed == ()
    assert values(mock.committed) == [b"2"]


async def test_offsets_of_an_open_transaction_are_waited_for(mock: MockProducer) -> None:
    """As Kafka's stable offsets are: until it ends, or the time is over."""
    await mock.init_transactions()
    await mock.begin_transaction()
    await mock.send_offsets_to_transaction({PLACE: 5}, "group")
    with pytest.raises(TransactionTimeoutError, match="timed out waiting for the group's offsets"):
        await mock.committed_offsets("group", [PLACE], timeout=0)
    asking = asyncio.create_task(mock.committed_offsets("group", [PLACE]))
    await turns()
    assert not asking.done()
    await mock.commit_transaction()
    assert await asking == {PLACE: OffsetAndMetadata(5)}


# -- waiting


async def test_a_commit_waits_for_its_records(manual: MockProducer) -> None:
    """It ends when the test has completed the last of them."""
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


async def test_a_commit_waits_for_serializers() -> None:
    """A send() that is still at its serializer is a part of the transaction."""
    gate = asyncio.Event()

    async def serialize(data: bytes) -> bytes:
        await gate.wait()
        return data

    async with MockProducer(transactional_id="id", value_serializer=serialize) as mock:
        async with mock.transaction():
            send = asyncio.ensure_future(mock.send("orders", b"1"))
            asyncio.get_running_loop().call_later(0.01, gate.set)
        assert values(mock.committed) == [b"1"]
        await send


async def test_a_commit_that_is_left_goes_on(manual: MockProducer) -> None:
    """Out of time, its outcome is unknown; it happens all the same, and the same call again is told."""
    await manual.init_transactions()
    await manual.begin_transaction()
    await manual.send("orders", b"1")
    with pytest.raises(CommitOutcomeUnknownError):
        await manual.commit_transaction(timeout=0)
    with pytest.raises(StateError, match="UNCERTAIN"):
        await manual.begin_transaction()
    manual.complete_all()
    await turns()
    assert values(manual.committed) == [b"1"]
    await manual.commit_transaction()
    await manual.begin_transaction()


async def test_a_cancelled_commit_goes_on(manual: MockProducer) -> None:
    """Only the waiting ends; init_transactions() settles it, and drops what has no outcome."""
    await manual.init_transactions()
    await manual.begin_transaction()
    delivery = await manual.send("orders", b"1")
    commit = asyncio.create_task(manual.commit_transaction())
    await turns()
    commit.cancel()
    await turns()
    assert commit.cancelled()
    await manual.init_transactions()
    assert isinstance(delivery.exception(), DeliveryError)
    await manual.begin_transaction()
    assert manual.committed == ()


async def test_commits_are_joined(manual: MockProducer) -> None:
    """All who wait for the same commit are told; meanwhile nothing else is possible."""
    await manual.init_transactions()
    await manual.begin_transaction()
    await manual.send("orders", b"1")
    with pytest.raises(CommitOutcomeUnknownError):
        await manual.commit_transaction(timeout=0)
    first = asyncio.create_task(manual.commit_transaction())
    second = asyncio.create_task(manual.commit_transaction())
    await turns()
    with pytest.raises(StateError, match="COMMITTING"):
        await manual.init_transactions()
    manual.complete_all()
    await asyncio.gather(first, second)
    assert values(manual.committed) == [b"1"]


async def test_another_transactional_id(mock: MockProducer) -> None:
    """init_transactions() changes the mock over to another id."""
    await mock.init_transactions("orders-8")
    assert [each.transactional_id for each in await mock.list_transactions()] == ["orders-8"]


# -- failures


async def test_a_commit_is_refused_after_a_failed_delivery(mock: MockProducer) -> None:
    """Also when nobody looked at the delivery; the block aborts, and its error has the cause."""
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
    """Also when the error was caught and forgotten."""
    mock.fail_send(RecordError())
    with pytest.raises(TransactionAbortedError) as caught:
        async with mock.transaction():
            with pytest.raises(RecordError):
                await mock.send("orders", b"1")
    assert (type(caught.value.cause), caught.value.retriable) == (RecordError, False)


async def test_what_the_caller_holds_does_not_count(manual: MockProducer) -> None:
    """try_cancel(), purge() and a BufferFullError of send_nowait() leave the transaction as it is."""
    async with manual.transaction():
        assert (await manual.send("orders", b"1")).try_cancel()
        await manual.send("orders", b"2")
        assert manual.purge() == 1
        manual.fail_send(BufferFullError())
        with pytest.raises(BufferFullError):
            manual.send_nowait("orders", b"3")
        manual.send_nowait("orders", b"4")
        manual.complete_all()
    assert values(manual.committed) == [b"4"]


@pytest.mark.parametrize("partition", [None, 9])
async def test_send_nowait_counts(partition: int | None, mock: MockProducer) -> None:
    """What send_nowait() raises for good fails the transaction, and so does a delivery without a partition."""
    with pytest.raises(TransactionAbortedError):
        async with mock.transaction():
            if partition is None:
                with pytest.raises(RecordError):
                    mock.send_nowait("orders", "text")  # type: ignore[arg-type]
            else:
                assert (
                    await mock.send_nowait("orders", b"1", partition=partition).wait() is Outcome.NOT_WRITTEN
                )


async def test_a_wrong_bulk_call_counts(mock: MockProducer) -> None:
    """A send_batch() that is refused as a whole fails the transaction."""
    with pytest.raises(TransactionAbortedError):
        async with mock.transaction():
            with pytest.raises(RecordError):
                mock.send_batch("orders", 7)


async def test_the_rest_is_dropped_after_a_failure(manual: MockProducer) -> None:
    """What has no outcome in the turn of the failure ends with it; who waits for the commit is told at once."""
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
    """Its deliveries fail, with a TransactionAbortedError as the cause; they were not written."""
    await manual.init_transactions()
    await manual.begin_transaction()
    delivery = await manual.send("orders", b"1")
    await manual.abort_transaction()
    with pytest.raises(DeliveryError, match="aborted before the record was sent") as caught:
        await delivery
    assert isinstance(caught.value.cause, TransactionAbortedError)
    assert (delivery.outcome, manual.pending) == (Outcome.NOT_WRITTEN, ())


async def test_an_abort_refuses_who_waits_for_a_serializer() -> None:
    """A send() that is not accepted yet is refused."""

    async def serialize(data: bytes) -> bytes:
        # Longer than the test: it is cancelled.
        await asyncio.sleep(60)
        return data

    async with MockProducer(transactional_id="id", value_serializer=serialize) as mock:
        await mock.init_transactions()
        await mock.begin_transaction()
        send = asyncio.ensure_future(mock.send("orders", b"1"))
        await turns()
        await mock.abort_transaction()
        with pytest.raises(TransactionAbortedError):
            await send


async def test_a_cancelled_block_aborts(manual: MockProducer) -> None:
    """The task ends as cancelled, and the next transaction works."""

    async def work() -> None:
        async with manual.transaction():
            await manual.send_and_wait("orders", b"1")

    task = asyncio.create_task(work())
    await manual.wait_pending()
    task.cancel()
    await asyncio.wait([task])
    assert task.cancelled()
    async with manual.transaction():
        pass


async def test_a_block_that_another_task_aborts(mock: MockProducer) -> None:
    """It does not end as if all were well."""
    with pytest.raises(TransactionAbortedError, match="another task"):
        async with mock.transaction():
            await mock.send("t", b"a")
            await asyncio.create_task(mock.abort_transaction())
    assert mock.committed == ()


async def test_a_block_that_was_ended_by_hand(mock: MockProducer) -> None:
    """Its end does nothing more, and its object is of no use in the next transaction."""
    async with mock.transaction() as tx:
        await mock.send("orders", b"1")
        await mock.commit_transaction()
    async with mock.transaction():
        with pytest.raises(StateError, match="another one has begun"):
            tx.send_offsets({PLACE: 1}, "group")
    assert values(mock.committed) == [b"1"]


# -- what a test can order


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
    """It is committed; the call that gets an answer says so."""
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
    """Nothing is visible; the call that gets an answer is told to abort."""
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


async def test_two_who_wait_for_the_same_commit(mock: MockProducer) -> None:
    """They share one answer, and its loss; the call after that is told."""
    mock.lose_commit_answer()
    await mock.init_transactions()
    await mock.begin_transaction()
    await mock.send("orders", b"1")
    both = await asyncio.gather(mock.commit_transaction(), mock.commit_transaction(), return_exceptions=True)
    assert {type(each) for each in both} == {CommitOutcomeUnknownError}
    await mock.commit_transaction()
    assert values(mock.committed) == [b"1"]


async def test_a_lost_answer_is_settled_by_init(mock: MockProducer) -> None:
    """Without being told which way."""
    mock.lose_commit_answer()
    with pytest.raises(CommitOutcomeUnknownError):
        async with mock.transaction():
            await mock.send("orders", b"1")
    await mock.init_transactions()
    async with mock.transaction():
        await mock.send("orders", b"2")
    assert values(mock.committed) == [b"1", b"2"]


async def test_refused_offsets_can_be_ordered(mock: MockProducer) -> None:
    """As after a rebalance: at once, or with the commit."""
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
    """Whoever waits is told, what is pending fails, and every call raises; closing works."""
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


async def test_fenced_inside_a_block(mock: MockProducer, caplog: pytest.LogCaptureFixture) -> None:
    """The end of the block raises it; an error of the user's own comes first."""
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
    """An error of this library that leaves the block is the context of the fencing; being fenced twice is no news."""
    with pytest.raises(ProducerFencedError) as caught:
        async with mock.transaction():
            mock.fence_me()
            mock.fence_me()
            raise BufferFullError
    assert isinstance(caught.value.cause, BufferFullError)


async def test_orders_are_checked_and_cleared(mock: MockProducer) -> None:
    """What a commit never raises cannot be ordered; clear() forgets the rest."""
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


# -- running it again


async def test_run_transaction_runs_again(mock: MockProducer) -> None:
    """After failures that may pass; each attempt is a transaction of its own."""
    mock.fail_delivery(DeliveryTimeoutError())
    mock.fail_commit(BufferFullError())
    seen = []

    async def work(value: bytes) -> int:
        seen.append(value)
        await mock.send("orders", value)
        return len(seen)

    assert await mock.run_transaction(work, b"1") == 3
    assert (values(mock.history), values(mock.committed)) == ([b"1"] * 3, [b"1"])


@pytest.mark.parametrize("error", [RecordError(), ZeroDivisionError()])
async def test_run_transaction_raises_what_would_come_again(error: Exception, mock: MockProducer) -> None:
    """What is not retriable, and the user's own errors."""

    async def work() -> None:
        raise error

    with pytest.raises(type(error)):
        await mock.run_transaction(work)


async def test_run_transaction_has_its_limits(mock: MockProducer) -> None:
    """It does not repeat a commit of unknown outcome, and ends with its time."""

    async def work() -> None:
        await mock.send("orders", b"1")

    mock.lose_commit_answer()
    with pytest.raises(CommitOutcomeUnknownError):
        await mock.run_transaction(work)
    await mock.commit_transaction()
    mock.fail_commit(BufferFullError(), times=None)
    # By the end of the time an abort may be under way.
    with pytest.raises((TransactionAbortedError, TransactionTimeoutError)):
        await mock.run_transaction(work, timeout=0.02)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(mock.run_transaction(work), 0.02)


# -- handles


async def test_a_handle_ends_it_in_the_mock(manual: MockProducer) -> None:
    """detach() waits for the records; a handle that was pickled commits, and may do so again."""
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


async def test_what_nobody_was_handed_is_aborted(manual: MockProducer) -> None:
    """Nobody has a handle of it, so that leaving the block takes it back."""
    with pytest.raises(TransactionTimeoutError):
        async with manual.transaction() as tx:
            await manual.send("orders", b"1")
            await tx.detach(timeout=0)
    await manual.begin_transaction()
    assert manual.committed == ()


async def test_closing_takes_back_what_nobody_was_handed(manual: MockProducer) -> None:
    """Also where the handle was ready, but nobody was there to get it."""
    tx = await manual.transaction().__aenter__()
    await manual.send("orders", b"1")
    detaching = asyncio.create_task(tx.detach())
    await turns()
    detaching.cancel()
    await turns()
    manual.complete_all()
    await manual.close()
    assert manual.committed == ()


async def test_a_handle_aborts(mock: MockProducer) -> None:
    """Nothing becomes visible, and it cannot be committed any more; closing the mock does not end it."""
    async with mock.transaction() as tx:
        await mock.send("orders", b"1")
        handle = await tx.detach()
    await mock.close()
    await handle.abort("localhost:9092")
    await handle.abort("localhost:9092")
    with pytest.raises(TransactionAbortedError):
        await handle.commit("localhost:9092")
    assert mock.committed == ()


async def test_init_ends_what_was_detached(mock: MockProducer) -> None:
    """The handle is refused from then on."""
    async with mock.transaction() as tx:
        await mock.send("orders", b"1")
        handle = await tx.detach()
    await mock.init_transactions()
    for end in (handle.commit, handle.abort):
        with pytest.raises(ProducerFencedError):
            await end("localhost:9092")
    assert mock.committed == ()


async def test_handles_of_nothing_and_of_nobody(mock: MockProducer) -> None:
    """An empty transaction has nothing to end; without its mock a handle says so."""
    async with mock.transaction() as tx:
        handle = await tx.detach()
    assert handle.is_empty
    await handle.commit("localhost:9092")
    stray = MockTransactionHandle("orders-7", -1, 0, 2)
    with pytest.raises(StateError, match="does not exist in this process"):
        await stray.commit("localhost:9092")


# -- looking after others


async def test_others_are_listed_and_fenced(mock: MockProducer) -> None:
    """A test tells of other transactions, and sees whom the code under test has fenced."""
    mock.set_transaction("job-1")
    mock.set_transaction("job-2", "Empty")
    found = [
        each.transactional_id for each in await mock.list_transactions("job-") if each.state == "Ongoing"
    ]
    await mock.fence(found)
    assert (found, mock.fenced) == (["job-1"], ("job-1",))
    assert [each.state for each in await mock.list_transactions("job-")] == ["Empty", "Empty"]


async def test_its_own_transaction_is_listed(mock: MockProducer) -> None:
    """With the states that a coordinator gives it."""

    async def states() -> list[str]:
        return [each.state for each in await mock.list_transactions()]

    assert await states() == []
    async with mock.transaction():
        assert await states() == ["Empty"]
        await mock.send("orders", b"1")
        assert await states() == ["Ongoing"]
    assert await states() == ["CompleteCommit"]
    await mock.begin_transaction()
    await mock.send("orders", b"2")
    await mock.abort_transaction()
    assert await states() == ["CompleteAbort"]
    await mock.fence(["orders-7"])
    with pytest.raises(ProducerFencedError):
        async with mock.transaction():
            await mock.send("orders", b"3")


async def test_committed_offsets_can_be_set() -> None:
    """For code that asks where to go on; that needs no transactional_id."""
    async with MockProducer() as mock:
        mock.set_committed_offsets("group", {PLACE: 9})
        assert await mock.committed_offsets("group", [PLACE]) == {PLACE: OffsetAndMetadata(9)}


# -- closing


async def test_closing_aborts_an_open_transaction(caplog: pytest.LogCaptureFixture) -> None:
    """What is pending fails, and nothing becomes visible."""
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


@pytest.mark.parametrize(("limit", "visible"), [(0.0, []), (5.0, [b"1"])])
async def test_closing_while_a_commit_waits(limit: float, visible: list[bytes]) -> None:
    """Given time, the commit ends; otherwise whoever waits for it is told, and nothing becomes visible."""
    mock = MockProducer(auto_complete=False, transactional_id="id")
    await mock.start()
    await mock.init_transactions()
    await mock.begin_transaction()
    await mock.send("orders", b"1")
    commit = asyncio.create_task(mock.commit_transaction())
    await turns()
    closing = asyncio.create_task(mock.close(limit))
    await asyncio.sleep(0)
    with pytest.raises(StateError, match="closing" if limit else "closed"):
        await mock.commit_transaction()
    asyncio.get_running_loop().call_later(0.01, mock.complete_all)
    if visible:
        await commit
    else:
        with pytest.raises(StateError, match=r"close\(\) ran out of time"):
            await commit
    await closing
    assert values(mock.committed) == visible


async def test_closing_refuses_who_waits_for_a_serializer() -> None:
    """A commit does not pass over a record that closing has refused."""
    gate = asyncio.Event()

    async def serialize(data: bytes) -> bytes:
        await gate.wait()
        return data

    async with MockProducer(transactional_id="id", value_serializer=serialize) as mock:
        await mock.init_transactions()
        await mock.begin_transaction()
        send = asyncio.ensure_future(mock.send("orders", b"1"))
        commit = asyncio.create_task(mock.commit_transaction())
        await turns()
    with pytest.raises(StateError, match="closed"):
        await send
    with pytest.raises(TransactionAbortedError):
        await commit
    with pytest.raises(StateError, match="closed"):
        await mock.begin_transaction()

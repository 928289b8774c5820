"""Calls of a transaction that are abandoned, get no answer in time, or are answered late."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from aioproducer import (
    AuthorizationError,
    CommitOutcomeUnknownError,
    DeliveryError,
    Outcome,
    Producer,
    ProducerFencedError,
    StateError,
    TransactionAbortedError,
    TransactionError,
    TransactionTimeoutError,
)
from aioproducer._state.transactions.parts import TransactionParts
from aioproducer._state.transactions.table import State
from aioproducer._wire.error_codes import ErrorCode
from aioproducer.testing import EmbeddedKafka, Fault
from tests.net.support import LIMIT, Make, all_acked, engine, outcomes, until
from tests.net.transactional import END_TXN, INIT_PRODUCER_ID, NAME, asked, put, seen, state, written

SOON = 0.05
REFUSALS = 9


async def left_alone(clerk: Producer[Any, Any], ledger: EmbeddedKafka) -> Fault:
    """A commit of b"a" that was done and has no waiter; its answer is in flight until it is released."""
    held = ledger.faults.delay(api=END_TXN)
    await clerk.begin_transaction()
    await put(clerk, b"a")
    committing = asyncio.create_task(clerk.commit_transaction())
    await held.reached()
    committing.cancel()
    await asyncio.wait([committing])
    return held


@pytest.mark.parametrize("had_committed", [False, True])
async def test_e01_no_answer_to_the_commit(
    clerk: Producer[Any, Any], ledger: EmbeddedKafka, *, had_committed: bool
) -> None:
    """E01: the connection ends before or after each commit: the outcome is unknown; the repeated call joins the commit."""
    fault = ledger.faults.cut(api=END_TXN, before=not had_committed, times=None)
    await clerk.begin_transaction()
    await put(clerk, b"a")
    with pytest.raises(CommitOutcomeUnknownError) as caught:
        await clerk.commit_transaction(timeout=SOON * 4)
    assert caught.value.outcome is Outcome.UNKNOWN
    for call in (clerk.begin_transaction, clerk.abort_transaction):
        with pytest.raises(StateError, match="UNCERTAIN"):
            await call()
    with pytest.raises(StateError, match="UNCERTAIN"):
        await clerk.send("one", b"b")
    fault.heal()
    await clerk.commit_transaction()
    assert seen(ledger) == [b"a"]
    async with clerk.transaction():
        await put(clerk, b"b")
    assert seen(ledger) == [b"a", b"b"]


@pytest.mark.parametrize("had_committed", [False, True])
async def test_e01_init_settles_it(
    clerk: Producer[Any, Any], ledger: EmbeddedKafka, *, had_committed: bool
) -> None:
    """E01: `init_transactions()` ends the doubt without revealing the outcome; the next transaction is not affected."""
    fault = ledger.faults.cut(api=END_TXN, before=not had_committed, times=None)
    await clerk.begin_transaction()
    await put(clerk, b"a")
    with pytest.raises(CommitOutcomeUnknownError):
        await clerk.commit_transaction(timeout=SOON * 4)
    # A busy machine may take longer than the time-out until it sends the first request, and the attempt goes on.
    await until(lambda: asked(ledger, END_TXN))
    settling = asyncio.create_task(clerk.init_transactions())
    # Not before init has sent its request, behind a commit that may still be in flight: the commit could arrive first.
    before = len(asked(ledger, END_TXN))
    await until(lambda: settling.done() or len(asked(ledger, END_TXN)) > before + 2)
    fault.heal()
    await settling
    async with clerk.transaction():
        await put(clerk, b"b")
    assert seen(ledger) == ([b"a", b"b"] if had_committed else [b"b"])


@pytest.mark.parametrize("code", [14, 15, 16])
async def test_e01_init_settles_it_with_a_coordinator_that_cannot_tell_yet(
    clerk: Producer[Any, Any], ledger: EmbeddedKafka, code: int
) -> None:
    """The state of the id is requested again when the coordinator loads or has moved; the commit stays committed."""
    held = await left_alone(clerk, ledger)
    ledger.faults.error(code, api="DescribeTransactions", times=2)
    await clerk.init_transactions()
    held.release()
    async with clerk.transaction():
        await put(clerk, b"b")
    assert seen(ledger) == [b"a", b"b"]


async def test_e01_init_does_not_settle_what_another_has_taken_over(
    clerk: Producer[Any, Any], make: Make, ledger: EmbeddedKafka
) -> None:
    """It was in fact committed; the error does not claim to know."""
    held = await left_alone(clerk, ledger)
    other = make(ledger, transactional_id=NAME)
    await other.start()
    await other.init_transactions()
    with pytest.raises(ProducerFencedError) as caught:
        await clerk.init_transactions()
    assert caught.value.outcome is Outcome.UNKNOWN
    held.release()
    assert seen(ledger) == [b"a"]


async def test_e02_an_end_without_an_answer_has_its_own_epoch(
    clerk: Producer[Any, Any], ledger: EmbeddedKafka
) -> None:
    """E02: a late EndTxn cannot hit the next transaction, which has another epoch, in either version."""
    epochs = []
    for value in (b"a", b"b"):
        ledger.faults.cut(api=END_TXN, before=True, times=1)
        async with clerk.transaction():
            await put(clerk, value)
        epochs.append({batch.producer_epoch for one in asked(ledger, "Produce") for batch in one.batches})
    assert len(epochs[1]) == 2
    assert seen(ledger) == [b"a", b"b"]


async def test_a_commit_without_trouble_keeps_the_epoch_of_version_1(
    clerk: Producer[Any, Any], ledger: EmbeddedKafka
) -> None:
    """Only version 2 changes the epoch each time, and no further request is made for that."""
    for value in (b"a", b"b", b"c"):
        async with clerk.transaction():
            await put(clerk, value)
    epochs = {batch.producer_epoch for one in asked(ledger, "Produce") for batch in one.batches}
    assert len(epochs) == (1 if asked(ledger, "AddPartitionsToTxn") else 3)
    assert len(asked(ledger, INIT_PRODUCER_ID)) == 1


async def test_e13_a_cancelled_commit_goes_on(clerk: Producer[Any, Any], ledger: EmbeddedKafka) -> None:
    """E13: the waiter is gone, the commit is not; the next call joins it, even if it has ended meanwhile."""
    for number, value in enumerate((b"a", b"b")):
        held = ledger.faults.delay(api=END_TXN)
        await clerk.begin_transaction()
        await put(clerk, value)
        waiting = asyncio.create_task(clerk.commit_transaction())
        await held.reached()
        assert len(asked(ledger, END_TXN)) == number + 1
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert state(clerk) is State.UNCERTAIN
        joining = asyncio.create_task(clerk.commit_transaction()) if value == b"a" else None
        await asyncio.sleep(0)
        held.release()
        await (joining or clerk.commit_transaction())
    assert seen(ledger) == [b"a", b"b"]
    assert len(asked(ledger, END_TXN)) == 2


async def test_e13_two_wait_for_the_same_commit(clerk: Producer[Any, Any], ledger: EmbeddedKafka) -> None:
    """E13: both get the result, and the end of one wait does not affect the other."""
    held = ledger.faults.delay(api=END_TXN)
    await clerk.begin_transaction()
    await put(clerk, b"a")
    first, second = (asyncio.create_task(clerk.commit_transaction()) for _ in range(2))
    await until(lambda: asked(ledger, END_TXN))
    first.cancel()
    await asyncio.wait([first])
    assert state(clerk) is State.COMMITTING
    held.release()
    await second
    assert state(clerk) is State.READY


async def test_e13_a_cancelled_abort_goes_on(clerk: Producer[Any, Any], ledger: EmbeddedKafka) -> None:
    """E13: the same for aborts, and the context manager waits for an abandoned one."""
    held = ledger.faults.delay(api=END_TXN)
    await clerk.begin_transaction()
    assert await all_acked(await put(clerk, b"a"))
    waiting = asyncio.create_task(clerk.abort_transaction())
    await until(lambda: asked(ledger, END_TXN))
    waiting.cancel()
    await asyncio.wait([waiting])
    with pytest.raises(StateError, match="ABORTING"):
        await clerk.begin_transaction()
    held.release()
    async with clerk.transaction():
        await put(clerk, b"b")
    assert (seen(ledger), written(ledger)) == ([b"b"], [b"a", b"b"])


async def test_e13_a_cancelled_init_goes_on(make: Make, ledger: EmbeddedKafka) -> None:
    """E13: and for the first call of all."""
    held = ledger.faults.delay(api=INIT_PRODUCER_ID)
    producer = make(ledger, transactional_id=NAME)
    await producer.start()
    waiting = asyncio.create_task(producer.init_transactions())
    await until(lambda: asked(ledger, INIT_PRODUCER_ID))
    waiting.cancel()
    await asyncio.wait([waiting])
    held.release()
    await producer.init_transactions()
    assert len(asked(ledger, INIT_PRODUCER_ID)) == 1
    async with producer.transaction():
        await put(producer, b"a")
    assert seen(ledger) == [b"a"]


async def test_a_cancelled_block_aborts(clerk: Producer[Any, Any], ledger: EmbeddedKafka) -> None:
    """The task ends as cancelled when the transaction has been aborted."""
    inside = asyncio.Event()

    async def work() -> None:
        async with clerk.transaction():
            await put(clerk, b"a")
            await clerk.flush()
            inside.set()
            await asyncio.Event().wait()

    task = asyncio.create_task(work())
    await inside.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert state(clerk) is State.READY
    assert (seen(ledger), written(ledger)) == ([], [b"a"])


@pytest.mark.parametrize("call", ["init_transactions", "abort_transaction"])
async def test_a_call_that_takes_too_long(
    clerk: Producer[Any, Any], ledger: EmbeddedKafka, call: str
) -> None:
    """The operation is not over: the same call again joins it."""
    api = INIT_PRODUCER_ID if call == "init_transactions" else END_TXN
    held = ledger.faults.delay(api=api)
    if call == "abort_transaction":
        await clerk.begin_transaction()
        assert await all_acked(await put(clerk, b"a"))
    with pytest.raises(TransactionTimeoutError, match="joins"):
        await getattr(clerk, call)(timeout=SOON)
    held.release()
    await getattr(clerk, call)()
    assert state(clerk) is State.READY


async def test_init_in_place_of_an_abort_without_an_answer(
    clerk: Producer[Any, Any], ledger: EmbeddedKafka
) -> None:
    """It ends the transaction as well, and calls that wait for the abort get the result."""
    held = ledger.faults.delay(api=END_TXN)
    await clerk.begin_transaction()
    assert await all_acked(await put(clerk, b"a"))
    waiting = asyncio.create_task(clerk.abort_transaction())
    await until(lambda: asked(ledger, END_TXN))
    await clerk.init_transactions()
    with pytest.raises(StateError, match="init_transactions"):
        await waiting
    held.release()
    async with clerk.transaction():
        await put(clerk, b"b")
    assert seen(ledger) == [b"b"]


@pytest.mark.parametrize("code", [14, 15, 16, 51])
@pytest.mark.parametrize(
    "api",
    [
        "FindCoordinator",
        INIT_PRODUCER_ID,
        "AddPartitionsToTxn",
        "AddOffsetsToTxn",
        "TxnOffsetCommit",
        END_TXN,
    ],
)
async def test_e03_e04_it_is_asked_again(make: Make, ledger: EmbeddedKafka, api: str, code: int) -> None:
    """E03, E04: a coordinator that loads, moves or is still busy is asked again, for every request."""
    ledger.faults.error(code, api=api, times=3)
    producer = make(ledger, transactional_id=NAME)
    await producer.start()
    async with producer.transaction(timeout=LIMIT) as tx:
        await put(producer, b"a")
        tx.send_offsets({("source", 0): 4}, "readers")
    assert seen(ledger) == [b"a"]
    assert ledger.committed_offset("readers", "source") == 4


async def test_e03_a_leader_that_waits_for_the_transaction_before(
    clerk: Producer[Any, Any], ledger: EmbeddedKafka
) -> None:
    """E03: CONCURRENT_TRANSACTIONS to a Produce request is no failure of the transaction."""
    ledger.faults.error(51, api="Produce", times=4)
    async with clerk.transaction():
        await put(clerk, b"a")
    assert seen(ledger) == [b"a"]


@pytest.mark.parametrize("code", [48, 49, 52])
async def test_e04_e05_what_no_coordinator_says_to_a_sound_producer_ends_it(
    clerk: Producer[Any, Any], ledger: EmbeddedKafka, code: int
) -> None:
    """E04, E05: the error has the answer, nothing is visible, and each later call raises it."""
    ledger.faults.error(code, api=END_TXN, times=1)
    with pytest.raises(TransactionError, match=f"error {code}"):
        async with clerk.transaction():
            await put(clerk, b"a")
    with pytest.raises(TransactionError, match=f"error {code}"):
        await clerk.begin_transaction()
    assert seen(ledger) == []


@pytest.mark.parametrize(
    "api", ["Produce", "AddPartitionsToTxn", "AddOffsetsToTxn", "TxnOffsetCommit", END_TXN]
)
async def test_e05_what_can_only_be_aborted_is(
    clerk: Producer[Any, Any], ledger: EmbeddedKafka, api: str
) -> None:
    """E05: TRANSACTION_ABORTABLE, from any broker: the transaction is aborted, and the next one works."""
    ledger.faults.error(120, api=api, times=1)
    await clerk.run_transaction(_both, clerk, timeout=LIMIT)
    attempts = len(asked(ledger, api))
    assert attempts == 0 or attempts > 1
    assert seen(ledger) == [b"a"]
    assert ledger.committed_offset("readers", "source") == 4


async def _both(clerk: Producer[Any, Any]) -> None:
    await put(clerk, b"a")
    await clerk.send_offsets_to_transaction({("source", 0): 4}, "readers")


async def test_e14_a_partition_that_may_not_be_written_to(
    clerk: Producer[Any, Any], ledger: EmbeddedKafka
) -> None:
    """E14: one of many is denied: the transaction is aborted with all, and the next, without it, works."""
    for api in ("AddPartitionsToTxn", "Produce"):
        ledger.faults.error(29, api=api, times=1)
    with pytest.raises(TransactionAbortedError, match="TOPIC_AUTHORIZATION_FAILED") as caught:
        async with clerk.transaction():
            for partition in range(4):
                await put(clerk, b"a", partition=partition, topic="four")
    assert not caught.value.retriable
    ledger.faults.heal()
    async with clerk.transaction():
        await put(clerk, b"b")
    assert (seen(ledger, topic="four"), seen(ledger)) == ([], [b"b"])


@pytest.mark.parametrize("api", [INIT_PRODUCER_ID, "AddPartitionsToTxn", "TxnOffsetCommit", END_TXN])
@pytest.mark.parametrize("cut", [False, True])
async def test_d15_the_coordinators_move_at_each_step(
    make: Make, ledger: EmbeddedKafka, api: str, *, cut: bool
) -> None:
    """D15: transactional and group coordinator have moved when a request comes, with or without an answer that says so."""
    producer = make(ledger, transactional_id=NAME)
    await producer.start()
    async with producer.transaction():
        await put(producer, b"warm")
    for key in (NAME, "readers"):
        ledger.faults.move_coordinator(key, 1 + ledger.coordinator_of(key) % 3)
    if cut:
        ledger.faults.cut(api=api, times=1)
    async with producer.transaction(timeout=LIMIT) as tx:
        await put(producer, b"a")
        tx.send_offsets({("source", 0): 4}, "readers")
    assert seen(ledger) == [b"warm", b"a"]


async def test_a_commit_by_hand_without_an_answer_leaves_the_block_as_it_is(
    clerk: Producer[Any, Any], ledger: EmbeddedKafka
) -> None:
    """The block cannot abort any more, and its caller gets no error about that."""
    fault = ledger.faults.cut(api=END_TXN, before=True, times=None)
    with pytest.raises(CommitOutcomeUnknownError):
        async with clerk.transaction():
            await put(clerk, b"a")
            await clerk.commit_transaction(timeout=SOON * 4)
    fault.heal()
    await clerk.commit_transaction()
    assert seen(ledger) == [b"a"]


async def test_closing_aborts_what_a_commit_turns_out_to_be_unable_to_commit(
    clerk: Producer[Any, Any], ledger: EmbeddedKafka
) -> None:
    """A record fails while `close()` waits for the commit: readers do not have to wait until its time is over."""
    await clerk.begin_transaction()
    assert await all_acked(await put(clerk, b"a", topic="four"))
    held = ledger.faults.delay(api="Produce", before=True, times=1)
    ledger.faults.error(29, api="Produce", times=1)
    await put(clerk, b"b")
    committing = asyncio.create_task(clerk.commit_transaction())
    await held.reached()
    closing = asyncio.create_task(clerk.close())
    await asyncio.sleep(0)
    held.release()
    with pytest.raises(TransactionAbortedError):
        await committing
    await closing
    assert ledger.last_stable_offset("four", 0) == ledger.high_watermark("four", 0)


async def test_closing_does_not_wait_for_the_first_producer_id(make: Make) -> None:
    """With all brokers down there is no producer id; no open transaction needs one."""
    producer = make("127.0.0.1:1", transactional_id=NAME, close_timeout_ms=60_000)
    await producer.start()
    with pytest.raises(TransactionTimeoutError):
        await producer.init_transactions(timeout=SOON)
    async with asyncio.timeout(LIMIT / 2):
        await producer.close()


async def test_a_failure_behind_the_commit_aborts(clerk: Producer[Any, Any], ledger: EmbeddedKafka) -> None:
    """A commit that waits for a record is refused when the record fails, while its caller waits."""
    held = ledger.faults.delay(api="Produce", before=True, times=1)
    ledger.faults.error(29, api="Produce", times=1)
    await clerk.begin_transaction()
    await put(clerk, b"a")
    waiting = asyncio.create_task(clerk.commit_transaction())
    await until(lambda: asked(ledger, "Produce"))
    held.release()
    with pytest.raises(TransactionAbortedError):
        await waiting
    assert state(clerk) is State.ABORTABLE
    await clerk.abort_transaction()
    assert asked(ledger, END_TXN) == [] or seen(ledger) == []


async def test_a_commit_succeeds_though_the_producer_may_not_go_on(
    clerk: Producer[Any, Any], ledger: EmbeddedKafka
) -> None:
    """After a lost answer, version 1 requests a new epoch: its refusal is not a refusal of the commit."""
    ledger.faults.cut(api=END_TXN, before=False, times=1)
    ledger.faults.error(53, api=INIT_PRODUCER_ID, times=1)
    async with clerk.transaction():
        await put(clerk, b"a")
    assert seen(ledger) == [b"a"]
    if asked(ledger, "AddPartitionsToTxn"):
        with pytest.raises(AuthorizationError):
            await clerk.begin_transaction()


async def test_a_commit_succeeds_though_no_epoch_can_be_requested_after_it(
    clerk: Producer[Any, Any], ledger: EmbeddedKafka
) -> None:
    """After a lost answer, version 1 requests a new epoch: a coordinator without that request has committed all the same."""
    await clerk.begin_transaction()
    assert await all_acked(await put(clerk, b"a"))
    ledger.faults.cut(api=END_TXN, before=False, times=1)
    ledger.faults.alter(
        lambda answer: answer._replace(api_keys=[one for one in answer.api_keys if one.api_key != 22]),
        api="ApiVersions",
        times=None,
    )
    await clerk.commit_transaction()
    assert seen(ledger) == [b"a"]
    if asked(ledger, "AddPartitionsToTxn"):
        with pytest.raises(TransactionError, match="lack an API version"):
            await clerk.begin_transaction()


async def test_a_commit_that_close_cuts_short_is_in_doubt(
    clerk: Producer[Any, Any], ledger: EmbeddedKafka
) -> None:
    """The commit was requested, so no error may state that nothing was written; one that still waits for records was not."""
    held = ledger.faults.delay(api=END_TXN, before=False)
    await clerk.begin_transaction()
    await put(clerk, b"a")
    committing = asyncio.create_task(clerk.commit_transaction())
    await held.reached()
    await clerk.close(timeout=SOON)
    with pytest.raises(CommitOutcomeUnknownError) as caught:
        await committing
    assert caught.value.outcome is Outcome.UNKNOWN
    assert isinstance(caught.value.cause, StateError)
    held.release()
    assert seen(ledger) == [b"a"]


async def test_a_commit_that_close_keeps_from_being_asked_for_is_not(
    clerk: Producer[Any, Any], ledger: EmbeddedKafka
) -> None:
    """It still waited for a record: nothing is committed."""
    held = ledger.faults.delay(api="Produce", before=True)
    await clerk.begin_transaction()
    await put(clerk, b"a")
    committing = asyncio.create_task(clerk.commit_transaction())
    await held.reached()
    await clerk.close(timeout=SOON)
    with pytest.raises(StateError, match="ran out of time"):
        await committing
    held.release()
    assert seen(ledger) == []


async def test_init_that_can_only_be_aborted_may_be_asked_again(make: Make, ledger: EmbeddedKafka) -> None:
    """E05: TRANSACTION_ABORTABLE without a transaction to abort: the producer lives, and asks again at the next call."""
    clerk = make(ledger, transactional_id=NAME)
    await clerk.start()
    ledger.faults.error(120, api=INIT_PRODUCER_ID, times=1)
    with pytest.raises(TransactionError, match="TRANSACTION_ABORTABLE"):
        await clerk.init_transactions()
    await clerk.init_transactions()
    await clerk.begin_transaction()
    assert await all_acked(await put(clerk, b"a"))
    await clerk.commit_transaction()
    assert seen(ledger) == [b"a"]


async def test_an_abort_without_a_new_epoch_does_not_succeed(
    clerk: Producer[Any, Any], ledger: EmbeddedKafka
) -> None:
    """The broker has forgotten the producer, and gives no new epoch either: the written records are still open."""
    await clerk.begin_transaction()
    assert await all_acked(await put(clerk, b"a"))
    ledger.faults.error(59, api=END_TXN, times=None)
    ledger.faults.error(120, api=INIT_PRODUCER_ID, times=1)
    with pytest.raises(TransactionError, match="TRANSACTION_ABORTABLE"):
        await clerk.abort_transaction()


# -- late arrivals of a former transaction


async def test_e09_an_abort_of_what_is_in_doubt_takes_a_new_epoch(make: Make, ledger: EmbeddedKafka) -> None:
    """E09: a record is in flight, at an unknown point: a late arrival of it would be refused."""
    clerk = make(ledger, transactional_id=NAME, request_timeout_ms=100, delivery_timeout_ms=60_000)
    await clerk.start()
    await clerk.init_transactions()
    _, epoch = engine(clerk).sequences.identity or (-1, -1)
    ledger.faults.silence(api="Produce", times=1)
    await clerk.begin_transaction()
    deliveries = await put(clerk, b"perhaps")
    await until(lambda: asked(ledger, "Produce"))
    await clerk.abort_transaction()
    assert await outcomes(deliveries) == [Outcome.UNKNOWN]
    error = deliveries[0].exception()
    assert isinstance(error, DeliveryError)
    assert isinstance(error.cause, TransactionAbortedError)
    async with clerk.transaction():
        await put(clerk, b"b")
    (batch,) = [batch for one in asked(ledger, "Produce") for batch in one.batches]
    assert (batch.producer_epoch > epoch, batch.base_sequence) == (True, 0)
    assert seen(ledger) == [b"b"]


async def test_e09_a_retry_is_given_up(make: Make, ledger: EmbeddedKafka) -> None:
    """E09: records that wait to be sent again end with the abort, and the sequence numbers after them are used."""
    clerk = make(ledger, transactional_id=NAME, retry_backoff_ms=60_000, retry_backoff_max_ms=60_000)
    await clerk.start()
    await clerk.init_transactions()
    ledger.faults.error(7, api="Produce", append=False, times=1)
    await clerk.begin_transaction()
    deliveries = await put(clerk, b"a")
    await until(lambda: clerk.stats().records_retried)
    deliveries += await put(clerk, b"b")
    await clerk.abort_transaction()
    assert await outcomes(deliveries) == [Outcome.UNKNOWN, Outcome.NOT_WRITTEN]
    async with clerk.transaction():
        await put(clerk, b"c", b"d")
    assert seen(ledger) == [b"c", b"d"]


async def test_a_broken_sequence_is_not_mended_inside(
    clerk: Producer[Any, Any], ledger: EmbeddedKafka
) -> None:
    """A leader that expects another number fails the transaction: only the coordinator gives epochs."""
    ledger.faults.error(45, api="Produce", times=1)
    await clerk.begin_transaction()
    deliveries = await put(clerk, b"a")
    assert await outcomes(deliveries) == [Outcome.NOT_WRITTEN]
    with pytest.raises(TransactionAbortedError):
        await clerk.commit_transaction()
    await clerk.abort_transaction()
    async with clerk.transaction():
        await put(clerk, b"b")
    assert seen(ledger) == [b"b"]


async def test_offsets_without_an_answer_do_not_hold_up_the_abort(
    clerk: Producer[Any, Any], ledger: EmbeddedKafka
) -> None:
    """A missing topic is requested again and again; the abort does not wait for that."""
    await clerk.begin_transaction()
    waiting = asyncio.create_task(clerk.send_offsets_to_transaction({("nowhere", 0): 1}, "readers"))
    await until(lambda: len(asked(ledger, "TxnOffsetCommit")) > 1)
    await clerk.abort_transaction()
    with pytest.raises(StateError, match="abort_transaction"):
        await waiting
    async with clerk.transaction():
        await put(clerk, b"a")
    assert seen(ledger) == [b"a"]


@pytest.mark.parametrize("which", ["aioproducer transactions", "aioproducer commit_transaction()"])
async def test_f05_a_commit_whose_task_is_cancelled_is_of_unknown_outcome(
    clerk: Producer[Any, Any], ledger: EmbeddedKafka, which: str
) -> None:
    """F05: the coordinator has committed it, and the answer finds no producer."""
    await clerk.begin_transaction()
    assert await all_acked(await put(clerk, b"a"))
    held = ledger.faults.delay(api=END_TXN, before=False)
    commit = asyncio.create_task(clerk.commit_transaction())
    await held.reached()
    next(task for task in asyncio.all_tasks() if task.get_name() == which).cancel()
    with pytest.raises(CommitOutcomeUnknownError):
        await commit
    held.release()
    assert seen(ledger) == [b"a"]


async def test_init_that_close_cuts_short_leaves_the_commit_in_doubt(
    clerk: Producer[Any, Any], ledger: EmbeddedKafka
) -> None:
    """The call replaced a commit without an answer: it cannot state that nothing was written either."""
    held = await left_alone(clerk, ledger)
    # On level 2 the call settles it with an EndTxn of its own.
    current = engine(clerk).machines.transaction
    assert current is not None
    asking = ledger.faults.delay(api=INIT_PRODUCER_ID if current.parts.level == 1 else END_TXN, before=True)
    settling = asyncio.create_task(clerk.init_transactions())
    await asking.reached()
    await clerk.close(timeout=SOON)
    with pytest.raises(TransactionError) as caught:
        await settling
    assert caught.value.outcome is Outcome.UNKNOWN
    held.release()
    asking.release()
    assert seen(ledger) == [b"a"]


async def test_a_commit_waits_for_the_report_of_a_lost_record(
    clerk: Producer[Any, Any], ledger: EmbeddedKafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There is no memory to report the loss: the transaction is not committed without the record."""
    transactions = engine(clerk).transactions
    assert transactions is not None
    # Each turn of the loop tries again: more turns than a commit needs.
    on_lost, refusals = transactions.on_lost, [MemoryError()] * 50

    def losing(error: BaseException) -> None:
        if refusals:
            raise refusals.pop()
        on_lost(error)  # type: ignore[arg-type]  # the dispatcher passes what it got

    monkeypatch.setattr(transactions, "on_lost", losing)
    ledger.faults.error(ErrorCode.INVALID_RECORD, api="Produce")
    await clerk.begin_transaction()
    (delivery,) = await put(clerk, b"a")
    assert await delivery.wait(LIMIT) is Outcome.NOT_WRITTEN
    with pytest.raises(TransactionAbortedError):
        await clerk.commit_transaction()
    assert seen(ledger) == []


# -- a commit that was refused by every answer


async def refused(clerk: Producer[Any, Any], ledger: EmbeddedKafka) -> tuple[asyncio.Task[None], Fault]:
    """A commit of b"a" that waits after a refusal, which proves that nothing was committed."""
    refusing = ledger.faults.error("CONCURRENT_TRANSACTIONS", api=END_TXN, times=None)
    await clerk.begin_transaction()
    await put(clerk, b"a")
    committing = asyncio.create_task(clerk.commit_transaction())
    # The pauses between attempts double: this one is long enough for the rest of the test.
    await until(lambda: refusing.hits >= REFUSALS and not _parts(clerk).end_in_doubt)
    return committing, refusing


async def test_a_commit_that_was_always_refused_is_not_written_when_the_producer_closes(
    clerk: Producer[Any, Any], ledger: EmbeddedKafka
) -> None:
    """The refusals prove that nothing is committed, so the outcome is not unknown."""
    committing, _ = await refused(clerk, ledger)
    await clerk.close(timeout=0)
    with pytest.raises(StateError) as caught:
        await committing
    assert caught.value.outcome is Outcome.NOT_WRITTEN
    assert not clerk.stats().transactions.unknown
    assert seen(ledger) == []


async def test_a_commit_that_was_always_refused_is_not_written_when_another_producer_takes_over(
    make: Make, clerk: Producer[Any, Any], ledger: EmbeddedKafka
) -> None:
    """The caller of the commit has left; `init_transactions()` reports the takeover, and that nothing was committed."""
    committing, refusing = await refused(clerk, ledger)
    committing.cancel()
    await asyncio.wait([committing])
    refusing.heal()
    successor = make(ledger, transactional_id=NAME)
    await successor.start()
    await successor.init_transactions()
    with pytest.raises(ProducerFencedError) as caught:
        await clerk.init_transactions()
    assert caught.value.outcome is Outcome.NOT_WRITTEN
    assert seen(ledger) == []


def _parts(clerk: Producer[Any, Any]) -> TransactionParts:
    transactions = engine(clerk).transactions
    assert transactions is not None
    return transactions.parts

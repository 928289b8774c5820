"""Transactions with a foreign end: fenced by a successor, timed out by the coordinator, handed to another process."""

from __future__ import annotations

import asyncio
import contextlib
import pickle
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from aioproducer import (
    AuthorizationError,
    BrokerUnavailableError,
    CommitOutcomeUnknownError,
    Outcome,
    Producer,
    ProducerFencedError,
    StateError,
    TransactionAbortedError,
    TransactionError,
    TransactionHandle,
    TransactionTimeoutError,
    committed_offsets,
    fence,
    list_transactions,
)
from aioproducer.testing import EmbeddedKafka
from tests.net.support import LIMIT, Make, all_acked, engine, outcomes, turns, until
from tests.net.transactional import END_TXN, NAME, asked, ended_by_time, put, seen, written

NOWHERE = "127.0.0.1:1"
ONE_TRY = 0.5
"""Seconds in which a call has been refused at least once, even on a busy machine."""


async def successor(make: Make, ledger: EmbeddedKafka) -> Producer[Any, Any]:
    """Another producer of the same name, which has taken over."""
    other = make(ledger, transactional_id=NAME)
    await other.start()
    await other.init_transactions()
    return other


@pytest.mark.parametrize("moment", ["before", "sent", "acked", "offsets"])
@pytest.mark.parametrize("end", ["commit_transaction", "abort_transaction"])
async def test_e07_a_fenced_producer_writes_nothing(
    clerk: Producer[Any, Any], make: Make, ledger: EmbeddedKafka, moment: str, end: str
) -> None:
    """E07: after the takeover, every call of the first producer fails, with that reason."""
    await clerk.begin_transaction()
    deliveries = await put(clerk, b"zombie") if moment in ("sent", "acked") else []
    if moment == "acked":
        assert await all_acked(deliveries)
    if moment == "offsets":
        await clerk.send_offsets_to_transaction({("source", 0): 1}, "readers")
    other = await successor(make, ledger)
    if moment in ("before", "sent"):
        with contextlib.suppress(ProducerFencedError):
            deliveries += await put(clerk, b"late")
    if not (moment == "before" and end == "abort_transaction"):
        with pytest.raises((ProducerFencedError, TransactionAbortedError)):
            await getattr(clerk, end)()
        with pytest.raises(ProducerFencedError):
            while True:
                await clerk.abort_transaction()
    assert Outcome.PENDING not in await outcomes(deliveries)
    async with other.transaction():
        await put(other, b"mine")
    assert seen(ledger) == [b"mine"]
    assert ledger.committed_offset("readers", "source") is None


async def test_e07_every_later_call_says_so(
    clerk: Producer[Any, Any], make: Make, ledger: EmbeddedKafka
) -> None:
    """E07: each call raises its own error, with the cause; closing works."""
    await clerk.begin_transaction()
    assert await all_acked(await put(clerk, b"a"))
    await successor(make, ledger)
    with pytest.raises(ProducerFencedError):
        await clerk.commit_transaction()
    caught = []
    for call in (
        clerk.begin_transaction, clerk.commit_transaction, clerk.abort_transaction, clerk.init_transactions, clerk.flush,
    ):  # fmt: skip
        with pytest.raises(ProducerFencedError) as one:
            await call()
        caught.append(one.value)
    with pytest.raises(ProducerFencedError):
        await clerk.send("one", b"b")
    assert len(set(map(id, caught))) == len(caught)
    assert await clerk.close() is not None


async def test_an_id_that_is_named_is_taken_from_its_owner(
    clerk: Producer[Any, Any], make: Make, ledger: EmbeddedKafka
) -> None:
    """A named call takes the id from a successor too, and fences it; an unnamed one reports that there is a successor."""
    async with clerk.transaction():
        await put(clerk, b"a")
    other = await successor(make, ledger)
    async with other.transaction():
        await put(other, b"b")
    await clerk.init_transactions(NAME)
    async with clerk.transaction():
        await put(clerk, b"c")
    assert seen(ledger) == [b"a", b"b", b"c"]
    with pytest.raises(ProducerFencedError):
        await other.init_transactions()


async def test_e06_its_time_is_over(make: Make, ledger: EmbeddedKafka) -> None:
    """E06: the coordinator aborts it; the commit has the reason, nothing is visible, and the next transaction works."""
    clerk = make(ledger, transactional_id=NAME)
    await clerk.start()
    await clerk.init_transactions()
    for value in (b"a", b"b"):
        await clerk.begin_transaction()
        assert await all_acked(await put(clerk, value))
        await ended_by_time(ledger)
        with pytest.raises(TransactionAbortedError, match=r"coordinator aborted|transaction_timeout_ms"):
            await clerk.commit_transaction()
        await clerk.abort_transaction()
    async with clerk.transaction():
        await put(clerk, b"c")
    assert (seen(ledger), written(ledger)) == ([b"c"], [b"a", b"b", b"c"])


async def test_e06_its_time_is_over_and_no_record_was_acknowledged(
    clerk: Producer[Any, Any], ledger: EmbeddedKafka
) -> None:
    """Its records were written and each answer was lost: the leader's later refusal is no sign of another producer."""
    lost = ledger.faults.cut(api="Produce", times=None)
    with pytest.raises(TransactionAbortedError):
        async with clerk.transaction():
            (late,) = await put(clerk, b"a")
            await lost.reached()
            await ended_by_time(ledger)
            ledger.faults.heal()
            assert await late.wait(LIMIT) in {Outcome.NOT_WRITTEN, Outcome.UNKNOWN}
    async with clerk.transaction(timeout=LIMIT):
        await put(clerk, b"b")
    assert seen(ledger) == [b"b"]


async def test_another_took_over_before_any_record_was_acknowledged(
    clerk: Producer[Any, Any], make: Make, ledger: EmbeddedKafka
) -> None:
    """Where the records may have opened the transaction, a successor's transactions are not taken for its end."""
    lost = ledger.faults.cut(api="Produce", before=True, times=None)
    await clerk.begin_transaction()
    (late,) = await put(clerk, b"a")
    await lost.reached()
    other = await successor(make, ledger)
    ledger.faults.heal()
    for _ in range(2):
        with pytest.raises(_UnwantedError):
            async with other.transaction():
                assert await all_acked(await put(other, b"b"))
                raise _UnwantedError
    assert await late.wait(LIMIT) is not Outcome.ACKED
    with pytest.raises(ProducerFencedError):
        await clerk.commit_transaction()
    async with other.transaction():
        await put(other, b"c")
    assert seen(ledger) == [b"c"]


class _UnwantedError(Exception):
    """The program gives up the transaction."""


async def test_e06_its_time_is_over_while_it_sends(make: Make, ledger: EmbeddedKafka) -> None:
    """E06: later records fail, and the transaction with them; nothing else is lost."""
    clerk = make(ledger, transactional_id=NAME)
    await clerk.start()
    with pytest.raises(TransactionAbortedError):
        async with clerk.transaction():
            assert await all_acked(await put(clerk, b"a", topic="four"))
            await ended_by_time(ledger)
            # The leader of one record refuses it, and the coordinator the others, in either order.
            for partition in range(4):
                await put(clerk, b"b", partition=partition, topic="four")
    async with clerk.transaction(timeout=LIMIT):
        await put(clerk, b"c", topic="four")
    assert seen(ledger, topic="four") == [b"c"]


async def test_e06_a_leader_and_the_coordinator_say_so(make: Make, ledger: EmbeddedKafka) -> None:
    """A leader's refusal is no sign of another producer when the coordinator has answered that its time was over."""
    clerk = make(ledger, transactional_id=NAME)
    await clerk.start()
    with pytest.raises(TransactionAbortedError):
        async with clerk.transaction():
            assert await all_acked(await put(clerk, b"a", topic="four"))
            await ended_by_time(ledger)
            with ledger.faults.delay(api="AddPartitionsToTxn"):
                await put(clerk, b"b", partition=1, topic="four")
                (late,) = await put(clerk, b"b", topic="four")
            assert await late.wait(LIMIT) is Outcome.NOT_WRITTEN
            await until(lambda: not _suspects(clerk))
    async with clerk.transaction(timeout=LIMIT):
        await put(clerk, b"c", topic="four")
    assert seen(ledger, topic="four") == [b"c"]


@pytest.mark.parametrize("code", ["INVALID_TXN_STATE", "INVALID_PRODUCER_EPOCH", "PRODUCER_FENCED"])
async def test_a_leader_refuses_although_no_other_producer_has_taken_over(
    clerk: Producer[Any, Any], ledger: EmbeddedKafka, code: str
) -> None:
    """C13: the coordinator names this producer as the newest, so that only the transaction fails."""
    ledger.faults.error(code, api="Produce", topic="four")
    with pytest.raises(TransactionAbortedError, match="no other producer has taken over") as caught:
        async with clerk.transaction():
            assert await all_acked(await put(clerk, b"a"))
            (refused,) = await put(clerk, b"b", topic="four")
    assert caught.value.retriable
    assert await refused.wait(LIMIT) is Outcome.NOT_WRITTEN
    async with clerk.transaction(timeout=LIMIT):
        await put(clerk, b"c")
    assert seen(ledger) == [b"c"]


@pytest.mark.parametrize("code", ["INVALID_TXN_STATE", "INVALID_PRODUCER_EPOCH", "PRODUCER_FENCED"])
async def test_a_group_refuses_although_no_other_producer_has_taken_over(
    clerk: Producer[Any, Any], ledger: EmbeddedKafka, code: str
) -> None:
    """Its coordinator is the leader of a partition, and makes the same checks. The next transaction has another epoch."""
    ledger.faults.error(code, api="TxnOffsetCommit")
    transactions = engine(clerk).transactions
    assert transactions is not None
    before = transactions.current.identity
    with pytest.raises(TransactionAbortedError, match="no other producer has taken over") as caught:
        async with clerk.transaction() as tx:
            tx.send_offsets({("source", 0): 5}, "readers")
            await put(clerk, b"a")
    assert caught.value.retriable
    assert transactions.current.identity > before
    async with clerk.transaction(timeout=LIMIT) as tx:
        tx.send_offsets({("source", 0): 6}, "readers")
        await put(clerk, b"b")
    assert (seen(ledger), ledger.committed_offset("readers", "source")) == ([b"b"], 6)


async def test_a_leader_refuses_before_another_producer_takes_over(
    clerk: Producer[Any, Any], make: Make, ledger: EmbeddedKafka
) -> None:
    """The abort that follows learns of the other producer, and does not end its transaction."""
    ledger.faults.error("INVALID_TXN_STATE", api="Produce")
    await clerk.begin_transaction()
    (refused,) = await put(clerk, b"a")
    assert await refused.wait(LIMIT) is Outcome.NOT_WRITTEN
    await until(lambda: not _suspects(clerk))
    other = await successor(make, ledger)
    async with other.transaction():
        await put(other, b"b")
        with pytest.raises(ProducerFencedError):
            await clerk.abort_transaction()
    assert seen(ledger) == [b"b"]


def _suspects(producer: Producer[Any, Any]) -> bool:
    """Whether the check for the cause of a leader's refusal is due or in progress."""
    transactions = engine(producer).transactions
    assert transactions is not None
    return transactions.current.must_ask_why or transactions.steps.is_asking


async def test_e06_its_time_is_over_and_an_answer_is_lost(
    make: Make, ledger: EmbeddedKafka, renewing: str
) -> None:
    """On level 2 the epochs prove that nothing was committed; on level 1 they do not, and it may be fencing."""
    clerk = await _out_of_time(make, ledger)
    ledger.faults.cut(api="EndTxn", before=True, times=1)
    with pytest.raises(TransactionAbortedError if renewing == END_TXN else ProducerFencedError):
        await clerk.commit_transaction()
    if renewing == END_TXN:
        await clerk.abort_transaction()
        async with clerk.transaction():
            await put(clerk, b"b")
        assert seen(ledger) == [b"b"]


@pytest.mark.parametrize("then", ["abort_transaction", "init_transactions"])
async def test_a_new_epoch_on_its_way_is_waited_for(
    make: Make, ledger: EmbeddedKafka, renewing: str, then: str
) -> None:
    """A check for the cause of a refusal requests the next epoch: later calls continue with that one."""
    clerk = await _out_of_time(make, ledger)
    held = ledger.faults.delay(api=renewing)
    await put(clerk, b"b")
    await held.reached()
    going_on = asyncio.create_task(getattr(clerk, then)())
    await turns()
    held.release()
    await going_on
    async with clerk.transaction(timeout=LIMIT):
        await put(clerk, b"c")
    assert seen(ledger) == [b"c"]


async def test_a_new_epoch_that_a_commit_asked_for_is_waited_for(
    make: Make, ledger: EmbeddedKafka, renewing: str
) -> None:
    """init_transactions() replaces a commit whose time was over, and continues with the epoch that the commit requested."""
    clerk = await _out_of_time(make, ledger)
    held = ledger.faults.delay(api=renewing, skip=1 if renewing == END_TXN else 0)
    committing = asyncio.create_task(clerk.commit_transaction())
    await held.reached()
    committing.cancel()
    await asyncio.wait([committing])
    initializing = asyncio.create_task(clerk.init_transactions())
    await turns()
    held.release()
    await initializing
    async with clerk.transaction(timeout=LIMIT):
        await put(clerk, b"b")
    assert seen(ledger) == [b"b"]


async def test_a_new_epoch_that_never_comes_holds_up_no_close(
    make: Make, ledger: EmbeddedKafka, renewing: str
) -> None:
    """The request is repeated until the producer ends, and no longer."""
    clerk = await _out_of_time(make, ledger)
    held = ledger.faults.delay(api=renewing)
    await put(clerk, b"b")
    await held.reached()
    await clerk.close(timeout=0)
    assert not [task for task in asyncio.all_tasks() if task.get_name().startswith("aioproducer")]


async def _out_of_time(make: Make, ledger: EmbeddedKafka) -> Producer[Any, Any]:
    """A producer with an open transaction whose time was over, unknown to the producer."""
    clerk = make(ledger, transactional_id=NAME)
    await clerk.start()
    await clerk.init_transactions()
    await clerk.begin_transaction()
    assert await all_acked(await put(clerk, b"a"))
    await ended_by_time(ledger)
    return clerk


# -- handles


@pytest.mark.parametrize("commits", [True, False])
async def test_a_handle_ends_the_transaction_elsewhere(
    clerk: Producer[Any, Any], ledger: EmbeddedKafka, *, commits: bool
) -> None:
    """It may be pickled, can be repeated without harm, and the producer continues after `init_transactions()`."""
    async with clerk.transaction() as tx:
        await put(clerk, b"a")
        tx.send_offsets({("source", 0): 3}, "readers")
        handle = await tx.detach()
    copy: TransactionHandle = pickle.loads(pickle.dumps(handle))
    assert (copy, handle.is_empty) == (handle, False)
    with pytest.raises(StateError, match="DETACHED"):
        await clerk.begin_transaction()
    for _ in range(2):
        await (copy.commit if commits else copy.abort)(ledger.bootstrap_servers)
    assert seen(ledger) == ([b"a"] if commits else [])
    assert ledger.committed_offset("readers", "source") == (3 if commits else None)
    await clerk.init_transactions()
    async with clerk.transaction():
        await put(clerk, b"b")
    assert seen(ledger)[-1] == b"b"


async def test_closing_leaves_a_detached_transaction_open(
    clerk: Producer[Any, Any], ledger: EmbeddedKafka
) -> None:
    """It belongs to the owner of the handle."""
    async with clerk.transaction() as tx:
        await put(clerk, b"a")
        handle = await tx.detach()
    await clerk.close()
    assert seen(ledger) == []
    await handle.commit(ledger.bootstrap_servers)
    assert seen(ledger) == [b"a"]


async def test_a_handle_of_nothing(clerk: Producer[Any, Any], ledger: EmbeddedKafka) -> None:
    """There is nothing to end, and no request is sent."""
    async with clerk.transaction() as tx:
        handle = await tx.detach()
    assert handle.is_empty
    await handle.commit(ledger.bootstrap_servers)
    await handle.abort("127.0.0.1:1")
    assert asked(ledger, "EndTxn") == []


async def test_the_handle_of_a_failed_transaction_is_not_given(
    clerk: Producer[Any, Any], ledger: EmbeddedKafka
) -> None:
    """Like a commit, it is refused when a record failed."""
    ledger.faults.error(29, api="Produce", times=1)
    with pytest.raises(TransactionAbortedError):
        async with clerk.transaction() as tx:
            await put(clerk, b"a")
            await tx.detach()


async def test_a_handle_is_not_given_before_the_offsets_are_in(
    clerk: Producer[Any, Any], ledger: EmbeddedKafka
) -> None:
    """This holds for a call without a waiter, too: a commit through the handle might overtake its offsets."""
    held = ledger.faults.delay(api="TxnOffsetCommit", before=True, times=1)
    async with clerk.transaction() as tx:
        assert await all_acked(await put(clerk, b"a"))
        sending = asyncio.create_task(clerk.send_offsets_to_transaction({("source", 0): 3}, "readers"))
        await held.reached()
        sending.cancel()
        detaching = asyncio.create_task(tx.detach())
        await turns(20)
        assert not detaching.done()
        held.release()
        handle = await detaching
    await handle.commit(ledger.bootstrap_servers)
    assert ledger.committed_offset("readers", "source") == 3


@pytest.mark.parametrize("moment", ["before the records have landed", "after"])
async def test_leaving_the_block_aborts_a_transaction_without_a_handle(
    clerk: Producer[Any, Any], ledger: EmbeddedKafka, moment: str
) -> None:
    """A cancelled `detach()` returned no handle that could end the transaction: so the block aborts it."""
    held = ledger.faults.delay(api="Produce", before=True, times=1)
    with pytest.raises(ZeroDivisionError):
        async with clerk.transaction() as tx:
            await put(clerk, b"a")
            detaching = asyncio.create_task(tx.detach())
            await held.reached()
            detaching.cancel()
            if moment == "after":
                held.release()
                await clerk.flush()
                await turns(20)
            asyncio.get_running_loop().call_soon(held.release)
            raise ZeroDivisionError
    async with clerk.transaction():
        await put(clerk, b"b")
    assert (seen(ledger), written(ledger)) == ([b"b"], [b"a", b"b"])


async def test_closing_aborts_a_transaction_without_a_handle(
    clerk: Producer[Any, Any], ledger: EmbeddedKafka
) -> None:
    """Otherwise readers would wait for it until its time is over."""
    held = ledger.faults.delay(api="Produce", before=True, times=1)
    tx = await clerk.transaction().__aenter__()
    await put(clerk, b"a")
    detaching = asyncio.create_task(tx.detach())
    await held.reached()
    detaching.cancel()
    held.release()
    await clerk.flush()
    await clerk.close()
    assert ledger.last_stable_offset("one") == ledger.high_watermark("one")


async def test_closing_waits_for_a_handle_that_a_call_waits_for(
    clerk: Producer[Any, Any], ledger: EmbeddedKafka
) -> None:
    """The handle is returned, and its transaction is left open."""
    held = ledger.faults.delay(api="Produce", before=True, times=1)
    tx = await clerk.transaction().__aenter__()
    await put(clerk, b"a")
    detaching = asyncio.create_task(tx.detach())
    await held.reached()
    closing = asyncio.create_task(clerk.close())
    await turns(20)
    held.release()
    handle = await detaching
    await closing
    await handle.commit(ledger.bootstrap_servers)
    assert seen(ledger) == [b"a"]


async def test_a_handle_that_was_fenced_or_timed_out_says_so(make: Make, ledger: EmbeddedKafka) -> None:
    """Each has its own error; an abort of a finished transaction succeeds."""
    clerk = make(ledger, transactional_id=NAME)
    await clerk.start()
    async with clerk.transaction() as tx:
        await put(clerk, b"a")
        handle = await tx.detach()
    await ended_by_time(ledger)
    with pytest.raises(TransactionAbortedError, match=r"coordinator aborted|transaction_timeout_ms"):
        await handle.commit(ledger.bootstrap_servers)
    await handle.abort(ledger.bootstrap_servers)
    await fence([NAME], ledger.bootstrap_servers)
    for end in (handle.commit, handle.abort):
        with pytest.raises(ProducerFencedError):
            await end(ledger.bootstrap_servers)
    assert seen(ledger) == []


@pytest.mark.parametrize("commits", [True, False])
async def test_a_handle_of_what_was_ended_the_other_way_says_which(
    clerk: Producer[Any, Any], ledger: EmbeddedKafka, *, commits: bool
) -> None:
    """There is no takeover: the other call came first."""
    async with clerk.transaction() as tx:
        await put(clerk, b"a")
        handle = await tx.detach()
    first, then = (handle.commit, handle.abort) if commits else (handle.abort, handle.commit)
    await first(ledger.bootstrap_servers)
    text = "was committed before" if commits else "was aborted before"
    with pytest.raises(TransactionError, match=text) as caught:
        await then(ledger.bootstrap_servers)
    assert not caught.value.retriable
    assert isinstance(caught.value, TransactionAbortedError) is not commits
    assert seen(ledger) == ([b"a"] if commits else [])


async def test_a_handle_that_finds_no_broker_says_why(
    clerk: Producer[Any, Any], ledger: EmbeddedKafka
) -> None:
    """The outcome is unknown, as the call may be a repetition; the cause is not. It works with the right address."""
    async with clerk.transaction() as tx:
        await put(clerk, b"a")
        handle = await tx.detach()
    with pytest.raises(CommitOutcomeUnknownError) as committing:
        await handle.commit(NOWHERE, timeout=ONE_TRY)
    with pytest.raises(TransactionTimeoutError) as aborting:
        await handle.abort(NOWHERE, timeout=ONE_TRY)
    for caught in (committing, aborting):
        assert isinstance(caught.value.cause, BrokerUnavailableError)
        assert "same handle" in str(caught.value)
    await handle.commit(ledger.bootstrap_servers)
    assert seen(ledger) == [b"a"]


# -- transactions of other producers


@pytest.mark.parametrize(
    "ask",
    [
        lambda: fence(["job-1"], NOWHERE, timeout=ONE_TRY),
        lambda: list_transactions("job-", NOWHERE, timeout=ONE_TRY),
        lambda: committed_offsets("readers", [("source", 0)], NOWHERE, timeout=ONE_TRY),
    ],
)
async def test_questions_that_find_no_broker_say_why(
    nothing_left: None, ask: Callable[[], Awaitable[object]]
) -> None:
    """The cause is the problem of the last broker."""
    with pytest.raises(TransactionTimeoutError) as caught:
        await ask()
    assert isinstance(caught.value.cause, BrokerUnavailableError)


async def test_an_id_that_may_not_be_fenced_is_named(
    clerk: Producer[Any, Any], ledger: EmbeddedKafka
) -> None:
    """All others are fenced."""
    ledger.faults.error(53, api="InitProducerId", times=1)
    with pytest.raises(AuthorizationError, match="job-1"):
        await clerk.fence(["job-1"])
    ledger.faults.error(53, api="InitProducerId", times=1)
    names = [f"job-{number}" for number in range(50)]
    with pytest.raises(AuthorizationError, match="job-"):
        await clerk.fence(names)
    assert len(await clerk.list_transactions("job-")) == 49


@pytest.mark.parametrize("code", [14, 15])
async def test_a_broker_that_cannot_list_yet_is_asked_again(
    clerk: Producer[Any, Any], ledger: EmbeddedKafka, code: int
) -> None:
    """Its transactions would be missing from the list."""
    ledger.faults.error(code, api="ListTransactions", times=3)
    assert [one.transactional_id for one in await clerk.list_transactions()] == [NAME]
    assert len(asked(ledger, "ListTransactions")) == 6


async def test_a_broker_that_refuses_to_list_is_an_error(
    clerk: Producer[Any, Any], ledger: EmbeddedKafka
) -> None:
    """An empty list would mean that there are no orphans."""
    ledger.faults.error(42, api="ListTransactions", times=1)
    with pytest.raises(TransactionError, match="INVALID_REQUEST"):
        await clerk.list_transactions()


async def test_fence_aborts_what_orphans_left(make: Make, ledger: EmbeddedKafka) -> None:
    """Readers no longer wait behind them, and their owners are refused."""
    orphans = []
    for number in range(3):
        orphan = make(ledger, transactional_id=f"job-{number}")
        await orphan.start()
        await orphan.init_transactions()
        await orphan.begin_transaction()
        assert await all_acked(await put(orphan, b"orphan"))
        orphans.append(orphan)
    names = [one.transactional_id for one in await list_transactions("job-", ledger.bootstrap_servers)]
    assert names == ["job-0", "job-1", "job-2"]
    await fence([*names, "job-3"], ledger.bootstrap_servers)
    states = {one.state for one in await list_transactions("job-", ledger.bootstrap_servers)}
    assert "Ongoing" not in states
    assert ledger.last_stable_offset("one") == ledger.high_watermark("one")
    for orphan in orphans:
        with pytest.raises(ProducerFencedError):
            await orphan.commit_transaction()
    assert seen(ledger) == []


async def test_committed_offsets_without_a_producer(clerk: Producer[Any, Any], ledger: EmbeddedKafka) -> None:
    """The first request of a restarted copier."""
    async with clerk.transaction() as tx:
        tx.send_offsets({("source", 2): 8}, "readers")
    found = await committed_offsets("readers", [("source", 2), ("source", 3)], ledger.bootstrap_servers)
    assert [(place, offset.offset) for place, offset in found.items()] == [(("source", 2), 8)]


@pytest.mark.parametrize("cut", [False, True])
async def test_an_old_producer_does_not_take_over_again(
    clerk: Producer[Any, Any], make: Make, ledger: EmbeddedKafka, *, cut: bool
) -> None:
    """This holds even if its request gets no answer at first, which proves nothing. The successor continues."""
    async with clerk.transaction():
        await put(clerk, b"old")
    other = await successor(make, ledger)
    async with other.transaction():
        await put(other, b"new")
    if cut:
        ledger.faults.cut(api="InitProducerId", times=1)
    with pytest.raises(ProducerFencedError):
        await clerk.init_transactions()
    async with other.transaction():
        await put(other, b"newer")
    assert seen(ledger) == [b"old", b"new", b"newer"]


@pytest.mark.parametrize("end", ["commit_transaction", "abort_transaction"])
async def test_a_zombie_leaves_its_successors_transaction_alone(
    clerk: Producer[Any, Any], make: Make, ledger: EmbeddedKafka, end: str
) -> None:
    """The request by which a fenced producer finds its state does not end the open transaction of another."""
    await clerk.begin_transaction()
    assert await all_acked(await put(clerk, b"zombie"))
    other = await successor(make, ledger)
    await other.begin_transaction()
    assert await all_acked(await put(other, b"a"))
    await outcomes(await put(clerk, b"late"))
    with pytest.raises((ProducerFencedError, TransactionAbortedError)):
        await getattr(clerk, end)()
    await outcomes(await put(other, b"b"))
    await other.commit_transaction()
    assert seen(ledger) == [b"a", b"b"]


async def test_a_zombie_that_looks_while_it_is_taken_over_leaves_its_successor_alone(
    clerk: Producer[Any, Any], make: Make, ledger: EmbeddedKafka, renewing: str
) -> None:
    """Its transaction is being aborted, which looks like a timeout; before the next request, another producer has the id."""
    await clerk.begin_transaction()
    assert await all_acked(await put(clerk, b"zombie"))
    markers = ledger.faults.delay_markers(api="InitProducerId")
    taking_over = asyncio.create_task(successor(make, ledger))
    await markers.reached()
    committing = asyncio.create_task(clerk.commit_transaction())
    question = END_TXN if renewing == END_TXN else "DescribeTransactions"
    await until(lambda: len(asked(ledger, question)) > 2)
    held = ledger.faults.delay(api=question, before=True, times=1)
    await held.reached()
    markers.release()
    other = await taking_over
    await other.begin_transaction()
    assert await all_acked(await put(other, b"a"))
    held.release()
    with pytest.raises(ProducerFencedError):
        await committing
    assert await all_acked(await put(other, b"b"))
    await other.commit_transaction()
    assert seen(ledger) == [b"a", b"b"]


async def test_one_that_was_fenced_from_outside_reports_no_timeout(
    clerk: Producer[Any, Any], ledger: EmbeddedKafka
) -> None:
    """`fence()` leaves it fenced, long before its time is over."""
    await clerk.begin_transaction()
    assert await all_acked(await put(clerk, b"a"))
    await fence([NAME], ledger.bootstrap_servers)
    with pytest.raises(ProducerFencedError):
        await clerk.commit_transaction()

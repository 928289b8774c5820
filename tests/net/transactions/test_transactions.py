"""Transactions against brokers of both versions: their commits, their aborts, and the requests for these."""

from __future__ import annotations

import asyncio
import contextlib
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka.consumer.subscription_state import SubscriptionState

from aioproducer import (
    AuthorizationError,
    CommitOutcomeUnknownError,
    ConfigurationError,
    DeliveryError,
    GroupMetadata,
    KafkaError,
    OffsetAndMetadata,
    Outcome,
    Producer,
    ProducerFencedError,
    RecordError,
    RecordTooLargeError,
    StateError,
    TopicPartition,
    TransactionAbortedError,
    TransactionTimeoutError,
    fence,
)
from aioproducer._net.transactions.operation import Operation
from aioproducer._state.transactions.table import State
from aioproducer.testing import EmbeddedKafka
from tests.net.support import LIMIT, Make, all_acked, engine, outcomes, turns, until
from tests.net.transactional import NAME, asked, current_outcomes, put, seen, state, written


async def test_a_transaction_commits(clerk: Producer[Any, Any], ledger: EmbeddedKafka) -> None:
    """Records are visible at once when the block has ended, and not before."""
    async with clerk.transaction():
        deliveries = await put(clerk, b"a", b"b")
        assert await all_acked(deliveries)
        assert (seen(ledger), written(ledger)) == ([], [b"a", b"b"])
    assert seen(ledger) == [b"a", b"b"]


async def test_it_need_not_be_initialized(make: Make, ledger: EmbeddedKafka) -> None:
    """The context manager requests the producer id by itself, once."""
    producer = make(ledger, transactional_id=NAME)
    await producer.start()
    for value in (b"a", b"b"):
        async with producer.transaction():
            await put(producer, value)
    assert seen(ledger) == [b"a", b"b"]
    assert len(asked(ledger, "InitProducerId")) == 1


async def test_by_hand(clerk: Producer[Any, Any], ledger: EmbeddedKafka) -> None:
    """The explicit calls do the same."""
    await clerk.begin_transaction()
    await put(clerk, b"a")
    await clerk.commit_transaction()
    await clerk.begin_transaction()
    await put(clerk, b"b")
    await clerk.abort_transaction()
    assert (seen(ledger), written(ledger)) == ([b"a"], [b"a"]) or written(ledger) == [b"a", b"b"]


async def test_a_block_that_another_task_aborts(clerk: Producer[Any, Any], ledger: EmbeddedKafka) -> None:
    """The block does not end as if it had committed; code that aborts by hand inside a block expects that."""
    with pytest.raises(TransactionAbortedError, match="another task"):
        async with clerk.transaction():
            await put(clerk, b"a")
            await asyncio.create_task(clerk.abort_transaction())
    async with clerk.transaction():
        await put(clerk, b"b")
        await clerk.abort_transaction()
    assert seen(ledger) == []


@pytest.mark.parametrize("elsewhere", [True, False])
async def test_a_block_that_is_aborted_by_init_transactions(
    clerk: Producer[Any, Any], ledger: EmbeddedKafka, *, elsewhere: bool
) -> None:
    """A part of it has failed, and its program has caught the error: by another task, the block does not end as if it had committed."""
    ended: KafkaError | None = None
    try:
        async with clerk.transaction():
            await put(clerk, b"a")
            with pytest.raises(RecordError):
                await clerk.send("one", "no bytes")  # the failure
            call = clerk.init_transactions()
            await (asyncio.create_task(call) if elsewhere else call)
    except TransactionAbortedError as error:
        ended = error
    assert ("another task called init_transactions()" in str(ended)) is elsewhere
    assert seen(ledger) == []


@pytest.mark.parametrize("elsewhere", [True, False])
async def test_a_block_whose_unknown_commit_is_settled_by_init_transactions(
    clerk: Producer[Any, Any], ledger: EmbeddedKafka, *, elsewhere: bool
) -> None:
    """The request for the commit was lost, and nothing is committed: by another task, the block does not end as if it had committed."""
    lost = ledger.faults.cut(api="EndTxn", before=True)

    async def settle() -> None:
        committing = asyncio.create_task(clerk.commit_transaction())
        await lost.reached()
        committing.cancel()
        await asyncio.wait([committing])
        await clerk.init_transactions()

    ended: KafkaError | None = None
    try:
        async with clerk.transaction():
            assert await all_acked(await put(clerk, b"a"))
            await (asyncio.create_task(settle()) if elsewhere else settle())
    except CommitOutcomeUnknownError as error:
        ended = error
    assert ("another task called init_transactions()" in str(ended)) is elsewhere
    assert seen(ledger) == []


async def test_blocks_of_two_tasks_after_an_abort(clerk: Producer[Any, Any], ledger: EmbeddedKafka) -> None:
    """The second begins when the abort is over, and aborts nothing; the first has aborted itself, and ends well."""
    held = ledger.faults.delay(api="EndTxn")

    async def first() -> None:
        async with clerk.transaction():
            assert await all_acked(await put(clerk, b"a"))
            await clerk.abort_transaction()

    async def second() -> None:
        async with clerk.transaction():
            await put(clerk, b"b")

    aborting = asyncio.create_task(first())
    await held.reached()
    beginning = asyncio.create_task(second())
    await turns()
    held.release()
    await asyncio.gather(aborting, beginning)
    assert seen(ledger) == [b"b"]


async def test_a_block_of_an_earlier_transaction(clerk: Producer[Any, Any], ledger: EmbeddedKafka) -> None:
    """Another task has aborted it, and the one that it began instead."""

    async def elsewhere() -> None:
        await clerk.abort_transaction()
        async with clerk.transaction():
            await put(clerk, b"b")
            await clerk.abort_transaction()

    with pytest.raises(TransactionAbortedError, match="another task"):
        async with clerk.transaction():
            await put(clerk, b"a")
            await asyncio.create_task(elsewhere())
    assert seen(ledger) == []


@pytest.mark.parametrize("error", [ValueError("of the user's"), asyncio.CancelledError()])
async def test_an_error_inside_aborts(
    clerk: Producer[Any, Any], ledger: EmbeddedKafka, error: BaseException
) -> None:
    """The error reaches the caller unchanged; its records are never visible, and the next transaction works."""
    with pytest.raises(type(error)) as caught:
        async with clerk.transaction():
            assert await all_acked(await put(clerk, b"lost"))
            raise error
    assert caught.value is error
    async with clerk.transaction():
        await put(clerk, b"kept")
    assert (seen(ledger), written(ledger)) == ([b"kept"], [b"lost", b"kept"])


async def test_what_was_not_sent_is_dropped(make: Make, ledger: EmbeddedKafka) -> None:
    """An abort sends no further record: the records end at once as NOT_WRITTEN."""
    producer = make(ledger, transactional_id=NAME, linger_ms=60_000)
    await producer.start()
    await producer.init_transactions()
    await producer.begin_transaction()
    deliveries = await put(producer, b"a", b"b")
    await producer.abort_transaction()
    assert current_outcomes(deliveries) == {Outcome.NOT_WRITTEN}
    error = deliveries[0].exception()
    assert isinstance(error, DeliveryError)
    assert isinstance(error.cause, TransactionAbortedError)
    assert written(ledger) == []
    assert asked(ledger, "EndTxn") == []


@pytest.mark.parametrize("end", ["commit_transaction", "abort_transaction"])
async def test_an_empty_transaction_sends_no_request(
    clerk: Producer[Any, Any], ledger: EmbeddedKafka, end: str
) -> None:
    """It ends well, every time (E11)."""
    for _ in range(3):
        await clerk.begin_transaction()
        await getattr(clerk, end)()
    assert asked(ledger, "EndTxn") == []
    async with clerk.transaction():
        await put(clerk, b"a")
    assert seen(ledger) == [b"a"]


async def test_the_requests_of_each_version(clerk: Producer[Any, Any], ledger: EmbeddedKafka) -> None:
    """Version 1 names partitions and groups beforehand; version 2 has later versions of the other requests instead."""
    async with clerk.transaction() as tx:
        await put(clerk, b"a")
        tx.send_offsets({TopicPartition("source", 1): 7}, "readers")
    versions = {one.api: one.version for one in ledger.requests}
    if "AddPartitionsToTxn" in versions:
        assert versions["AddPartitionsToTxn"] <= 3
        assert (versions["Produce"], versions["EndTxn"], versions["TxnOffsetCommit"]) == (11, 4, 4)
        assert "AddOffsetsToTxn" in versions
    else:
        assert (versions["Produce"], versions["EndTxn"], versions["TxnOffsetCommit"]) == (13, 5, 5)
        assert "AddOffsetsToTxn" not in versions
    batches = [batch for one in asked(ledger, "Produce") for batch in one.batches]
    assert all(batch.transactional for batch in batches)
    assert {one.transactional_id for one in asked(ledger, "Produce")} == {NAME}


async def test_many_transactions_on_many_partitions(clerk: Producer[Any, Any], ledger: EmbeddedKafka) -> None:
    """Every third is aborted: exactly the rest is visible, in order, without a retry because of a sequence number."""
    kept: list[bytes] = []
    for number in range(30):
        values = [b"%d-%d" % (number, index) for index in range(8)]
        await clerk.begin_transaction()
        for index, value in enumerate(values):
            await clerk.send("four", value, partition=index % 4)
        if number % 3:
            await clerk.commit_transaction()
            kept += values
        else:
            await clerk.flush()
            await clerk.abort_transaction()
    for partition in range(4):
        expected = [value for value in kept if int(value.partition(b"-")[2]) % 4 == partition]
        assert seen(ledger, partition, "four") == expected
    assert [refusal for one in ledger.requests for refusal in one.refusals if "sequence" in refusal] == []


async def test_records_that_wait_are_a_part_of_it(make: Make, ledger: EmbeddedKafka) -> None:
    """The commit waits for earlier calls that still wait to be accepted."""
    producer = make(ledger, transactional_id=NAME, buffer_memory=65_536, batch_size=16_384)
    await producer.start()
    async with producer.transaction():
        sends = [asyncio.ensure_future(producer.send("one", bytes(20_000))) for _ in range(20)]
        await asyncio.sleep(0)
    assert await all_acked([await one for one in sends])
    assert len(seen(ledger)) == 20


async def test_send_nowait_and_bulks_are_a_part_of_it(
    clerk: Producer[Any, Any], ledger: EmbeddedKafka
) -> None:
    """This holds for a topic that was unknown at the call, too."""
    async with clerk.transaction():
        clerk.send_nowait("one", b"at once")
        bulk = await clerk.send_batch("four", [b"%d" % number for number in range(100)])
    assert seen(ledger) == [b"at once"]
    assert len(seen(ledger, topic="four")) == (await bulk).acked == 100


# -- refusals


@pytest.mark.parametrize("call", ["send", "begin_transaction", "commit_transaction", "abort_transaction"])
async def test_before_it_was_initialized(make: Make, ledger: EmbeddedKafka, call: str) -> None:
    """The error names the state, the call, and the right call."""
    producer = make(ledger, transactional_id=NAME)
    await producer.start()
    arguments = ("one", b"a") if call == "send" else ()
    with pytest.raises(StateError, match=rf"{call}\(\) .*UNINITIALIZED.*init_transactions"):
        await getattr(producer, call)(*arguments)


@pytest.mark.parametrize("send", ["send", "send_and_wait", "send_nowait", "send_batch"])
async def test_nothing_is_sent_outside_of_a_transaction(
    clerk: Producer[Any, Any], ledger: EmbeddedKafka, send: str
) -> None:
    """Neither before the first nor after the last."""
    value: Any = [b"a"] if send == "send_batch" else b"a"
    for _ in range(2):
        with pytest.raises(StateError, match="READY"):
            await getattr(clerk, send)("one", value)
        async with clerk.transaction():
            pass
    assert written(ledger) == []


async def test_transactions_do_not_nest(clerk: Producer[Any, Any]) -> None:
    """The inner one is refused, and the outer one aborts because of the error."""
    with pytest.raises(StateError, match="IN_TRANSACTION"):
        async with clerk.transaction(), clerk.transaction():
            raise AssertionError
    assert state(clerk) is State.READY


async def test_without_a_transactional_id(make: Make, ledger: EmbeddedKafka) -> None:
    """The error names the missing setting."""
    producer = make(ledger)
    await producer.start()
    with pytest.raises(StateError, match="transactional_id"):
        await producer.begin_transaction()


async def test_a_refused_send_refuses_the_commit(clerk: Producer[Any, Any], ledger: EmbeddedKafka) -> None:
    """This holds for a send whose error the caller has caught, too."""
    await clerk.begin_transaction()
    await put(clerk, b"a")
    with pytest.raises(RecordTooLargeError):
        await clerk.send("one", bytes(2_000_000))
    with pytest.raises(TransactionAbortedError) as caught:
        await clerk.commit_transaction()
    assert isinstance(caught.value.cause, RecordTooLargeError)
    assert not caught.value.retriable
    with pytest.raises(TransactionAbortedError):
        await clerk.send("one", b"b")
    await clerk.abort_transaction()
    assert seen(ledger) == []


async def test_a_failed_record_refuses_the_commit(clerk: Producer[Any, Any], ledger: EmbeddedKafka) -> None:
    """The block ends with the refusal, and the transaction is aborted by then (E10)."""
    ledger.faults.error(29, api="Produce", times=1)
    with pytest.raises(TransactionAbortedError):
        async with clerk.transaction():
            deliveries = await put(clerk, b"a")
            await clerk.flush()
            deliveries += [await clerk.send("one", b"b")]
    assert state(clerk) is State.READY
    assert seen(ledger) == []
    async with clerk.transaction():
        await put(clerk, b"c")
    assert seen(ledger) == [b"c"]


# -- offsets


async def test_offsets_are_committed_with_it(clerk: Producer[Any, Any], ledger: EmbeddedKafka) -> None:
    """Those of an aborted transaction are not; metadata and later offsets of the same partition count."""
    async with clerk.transaction() as tx:
        tx.send_offsets(
            {TopicPartition("source", 0): 1, ("source", 1): OffsetAndMetadata(2, "note")}, "readers"
        )
        tx.send_offsets({TopicPartition("source", 0): 5}, GroupMetadata("readers"))
        tx.send_offsets({TopicPartition("source", 0): 9}, "others")
    with pytest.raises(ZeroDivisionError):
        async with clerk.transaction():
            await clerk.send_offsets_to_transaction({TopicPartition("source", 0): 77}, "readers")
            raise ZeroDivisionError
    places = [("source", partition) for partition in range(4)]
    assert await clerk.committed_offsets("readers", places) == {
        TopicPartition("source", 0): OffsetAndMetadata(5),
        TopicPartition("source", 1): OffsetAndMetadata(2, "note"),
    }
    assert await clerk.committed_offsets("others", places) == {
        TopicPartition("source", 0): OffsetAndMetadata(9)
    }
    assert await clerk.committed_offsets("unknown", places) == {}


async def test_offsets_sent_at_once_are_pending_until_the_commit(
    clerk: Producer[Any, Any], ledger: EmbeddedKafka
) -> None:
    """A request for them waits for the end of the transaction."""
    await clerk.begin_transaction()
    await clerk.send_offsets_to_transaction({TopicPartition("source", 0): 3}, "readers")
    asking = asyncio.create_task(clerk.committed_offsets("readers", [("source", 0)]))
    await until(lambda: len(asked(ledger, "OffsetFetch")) > 1)
    assert not asking.done()
    await clerk.commit_transaction()
    assert (await asking)[TopicPartition("source", 0)].offset == 3


@pytest.mark.parametrize(
    ("offsets", "group"),
    [
        ({("source", 0): -1}, "readers"),
        ({("source", 0): OffsetAndMetadata(1, "x" * 4097)}, "readers"),
        ({"source": 1}, "readers"),
        ({("source", 0): 1}, ""),
        ({("source", 0): 1}, 5),
        (None, "readers"),
        ({("source", 0): 2**63}, "readers"),
        ({("source", 0): OffsetAndMetadata(1, "\ud800")}, "readers"),
        ({("source", 0): OffsetAndMetadata(1, "", 2**31)}, "readers"),
        ({("source", -1): 1}, "readers"),
        ({("source", 2**31): 1}, "readers"),
        ({("source", True): 1}, "readers"),
        ({("source", 0, 1): 1}, "readers"),
        ({("no such name", 0): 1}, "readers"),
        ({("source", 0): 1}, "x" * 32_768),
        ({("source", 0): 1}, GroupMetadata("readers", 2**31)),
        ({("source", 0): 1}, GroupMetadata("readers", 1, b"member")),  # type: ignore[arg-type]  # so it is refused
    ],
)
async def test_offsets_that_make_no_sense(clerk: Producer[Any, Any], offsets: Any, group: Any) -> None:
    """They are refused before any request, and spoil nothing."""
    async with clerk.transaction() as tx:
        with pytest.raises(RecordError):
            tx.send_offsets(offsets, group)


@pytest.mark.parametrize(
    "consumed",
    [
        None,
        [("source", 0, 1)],
        [SimpleNamespace(topic="source", partition="0", offset=1)],
        [SimpleNamespace(topic="source", partition=0, offset="1")],
        [SimpleNamespace(topic="source", partition=0, offset=2**63)],
        [SimpleNamespace(topic=b"source", partition=0, offset=1)],
    ],
)
async def test_consumed_records_that_make_no_sense(clerk: Producer[Any, Any], consumed: Any) -> None:
    """The same holds for invalid records."""
    async with clerk.transaction() as tx:
        with pytest.raises(RecordError):
            tx.consumed(consumed, "readers")


async def test_a_rebalance_between_two_polls_of_a_transaction(
    clerk: Producer[Any, Any], ledger: EmbeddedKafka
) -> None:
    """Offsets from before it are refused: another member may read the same records again."""
    ledger.set_group("readers", 4, ["me", "other"])
    with pytest.raises(TransactionAbortedError, match="ILLEGAL_GENERATION") as caught:
        async with clerk.transaction() as tx:
            tx.send_offsets({("source", 0): 5}, GroupMetadata("readers", 4, "me"))
            await clerk.send("ledger", b"read twice")
            ledger.set_group("readers", 5, ["me", "other"])
            tx.send_offsets({("source", 1): 7}, GroupMetadata("readers", 5, "me"))
    assert not caught.value.retriable
    assert (ledger.committed_offset("readers", "source"), seen(ledger)) == (None, [])


@pytest.mark.parametrize("takes_part", [True, False])
async def test_a_consumer_that_has_lost_its_membership(
    clerk: Producer[Any, Any], ledger: EmbeddedKafka, *, takes_part: bool
) -> None:
    """Without a generation its offsets would be committed unchecked: they are those of another member by now."""
    subscription = SubscriptionState()
    if takes_part:
        subscription.subscribe({"source"})
    else:
        subscription.assign_from_user([TopicPartition("source", 0)])
    # As aiokafka's heartbeat leaves it behind when the group does not know the member.
    lost = SimpleNamespace(group_id="readers", generation=-1, member_id="", _subscription=subscription)
    consumer = SimpleNamespace(_coordinator=lost)
    record = SimpleNamespace(topic="source", partition=0, offset=4)
    async with clerk.transaction() as tx:
        tx.consumed([], consumer)
        for refused in (
            partial(tx.consumed, [record], consumer),
            partial(tx.send_offsets, {("source", 0): 5}, consumer),
        ):
            with pytest.raises(RecordError, match="no member") if takes_part else contextlib.nullcontext():
                refused()
        with pytest.raises(RecordError, match="no member") if takes_part else contextlib.nullcontext():
            await clerk.send_offsets_to_transaction({("source", 0): 5}, consumer)
    assert ledger.committed_offset("readers", "source") == (None if takes_part else 5)


@pytest.mark.parametrize("name", ["", 5, b"another", "\ud800", "x" * 32_768])
async def test_an_impossible_transactional_id(
    clerk: Producer[Any, Any], ledger: EmbeddedKafka, name: Any
) -> None:
    """It is refused before any request, and the producer continues under its own id."""
    with pytest.raises(ConfigurationError, match="transactional id"):
        await clerk.init_transactions(name)
    with pytest.raises(ConfigurationError, match="transactional id"):
        await clerk.fence([name])
    async with clerk.transaction():
        await put(clerk, b"a")
    assert seen(ledger) == [b"a"]


async def test_fencing_where_transactions_have_to_be_short(
    clerk: Producer[Any, Any], ledger: EmbeddedKafka
) -> None:
    """`transaction.max.timeout.ms` is below the setting of this client, which begins no transaction of the id."""
    ledger._cluster.transactions.max_timeout_ms = 1000
    await fence([NAME], ledger.bootstrap_servers)
    with pytest.raises(ProducerFencedError):
        async with clerk.transaction():
            await put(clerk, b"a")


async def test_one_id_is_not_a_sequence_of_ids(clerk: Producer[Any, Any], ledger: EmbeddedKafka) -> None:
    """Otherwise each of its characters would be fenced, and stay known to the coordinator."""
    with pytest.raises(ConfigurationError, match="sequence"):
        await clerk.fence(NAME)
    assert [one.transactional_id for one in await clerk.list_transactions()] == [NAME]


@pytest.mark.parametrize(("group", "place"), [(5, ("one", 0)), ("readers", ("one", 2**31))])
async def test_questions_for_offsets_that_make_no_sense(
    clerk: Producer[Any, Any], group: Any, place: Any
) -> None:
    """They are refused with a text, too."""
    with pytest.raises(RecordError):
        await clerk.committed_offsets(group, [place])


# -- closing


async def test_closing_aborts_what_is_open(make: Make, ledger: EmbeddedKafka) -> None:
    """Readers do not have to wait until its time is over."""
    producer = make(ledger, transactional_id=NAME)
    await producer.start()
    await producer.init_transactions()
    await producer.begin_transaction()
    deliveries = await put(producer, b"a")
    await outcomes(deliveries)
    await producer.close()
    assert (seen(ledger), written(ledger)) == ([], [b"a"])
    view = ledger.transaction(NAME)
    assert view is not None
    assert view.state in ("CompleteAbort", "PrepareAbort")


async def test_init_again_changes_the_name(clerk: Producer[Any, Any], ledger: EmbeddedKafka) -> None:
    """The producer takes another transactional id, over the same connections."""
    async with clerk.transaction():
        await put(clerk, b"a")
    connects = [one.connects for one in clerk.stats().connections]
    await clerk.init_transactions("another")
    async with clerk.transaction():
        await put(clerk, b"b")
    assert [one.connects for one in clerk.stats().connections] == connects
    assert seen(ledger) == [b"a", b"b"]
    assert [one.transactional_id for one in await clerk.list_transactions()] == ["another", NAME]


@pytest.mark.parametrize("is_open", [True, False])
async def test_init_under_another_name_does_not_join_the_first(
    make: Make, ledger: EmbeddedKafka, renewing: str, *, is_open: bool
) -> None:
    """It would get the producer id of another name; the transaction of the first name ends before."""
    producer = make(ledger, transactional_id=NAME)
    await producer.start()
    if is_open:
        await producer.init_transactions()
        await producer.begin_transaction()
        assert await all_acked(await put(producer, b"lost"))
        with pytest.raises(RecordTooLargeError):
            await producer.send("one", bytes(2_000_000))
    held = ledger.faults.delay(api=renewing if is_open else "InitProducerId", before=True)
    first = asyncio.create_task(producer.init_transactions())
    await held.reached()
    second = asyncio.create_task(producer.init_transactions("another"))
    await asyncio.sleep(0)
    held.release()
    refused, kept = (second, first) if is_open else (first, second)
    with pytest.raises(StateError, match="another"):
        await refused
    await kept
    async with producer.transaction():
        await put(producer, b"a")
    assert seen(ledger) == [b"a"]
    assert ledger.transaction(NAME if is_open else "another") is not None
    assert {one.transactional_id for one in asked(ledger, "Produce")[-1:]} == {NAME if is_open else "another"}


async def test_init_under_another_name_does_not_wait_for_the_coordinator_of_the_first(
    make: Make, ledger: EmbeddedKafka
) -> None:
    """That coordinator may not answer for hours, and the producer needs no epoch from it any more."""
    producer = make(ledger, transactional_id=NAME)
    await producer.start()
    held = ledger.faults.delay(api="InitProducerId", before=True)
    first = asyncio.create_task(producer.init_transactions())
    await held.reached()
    await producer.init_transactions("another", timeout=LIMIT)
    with pytest.raises(StateError, match="another"):
        await first
    async with producer.transaction():
        await put(producer, b"a")
    held.release()
    assert {one.transactional_id for one in asked(ledger, "Produce")[-1:]} == {"another"}


async def test_init_under_another_name_does_not_join_a_first_that_has_ended(
    make: Make, ledger: EmbeddedKafka
) -> None:
    """Its caller has left, and its result belongs to the former name."""
    producer = make(ledger, transactional_id=NAME)
    await producer.start()
    held = ledger.faults.delay(api="InitProducerId", before=True)
    with pytest.raises(TransactionTimeoutError):
        await producer.init_transactions(timeout=0.01)
    transactions = engine(producer).transactions
    assert transactions is not None
    first = transactions.operation
    assert first is not None
    held.release()
    await until(lambda: first.ended)
    await producer.init_transactions("another")
    async with producer.transaction():
        await put(producer, b"a")
    assert {one.transactional_id for one in asked(ledger, "Produce")[-1:]} == {"another"}


async def test_a_refusal_of_the_former_name_leaves_init_under_another_name_alone(
    make: Make, ledger: EmbeddedKafka
) -> None:
    """The answer to the abandoned request comes while the second call waits for its turn."""
    producer = make(ledger, transactional_id=NAME)
    await producer.start()
    ledger.faults.error(53, api="InitProducerId", times=1)
    held = ledger.faults.delay(api="InitProducerId", before=False)
    first = asyncio.create_task(producer.init_transactions())
    await held.reached()
    second = asyncio.create_task(producer.init_transactions("another"))
    await turns(3)
    held.release()
    with pytest.raises(StateError, match="another"):
        await first
    await second
    async with producer.transaction():
        await put(producer, b"a")
    assert {one.transactional_id for one in asked(ledger, "Produce")[-1:]} == {"another"}


@pytest.mark.parametrize("doubtful", [True, False])
async def test_what_is_open_is_not_left_behind_under_the_old_name(
    clerk: Producer[Any, Any], ledger: EmbeddedKafka, *, doubtful: bool
) -> None:
    """Readers would wait for it, and a commit without an answer would be forgotten, not settled."""
    fault = ledger.faults.cut(api="EndTxn", before=True, times=None)
    await clerk.begin_transaction()
    assert await all_acked(await put(clerk, b"a"))
    if doubtful:
        with pytest.raises(CommitOutcomeUnknownError):
            await clerk.commit_transaction(timeout=0.05)
    else:
        with pytest.raises(RecordTooLargeError):
            await clerk.send("one", bytes(2_000_000))
    with pytest.raises(StateError, match=r"'orders' has ended: await producer.init_transactions\(\) first"):
        await clerk.init_transactions("another")
    fault.heal()
    await clerk.init_transactions()
    await clerk.init_transactions("another")
    assert ledger.last_stable_offset("one") == ledger.high_watermark("one")


async def test_a_name_that_is_refused_can_be_asked_for_again(
    clerk: Producer[Any, Any], ledger: EmbeddedKafka
) -> None:
    """When the name is granted later, the producer id of the former name is not used for it."""
    await fence(["another"], ledger.bootstrap_servers)  # it has a producer id then
    ledger.faults.error(53, api="InitProducerId", times=1)
    with pytest.raises(AuthorizationError):
        await clerk.init_transactions("another")
    await clerk.init_transactions()
    async with clerk.transaction():
        await put(clerk, b"a")
    assert [one.transactional_id for one in await clerk.list_transactions("a")] == ["another"]
    assert seen(ledger) == [b"a"]


# -- running again


async def test_run_transaction_runs_again(clerk: Producer[Any, Any], ledger: EmbeddedKafka) -> None:
    """It runs again after an error that passes with the transaction, with the same arguments; the result is the function's."""
    ledger.faults.error(59, api="Produce", times=2)
    calls: list[bytes] = []

    async def work(value: bytes) -> str:
        calls.append(value)
        await clerk.send_and_wait("one", value)
        return "done"

    assert await clerk.run_transaction(work, b"a", timeout=LIMIT) == "done"
    assert calls == [b"a"] * 3
    assert seen(ledger) == [b"a"]


async def test_run_transaction_runs_a_group_of_tasks_again(
    clerk: Producer[Any, Any], ledger: EmbeddedKafka
) -> None:
    """Their errors come as a group: it runs again if all are of the transaction, and not if one is the user's."""
    ledger.faults.error(59, api="Produce", times=1)
    calls: list[int] = []

    async def work() -> None:
        calls.append(1)
        async with asyncio.TaskGroup() as group:
            group.create_task(clerk.send_and_wait("one", b"a"))
            group.create_task(clerk.send_and_wait("one", b"b"))

    async def work_with_an_error_of_the_users() -> None:
        try:
            await work()
        except ExceptionGroup as group:
            raise ExceptionGroup("both", [group, ValueError("mine")]) from None

    await clerk.run_transaction(work, timeout=LIMIT)
    assert (len(calls), seen(ledger)) == (2, [b"a", b"b"])
    ledger.faults.error(59, api="Produce", times=1)
    with pytest.raises(ExceptionGroup, match="both"):
        await clerk.run_transaction(work_with_an_error_of_the_users, timeout=LIMIT)
    assert len(calls) == 3


async def test_run_transaction_gives_up_on_what_does_not_pass(
    clerk: Producer[Any, Any], ledger: EmbeddedKafka
) -> None:
    """The user's own errors, and refusals that would come again, are raised at once."""
    calls: list[int] = []

    async def work(error: Exception | None) -> None:
        calls.append(1)
        await put(clerk, b"a")
        if error is not None:
            raise error
        await clerk.send("one", bytes(2_000_000))

    with pytest.raises(ValueError, match="mine"):
        await clerk.run_transaction(work, ValueError("mine"))
    with pytest.raises(RecordTooLargeError):
        await clerk.run_transaction(work, None)
    assert len(calls) == 2
    assert seen(ledger) == []


async def test_run_transaction_does_not_repeat_what_another_task_aborted(
    clerk: Producer[Any, Any], ledger: EmbeddedKafka
) -> None:
    """`asyncio.wait_for()` of Python 3.11 calls in a task of its own: the function would be repeated without end."""
    calls: list[int] = []

    async def work() -> None:
        calls.append(1)
        await put(clerk, b"a")
        await asyncio.create_task(clerk.abort_transaction())

    with pytest.raises(TransactionAbortedError, match="another task called abort_transaction"):
        await clerk.run_transaction(work, timeout=LIMIT)
    assert (len(calls), seen(ledger)) == (1, [])


async def test_the_engine_has_no_identity_task(clerk: Producer[Any, Any]) -> None:
    """Identities come from the coordinator alone."""
    names = {task.get_name() for task in asyncio.all_tasks()}
    assert "aioproducer transactions" in names
    assert "aioproducer identity" not in names
    assert not engine(clerk).sequences.wanted


# -- parts of a transaction


async def test_a_refused_record_of_a_bulk_refuses_the_commit(
    clerk: Producer[Any, Any], ledger: EmbeddedKafka
) -> None:
    """Like one that was sent alone."""
    with pytest.raises(TransactionAbortedError) as caught:
        async with clerk.transaction():
            await (await clerk.send_batch("one", [b"a", bytes(2_000_000)]))
    assert isinstance(caught.value.cause, RecordTooLargeError)
    assert seen(ledger) == []


async def test_a_queued_record_that_finds_no_place_refuses_the_commit(
    clerk: Producer[Any, Any], ledger: EmbeddedKafka
) -> None:
    """It was accepted, and is not written."""
    with pytest.raises(TransactionAbortedError):
        async with clerk.transaction():
            delivery = clerk.send_nowait("one", b"a", partition=7, timeout=0.1)
            await delivery.wait(LIMIT)
    assert seen(ledger) == []


@pytest.mark.parametrize("how", ["send_nowait", "send_batch"])
async def test_a_call_that_raises_refuses_the_commit(
    clerk: Producer[Any, Any], ledger: EmbeddedKafka, how: str
) -> None:
    """This holds even if its caller catches the error."""
    with pytest.raises(TransactionAbortedError):
        async with clerk.transaction():
            with pytest.raises(RecordError):
                getattr(clerk, how)("a topic", [b"a"] if how == "send_batch" else b"a")
    assert seen(ledger) == []


async def test_what_its_sender_took_back_is_no_part_of_it(make: Make, ledger: EmbeddedKafka) -> None:
    """The program intends `try_cancel()`, `purge()` and a cancelled `send()`; the rest is committed."""
    producer = make(ledger, transactional_id=NAME, linger_ms=60_000)
    await producer.start()
    async with producer.transaction():
        first, second, third = await put(producer, b"a", b"b", b"c")
        assert second.try_cancel()
        assert producer.purge() == 2
        await put(producer, b"d")
    assert current_outcomes([first, second, third]) == {Outcome.NOT_WRITTEN}
    assert seen(ledger) == [b"d"]


async def test_no_offsets_are_no_part_of_it(clerk: Producer[Any, Any], ledger: EmbeddedKafka) -> None:
    """A poll without records sends no request."""
    async with clerk.transaction() as tx:
        tx.consumed([], "readers")
        tx.send_offsets({}, "readers")
    assert asked(ledger, "EndTxn") == []


async def test_a_kept_transaction_cannot_be_used_in_the_next(clerk: Producer[Any, Any]) -> None:
    """Its offsets would be committed with records of another transaction."""
    async with clerk.transaction() as first:
        pass
    async with clerk.transaction():
        with pytest.raises(StateError, match="has ended"):
            first.send_offsets({("source", 0): 1}, "readers")


@pytest.mark.parametrize("by_commit", [True, False])
async def test_a_commit_without_a_waiter_can_be_settled(
    by_commit: bool, clerk: Producer[Any, Any], ledger: EmbeddedKafka
) -> None:
    """Its caller is cancelled at the moment of the success: the commit is like any other without an answer."""
    await clerk.begin_transaction()
    await put(clerk, b"a")
    transactions = engine(clerk).transactions
    assert transactions is not None
    committing = asyncio.create_task(clerk.commit_transaction())
    await until(lambda: transactions.operation is not None)
    operation = transactions.operation
    assert operation is not None

    def cancelled(_: Operation) -> None:
        committing.cancel()

    operation._on_end = cancelled
    with pytest.raises(asyncio.CancelledError):
        await committing
    assert state(clerk) is State.UNCERTAIN
    await (clerk.commit_transaction() if by_commit else clerk.init_transactions())
    assert state(clerk) is State.READY
    assert seen(ledger) == [b"a"]


async def test_a_gap_is_over_with_its_transaction(make: Make, ledger: EmbeddedKafka) -> None:
    """The lost record ended with its transaction, with or without a look at it: the next one has all its records."""
    producer = make(ledger, transactional_id=NAME, gapless=True)
    await producer.start()
    ledger.faults.error("INVALID_RECORD", topic="one", partition=0)
    with pytest.raises(TransactionAbortedError):
        async with producer.transaction():
            await producer.send("one", b"lost", partition=0)
    async with producer.transaction():
        await producer.send("one", b"kept", partition=0)
    assert seen(ledger) == [b"kept"]


async def test_a_transaction_that_was_not_begun_says_so(clerk: Producer[Any, Any]) -> None:
    """This holds while another is open that was begun by hand, too."""
    await clerk.begin_transaction()
    with pytest.raises(StateError, match="not begun: use `async with"):
        clerk.transaction().send_offsets({("source", 0): 1}, "readers")


async def test_few_connections_for_many_groups(clerk: Producer[Any, Any], ledger: EmbeddedKafka) -> None:
    """Connections of groups that were not needed for long are closed."""
    for number in range(20):
        async with clerk.transaction() as tx:
            tx.send_offsets({("source", 0): number}, f"group-{number}")
    transactions = engine(clerk).transactions
    assert transactions is not None
    assert len(transactions.coordinators.groups) <= 8
    assert ledger.committed_offset("group-0", "source") == 0

"""Incomplete answers of coordinators, and answers that do not prove what they seem to state."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from aioproducer import (
    BrokerError,
    CommitOutcomeUnknownError,
    KafkaError,
    Outcome,
    Producer,
    ProducerFencedError,
    TransactionAbortedError,
    TransactionError,
    TransactionTimeoutError,
    fence,
    list_transactions,
)
from aioproducer._state.transactions.requests import pattern_of
from aioproducer._state.transactions.table import State
from aioproducer._wire.messages.list_transactions import TransactionState
from aioproducer.testing import EmbeddedKafka
from tests.net.support import LIMIT, Make, all_acked
from tests.net.transactional import END_TXN, NAME, asked, ended_by_time, put, seen, state

# Long enough for one answer on a busy machine: the tests read the last answer in the error.
SOON = 0.5


def without(field: str) -> Any:
    """The same answer with nothing in this array."""
    return lambda answer: answer._replace(**{field: []})


async def test_offsets_without_an_answer_are_sent_again(
    clerk: Producer[Any, Any], ledger: EmbeddedKafka
) -> None:
    """A TxnOffsetCommit answer leaves out a partition: its offset is sent again, and answered ones are not."""
    fault = ledger.faults.alter(
        lambda answer: answer._replace(
            topics=[topic._replace(partitions=topic.partitions[:1]) for topic in answer.topics]
        ),
        api="TxnOffsetCommit",
        times=1,
    )
    async with clerk.transaction(timeout=LIMIT) as tx:
        await put(clerk, b"a")
        tx.send_offsets({("source", 0): 4, ("source", 1): 5}, "readers")
    assert fault.hits == 1
    assert [ledger.committed_offset("readers", "source", partition) for partition in (0, 1)] == [4, 5]
    assert seen(ledger) == [b"a"]


async def test_offsets_that_are_never_answered_leave_an_abort(
    clerk: Producer[Any, Any], ledger: EmbeddedKafka
) -> None:
    """The call ends in time, and the producer works in the next transaction."""
    fault = ledger.faults.alter(without("topics"), api="TxnOffsetCommit", times=None)
    await clerk.begin_transaction()
    assert await all_acked(await put(clerk, b"a"))
    with pytest.raises(TransactionTimeoutError) as caught:
        await clerk.send_offsets_to_transaction({("source", 0): 4}, "readers", timeout=SOON)
    assert "lacks" in str(caught.value.cause)
    await clerk.abort_transaction()
    fault.heal()
    async with clerk.transaction():
        await put(clerk, b"b")
    assert seen(ledger) == [b"b"]
    assert ledger.committed_offset("readers", "source", 0) in (None, -1)


@pytest.mark.parametrize("ledger", [1], indirect=True, ids=["level1"])
async def test_partitions_without_an_answer_are_added_again(
    clerk: Producer[Any, Any], ledger: EmbeddedKafka
) -> None:
    """An AddPartitionsToTxn answer without the partition does not add it."""
    ledger.faults.alter(without("results_by_topic_v3_and_below"), api="AddPartitionsToTxn", times=2)
    async with clerk.transaction(timeout=LIMIT):
        await put(clerk, b"a")
    assert len(asked(ledger, "AddPartitionsToTxn")) == 3
    assert seen(ledger) == [b"a"]


async def test_a_coordinator_that_is_not_named_is_asked_for_again(
    clerk: Producer[Any, Any], ledger: EmbeddedKafka
) -> None:
    """A FindCoordinator answer without the id, or with another id."""
    ledger.faults.alter(without("coordinators"), api="FindCoordinator", times=2)
    ledger.faults.alter(
        lambda answer: answer._replace(
            coordinators=[one._replace(key="another") for one in answer.coordinators]
        ),
        api="FindCoordinator",
        times=1,
        skip=2,
    )
    await fence(["job"], ledger.bootstrap_servers, timeout=LIMIT)
    assert len(asked(ledger, "FindCoordinator")) == 5


@pytest.mark.parametrize("lie", ["nothing", "another"])
async def test_an_id_that_is_not_described_is_looked_at_again(
    make: Make, ledger: EmbeddedKafka, lie: str
) -> None:
    """A DescribeTransactions answer without the id ends nothing, and no other id is taken for it."""
    if lie == "nothing":
        change = without("transaction_states")
    else:

        def change(answer: Any) -> Any:
            return answer._replace(
                transaction_states=[
                    one._replace(transactional_id="another") for one in answer.transaction_states
                ]
            )

    fault = ledger.faults.alter(change, api="DescribeTransactions", times=2)
    clerk = make(ledger, transactional_id=NAME)
    await clerk.start()
    await clerk.init_transactions()
    await clerk.begin_transaction()
    assert await all_acked(await put(clerk, b"a"))
    await ended_by_time(ledger)
    with pytest.raises(TransactionAbortedError):
        await clerk.commit_transaction()
    await clerk.abort_transaction()
    assert fault.hits == 2
    async with clerk.transaction():
        await put(clerk, b"b")
    assert seen(ledger) == [b"b"]


@pytest.mark.parametrize("code", [7, 14, 15, 16])
@pytest.mark.parametrize("last", [90, 49, 120, 42, 999])
async def test_a_commit_that_may_have_been_done_is_not_denied(
    clerk: Producer[Any, Any], ledger: EmbeddedKafka, code: int, last: int
) -> None:
    """EndTxn was done and answered with an error that does not prove otherwise; the answer to a later attempt does not either."""
    ledger.faults.alter(lambda answer: answer._replace(error_code=code), api=END_TXN, times=1)
    ledger.faults.error(last, api=END_TXN, times=1, skip=1)
    await clerk.begin_transaction()
    assert await all_acked(await put(clerk, b"a"))
    with pytest.raises(KafkaError) as caught:
        await clerk.commit_transaction()
    assert caught.value.outcome is Outcome.UNKNOWN
    assert not isinstance(caught.value, TransactionAbortedError)
    assert seen(ledger) == [b"a"]


@pytest.mark.parametrize("code", [7, 14, 15, 16])
@pytest.mark.parametrize("last", [42, 49, 120, 999])
async def test_a_commit_of_a_handle_that_may_have_been_done_is_not_denied(
    clerk: Producer[Any, Any], ledger: EmbeddedKafka, code: int, last: int
) -> None:
    """The same, for a call that knows of no attempt but its own."""
    async with clerk.transaction(timeout=LIMIT) as tx:
        assert await all_acked(await put(clerk, b"a"))
        handle = await tx.detach()
    ledger.faults.alter(lambda answer: answer._replace(error_code=code), api=END_TXN, times=1)
    ledger.faults.error(last, api=END_TXN, times=1, skip=1)
    with pytest.raises(KafkaError) as caught:
        await handle.commit(ledger.bootstrap_servers)
    assert caught.value.outcome is Outcome.UNKNOWN
    assert seen(ledger) == [b"a"]


async def _refused(clerk: Producer[Any, Any]) -> KafkaError:
    """The error of a commit of one record that the coordinator refuses."""
    await clerk.begin_transaction()
    assert await all_acked(await put(clerk, b"a"))
    with pytest.raises(KafkaError) as caught:
        await clerk.commit_transaction()
    return caught.value


async def test_a_commit_that_was_refused_was_not_done(
    clerk: Producer[Any, Any], ledger: EmbeddedKafka
) -> None:
    """A refusal before any effect is reported as a refusal."""
    ledger.faults.error(53, api=END_TXN, times=1)
    assert (await _refused(clerk)).outcome is Outcome.NOT_WRITTEN
    assert seen(ledger) == []


@pytest.mark.parametrize("ledger", [1], ids=["level1"], indirect=True)
async def test_a_commit_that_was_refused_as_fenced_was_not_done(
    clerk: Producer[Any, Any], ledger: EmbeddedKafka
) -> None:
    """Where only another producer can have raised the epoch, the answer is believed."""
    ledger.faults.error(90, api=END_TXN, times=1)
    assert (await _refused(clerk)).outcome is Outcome.NOT_WRITTEN
    assert seen(ledger) == []


@pytest.mark.parametrize("ledger", [2], ids=["level2"], indirect=True)
async def test_a_commit_that_was_refused_as_fenced_is_asked_again(
    clerk: Producer[Any, Any], ledger: EmbeddedKafka
) -> None:
    """Where the coordinator gives this answer also while it writes markers, and no other producer has taken over."""
    ledger.faults.error(90, api=END_TXN, times=1)
    async with clerk.transaction():
        await put(clerk, b"a")
    assert seen(ledger) == [b"a"]
    assert len(asked(ledger, END_TXN)) == 2


@pytest.mark.parametrize("ledger", [2], ids=["level2"], indirect=True)
@pytest.mark.parametrize("call", ["commit_transaction", "abort_transaction"])
async def test_an_end_that_is_always_refused_as_fenced_ends_in_time(
    clerk: Producer[Any, Any], ledger: EmbeddedKafka, call: str
) -> None:
    """No other producer has taken over, and the coordinator keeps refusing: the call ends with its timeout, and may be repeated."""
    fault = ledger.faults.error(90, api=END_TXN, times=None)
    await clerk.begin_transaction()
    assert await all_acked(await put(clerk, b"a"))
    with pytest.raises((CommitOutcomeUnknownError, TransactionTimeoutError)):
        await getattr(clerk, call)(timeout=SOON)
    fault.heal()
    await getattr(clerk, call)()
    assert seen(ledger) == ([b"a"] if call == "commit_transaction" else [])


@pytest.mark.parametrize("code", [-1, 999])
async def test_an_unknown_error_decides_nothing(
    clerk: Producer[Any, Any], ledger: EmbeddedKafka, code: int
) -> None:
    """The commit was done, and is answered with an ambiguous error: it is in doubt, and succeeds when it is repeated."""
    ledger.faults.alter(lambda answer: answer._replace(error_code=code), api=END_TXN, times=1)
    await clerk.begin_transaction()
    assert await all_acked(await put(clerk, b"a"))
    with pytest.raises(CommitOutcomeUnknownError) as caught:
        await clerk.commit_transaction()
    assert isinstance(caught.value.cause, BrokerError)
    assert state(clerk) is State.UNCERTAIN
    assert len(asked(ledger, END_TXN)) == 1
    await clerk.commit_transaction()
    async with clerk.transaction():
        await put(clerk, b"b")
    assert seen(ledger) == [b"a", b"b"]


async def test_a_doubt_is_not_forgotten(clerk: Producer[Any, Any], ledger: EmbeddedKafka) -> None:
    """The commit was done and its answer was ambiguous; the repetition is refused, which proves nothing about the first."""
    ledger.faults.alter(lambda answer: answer._replace(error_code=-1), api=END_TXN, times=1)
    ledger.faults.error(90, api=END_TXN, times=1, skip=1)
    await clerk.begin_transaction()
    assert await all_acked(await put(clerk, b"a"))
    with pytest.raises(CommitOutcomeUnknownError):
        await clerk.commit_transaction()
    with pytest.raises(ProducerFencedError) as caught:
        await clerk.commit_transaction()
    assert caught.value.outcome is Outcome.UNKNOWN
    assert seen(ledger) == [b"a"]


@pytest.mark.parametrize("code", [-1, 999])
@pytest.mark.parametrize("done", [True, False])
async def test_an_abort_without_a_meaning_is_asked_again(
    clerk: Producer[Any, Any], ledger: EmbeddedKafka, code: int, *, done: bool
) -> None:
    """The error says so; the same call again ends the transaction."""
    if done:
        ledger.faults.alter(lambda answer: answer._replace(error_code=code), api=END_TXN, times=1)
    else:
        ledger.faults.error(code, api=END_TXN, times=1)
    await clerk.begin_transaction()
    assert await all_acked(await put(clerk, b"a"))
    with pytest.raises(TransactionError, match="again"):
        await clerk.abort_transaction()
    assert state(clerk) is State.ABORTING
    await clerk.abort_transaction()
    async with clerk.transaction():
        await put(clerk, b"b")
    assert seen(ledger) == [b"b"]


@pytest.mark.parametrize("call", ["commit_transaction", "abort_transaction", None])
@pytest.mark.parametrize("done", [True, False])
async def test_closing_asks_again_for_an_end_without_a_meaning(
    clerk: Producer[Any, Any], ledger: EmbeddedKafka, call: str | None, *, done: bool
) -> None:
    """No other request would end it: readers of committed records do not wait until the transaction's time is over."""
    if done:
        ledger.faults.alter(lambda answer: answer._replace(error_code=-1), api=END_TXN, times=1)
    else:
        ledger.faults.error(-1, api=END_TXN, times=1)
    await clerk.begin_transaction()
    assert await all_acked(await put(clerk, b"a"))
    if call is not None:
        with pytest.raises(TransactionError, match="did not report"):
            await getattr(clerk, call)()
    await clerk.close()
    assert ledger.last_stable_offset("one", 0) == ledger.high_watermark("one", 0)
    assert seen(ledger) == ([b"a"] if call == "commit_transaction" else [])


async def test_closing_does_not_ask_for_ever(
    clerk: Producer[Any, Any],
    ledger: EmbeddedKafka,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A coordinator that never gives a usable answer leaves the end to the transaction's timeout, and the log says so."""
    monkeypatch.setattr("aioproducer._net.transactions.transactions.PAUSES_AT_CLOSING", (0.0, 0.0))
    ledger.faults.error(-1, api=END_TXN, times=None)
    await clerk.begin_transaction()
    assert await all_acked(await put(clerk, b"a"))
    await clerk.close()
    assert len(asked(ledger, END_TXN)) == 3
    assert "close() could not end the open transaction" in caplog.text


@pytest.mark.parametrize("code", [-1, 999])
@pytest.mark.parametrize("api", ["AddPartitionsToTxn", "AddOffsetsToTxn", "TxnOffsetCommit"])
async def test_a_part_without_a_meaning_is_aborted(
    clerk: Producer[Any, Any], ledger: EmbeddedKafka, api: str, code: int
) -> None:
    """It is unknown whether the part was added: the transaction is aborted, and the next one works."""
    fault = ledger.faults.alter(_all_codes(code), api=api, times=1)
    try:
        async with clerk.transaction(timeout=LIMIT) as tx:
            await put(clerk, b"a")
            tx.send_offsets({("source", 0): 4}, "readers")
    except TransactionAbortedError:
        assert fault.hits == 1
    else:
        assert fault.hits == 0, "a transaction of level 2 asks for no such thing"
    async with clerk.transaction():
        await put(clerk, b"b")
    assert seen(ledger) == ([b"b"] if fault.hits else [b"a", b"b"])


def _all_codes(code: int) -> Any:
    """This code for each partition, or for the whole answer."""

    def changed(value: Any) -> Any:
        if isinstance(value, tuple) and hasattr(value, "_fields"):
            fields = {name: code for name in value._fields if name.endswith("error_code")}
            replaced: Any = type(value)(*map(changed, value))
            return replaced._replace(**fields)
        return [changed(each) for each in value] if isinstance(value, list | tuple) else value

    return changed


@pytest.mark.parametrize("api", ["FindCoordinator", "InitProducerId"])
@pytest.mark.parametrize("code", [-1, 999])
async def test_a_beginning_without_a_meaning_is_repeated(
    make: Make, ledger: EmbeddedKafka, api: str, code: int
) -> None:
    """A repetition does no harm; a caller waits for it no longer than its time."""
    ledger.faults.error(code, api=api, times=2)
    producer = make(ledger, transactional_id=NAME)
    await producer.start()
    await producer.init_transactions()
    always = ledger.faults.error(code, api=api, times=None)
    other = make(ledger, transactional_id="another")
    await other.start()
    first = asyncio.ensure_future(other.init_transactions())
    # The second request: the first answer has been understood.
    await always.reached(2)
    with pytest.raises(TransactionTimeoutError) as caught:
        await other.init_transactions(timeout=0.01)
    assert isinstance(caught.value.cause, BrokerError)
    always.heal()
    await first
    await other.init_transactions()


async def test_an_identity_that_is_none(make: Make, ledger: EmbeddedKafka) -> None:
    """A producer id of -1 without an error would be written without numbers: it is requested again."""
    ledger.faults.alter(lambda answer: answer._replace(producer_id=-1), api="InitProducerId", times=2)
    producer = make(ledger)
    await producer.start()
    await producer.send_and_wait("one", b"a", partition=0)
    assert {batch.producer_id for one in asked(ledger, "Produce") for batch in one.batches}.isdisjoint({-1})


async def test_versions_that_are_missing_once(make: Make, ledger: EmbeddedKafka) -> None:
    """A list of versions without EndTxn is believed when a coordinator has sent it twice."""
    without_end = ledger.faults.alter(
        lambda answer: answer._replace(api_keys=[one for one in answer.api_keys if one.api_key != 26]),
        api="ApiVersions",
        times=None,
    )
    producer = make(ledger, transactional_id=NAME)
    await producer.start()
    await producer.init_transactions()
    await producer.begin_transaction()
    assert await all_acked(await put(producer, b"a"))
    without_end.heal()
    await producer.commit_transaction()
    assert seen(ledger) == [b"a"]


# -- lists


async def test_brokers_filter_by_the_prefix(clerk: Producer[Any, Any], ledger: EmbeddedKafka) -> None:
    """Brokers of today apply the filter to any prefix."""
    await clerk.fence(["a.b-1", "a.b-2 é", "axb-1", "(a", "a"])
    answers: list[Any] = []

    def noted(answer: Any) -> Any:
        answers.append(answer)
        return answer

    ledger.faults.alter(noted, api="ListTransactions", times=3)
    assert [one.transactional_id for one in await clerk.list_transactions("a.b-")] == ["a.b-1", "a.b-2 é"]
    assert sum(len(answer.transaction_states) for answer in answers) == 2
    assert [one.transactional_id for one in await clerk.list_transactions("(a")] == ["(a"]
    assert pattern_of("a.b-") == r"(?s)a\.b\-.*"
    assert pattern_of("") is None


@pytest.mark.parametrize("version", [0, 1, 2])
async def test_long_lists(clerk: Producer[Any, Any], ledger: EmbeddedKafka, version: int) -> None:
    """Older brokers list all transactions in one answer, which may be longer than any other."""
    ledger.limit_version("ListTransactions", 0, version)
    many = [TransactionState("x" * 30_000 + str(number), number, "Empty") for number in range(700)]
    ledger.faults.alter(
        lambda answer: answer._replace(transaction_states=[*many, *answer.transaction_states]),
        api="ListTransactions",
        times=1,
    )
    listed = await list_transactions(NAME, ledger.bootstrap_servers, timeout=LIMIT)
    assert [one.transactional_id for one in listed] == [NAME]


async def test_a_cluster_without_brokers_has_not_answered(
    clerk: Producer[Any, Any], ledger: EmbeddedKafka
) -> None:
    """An empty list would mean that there are no orphans."""
    ledger.faults.alter(without("brokers"), api="Metadata", times=2)
    assert [one.transactional_id for one in await clerk.list_transactions()] == [NAME]
    ledger.faults.alter(without("brokers"), api="Metadata", times=None)
    with pytest.raises(TransactionTimeoutError) as caught:
        await clerk.list_transactions(timeout=SOON)
    assert "names no broker" in str(caught.value.cause)

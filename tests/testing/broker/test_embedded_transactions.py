"""Transactions of the embedded Kafka: the faults that a test injects, and the results that it inspects."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from aioproducer._wire.error_codes import ErrorCode
from aioproducer._wire.messages.api_versions import ApiVersionsRequest
from aioproducer._wire.messages.end_txn import EndTxnRequest
from aioproducer._wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from aioproducer._wire.messages.find_coordinator import FindCoordinatorRequest
from aioproducer._wire.messages.init_producer_id import InitProducerIdRequest
from aioproducer._wire.messages.list_transactions import ListTransactionsRequest
from aioproducer._wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from aioproducer._wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from aioproducer._wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from aioproducer.testing import EmbeddedKafka, TransactionView
from aioproducer.testing.broker.logs.batches import TRANSACTIONAL
from aioproducer.testing.broker.logs.records import write_batch
from tests.contract.batches import NOW, plain, records
from tests.contract.client import WireClient
from tests.contract.transactions.transacting import (
    BUMPING_END,
    IMPLICIT,
    TRANSACTION,
    Member,
    Transactor,
    Who,
)


@pytest.fixture
async def transactor(client: WireClient) -> Transactor:
    """The transactional id "x", initialized, which writes to the topic "t"."""
    made = Transactor(client, "x", "t")
    await made.init()
    return made


async def begin(transactor: Transactor, count: int = 1) -> None:
    """Open a transaction by writing."""
    assert (await transactor.write(count, version=IMPLICIT))[0] == 0


def offsets(kafka: EmbeddedKafka, isolation: Any = "read_committed") -> list[int]:
    """The offsets of the records of partition 0."""
    return [record.offset for record in kafka.records("t", 0, isolation)]


async def end_now(transactor: Transactor, *, commit: bool = True, version: int = BUMPING_END) -> int:
    """The answer of EndTxn to one request."""
    answer = await transactor.client.ask(EndTxnRequest(transactor.id, *transactor.who, commit), version)
    code: int = answer.error_code
    return code


def long_poll(kafka: EmbeddedKafka) -> FetchRequest:
    """A fetch of committed records with a long wait."""
    asked = FetchTopic("", kafka.topic_id("t"), [FetchPartition(0, -1, 0, partition_max_bytes=9999)])
    return FetchRequest(max_wait_ms=30_000, min_bytes=1, max_bytes=9999, isolation_level=1, topics=[asked])


# ----- inspection


async def test_records_are_those_that_a_reader_sees(kafka: EmbeddedKafka, transactor: Transactor) -> None:
    """The default is committed records; read_uncommitted shows all. Markers are never among them, and take offsets."""
    await begin(transactor, 2)
    await transactor.client.produce("t", plain())
    assert (offsets(kafka), offsets(kafka, "read_uncommitted")) == ([], [0, 1, 2])
    assert (kafka.last_stable_offset("t"), kafka.high_watermark("t")) == (0, 3)
    await transactor.finish(commit=False, version=BUMPING_END)
    assert (offsets(kafka), offsets(kafka, "read_uncommitted")) == ([2], [0, 1, 2])
    assert (kafka.last_stable_offset("t"), kafka.high_watermark("t")) == (4, 4)


async def test_topics_may_be_named_by_id(kafka: EmbeddedKafka, transactor: Transactor) -> None:
    """Produce 13 adds the partition of that topic."""
    batch = write_batch(records(1), producer_id=0, epoch=0, sequence=0, attributes=TRANSACTIONAL)
    data = TopicProduceData("", kafka.topic_id("t"), [PartitionProduceData(1, batch)])
    request = ProduceRequest(transactor.id, -1, 10_000, [data])
    assert (await transactor.client.only_answer(request, 13)).error_code == 0
    [topic] = (await transactor.describe()).topics
    assert (topic.topic, list(topic.partitions)) == ("t", [1])


async def test_a_transaction_can_be_looked_at(kafka: EmbeddedKafka, transactor: Transactor) -> None:
    """A test reads the state of the transaction, its producer, and its partitions."""
    assert kafka.transaction("nobody") is None
    producer_id = transactor.who.producer_id
    assert kafka.transaction("x") == TransactionView("Empty", producer_id, 0, ())
    await begin(transactor)
    assert kafka.transaction("x") == TransactionView("Ongoing", producer_id, 0, (("t", 0),))
    await transactor.finish(version=BUMPING_END)
    assert kafka.transaction("x") == TransactionView("CompleteCommit", producer_id, 1, ())


async def test_committed_offsets_can_be_looked_at(kafka: EmbeddedKafka, transactor: Transactor) -> None:
    """There are no offsets before the transaction is committed."""
    assert await transactor.commit_offset("g", 7, version=5) == 0
    assert kafka.committed_offset("g", "t") is None
    await transactor.finish(version=BUMPING_END)
    assert kafka.committed_offset("g", "t") == 7
    assert kafka.committed_offset("nobody", "t") is None


async def test_the_later_of_two_offsets_is_in_force(kafka: EmbeddedKafka, transactor: Transactor) -> None:
    """A plain offset commit after the transactional one wins, also if the transaction is committed after it."""
    assert await transactor.commit_offset("g", 7, version=5) == 0
    topic = OffsetCommitRequestTopic("t", bytes(16), [OffsetCommitRequestPartition(0, 9, -1, "")])
    answer = await transactor.client.ask(OffsetCommitRequest("g", topics=[topic]), 9)
    assert answer.topics[0].partitions[0].error_code == 0
    await transactor.finish(version=BUMPING_END)
    assert kafka.committed_offset("g", "t") == 9


@pytest.mark.parametrize("level", [1, 2])
async def test_the_transaction_version_can_be_changed(
    kafka: EmbeddedKafka, client: WireClient, level: int
) -> None:
    """ApiVersions announces the new level under a higher epoch; the versions in use stay the same."""
    before = await client.ask(ApiVersionsRequest("test", "1"), 4)
    kafka.set_transaction_version(level)
    after = await client.ask(ApiVersionsRequest("test", "1"), 4)
    assert [tuple(one) for one in after.finalized_features] == [("transaction.version", level, level)]
    assert after.finalized_features_epoch == before.finalized_features_epoch + 1
    assert list(after.api_keys) == list(before.api_keys)


# ----- delayed markers


async def test_markers_can_be_held_back(kafka: EmbeddedKafka, transactor: Transactor) -> None:
    """The commit is answered; the next transaction and readers wait for the markers."""
    await begin(transactor)
    fault = kafka.faults.delay_markers()
    assert await end_now(transactor) == 0
    answer = await transactor.client.ask(InitProducerIdRequest("x", 1000), 5)
    assert (answer.error_code, offsets(kafka)) == (ErrorCode.CONCURRENT_TRANSACTIONS, [])
    assert await end_now(transactor) == ErrorCode.CONCURRENT_TRANSACTIONS
    fault.release()
    assert offsets(kafka) == [0]
    assert await end_now(transactor) == 0


@pytest.mark.parametrize(
    ("version", "code"), [(11, ErrorCode.NOT_ENOUGH_REPLICAS), (12, ErrorCode.CONCURRENT_TRANSACTIONS)]
)
async def test_the_next_transaction_waits_for_the_markers(
    kafka: EmbeddedKafka, transactor: Transactor, version: int, code: ErrorCode
) -> None:
    """Writers get a retriable error; old versions get a code that old producers know."""
    await begin(transactor)
    fault = kafka.faults.delay_markers()
    assert await end_now(transactor) == 0
    batch = write_batch(records(1), producer_id=0, epoch=1, sequence=0, attributes=TRANSACTIONAL)
    data = [TopicProduceData("t", bytes(16), [PartitionProduceData(0, batch)])]
    request = ProduceRequest("x", -1, 10_000, data)
    assert (await transactor.client.only_answer(request, version)).error_code == code
    offset = [TxnOffsetCommitRequestTopic("t", [TxnOffsetCommitRequestPartition(0, 7)])]
    commit = TxnOffsetCommitRequest("x", "g", 0, 1, topics=offset)
    answer = await transactor.client.ask(commit, 5)
    assert answer.topics[0].partitions[0].error_code == ErrorCode.CONCURRENT_TRANSACTIONS
    fault.release()
    assert (await transactor.client.only_answer(request, 12)).error_code == 0


async def test_a_late_write_gets_into_a_transaction_without_markers(
    kafka: EmbeddedKafka, transactor: Transactor
) -> None:
    """As on a real Kafka: a transaction may be handed on only after the last acknowledgement."""
    await begin(transactor)
    with kafka.faults.delay_markers():
        assert await end_now(transactor) == 0
        assert await transactor.write(version=IMPLICIT) == (0, 1)
    assert offsets(kafka) == [0, 1]


async def test_a_waiting_reader_is_woken_by_the_markers(kafka: EmbeddedKafka, transactor: Transactor) -> None:
    """A long poll for committed records is answered as soon as they are committed."""
    await begin(transactor, 2)
    fault = kafka.faults.delay_markers()
    async with WireClient(kafka.bootstrap_servers) as reader:
        waiting = asyncio.create_task(reader.ask(long_poll(kafka), 17))
        assert await end_now(transactor) == 0
        fault.release()
        part = (await waiting).responses[0].partitions[0]
    assert (part.last_stable_offset, len(part.records) > 0) == (3, True)


async def test_a_partition_without_a_leader_waits_for_its_marker(
    kafka: EmbeddedKafka, transactor: Transactor
) -> None:
    """The other partitions get their markers; the transaction is complete when the partition has a leader again."""
    for partition in (0, 1):
        assert (await transactor.write(version=IMPLICIT, partition=partition))[0] == 0
    kafka.faults.move_leader("t", 0, -1)
    assert await end_now(transactor) == 0
    described = await transactor.describe()
    assert described.transaction_state == "PrepareCommit"
    assert [list(topic.partitions) for topic in described.topics] == [[0]]
    assert [len(kafka.records("t", partition)) for partition in (0, 1)] == [0, 1]
    kafka.faults.move_leader("t", 0, 1)
    assert offsets(kafka) == [0]
    assert (await transactor.describe()).transaction_state == "CompleteCommit"


async def test_the_history_tells_of_transactions(kafka: EmbeddedKafka, transactor: Transactor) -> None:
    """The history has the transactional id of each request, and whether it commits."""
    kafka.forget_requests()
    await transactor.add()
    await transactor.write()
    await transactor.finish(commit=False)
    add, write, end, _ = kafka.requests
    assert (add.transactional_id, write.transactional_id, end.transactional_id) == ("x", "x", "x")
    assert (write.batches[0].transactional, end.commits, write.commits) == (True, False, None)
    assert end.summary == "EndTxn v4 x abort"


async def test_a_waiting_reader_gets_on_when_a_transaction_runs_out_of_time(kafka: EmbeddedKafka) -> None:
    """The reader's long poll ends with the transaction's time, and returns the records behind it."""
    async with WireClient(kafka.bootstrap_servers) as client, WireClient(kafka.bootstrap_servers) as reader:
        transactor = Transactor(client, "short", "t")
        await transactor.init(timeout_ms=50)
        await begin(transactor)
        await client.produce("t", plain())
        part = (await reader.ask(long_poll(kafka), 17)).responses[0].partitions[0]
    assert (part.last_stable_offset, len(part.aborted_transactions), len(part.records) > 0) == (3, 1, True)


async def test_fencing_can_be_held_back(kafka: EmbeddedKafka, transactor: Transactor) -> None:
    """The markers of an abort by init are delayed as well."""
    await begin(transactor)
    fault = kafka.faults.delay_markers(api="InitProducerId")
    request = InitProducerIdRequest("x", 1000)
    answers = [await transactor.client.ask(request, 5) for _ in range(3)]
    assert [one.error_code for one in answers] == [ErrorCode.CONCURRENT_TRANSACTIONS] * 3
    assert (await transactor.describe()).transaction_state == "PrepareAbort"
    fault.release()
    assert (await transactor.client.ask(request, 5)).producer_epoch == 2


async def test_a_fault_may_end_the_transaction_and_say_otherwise(
    kafka: EmbeddedKafka, transactor: Transactor
) -> None:
    """With `append=True` the transaction is committed; without it, it is not."""
    await begin(transactor)
    kafka.faults.error("REQUEST_TIMED_OUT", api="EndTxn")
    assert (await end_now(transactor), offsets(kafka)) == (ErrorCode.REQUEST_TIMED_OUT, [])
    kafka.faults.error("REQUEST_TIMED_OUT", api="EndTxn", append=True)
    assert (await end_now(transactor), offsets(kafka)) == (ErrorCode.REQUEST_TIMED_OUT, [0])


@pytest.mark.parametrize(("before", "seen"), [(True, []), (False, [0])])
async def test_the_answer_to_an_end_can_be_lost(
    kafka: EmbeddedKafka, transactor: Transactor, before: bool, seen: list[int]
) -> None:
    """The connection ends before or after the commit."""
    await begin(transactor)
    kafka.faults.cut(api="EndTxn", before=before)
    transactor.client.send(EndTxnRequest("x", *transactor.who, True), 5)
    assert await transactor.client.rest() == b""
    assert offsets(kafka) == seen


async def test_one_of_many_partitions_can_be_denied(kafka: EmbeddedKafka, transactor: Transactor) -> None:
    """The other partitions are not attempted."""
    kafka.faults.error("TOPIC_AUTHORIZATION_FAILED", api="AddPartitionsToTxn", topic="t", partition=1)
    assert await transactor.add(0, 1) == {0: ErrorCode.OPERATION_NOT_ATTEMPTED, 1: 29}
    assert await transactor.add(0, 1) == {0: 0, 1: 0}


@pytest.mark.parametrize("api", ["InitProducerId", "AddOffsetsToTxn", "ListTransactions"])
async def test_every_transactional_api_can_be_refused(
    kafka: EmbeddedKafka, transactor: Transactor, api: str
) -> None:
    """Each API can be refused with any error."""
    kafka.faults.error(53, api=api, times=None)
    requests = {
        "InitProducerId": (InitProducerIdRequest("x", 1000), 5),
        "ListTransactions": (ListTransactionsRequest(), 2),
    }
    if api == "AddOffsetsToTxn":
        assert await transactor.add_group("g") == 53
    else:
        assert (await transactor.client.ask(*requests[api])).error_code == 53


# ----- time


class Hands:
    """A clock that the test moves."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
async def slow() -> AsyncIterator[tuple[EmbeddedKafka, Hands, Transactor]]:
    """A Kafka whose time the test moves, and a transactor."""
    clock = Hands()
    async with (
        EmbeddedKafka(clock=clock, wall_clock=lambda: NOW + int(clock() * 1000)) as kafka,
        WireClient(kafka.bootstrap_servers) as client,
    ):
        kafka.create_topic("t")
        made = Transactor(client, "x", "t")
        await made.init(timeout_ms=5_000)
        yield kafka, clock, made


async def test_an_open_transaction_ends_with_its_time(slow: tuple[EmbeddedKafka, Hands, Transactor]) -> None:
    """Readers continue without any request of the transaction's producer."""
    kafka, clock, transactor = slow
    assert (await transactor.write(version=IMPLICIT))[0] == 0
    clock.now = 4.9
    assert kafka.last_stable_offset("t") == 0
    clock.now = 5.0
    assert (kafka.last_stable_offset("t"), offsets(kafka)) == (2, [])
    assert await end_now(transactor) == ErrorCode.INVALID_TXN_STATE


async def test_the_time_of_a_transaction_is_told(slow: tuple[EmbeddedKafka, Hands, Transactor]) -> None:
    """The start is wall-clock time, taken at the first partition."""
    _, clock, transactor = slow
    clock.now = 2.0
    await transactor.add()
    assert (await transactor.describe()).transaction_start_time_ms == NOW + 2_000


async def test_a_new_coordinator_loads_for_a_while(slow: tuple[EmbeddedKafka, Hands, Transactor]) -> None:
    """The coordinator answers COORDINATOR_LOAD_IN_PROGRESS until its time is over; writers get a retriable error."""
    kafka, clock, transactor = slow
    await transactor.add()
    kafka.faults.move_coordinator("x", 1, loading=3.0)
    assert await end_now(transactor) == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    batch = write_batch(records(1), producer_id=0, epoch=0, sequence=0, attributes=TRANSACTIONAL)
    request = ProduceRequest(
        "x", -1, 10_000, [TopicProduceData("t", bytes(16), [PartitionProduceData(0, batch)])]
    )
    assert (await transactor.client.only_answer(request, 11)).error_code == ErrorCode.NOT_ENOUGH_REPLICAS
    clock.now = 3.0
    assert (await transactor.client.only_answer(request, 11)).error_code == 0
    assert await end_now(transactor) == 0


# ----- coordinators


async def _coordinator(client: WireClient, key: str, kind: int = TRANSACTION) -> int:
    answer = await client.ask(FindCoordinatorRequest(key_type=kind, coordinator_keys=[key]), 6)
    node_id: int = answer.coordinators[0].node_id
    return node_id


async def test_a_coordinator_moves_with_all_it_knows(three: EmbeddedKafka) -> None:
    """The old coordinator answers NOT_COORDINATOR; the new one continues the transaction."""
    old = three.coordinator_of("x")
    new = old % 3 + 1
    async with (
        WireClient(three.brokers[old - 1].address) as before,
        WireClient(three.brokers[new - 1].address) as after,
    ):
        assert await _coordinator(before, "x") == old
        transactor = Transactor(before, "x", "t")
        await transactor.init()
        await transactor.add()
        three.faults.move_coordinator("x", new)
        assert await _coordinator(before, "x") == new
        assert await end_now(transactor) == ErrorCode.NOT_COORDINATOR
        assert (await before.ask(InitProducerIdRequest("x", 1000), 5)).error_code == ErrorCode.NOT_COORDINATOR
        transactor.client = after
        assert await end_now(transactor) == 0
        assert [
            one.transactional_id for one in (await after.ask(ListTransactionsRequest(), 2)).transaction_states
        ] == ["x"]
        assert list((await before.ask(ListTransactionsRequest(), 2)).transaction_states) == []


async def test_a_coordinator_that_went_down_is_replaced(three: EmbeddedKafka) -> None:
    """Another broker continues the transaction, and the first broker when it is back."""
    first = three.coordinator_of("x")
    async with WireClient(three.brokers[first - 1].address) as client:
        who = await Transactor(client, "x", "t").init()
    await three.faults.stop_broker(first)
    second = three.coordinator_of("x")
    assert second not in (first, -1)
    async with WireClient(three.brokers[second - 1].address) as client:
        transactor = Transactor(client, "x", "t")
        transactor.take(who)
        assert await transactor.add() == {0: 0}
    await three.faults.start_broker(first)
    async with WireClient(three.brokers[first - 1].address) as client:
        transactor.client = client
        assert await end_now(transactor) == 0


async def test_no_broker_is_no_coordinator(three: EmbeddedKafka) -> None:
    """Without a coordinator the node id is -1."""
    for broker in (1, 2, 3):
        await three.faults.stop_broker(broker)
    assert three.coordinator_of("x") == -1


async def test_offsets_go_to_the_coordinator_of_the_group(three: EmbeddedKafka) -> None:
    """The transaction coordinator refuses offset commits, unless it also coordinates the group."""
    three.faults.move_coordinator("x", 1)
    three.faults.move_coordinator("g", 2)
    async with (
        WireClient(three.brokers[0].address) as one,
        WireClient(three.brokers[1].address) as two,
    ):
        transactor = Transactor(one, "x", "t")
        await transactor.init()
        offset = [TxnOffsetCommitRequestTopic("t", [TxnOffsetCommitRequestPartition(0, 7)])]
        request = TxnOffsetCommitRequest("x", "g", *transactor.who, topics=offset)
        refused = (await one.ask(request, 5)).topics[0].partitions[0]
        assert refused.error_code == ErrorCode.NOT_COORDINATOR
        transactor.client = two
        assert await transactor.commit_offset("g", 7, version=5) == 0
        transactor.client = one
        assert await end_now(transactor) == 0
    assert three.committed_offset("g", "t") == 7


# ----- groups with members


@pytest.mark.parametrize(
    ("member", "code"),
    [
        (Member(), ErrorCode.NONE),
        (Member(4, "plain"), ErrorCode.NONE),
        (Member(4, "static", "instance"), ErrorCode.NONE),
        (Member(3, "plain"), ErrorCode.ILLEGAL_GENERATION),
        (Member(4, "stranger"), ErrorCode.UNKNOWN_MEMBER_ID),
        (Member(4, "stranger", "instance"), ErrorCode.FENCED_INSTANCE_ID),
        (Member(4, "plain", "nobody"), ErrorCode.UNKNOWN_MEMBER_ID),
    ],
)
async def test_members_are_checked(
    kafka: EmbeddedKafka, transactor: Transactor, member: Member, code: ErrorCode
) -> None:
    """The test sets the members of a group; a commit without a member is accepted (KIP-447)."""
    kafka.set_group("g", 4, {"plain": None, "static": "instance"})
    assert await transactor.commit_offset("g", 7, version=5, member=member) == code


async def test_an_empty_group_takes_offsets_without_a_generation(
    kafka: EmbeddedKafka, transactor: Transactor
) -> None:
    """An empty group accepts a commit without a generation, and refuses any other."""
    kafka.set_group("g", 4)
    assert await transactor.commit_offset("g", 7, version=5) == 0
    member = Member(4, "gone")
    assert await transactor.commit_offset("g", 7, version=5, member=member) == ErrorCode.UNKNOWN_MEMBER_ID


async def test_a_fenced_producer_commits_no_offsets(kafka: EmbeddedKafka, transactor: Transactor) -> None:
    """The commit is refused also while the producer's earlier offsets are pending."""
    old = transactor.who
    assert await transactor.commit_offset("g", 7, version=5) == 0
    await transactor.init()
    assert await transactor.commit_offset("g", 8, version=5, who=old) == ErrorCode.INVALID_PRODUCER_EPOCH
    assert (
        await transactor.commit_offset("g", 9, version=5, who=Who(99, 0))
        == ErrorCode.INVALID_PRODUCER_ID_MAPPING
    )
    assert kafka.committed_offset("g", "t") is None

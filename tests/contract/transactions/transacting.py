"""A transactional producer of few lines, for the contract tests, that can be made to say wrong things."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from aioproducer._wire.error_codes import ErrorCode
from aioproducer._wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from aioproducer._wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from aioproducer._wire.messages.describe_transactions import DescribeTransactionsRequest, TransactionState
from aioproducer._wire.messages.end_txn import EndTxnRequest, EndTxnResponse
from aioproducer._wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic, PartitionData
from aioproducer._wire.messages.find_coordinator import FindCoordinatorRequest
from aioproducer._wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from aioproducer._wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponsePartitions,
)
from aioproducer._wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from aioproducer._wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from aioproducer.testing.broker.logs.batches import CONTROL, TRANSACTIONAL, read_header
from aioproducer.testing.broker.logs.records import parse_batch, split_batches, write_batch
from tests.contract.batches import records
from tests.contract.client import WireClient, until

GROUP, TRANSACTION = 0, 1
ADDED, IMPLICIT = 11, 12
"""Produce versions: the partition was added by a request of its own, or is added by being written to."""
PLAIN_END, BUMPING_END = 4, 5
"""EndTxn versions."""
_NOT_READY: Final = (
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
)
_BUSY: Final = (*_NOT_READY, ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.NOT_ENOUGH_REPLICAS)


class Who(NamedTuple):
    """A producer's identity."""

    producer_id: int
    epoch: int


NOBODY = Who(-1, -1)


class Member(NamedTuple):
    """The member of a group that commits offsets."""

    generation: int = -1
    member_id: str = ""
    instance_id: str | None = None


NO_MEMBER = Member()


class Transactor:
    """One transactional id that writes to one topic. It keeps its identity and sequence numbers, as a producer does."""

    def __init__(self, client: WireClient, transactional_id: str, topic: str) -> None:
        self.client, self.id, self.topic = client, transactional_id, topic
        self.who = NOBODY
        self._sequences: dict[int, int] = {}

    # ----- identity

    async def init(self, timeout_ms: int = 60_000) -> Who:
        """A new identity, however long the coordinator needs."""
        find = FindCoordinatorRequest(key_type=TRANSACTION, coordinator_keys=[self.id])
        await until(lambda: self.client.ask(find, 6), lambda answer: answer.coordinators[0].error_code == 0)
        answer = await until(lambda: self.ask_init(timeout_ms), lambda answer: answer.error_code not in _BUSY)
        assert answer.error_code == 0, answer
        return self.take(Who(answer.producer_id, answer.producer_epoch))

    async def ask_init(
        self, timeout_ms: int = 60_000, expected: Who = NOBODY, version: int = 5
    ) -> InitProducerIdResponse:
        """The response to InitProducerId, once the coordinator has loaded its state."""
        request = InitProducerIdRequest(self.id, timeout_ms, *expected)
        answer: InitProducerIdResponse = await until(
            lambda: self.client.ask(request, version), lambda answer: answer.error_code not in _NOT_READY
        )
        return answer

    def take(self, who: Who) -> Who:
        """Go on under another identity, with new sequences."""
        self.who = who
        self._sequences.clear()
        return who

    # ----- writing

    async def add(self, *partitions: int, who: Who | None = None, version: int = 3) -> dict[int, int]:
        """The error code of AddPartitionsToTxn for each partition."""
        request = AddPartitionsToTxnRequest(
            (), self.id, *(who or self.who), [AddPartitionsToTxnTopic(self.topic, partitions or (0,))]
        )
        answer = await until(lambda: self.client.ask(request, version), _is_not_busy)
        [topic] = answer.results_by_topic_v3_and_below
        return {one.partition_index: one.partition_error_code for one in topic.results_by_partition}

    async def write(
        self, count: int = 1, *, version: int = ADDED, partition: int = 0, who: Who | None = None,
        sequence: int | None = None, transactional: bool = True,
    ) -> tuple[int, int]:  # fmt: skip
        """Error and offset of the next batch."""
        who = who or self.who
        first = self._sequences.get(partition, 0) if sequence is None else sequence
        batch = write_batch(
            records(count), producer_id=who.producer_id, epoch=who.epoch, sequence=first,
            attributes=TRANSACTIONAL if transactional else 0,
        )  # fmt: skip
        data = TopicProduceData(self.topic, bytes(16), [PartitionProduceData(partition, batch)])
        request = ProduceRequest(self.id, -1, 10_000, [data])
        answer = await until(
            lambda: self.client.only_answer(request, version), lambda one: one.error_code not in _BUSY
        )
        if answer.error_code == 0:
            self._sequences[partition] = first + count
        return answer.error_code, answer.base_offset

    async def add_and_write(self, count: int = 1) -> None:
        """A batch in the way of version 1, which must succeed."""
        assert await self.add() == {0: 0}
        error, _ = await self.write(count)
        assert error == 0

    # ----- offsets of groups

    async def add_group(self, group: str, version: int = 4) -> int:
        """The error code of AddOffsetsToTxn."""
        request = AddOffsetsToTxnRequest(self.id, *self.who, group)
        answer = await until(
            lambda: self.client.ask(request, version), lambda one: one.error_code not in _BUSY
        )
        code: int = answer.error_code
        return code

    async def commit_offset(
        self, group: str, offset: int, *, version: int = 4, who: Who | None = None, member: Member = NO_MEMBER,
        metadata: str = "note", topic: str | None = None,
    ) -> int:  # fmt: skip
        """The error code of TxnOffsetCommit for partition 0."""
        find = FindCoordinatorRequest(key_type=GROUP, coordinator_keys=[group])
        await until(lambda: self.client.ask(find, 6), lambda answer: answer.coordinators[0].error_code == 0)
        one = TxnOffsetCommitRequestPartition(0, offset, -1, metadata)
        asked = [TxnOffsetCommitRequestTopic(self.topic if topic is None else topic, [one])]
        request = TxnOffsetCommitRequest(
            self.id, group, *(who or self.who), member.generation, member.member_id, member.instance_id, asked
        )
        answer = await until(
            lambda: self.client.ask(request, version), lambda answer: _of_group(answer) not in _BUSY
        )
        return _of_group(answer)

    # ----- the end

    async def ask_end(self, *, commit: bool, version: int, who: Who | None = None) -> EndTxnResponse:
        """The response to EndTxn, once no earlier end is in progress."""
        request = EndTxnRequest(self.id, *(who or self.who), commit)
        answer: EndTxnResponse = await until(
            lambda: self.client.ask(request, version), lambda answer: answer.error_code not in _BUSY
        )
        return answer

    async def end(self, *, commit: bool = True, version: int = PLAIN_END, who: Who | None = None) -> int:
        """The error of EndTxn."""
        return (await self.ask_end(commit=commit, version=version, who=who)).error_code

    async def finish(self, *, commit: bool = True, version: int = PLAIN_END) -> None:
        """End it, which must succeed, and wait until all markers are written."""
        assert await self.end(commit=commit, version=version) == 0
        await self.complete()

    async def complete(self) -> str:
        """Wait until all markers are written; the state then."""
        described = await until(self.describe, lambda one: one.transaction_state.startswith("Complete"))
        return described.transaction_state

    async def describe(self) -> TransactionState:
        """The state of the transaction, from DescribeTransactions."""
        answer = await self.client.ask(DescribeTransactionsRequest([self.id]), 0)
        [described] = answer.transaction_states
        assert isinstance(described, TransactionState)
        return described


def _is_not_busy(answer: Any) -> bool:
    return all(
        one.partition_error_code not in _BUSY
        for topic in answer.results_by_topic_v3_and_below
        for one in topic.results_by_partition
    )


def _of_group(answer: Any) -> int:
    code: int = answer.topics[0].partitions[0].error_code
    return code


class Seen(NamedTuple):
    """The records and offsets that a reader gets of a partition."""

    offsets: list[int]
    """Of records that are no markers and were not aborted."""
    stable: int
    end: int
    aborted: list[tuple[int, int]] | None


async def fetch(
    client: WireClient, topic_id: bytes, *, committed: bool = True, offset: int = 0
) -> PartitionData:
    """The answer for partition 0, from an offset on."""
    asked = FetchTopic("", topic_id, [FetchPartition(0, -1, offset, partition_max_bytes=100_000)])
    request = FetchRequest(
        max_wait_ms=0, min_bytes=1, max_bytes=100_000, isolation_level=int(committed), topics=[asked]
    )
    part = (await client.ask(request, 17)).responses[0].partitions[0]
    assert isinstance(part, PartitionData)
    assert part.error_code == 0
    return part


async def read(client: WireClient, topic_id: bytes, *, committed: bool = True) -> Seen:
    """The records and offsets that a consumer takes from the answer for partition 0."""
    part = await fetch(client, topic_id, committed=committed)
    hidden = {one.producer_id: one.first_offset for one in part.aborted_transactions or ()}
    offsets = []
    for batch in split_batches(part.records or b""):
        header = read_header(batch)
        if header.attributes & CONTROL:
            hidden.pop(header.producer_id, None)
        elif header.base_offset < hidden.get(header.producer_id, header.base_offset + 1):
            offsets += [record.offset for record in parse_batch("", 0, batch)]
    aborted = part.aborted_transactions
    listed = None if aborted is None else [(one.producer_id, one.first_offset) for one in aborted]
    return Seen(offsets, part.last_stable_offset, part.high_watermark, listed)


async def read_offset(
    client: WireClient, group: str, topic: str, *, stable: bool = False
) -> OffsetFetchResponsePartitions:
    """The answer of OffsetFetch for partition 0."""
    asked = OffsetFetchRequestGroup(group, topics=[OffsetFetchRequestTopics(topic, partition_indexes=[0])])
    request = OffsetFetchRequest(groups=[asked], require_stable=stable)
    answer = await until(
        lambda: client.ask(request, 9), lambda answer: answer.groups[0].error_code not in _NOT_READY
    )
    part = answer.groups[0].topics[0].partitions[0]
    assert isinstance(part, OffsetFetchResponsePartitions)
    return part

"""What is asked of coordinators about one transaction: each question in the protocol that it was begun in.

An answer is given as its code, or whole where more of it is needed; what a code means is decided elsewhere.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any, TypeVar

import attrs

from aioproducer._net.transactions.coordinator import leaves_out
from aioproducer._state.transactions.parts import Place
from aioproducer._state.transactions.requests import (
    taken_offsets,
    to_add_partitions,
    to_commit_offsets,
    worst_of_partitions,
)
from aioproducer._state.transactions.versions import version_for
from aioproducer._wire.apis import (
    ADD_OFFSETS,
    ADD_PARTITIONS,
    COMMIT_OFFSETS,
    END_TXN,
    INIT_PRODUCER_ID,
)
from aioproducer._wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from aioproducer._wire.messages.add_partitions_to_txn import AddPartitionsToTxnResponse
from aioproducer._wire.messages.end_txn import EndTxnRequest, EndTxnResponse
from aioproducer._wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from aioproducer._wire.messages.txn_offset_commit import TxnOffsetCommitResponse
from aioproducer.errors import ProtocolError
from aioproducer.records import GroupMetadata, OffsetAndMetadata, TopicPartition

if TYPE_CHECKING:
    from aioproducer._net.connecting.connection import Connection

R = TypeVar("R", bound="tuple[Any, ...]")

RECOVERS_FROM = 3
MEMBERS_FROM = 3
NOBODY = (-1, -1)


@attrs.frozen
class TransactionRequests:
    """Who has a transaction open, and in which protocol; `timeout` is for one answer."""

    transactional_id: str
    producer_id: int
    epoch: int
    level: int
    timeout: float

    async def add_partitions(self, connection: Connection, places: Collection[Place]) -> int:
        """Records will be written there (level 1)."""
        question = to_add_partitions(self.transactional_id, (self.producer_id, self.epoch), places)
        answer = await self._ask(connection, question, AddPartitionsToTxnResponse, ADD_PARTITIONS)
        code = worst_of_partitions(answer, places)
        if code is None:
            raise leaves_out(connection, "AddPartitionsToTxn")
        return code

    async def add_group(self, connection: Connection, group: str) -> int:
        """Offsets of this group will be committed (level 1)."""
        question = AddOffsetsToTxnRequest(self.transactional_id, self.producer_id, self.epoch, group)
        return (await self._ask(connection, question, AddOffsetsToTxnResponse, ADD_OFFSETS)).error_code

    async def commit_offsets(
        self, connection: Connection, group: GroupMetadata, left: dict[TopicPartition, OffsetAndMetadata]
    ) -> int:
        """Offsets that are visible once the transaction is committed; those that were taken are `left` no more."""
        version = version_for(connection.versions, COMMIT_OFFSETS, self.level)
        if version < MEMBERS_FROM and group != GroupMetadata(group.group_id):
            text = "the broker cannot tell members of a group from zombies: give the group id alone"
            raise ProtocolError(text, broker=connection.broker)
        question = to_commit_offsets(self.transactional_id, (self.producer_id, self.epoch), group, left)
        answer = await self._ask(connection, question, TxnOffsetCommitResponse, COMMIT_OFFSETS)
        code, taken = taken_offsets(answer, left)
        for place in taken:
            del left[place]
        if code is None:
            raise leaves_out(connection, "TxnOffsetCommit")
        return code

    async def end(self, connection: Connection, *, committed: bool) -> EndTxnResponse:
        """Commit or abort it; on level 2 the answer has the identity of the next one."""
        question = EndTxnRequest(self.transactional_id, self.producer_id, self.epoch, committed)
        answer = await self._ask(connection, question, EndTxnResponse, END_TXN)
        if self.level > 1:
            require_identity(connection, answer, "EndTxn")
        return answer

    async def _ask(
        self, connection: Connection, question: tuple[Any, ...], response_type: type[R], api_key: int
    ) -> R:
        version = version_for(connection.versions, api_key, self.level)
        return await connection.request(question, response_type, timeout=self.timeout, version=version)


async def ask_identity(
    connection: Connection,
    transactional_id: str,
    transaction_timeout_ms: int,
    timeout: float,
    known: tuple[int, int] = NOBODY,
) -> InitProducerIdResponse:
    """A producer id and epoch, the next one after those that are known; whatever is open under it is aborted first."""
    version = connection.versions.choose(INIT_PRODUCER_ID)
    identity = known if version >= RECOVERS_FROM else NOBODY
    question = InitProducerIdRequest(transactional_id, transaction_timeout_ms, *identity)
    answer = await connection.request(question, InitProducerIdResponse, timeout=timeout, version=version)
    require_identity(connection, answer, "InitProducerId")
    return answer


def require_identity(
    connection: Connection, answer: InitProducerIdResponse | EndTxnResponse, api: str
) -> None:
    """An answer without an error has to have a producer id and an epoch: what is written without is written without a number."""
    if not answer.error_code and min(answer.producer_id, answer.producer_epoch) < 0:
        raise leaves_out(connection, api)

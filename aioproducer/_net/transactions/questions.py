"""The questions of a dialogue as requests over one connection, each in the protocol level of its transaction.

The answer to a question is the code of the response, with the data that the dialogue needs. The meaning of a code is decided
in `_state/transactions`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import attrs

from aioproducer._net.connecting.connection.asking import answer_to
from aioproducer._net.transactions.required import leaves_out, require_identity
from aioproducer._state.identity.standing import NOBODY, Identity, Standing
from aioproducer._state.transactions.dialogues.steps import (
    AddGroup,
    AddPartitions,
    CommitOffsets,
    Describe,
    EndTransaction,
    IdentityAnswer,
    ReadClock,
    RequestIdentity,
)
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
    DESCRIBE_TRANSACTIONS,
    END_TXN,
    INIT_PRODUCER_ID,
    PRODUCE,
)
from aioproducer._wire.error_codes import ErrorCode
from aioproducer._wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from aioproducer._wire.messages.add_partitions_to_txn import AddPartitionsToTxnResponse
from aioproducer._wire.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
)
from aioproducer._wire.messages.end_txn import EndTxnRequest, EndTxnResponse
from aioproducer._wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from aioproducer._wire.messages.txn_offset_commit import TxnOffsetCommitResponse
from aioproducer._wire.produce import TOPIC_IDS_FROM
from aioproducer.errors import ProtocolError
from aioproducer.records import GroupMetadata

if TYPE_CHECKING:
    from aioproducer._net.cluster.session import Session
    from aioproducer._net.connecting.connection.connection import Connection
    from aioproducer._state.transactions.dialogues.steps import Question

R = TypeVar("R", bound="tuple[Any, ...]")

RECOVERS_FROM = 3
MEMBERS_FROM = 3


@attrs.frozen
class Questions:
    """The questions about one transactional id, in a transaction of this level."""

    session: Session
    transactional_id: str
    level: int

    def ask(self, connection: Connection, question: Question) -> Awaitable[Any]:
        """Ask once."""
        return self._forms[type(question)](self, connection, question)

    async def _describe(self, connection: Connection, _: Describe) -> tuple[int, Standing]:
        if DESCRIBE_TRANSACTIONS not in connection.versions.chosen:
            return ErrorCode.UNSUPPORTED_VERSION, Standing(-1, -1, "")
        request = DescribeTransactionsRequest([self.transactional_id])
        answer = await answer_to(connection, request, DescribeTransactionsResponse, timeout=self._timeout)
        name = self.transactional_id
        state = next((one for one in answer.transaction_states if one.transactional_id == name), None)
        if state is None or (not state.error_code and min(state.producer_id, state.producer_epoch) < 0):
            raise leaves_out(connection, "DescribeTransactions")
        # Brokers of Kafka 4.0 can be recognized only by the APIs that they lack.
        is_before_4_1 = connection.versions.chosen.get(PRODUCE, 0) < TOPIC_IDS_FROM
        return state.error_code, Standing(
            state.producer_id, state.producer_epoch, state.transaction_state, is_before_4_1
        )

    async def _read_clock(self, _: Connection, __: ReadClock) -> float:
        return self.session.loop.time()

    async def _end(self, connection: Connection, question: EndTransaction) -> IdentityAnswer:
        request = EndTxnRequest(self.transactional_id, *question.identity, question.committed)
        answer = await self._of_level(connection, request, EndTxnResponse, END_TXN)
        if self.level > 1:
            require_identity(connection, answer, "EndTxn")
        return self._with_identity(answer)

    async def _request_identity(self, connection: Connection, question: RequestIdentity) -> IdentityAnswer:
        version = connection.versions.choose(INIT_PRODUCER_ID)
        identity = question.identity if version >= RECOVERS_FROM else NOBODY
        limit_ms = question.time_limit_ms or self.session.config.transaction_timeout_ms
        request = InitProducerIdRequest(self.transactional_id, limit_ms, *identity)
        answer = await answer_to(
            connection, request, InitProducerIdResponse, timeout=self._timeout, version=version
        )
        require_identity(connection, answer, "InitProducerId")
        return self._with_identity(answer)

    async def _add_partitions(self, connection: Connection, question: AddPartitions) -> int:
        request = to_add_partitions(self.transactional_id, question.identity, question.places)
        answer = await self._of_level(connection, request, AddPartitionsToTxnResponse, ADD_PARTITIONS)
        code = worst_of_partitions(answer, question.places)
        if code is None:
            raise leaves_out(connection, "AddPartitionsToTxn")
        return code

    async def _add_group(self, connection: Connection, question: AddGroup) -> int:
        request = AddOffsetsToTxnRequest(self.transactional_id, *question.identity, question.group_id)
        answer = await self._of_level(connection, request, AddOffsetsToTxnResponse, ADD_OFFSETS)
        return answer.error_code

    async def _commit_offsets(self, connection: Connection, question: CommitOffsets) -> int:
        group, left = question.group, question.left
        version = version_for(connection.versions, COMMIT_OFFSETS, self.level)
        if version < MEMBERS_FROM and group != GroupMetadata(group.group_id):
            text = "the broker cannot tell members of a group from zombies: give the group id alone"
            raise ProtocolError(text, broker=connection.broker)
        request = to_commit_offsets(self.transactional_id, question.identity, group, left)
        answer = await self._of_level(connection, request, TxnOffsetCommitResponse, COMMIT_OFFSETS)
        code, taken = taken_offsets(answer, left)
        for place in taken:
            del left[place]
        if code is None:
            raise leaves_out(connection, "TxnOffsetCommit")
        return code

    def _of_level(
        self, connection: Connection, request: tuple[Any, ...], response_type: type[R], api_key: int
    ) -> Awaitable[R]:
        version = version_for(connection.versions, api_key, self.level)
        return answer_to(connection, request, response_type, timeout=self._timeout, version=version)

    def _with_identity(self, answer: InitProducerIdResponse | EndTxnResponse) -> IdentityAnswer:
        identity: Identity = answer.producer_id, answer.producer_epoch
        return IdentityAnswer(answer.error_code, identity, self.session.loop.time())

    @property
    def _timeout(self) -> float:
        return self.session.config.request_timeout_ms / 1000

    _forms: ClassVar[dict[type, Callable[..., Awaitable[Any]]]] = {
        Describe: _describe,
        ReadClock: _read_clock,
        EndTransaction: _end,
        RequestIdentity: _request_identity,
        AddPartitions: _add_partitions,
        AddGroup: _add_group,
        CommitOffsets: _commit_offsets,
    }

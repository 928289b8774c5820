"""The steps of a dialogue with coordinators, and the questions of one attempt.

A dialogue is a generator: it yields a `Step`, and gets the result of it. The network side performs the steps and decides
nothing. An attempt is a generator as well: it yields each `Question` that it asks over one connection, gets the answers, and
returns the code that counts.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Iterable
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, TypeVar

if TYPE_CHECKING:
    from aioproducer._state.identity.standing import Identity
    from aioproducer._state.queues.partition_queue import PartitionQueue
    from aioproducer._state.transactions.coordinator_verdicts import Request
    from aioproducer._state.transactions.giving_up import GivenUp
    from aioproducer._state.transactions.parts import Place
    from aioproducer.errors import KafkaError
    from aioproducer.records import GroupMetadata, OffsetAndMetadata, TopicPartition

R = TypeVar("R")

# -- questions


class Describe(NamedTuple):
    """DescribeTransactions. The answer: a code, and the `Standing` if the code is 0."""


class ReadClock(NamedTuple):
    """The time, without a request."""


class EndTransaction(NamedTuple):
    """EndTxn. The answer: an `IdentityAnswer`, which has an identity on level 2."""

    identity: Identity
    committed: bool


class RequestIdentity(NamedTuple):
    """InitProducerId, for the epoch after this identity. The answer: an `IdentityAnswer`.

    `time_limit_ms` is that of transactions under the new epoch; None: the one that is set.
    """

    identity: Identity
    time_limit_ms: int | None = None


class AddPartitions(NamedTuple):
    """AddPartitionsToTxn (level 1). The answer: the code that counts."""

    identity: Identity
    places: Collection[Place]


class AddGroup(NamedTuple):
    """AddOffsetsToTxn (level 1). The answer: the code."""

    identity: Identity
    group_id: str


class CommitOffsets(NamedTuple):
    """TxnOffsetCommit. The answer: the code that counts; the accepted offsets leave `left`."""

    identity: Identity
    group: GroupMetadata
    left: dict[TopicPartition, OffsetAndMetadata]


class IdentityAnswer(NamedTuple):
    """A code, the identity if the code is 0, and the time of the answer."""

    code: int
    identity: Identity
    at: float


Question: TypeAlias = (
    Describe | ReadClock | EndTransaction | RequestIdentity | AddPartitions | AddGroup | CommitOffsets
)
Attempt: TypeAlias = Generator[Question, Any, int]


# -- steps whose result is awaited


class Ask(NamedTuple):
    """Make attempts at the transaction's coordinator until an answer is final. The result: a `Reply`."""

    request: Request
    attempt: Callable[[], Attempt]


class AskForEpoch(NamedTuple):
    """The same for a request that raises the epoch.

    Only the end of the producer, or of the use of its id, stops it: an epoch whose answer is not received looks like that of another
    producer.
    """

    request: Request
    attempt: Callable[[], Attempt]


class AskGroup(NamedTuple):
    """The same at the coordinator of a group."""

    group_id: str
    request: Request
    attempt: Callable[[], Attempt]


class InTurn(NamedTuple):
    """Hold a dialogue while no other request to a coordinator is under way. The result: that of the dialogue."""

    dialogue: Dialogue[Any]


class Adding(NamedTuple):
    """Hold a dialogue that `StopAdding` ends. A `KafkaError` of it is only logged."""

    dialogue: Dialogue[None]


class AwaitRecords(NamedTuple):
    """Wait until every record that was accepted, or waits to be, has its outcome."""


class AwaitTurn(NamedTuple):
    """Wait for the request to a coordinator that is under way, if there is one."""


# -- steps that are performed at once


class SendAllNow(NamedTuple):
    """Nothing that is buffered lingers."""


class StopAdding(NamedTuple):
    """End the dialogue that adds partitions: a partition that does not exist any more would be asked for without end."""


class ChangeCoordinator(NamedTuple):
    """The transactional id has changed."""


class EndRecords(NamedTuple):
    """Nothing more of the transaction is sent."""

    given_up: GivenUp


class Explain(NamedTuple):
    """The reason of unexplained refusals is known."""

    reason: KafkaError


class UpdateReadiness(NamedTuple):
    """Records may be sent to these partitions from now on."""

    queues: Iterable[PartitionQueue]


class EndCalls(NamedTuple):
    """The transaction can only be aborted: calls that are under way fail."""


class RefuseCalls(NamedTuple):
    """The producer cannot go on: calls that are under way fail with this error."""

    error: KafkaError


class EndProducer(NamedTuple):
    """Calls that are under way fail with this error, and the producer ends."""

    error: KafkaError


class ConfirmCommit(NamedTuple):
    """The commit has succeeded, although the producer cannot go on."""


Step: TypeAlias = (
    Ask
    | AskForEpoch
    | AskGroup
    | InTurn
    | Adding
    | AwaitRecords
    | AwaitTurn
    | SendAllNow
    | StopAdding
    | ChangeCoordinator
    | EndRecords
    | Explain
    | UpdateReadiness
    | EndCalls
    | RefuseCalls
    | EndProducer
    | ConfirmCommit
)
Dialogue: TypeAlias = Generator[Step, Any, R]

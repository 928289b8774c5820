"""How a transactional id stands at its coordinator: asked before anything that would end another producer's transaction.

Kafka ends what is open under a producer id as soon as anybody asks for its next epoch, also somebody whose own epoch is long
over and who is refused afterwards. So whoever does not know whether another producer has taken over looks first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from aioproducer._state.coordinator_verdicts import Answer, Request
from aioproducer._wire.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
)

if TYPE_CHECKING:
    from aioproducer._net.connection import Connection
    from aioproducer._net.coordinator import Coordinator

DESCRIBE_TRANSACTIONS = 65
UNSUPPORTED_VERSION = 35
ONGOING: Final = "Ongoing"
ABORTED: Final = frozenset({"PrepareAbort", "CompleteAbort", "PrepareEpochFence"})
ENDED: Final = ABORTED | {"PrepareCommit", "CompleteCommit"}


class Standing(NamedTuple):
    """What the coordinator knows."""

    producer_id: int
    epoch: int
    state: str

    def follows(self, identity: tuple[int, int], states: frozenset[str]) -> bool:
        """Whether the transaction that this identity had open was ended like that, and nothing has happened since.

        Its end raised the epoch by one. Another producer's taking over would have raised it once more.
        """
        producer_id, epoch = identity
        return (self.producer_id, self.epoch) == (producer_id, epoch + 1) and self.state in states


async def standing_of(coordinator: Coordinator) -> Standing | None:
    """Ask; None where brokers cannot tell (before Kafka 3.0), or may not."""
    found: list[Standing] = []

    async def attempt(connection: Connection) -> int:
        if DESCRIBE_TRANSACTIONS not in connection.versions.chosen:
            return UNSUPPORTED_VERSION
        answer = await connection.request(
            DescribeTransactionsRequest([coordinator.name]),
            DescribeTransactionsResponse,
            timeout=coordinator.timeout,
        )
        state = answer.transaction_states[0]
        found[:] = [Standing(state.producer_id, state.producer_epoch, state.transaction_state)]
        return state.error_code

    said = await coordinator.settle(Request.DESCRIBE, attempt)
    return found[0] if said.answer is Answer.DONE else None

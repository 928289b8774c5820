"""How a transactional id stands: asked of its coordinator before anything that could end another producer's transaction."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aioproducer._net.transactions.coordinator import leaves_out
from aioproducer._state.identity.standing import Standing
from aioproducer._state.transactions.coordinator_verdicts import Answer, Request, judge
from aioproducer._wire.apis import DESCRIBE_TRANSACTIONS
from aioproducer._wire.error_codes import ErrorCode
from aioproducer._wire.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
)

if TYPE_CHECKING:
    from aioproducer._net.connecting.connection import Connection
    from aioproducer._net.transactions.coordinator import Coordinator


async def standing_of(coordinator: Coordinator) -> Standing | None:
    """Ask until it is known; None where brokers cannot tell (before Kafka 3.0), or may not."""
    found: list[Standing] = []

    async def attempt(connection: Connection) -> int:
        code, standing = await look(connection, coordinator)
        found[:] = [standing]
        return code

    reply = await coordinator.settle(Request.DESCRIBE, attempt)
    return found[0] if reply.answer is Answer.DONE else None


async def look(connection: Connection, coordinator: Coordinator) -> tuple[int, Standing]:
    """Ask once: a code, and what it stands for if that is 0."""
    if DESCRIBE_TRANSACTIONS not in connection.versions.chosen:
        return ErrorCode.UNSUPPORTED_VERSION, Standing(-1, -1, "")
    question = DescribeTransactionsRequest([coordinator.name])
    answer = await connection.request(question, DescribeTransactionsResponse, timeout=coordinator.timeout)
    state = next((one for one in answer.transaction_states if one.transactional_id == coordinator.name), None)
    if state is None or (not state.error_code and min(state.producer_id, state.producer_epoch) < 0):
        raise leaves_out(connection, "DescribeTransactions")
    return state.error_code, Standing(state.producer_id, state.producer_epoch, state.transaction_state)


def tells_later(looked: int) -> bool:
    """Whether the coordinator that gave this code will tell later, or another one, how the id stands."""
    return judge(Request.DESCRIBE, looked) in (Answer.RETRY, Answer.LOOK_UP)

"""The next identity of a transactional producer, without harm to a producer that may have taken over.

Kafka ends the open transaction of a producer id at each InitProducerId request for its next epoch, also if the requester's
epoch is outdated and the request is then refused. EndTxn is executed for the current epoch only, and on level 2 its answer has
the next epoch. A producer that knows its identity gets the next epoch from EndTxn where the broker supports it. Elsewhere it
checks that it still owns the id before it asks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import anyio

from aioproducer._net.transactions.standing import look, tells_later
from aioproducer._net.transactions.transaction_requests import NOBODY, ask_identity
from aioproducer._state.identity.standing import (
    COMMITTED,
    ONGOING,
    PREPARING,
    Identity,
    Move,
    following,
    next_move,
)
from aioproducer._state.transactions.coordinator_verdicts import Answer, Request
from aioproducer._wire.error_codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from aioproducer._net.connecting.connection import Connection
    from aioproducer._net.transactions.coordinator import Reply
    from aioproducer._net.transactions.transactions import Transactions

LEVEL_OF_EPOCHS = 2


class Renewal:
    """Asks for producer ids and epochs; those that come are given to `Transactions.obtained`."""

    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions
        # Asking for an identity, given up with the producer.
        self._asking = anyio.CancelScope()
        self._may_ask = True

    def let_go(self) -> None:
        """The producer ends: nobody needs a new epoch any more."""
        self._may_ask = self._asking.shield = False

    async def take_over(self) -> Reply:
        """Get the id from whomever has it: what is open under it is ended, and its producer fenced."""
        return await self._settle(Request.INIT_PRODUCER_ID, lambda connection: self._ask(connection, NOBODY))

    async def renew(self, identity: Identity) -> Reply:
        """Get the next epoch, which ends what is open; not that of another producer which has taken over."""
        if self._transactions.parts.level >= LEVEL_OF_EPOCHS:
            reply = await self._renew_by_ending(identity)
            if reply.answer in (Answer.DONE, Answer.SUPERSEDED):
                return reply
            # The coordinator has forgotten this producer, or does not let it end anything.
        return await self._renew_by_asking(identity)

    async def _renew_by_ending(self, identity: Identity) -> Reply:
        """On level 2 an end gives the next epoch, and is refused to whom it is not due."""
        known = identity

        async def attempt(connection: Connection) -> int:
            nonlocal known
            code = await self._transactions.ask_to_end(connection, known, committed=False)
            if code != ErrorCode.INVALID_TXN_STATE or known != identity or not self._was_open:
                return code
            # A commit that got no answer came first: it ended the transaction under the epoch that its answer had.
            looked, standing = await look(connection, self._transactions.coordinator)
            if tells_later(looked):
                return looked
            if not standing.follows(identity, COMMITTED):
                return code
            if standing.state not in PREPARING:
                known = following(identity)
            return ErrorCode.CONCURRENT_TRANSACTIONS

        return await self._settle(Request.ABORT, attempt)

    async def _renew_by_asking(self, identity: Identity) -> Reply:
        """On level 1 nothing but InitProducerId gives an epoch. So each time look first, over the same connection."""
        known = identity

        async def attempt(connection: Connection) -> int:
            nonlocal known
            code, standing = await look(connection, self._transactions.coordinator)
            if tells_later(code):
                return code
            move = Move.ASK if code else next_move(standing, known, was_open=self._was_open)
            if move is Move.GIVE_WAY:
                return ErrorCode.PRODUCER_FENCED
            if move is Move.WAIT:
                return ErrorCode.CONCURRENT_TRANSACTIONS
            if move is Move.ASK_AS_FOLLOWING:
                known = following(known)
            elif not code and standing.state == ONGOING:
                # An answer to what had opened it may have been lost, or given up with it.
                self._transactions.parts.opened = True
            return await self._ask(connection, known)

        return await self._settle(Request.INIT_PRODUCER_ID, attempt)

    @property
    def _was_open(self) -> bool:
        return self._transactions.parts.was_opened and not self._transactions.parts.ended

    async def _ask(self, connection: Connection, identity: Identity) -> int:
        transactions = self._transactions
        limit_ms = transactions.engine.config.transaction_timeout_ms
        coordinator = transactions.coordinator
        answer = await ask_identity(connection, coordinator.name, limit_ms, coordinator.timeout, identity)
        if not answer.error_code:
            transactions.obtained(answer.producer_id, answer.producer_epoch)
        return answer.error_code

    async def _settle(self, request: Request, attempt: Callable[[Connection], Awaitable[int]]) -> Reply:
        # Who gave up here would leave nobody to hear of the new epoch, and it would be taken for another producer's.
        with anyio.CancelScope(shield=self._may_ask) as self._asking:
            reply = await self._transactions.coordinator.settle(request, attempt)
        return reply  # noqa: RET504  # mypy takes a scope for what may swallow an error

"""The requests that open a transaction on level 1, and the proof that one without an answer has opened it.

The coordinator aborts an open transaction at its time limit, and raises the epoch by one. A successor that begins where nothing
is open gets the same epoch, and may abort a transaction of its own under it. Afterwards only a producer that knows that its own
transaction was open can distinguish the two: so it asks while the transaction is open.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from aioproducer._state.identity.standing import ONGOING
from aioproducer._state.transactions.coordinator_verdicts import Request, may_be_done
from aioproducer._state.transactions.dialogues.steps import Ask, Describe

if TYPE_CHECKING:
    from collections.abc import Callable

    from aioproducer._state.transactions.current import CurrentTransaction
    from aioproducer._state.transactions.dialogues.steps import AddGroup, AddPartitions, Attempt, Dialogue


def attempts_to_open(
    current: CurrentTransaction, request: Request, question: AddPartitions | AddGroup
) -> Callable[[], Attempt]:
    """Attempts of this question. A refusal is followed by a look while this or an earlier one may have been executed."""
    may_be_open = False

    def attempt() -> Attempt:
        nonlocal may_be_open
        # True until the answer is there: it may never come.
        before, may_be_open = may_be_open, True
        code: int = yield question
        may_be_open = before or may_be_done(request, code)
        if code and may_be_open and not current.parts.opened:
            yield from _look(current)
        return code

    return attempt


def look_whether_open(current: CurrentTransaction) -> Dialogue[None]:
    """Find out whether the coordinator has the transaction open, where the answer to the request that opens it is missing."""
    if current.parts.may_be_open:
        yield Ask(Request.DESCRIBE, lambda: _look(current))


def _look(current: CurrentTransaction) -> Attempt:
    code, standing = yield Describe()
    if not code and standing.is_of(current.identity) and standing.state == ONGOING:
        current.parts.opened = True
    return code  # type: ignore[no-any-return]  # yield gives Any

"""The dialogue that gets a producer id for a transactional id."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aioproducer._state.transactions.coordinator_verdicts import Answer
from aioproducer._state.transactions.dialogues.renewal import renew, take_over
from aioproducer._state.transactions.dialogues.steps import (
    AwaitRecords,
    ChangeCoordinator,
    EndRecords,
    InTurn,
    StopAdding,
)
from aioproducer._state.transactions.table import Event, State
from aioproducer.errors import StateError

if TYPE_CHECKING:
    from aioproducer._state.transactions.current import CurrentTransaction
    from aioproducer._state.transactions.dialogues.steps import Dialogue
    from aioproducer._state.transactions.replies import Reply

# The transaction has not ended, and init_transactions() is possible all the same.
ENDING = frozenset({State.ABORTABLE, State.ABORTING, State.UNCERTAIN})


def change_id(current: CurrentTransaction, name: str) -> StateError:
    """Ask for this transactional id from now on. Returns the error of a call that asks for the former one.

    The transaction that is open under the former id has to be ended first: nothing else would end it.
    """
    former, state = current.ownership.sought, current.table.state
    if state in ENDING or (state is State.INITIALIZING and current.has_more_to_end):
        raise StateError(
            f"init_transactions({name!r}) is not possible before the transaction of {former!r} has ended: "
            "await producer.init_transactions() first"
        )
    current.ownership.sought = name
    # A request for the next epoch of the former id may be given up, and executed all the same.
    current.ownership.identified_as = None
    return StateError(
        f"init_transactions({name!r}) was called while init_transactions() for {former!r} went on"
    )


def initialization(current: CurrentTransaction, requested: str | None) -> Dialogue[None]:
    """The dialogue of a call of init_transactions().

    A call that names the id takes it over from any other producer. A call without a name fails if another producer has the id.
    """
    name = current.ownership.sought
    is_handed_over = current.table.is_handed_over
    goes_on = requested is None and current.ownership.is_identified_as(name) and not is_handed_over
    return _initialize(current, name, goes_on=goes_on)


def _initialize(current: CurrentTransaction, name: str, *, goes_on: bool) -> Dialogue[None]:
    yield StopAdding()
    yield EndRecords(current.give_up("init_transactions() was called before the record was sent"))
    yield AwaitRecords()
    reply: Reply = yield InTurn(_identify(current, name, goes_on=goes_on))
    if reply.answer is Answer.DONE:
        current.parts.ended = True
        return
    if current.may_be_committed:
        # The caller of the commit never got an answer, and this error is the only one about it.
        reply = reply._replace(undecided=reply.undecided + 1)
    error = current.fatal_error(reply)
    if reply.answer in (Answer.REFUSED, Answer.ABORTABLE):
        current.table.move(Event.NOT_INITIALIZED)
    else:
        yield from current.ends_with(error)
    raise error


def _identify(current: CurrentTransaction, name: str, *, goes_on: bool) -> Dialogue[Reply]:
    if name != current.ownership.transactional_id:
        current.ownership.transactional_id = name
        yield ChangeCoordinator()
    # The identity is read only here: the previous request may have changed it.
    return (yield from renew(current, current.identity) if goes_on else take_over(current))

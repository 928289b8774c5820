"""The dialogues that make partitions and offsets of groups a part of the transaction."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aioproducer._state.transactions.coordinator_verdicts import FORGOTTEN, Answer, Request
from aioproducer._state.transactions.dialogues.opening import attempts_to_open
from aioproducer._state.transactions.dialogues.requirement import require
from aioproducer._state.transactions.dialogues.steps import (
    AddGroup,
    AddPartitions,
    Ask,
    AskGroup,
    CommitOffsets,
    InTurn,
    UpdateReadiness,
    once,
)
from aioproducer._state.transactions.replies import abortable_error
from aioproducer._state.transactions.table import State

if TYPE_CHECKING:
    from aioproducer._state.transactions.current import CurrentTransaction
    from aioproducer._state.transactions.dialogues.steps import Dialogue
    from aioproducer._state.transactions.replies import Reply


def add_partitions(current: CurrentTransaction) -> Dialogue[None]:
    """Add the partitions that records wait for."""
    wanted, current.parts.wanted = current.parts.wanted, {}
    if not wanted or current.table.state in (State.ABORTABLE, State.ABORTING):
        return
    question = AddPartitions(current.identity, wanted)
    yield from _added(
        current, Ask(Request.ADD_PARTITIONS, attempts_to_open(current, Request.ADD_PARTITIONS, question))
    )
    current.parts.partitions.update(wanted)
    yield UpdateReadiness(wanted.values())


def deliver_offsets(current: CurrentTransaction) -> Dialogue[None]:
    """Send all recorded offsets to the coordinators of their groups."""
    while current.parts.recorded:
        yield InTurn(_deliver_group(current))


def _deliver_group(current: CurrentTransaction) -> Dialogue[None]:
    if not current.parts.recorded:
        return
    group_id = next(iter(current.parts.recorded))
    group, offsets = current.parts.recorded.pop(group_id)
    yield from _add_group(current, group_id)
    question = CommitOffsets(current.identity, group, dict(offsets))
    yield from _added(current, AskGroup(group_id, Request.COMMIT_OFFSETS, once(question)))


def _add_group(current: CurrentTransaction, group_id: str) -> Dialogue[None]:
    if current.parts.level == 1 and group_id not in current.parts.groups:
        question = AddGroup(current.identity, group_id)
        yield from _added(
            current, Ask(Request.ADD_OFFSETS, attempts_to_open(current, Request.ADD_OFFSETS, question))
        )
    current.parts.groups.add(group_id)


def _added(current: CurrentTransaction, step: Ask | AskGroup) -> Dialogue[None]:
    """Until the answer is there, the coordinator may have more to end than is known here."""
    parts = current.parts
    before, parts.in_doubt = parts.in_doubt, True
    reply: Reply = yield step
    parts.in_doubt = before or (reply.undecided > 0 and reply.answer is not Answer.DONE)
    parts.has_lost_attempts = parts.has_lost_attempts or reply.lost > 0
    parts.forgotten = parts.forgotten or reply.code in FORGOTTEN
    if reply.answer is Answer.ABORTABLE and current.table.state is State.ABORTING:
        # The transaction is aborted already; the answer came with the call.
        raise abortable_error(reply)
    yield from require(current, reply)
    parts.opened = True

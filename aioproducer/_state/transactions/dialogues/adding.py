"""The dialogues that make partitions and offsets of groups a part of the transaction."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

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
    ReadClock,
    UpdateReadiness,
)
from aioproducer._state.transactions.replies import abortable_error
from aioproducer._state.transactions.table import State
from aioproducer._wire.error_codes import ErrorCode
from aioproducer.errors import TransactionError

if TYPE_CHECKING:
    from collections.abc import Callable

    from aioproducer._state.transactions.current import CurrentTransaction
    from aioproducer._state.transactions.dialogues.steps import Attempt, Dialogue
    from aioproducer._state.transactions.replies import Reply


# Brokers learn of a new topic one after the other. A topic that they have not known for so many seconds is gone.
GONE_AFTER: Final = 10.0
UNKNOWN_TOPIC: Final = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def add_partitions(current: CurrentTransaction) -> Dialogue[None]:
    """Add the partitions that records wait for. An unknown one is left out when its records were withdrawn."""
    wanted, current.parts.wanted = current.parts.wanted, {}
    if not wanted or current.table.state in (State.ABORTABLE, State.ABORTING):
        return
    question = AddPartitions(current.identity, wanted)
    attempts = attempts_to_open(current, Request.ADD_PARTITIONS, question)

    def attempt() -> Attempt:
        code = yield from attempts()
        if code == UNKNOWN_TOPIC:
            for place in [place for place, queue in wanted.items() if not queue.queue]:
                del wanted[place]
        return code if wanted else ErrorCode.NONE

    def final(reply: Reply) -> Reply:
        # Without a clear answer the coordinator may have something open that is not known here.
        return reply if wanted or not reply.undecided else _of_unknown_topic(reply)

    yield from _added(current, Ask(Request.ADD_PARTITIONS, attempt), final)
    if wanted:
        current.parts.opened = True
        current.parts.partitions.update(wanted)
        yield UpdateReadiness(wanted.values())


def deliver_offsets(current: CurrentTransaction) -> Dialogue[None]:
    """Send all recorded offsets to the coordinators of their groups."""
    while current.parts.recorded:
        yield InTurn(_deliver_group(current))


def _deliver_group(current: CurrentTransaction) -> Dialogue[None]:
    if not current.parts.recorded:
        return
    group, offsets = current.parts.recorded.pop(0)
    if current.parts.may_undo(group.group_id, offsets):
        text = f"an earlier request with offsets of group {group.group_id!r} got no answer, and may replace later offsets"
        yield from current.failed(TransactionError(text, retriable=True))
        raise current.table.aborted(f"{Request.COMMIT_OFFSETS.value} is not possible")
    yield from _add_group(current, group.group_id)
    attempts = _OffsetAttempts(CommitOffsets(current.identity, group, dict(offsets)))
    step = AskGroup(group.group_id, Request.COMMIT_OFFSETS, attempts)
    reply = yield from _added(current, step, attempts.final)
    current.parts.opened = True
    if reply.lost:
        late = {(group.group_id, place): offset for place, offset in offsets.items()}
        current.parts.late_offsets.update(late)


def _add_group(current: CurrentTransaction, group_id: str) -> Dialogue[None]:
    if current.parts.level == 1 and group_id not in current.parts.groups:
        question = AddGroup(current.identity, group_id)
        yield from _added(
            current, Ask(Request.ADD_OFFSETS, attempts_to_open(current, Request.ADD_OFFSETS, question))
        )
        current.parts.opened = True
    current.parts.groups.add(group_id)


class _OffsetAttempts:
    """Attempts to commit offsets, until a topic of theirs is gone: no answer to them would ever be another one."""

    def __init__(self, question: CommitOffsets) -> None:
        self._question = question
        self._unknown_since: float | None = None
        self._is_gone = False

    def __call__(self) -> Attempt:
        code: int = yield self._question
        if code != UNKNOWN_TOPIC:
            self._unknown_since = None
            return code
        now: float = yield ReadClock()
        if self._unknown_since is None:
            self._unknown_since = now
        self._is_gone = now - self._unknown_since >= GONE_AFTER
        return ErrorCode.NONE if self._is_gone else code

    def final(self, reply: Reply) -> Reply:
        """The reply that counts."""
        return _of_unknown_topic(reply) if self._is_gone else reply


def _of_unknown_topic(reply: Reply) -> Reply:
    return reply._replace(answer=Answer.ABORTABLE, code=UNKNOWN_TOPIC)


def _as_it_is(reply: Reply) -> Reply:
    return reply


def _added(
    current: CurrentTransaction, step: Ask | AskGroup, final: Callable[[Reply], Reply] = _as_it_is
) -> Dialogue[Reply]:
    """Until the answer is there, the coordinator may have more to end than is known here. `final`: the reply that counts."""
    parts = current.parts
    before, parts.in_doubt = parts.in_doubt, True
    answered: Reply = yield step
    reply = final(answered)
    parts.in_doubt = before or (reply.undecided > 0 and reply.answer is not Answer.DONE)
    parts.has_lost_attempts = parts.has_lost_attempts or reply.lost > 0
    parts.forgotten = parts.forgotten or reply.code in FORGOTTEN
    if reply.answer is Answer.ABORTABLE and current.table.state is State.ABORTING:
        # The transaction is aborted already; the answer came with the call.
        raise abortable_error(reply)
    yield from require(current, reply)
    return reply

"""Performs the steps that dialogues with coordinators decide."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING, Any, ClassVar

import anyio
import anyio.lowlevel

from aioproducer._net.transactions.conversation import ask, converse
from aioproducer._net.transactions.questions import Questions
from aioproducer._state.batching.batch_deadlines import PULSE
from aioproducer._state.transactions.coordinator_verdicts import Answer
from aioproducer._state.transactions.dialogues.steps import (
    Adding,
    Ask,
    AskForEpoch,
    AskGroup,
    AwaitRecords,
    AwaitTurn,
    ChangeCoordinator,
    ConfirmCommit,
    EndCalls,
    EndProducer,
    EndRecords,
    Explain,
    InTurn,
    RefuseCalls,
    SendAllNow,
    StopAdding,
    UpdateReadiness,
)
from aioproducer.errors import KafkaError

if TYPE_CHECKING:
    from aioproducer._net.transactions.coordinator import Coordinator
    from aioproducer._net.transactions.transactions import Transactions
    from aioproducer._state.transactions.dialogues.steps import Step
    from aioproducer._state.transactions.replies import Reply


class Steps:
    """One request to a coordinator is under way at a time: the next one may depend on the answer."""

    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions
        self._host = transactions.host
        self._machines = transactions.host.machines
        self._current = transactions.current
        self._turn = anyio.Lock(fast_acquire=True)
        self._adding = anyio.CancelScope()
        # The request for an epoch; a caller that gives up does not stop it.
        self._asking_for_epoch = anyio.CancelScope()
        self._may_ask_for_epoch = True

    @property
    def is_asking(self) -> bool:
        """Whether a request to a coordinator is under way."""
        return self._turn.locked()

    def perform(self, step: Step) -> Awaitable[Any] | None:
        """Perform a step of a dialogue: at once if None is returned, otherwise the result is awaited."""
        return self._forms[type(step)](self, step)

    def follow(self, steps: Iterable[Step]) -> None:
        """Perform steps that need no waiting."""
        for step in steps:
            self.perform(step)

    # -- steps that are performed at once

    def _send_all_now(self, _: SendAllNow) -> None:
        self._machines.accumulator.send_all_now(self._host.loop.time())

    def _stop_adding(self, _: StopAdding) -> None:
        self._adding.cancel()

    def _change_coordinator(self, _: ChangeCoordinator) -> None:
        self._transactions.coordinators.change_id(self._current.ownership.transactional_id)

    def _end_records(self, step: EndRecords) -> None:
        """Records that are not in flight end now, the others when they come back."""
        given_up = step.given_up
        self._machines.admission.refuse_all(lambda call: given_up.error_of_call(call.topic))
        self._machines.endings.end_all(given_up, self._host.loop.time())

    def _explain(self, step: Explain) -> None:
        self._machines.refusals.explain(step.reason, self._host.loop.time())

    def _update_readiness(self, step: UpdateReadiness) -> None:
        self._machines.accumulator.update_readiness_of(step.queues, self._host.loop.time())

    def _end_calls(self, _: EndCalls) -> None:
        operations, table = self._transactions.operations, self._current.table
        self._transactions.accepting_changed()
        self._adding.cancel()
        operations.present = None
        operations.replace_all(lambda each: table.aborted(f"{each.event.value} is not possible"))
        self._transactions.work_pending.ring()

    def _refuse_calls(self, step: RefuseCalls) -> None:
        self._transactions.accepting_changed()
        self._transactions.operations.stop_all(step.error)

    def _end_producer(self, step: EndProducer) -> None:
        self._transactions.accepting_changed()
        self._transactions.operations.stop_all(step.error)
        self._host.crash(step.error)

    def _confirm_commit(self, _: ConfirmCommit) -> None:
        self._transactions.operations.end_present(None)

    # -- requests

    def _ask_id(self, step: Ask) -> Awaitable[Reply]:
        return self._ask(self._transactions.coordinators.of_id, step)

    async def _ask_group(self, step: AskGroup) -> Reply:
        coordinator = self._transactions.coordinators.of_group(step.group_id)
        try:
            return await self._ask(coordinator, step)
        finally:
            coordinator.leave()

    def _ask(self, coordinator: Coordinator, step: Ask | AskForEpoch | AskGroup) -> Awaitable[Reply]:
        transactional_id = self._current.ownership.transactional_id
        questions = Questions(self._host, transactional_id, self._current.parts.level)
        return ask(coordinator, questions, step)

    async def _ask_for_epoch(self, step: AskForEpoch) -> Reply:
        with anyio.CancelScope(shield=self._may_ask_for_epoch) as self._asking_for_epoch:
            reply = await self._ask(self._transactions.coordinators.of_id, step)
        if reply.answer is not Answer.DONE:
            # An operation that was replaced meanwhile ends here: its refusal says nothing about the operation in its place.
            await anyio.lowlevel.checkpoint_if_cancelled()
        return reply

    def drop_epoch(self) -> None:
        """The transactional id changes: the epoch that is asked for has no use, and its coordinator may not answer."""
        self._asking_for_epoch.shield = False

    def let_go(self) -> None:
        """The producer ends, and needs no new epoch."""
        self._may_ask_for_epoch = self._asking_for_epoch.shield = False

    async def _in_turn(self, step: InTurn) -> Any:
        async with self._turn:
            return await converse(step.dialogue, self.perform)

    def _await_turn(self, _: AwaitTurn) -> Awaitable[None] | None:
        return self._other_requests_ended() if self._turn.locked() else None

    async def _other_requests_ended(self) -> None:
        async with self._turn:
            pass

    async def _add(self, step: Adding) -> None:
        with anyio.CancelScope() as self._adding:
            try:
                await converse(step.dialogue, self.perform)
            except KafkaError as error:
                self._host.log.debug("partitions were not added to the transaction: %s", error)

    # -- records

    async def _records_ended(self, _: AwaitRecords) -> None:
        """Wait until every record that was accepted, or waits to be, has its outcome."""
        while True:
            for delivery in self._transactions.queued():
                await delivery.wait(None)
            await self._host.flush()
            if self._machines.admission.calls.waiting:
                await self._host.no_call_waits()
            elif self._machines.effects.losses:
                # There was no memory to report a lost record, and without the report the transaction would be committed.
                # The next pulse of the timekeeper repeats it.
                await anyio.sleep(PULSE)
            elif self._host.crashed is not None:
                # An event may have ended in the middle, before it reported a lost record. All tasks end now.
                await anyio.sleep_forever()
            elif not self._host.unresolved():
                return

    _forms: ClassVar[dict[type, Callable[..., Awaitable[Any] | None]]] = {
        Ask: _ask_id,
        AskForEpoch: _ask_for_epoch,
        AskGroup: _ask_group,
        InTurn: _in_turn,
        Adding: _add,
        AwaitRecords: _records_ended,
        AwaitTurn: _await_turn,
        SendAllNow: _send_all_now,
        StopAdding: _stop_adding,
        ChangeCoordinator: _change_coordinator,
        EndRecords: _end_records,
        Explain: _explain,
        UpdateReadiness: _update_readiness,
        EndCalls: _end_calls,
        RefuseCalls: _refuse_calls,
        EndProducer: _end_producer,
        ConfirmCommit: _confirm_commit,
    }

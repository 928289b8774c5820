"""Performs the steps that dialogues with coordinators decide."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import anyio
import anyio.lowlevel

from aioproducer._net.transactions.conversation import ask, converse
from aioproducer._net.transactions.questions import Questions
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
    from aioproducer._state.transactions.dialogues.steps import Dialogue, Step
    from aioproducer._state.transactions.giving_up import GivenUp
    from aioproducer._state.transactions.replies import Reply


class Steps:
    """One request to a coordinator is under way at a time: the next one may depend on the answer."""

    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions
        self._engine = transactions.engine
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

    async def perform(self, step: Step) -> Any:
        """Perform a step of a dialogue. Returns its result."""
        match step:
            case Ask():
                return await self._ask(self._transactions.coordinators.of_id, step)
            case AskForEpoch():
                return await self._ask_for_epoch(step)
            case AskGroup():
                return await self._ask(self._transactions.coordinators.of_group(step.group_id), step)
            case InTurn():
                async with self._turn:
                    return await converse(step.dialogue, self.perform)
            case Adding():
                await self._add(step.dialogue)
            case AwaitRecords():
                await self._records_ended()
            case AwaitTurn():
                if self._turn.locked():
                    async with self._turn:
                        pass
            case _:
                self._perform_now(step)
        return None

    def follow(self, steps: Iterable[Step]) -> None:
        """Perform steps that need no waiting."""
        for step in steps:
            self._perform_now(step)

    def _perform_now(self, step: Step) -> None:
        engine = self._engine
        match step:
            case SendAllNow():
                engine.accumulator.send_all_now(engine.loop.time())
            case StopAdding():
                self._adding.cancel()
            case ChangeCoordinator():
                self._transactions.coordinators.change_id(self._current.ownership.transactional_id)
            case EndRecords():
                self._end_records(step.given_up)
            case Explain():
                engine.settlement.explain(step.reason, engine.loop.time())
            case UpdateReadiness():
                engine.accumulator.update_readiness_of(step.queues, engine.loop.time())
            case _:
                self._end_calls(step)

    def _end_calls(self, step: Step) -> None:
        operations = self._transactions.operations
        if isinstance(step, ConfirmCommit):
            operations.end_present(None)
            return
        self._transactions.accepting_changed()
        match step:
            case EndCalls():
                self._adding.cancel()
                table = self._current.table
                operations.present = None
                operations.replace_all(lambda each: table.aborted(f"{each.event.value} is not possible"))
                self._transactions.work_pending.ring()
            case RefuseCalls():
                operations.end_all(step.error)
            case EndProducer():
                operations.end_all(step.error)
                self._engine.crash(step.error)
            case _:
                raise AssertionError(step)

    # -- requests

    async def _ask(self, coordinator: Coordinator, step: Ask | AskForEpoch | AskGroup) -> Reply:
        transactional_id = self._current.ownership.transactional_id
        questions = Questions(self._engine, transactional_id, self._current.parts.level)
        return await ask(coordinator, questions, step)

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

    async def _add(self, dialogue: Dialogue[None]) -> None:
        with anyio.CancelScope() as self._adding:
            try:
                await converse(dialogue, self.perform)
            except KafkaError as error:
                self._engine.log.debug("partitions were not added to the transaction: %s", error)

    # -- records

    async def _records_ended(self) -> None:
        """Wait until every record that was accepted, or waits to be, has its outcome."""
        while True:
            for delivery in self._transactions.queued():
                await delivery.wait(None)
            await self._engine.flush()
            if self._engine.admission.waiting:
                await self._engine.nobody_waits()
            elif not self._engine.unresolved():
                return

    def _end_records(self, given_up: GivenUp) -> None:
        """Records that are not in flight end now, the others when they come back."""
        self._engine.admission.refuse_all(lambda call: given_up.error_of_call(call.topic))
        self._engine.settlement.end_all(given_up, self._engine.loop.time())

"""The dispatcher: performs the effects of an event of the state machines, once, in a fixed order.

Room comes first, as it places records. Transactions and compression follow, which may end records and so free room
again. Then come effects that only wake tasks. Observers are last, as they may call the producer.
"""

from __future__ import annotations

import contextlib
import math
from typing import TYPE_CHECKING

from aioproducer._state.cluster.facts import OUT_OF_MEMORY
from aioproducer._state.effects import Ended, Retried, Settled

if TYPE_CHECKING:
    from aioproducer._net.runtime.engine import Engine


class Dispatcher:
    """Performs the effects of one producer's machines."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.memory_lines = engine.machines.admission.memory
        self.effects = engine.effects
        # False when the loop was closed before the producer: no task can be woken, and no timer set.
        self.has_loop = True
        self.effects.perform = self.perform

    def perform(self) -> None:  # noqa: C901  # one line for each effect: calls in between cost a request 2 %
        """Perform all effects, and those that are added meanwhile."""
        effects = self.effects
        try:
            # The last question calls nothing, so that no signal handler adds an effect behind it.
            while not effects.is_empty:
                while effects.has_room:
                    self.memory_lines.serve()
                if effects.may_end_records:
                    self._tell_transactions()
                    self.compress()
                while effects.nodes:
                    node = next(iter(effects.nodes))
                    if node.wakeup is not None:
                        node.wakeup.ring()
                    else:
                        self.engine.brokers.start_sender(node)
                    effects.nodes.pop(node, None)
                if effects.wake_at != math.inf:
                    due = effects.wake_at
                    if self.has_loop:
                        self.engine.wakeup.by(due)
                    # A garbage collection meanwhile may have run code that needs an earlier timer.
                    if effects.wake_at == due:
                        effects.wake_at = math.inf
                if effects.is_rare:
                    self._perform_rare()
        except OUT_OF_MEMORY:
            # The event took place, and its effects are kept for the next turn. Without memory for that as well, the
            # next event or the timekeeper's next pulse performs them.
            with contextlib.suppress(*OUT_OF_MEMORY):
                self.engine.loop.call_soon(effects.event, _nothing)

    def _perform_rare(self) -> None:
        """Perform the effects that most events do not have."""
        effects = self.effects
        if effects.flushed or effects.flush_without_memory:
            self._end_flushes()
        if effects.stale or effects.wanted or effects.refused_ids:
            self._ask_for_metadata()
        if effects.identity_exhausted:
            self.engine.identity.want()
            effects.identity_exhausted = False
        if effects.call_ended_last:
            self.engine.flushes.end_idle_wait()
            effects.call_ended_last = False
        if effects.reports:
            self._report()

    # -- effects that may change the state of the machines

    def _tell_transactions(self) -> None:
        effects, transactions = self.effects, self.engine.transactions
        if transactions is None:
            effects.losses.clear()
            return
        while effects.opened:
            transactions.on_opened(effects.opened[0])
            effects.opened.popleft()
        # Taken away when it is performed: without memory for that, the transaction would be committed without the record.
        while effects.losses:
            transactions.on_lost(effects.losses[0])
            effects.losses.popleft()
        if effects.in_doubt:
            transactions.ask_for_the_reason()
            effects.in_doubt = False

    def compress(self) -> None:
        """Compress the batches that were closed. A request that is written within an event needs them before its end."""
        closed, compressor = self.effects.closed, self.engine.compressor
        while closed:
            batch = closed.popleft()
            try:
                if compressor is not None:
                    compressor.take(batch)
            except OUT_OF_MEMORY:
                # The sender compresses it at its turn.
                batch.sealing = False
                self.engine.accumulator.update_readiness(batch.queue, self.engine.loop.time())

    # -- effects that only wake tasks: each is removed when it is performed

    def _end_flushes(self) -> None:
        effects = self.effects
        while effects.flushed:
            self.engine.flushes.end(effects.flushed[0])
            effects.flushed.popleft()
        if effects.flush_without_memory:
            self.engine.flushes.give_up()
            effects.flush_without_memory = False

    def _ask_for_metadata(self) -> None:
        effects, cluster = self.effects, self.engine.cluster
        while effects.refused_ids:
            self.engine.view.id_refused(*effects.refused_ids[0])
            effects.refused_ids.popleft()
        while effects.stale:
            topic = next(iter(effects.stale))
            cluster.stale(topic)
            effects.stale.pop(topic, None)
        while effects.wanted:
            topic = next(iter(effects.wanted))
            cluster.want(topic)
            effects.wanted.pop(topic, None)

    # -- observers

    def _report(self) -> None:
        reports, log = self.effects.reports, self.engine.fault_log
        while reports:
            report = reports[0]
            # First: with a listener, each batch has one.
            if isinstance(report, Settled):
                self.engine.report_outcome(report)
            elif isinstance(report, Retried):
                log.retried(*report)
            elif isinstance(report, Ended):
                log.ended(*report)
            else:
                log.offset_went_back(*report)
            # Without memory for a report it is repeated, and not lost.
            reports.popleft()


def _nothing() -> None:
    """An empty event: it performs only the effects of earlier events."""

"""All state machines of one producer, wired: the same in production, in tests and in the simulation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from aioproducer._core import Budget
from aioproducer._deferred import deferred
from aioproducer._state.admission.call_expiry import CallExpiry
from aioproducer._state.admission.lines import Admission
from aioproducer._state.admission.waiting import WaitingCalls
from aioproducer._state.admission.waits import Waits
from aioproducer._state.batching.accumulator import Accumulator
from aioproducer._state.batching.limits import Limits
from aioproducer._state.cluster.reach import Reach
from aioproducer._state.delivery.endings import Endings
from aioproducer._state.delivery.expiry import Expiry
from aioproducer._state.delivery.losses import Losses
from aioproducer._state.delivery.outcomes import Outcomes
from aioproducer._state.delivery.refusals import Refusals
from aioproducer._state.delivery.settlement import Settlement
from aioproducer._state.delivery.tally import Tally
from aioproducer._state.effects import Effects, event
from aioproducer._state.identity.choice import sequences_of
from aioproducer._state.identity.coordinated import CoordinatedIdentity

if TYPE_CHECKING:
    from aioproducer._state.admission.waiting import Appender
    from aioproducer._state.backoff import Backoff
    from aioproducer._state.cluster.load_table import Random
    from aioproducer._state.cluster.metadata import MetadataView
    from aioproducer._state.transactions import current, ownership
    from aioproducer._state.transactions.current import CurrentTransaction
else:
    current = deferred("aioproducer._state.transactions.current")
    ownership = deferred("aioproducer._state.transactions.ownership")


class Machines:
    """Events enter here or at one of the machines; `effects` holds the resulting work of the network side."""

    def __init__(
        self,
        limits: Limits,
        appender: Appender,
        view: MetadataView,
        rng: Random,
        *,
        buffer_memory: int,
        retries: int,
        backoff: Backoff,
        idempotent: bool,
        transactional_id: str | None,
        transaction_timeout: float,
        one_at_a_time: bool,
        gapless: bool,
        loop: Any = None,  # given to the batches, which wake futures with it; not used here
        unseen_log: list[Any] | None = None,
        tally: Tally | None = None,
        waits: Waits | None = None,
    ) -> None:
        self.effects = Effects()
        self.tally = Tally() if tally is None else tally
        self.view = view
        self.reach = Reach()
        self.sequences = sequences_of(
            self.effects,
            idempotent=idempotent,
            transactional=transactional_id is not None,
            one_at_a_time=one_at_a_time,
        )
        self.accumulator = Accumulator(
            limits,
            Budget(buffer_memory),
            self.sequences,
            rng,
            self.effects,
            self.reach,
            loop=loop,
            unseen_log=unseen_log,
        )
        self.transaction: CurrentTransaction | None = None
        if transactional_id is not None and isinstance(self.sequences, CoordinatedIdentity):
            self.transaction = current.CurrentTransaction(
                ownership.Ownership(self.sequences, transactional_id), transaction_timeout
            )
        self.losses = Losses(Outcomes(self.accumulator, self.tally, self.transaction), gapless=gapless)
        self.refusals = Refusals(self.losses)
        self.settlement = Settlement(self.refusals, retries=retries, backoff=backoff, rng=rng)
        self.expiry = Expiry(self.losses)
        self.endings = Endings(self.refusals)
        calls = WaitingCalls(self.accumulator, self.losses, appender)
        self.admission = Admission(calls, view, Waits() if waits is None else waits)
        self.call_expiry = CallExpiry(self.admission)

    def serve_room(self) -> None:
        """Give freed memory to the calls that wait for it."""
        while self.effects.has_room:
            self.admission.memory.serve()

    # -- events that concern several machines

    @event
    def expire(self, now: float) -> None:
        """Time has passed: process all that is due."""
        self.expiry.expire(now)
        # A call may have waited for the memory of a batch that ends at this same time: it is accepted, not refused.
        self.serve_room()
        self.call_expiry.expire(now)

    @event
    def learn(self, name: str, topic_id: bytes, leaders: tuple[int, ...], now: float) -> None:
        """A topic and the leader of each of its partitions became known."""
        learned = self.accumulator.cluster.learn(name, topic_id, leaders, now)
        if learned.remade:
            self.endings.remade(learned.topic, now)
        if learned.gone:
            self.admission.vanished(name, learned.gone, now)
        for queue in learned.moved:
            self.admission.memory.moved(queue)
        self.admission.learned(name, now)

    @event
    def share_memory(self, dead: set[int]) -> None:
        """Brokers joined, left, or changed their state: the shares of the memory change too."""
        self.accumulator.cluster.share_memory(dead)
        self.effects.room()

"""The verdict about a batch whose end the producer itself knows, though some of its records had ended before."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from aioproducer._core import OUTCOMES
from aioproducer._state.resolving.search import Verdict
from aioproducer.outcome import Outcome

if TYPE_CHECKING:
    from aioproducer._state.queues.batches import QueuedBatch

UNNUMBERED: Final = "the record was sent without the numbers by which it could be found"
SPLIT: Final = "the batch of the record was too large and was split, so that its number is not known any more"
STILL_SENT: Final = Verdict(
    Outcome.UNKNOWN,
    reason="the record was not found, but other records of its batch have no outcome: it may be sent again",
)


def known_verdict(batch: QueuedBatch) -> Verdict | None:
    """The verdict without a look into the log; None: the log has to be read.

    A record that ended alone, at a time limit of its own, has the fate of its batch, which goes on.
    """
    outcome = OUTCOMES[batch.outcome]
    if outcome is Outcome.ACKED:
        return Verdict(outcome, batch.base_offset)
    if outcome is Outcome.NOT_WRITTEN:
        return Verdict(outcome)
    if batch.forwarded:
        return Verdict(Outcome.UNKNOWN, reason=SPLIT)
    if batch.identity is None:
        return Verdict(Outcome.UNKNOWN, reason=UNNUMBERED)
    return None

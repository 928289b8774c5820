"""The state of a transactional id at its coordinator, and its consequences for the producer."""

from __future__ import annotations

import enum
from typing import Final, NamedTuple

from aioproducer._wire.error_codes import ErrorCode

Identity = tuple[int, int]
"""A producer id and epoch."""

NOBODY: Final[Identity] = (-1, -1)
"""The identity in a request of a producer that has none."""

EMPTY: Final = "Empty"
ONGOING: Final = "Ongoing"
ABORTED: Final = frozenset({"PrepareAbort", "CompleteAbort", "PrepareEpochFence"})
COMMITTED: Final = frozenset({"PrepareCommit", "CompleteCommit"})
ENDED: Final = ABORTED | COMMITTED
PREPARING: Final = frozenset({"PrepareAbort", "PrepareCommit", "PrepareEpochFence"})
COMPLETE: Final = ENDED - PREPARING
# After this epoch comes another producer id.
LAST_EPOCH: Final = 32766


class Standing(NamedTuple):
    """The state at the coordinator."""

    producer_id: int
    epoch: int
    state: str
    may_raise_twice: bool = False
    """The coordinator may be of Kafka 4.0.0, which raises the epoch twice where it aborts a transaction of level 2 by itself."""

    def is_of(self, identity: Identity) -> bool:
        """Whether this identity is the newest. Each takeover by another producer raises the epoch."""
        return (self.producer_id, self.epoch) == identity

    def follows(self, identity: Identity, states: frozenset[str]) -> bool:
        """Whether the open transaction of this identity was ended in one of these states, and nothing has happened since.

        The end of a transaction raises the epoch by one; a takeover by another producer would have raised it again.
        """
        return (self.producer_id, self.epoch) == following(identity) and self.state in states

    def shows_double_abort(self, identity: Identity) -> bool:
        """Whether Kafka 4.0.0 aborted the transaction that this identity had open, and nothing has happened since (KAFKA-19367).

        Ask only for a transaction of level 2 that was open for certain. Where nothing was open, a successor ends its first
        transaction under this epoch.
        """
        return self.may_raise_twice and self.follows(following(identity), ABORTED)

    def passes(self, code: int, identity: Identity) -> bool:
        """Whether this identity is the newest, and was refused by this code only because markers were still being written.

        The coordinator refuses it while it writes the markers of the transaction whose end gave the identity: until
        then Kafka accepts only the former epoch. The markers may be complete when the standing is read. Where the
        epochs were used up, the identity has a new producer id, which the coordinator knows and shows only afterwards;
        nothing is open under it then.
        """
        if self.is_of(identity):
            # INVALID_PRODUCER_ID_MAPPING: the coordinator knows another producer id, or none.
            return code != ErrorCode.INVALID_PRODUCER_ID_MAPPING or self.state in ENDED
        return self.state in PREPARING and self.epoch > LAST_EPOCH and identity[1] == 0


class Move(enum.Enum):
    """The next step of a producer that needs its next epoch."""

    ASK = "as whom it is"
    ASK_AS_FOLLOWING = "as whom its transaction was ended"
    WAIT = "the transaction is being ended"
    GIVE_WAY = "another producer has taken over"


def following(identity: Identity) -> Identity:
    """The identity under which a coordinator itself ends an open transaction."""
    producer_id, epoch = identity
    return producer_id, epoch + 1


def next_move(standing: Standing, identity: Identity, *, was_open: bool) -> Move:
    """How to ask for the next epoch without ending another producer's transaction.

    `was_open`: this identity had a transaction, and has not ended it.
    """
    if standing.is_of(identity):
        return Move.WAIT if standing.state in PREPARING else Move.ASK
    if was_open and standing.follows(identity, ENDED):
        return Move.WAIT if standing.state in PREPARING else Move.ASK_AS_FOLLOWING
    # Nothing is open: the epoch may be the lost answer to this same question, and the coordinator knows. Where the epochs were used up,
    # an end whose answer was lost gives another producer id as well.
    of_new_id = COMPLETE | {EMPTY} if was_open else {EMPTY}
    repeats = standing.follows(identity, frozenset({EMPTY})) or (
        identity[1] >= LAST_EPOCH and standing.epoch == 0 and standing.state in of_new_id
    )
    return Move.ASK if repeats else Move.GIVE_WAY

"""How a transactional id stands at its coordinator, and what its producer may conclude from that."""

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
# Behind this epoch comes another producer id.
LAST_EPOCH: Final = 32766


class Standing(NamedTuple):
    """What the coordinator knows."""

    producer_id: int
    epoch: int
    state: str

    def follows(self, identity: Identity, states: frozenset[str]) -> bool:
        """Whether the transaction that this identity had open was ended like that, and nothing has happened since.

        Its end raised the epoch by one. Another producer's taking over would have raised it once more.
        """
        return (self.producer_id, self.epoch) == following(identity) and self.state in states

    def passes(self, code: int, identity: Identity) -> bool:
        """Whether this identity is the newest, and was refused by this code only because markers were still written.

        The coordinator refuses it while it writes the markers of the transaction whose end gave the identity: until then Kafka takes
        only the former epoch for valid. The markers may be complete when the standing is read. Where the epochs were used up, the
        identity has a new producer id, which the coordinator knows and shows only afterwards; nothing is open under it then.
        """
        if (self.producer_id, self.epoch) == identity:
            # INVALID_PRODUCER_ID_MAPPING: the coordinator knows another producer id, or none.
            return code != ErrorCode.INVALID_PRODUCER_ID_MAPPING or self.state in ENDED
        return self.state in PREPARING and self.epoch > LAST_EPOCH and identity[1] == 0


class Move(enum.Enum):
    """What a producer does that wants its next epoch."""

    ASK = "as whom it is"
    ASK_AS_FOLLOWING = "as whom its transaction was ended"
    WAIT = "the transaction is being ended"
    GIVE_WAY = "another producer has taken over"


def following(identity: Identity) -> Identity:
    """The identity under which a coordinator ends by itself what was open."""
    producer_id, epoch = identity
    return producer_id, epoch + 1


def next_move(standing: Standing, identity: Identity, *, was_open: bool) -> Move:
    """How to ask for the next epoch and end nobody else's transaction; `was_open`: this identity had one, and has not ended it."""
    if (standing.producer_id, standing.epoch) == identity:
        return Move.WAIT if standing.state in PREPARING else Move.ASK
    if was_open and standing.follows(identity, ENDED):
        return Move.WAIT if standing.state in PREPARING else Move.ASK_AS_FOLLOWING
    # Nothing is open: the epoch may be the answer to this very question, which was lost, and the coordinator knows.
    repeats = standing.follows(identity, frozenset({EMPTY})) or (
        identity[1] >= LAST_EPOCH and (standing.epoch, standing.state) == (0, EMPTY)
    )
    return Move.ASK if repeats else Move.GIVE_WAY

"""The states of a transaction, and the effect of EndTxn in each: the tables of Kafka's coordinator.

The version of the EndTxn request selects the table, not the cluster: up to v4 a transaction ends under the epoch of its
records. From v5 on (KIP-890) each end raises the epoch, which distinguishes a repetition from a next end.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType
from typing import Final


class State(Enum):
    """The states of a transactional id, with the names of ListTransactions."""

    EMPTY = "Empty"
    ONGOING = "Ongoing"
    PREPARE_COMMIT = "PrepareCommit"
    PREPARE_ABORT = "PrepareAbort"
    COMPLETE_COMMIT = "CompleteCommit"
    COMPLETE_ABORT = "CompleteAbort"
    DEAD = "Dead"
    """Only a filter in requests: an id that expires is forgotten at once."""
    PREPARE_EPOCH_FENCE = "PrepareEpochFence"
    """Only a filter in requests: fencing continues to PrepareAbort at once."""


PREPARING: Final = frozenset({State.PREPARE_COMMIT, State.PREPARE_ABORT})
"""The end of the transaction is decided; its markers are not written yet."""
COMPLETE: Final = frozenset({State.COMPLETE_COMMIT, State.COMPLETE_ABORT})


class Ending(Enum):
    """The effect of a request to end a transaction."""

    PREPARE = "the end is decided now"
    DONE = "decided before in the same way: the same answer again"
    WAIT = "decided in the same way, and markers are being written: CONCURRENT_TRANSACTIONS"
    ILLEGAL = "INVALID_TXN_STATE"


_COMMIT, _ABORT = True, False
_FIRST, _AGAIN = False, True

# (state, commit?)
_TO_VERSION_4: Final[Mapping[tuple[State, bool], Ending]] = MappingProxyType(
    {
        (State.ONGOING, _COMMIT): Ending.PREPARE,
        (State.ONGOING, _ABORT): Ending.PREPARE,
        (State.PREPARE_COMMIT, _COMMIT): Ending.WAIT,
        (State.PREPARE_ABORT, _ABORT): Ending.WAIT,
        (State.COMPLETE_COMMIT, _COMMIT): Ending.DONE,
        (State.COMPLETE_ABORT, _ABORT): Ending.DONE,
    }
)

# (state, commit?, does it come under the epoch from before the end?)
_FROM_VERSION_5: Final[Mapping[tuple[State, bool, bool], Ending]] = MappingProxyType(
    {
        (State.ONGOING, _COMMIT, _FIRST): Ending.PREPARE,
        (State.ONGOING, _ABORT, _FIRST): Ending.PREPARE,
        (State.EMPTY, _ABORT, _FIRST): Ending.PREPARE,
        (State.PREPARE_COMMIT, _COMMIT, _AGAIN): Ending.WAIT,
        (State.PREPARE_ABORT, _ABORT, _AGAIN): Ending.WAIT,
        (State.COMPLETE_COMMIT, _COMMIT, _AGAIN): Ending.DONE,
        (State.COMPLETE_COMMIT, _ABORT, _FIRST): Ending.PREPARE,
        (State.COMPLETE_ABORT, _ABORT, _AGAIN): Ending.DONE,
        (State.COMPLETE_ABORT, _ABORT, _FIRST): Ending.PREPARE,
    }
)


def ending(state: State, *, commit: bool) -> Ending:
    """The effect of EndTxn up to v4."""
    return _TO_VERSION_4.get((state, commit), Ending.ILLEGAL)


def ending_with_bump(state: State, *, commit: bool, again: bool) -> Ending:
    """The effect of EndTxn from v5 on."""
    return _FROM_VERSION_5.get((state, commit, again), Ending.ILLEGAL)

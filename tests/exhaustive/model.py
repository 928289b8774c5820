"""A small model: which records are sent to which cluster, and which faults may strike, at most so many."""

from __future__ import annotations

import attrs

from tests.state.machines import IDENTITY
from tests.state.wires import Fate

PRODUCER_ID = IDENTITY[0]
DELIVERY_TIMEOUT = 10_000.0
# Between the openings of two batches: their deadlines pass one by one, and no backoff is as long.
SPACING = 5.0
MOST_IN_FLIGHT = 5


# One code stands for each class of codes that are decided alike: `test_classes` holds the classes together.
FATES = {
    "declined": Fate(19, appends=False),  # NOT_ENOUGH_REPLICAS: proven, and tried again
    "refused": Fate(87, appends=False),  # INVALID_RECORD: proven, and final
    "unordered": Fate(45, appends=False),  # OUT_OF_ORDER_SEQUENCE_NUMBER: a matter of identity
    "too-large": Fate(10, appends=False),  # MESSAGE_TOO_LARGE: in smaller parts
    "unconfirmed": Fate(7, tells_offset=False),  # REQUEST_TIMED_OUT: ambiguous, and was appended
    "unwritten": Fate(7, appends=False),  # REQUEST_TIMED_OUT: ambiguous, and was not
    "failed": Fate(-1, tells_offset=False),  # UNKNOWN_SERVER_ERROR: ambiguous and final, and was appended
    "failing": Fate(-1, appends=False),  # UNKNOWN_SERVER_ERROR: ambiguous and final, and was not
}

# What may strike besides the fates of batches.
CUT = "cut"  # a connection ends: what has arrived is appended and never answered, the rest is gone
STRAY = "stray"  # a connection ends, but bytes that were written to it may still arrive, at any time
UNSENT = "unsent"  # a request is drained, and its connection ends before a byte of it left
MOVE = "move"  # a partition gets another leader
EXPIRE = "expire"  # time leaps to the next deadline of a record
WITHDRAW = "withdraw"  # a caller takes back the first record of a batch that was not drained yet
CLOSE = "close"  # the producer ends before everything is resolved

FAULTS_OF_THE_ISSUE = (CUT, STRAY, MOVE, EXPIRE, "unordered")


@attrs.frozen
class Model:
    """The start of an exploration, and the events and faults that are possible in it."""

    name: str
    batches: tuple[tuple[int, int], ...]
    """Partition and number of records of each batch, in the order of the calls."""
    faults: tuple[str, ...] = FAULTS_OF_THE_ISSUE
    most_faults: int = 2
    leaders: tuple[int, ...] = (1, 1)
    upfront: int = 99
    """So many batches are there at the beginning; when the others come is explored."""
    introduced: bool = True
    epoch: int = 3
    sequence: int = 0
    memory: int = 1 << 20
    retries: int = 1 << 31
    in_flight: int = MOST_IN_FLIGHT
    states: int = attrs.field(default=0, eq=False)
    """So many were found when the model was written down; fewer means that less is explored now."""

"""Ways out for records that a plain `send()` leaves to the program: dead letters, and checkpoints of a source.

`DeadLetters` sets aside the records that can never be written. `Checkpoint` tells how far a source is acknowledged. Neither
needs more than the library itself.
"""

from __future__ import annotations

from aioproducer.errors import CheckpointStoppedError as CheckpointStoppedError
from aioproducer.outlets.checkpoint import Checkpoint as Checkpoint
from aioproducer.outlets.dead_letters import DeadLetters as DeadLetters
from aioproducer.outlets.sent_record import SentRecord as SentRecord

__all__ = ["Checkpoint", "CheckpointStoppedError", "DeadLetters", "SentRecord"]

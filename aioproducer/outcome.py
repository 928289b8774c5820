"""The outcome of a record, in one word."""

from __future__ import annotations

import enum

__all__ = ["Outcome"]


class Outcome(enum.Enum):
    """The outcome of one record; only `PENDING` ever changes.

    `NOT_WRITTEN` is a promise: the record is not in the log and never will be, so it is safe to send it
    again. `UNKNOWN` means that it was on the wire and no answer that can be trusted came: the log has 0 or 1
    copies of it.
    """

    PENDING = "pending"
    ACKED = "acked"
    NOT_WRITTEN = "not written"
    UNKNOWN = "unknown"

"""The numbers of a relay."""

from __future__ import annotations

import attrs

__all__ = ["RelayStats"]


@attrs.frozen
class RelayStats:
    """One snapshot of a relay. `sent` and `deleted` only grow.

    `sent` counts records, those that were sent again as well; `deleted` counts rows. `pending` is the number of rows that
    were read and are not deleted yet. `oldest_seconds` is the age of the oldest of them, by its timestamp; None without
    any. `active`: this relay has the lock.
    """

    sent: int = 0
    deleted: int = 0
    pending: int = 0
    oldest_seconds: float | None = None
    active: bool = False

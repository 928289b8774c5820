"""Failures of users' objects in the log, at a limited rate."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import attrs

if TYPE_CHECKING:
    from aioproducer._net.log import Log

# A failing object is logged at this interval, with the number of failures since the last line.
LOG_INTERVAL = 10.0
# Any other exception of a user's object would end a task of the producer.
END_OF_THE_PROGRAM = (KeyboardInterrupt, SystemExit)


@attrs.define(eq=False)
class Failures:
    """The failures of one method of one object."""

    name: str
    count: int = 0
    logged_at: float = -math.inf

    def note(self, error: BaseException, log: Log, now: float, what: str) -> None:
        """Count this exception, and log it if no line is newer than `LOG_INTERVAL`."""
        self.count += 1
        if now >= self.logged_at + LOG_INTERVAL:
            count, self.count, self.logged_at = self.count, 0, now
            text = "%s failed for %d %s%s"
            log.error(text, self.name, count, what, "" if count == 1 else "s", exc_info=error)

"""Count and total time of the waits for acceptance: for memory, and for metadata."""

from __future__ import annotations

from typing import Protocol

import attrs


class Timed(Protocol):
    """The part of a waiting call that its waits need."""

    queued: bool
    without_metadata_since: float | None
    without_memory_since: float | None


@attrs.define
class Waited:
    """Completed waits; `seconds` is their sum."""

    calls: int = 0
    seconds: float = 0.0

    def add(self, seconds: float) -> None:
        """Add a completed wait."""
        self.calls += 1
        self.seconds += max(0.0, seconds)


@attrs.define
class Waits:
    """The waits of all calls of one producer."""

    memory: Waited = attrs.Factory(Waited)
    metadata: Waited = attrs.Factory(Waited)

    def metadata_is_missing(self, call: Timed, now: float) -> None:
        """The call waits for metadata. A record of `send_nowait` waits as well, but no caller waits for it."""
        if call.without_metadata_since is None and not call.queued:
            call.without_metadata_since = now

    def metadata_came(self, call: Timed, now: float) -> None:
        """The call no longer waits for metadata."""
        since, call.without_metadata_since = call.without_metadata_since, None
        if since is not None:
            self.metadata.add(now - since)

    def over(self, call: Timed, now: float) -> None:
        """The call goes on, or has ended."""
        self.metadata_came(call, now)
        since, call.without_memory_since = call.without_memory_since, None
        if since is not None:
            self.memory.add(now - since)

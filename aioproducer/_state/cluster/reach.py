"""Why brokers may be out of reach, as the network side knew it last."""

from __future__ import annotations

import attrs


@attrs.define
class Reach:
    """The network side writes it before an event that may end records or calls, whose errors name a cause."""

    last_error: BaseException | None = None
    """What went wrong last."""
    present_error: BaseException | None = None
    """The same, unless the cluster has answered something since."""
    has_metadata: bool = False
    """A broker has given metadata, and the connection to it is open."""

    @property
    def missing(self) -> BaseException | None:
        """Why no broker gives metadata; None where one does."""
        return None if self.has_metadata else self.present_error

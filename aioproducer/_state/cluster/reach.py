"""The reasons why brokers may be out of reach, as the network side last knew them."""

from __future__ import annotations

import attrs


@attrs.define
class Reach:
    """Written by the network side before an event that may end records or calls, whose errors name a cause."""

    last_error: BaseException | None = None
    """The newest error."""
    present_error: BaseException | None = None
    """The same, unless the cluster has answered a request since."""
    has_metadata: bool = False
    """A broker has given metadata, and the connection to it is open."""

    @property
    def missing(self) -> BaseException | None:
        """The reason why no broker gives metadata; None where one does."""
        return None if self.has_metadata else self.present_error

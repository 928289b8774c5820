"""The lines of the log about connections that are open: the first one for a purpose, and the first one after trouble."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from aioproducer._net.connecting.connection.ends import Ending

if TYPE_CHECKING:
    from aioproducer._net.connecting.connection.connection import Connection
    from aioproducer._net.log import Log


class Contact:
    """The connections for one purpose, of which there is one at a time.

    A connection that replaces an idle one, or one that was left for a better broker, is a DEBUG line: nothing was wrong.
    `level` is that of the first connection, and of one after a failure; short sessions set it to DEBUG.
    """

    def __init__(self, log: Log, level: int = logging.INFO) -> None:
        self._log = log
        self._level = level
        self._known = False
        self._in_trouble = False

    def made(self, connection: Connection, purpose: str = "") -> None:
        """There is a connection; `purpose` is the end of the line about it."""
        self._log.log(
            logging.DEBUG if self._known and not self._in_trouble else self._level,
            "%s to broker %s%s",
            "reconnected" if self._known else "connected",
            connection.broker,
            purpose,
            extra={"broker": connection.broker},
        )
        self._known, self._in_trouble = True, False
        connection.add_close_callback(self._ended)

    def failed(self) -> None:
        """There is none, or it was of no use."""
        self._in_trouble = True

    def _ended(self, connection: Connection) -> None:
        if connection.ending in (Ending.CUT, Ending.GIVEN_UP):
            self.failed()

"""The library's logger. Its handlers are user code: a failing handler costs a line, and no record."""

from __future__ import annotations

import logging
import math
import sys
import traceback
from collections.abc import MutableMapping
from typing import TYPE_CHECKING, Any

import attrs

__all__ = ["Log", "PacedWarning", "log", "log_of"]

_WARN_EVERY = 10.0
"""Seconds."""

if TYPE_CHECKING:
    _Adapter = logging.LoggerAdapter[logging.Logger]
else:
    _Adapter = logging.LoggerAdapter


class Log(_Adapter):
    """Handlers report their errors by `handleError()`; this class does it for handlers that raise."""

    def process(self, msg: Any, kwargs: MutableMapping[str, Any]) -> tuple[Any, MutableMapping[str, Any]]:
        """Add the fields of the adapter to those of the line."""
        kwargs["extra"] = {**(self.extra or {}), **kwargs.get("extra", {})}
        return msg, kwargs

    def log(self, level: int, msg: object, *args: object, **kwargs: Any) -> None:
        """Log the message, and continue after any error."""
        kwargs["stacklevel"] = kwargs.get("stacklevel", 1) + 1
        try:
            super().log(level, msg, *args, **kwargs)
        except Exception:  # noqa: BLE001  # an error of a handler, filter or formatter
            if logging.raiseExceptions and sys.stderr is not None:
                traceback.print_exc()


class _LogOfClient(Log):
    """Lines of one producer: each begins with its `client_id`."""

    def log(self, level: int, msg: object, *args: object, **kwargs: Any) -> None:
        """Log the message with the name of the client."""
        kwargs["stacklevel"] = kwargs.get("stacklevel", 1) + 1
        super().log(level, f"%s: {msg}", self.extra["client_id"], *args, **kwargs)  # type: ignore[index]  # log_of() set it


@attrs.define
class PacedWarning:
    """One warning, at most every ten seconds: the lines between two of them are for debugging."""

    _warned_at: float = -math.inf

    def level(self, now: float) -> int:
        """The level of a line at this time."""
        if now < self._warned_at + _WARN_EVERY:
            return logging.DEBUG
        self._warned_at = now
        return logging.WARNING


log = Log(logging.getLogger("aioproducer"), {})


def log_of(client_id: str | None) -> Log:
    """The log of a producer, distinguished by its `client_id` from other producers of the process."""
    return log if client_id is None else _LogOfClient(log.logger, {"client_id": client_id})

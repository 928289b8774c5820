"""The library's logger, whose handlers are code of the user's: one that fails costs a line, and no record."""

from __future__ import annotations

import logging
import sys
import traceback
from typing import TYPE_CHECKING, Any

__all__ = ["Log", "log", "log_of"]

if TYPE_CHECKING:
    _Adapter = logging.LoggerAdapter[logging.Logger]
else:
    _Adapter = logging.LoggerAdapter


class Log(_Adapter):
    """Handlers report what goes wrong in them by `handleError()`; here it is done for those that raise instead."""

    def log(self, level: int, msg: object, *args: object, **kwargs: Any) -> None:
        """Tell it, and go on whatever happens."""
        kwargs["stacklevel"] = kwargs.get("stacklevel", 1) + 1
        try:
            super().log(level, msg, *args, **kwargs)
        except Exception:  # noqa: BLE001  # of a handler, a filter or a formatter
            if logging.raiseExceptions and sys.stderr is not None:
                traceback.print_exc()


class _LogOfClient(Log):
    """Lines of one producer: each begins with its `client_id`."""

    def log(self, level: int, msg: object, *args: object, **kwargs: Any) -> None:
        """Tell it with the name of the client."""
        kwargs["stacklevel"] = kwargs.get("stacklevel", 1) + 1
        super().log(level, f"%s: {msg}", self.extra["client_id"], *args, **kwargs)  # type: ignore[index]  # log_of() set it


log = Log(logging.getLogger("aioproducer"), {})


def log_of(client_id: str | None) -> Log:
    """The log of a producer; it is told apart from others in the same process by its `client_id`."""
    return log if client_id is None else _LogOfClient(log.logger, {"client_id": client_id})

"""The library's logger, whose handlers are code of the user's: one that fails costs a line, and no record."""

from __future__ import annotations

import logging
import sys
import traceback
from typing import TYPE_CHECKING, Any

__all__ = ["log"]

if TYPE_CHECKING:
    _Adapter = logging.LoggerAdapter[logging.Logger]
else:
    _Adapter = logging.LoggerAdapter


class _Guarded(_Adapter):
    """Handlers report what goes wrong in them by `handleError()`; here it is done for those that raise instead."""

    def log(self, level: int, msg: object, *args: object, **kwargs: Any) -> None:
        """Tell it, and go on whatever happens."""
        kwargs["stacklevel"] = kwargs.get("stacklevel", 1) + 1
        try:
            super().log(level, msg, *args, **kwargs)
        except Exception:  # noqa: BLE001  # of a handler, a filter or a formatter
            if logging.raiseExceptions and sys.stderr is not None:
                traceback.print_exc()


log = _Guarded(logging.getLogger("aioproducer"), {})

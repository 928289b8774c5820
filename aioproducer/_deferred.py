"""Modules that are imported when one of their names is first used.

A program pays for what it uses: the name of a class costs its module, and not the rest of the library; the engine is loaded
by the first `start()`, security by the first producer that has any. Type checkers, and the contracts of the layers, read the
import itself, in the other branch:

    if TYPE_CHECKING:
        from aioproducer._calls import running
    else:
        running = Deferred("aioproducer._calls.running")

What is deferred must not be used first while records are sent: an import takes milliseconds, and the event loop stands still.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

__all__ = ["Deferred"]


class Deferred:
    """A module that is imported when one of its names is first used."""

    def __init__(self, module: str) -> None:
        self._module = module

    def __getattr__(self, name: str) -> Any:
        value = getattr(import_module(self._module), name)
        # Found without this method the next time.
        setattr(self, name, value)
        return value

"""Modules that are imported when one of their names is first used.

A program pays for what it uses: the name of a class costs its module, and not the rest of the library; the engine is loaded
by the first `start()`, security by the first producer that has any. Type checkers, and the contracts of the layers, read the
import itself, in the other branch:

    if TYPE_CHECKING:
        from aioproducer._calls import running
    else:
        running = deferred("aioproducer._calls.running")

No deferred module may be used first while records are sent: an import takes milliseconds, and the event loop stands still.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from types import ModuleType
from typing import Any

__all__ = ["deferred"]


class _Deferred:
    """A module that is imported when one of its names is first used."""

    def __init__(self, module: str) -> None:
        self._name = module
        # Kept, because at the end of the interpreter, when a producer may still have to say what it lost, nothing is found.
        self._module: ModuleType | None = None

    def __getattr__(self, name: str) -> Any:
        if self._module is None:
            self._module = import_module(self._name)
        value = getattr(self._module, name)
        # Found without this method the next time.
        setattr(self, name, value)
        return value


@cache
def deferred(module: str) -> Any:
    """The module of this name, imported with its first use; the same object for all that use it."""
    return _Deferred(module)

"""The tasks of a producer, started from anywhere in its loop."""

from __future__ import annotations

import sys
from contextvars import Context, copy_context
from functools import partial
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from anyio.abc import TaskGroup


class Tasks:
    """The task group of a producer. Tasks may be started in callbacks of the loop too."""

    def __init__(self, group: TaskGroup, context: Context) -> None:
        self._group = group
        self._context = context

    def start_soon(self, run: Callable[..., Coroutine[Any, Any, Any]], *arguments: Any, name: str) -> None:
        """Start a task, not in the context of the call that needs it: the task would keep that, with the spans of the caller."""
        self._context.copy().run(partial(self._group.start_soon, run, *arguments, name=name))

    @property
    def are_cancelled(self) -> bool:
        """Whether the producer itself cancels them. A task that is started afterwards may never be cancelled, and then spin."""
        return self._group.cancel_scope.cancel_called


def context_of_tasks() -> Context:
    """A copy of the present context, in which anyio finds asyncio.

    Where the package sniffio is installed, anyio asks it for the library in use. It knows that of a task, but not that of a
    callback of the loop, unless the context says so.
    """
    context = copy_context()
    # anyio has imported it, if it is there.
    sniffio: Any = sys.modules.get("sniffio")
    if sniffio is not None:
        context.run(sniffio.current_async_library_cvar.set, "asyncio")
    return context

"""Reading a container that another thread changes at the same time."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

__all__ = ["copied", "retried"]

T = TypeVar("T")


def copied(items: Iterable[T]) -> list[T]:
    """The items of a container that another thread may change during the call."""
    # One call of compiled code: another thread runs in it only where a garbage collection runs a finalizer.
    return retried(lambda: list(items))


def retried(read: Callable[[], T]) -> T:
    """The result of reading a container, from the beginning again where it has changed meanwhile."""
    while True:
        try:
            return read()
        except RecursionError:
            # A RuntimeError as well: the stack of the caller has no room, and no later attempt has any.
            raise
        except RuntimeError:
            continue

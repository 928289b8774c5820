"""Functions that return a coroutine, and are no `async def` because they have something to do in the call itself."""

from __future__ import annotations

import asyncio
import inspect
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeVar

    F = TypeVar("F", bound="Callable[..., Any]")

__all__ = ["marked_as_coroutine_function"]


def marked_as_coroutine_function(function: F) -> F:
    """Have `inspect` and mocks take the function for an `async def`."""
    if sys.version_info >= (3, 12):
        inspect.markcoroutinefunction(function)
    else:
        function._is_coroutine = asyncio.coroutines._is_coroutine  # type: ignore[attr-defined]  # noqa: SLF001
    return function

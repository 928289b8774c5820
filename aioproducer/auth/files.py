"""A provider of tokens that are in a file."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path

from aioproducer._callers.own_thread import in_own_thread
from aioproducer.auth.failing import NoTokenError
from aioproducer.secret import Token

__all__ = ["token_file"]


def token_file(path: str) -> Callable[[], Awaitable[Token]]:
    """A provider that reads the token from a file each time, such as that of a projected service account."""

    def read() -> Token:
        try:
            token = Path(path).read_text(encoding="utf-8-sig").strip()
        except OSError as error:
            why = error.strerror or type(error).__name__
        except ValueError:
            why = "it is not UTF-8 text, or its path is none"
        else:
            if token:
                return Token(token)
            why = "it is empty"
        raise NoTokenError(f"failed: reading {path}: {why}")

    async def provide() -> Token:
        return await in_own_thread(read)

    return provide

"""Handing a request to a transport, whatever the flaws of its `writelines()`."""

from __future__ import annotations

import asyncio
import struct
import sys
from collections.abc import Sequence
from typing import Any, TypeAlias

__all__ = ["BytesLike", "hand_over"]

# Anything with the buffer protocol; `collections.abc.Buffer` is there from Python 3.12 on.
BytesLike: TypeAlias = Any

_LENGTH = struct.Struct(">i")
# There writelines() never calls pause_writing (CVE-2024-12254), so that memory would grow without a limit.
_PYTHON = tuple(sys.version_info[:3])
_WRITELINES_IS_UNBOUNDED = (3, 12, 0) <= _PYTHON < (3, 12, 9) or (3, 13, 0) <= _PYTHON < (3, 13, 2)


def hand_over(transport: asyncio.Transport, parts: Sequence[BytesLike], nbytes: int | None) -> None:
    """Write one frame: its length, then its parts, in one go."""
    views = [memoryview(part) for part in parts]
    size = sum(view.nbytes for view in views) if nbytes is None else nbytes
    # No empty ones: with an empty last part, asyncio's writelines() of 3.12 and later never gets done (gh-155888).
    pieces: list[bytes | memoryview] = [_LENGTH.pack(size), *(view for view in views if view.nbytes)]
    if _WRITELINES_IS_UNBOUNDED:
        transport.write(b"".join(pieces))
    else:
        transport.writelines(pieces)

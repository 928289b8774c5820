"""Handing a request to a transport, whatever the flaws of its `writelines()`."""

from __future__ import annotations

import asyncio
import struct
import sys
from collections.abc import Sequence
from typing import TypeAlias

__all__ = ["Part", "hand_over"]

# A view is one of single bytes.
Part: TypeAlias = bytes | bytearray | memoryview

_LENGTH = struct.Struct(">i")
# There writelines() never calls pause_writing (CVE-2024-12254), so that memory would grow without a limit.
_PYTHON = tuple(sys.version_info[:3])
_WRITELINES_IS_UNBOUNDED = (3, 12, 0) <= _PYTHON < (3, 12, 9) or (3, 13, 0) <= _PYTHON < (3, 13, 2)


def hand_over(transport: asyncio.Transport, parts: Sequence[Part]) -> int:
    """Write one frame: its length, then its parts, in one go. Returns the number of its bytes."""
    size = sum(map(len, parts))
    # No empty ones: with an empty last part, asyncio's writelines() of 3.12 and later never gets done (gh-155888).
    pieces = [_LENGTH.pack(size), *filter(len, parts)]
    if _WRITELINES_IS_UNBOUNDED:
        transport.write(b"".join(pieces))
    else:
        transport.writelines(pieces)
    return _LENGTH.size + size

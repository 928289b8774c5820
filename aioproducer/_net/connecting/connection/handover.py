"""Handing a request to a transport, whatever the flaws of its `writelines()`."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from typing import TypeAlias

from aioproducer._core import framed

__all__ = ["Part", "hand_over"]

# A view is one of single bytes.
Part: TypeAlias = bytes | bytearray | memoryview

# There writelines() never calls pause_writing (CVE-2024-12254), so that memory would grow without a limit.
_PYTHON = tuple(sys.version_info[:3])
_WRITELINES_IS_UNBOUNDED = (3, 12, 0) <= _PYTHON < (3, 12, 9) or (3, 13, 0) <= _PYTHON < (3, 13, 2)


def hand_over(transport: asyncio.Transport, parts: Sequence[Part]) -> int:
    """Write one frame: its length, then its parts, in one go. Returns the number of its bytes."""
    # No empty pieces: with an empty last one, asyncio's writelines() of 3.12 and later never gets done (gh-155888).
    pieces, size = framed(parts)
    if _WRITELINES_IS_UNBOUNDED:
        transport.write(b"".join(pieces))
    else:
        transport.writelines(pieces)
    return size

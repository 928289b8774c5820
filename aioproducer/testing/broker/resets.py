"""The reset of a connection."""

from __future__ import annotations

import asyncio
import socket
import struct
from typing import Final

_RESET_ON_CLOSE: Final = struct.pack("ii", 1, 0)


def reset(transport: asyncio.Transport) -> None:
    """End a connection by a reset (RST), where it has a socket."""
    raw = transport.get_extra_info("socket")
    if raw is not None:
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
    transport.abort()

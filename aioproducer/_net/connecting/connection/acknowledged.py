"""Whether the peer of a socket has acknowledged each byte: the system knows, and no transport tells."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

try:
    import fcntl
    import termios
except ImportError:  # pragma: no cover  # Windows does not have them
    fcntl = None  # type: ignore[assignment]

if TYPE_CHECKING:
    import asyncio

__all__ = ["is_acknowledged"]

_INT = struct.Struct("i")


def is_acknowledged(transport: asyncio.BaseTransport | None) -> bool:
    """Whether the system holds no byte that the peer has not acknowledged; False if it does not tell.

    The transport may have bytes of its own. It hands them over when the system has room, so that only the same answer over
    several turns of the loop means that there are none.
    """
    sock = None if transport is None else transport.get_extra_info("socket")
    if sock is None or fcntl is None:
        return False
    try:
        (held,) = _INT.unpack(fcntl.ioctl(sock.fileno(), termios.TIOCOUTQ, bytes(_INT.size)))
    except OSError:
        return False
    return not held

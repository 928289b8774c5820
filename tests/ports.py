"""Ports of this machine without a listener."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def unused_port() -> Iterator[int]:
    """A port of all loopback addresses without a listener, which no program can take while this lasts."""
    with socket.socket() as taken:
        taken.bind(("0.0.0.0", 0))
        yield taken.getsockname()[1]

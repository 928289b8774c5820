"""Ports of this machine where nobody is."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def unused_port() -> Iterator[int]:
    """A port of all loopback addresses that nobody listens on, and nobody can take while this lasts."""
    with socket.socket() as taken:
        taken.bind(("0.0.0.0", 0))
        yield taken.getsockname()[1]

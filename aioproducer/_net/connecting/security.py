"""What protects a connection to a broker."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

if TYPE_CHECKING:
    import ssl
    from collections.abc import Awaitable, Callable

__all__ = ["PLAINTEXT", "TransportSecurity"]


@attrs.frozen
class TransportSecurity:
    """The same for all connections of a producer.

    `tls_context` is awaited for each new connection, because certificates change while a producer runs. Without it the
    connection is not encrypted.
    """

    tls_context: Callable[[], Awaitable[ssl.SSLContext]] | None = attrs.field(default=None, repr=False)


PLAINTEXT = TransportSecurity()

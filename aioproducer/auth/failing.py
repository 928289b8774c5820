"""The failure of a provider of this library."""

from __future__ import annotations

__all__ = ["NoTokenError"]


class NoTokenError(Exception):
    """A provider of this library has no token. Its text completes "sasl_token_provider …", and has no secret."""

"""SASL PLAIN (RFC 4616): user name and password in one message."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aioproducer.errors import AuthenticationError, ConfigurationError

if TYPE_CHECKING:
    from aioproducer._state.connecting.authentication import SaslExchange
    from aioproducer.security.sasl.credentials import PasswordCredentials

__all__ = ["plain"]


def plain(credentials: PasswordCredentials) -> SaslExchange:
    """The exchange: the broker answers with nothing."""
    # No local variable holds the password: some error reports show those of each frame.
    if "\0" in credentials.password.reveal():
        raise ConfigurationError("the SASL password has a NUL character, which PLAIN cannot send")
    challenge: bytes = yield f"\0{credentials.username}\0{credentials.password.reveal()}".encode()
    if challenge:
        raise AuthenticationError(
            "the broker continues after PLAIN is complete", reason="server", mechanism="PLAIN"
        )

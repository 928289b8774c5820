"""SASL OAUTHBEARER (RFC 7628): a bearer token in one message."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from aioproducer.errors import AuthenticationError, printable
from aioproducer.security.server_words import without_secrets

if TYPE_CHECKING:
    from aioproducer._state.connecting.authentication import SaslExchange
    from aioproducer.security.sasl.credentials import TokenCredentials

__all__ = ["oauthbearer"]

_NAME = "OAUTHBEARER"
_SEPARATOR = "\x01"
_LONGEST_STATUS = 100


def oauthbearer(credentials: TokenCredentials) -> SaslExchange:
    """The exchange: the broker answers with nothing, or with a reason."""
    refusal: bytes = yield _message(credentials)
    if refusal:
        # The answer to this message has the error code. A broker that sends none is faulty.
        yield _SEPARATOR.encode()
        raise AuthenticationError(
            f"the broker refused the token: {_status_of(refusal, credentials)}",
            reason="server",
            mechanism=_NAME,
        )


def _message(credentials: TokenCredentials) -> bytes:
    # Not in the exchange: some error reports show the local variables of each frame.
    fields = [f"auth=Bearer {credentials.token.reveal()}", *map("=".join, credentials.extensions.items())]
    return "".join(["n,,", _SEPARATOR, *(field + _SEPARATOR for field in fields), _SEPARATOR]).encode()


def _status_of(refusal: bytes, credentials: TokenCredentials) -> str:
    try:
        status = json.loads(refusal)["status"]
    except (ValueError, LookupError, TypeError, RecursionError):
        return "its reason cannot be read"
    return printable(without_secrets(str(status), [credentials.token]), _LONGEST_STATUS)

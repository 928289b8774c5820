"""OAUTHBEARER: a token in one message."""

from __future__ import annotations

import pytest

from aioproducer.errors import AuthenticationError
from aioproducer.secret import Secret
from aioproducer.security.sasl.credentials import TokenCredentials
from aioproducer.security.sasl.oauthbearer import oauthbearer
from tests.security.sasl.exchanging import exchanged

TOKEN = TokenCredentials(Secret("header.payload.signature"))


def test_the_message() -> None:
    """The token and its extensions are fields that end with \\x01, and so does the message (RFC 7628)."""
    assert exchanged(oauthbearer(TOKEN), b"") == [b"n,,\x01auth=Bearer header.payload.signature\x01\x01"]
    with_extensions = TokenCredentials(TOKEN.token, {"logicalCluster": "lkc-1", "identityPoolId": "pool-2"})
    assert exchanged(oauthbearer(with_extensions), b"") == [
        b"n,,\x01auth=Bearer header.payload.signature\x01logicalCluster=lkc-1\x01identityPoolId=pool-2\x01\x01"
    ]


@pytest.mark.parametrize(
    ("refusal", "told"),
    [
        (b'{"status":"invalid_token","scope":"x"}', "invalid_token"),
        (b'{"status":"\\n\\u001b[31m' + b"x" * 1000 + b'"}', "refused the token"),
        (b"not json", "cannot be read"),
        (b"[]", "cannot be read"),
        (b"[" * 100_000, "cannot be read"),
        (b"\xff", "cannot be read"),
    ],
)
def test_a_refusal_is_acknowledged(refusal: bytes, told: str) -> None:
    """The broker gives the reason, waits for \\x01, and only then gives its error code; without a code it is broken."""
    exchange = oauthbearer(TOKEN)
    next(exchange)
    assert exchange.send(refusal) == b"\x01"
    with pytest.raises(AuthenticationError, match=told) as raised:
        exchange.send(b"")
    text = str(raised.value)
    assert text.isprintable()
    assert len(text) < 300
    assert raised.value.reason == "server"

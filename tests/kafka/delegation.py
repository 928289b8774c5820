"""Delegation tokens of a real Kafka, which only an authenticated client can create."""

from __future__ import annotations

import base64
import datetime
import socket
import ssl
from typing import Final

from kio.schema.create_delegation_token.v3.request import CreateDelegationTokenRequest
from kio.schema.create_delegation_token.v3.response import CreateDelegationTokenResponse
from kio.schema.sasl_authenticate.v2.request import SaslAuthenticateRequest
from kio.schema.sasl_authenticate.v2.response import SaslAuthenticateResponse
from kio.schema.sasl_handshake.v1.request import SaslHandshakeRequest
from kio.schema.sasl_handshake.v1.response import SaslHandshakeResponse
from kio.static.primitive import i64Timedelta

from tests.kafka.secured import PLAIN_PASSWORD, USER, SecuredKafka
from tools.kafka_requests import ask_over

_LIMIT: Final = 20.0
_LIFETIME: Final = datetime.timedelta(minutes=10)


def delegation_token(kafka: SecuredKafka) -> tuple[str, str]:
    """The id and the HMAC of a new token of the user, as Kafka's own tool prints them."""
    context = ssl.create_default_context(cafile=str(kafka.authority.own.certificate))
    with (
        socket.create_connection(("127.0.0.1", kafka.sasl_port), timeout=_LIMIT) as raw,
        context.wrap_socket(raw, server_hostname="localhost") as connection,
    ):
        ask_over(connection, SaslHandshakeRequest(mechanism="PLAIN"), SaslHandshakeResponse)
        proof = f"\0{USER}\0{PLAIN_PASSWORD}".encode()
        proven = ask_over(connection, SaslAuthenticateRequest(auth_bytes=proof), SaslAuthenticateResponse)
        assert not proven.error_code.value, proven
        request = CreateDelegationTokenRequest(
            owner_principal_type=None,
            owner_principal_name=None,
            renewers=(),
            max_lifetime=i64Timedelta.parse(_LIFETIME),
        )
        made = ask_over(connection, request, CreateDelegationTokenResponse)
    assert not made.error_code.value, made
    return made.token_id, base64.b64encode(made.hmac).decode()

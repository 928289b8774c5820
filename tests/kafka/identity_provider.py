"""An identity provider on loopback: it signs tokens by RSA, publishes its keys, and has a path for each faulty token."""

from __future__ import annotations

import base64
import http.server
import json
import threading
import time
from collections.abc import Callable
from typing import Any, Final, Self
from urllib.parse import parse_qs

import attrs
import jwt
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.asymmetric.types import PublicKeyTypes
from jwt.algorithms import RSAAlgorithm

from tests.certificates import Authority

CLIENT: Final = "orders-client"
CLIENT_SECRET: Final = "idp-canary-7"
AUDIENCE: Final = "kafka-of-the-tests"
ISSUER: Final = "https://idp.example"

Claims = dict[str, Any]
Fault = Callable[[Claims], Claims]
FAULTS: Final[dict[str, Fault]] = {
    "expired": lambda claims: claims | {"iat": claims["iat"] - 3600, "exp": claims["exp"] - 3600},
    "audience": lambda claims: claims | {"aud": "another-service"},
    "issuer": lambda claims: claims | {"iss": "https://other.example"},
    "nobody": lambda claims: {name: value for name, value in claims.items() if name != "sub"},
}
"""Paths below /token whose claims a broker refuses; `/token/foreign` signs with a key that is not published."""


@attrs.frozen
class SigningKey:
    """A key pair and its name."""

    name: str
    private: rsa.RSAPrivateKey = attrs.field(factory=lambda: rsa.generate_private_key(65537, 2048))

    @property
    def published(self) -> dict[str, Any]:
        """The public half as a member of a key set."""
        half = RSAAlgorithm.to_jwk(self.private.public_key(), as_dict=True)
        return half | {"kid": self.name, "use": "sig", "alg": "RS256"}


@attrs.define(eq=False)
class IdentityProvider:
    """Serves `/jwks` and `/token` with the certificate of an authority, in threads of its own."""

    authority: Authority
    token_seconds: float = 600.0
    subject: str = CLIENT
    client_key: PublicKeyTypes | None = None
    """The key that verifies assertions of the client."""
    issued: int = 0
    key: SigningKey = attrs.field(factory=lambda: SigningKey("key-1"), init=False)
    _foreign: SigningKey = attrs.field(factory=lambda: SigningKey("key-1"), init=False)
    _server: http.server.ThreadingHTTPServer | None = attrs.field(default=None, init=False)

    def start(self) -> Self:
        """Listen."""
        provider = self

        class Handler(http.server.BaseHTTPRequestHandler):
            timeout = 10

            def do_GET(self) -> None:
                provider.publish(self)

            def do_POST(self) -> None:
                provider.give(self)

            def log_message(self, *_: object) -> None:
                """Nothing is printed."""

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        context = self.authority.issue("idp").context_of_broker()
        # Each handshake is made by the thread of its connection.
        self._server.socket = context.wrap_socket(
            self._server.socket, server_side=True, do_handshake_on_connect=False
        )
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def stop(self) -> None:
        """Close the port."""
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server = None

    def url(self, path: str = "token") -> str:
        """The address of a path."""
        assert self._server is not None
        return f"https://localhost:{self._server.server_address[1]}/{path}"

    def change_key(self) -> None:
        """Sign with another key, and publish it in place of the former one."""
        self.key = SigningKey(f"key-{int(self.key.name.partition('-')[2]) + 1}")

    def publish(self, request: http.server.BaseHTTPRequestHandler) -> None:
        """Answer a request for the keys."""
        _answer(request, 200, {"keys": [self.key.published]})

    def give(self, request: http.server.BaseHTTPRequestHandler) -> None:
        """Answer a request for a token."""
        length = int(request.headers["Content-Length"])
        form = {name: values[0] for name, values in parse_qs(request.rfile.read(length).decode()).items()}
        if not self._knows(request.headers.get("Authorization", ""), form):
            _answer(request, 401, {"error": "invalid_client", "error_description": CLIENT_SECRET})
            return
        self.issued += 1
        fault = request.path.removeprefix("/token").lstrip("/")
        now = int(time.time())
        claims: Claims = {
            "sub": self.subject,
            "aud": AUDIENCE,
            "iss": ISSUER,
            "iat": now - 1,
            "exp": now + self.token_seconds,
        }
        token = self._signed(
            FAULTS.get(fault, dict)(claims), self._foreign if fault == "foreign" else self.key
        )
        _answer(
            request, 200, {"access_token": token, "expires_in": self.token_seconds, "token_type": "Bearer"}
        )

    def _signed(self, claims: Claims, key: SigningKey) -> str:
        return jwt.encode(claims, key.private, "RS256", headers={"kid": key.name})

    def _knows(self, basic: str, form: dict[str, str]) -> bool:
        """Whether the secret is that of the client, or its key has signed the assertion."""
        assertion = form.get("client_assertion") or form.get("assertion")
        if assertion is None:
            return basic == f"Basic {base64.b64encode(f'{CLIENT}:{CLIENT_SECRET}'.encode()).decode()}"
        if not isinstance(self.client_key, rsa.RSAPublicKey):
            return False
        try:
            jwt.decode(assertion, self.client_key, algorithms=["RS256"], audience=ISSUER)
        except jwt.InvalidTokenError:
            return False
        return True


def _answer(request: http.server.BaseHTTPRequestHandler, status: int, fields: dict[str, Any]) -> None:
    body = json.dumps(fields).encode()
    request.send_response(status)
    request.send_header("Content-Type", "application/json")
    request.send_header("Content-Length", str(len(body)))
    request.end_headers()
    request.wfile.write(body)

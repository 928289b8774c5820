"""Dialing over TLS: the name that is advertised is sent to the broker and checked in its certificate."""

from __future__ import annotations

import asyncio
import socket
import ssl
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import attrs
import pytest

from aioproducer._net.connecting.dialing import dial
from aioproducer._net.connecting.security import SecurityProtocol
from aioproducer.config import ProducerConfig
from aioproducer.errors import KafkaError
from tests.connection.peer import Peer, Wire, at

CONFIG = ProducerConfig("localhost:9092", client_id="orders")


@attrs.frozen
class Certificate:
    """A certificate that signs itself, for localhost."""

    certificate: Path
    key: Path

    def of_the_client(self) -> SecurityProtocol:
        """A client that trusts it."""
        context = ssl.create_default_context(cafile=self.certificate)

        async def tls_context() -> ssl.SSLContext:
            return context

        return SecurityProtocol(tls_context)

    def of_the_broker(self) -> ssl.SSLContext:
        """The context of the broker."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.certificate, self.key)
        return context


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    folder = tmp_path_factory.mktemp("tls")
    made = Certificate(folder / "cert.pem", folder / "key.pem")
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
         "-keyout", made.key, "-out", made.certificate, "-days", "2", "-subj", "/CN=test",
         "-addext", "subjectAltName=DNS:localhost"],
        check=True, capture_output=True,
    )  # fmt: skip
    return made


@asynccontextmanager
async def broker(certificate: Certificate, names: list[str | None]) -> AsyncIterator[int]:
    """A TLS listener that opens connections; `names` are the names that clients ask for (SNI)."""
    context = certificate.of_the_broker()
    context.sni_callback = lambda _socket, name, _context: names.append(name)

    async def serve(wire: Wire) -> None:
        await wire.open()
        await wire.until_closed()

    peer = Peer(serve)
    server = await asyncio.start_server(peer._serve, "127.0.0.1", 0, ssl=context)
    peer._server = server
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        await peer.stop()


async def test_the_advertised_name_is_sent_and_checked(
    certificate: Certificate, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The address is dialed, the name goes to the broker (SNI) and must be in its certificate (S02, S03)."""

    async def look_up(_host: str, port: int) -> list[Any]:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", port))]

    monkeypatch.setattr("aioproducer._net.connecting.dialing.look_up", look_up)
    names: list[str | None] = []
    async with broker(certificate, names) as port:
        connection = await dial(at("localhost.", port, 3), CONFIG, certificate.of_the_client())
        assert connection.versions.choose(0) == 13
        assert names == ["localhost"]
        connection.close()
        asyncio.get_running_loop().set_exception_handler(lambda *_: None)  # the broker's end complains
        with pytest.raises(KafkaError, match="certificate verify failed"):
            await dial(at("127.0.0.1", port, 3), CONFIG, certificate.of_the_client())

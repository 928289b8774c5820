"""An attacker between a client and its broker cuts, changes and delays bytes: no credential is sent, and no time is lost."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import struct
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import attrs
import pytest

from aioproducer._net.connecting.dialing import dial
from aioproducer._net.connecting.security import SecurityProtocol
from aioproducer._wire.codec import encode_response
from aioproducer.errors import AuthenticationError, BrokerUnavailableError, KafkaError, ProtocolError
from tests.certificate_cases import CASES, Case
from tests.connection.peer import Wire, at, framed, serving, versions_answer
from tests.connection.test_authenticating import CANARY, CONFIG, protocol
from tests.connection.test_certificates import context_of, counting, plain_over_tls
from tests.connection.test_pairing import Listen
from tests.effort import EFFORT
from tests.reports import report

LIMIT = 120.0
STRIDE: Final = {"few": 37, "all": 5, "proof": 1}[EFFORT]
"""Every n-th byte of a handshake."""
SIGNATURES_DIFFER: Final = 8
"""The handshakes of a broker differ by a few bytes in length."""
VERSIONS = pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
TLS_ALERT: Final = bytes.fromhex("15030300020250")
"""The answer of a TLS listener of Kafka to a plain client."""


Treat = Callable[[int, bytes], tuple[bytes, bool]]


def pass_on(_position: int, data: bytes) -> tuple[bytes, bool]:
    """All bytes arrive."""
    return data, True


def cut_at(place: int) -> Treat:
    """Bytes before the place arrive, then the connection ends."""

    def treat(position: int, data: bytes) -> tuple[bytes, bool]:
        return data[: place - position], position + len(data) <= place

    return treat


def garbled_at(place: int) -> Treat:
    """One byte is another one."""

    def treat(position: int, data: bytes) -> tuple[bytes, bool]:
        changed = bytearray(data)
        if position <= place < position + len(data):
            changed[place - position] ^= 0xFF
        return bytes(changed), True

    return treat


def silent_at(place: int) -> Treat:
    """Bytes before the place arrive, and the connection stays open."""

    def treat(position: int, data: bytes) -> tuple[bytes, bool]:
        return data[: max(0, place - position)], True

    return treat


@attrs.define
class Relay:
    """Passes bytes on. `treat` gets the bytes of the broker and their position; it returns what arrives and whether to go on."""

    broker: int
    port: int = 0
    treat: Treat = pass_on
    resets: bool = False
    pause: float = 0.0
    """Seconds between two bytes to the client; 0: no pause."""
    flights: list[int] = attrs.field(factory=list)
    """Of the newest connection: the number of bytes to the client at each flight of the client."""
    original: bytearray = attrs.field(factory=bytearray)
    """Of the newest connection: what the broker has sent."""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Pass the bytes of both sides on until one ends."""
        upstream, downstream = await asyncio.open_connection("127.0.0.1", self.broker)
        direction = Direction()
        self.flights, self.original = direction.flights, direction.original
        there = asyncio.ensure_future(direction.to_broker(reader, downstream))
        back = asyncio.ensure_future(direction.to_client(upstream, writer, self.treat, self.pause))
        try:
            await asyncio.wait((there, back), return_when=asyncio.FIRST_COMPLETED)
        finally:
            # First of all: the server may be ended while this waits.
            downstream.transport.abort()
            for task in (there, back):
                task.cancel()
            await asyncio.gather(there, back, return_exceptions=True)
            with contextlib.suppress(OSError):
                await downstream.wait_closed()
        if self.resets:
            # Closing with this option sends a reset.
            lingering = struct.pack("ii", 1, 0)
            writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, lingering)


@attrs.define
class Direction:
    """The bytes of one connection."""

    flights: list[int] = attrs.field(factory=list)
    original: bytearray = attrs.field(factory=bytearray)

    async def to_broker(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Pass on what the client sends."""
        while data := await reader.read(65536):
            self.flights.append(len(self.original))
            writer.write(data)

    async def to_client(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, treat: Treat, pause: float
    ) -> None:
        """Pass on the bytes of the broker, as they are treated."""
        goes_on = True
        while goes_on and (data := await reader.read(65536)):
            kept, goes_on = treat(len(self.original), data)
            self.original.extend(data)
            for part in struct.unpack(f"{len(kept)}c", kept) if pause else (kept,):
                writer.write(part)
                await asyncio.sleep(pause)
        await writer.drain()


@asynccontextmanager
async def between(broker: int) -> AsyncIterator[Relay]:
    """A relay before this broker."""
    relay = Relay(broker)
    async with serving(relay.serve) as relay.port:
        yield relay


@pytest.fixture(scope="module")
def case() -> Case:
    """A broker with a good certificate."""
    return CASES["good"].make()


def context_for(case: Case, version: ssl.TLSVersion, folder: Path) -> ssl.SSLContext:
    """The context of the broker, for one version of TLS."""
    context = context_of(case.store, folder)
    context.minimum_version = context.maximum_version = version
    return context


async def handshake_of(relay: Relay, security: SecurityProtocol, version: ssl.TLSVersion) -> int:
    """The number of bytes that the broker sends before the client sends something inside of TLS."""
    (await dial(at("127.0.0.1", relay.port), CONFIG, security)).close()
    # ClientHello; with TLS 1.2 the key of the client; then its first request.
    return relay.flights[1 if version is ssl.TLSVersion.TLSv1_3 else 2]


def is_ignored(sent: bytearray, place: int) -> bool:
    """Whether this byte has no meaning: the minor version of a record, which RFC 8446 (5.1) lets peers ignore."""
    start = 0
    while start + 5 <= place:
        start += 5 + int.from_bytes(sent[start + 3 : start + 5], "big")
    return place == start + 2


async def failure(port: int, security: SecurityProtocol, seconds: float = 0.3) -> KafkaError:
    """The error of a dial, which shows no secret."""
    with pytest.raises(KafkaError) as caught:
        await dial(at("127.0.0.1", port), CONFIG, security, setup_timeout=seconds)
    assert CANARY not in report(caught.value)
    return caught.value


@VERSIONS
@pytest.mark.parametrize("how", ["closed", "reset", "changed", "silent"])
async def test_e19_at_each_byte_of_the_handshake(
    case: Case, version: ssl.TLSVersion, how: str, tmp_path: Path
) -> None:
    """The broker gets no byte of SASL, and the client an error that is no refusal of credentials (S24, S38)."""
    security = plain_over_tls(case.trusted)
    async with (
        asyncio.timeout(LIMIT),
        counting(context_for(case, version, tmp_path)) as listener,
        between(listener.port) as relay,
    ):
        whole = await handshake_of(relay, security, version)
        assert whole > 500
        before = len(listener.broker.seen), listener.received
        treat = {"changed": garbled_at, "silent": silent_at}.get(how, cut_at)
        relay.resets = how == "reset"
        # Each place of a silence costs the time for the opening.
        for place in range(0, whole - SIGNATURES_DIFFER, STRIDE if how != "silent" else 10 * STRIDE):
            relay.treat = treat(place)
            if how == "changed" and is_ignored(relay.original, place):
                continue
            error = await failure(relay.port, security, 0.05 if how == "silent" else 0.3)
            if isinstance(error, AuthenticationError):  # the certificate of TLS 1.2 can be changed on its way
                assert (how, version, error.reason) == ("changed", ssl.TLSVersion.TLSv1_2, "certificate")
            else:
                assert isinstance(error, ProtocolError | BrokerUnavailableError)
            assert (len(listener.broker.seen), listener.received) == before, place


async def test_e19_a_byte_at_a_time(case: Case, tmp_path: Path) -> None:
    """Bytes that trickle in do not extend the time for an opening (S25)."""
    context = context_for(case, ssl.TLSVersion.TLSv1_3, tmp_path)
    async with asyncio.timeout(LIMIT), counting(context) as listener, between(listener.port) as relay:
        relay.pause = 0.02
        began = asyncio.get_running_loop().time()
        error = await failure(relay.port, plain_over_tls(case.trusted))
        assert isinstance(error, BrokerUnavailableError)
        assert asyncio.get_running_loop().time() - began < 5.0
        assert listener.received == 0


async def test_b16_tls_is_stripped(case: Case, listen: Listen) -> None:
    """A peer that answers in plain text, as Kafka would, learns nothing: the client has not agreed to that (S24)."""
    received = bytearray()

    async def answer(wire: Wire) -> None:
        received.extend(await wire.reader.read(1))
        wire.write(framed(encode_response(versions_answer(), 3, 1)))
        while data := await wire.reader.read(65536):
            received.extend(data)

    error = await failure((await listen(answer)).port, plain_over_tls(case.trusted), 30)
    assert isinstance(error, ProtocolError)
    assert "may be a plaintext listener" in str(error)
    assert received[0] == 0x16  # a handshake record of TLS
    assert CANARY.encode() not in received


async def test_b16_http_inside_of_tls(case: Case, tmp_path: Path) -> None:
    """A web server with the certificate of the broker gets the question for versions, and no credential."""
    received = bytearray()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        received.extend(await reader.read(65536))
        writer.write(b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n")
        with contextlib.suppress(ConnectionError):
            received.extend(await reader.read())

    async with serving(answer, context_of(case.store, tmp_path)) as port:
        error = await failure(port, plain_over_tls(case.trusted), 30)
    assert isinstance(error, ProtocolError)
    assert b"orders" in received  # the client id
    assert CANARY.encode() not in received


@pytest.mark.parametrize(
    "answer", [TLS_ALERT, b"HTTP/1.1 400 Bad Request\r\n\r\n", b"SSH-2.0-OpenSSH\r\n", b""]
)
async def test_b16_a_client_without_tls(listen: Listen, answer: bytes) -> None:
    """A TLS listener, and others that are no Kafka, get no credential of a client without TLS."""
    received = bytearray()

    async def say(wire: Wire) -> None:
        received.extend(await wire.reader.read(65536))
        wire.write(answer)

    error = await failure((await listen(say)).port, protocol("PLAIN"), 30)
    assert isinstance(error, ProtocolError | BrokerUnavailableError)
    assert CANARY.encode() not in received

"""The TLS of the embedded Kafka: alerts for clients that it refuses, and faults within handshakes and records."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from datetime import timedelta

import attrs
import pytest

from aioproducer._wire.codec import encode_request
from aioproducer._wire.messages.api_versions import ApiVersionsRequest
from aioproducer.testing import Certificates, EmbeddedKafka, certificates
from aioproducer.testing.broker.faults import Faults

LIMIT = 20.0
REQUEST = encode_request(ApiVersionsRequest("tests", "1"), 3, 7, "tests")
FRAME = len(REQUEST).to_bytes(4, "big") + REQUEST
RECORD_HEADER = 5


@pytest.fixture(scope="module", name="authority")
def _authority() -> Certificates:
    return certificates()


@pytest.fixture(name="kafka")
async def _kafka(authority: Certificates) -> AsyncIterator[EmbeddedKafka]:
    async with EmbeddedKafka(tls=authority.broker_context()) as kafka:
        yield kafka


@attrs.define
class Seen:
    """The bytes of the broker, encrypted and not, and the end of the connection."""

    encrypted: bytearray = attrs.field(factory=bytearray)
    before_the_request: int = 0
    """The encrypted bytes of the handshake."""
    plain: bytearray = attrs.field(factory=bytearray)
    notified: bool = False
    reset: bool = False
    error: ssl.SSLError | None = None


class Client:
    """A TLS client that sees the bytes of its connection. It blocks, so it runs in a thread."""

    def __init__(self, authority: Certificates, *, version: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3) -> None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.load_verify_locations(cadata=authority.authority)
        context.minimum_version = context.maximum_version = version
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_hostname="localhost")
        self.seen = Seen()

    async def ask(self, kafka: EmbeddedKafka, *, ends: bool = False) -> Seen:
        """Send one request, and read until the end of the connection; with `ends` the client ends it behind the answer."""
        return await asyncio.to_thread(self._ask, kafka.brokers[0].port, ends)

    def _ask(self, port: int, ends: bool) -> Seen:
        with socket.create_connection(("127.0.0.1", port), LIMIT) as connection:
            try:
                self._shake_hands(connection)
                self.seen.before_the_request = len(self.seen.encrypted)
                self._tls.write(FRAME)
                connection.sendall(self._outgoing.read())
                self._read(connection, ends)
            except ConnectionResetError:
                self.seen.reset = True
            except ssl.SSLEOFError:
                pass
            except ssl.SSLError as error:
                self.seen.error = error
        return self.seen

    def _shake_hands(self, connection: socket.socket) -> None:
        while True:
            try:
                self._tls.do_handshake()
            except ssl.SSLWantReadError:
                connection.sendall(self._outgoing.read())
                self._receive(connection)
            else:
                connection.sendall(self._outgoing.read())
                return

    def _read(self, connection: socket.socket, ends: bool) -> None:
        while not self.seen.notified:
            try:
                data = self._tls.read(65536)
            except ssl.SSLWantReadError:
                self._receive(connection)
                continue
            except ssl.SSLZeroReturnError:
                data = b""
            self.seen.plain += data
            self.seen.notified = not data
            if data and ends:
                with suppress(ssl.SSLWantReadError):
                    self._tls.unwrap()
                connection.sendall(self._outgoing.read())

    def _receive(self, connection: socket.socket) -> None:
        data = connection.recv(65536)
        self.seen.encrypted += data
        if data:
            self._incoming.write(data)
        else:
            self._incoming.write_eof()


async def test_a_client_that_ends_gets_close_notify(kafka: EmbeddedKafka, authority: Certificates) -> None:
    """Both sides end TLS in order."""
    seen = await Client(authority).ask(kafka, ends=True)
    assert seen.plain
    assert (seen.notified, seen.reset, seen.error) == (True, False, None)


async def test_a_cut_ends_tls_in_order(kafka: EmbeddedKafka, authority: Certificates) -> None:
    """A FIN comes behind close_notify, a reset without it."""
    kafka.faults.cut(api="ApiVersions", reset=False)
    seen = await Client(authority).ask(kafka)
    assert (bytes(seen.plain), seen.notified, seen.reset) == (b"", True, False)
    kafka.faults.cut(api="ApiVersions")
    seen = await Client(authority).ask(kafka)
    assert (bytes(seen.plain), seen.notified, seen.reset) == (b"", False, True)


@pytest.mark.parametrize("before", [False, True])
async def test_close_without_notify(kafka: EmbeddedKafka, authority: Certificates, *, before: bool) -> None:
    """TCP ends, and TLS does not."""
    fault = kafka.faults.close_without_notify(api="ApiVersions", before=before)
    seen = await Client(authority).ask(kafka)
    assert (bytes(seen.plain), seen.notified, seen.reset, fault.hits) == (b"", False, False, 1)
    assert (await Client(authority).ask(kafka, ends=True)).plain


@pytest.mark.parametrize("at_byte", [0, 1, RECORD_HEADER, RECORD_HEADER + 1, 100])
@pytest.mark.parametrize("reset", [False, True])
async def test_a_record_is_cut(
    kafka: EmbeddedKafka, authority: Certificates, at_byte: int, *, reset: bool
) -> None:
    """So many bytes of the record arrive, and nothing of the answer; a reset may overtake them."""
    kafka.faults.cut_record(at_byte, api="ApiVersions", reset=reset)
    client = Client(authority, version=ssl.TLSVersion.TLSv1_2)  # no record comes behind its handshake
    seen = await client.ask(kafka)
    assert (bytes(seen.plain), seen.notified) == (b"", False)
    if not reset:
        assert len(seen.encrypted) - seen.before_the_request == at_byte
    assert (await Client(authority).ask(kafka, ends=True)).plain


@pytest.mark.parametrize("at_byte", [0, 1, 4, 100, 100_000])
async def test_a_handshake_is_cut(kafka: EmbeddedKafka, authority: Certificates, at_byte: int) -> None:
    """So many bytes of the broker arrive; at the end of the handshake it is cut in any case."""
    fault = kafka.faults.cut_handshake(at_byte)
    seen = await Client(authority).ask(kafka)
    assert (bytes(seen.plain), seen.notified, fault.hits) == (b"", False, 1)
    if at_byte <= 100:
        assert len(seen.encrypted) == at_byte
    assert kafka.requests == ()
    assert (await Client(authority).ask(kafka, ends=True)).plain


async def test_a_handshake_is_reset(kafka: EmbeddedKafka, authority: Certificates) -> None:
    """As a reset, for the second connection."""
    kafka.faults.cut_handshake(10, reset=True, skip=1)
    assert (await Client(authority).ask(kafka, ends=True)).plain
    assert (await Client(authority).ask(kafka)).reset


async def test_a_certificate_is_swapped(kafka: EmbeddedKafka, authority: Certificates) -> None:
    """New connections get the other one until the fault is healed; the client's error says why it refuses it."""
    expired = authority.issue(lifetime=timedelta(days=-1))
    with kafka.faults.certificate(authority.broker_context(expired)) as fault:
        for _ in range(2):
            error = (await Client(authority).ask(kafka)).error
            assert isinstance(error, ssl.SSLCertVerificationError)
            assert error.verify_message == "certificate has expired"
        assert fault.hits == 2
    assert (await Client(authority).ask(kafka, ends=True)).plain


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
async def test_a_refused_client_gets_an_alert(authority: Certificates, version: ssl.TLSVersion) -> None:
    """A broker that wants a certificate says so, as a real one does."""
    async with EmbeddedKafka(tls=authority.broker_context(mutual=True)) as kafka:
        error = (await Client(authority, version=version).ask(kafka)).error
    assert error is not None
    assert "ALERT" in str(error.reason)


async def test_a_client_that_speaks_no_tls(kafka: EmbeddedKafka) -> None:
    """It gets an alert; a connection that stays in its handshake ends with the broker."""
    reader, writer = await asyncio.open_connection("127.0.0.1", kafka.brokers[0].port)
    writer.write(FRAME)
    async with asyncio.timeout(LIMIT):
        assert (await reader.read(1))[0] == 0x15
    writer.close()
    await writer.wait_closed()
    silent, writer = await asyncio.open_connection("127.0.0.1", kafka.brokers[0].port)
    await kafka.stop()
    async with asyncio.timeout(LIMIT):
        with suppress(ConnectionError):
            assert await silent.read() == b""
    writer.close()
    with suppress(ConnectionError):
        await writer.wait_closed()


@pytest.mark.parametrize(
    "inject",
    [
        lambda faults: faults.close_without_notify(),
        lambda faults: faults.cut_record(3),
        lambda faults: faults.cut_handshake(),
        lambda faults: faults.certificate(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)),
    ],
    ids=["close_without_notify", "cut_record", "cut_handshake", "certificate"],
)
def test_a_fault_of_tls_needs_tls(inject: Callable[[Faults], object]) -> None:
    """Without it the fault would never happen."""
    with pytest.raises(ValueError, match=r"EmbeddedKafka\(tls="):
        inject(EmbeddedKafka().faults)

"""Finding a broker's addresses, connecting to one of them, and agreeing on versions, within a time limit."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
import ssl
import traceback
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeAlias

import pytest
from blockbuster import blockbuster_ctx

from aioproducer._net.connecting.connection.asking import answer_to
from aioproducer._net.connecting.dialing import SOCKETS, SOFTWARE_VERSION, dial
from aioproducer._net.connecting.dialing import resolve as resolve_addresses
from aioproducer._net.connecting.security import SecurityProtocol
from aioproducer._wire.codec import decode_request, encode_response
from aioproducer._wire.messages.api_versions import ApiVersionsRequest
from aioproducer._wire.messages.metadata import MetadataRequest, MetadataResponse, MetadataResponseBroker
from aioproducer.config import ProducerConfig
from aioproducer.errors import BrokerUnavailableError, KafkaError, ProtocolError
from tests.connection.peer import Peer, Wire, at, framed, versions_answer
from tests.ports import unused_port

Listen: TypeAlias = Callable[..., Awaitable[Peer]]
Resolve: TypeAlias = Callable[..., None]

CONFIG = ProducerConfig("localhost:9092", client_id="orders")
SOON = 0.15


async def serve(wire: Wire) -> None:
    """A broker that opens, and does nothing more."""
    await wire.open()
    await wire.until_closed()


@pytest.fixture
async def resolve(monkeypatch: pytest.MonkeyPatch) -> Resolve:
    """Let host names resolve to these addresses, or raise this error."""

    def to(*addresses: str | Exception) -> None:
        async def getaddrinfo(host: str, port: int, **_: Any) -> list[tuple[Any, ...]]:
            if isinstance(addresses[0], Exception):
                raise addresses[0]
            return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port)) for address in addresses]

        monkeypatch.setattr("aioproducer._net.connecting.dialing.look_up", getaddrinfo)

    return to


@contextmanager
def black_hole() -> Iterator[int]:
    """A port whose connection attempts get no answer at all: the queue of its listener is full."""
    with socket.socket() as server, socket.socket() as first, socket.socket() as second:
        server.bind(("127.0.0.1", 0))
        server.listen(0)
        for filler in (first, second):
            filler.setblocking(False)
            filler.connect_ex(server.getsockname())
        yield server.getsockname()[1]


async def test_connection_comes_with_versions_and_takes_requests(listen: Listen) -> None:
    """The connection of `dial` knows the broker's versions and its name, and sends our client id."""
    seen: list[tuple[str | None, object]] = []

    async def script(wire: Wire) -> None:
        header, question = decode_request(await wire.read())
        seen.append((header.client_id, question))
        wire.write(framed(encode_response(versions_answer(), header.api_version, header.correlation_id)))
        header, _ = decode_request(await wire.read())
        wire.write(framed(encode_response(MetadataResponse(), header.api_version, header.correlation_id)))
        await wire.until_closed()

    peer = await listen(script)
    connection = await dial(at("127.0.0.1", peer.port, 3), CONFIG)
    await answer_to(connection, MetadataRequest(), MetadataResponse, timeout=30)
    assert seen == [("orders", ApiVersionsRequest("aioproducer", SOFTWARE_VERSION))]
    assert connection.broker == f"127.0.0.1:{peer.port} (id 3)"
    assert connection.versions.broker == connection.broker
    assert connection.versions.choose(0) == 13
    connection.close()


async def test_socket_has_its_options(listen: Listen) -> None:
    """Keep-alive, no delay, the user timeout and the configured buffer sizes are set on the socket (A10)."""
    config = ProducerConfig("b:9092", send_buffer_bytes=100_000, receive_buffer_bytes=50_000)
    connection = await dial(at("127.0.0.1", (await listen(serve)).port), config)
    assert connection.transport is not None
    sock = connection.transport.get_extra_info("socket")
    assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
    assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
    assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) == 60
    assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == config.request_timeout_ms
    # Linux doubles what it is asked for.
    assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF) in (100_000, 200_000)
    assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF) in (50_000, 100_000)
    connection.close()


async def test_host_name_is_looked_up_off_the_loop(listen: Listen) -> None:
    """A lookup by the system's resolver blocks no callback of the loop (I8, A02)."""
    peer = await listen(serve)
    with blockbuster_ctx():
        connection = await dial(at("localhost", peer.port), CONFIG)
    assert connection.broker == f"localhost:{peer.port}"
    connection.close()


async def test_dead_first_address_does_not_matter(listen: Listen, resolve: Resolve) -> None:
    """Of several addresses each is tried in turn, until one works (KIP-602, A02)."""
    peer = await listen(serve)
    resolve("127.0.0.3", "127.0.0.2", "127.0.0.1")
    connection = await dial(at("kafka.test", peer.port), CONFIG)
    assert connection.versions.choose(0) == 13
    assert peer.accepted == 1
    connection.close()


async def test_silent_first_address_leaves_time_for_the_next(listen: Listen, resolve: Resolve) -> None:
    """An address that swallows connection attempts gets its share of the time, not all of it (A02, A03)."""
    with black_hole() as port:
        await listen(serve, "127.0.0.2", port)
        resolve("127.0.0.1", "127.0.0.2")
        connection = await dial(at("kafka.test", port), CONFIG, setup_timeout=2 * SOON)
        assert not connection.closed
        connection.close()


async def test_names_are_looked_up_again_for_each_connection(listen: Listen, resolve: Resolve) -> None:
    """An address that has changed is used by the next attempt (A02)."""
    peer = await listen(serve)
    resolve("127.0.0.2")
    with pytest.raises(BrokerUnavailableError):
        await dial(at("kafka.test", peer.port), CONFIG)
    resolve("127.0.0.1")
    (await dial(at("kafka.test", peer.port), CONFIG)).close()


async def test_a_link_local_address_keeps_its_zone(monkeypatch: pytest.MonkeyPatch) -> None:
    """The resolver gives the zone apart from the address, which leads nowhere without it."""

    async def getaddrinfo(_host: str, port: int) -> list[tuple[Any, ...]]:
        places = [("fe80::1", port, 0, 2), ("2001:db8::1", port, 0, 0)]
        return [(socket.AF_INET6, socket.SOCK_STREAM, 6, "", place) for place in places]

    monkeypatch.setattr("aioproducer._net.connecting.dialing.look_up", getaddrinfo)
    assert await resolve_addresses(at("fe80::1%eth0", 9092), 1.0, SOCKETS) == ["fe80::1%2", "2001:db8::1"]


async def test_all_addresses_refusing_are_listed(resolve: Resolve) -> None:
    """One error tells what each address said, and which broker it is about (A01)."""
    resolve("127.0.0.1", "127.0.0.2", "127.0.0.1")
    with unused_port() as port, pytest.raises(BrokerUnavailableError) as raised:
        await dial(at("kafka.test", port, 2), CONFIG)
    text = str(raised.value)
    assert f"127.0.0.1:{port}: Connection refused; 127.0.0.2:{port}: Connection refused" in text
    assert text.count("Connection refused") == 2
    assert f"kafka.test:{port} (id 2)" in text
    assert isinstance(raised.value.__cause__, ConnectionRefusedError)


@pytest.mark.parametrize("kind", ["syn", "accept"])
async def test_silence_ends_at_the_time_limit(listen: Listen, kind: str) -> None:
    """No answer to the connection attempt, or none after it, fails within the limit, not the system's (A03, A04, S25)."""
    loop = asyncio.get_running_loop()
    with black_hole() as hole:
        port = hole if kind == "syn" else (await listen(Wire.until_closed)).port
        start = loop.time()
        told = "no connection" if kind == "syn" else "connected, but no answer to the first request"
        with pytest.raises(BrokerUnavailableError, match=told):
            await dial(at("127.0.0.1", port), CONFIG, setup_timeout=SOON)
        assert SOON * 0.9 < loop.time() - start < SOON + 5


async def test_time_limit_is_the_setting_by_default(listen: Listen) -> None:
    """Without an argument `socket_connection_setup_timeout_ms` is the limit, in milliseconds."""
    config = ProducerConfig(
        "b:9092", socket_connection_setup_timeout_ms=50, socket_connection_setup_timeout_max_ms=50
    )
    with pytest.raises(BrokerUnavailableError, match=r"within 0\.0[1-5]\d* s"):
        await dial(at("127.0.0.1", (await listen(Wire.until_closed)).port), config)


async def test_trickling_broker_cannot_hold_the_opening(listen: Listen) -> None:
    """A peer that sends its answer a byte at a time is given up at the limit (S25)."""

    async def script(wire: Wire) -> None:
        await wire.read()
        wire.trickle(b"\x00\x00\x10\x00" + bytes(4096), every=0.01)
        await wire.until_closed()

    with pytest.raises(BrokerUnavailableError, match="no answer to the first request"):
        await dial(at("127.0.0.1", (await listen(script)).port), CONFIG, setup_timeout=SOON)


async def test_web_server_is_recognised(listen: Listen) -> None:
    """The answer of an HTTP server gives a ProtocolError that says so (B16)."""

    async def script(wire: Wire) -> None:
        await wire.reader.read(1)
        wire.write(b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n")

    peer = await listen(script)
    with pytest.raises(ProtocolError, match=r"web server .*HTTP/1\.1 400") as raised:
        await dial(at("127.0.0.1", peer.port), CONFIG)
    assert f"127.0.0.1:{peer.port}" in str(raised.value)


async def test_tls_server_is_recognised() -> None:
    """A real TLS listener, which answers plaintext with an alert or by hanging up, gives an error that says TLS (B16)."""
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda *_: None)  # the server's end complains about the handshake
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server = await asyncio.start_server(lambda _, w: w.close(), "127.0.0.1", 0, ssl=context)
    with pytest.raises(KafkaError, match="TLS"):
        await dial(at("127.0.0.1", server.sockets[0].getsockname()[1]), CONFIG, setup_timeout=2)
    server.close()
    await server.wait_closed()


async def test_tls_alert_is_recognised(listen: Listen) -> None:
    """The alert itself, which some servers send before they hang up, names TLS too (B03, B16)."""

    async def script(wire: Wire) -> None:
        await wire.read()
        wire.write(b"\x15\x03\x03\x00\x02\x02\x46")

    with pytest.raises(ProtocolError, match="the peer speaks TLS"):
        await dial(at("127.0.0.1", (await listen(script)).port), CONFIG)


async def test_broker_that_hangs_up_is_told_apart(listen: Listen) -> None:
    """Closing without an answer hints at a listener that wants TLS."""

    async def script(wire: Wire) -> None:
        await wire.read()

    with pytest.raises(BrokerUnavailableError, match=r"closed the connection without an answer.*TLS"):
        await dial(at("127.0.0.1", (await listen(script)).port), CONFIG)


@pytest.mark.parametrize("answered", [0, 1])
async def test_a_listener_that_requires_sasl(listen: Listen, answered: int) -> None:
    """It answers the question for versions, and closes the connection at the next request; no later end is taken for that."""

    async def script(wire: Wire) -> None:
        await wire.open()
        for _ in range(answered):
            header, _request = decode_request(await wire.read())
            wire.write(framed(encode_response(MetadataResponse(), header.api_version, header.correlation_id)))
        await wire.read()

    connection = await dial(at("127.0.0.1", (await listen(script)).port), CONFIG)
    for _ in range(answered):
        await answer_to(connection, MetadataRequest(), MetadataResponse, timeout=30)
    with pytest.raises(BrokerUnavailableError) as caught:
        await answer_to(connection, MetadataRequest(), MetadataResponse, timeout=30)
    hint = "" if answered else " at the first request; its listener may require SASL"
    assert str(caught.value).startswith(f"the broker closed the connection{hint} (broker")


async def test_other_errors_do_not_hide_who_speaks_no_kafka(listen: Listen, resolve: Resolve) -> None:
    """With one address refusing and another that is no broker the error is a ProtocolError that lists both."""

    async def script(wire: Wire) -> None:
        await wire.read()
        wire.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    peer = await listen(script)
    resolve("127.0.0.1", "127.0.0.2")
    with pytest.raises(ProtocolError, match=r"web server.*127\.0\.0\.2:\d+: Connection refused"):
        await dial(at("kafka.test", peer.port), CONFIG)


async def test_broker_too_old_or_too_new_is_refused(listen: Listen) -> None:
    """Without a common version of Produce the connection is closed, with a ProtocolError (B12)."""
    hung_up = asyncio.Event()

    async def script(wire: Wire) -> None:
        header, _ = decode_request(await wire.read())
        answer = versions_answer([(0, 0, 2)])
        wire.write(framed(encode_response(answer, header.api_version, header.correlation_id)))
        await wire.until_closed()
        hung_up.set()

    with pytest.raises(ProtocolError, match="supports Produce v0-v2; this client needs v3-v13"):
        await dial(at("127.0.0.1", (await listen(script)).port), CONFIG)
    await hung_up.wait()


async def test_versions_belong_to_one_connection(listen: Listen) -> None:
    """After a rolling downgrade the next connection is negotiated anew; an old broker is asked twice (B12)."""
    generations = iter([[(0, 0, 13)], [(0, 0, 8)]])

    async def script(wire: Wire) -> None:
        keys = next(generations)
        header, _ = decode_request(await wire.read())
        if keys[0][2] == 8:
            wire.answer(header.correlation_id, b"\x00\x23")
            header, _ = decode_request(await wire.read())
        answer = encode_response(versions_answer(keys), header.api_version, header.correlation_id)
        wire.write(framed(answer))
        await wire.until_closed()

    peer = await listen(script)
    chosen = []
    for _ in range(2):
        connection = await dial(at("127.0.0.1", peer.port), CONFIG)
        chosen.append(connection.versions.choose(0))
        connection.close()
    assert chosen == [13, 8]


async def test_answers_may_be_longer_once_the_connection_is_open(listen: Listen) -> None:
    """Before the handshake is done 512 KiB are the limit, then 16 MiB (S19)."""

    async def script(wire: Wire) -> None:
        await wire.open()
        header, _ = decode_request(await wire.read())
        answer = MetadataResponse(brokers=[MetadataResponseBroker(host="h" * 30_000)] * 20)
        wire.write(framed(encode_response(answer, 9, header.correlation_id)))
        await wire.until_closed()

    async def flood(wire: Wire) -> None:
        await wire.read()
        wire.write((600_000).to_bytes(4) + bytes(600_000))
        await wire.until_closed()

    with pytest.raises(ProtocolError, match="600000 bytes, where 4 to 524288"):
        await dial(at("127.0.0.1", (await listen(flood)).port), CONFIG)
    connection = await dial(at("127.0.0.1", (await listen(script)).port), CONFIG)
    answer = await answer_to(connection, MetadataRequest(), MetadataResponse, timeout=30, version=9)
    assert len(answer.brokers) == 20
    connection.close()


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (socket.gaierror(socket.EAI_NONAME, "Name or service not known"), "Name or service not known"),
        (UnicodeError("label empty or too long"), "label empty or too long"),
        (ValueError("embedded null character"), "embedded null character"),
    ],
)
async def test_name_that_cannot_be_resolved_is_told(resolve: Resolve, error: Exception, told: str) -> None:
    """Whatever the resolver raises becomes a BrokerUnavailableError with the host's name (A02)."""
    resolve(error)
    with pytest.raises(BrokerUnavailableError, match=rf"cannot be resolved: .*{told}.*kafka\.test:9092"):
        await dial(at("kafka.test", 9092), CONFIG)


async def test_resolver_that_hangs_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """A lookup that does not end is abandoned at the time limit (A02, S25)."""

    async def hang(*_: Any, **__: Any) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr("aioproducer._net.connecting.dialing.look_up", hang)
    with pytest.raises(BrokerUnavailableError, match="name server did not answer within"):
        await dial(at("kafka.test", 9092), CONFIG, setup_timeout=0.02)


async def test_name_without_an_address_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """A resolver that finds nothing usable is an error, not an empty list of attempts."""

    async def nothing(*_: Any, **__: Any) -> list[Any]:
        return []

    monkeypatch.setattr("aioproducer._net.connecting.dialing.look_up", nothing)
    with pytest.raises(BrokerUnavailableError, match="it has no address"):
        await dial(at("kafka.test", 9092), CONFIG)


@pytest.mark.parametrize(
    "number", [errno.EMFILE, errno.ENOBUFS, errno.ENETUNREACH, errno.EHOSTUNREACH, errno.ETIMEDOUT]
)
async def test_system_errors_are_retriable(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    """Out of descriptors, buffers or routes: a retriable error with the system's words (A16)."""

    async def fail(*_: Any, **__: Any) -> None:
        raise OSError(number, "x")

    monkeypatch.setattr(asyncio.get_running_loop(), "create_connection", fail)
    with pytest.raises(BrokerUnavailableError, match=os.strerror(number)) as raised:
        await dial(at("127.0.0.1", 9092), CONFIG)
    assert raised.value.retriable


@pytest.mark.parametrize(("host", "port"), [("h", 0), ("h", 65536), ("h", -1), ("", 9092), ("h" * 256, 9092)])
async def test_impossible_addresses_are_refused(host: str, port: int) -> None:
    """An address that a broker advertises is checked before it is used (S23)."""
    with pytest.raises(ProtocolError, match="address cannot be used"):
        await dial(at(host, port), CONFIG)


async def test_names_are_escaped(resolve: Resolve) -> None:
    """Control characters of an advertised host do not reach a log (S22)."""
    resolve(socket.gaierror(socket.EAI_NONAME, "no"))
    with pytest.raises(BrokerUnavailableError) as raised:
        await dial(at("evil\n\x1b[31m", 9092), CONFIG)
    assert str(raised.value).isprintable()


async def test_ipv6_address_is_bracketed() -> None:
    """Names of IPv6 addresses can be told from their port."""
    with unused_port() as port, pytest.raises(BrokerUnavailableError, match=rf"\[::1\]:{port}"):
        await dial(at("::1", port), CONFIG)


async def test_cancelled_dial_leaves_nothing(listen: Listen) -> None:
    """Cancelling in the middle of the opening hangs up (F03, I9)."""
    asked = asyncio.Event()
    hung_up = asyncio.Event()

    async def script(wire: Wire) -> None:
        await wire.read()
        asked.set()
        await wire.until_closed()
        hung_up.set()

    peer = await listen(script)
    dialing_task = asyncio.ensure_future(dial(at("127.0.0.1", peer.port), CONFIG))
    await asked.wait()
    dialing_task.cancel()
    await hung_up.wait()
    assert dialing_task.cancelled()


async def test_every_cut_of_the_opening_answer_is_an_error(listen: Listen) -> None:
    """A connection cut at any byte of the broker's first answer fails cleanly, and the whole answer works (A06, A09)."""
    whole = framed(encode_response(versions_answer(), 4, 0))
    lengths = iter(range(len(whole)))

    async def script(wire: Wire) -> None:
        await wire.read()
        length = next(lengths, len(whole))
        wire.write(whole[:length])
        if length == len(whole):
            await wire.until_closed()

    peer = await listen(script)
    for _ in range(len(whole)):
        with pytest.raises(BrokerUnavailableError, match="the broker closed the connection"):
            await dial(at("127.0.0.1", peer.port), CONFIG)
    connection = await dial(at("127.0.0.1", peer.port), CONFIG)
    connection.close()


@pytest.mark.parametrize("error", [OverflowError("canary"), MemoryError(), LookupError("canary")])
async def test_an_error_of_any_kind_ends_an_attempt_alone(listen: Listen, error: Exception) -> None:
    """Of another package, or of code of the user: its text and its frames may have a secret."""

    async def broken() -> ssl.SSLContext:
        raise error

    peer = await listen(serve)
    with pytest.raises(BrokerUnavailableError, match=f"the attempt raised {type(error).__name__}") as caught:
        await dial(at("127.0.0.1", peer.port), CONFIG, SecurityProtocol(broken))
    assert "canary" not in "".join(traceback.format_exception(caught.value))

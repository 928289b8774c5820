"""The TLS of a connection, between the transport of a socket and the protocol of a broker.

Faults cut handshakes and records, which asyncio's TLS hides. A client that is refused gets the alert that says why, as from
a real Kafka; asyncio's TLS sends none.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from typing import Any, Final, cast

from aioproducer.testing.broker.faults import FaultRules
from aioproducer.testing.broker.resets import reset
from aioproducer.testing.broker.rules import Asked, Certificate, CutHandshake

_AT_ONCE: Final = 65_536
_INTERNAL_ERROR: Final = bytes.fromhex("15030300020250")


class TlsTransport(asyncio.Transport, asyncio.Protocol):
    """The protocol of a socket's transport, and, once the handshake is over, the transport of a broker's protocol."""

    def __init__(
        self,
        context: ssl.SSLContext,
        protocol: asyncio.Protocol,
        rules: FaultRules,
        broker_id: int,
        handshakes: dict[TlsTransport, None],
    ) -> None:
        super().__init__()
        self._context = context
        self._protocol = protocol
        self._rules = rules
        self._broker_id = broker_id
        self._handshakes = handshakes
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls: ssl.SSLObject
        self._raw: asyncio.Transport
        self._is_open = False
        self._closing = False
        self._reading = True
        self._cut: CutHandshake | None = None
        self._sent = 0
        self._lost: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    # -- called by the socket's transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A client has connected: its handshake begins."""
        self._raw = cast("asyncio.Transport", transport)
        self._handshakes[self] = None
        asked = Asked(self._broker_id, -1)
        swapped: Certificate | None = self._rules.before_request(asked, Certificate)
        self._cut = self._rules.before_request(asked, CutHandshake)
        context = self._context if swapped is None else swapped.context
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        if self._cut is not None and self._cut.at_byte == 0:
            self._break(self._cut)

    def data_received(self, data: bytes) -> None:
        """Bytes of the client have arrived."""
        if self._closing:
            return
        self._incoming.write(data)
        if self._is_open or self._shake_hands():
            self._read()

    def pause_writing(self) -> None:
        """The client does not read."""
        if self._is_open:
            self._protocol.pause_writing()

    def resume_writing(self) -> None:
        """The client reads again."""
        if self._is_open:
            self._protocol.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection has ended."""
        self._closing = True
        self._handshakes.pop(self, None)
        if self._is_open:
            self._protocol.connection_lost(exc)
        if not self._lost.done():
            self._lost.set_result(None)

    # -- called by the broker's protocol

    def write(self, data: bytes | bytearray | memoryview[Any]) -> None:
        """Send these bytes in records of TLS."""
        if not self._closing:
            self._encrypt(data)
            self._flush()

    def write_cut(self, data: bytes, at_byte: int) -> None:
        """Send only so many bytes of the records that these bytes become."""
        if not self._closing:
            self._encrypt(data)
            self._raw.write(self._outgoing.read()[:at_byte])

    def close(self) -> None:
        """End the connection with TLS's close_notify."""
        if not self._closing:
            # The answer of the client is not waited for.
            with contextlib.suppress(ssl.SSLError):
                self._tls.unwrap()
            self._flush()
            self.close_without_notify()

    def close_without_notify(self) -> None:
        """End the TCP connection alone."""
        self._closing = True
        self._raw.close()

    def abort(self) -> None:
        """End the connection at once."""
        self._closing = True
        self._raw.abort()

    def is_closing(self) -> bool:
        """Whether the connection ends."""
        return self._closing or self._raw.is_closing()

    def can_write_eof(self) -> bool:
        """False: TLS ends in both directions."""
        return False

    def get_write_buffer_size(self) -> int:
        """The encrypted bytes that the client has not read."""
        return self._raw.get_write_buffer_size()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Pause the protocol above so many encrypted bytes."""
        self._raw.set_write_buffer_limits(high, low)

    def pause_reading(self) -> None:
        """Stop calling the protocol with bytes."""
        self._reading = False
        self._raw.pause_reading()

    def resume_reading(self) -> None:
        """Call the protocol with the bytes that have arrived meanwhile, and with all later ones."""
        self._reading = True
        self._raw.resume_reading()
        asyncio.get_running_loop().call_soon(self._read)

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """The socket, for example."""
        return self._tls if name == "ssl_object" else self._raw.get_extra_info(name, default)

    async def lost(self) -> None:
        """Wait until the connection has ended."""
        await asyncio.shield(self._lost)

    # -- TLS

    def _shake_hands(self) -> bool:
        """Continue the handshake; True when it is over."""
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            self._flush()
            return False
        except ssl.SSLError:
            if not self._outgoing.pending:
                # OpenSSL has no alert for a client that does not speak TLS; Kafka has.
                self._raw.write(_INTERNAL_ERROR)
            self._refuse()
            return False
        if self._cut is not None:
            self._break(self._cut)
            return False
        self._flush()
        self._handshakes.pop(self, None)
        self._is_open = True
        self._protocol.connection_made(self)
        return True

    def _refuse(self) -> None:
        """Send the alert. The end of a connection with unread bytes would be a reset, which overtakes it: the client ends it."""
        self._flush()
        if not self._closing:
            self._closing = True
            self._raw.write_eof()

    def _read(self) -> None:
        while self._reading and not self._closing:
            try:
                data = self._tls.read(_AT_ONCE)
            except ssl.SSLWantReadError:
                break
            except ssl.SSLError:
                self._refuse()
                return
            if not data:
                self.close()
                return
            self._protocol.data_received(data)
        if not self._closing:
            self._flush()

    def _encrypt(self, data: bytes | bytearray | memoryview[Any]) -> None:
        rest = memoryview(data)
        while rest:
            rest = rest[self._tls.write(rest) :]

    def _flush(self) -> None:
        data = self._outgoing.read()
        if self._cut is not None and self._sent + len(data) >= self._cut.at_byte:
            self._raw.write(data[: self._cut.at_byte - self._sent])
            self._break(self._cut)
            return
        self._sent += len(data)
        if data:
            self._raw.write(data)

    def _break(self, cut: CutHandshake) -> None:
        self._cut = None
        if cut.reset:
            reset(self)
        else:
            self.close_without_notify()

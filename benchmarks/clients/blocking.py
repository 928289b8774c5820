"""A blocking socket to a broker, for the measured limits: no event loop, no threads, one request after the other."""

from __future__ import annotations

import socket
import struct
import time
from types import TracebackType
from typing import Any, Final, Self, TypeVar

import attrs

from aioproducer._wire.codec import decode_response, encode_request
from aioproducer._wire.messages.declaration import AnyMessage
from aioproducer._wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

M = TypeVar("M", bound=tuple[Any, ...])

# The errors of a broker that has just started: coordinator loading, or not available.
_NOT_YET, _PATIENCE = (14, 15), 100
_INIT_VERSION: Final = 4
PRODUCE_VERSION: Final = 12
"""The last version with names of topics."""
_TRANSACTION_TIMEOUT_MS: Final = 60_000


@attrs.define(eq=False)
class Wire:
    """`with Wire(servers) as wire:` is connected to the first of them."""

    servers: str
    _socket: socket.socket = attrs.field(init=False)

    def __enter__(self) -> Self:
        host, port = self.servers.split(",")[0].rsplit(":", 1)
        self._socket = socket.create_connection((host, int(port)))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._socket.close()

    def send(self, frame: bytes | bytearray) -> None:
        """Send the whole frame."""
        self._socket.sendall(frame)

    def receive(self) -> bytes:
        """The next answer."""
        (size,) = struct.unpack(">i", self._receive(4))
        return self._receive(size)

    def ask(self, question: AnyMessage, version: int, kind: type[M]) -> M:
        """One request, and its answer."""
        self.send(framed(question, version))
        return decode_response(kind, version, self.receive())[1]

    def identity(self, transactional_id: str | None = None) -> tuple[int, int]:
        """A producer id and its epoch."""
        question = InitProducerIdRequest(
            transactional_id=transactional_id,
            transaction_timeout_ms=_TRANSACTION_TIMEOUT_MS,
            producer_id=-1,
            producer_epoch=-1,
        )
        for _ in range(_PATIENCE):
            answer = self.ask(question, _INIT_VERSION, InitProducerIdResponse)
            if answer.error_code not in _NOT_YET:
                break
            time.sleep(0.1)
        if answer.error_code:
            raise SystemExit(f"the broker gives no producer id: error {answer.error_code}")
        return answer.producer_id, answer.producer_epoch

    def _receive(self, size: int) -> bytes:
        data = bytearray(size)
        view = memoryview(data)
        while view:
            got = self._socket.recv_into(view)
            if not got:
                raise SystemExit("the broker closed the connection")
            view = view[got:]
        return bytes(data)


def check(error_code: int) -> None:
    """End the program after an error: refused requests do not count."""
    if error_code:
        raise SystemExit(f"the broker answered with error {error_code}")


def framed(question: AnyMessage, version: int) -> bytes:
    """A request with its length."""
    body = encode_request(question, version, 1, "limit")
    return struct.pack(">i", len(body)) + body

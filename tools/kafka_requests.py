"""Requests to a real Kafka that Confluent's admin client does not have."""

from __future__ import annotations

import io
import socket
from typing import Any, Final, TypeVar

from kio.serial import entity_reader, entity_writer
from kio.static.primitive import i32
from kio.static.protocol import Entity

_LIMIT: Final = 20.0
E = TypeVar("E", bound=Entity)


def ask(address: str, request: Any, response: type[E]) -> E:
    """The answer of the broker at this address, without security; both types are kio's."""
    host, port = address.rsplit(":", 1)
    with socket.create_connection((host, int(port)), timeout=_LIMIT) as connection:
        return ask_over(connection, request, response)


def ask_over(connection: socket.socket, request: Any, response: type[E]) -> E:
    """The answer over this connection, which may be one with TLS."""
    frame = io.BytesIO()
    kind = type(request)
    header = kind.__header_schema__(
        request_api_key=kind.__api_key__,
        request_api_version=kind.__version__,
        correlation_id=i32(1),
        client_id="tools",
    )
    entity_writer(kind.__header_schema__)(frame, header)
    entity_writer(kind)(frame, request)
    connection.sendall(len(frame.getvalue()).to_bytes(4, "big") + frame.getvalue())
    with connection.makefile("rb") as answers:
        answer = answers.read(int.from_bytes(answers.read(4), "big"))
    _, read = entity_reader(_header_of(response))(answer, 0)
    found, _ = entity_reader(response)(answer, read)
    return found


def _header_of(response: Any) -> type[Any]:
    header: type[Any] = response.__header_schema__
    return header

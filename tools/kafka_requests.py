"""Requests to a real Kafka that Confluent's admin client does not have."""

from __future__ import annotations

import io
import socket
from typing import Any, Final, TypeVar

from kio.schema.request_header.v2.header import RequestHeader
from kio.schema.response_header.v1.header import ResponseHeader
from kio.serial import entity_reader, entity_writer
from kio.static.primitive import i32
from kio.static.protocol import Entity

_LIMIT: Final = 20.0
E = TypeVar("E", bound=Entity)


def ask(address: str, request: Any, response: type[E]) -> E:
    """The answer of the broker at this address; both types are kio's, of a version with flexible headers."""
    host, port = address.rsplit(":", 1)
    frame = io.BytesIO()
    kind = type(request)
    header = RequestHeader(
        request_api_key=kind.__api_key__,
        request_api_version=kind.__version__,
        correlation_id=i32(1),
        client_id="tools",
    )
    entity_writer(RequestHeader)(frame, header)
    entity_writer(kind)(frame, request)
    with socket.create_connection((host, int(port)), timeout=_LIMIT) as connection:
        connection.sendall(len(frame.getvalue()).to_bytes(4, "big") + frame.getvalue())
        with connection.makefile("rb") as answers:
            answer = answers.read(int.from_bytes(answers.read(4), "big"))
    _, read = entity_reader(ResponseHeader)(answer, 0)
    found, _ = entity_reader(response)(answer, read)
    return found

"""Reading requests as Kafka reads them: strictly, except for bytes after the end.

Kafka ignores bytes after a request inside its frame, and librdkafka relies on it: its Metadata v13 request for all
topics is three bytes too long. The codec shared with the client refuses such frames, as a client should.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from aioproducer._core import Program
from aioproducer._wire.apis import APIS, message_of
from aioproducer._wire.codec import RequestHeader, decode_request
from aioproducer._wire.messages.header import REQUEST_HEADER
from aioproducer._wire.programs import compile_message, version_range
from aioproducer.errors import ProtocolError


def read_request(frame: bytes) -> tuple[RequestHeader, Any]:
    """Header and request; `ProtocolError` for a request that Kafka would not understand either."""
    try:
        return decode_request(frame)
    except ProtocolError:
        return _with_bytes_after_its_end(frame)


def _with_bytes_after_its_end(frame: bytes) -> tuple[RequestHeader, Any]:
    header_program, body_program = _programs(*_key_and_version(frame))
    header, start = header_program.decode_prefix(frame)
    request, _ = body_program.decode_prefix(frame[start:])
    return header, request


def _key_and_version(frame: bytes) -> tuple[int, int]:
    return int.from_bytes(frame[:2], "big", signed=True), int.from_bytes(frame[2:4], "big", signed=True)


@cache
def _programs(key: int, version: int) -> tuple[Program, Program]:
    api = APIS.get(key)
    if api is None or not api.min_version <= version <= api.max_version:
        raise ProtocolError(f"version {version} of the API with key {key} is not supported")
    message = message_of(api.request)
    header = compile_message(REQUEST_HEADER, 2 if version in version_range(message.flexible) else 1)
    return header, compile_message(message, version)

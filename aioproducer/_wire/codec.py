"""Messages to bytes and back, with and without the headers that requests and responses carry.

Encoding follows Kafka's rules. A value that its field cannot hold is a `TypeError` or `ValueError` that names the
field. So is a field that the version lacks, if its value is not the default, unless Kafka's definition calls the field
ignorable.

Decoding raises only `ProtocolError`, for any bytes. The decoded objects stay within four times the frame and 64 KiB;
for that, an array that would not fit as a list is a read-only `Sequence` that makes its elements on access. Iterate
over arrays rather than index them at random, and never keep one: copy elements that are to stay.

Frames are passed without the four bytes of their length.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple, TypeAlias, TypeVar

from aioproducer._core import Program
from aioproducer._wire.apis import API_VERSIONS, APIS, api_of, message_of
from aioproducer._wire.error_codes import ErrorCode
from aioproducer._wire.messages.api_versions import ApiVersionsRequest
from aioproducer._wire.messages.declaration import AnyMessage
from aioproducer._wire.messages.header import REQUEST_HEADER, RESPONSE_HEADER, RequestHeader, ResponseHeader
from aioproducer._wire.programs import compile_message, version_range
from aioproducer.errors import ProtocolError

__all__ = [
    "RequestHeader",
    "decode",
    "decode_request",
    "decode_response",
    "encode",
    "encode_request",
    "encode_response",
]

Frame: TypeAlias = bytes | bytearray | memoryview
M = TypeVar("M", bound=tuple[Any, ...])


class _Plan(NamedTuple):
    """The programs for one version of a message."""

    header: Program
    body: Program
    api_key: int


def _ignored(_count: int) -> None:
    pass


@cache
def _plan(message_type: type[AnyMessage], version: int) -> _Plan:
    message = message_of(message_type)
    api = api_of(message_type)
    flexible = version in version_range(message.flexible)
    if message_type is api.request:
        header = compile_message(REQUEST_HEADER, 2 if flexible else 1)
    else:
        # A client that asked in a version that the broker does not know must still be able to read the answer
        # (KIP-511).
        header = compile_message(RESPONSE_HEADER, int(flexible and api.key != API_VERSIONS))
    return _Plan(header, compile_message(message, version), api.key)


def encode(message: AnyMessage, version: int) -> bytes:
    """The body of a request or response."""
    return _plan(type(message), version).body.encode(message)


def decode(message_type: type[M], version: int, buffer: Frame) -> M:
    """The request or response whose body fills the buffer."""
    decoded: M = _plan(message_type, version).body.decode(buffer)
    return decoded


def encode_request(message: AnyMessage, version: int, correlation_id: int, client_id: str | None) -> bytes:
    """A request with its header."""
    plan = _plan(type(message), version)
    header = RequestHeader(plan.api_key, version, correlation_id, client_id)
    return plan.body.encode(message, plan.header.encode(header))


def encode_response(message: AnyMessage, version: int, correlation_id: int) -> bytes:
    """A response with its header."""
    plan = _plan(type(message), version)
    return plan.body.encode(message, plan.header.encode(ResponseHeader(correlation_id)))


def decode_response(
    message_type: type[M], version: int, frame: Frame, surplus: Callable[[int], None] = _ignored
) -> tuple[int, M]:
    """The correlation id and the response to a request of `version`.

    Bytes after the last field are ignored, as in Java and librdkafka: some brokers write them. `surplus` is called with
    their number.
    """
    data = _owned(frame)
    plan = _plan(message_type, version)
    header, start = plan.header.decode_prefix(data)
    if plan.api_key == API_VERSIONS and _is_refusal(data, start):
        plan = _plan(message_type, 0)
    response, end = plan.body.decode_prefix(data, start)
    if end < len(data):
        surplus(len(data) - end)
    return header.correlation_id, response


def _is_refusal(data: bytes, start: int) -> bool:
    """Whether this ApiVersions answer is UNSUPPORTED_VERSION, which a broker always writes in version 0."""
    return int.from_bytes(data[start : start + 2]) == ErrorCode.UNSUPPORTED_VERSION


def decode_request(frame: Frame) -> tuple[RequestHeader, AnyMessage]:
    """The header of a request, and the request.

    An unsupported API or version is a `ProtocolError`; Kafka closes the connection in this case. The one exception is
    ApiVersions in a newer version: it becomes an empty `ApiVersionsRequest`, to be answered with UNSUPPORTED_VERSION in
    version 0 (KIP-511).
    """
    data = _owned(frame)
    header: RequestHeader = _OLD_HEADER.decode_prefix(data)[0]
    api = APIS.get(header.api_key)
    if api is not None and api.min_version <= header.api_version <= api.max_version:
        plan = _plan(api.request, header.api_version)
        return header, plan.body.decode(data, plan.header.decode_prefix(data)[1])
    if header.api_key == API_VERSIONS:
        return header, ApiVersionsRequest()
    name = f"{api.name} version {header.api_version}" if api else f"API key {header.api_key}"
    text = f"a request for {name} came, which is not supported here"
    raise ProtocolError(text)


# Every request header begins like version 1; the fields of version 2 follow.
_OLD_HEADER = compile_message(REQUEST_HEADER, 1)


def _owned(frame: Frame) -> bytes:
    return frame if type(frame) is bytes else bytes(memoryview(frame))

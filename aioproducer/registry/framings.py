"""Where the id of its schema is in a record: before its data, or in a header."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Literal, TypeAlias

from aioproducer.errors import ConfigurationError
from aioproducer.registry.schemas import SchemaId
from aioproducer.serializers import Encoded, Part

__all__ = ["Framing", "GivenFraming", "Write", "framing_of"]

Encode: TypeAlias = Callable[[bytes], Callable[[Any], bytes]]
"""From a prefix to the function that encodes an object behind it: one call less for each record than a join."""
Write: TypeAlias = Callable[[Any], Any]
"""From an object to the result of a serializer."""
GivenFraming: TypeAlias = (
    Literal["prefix", "header"] | Callable[[SchemaId, tuple[int, ...], bytes], bytes | Encoded]
)
# From a part, the id, the indexes of a Protobuf message and its encoder to what writes records.
Framing: TypeAlias = Callable[[Part, SchemaId, tuple[int, ...], Encode], Write]

_BY_ID: Final = b"\0"
_BY_GUID: Final = b"\1"


def framing_of(given: Any) -> Framing:
    """The framing that the option stands for."""
    if callable(given):
        return _by(given)
    if not isinstance(given, str) or given not in _KNOWN:
        raise ConfigurationError('framing: must be "prefix", "header" or a function')
    return _KNOWN[given]


def _prefix(_part: Part, schema_id: SchemaId, indexes: tuple[int, ...], encode: Encode) -> Write:
    return encode(_BY_ID + schema_id.id.to_bytes(4, "big") + path_bytes(indexes))


def _header(part: Part, schema_id: SchemaId, indexes: tuple[int, ...], encode: Encode) -> Write:
    if schema_id.guid is None:
        # Of all records. That of a `send()` is a SerializationError, and this is its cause.
        raise ConfigurationError(
            'the registry gives no guid of the schema, which framing="header" needs; use framing="prefix"'
        )
    headers = [(f"__{part}_schema_id", _BY_GUID + schema_id.guid.bytes + path_bytes(indexes))]
    encoded = encode(b"")

    def write(data: Any) -> Encoded:
        return Encoded(encoded(data), headers)

    return write


def _by(given: Callable[[SchemaId, tuple[int, ...], bytes], bytes | Encoded]) -> Framing:
    def framing(_part: Part, schema_id: SchemaId, indexes: tuple[int, ...], encode: Encode) -> Write:
        encoded = encode(b"")

        def write(data: Any) -> bytes | Encoded:
            return given(schema_id, indexes, encoded(data))

        return write

    return framing


_KNOWN: Final[dict[str, Framing]] = {"prefix": _prefix, "header": _header}


def path_bytes(indexes: tuple[int, ...]) -> bytes:
    """The path of a Protobuf message in its file: a count and the numbers, as zigzag varints; b"" for other schemas."""
    if indexes == (0,):
        # The usual path has a form of its own.
        return b"\0"
    return b"".join(map(_varint, (len(indexes), *indexes))) if indexes else b""


def _varint(number: int) -> bytes:
    """A number that is not negative, as a zigzag varint."""
    left, made = number << 1, bytearray()
    while left > 0x7F:
        made.append(left & 0x7F | 0x80)
        left >>= 7
    made.append(left)
    return bytes(made)

"""Random messages of any declared type in any version."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

from aioproducer._wire.messages import DEFINITIONS
from aioproducer._wire.messages.declaration import AnyMessage, Field, Message
from aioproducer._wire.programs import version_range

BITS = {"int8": 8, "int16": 16, "uint16": 16, "int32": 32, "int64": 64}
TEXTS = ("", "a", "topic-1", "naïve", "日本語", "🚀 mixed ü", "x" * 127, "y" * 128, "é" * 8200)


def declared_messages() -> list[Message]:
    """Every request and every response."""
    return [message for api in DEFINITIONS for message in api.messages]


def message_versions() -> Iterator[tuple[Message, int]]:
    """Every request and response in every version."""
    for message in declared_messages():
        for version in version_range(message.versions):
            yield message, version


def random_message(rng: random.Random, message: Message, version: int) -> AnyMessage:
    """A message as it would be decoded: arrays are lists, and fields that the version lacks are at their defaults."""
    return _struct(rng, message, message.type, version)


def _struct(rng: random.Random, message: Message, struct: type[AnyMessage], version: int) -> AnyMessage:
    make: Any = struct
    return make(*(_field(rng, message, struct, field, version) for field in message.structs[struct]))  # type: ignore[no-any-return]


def _field(
    rng: random.Random, message: Message, struct: type[AnyMessage], field: Field, version: int
) -> object:
    default = struct._field_defaults[field.name]  # type: ignore[attr-defined]
    absent = version not in version_range(field.versions)
    if absent or (version in version_range(field.tagged) and rng.random() < 0.4):
        return list(default) if field.type.startswith("[]") and default is not None else default
    if version in version_range(field.nullable) and rng.random() < 0.25:
        return None
    kind = field.type.removeprefix("[]")
    if field.type.startswith("[]"):
        return [_value(rng, message, kind, version) for _ in range(rng.randint(0, 3))]
    return _value(rng, message, kind, version)


def _value(rng: random.Random, message: Message, kind: str, version: int) -> Any:
    if kind in BITS:
        number = _integer(rng, BITS[kind])
        return number & 0xFFFF if kind == "uint16" else number
    if kind == "bool":
        return rng.random() < 0.5
    if kind == "string":
        return rng.choices(TEXTS, weights=(4, 4, 4, 4, 4, 4, 2, 2, 0.1))[0]
    if kind == "uuid":
        return rng.choice((bytes(16), rng.randbytes(16)))
    if kind in ("bytes", "records"):
        return rng.randbytes(rng.choice((0, 1, 30, 126, 127, 200)))
    struct = next(each for each in message.structs if each.__name__ == kind)
    return _struct(rng, message, struct, version)


def _integer(rng: random.Random, bits: int) -> int:
    edge = 1 << (bits - 1)
    return rng.choice((0, 1, -1, -edge, edge - 1, rng.randint(-edge, edge - 1), rng.randint(0, 100)))

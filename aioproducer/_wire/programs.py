"""Compiles a declaration and a version to the program that the compiled core runs."""

from __future__ import annotations

from collections.abc import Mapping

from aioproducer._core import Program
from aioproducer._wire.messages.declaration import AnyMessage, Field, Message

_NEWEST = 0x7FFF


def version_range(text: str) -> range:
    """The versions in Kafka's notation: "3-7", "9+", "4" or "none"."""
    if text == "none":
        return range(0)
    if text.endswith("+"):
        return range(int(text[:-1]), _NEWEST)
    low, _, high = text.partition("-")
    return range(int(low), int(high or low) + 1)


def compile_message(message: Message, version: int) -> Program:
    """The program of a whole message; ValueError if the message lacks this version."""
    if version not in version_range(message.versions):
        what = message.type.__name__
        text = f"{what} has no version {version}: it is defined for versions {message.versions}"
        raise ValueError(text)
    return _compile_struct(message, message.type, version, {})


def _compile_struct(
    message: Message, struct: type[AnyMessage], version: int, done: dict[type[AnyMessage], Program]
) -> Program:
    if struct not in done:
        flexible = version in version_range(message.flexible)
        defaults: Mapping[str, object] = struct._field_defaults  # type: ignore[attr-defined]
        rows = tuple(
            _row(message, field, version, defaults[field.name], done) for field in message.structs[struct]
        )
        done[struct] = Program(struct, rows, flexible=flexible, version=version)
    return done[struct]


def _row(
    message: Message, field: Field, version: int, default: object, done: dict[type[AnyMessage], Program]
) -> tuple[str, str, bool, Program | None, bool, bool, int, bool, bool, object]:
    kind = field.type.removeprefix("[]")
    struct = _struct_named(message, kind)
    # A flexible message may hold fields in the inflexible encoding: the client id in a request header.
    flexible = field.flexible if field.flexible != Field._field_defaults["flexible"] else message.flexible
    return (
        field.name,
        "struct" if struct else kind,
        field.type.startswith("[]"),
        _compile_struct(message, struct, version, done) if struct else None,
        version in version_range(field.nullable),
        version in version_range(flexible),
        field.tag if version in version_range(field.tagged) else -1,
        version in version_range(field.versions),
        field.ignorable,
        default,
    )


def _struct_named(message: Message, name: str) -> type[AnyMessage] | None:
    return next((struct for struct in message.structs if struct.__name__ == name), None)

"""Small messages of our own making that hold every type, for rules that no single message of Kafka's can show."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from aioproducer._core import Program
from aioproducer._wire.messages.declaration import Field, Message, Structs
from aioproducer._wire.programs import compile_message

OLD, FLEXIBLE, LATER = 0, 1, 2


class Nothing(NamedTuple):
    """A struct without fields."""


class Point(NamedTuple):
    x: int = 0
    y: int = -1


class Scalars(NamedTuple):
    flag: bool = False
    tiny: int = 0
    small: int = 0
    unsigned_small: int = 0
    medium: int = 0
    unsigned_medium: int = 0
    large: int = 0
    real: float = 0.0
    identity: bytes = bytes(16)


class Text(NamedTuple):
    value: str | None = ""


class NullableText(NamedTuple):
    value: str | None = ""


class Blob(NamedTuple):
    value: bytes | None = b""


class NullableBlob(NamedTuple):
    value: bytes | None = b""


class Numbers(NamedTuple):
    values: Sequence[int] | None = ()


class NullableNumbers(NamedTuple):
    values: Sequence[int] | None = ()


class ThreeArrays(NamedTuple):
    listed: Sequence[int] = ()
    viewed: Sequence[int] = ()
    null: Sequence[int] | None = ()


class Texts(NamedTuple):
    values: Sequence[str] = ()


class Points(NamedTuple):
    values: Sequence[Point] = ()


class Nothings(NamedTuple):
    values: Sequence[Nothing] = ()


class MaybePoint(NamedTuple):
    point: Point | None = None
    after: int = 0


class Tagged(NamedTuple):
    plain: int = 0
    first: int = 7
    numbers: Sequence[int] = ()
    point: Point = Point()


class ManyTagged(NamedTuple):
    values: Sequence[Tagged] = ()


class Changing(NamedTuple):
    """Fields that not every version has."""

    always: int = 0
    ignorable: int = 5
    strict: int = 6
    strict_list: Sequence[int] = ()


STRUCTS: Structs = {
    Nothing: (),
    Point: (Field("x", "int32", "0+"), Field("y", "int32", "0+")),
    Scalars: (
        Field("flag", "bool", "0+"),
        Field("tiny", "int8", "0+"),
        Field("small", "int16", "0+"),
        Field("unsigned_small", "uint16", "0+"),
        Field("medium", "int32", "0+"),
        Field("unsigned_medium", "uint32", "0+"),
        Field("large", "int64", "0+"),
        Field("real", "float64", "0+"),
        Field("identity", "uuid", "0+"),
    ),
    Text: (Field("value", "string", "0+"),),
    NullableText: (Field("value", "string", "0+", nullable="0+"),),
    Blob: (Field("value", "bytes", "0+"),),
    NullableBlob: (Field("value", "records", "0+", nullable="0+"),),
    Numbers: (Field("values", "[]int32", "0+"),),
    NullableNumbers: (Field("values", "[]int32", "0+", nullable="0+"),),
    ThreeArrays: (
        Field("listed", "[]int8", "0+"),
        Field("viewed", "[]int8", "0+"),
        Field("null", "[]int8", "0+", nullable="0+"),
    ),
    Texts: (Field("values", "[]string", "0+"),),
    Points: (Field("values", "[]Point", "0+"),),
    Nothings: (Field("values", "[]Nothing", "0+"),),
    MaybePoint: (Field("point", "Point", "0+", nullable="0+"), Field("after", "int8", "0+")),
    Tagged: (
        Field("plain", "int8", "0+"),
        Field("first", "int16", "1+", tagged="1+", tag=1, ignorable=True),
        Field("numbers", "[]int32", "1+", tagged="1+", tag=3, ignorable=True),
        Field("point", "Point", "1+", tagged="1+", tag=4, ignorable=True),
    ),
    ManyTagged: (Field("values", "[]Tagged", "0+"),),
    Changing: (
        Field("always", "int8", "0+"),
        Field("ignorable", "int8", "2+", ignorable=True),
        Field("strict", "int8", "2+"),
        Field("strict_list", "[]int8", "2+"),
    ),
}


def program(struct: type[tuple[object, ...]], version: int = OLD) -> Program:
    """The program of one of the structs above; version 0 is not flexible."""
    return compile_message(Message(struct, "0-2", "1+", STRUCTS), version)

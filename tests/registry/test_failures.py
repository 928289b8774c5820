"""The errors of objects that do not fit: they name the field and the class of its value, and show nothing of the record."""

from __future__ import annotations

import datetime
import decimal
import enum
import json
import math
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from fastavro.write import LOGICAL_WRITERS
from google.protobuf import struct_pb2, timestamp_pb2
from google.protobuf.descriptor_pb2 import FieldDescriptorProto as Field

from aioproducer import Producer
from aioproducer.errors import KafkaError, SerializationError
from aioproducer.outlets import DeadLetters
from aioproducer.registry import AvroSerializer, JsonSerializer, ProtobufSerializer, RegistryError, Schema
from aioproducer.serializers import NotPrepared
from aioproducer.testing import EmbeddedKafka, EmbeddedRegistry
from tests.registry.messages import add_field, add_message, classes_of, new_file

SECRET = "SECRET"
# Their files are in the pool of descriptors once they are imported.
IMPORTS = (struct_pb2.DESCRIPTOR.name, timestamp_pb2.DESCRIPTOR.name)


def texts_of(error: BaseException | None) -> Iterator[str]:
    """The texts of an exception, and of all that it came from."""
    while error is not None:
        yield f"{error} {error.args!r}"
        if error.__cause__ is not None:
            yield from texts_of(error.__cause__)
        error = error.__context__


def _record(name: str, **fields: Any) -> dict[str, Any]:
    return {
        "type": "record",
        "name": name,
        "fields": [{"name": each, "type": kind} for each, kind in fields.items()],
    }


LINES = {"type": "array", "items": _record("Line", n={"type": "map", "values": "long"})}
PAID = ["null", _record("Card", number="long"), _record("Bank", iban="string")]
AMOUNT = {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2}
AVRO: list[tuple[Any, Any, str]] = [
    ("long", SECRET, "an integer is required, not str on field v"),
    ("long", 2**70, "this int does not fit the type long on field v"),
    ("double", SECRET, "this str does not fit the type double on field v"),
    ("float", SECRET, "this str does not fit the type float on field v"),
    ("string", f"{SECRET}\ud800", "a text with a lone surrogate has no bytes on field v"),
    ("string", SECRET.encode(), "this bytes does not fit the type string on field v"),
    (
        ["null", "long", "boolean"],
        SECRET,
        "this str does not fit the union of null, long, boolean on field v",
    ),
    (
        ["null", "long", "string"],
        (SECRET, 1),
        "this tuple does not fit the union of null, long, string on field v",
    ),
    (
        PAID,
        {"-type": SECRET, "number": 1},
        "this dict does not fit the union of null, record Card, record Bank on field v",
    ),
    (PAID, {"number": SECRET}, "an integer is required, not str on field number on field v"),
    (
        {"type": "enum", "name": "E", "symbols": ["A"]},
        SECRET,
        "this str does not fit the type enum E on field v",
    ),
    (
        {"type": "fixed", "name": "F", "size": 3},
        SECRET.encode(),
        "this bytes does not fit the type fixed of 3 bytes F on",
    ),
    (
        {"type": "int", "logicalType": "date"},
        SECRET,
        "this str does not fit the type int with date on field v",
    ),
    (
        AMOUNT,
        decimal.Decimal("1.23456"),
        "this Decimal does not fit the type bytes with decimal(4, 2) on field v",
    ),
    (AMOUNT, decimal.Decimal("sNaN1234"), "a decimal is a finite number on field v"),
    (
        ["null", {"type": "int", "logicalType": "date"}, "string"],
        SECRET,
        "a type of the union cannot be tried with this str",
    ),
    (
        LINES,
        [{"n": {"a": 1}}, {"n": {"a": 2**70}}],
        "this int does not fit the type long on field n on field v",
    ),
    (LINES, [{"n": {7: 1}}], "a key of a map is a text, not int on field n on field v"),
    (LINES, [{}], "no value and no default on field n on field v"),
    (LINES, [SECRET], "an object with fields is required, not str on field v"),
]


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize(("kind", "value", "words"), AVRO, ids=str)
def test_an_error_of_avro(kind: Any, value: Any, words: str, strict: bool) -> None:
    """fastavro's own errors show the record."""
    schema = _record("Order", id="string", v=kind)
    serializer: AvroSerializer[Any] = AvroSerializer("http://localhost", schema, schema_id=1, strict=strict)
    encode = serializer._make(Schema(json.dumps(schema)), {}).encode(b"")
    _check(encode, {"id": SECRET, "v": value}, words.replace(" and no default", "") if strict else words)


def test_an_error_of_avro_about_fields_of_others() -> None:
    """A strict one counts the fields that are too many, whose names may be data of users, and names a missing one."""
    schema = _record("Order", id="string")
    serializer: AvroSerializer[Any] = AvroSerializer("http://localhost", schema, schema_id=1, strict=True)
    encode = serializer._make(Schema(json.dumps(schema)), {}).encode(b"")
    _check(encode, {"id": SECRET, "more": SECRET, f"{SECRET}@b": 1}, "Order has no field *, more")
    _check(encode, {"other": SECRET}, "no value on field id")


def test_an_error_of_a_conversion() -> None:
    """The error of an object's own method has no other one with the record as its context."""

    class Broken:
        def asdict(self) -> Any:
            raise ValueError("broken")

    schema = _record("Order", id="string", v=["null", "long", "boolean"])
    serializer: AvroSerializer[Any] = AvroSerializer("http://localhost", schema, schema_id=1)
    encode = serializer._make(Schema(json.dumps(schema)), {}).encode(b"")
    _check(encode, {"id": SECRET, "v": Broken()}, "broken")


def _order() -> Any:
    file = new_file("order.proto", "shop", IMPORTS)
    kind = file.enum_type.add(name="Kind")
    kind.value.add(name="A", number=0)
    line = add_message(file, "Line")
    add_field(line, "n", Field.TYPE_INT64)
    order = add_message(file, "Order")
    for name, number in (
        ("id", Field.TYPE_STRING),
        ("count", Field.TYPE_INT64),
        ("small", Field.TYPE_SINT32),
    ):
        add_field(order, name, number)
    add_field(order, "kind", Field.TYPE_ENUM, type_name=".shop.Kind")
    add_field(order, "line", Field.TYPE_MESSAGE, type_name=".shop.Line")
    add_field(order, "lines", Field.TYPE_MESSAGE, type_name=".shop.Line", repeated=True)
    add_field(order, "numbers", Field.TYPE_INT64, repeated=True)
    add_field(order, "at", Field.TYPE_MESSAGE, type_name=".google.protobuf.Timestamp")
    add_field(order, "any", Field.TYPE_MESSAGE, type_name=".google.protobuf.Struct")
    entry = add_message(order, "ByNameEntry", nested=True)
    entry.options.map_entry = True
    add_field(entry, "key", Field.TYPE_STRING)
    add_field(entry, "value", Field.TYPE_MESSAGE, type_name=".shop.Line")
    add_field(order, "by_name", Field.TYPE_MESSAGE, type_name=".shop.Order.ByNameEntry", repeated=True)
    return classes_of(file)["shop.Order"]


PROTOBUF: list[tuple[Any, str]] = [
    ({"count": SECRET}, "this str does not fit the type int64 on field count"),
    ({"small": 123456789012}, "this int does not fit the type sint32 on field small"),
    ({"kind": SECRET}, "this str does not fit the type shop.Kind on field kind"),
    ({"id": f"{SECRET}\ud800"}, "this text or these bytes are not UTF-8 on field id"),
    ({"id": SECRET.encode() + b"\xff"}, "this text or these bytes are not UTF-8 on field id"),
    ({"line": {"n": SECRET}}, "this str does not fit the type int64 on field n on field line"),
    ({"line": SECRET}, "this str does not fit the type shop.Line on field line"),
    ({"line": {"m": SECRET}}, "the message shop.Line has no field m on field line"),
    ({"line": {f"{SECRET}@b": 1}}, "the message shop.Line has no field * on field line"),
    ({"lines": [{"n": 1}, {"n": SECRET}]}, "this str does not fit the type int64 on field n on field lines"),
    ({"lines": [SECRET]}, "this str does not fit the type shop.Line on field lines"),
    ({"numbers": [1, SECRET]}, "this str does not fit the type int64 on field numbers"),
    ({"at": SECRET}, "this str does not fit the type google.protobuf.Timestamp on field at"),
    ({"any": {"a": 1j}}, "this dict does not fit the type google.protobuf.Struct on field any"),
    ({"by_name": {"a": {"n": SECRET}}}, "this str does not fit the type int64 on field n"),
    ({"by_name": {7: {"n": 1}}}, "this int does not fit the type string of a key on field by_name"),
    ({"by_name": SECRET}, "on field by_name"),
    ({7: SECRET}, "the name of a field is a text, not int"),
]


@pytest.mark.parametrize(("fields", "words"), PROTOBUF, ids=str)
def test_an_error_of_protobuf(fields: Any, words: str) -> None:
    """Protobuf's own errors show the value in some versions, and no field in others."""
    serializer: ProtobufSerializer[Any] = ProtobufSerializer("http://localhost", _order(), schema_id=1)
    _check(serializer._encoder_of_type.encode(b""), {"id": SECRET, **fields}, words)


@pytest.mark.parametrize(
    "value",
    [SECRET, [SECRET], {SECRET}, SECRET.encode(), f"{SECRET}\ud800", datetime.timedelta(1)],
    ids=repr,
)
def test_an_error_of_json(value: Any) -> None:
    """Of the schema, or of an object that JSON has no form for."""
    schema = {"properties": {"v": {"type": "integer", "enum": [1]}}}
    serializer: JsonSerializer[Any] = JsonSerializer("http://localhost", schema, schema_id=1)
    encode = serializer._make(Schema(json.dumps(schema), "JSON"), {}).encode(b"")
    _check(encode, {"id": SECRET, "v": value}, "")


def test_keys_in_an_error_of_json() -> None:
    """Those that the schema does not name may be data of users."""
    lines = {"type": "array", "items": {"additionalProperties": {"type": "integer"}}}
    schema = {"properties": {"lines": lines}}
    serializer: JsonSerializer[Any] = JsonSerializer("http://localhost", schema, schema_id=1)
    encode = serializer._make(Schema(json.dumps(schema), "JSON"), {}).encode(b"")
    _check(encode, {"lines": [{}, {SECRET: "x"}]}, "schema at /lines/1/*: ")


def test_the_class_of_an_error_of_json() -> None:
    """Its name is in logs and dead letters: it is no private one."""
    serializer: JsonSerializer[Any] = JsonSerializer("http://localhost", {"type": "object"}, schema_id=1)
    encode = serializer._make(Schema('{"type":"object"}', "JSON"), {}).encode(b"")
    with pytest.raises(ValueError, match="does not fit its JSON schema") as caught:
        encode([])
    assert type(caught.value).__name__ == "DoesNotFitError"


class MailError(Exception):
    """An error of a program."""


def _mail(data: Any, schema: Any) -> Any:
    raise MailError(f"{data} is no address")


@pytest.mark.parametrize("base", ["string", "long", "enum"])
@pytest.mark.parametrize("value", [SECRET, "2026-01-02", 789012])
def test_an_error_of_a_function_of_the_program(
    base: str, value: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its class may be one of the program, and it may have the value in its text."""
    monkeypatch.setitem(LOGICAL_WRITERS, f"{base}-mail", _mail)
    mail = {"type": base, "name": "E", "symbols": ["A"], "logicalType": "mail"}
    date = {"type": "int", "logicalType": "date"}
    for kind in (
        mail,
        ["null", mail],
        ["null", "boolean", mail],
        [date, mail],
        [mail, "double", "string"],
        [_record("A", at=mail), _record("B", at=date)],
    ):
        schema = _record("R", v=kind)
        serializer: AvroSerializer[Any] = AvroSerializer("http://localhost", schema, schema_id=1)
        encode = serializer._make(Schema(json.dumps(schema)), {}).encode(b"")
        for each in (value, (base, value), ("E", value), {"at": value}):
            try:
                encode({"v": each})
            except (TypeError, ValueError) as error:
                texts = [*texts_of(error)]
                assert "on field v" in texts[0]
                assert not any(str(value) in text for text in texts)
            else:
                # It fits another type of the union.
                assert isinstance(kind, list)


@pytest.mark.parametrize("others", [[], ["long"], [_record("B", at="long")]])
def test_an_error_of_a_function_for_records(others: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """fastavro calls it for any mapping, whatever fields the record has."""
    monkeypatch.setitem(LOGICAL_WRITERS, "record-mail", _mail)
    schema = _record("R", v=["null", _record("A", at="string") | {"logicalType": "mail"}, *others])
    serializer: AvroSerializer[Any] = AvroSerializer("http://localhost", schema, schema_id=1)
    encode = serializer._make(Schema(json.dumps(schema)), {}).encode(b"")
    for each in ({"to": SECRET}, {"-type": "X", "at": SECRET}, {"at": SECRET}):
        _check(encode, {"v": each}, "on field v")


class Color(enum.Enum):
    """A value that is converted, if a function of the program does not take it as it is."""

    RED = "red"


class DiskError(OSError, ValueError):
    """As io.UnsupportedOperation is: of two classes."""


OUTSIDE: list[Exception] = [
    ConnectionRefusedError(111, "down"),
    TimeoutError("late"),
    DiskError("full"),
    MemoryError(),
    NotPrepared(),
    KafkaError("refused"),
    RegistryError("silent"),
]


@pytest.mark.parametrize(
    "base", ["string", "boolean", "int", "long", "float", "double", "bytes", "array", "map", "record"]
)
@pytest.mark.parametrize("error", OUTSIDE, ids=lambda error: type(error).__name__)
def test_an_error_that_is_not_of_the_record(
    base: str, error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A function that asks a service: a minute without the service makes no record unfit."""
    calls: list[Any] = []

    def ask(data: Any, schema: Any) -> Any:
        calls.append(data)
        raise error

    monkeypatch.setitem(LOGICAL_WRITERS, f"{base}-asked", ask)
    asked: dict[str, Any] = {"type": base, "logicalType": "asked", "items": "long", "values": "long"}
    if base == "record":
        asked |= _record("A", at="long")
    other = "string" if base == "boolean" else "boolean"
    for kind, value in (
        (asked, {"at": 1}),
        (asked, Color.RED),
        (["null", asked], {"at": 1}),
        (["null", asked, other], {"at": 1}),
        (["null", asked, other], 5),
        ({"type": "array", "items": asked}, [{"at": 1}]),
        ({"type": "map", "values": asked}, {"a": {"at": 1}}),
        (["null", _record("B", b=asked), _record("C", c="long")], {"b": {"at": 1}}),
        (["null", _record("B", b=asked), _record("C", b="string")], {"b": {"at": 1}}),
        (["null", {"type": "map", "values": asked}, _record("C", b="string")], {"b": {"at": 1}}),
    ):
        schema = _record("R", v=kind)
        serializer: AvroSerializer[Any] = AvroSerializer("http://localhost", schema, schema_id=1)
        encode = serializer._make(Schema(json.dumps(schema)), {}).encode(b"")
        calls.clear()
        with pytest.raises(type(error)) as caught:
            encode({"v": value})
        assert caught.value is error
        assert len(calls) == 1


class Unsound:
    """An object whose conversions fail with what it has in it."""

    def __init__(self, error: Exception) -> None:
        self.error = error

    def fail(self, *_: Any) -> Any:
        raise self.error

    __float__ = __int__ = __index__ = __bool__ = fail


@pytest.mark.parametrize("kind", ["boolean", "int", "long", "float", "double"])
@pytest.mark.parametrize(
    "error", [ZeroDivisionError, KeyError, AttributeError, RuntimeError, OverflowError, ValueError]
)
def test_an_error_of_the_class_of_a_value(kind: str, error: type[Exception]) -> None:
    """It may have the value in its text."""
    for each in (kind, ["null", kind]):
        schema = _record("R", v=each)
        serializer: AvroSerializer[Any] = AvroSerializer("http://localhost", schema, schema_id=1)
        encode = serializer._make(Schema(json.dumps(schema)), {}).encode(b"")
        _check(encode, {"v": Unsound(error(SECRET))}, "on field v")
        with pytest.raises(MemoryError):
            encode({"v": Unsound(MemoryError())})


@pytest.mark.parametrize(
    "kind",
    [
        "boolean",
        "int",
        "long",
        {"type": "int", "logicalType": "date"},
        {"type": "int", "logicalType": "time-millis"},
        {"type": "long", "logicalType": "timestamp-micros"},
    ],
    ids=str,
)
@pytest.mark.parametrize("value", [math.inf, decimal.Decimal("-Infinity"), decimal.Decimal("sNaN")], ids=str)
def test_a_number_without_a_value(kind: Any, value: Any) -> None:
    """The error names the field."""
    schema = _record("R", v=kind)
    serializer: AvroSerializer[Any] = AvroSerializer("http://localhost", schema, schema_id=1)
    encode = serializer._make(Schema(json.dumps(schema)), {}).encode(b"")
    _check(encode, {"v": value}, "on field v")


@pytest.mark.parametrize("value", ["g" * 32, f"{{{'g' * 32}}}", f"urn:uuid:{'g' * 32}", "secret", "-" * 36])
def test_a_text_that_is_no_uuid(value: str) -> None:
    """One of 32 characters may be a token, which Python has in the text of its error."""
    uuid = {"type": "string", "logicalType": "uuid"}
    for kind, data in (
        (uuid, value),
        (["null", uuid], value),
        (["null", uuid, "long"], value),
        ({"type": "array", "items": uuid}, [value]),
    ):
        schema = _record("R", v=kind)
        serializer: AvroSerializer[Any] = AvroSerializer("http://localhost", schema, schema_id=1)
        encode = serializer._make(Schema(json.dumps(schema)), {}).encode(b"")
        with pytest.raises(ValueError, match="on field v") as caught:
            encode({"v": data})
        assert not any(value.strip("{}")[-32:] in text for text in texts_of(caught.value))


async def test_a_dead_letter(embedded: EmbeddedRegistry) -> None:
    """The header with the error names the field."""
    schema = _record("Order", id="string", v=["null", "long", "boolean"])
    async with (
        EmbeddedKafka() as kafka,
        Producer(kafka.bootstrap_servers, value_serializer=AvroSerializer(embedded.url, schema)) as producer,
    ):
        letters: DeadLetters[Any, Any] = DeadLetters(producer, "dead")
        await letters.send_and_wait("orders", {"id": SECRET, "v": SECRET})
        with pytest.raises(SerializationError) as caught:
            await producer.send("orders", {"id": SECRET, "v": SECRET})
        (letter,) = kafka.records("dead")
    error = dict(letter.headers)["aioproducer.error"]
    assert error is not None
    assert SECRET.encode() not in error
    assert b"this str does not fit the union of null, long, boolean on field v" in error
    assert not any(SECRET in each for each in texts_of(caught.value))


def _check(encode: Callable[[Any], bytes], data: Any, words: str) -> None:
    with pytest.raises((TypeError, ValueError)) as caught:
        encode(data)
    assert words in str(caught.value)
    assert not any(SECRET in each or "789012" in each for each in texts_of(caught.value))

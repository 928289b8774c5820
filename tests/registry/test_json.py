"""Objects in JSON, which fit their schema."""

from __future__ import annotations

import asyncio
import dataclasses
import datetime
import decimal
import enum
import json
import math
import sys
import uuid
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import MappingProxyType, SimpleNamespace
from typing import Any, NamedTuple

import msgspec
import orjson
import pydantic
import pytest
from confluent_kafka.schema_registry.json_schema import JSONDeserializer
from confluent_kafka.serialization import MessageField, SerializationContext
from hypothesis import given, settings
from hypothesis import strategies as st

from aioproducer.errors import ConfigurationError
from aioproducer.registry import JsonSerializer, Reference, Registry, Schema
from aioproducer.registry.formats.json_schema import check_of, load_validators
from aioproducer.testing import EmbeddedRegistry
from tests.registry.conftest import Readers
from tests.registry.test_failures import texts_of

VALUE = SerializationContext("orders", MessageField.VALUE)
ATOMS: dict[str, Any] = {
    "null": st.none(),
    "boolean": st.booleans(),
    "integer": st.integers(-(2**53), 2**53),
    "number": st.floats(allow_nan=False, allow_infinity=False),
    "string": st.text(max_size=20),
}


@st.composite
def cases(draw: Any, depth: int = 2) -> tuple[Any, Any]:
    """A schema, and an object of it."""
    kinds = sorted(ATOMS) if depth == 0 else [*sorted(ATOMS), "array", "object"]
    kind = "object" if depth == 2 else draw(st.sampled_from(kinds))
    if kind == "array":
        items = draw(st.lists(cases(depth=depth - 1), min_size=1, max_size=3))
        return {"type": "array", "prefixItems": [schema for schema, _ in items]}, [
            value for _, value in items
        ]
    if kind == "object":
        fields = draw(st.dictionaries(st.text(max_size=6), cases(depth=depth - 1), max_size=4))
        schema = {
            "title": "Thing",
            "type": "object",
            "properties": {name: each for name, (each, _) in fields.items()},
            "required": list(fields),
        }
        return schema, {name: value for name, (_, value) in fields.items()}
    return {"type": kind}, draw(ATOMS[kind])


async def written(serializer: JsonSerializer[Any], data: Any, topic: str = "orders") -> bytes:
    """The bytes of an object."""
    await serializer.prepare(topic, None, data)
    made = serializer.serialize(topic, None, data)
    assert isinstance(made, bytes)
    return made


@given(cases())
@settings(max_examples=30, deadline=None)
def test_any_object_of_any_schema(readers: Readers, case: tuple[Any, Any]) -> None:
    """confluent-kafka reads and validates the written object."""
    schema, data = case

    async def main() -> bytes:
        async with Registry(readers.url) as registry:
            return await written(JsonSerializer(registry, schema), data, uuid.uuid4().hex)

    made = asyncio.run(main())
    assert json.loads(made[5:]) == data
    assert JSONDeserializer(json.dumps(schema))(made, VALUE) == data


ORDER = {
    "title": "Order",
    "type": "object",
    "properties": {
        "id": {"type": "integer", "minimum": 1},
        "at": {"type": "string"},
        "lines": {"type": "array", "items": {"type": "string"}},
    },
    "required": ["id"],
}


class Model(pydantic.BaseModel):
    """A model whose field has another name in JSON."""

    number: int = pydantic.Field(alias="id")
    at: datetime.datetime


@dataclasses.dataclass
class Data:
    id: int
    at: Any
    lines: list[Any]


AT = datetime.datetime(2026, 1, 2, 3, 4, 5, tzinfo=datetime.UTC)
KEY = uuid.UUID(int=5)


@pytest.mark.parametrize("dumps", [None, json.dumps, lambda data: json.dumps(data).encode()])
async def test_objects(dumps: Any, embedded: EmbeddedRegistry) -> None:
    """Times and ids become strings, also inside of a mapping, which a function of the program gets as it is."""
    async with Registry(embedded.url) as registry:
        serializer: JsonSerializer[Any] = JsonSerializer(registry, ORDER, dumps=dumps)
        made = [
            json.loads((await written(serializer, each))[5:])
            for each in (
                Data(1, AT, [KEY]),
                Data(1, AT, [KEY]) if dumps else MappingProxyType({"id": 1, "at": AT, "lines": [KEY]}),
                Model.model_validate({"id": 1, "at": AT}),
            )
        ]
        assert made[0] == made[1] == {"id": 1, "at": AT.isoformat(), "lines": [str(KEY)]}
        assert made[2]["id"] == 1
        assert datetime.datetime.fromisoformat(made[2]["at"]) == AT


class Shape(msgspec.Struct, tag="shape", tag_field="kind", rename="camel"):
    """A Struct with a tag, and a field that may be absent."""

    side_count: int
    name: str | msgspec.UnsetType = msgspec.UNSET


async def test_structs_are_written_as_msgspec_writes_them(embedded: EmbeddedRegistry) -> None:
    """Readers tell the kinds of a union by their tags, and absent fields from None."""
    schema = msgspec.json.schema_components([Shape], ref_template="#/$defs/{name}")[1]["Shape"]
    async with Registry(embedded.url) as registry:
        serializer: JsonSerializer[Any] = JsonSerializer(registry, schema)
        for shape in (Shape(3), Shape(4, "square")):
            made = await written(serializer, shape)
            assert json.loads(made[5:]) == json.loads(msgspec.json.encode(shape))


@pytest.mark.parametrize(
    ("data", "place"),
    [
        ({}, "at /: /required"),
        ({"id": "secret"}, "at /id: /properties/id/type"),
        ({"id": 0}, "at /id: /properties/id/minimum"),
        ({"id": 1, "lines": ["a", 7]}, "at /lines/1: /properties/lines/items/type"),
        (Data(0, AT, []), "at /id: /properties/id/minimum"),
    ],
)
async def test_an_object_that_does_not_fit(data: Any, place: str, embedded: EmbeddedRegistry) -> None:
    """The error has the place and the rule, and no value; without `validate` it is written."""
    async with Registry(embedded.url) as registry:
        serializer: JsonSerializer[Any] = JsonSerializer(registry, ORDER)
        with pytest.raises(ValueError, match=place) as caught:
            await written(serializer, data)
        assert "secret" not in str(caught.value)
        await written(JsonSerializer(registry, ORDER, validate=False), data)


async def test_references(embedded: EmbeddedRegistry) -> None:
    """`$ref` finds a schema by the name of its reference, relative to the schema's own id too. Nothing else is fetched."""
    async with Registry(embedded.url) as registry:
        await registry.register("line", Schema('{"type":"string"}', "JSON"))
        to_line = [Reference("line.json", "line", 1)]
        for own in ({}, {"$id": "https://example.org/order.json"}):
            text = json.dumps({**own, "type": "array", "items": {"$ref": "line.json"}})
            serializer: JsonSerializer[Any] = JsonSerializer(registry, Schema(text, "JSON", to_line))
            assert (await written(serializer, ["a"]))[5:] == b'["a"]'
            with pytest.raises(ValueError, match="at /0"):
                await written(serializer, [7])
        await registry.register("number", Schema('{"type":"integer"}', "JSON"))
        alike = [Reference("line.json", "number", 1), Reference("x/line.json", "line", 1)]
        for references in (alike, alike[::-1]):
            text = '{"type":"array","items":{"$ref":"x/line.json"}}'
            serializer = JsonSerializer(registry, Schema(text, "JSON", references))
            assert (await written(serializer, ["a"]))[5:] == b'["a"]'
            with pytest.raises(ValueError, match="at /0"):
                await written(serializer, [7])
        elsewhere = '{"$ref":"http://127.0.0.1:1/other.json"}'
        with pytest.raises(ConfigurationError, match="no reference"):
            JsonSerializer(registry, elsewhere)


TEXT = {"type": "string"}
NUMBER = {"type": "integer"}
ITEM: dict[str, Any] = {"v": TEXT, "next": {"$ref": "sub/b.json"}}
LATEST = "https://json-schema.org/draft/2020-12/schema"
BY_NAME: list[tuple[Any, dict[str, Any], Any, Any]] = [
    # A folder in the names: the validator would look for sub/sub/b.json, and so on without end.
    (
        {"items": {"$ref": "sub/a.json"}},
        {
            "sub/a.json": {"properties": ITEM},
            "sub/b.json": {"properties": {**ITEM, "v": NUMBER, "next": {"$ref": "sub/a.json"}}},
        },
        [{"v": "x", "next": {"v": 1, "next": {"v": "x"}}}],
        [{"v": "x", "next": {"v": 1, "next": {"v": 1}}}],
    ),
    # A referred schema with an id of its own refers to another one.
    (
        {"$ref": "b.json"},
        {
            "a.json": TEXT,
            "b.json": {"$id": "https://example.org/x/b.json", "items": {"$ref": "a.json"}},
        },
        ["x"],
        [1],
    ),
    ({"items": {"$ref": "./a.json"}}, {"./a.json": TEXT}, ["x"], [1]),
    ({"items": {"$ref": "../common/a.json"}}, {"../common/a.json": TEXT}, ["x"], [1]),
    (
        {"$id": "https://example.org/s/t/order.json", "items": {"$ref": "../a.json"}},
        {"../a.json": TEXT},
        ["x"],
        [1],
    ),
    ({"items": {"$ref": "größe a.json"}}, {"größe a.json": TEXT}, ["x"], [1]),
    ({"items": {"$ref": "my%20a.json"}}, {"my a.json": TEXT}, ["x"], [1]),
    (
        {"items": {"$ref": "https://example.org/a.json#/$defs/v"}},
        {"a": {"$id": "https://example.org/a.json#", "$defs": {"v": TEXT}}},
        ["x"],
        [1],
    ),
    # The longest name.
    ({"items": {"$ref": "https://example.org/x/a.json"}}, {"a.json": NUMBER, "x/a.json": TEXT}, ["x"], [1]),
    ({"items": {"$ref": "https://example.org/x/a.json"}}, {"x/a.json": TEXT, "a.json": NUMBER}, ["x"], [1]),
    # By its own id, and by that of a schema in it.
    (
        {"$ref": "a.json"},
        {
            "a.json": {
                "$id": "https://example.org/a.json",
                "$defs": {"v": {"$id": "v", **TEXT}},
                "properties": {"v": {"$ref": "v"}, "next": {"$ref": "https://example.org/a.json"}},
            }
        },
        {"next": {"v": "x"}},
        {"next": {"v": 1}},
    ),
    # Names of fields, and values, are no references.
    (
        {
            "properties": {
                "default": {"$ref": "a.json"},
                "$ref": NUMBER,
                "const": {"const": {"$ref": "a.json"}},
            }
        },
        {"a.json": TEXT},
        {"default": "x", "$ref": 1, "const": {"$ref": "a.json"}},
        {"default": 1},
    ),
    # What the schema has itself comes first, also where its address is relative, or ends with the name of a reference.
    (
        {
            "$id": "s/root.json",
            "$defs": {"l": {"$id": "line.json", **TEXT}},
            "properties": {"x": {"$ref": "line.json"}, "y": {"$ref": "a.json"}},
        },
        {"a.json": NUMBER},
        {"x": "s", "y": 1},
        {"x": 1},
    ),
    (
        {"$id": "s/root.json", "properties": {"next": {"$ref": "root.json"}, "v": {"$ref": "a.json"}}},
        {"a.json": NUMBER},
        {"next": {"v": 1}},
        {"next": {"v": "x"}},
    ),
    (
        {
            "$defs": {"l": {"$id": "https://example.org/x/a.json", **TEXT}},
            "properties": {"x": {"$ref": "https://example.org/x/a.json"}, "y": {"$ref": "a.json"}},
        },
        {"a.json": NUMBER},
        {"x": "s", "y": 1},
        {"x": 1},
    ),
    (
        {"$ref": "p/a.json"},
        {"p/a.json": {"$defs": {"q": {"$id": "q.json", **NUMBER}}, "items": {"$ref": "q.json"}}},
        [1],
        ["x"],
    ),
    (
        {"$ref": "a.json"},
        {"a.json": {"$id": "p/a.json", "$defs": {"q": {"$id": "q", **NUMBER}}, "items": {"$ref": "q"}}},
        [1],
        ["x"],
    ),
    # Metaschemas, of the validator and of the registry.
    (
        {"properties": {"s": {"$ref": LATEST}, "y": {"$ref": "schema"}}},
        {"schema": NUMBER},
        {"s": {"type": "string"}, "y": 1},
        {"s": 1},
    ),
    (
        {"$schema": "https://example.org/meta", "properties": {"y": {"$ref": "a.json"}}},
        {
            "https://example.org/meta": {
                "$id": "https://example.org/meta",
                "$schema": LATEST,
                "$ref": LATEST,
            },
            "a.json": NUMBER,
        },
        {"y": 1},
        {"y": "s"},
    ),
    # From a referred schema back to the root.
    (
        {
            "$id": "https://example.org/s/root.json",
            "required": ["v"],
            "properties": {"a": {"$ref": "a.json"}},
        },
        {"a.json": {"properties": {"root": {"$ref": "root.json"}}}},
        {"v": 1, "a": {"root": {"v": 1}}},
        {"v": 1, "a": {"root": {}}},
    ),
    # A container that is no keyword has schemas with the names of keywords.
    (
        {
            "components": {"schemas": {"default": {"$ref": "a.json"}}},
            "items": {"$ref": "#/components/schemas/default"},
        },
        {"a.json": NUMBER},
        [1],
        ["x"],
    ),
    # Not followed by anything.
    (
        {"x-doc": {"$ref": "http://[bad"}, "properties": {"a": {"$ref": "a.json"}}},
        {"a.json": NUMBER},
        {"a": 1},
        {"a": "x"},
    ),
]


@pytest.mark.parametrize(("schema", "referred", "right", "wrong"), BY_NAME, ids=str)
def test_references_by_their_names(schema: Any, referred: dict[str, Any], right: Any, wrong: Any) -> None:
    """`$ref` has the name of a reference, in any schema, or a relative or absolute address that ends with it."""
    texts = {name: json.dumps(each) for name, each in referred.items()}
    check = check_of(load_validators(), schema, texts)
    check(right)
    with pytest.raises(ValueError, match="the object does not fit its JSON schema"):
        check(wrong)


@pytest.mark.parametrize("schema", ["", "{", "7", '"a"', '{"type":"none"}', 7, Schema('"string"')])
def test_a_schema_that_is_none(schema: Any) -> None:
    """It is refused when the serializer is made."""
    with pytest.raises(ConfigurationError, match="schema"):
        JsonSerializer("http://localhost", schema)


@pytest.mark.parametrize("missing", [(), ("orjson",), ("orjson", "msgspec", "msgspec.json")])
async def test_any_encoder(
    missing: tuple[str, ...], embedded: EmbeddedRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    """orjson, msgspec or the standard library write the same."""
    for name in missing:
        monkeypatch.setitem(sys.modules, name, None)
    async with Registry(embedded.url) as registry:
        serializer: JsonSerializer[Any] = JsonSerializer(registry, ORDER)
        data = {"id": 1, "at": "größe", "lines": ["a"]}
        assert (await written(serializer, data))[5:] == '{"id":1,"at":"größe","lines":["a"]}'.encode()
        assert (await written(serializer, {"id": 1, "lines": iter("ab")}))[
            5:
        ] == b'{"id":1,"lines":["a","b"]}'
        # Each of them has another form of its own for some of these.
        loose: JsonSerializer[Any] = JsonSerializer(registry, {}, subject=lambda *_: "loose")
        objects = {
            "d": decimal.Decimal("1.5"),
            "t": datetime.datetime(2026, 1, 2, tzinfo=datetime.UTC),
            "p": Point(1),
        }
        made = (await written(loose, objects))[5:]
        assert made == b'{"d":"1.5","t":"2026-01-02T00:00:00+00:00","p":{"x":1}}'
        number = {"properties": {"d": {"type": "number"}}}
        numbers: JsonSerializer[Any] = JsonSerializer(registry, number, subject=lambda *_: "number")
        with pytest.raises(ValueError, match="at /d"):
            await written(numbers, objects)


class Text(str):
    """A text whose own method makes another one of it."""

    __slots__ = ()

    def __str__(self) -> str:
        return "other"


class Number(int):
    """A number of a program."""


class Ratio(float):
    """A number with a point of a program."""


class Kind(enum.StrEnum):
    """A text with a name."""

    SMALL = "small"


class Masked(dict[str, Any]):
    """A mapping that shows its values otherwise than they are kept."""

    def items(self) -> Any:
        return [(key, "***") for key in self]


class Doubled(list[Any]):
    """A list that shows each item twice."""

    def __iter__(self) -> Any:
        return (each for each in super().__iter__() for _ in range(2))


class Plain:
    """An object of a program, whose attributes are sent."""

    def __init__(self) -> None:
        self.at = AT


def _at(**offset: int) -> datetime.datetime:
    return datetime.datetime(2026, 1, 2, tzinfo=datetime.timezone(datetime.timedelta(**offset)))


EVERYWHERE: list[tuple[Any, Any]] = [
    ({Kind.SMALL: 1, Text("a"): 2, "b": 3}, {"small": 1, "a": 2, "b": 3}),
    ({1: "a", 1.5: "b", Number(2): True}, {"1": "a", "1.5": "b", "2": True}),
    ({None: {False: 1}}, {"null": {"false": 1}}),
    ({KEY: 1, AT.date(): 2}, {str(KEY): 1, "2026-01-02": 2}),
    ([Kind.SMALL, Text("a"), Number(3), Ratio(1.5), True], ["small", "a", 3, 1.5, True]),
    ([Ratio("nan"), float("inf"), {"a": -math.inf}], [None, None, {"a": None}]),
    ([2**64, Number(-(2**70)), 10**30], [2**64, -(2**70), 10**30]),
    ({"a": Masked(b=1), "c": [Masked(d={})]}, {"a": {"b": "***"}, "c": [{"d": "***"}]}),
    ({"a": Doubled([1, 2])}, {"a": [1, 1, 2, 2]}),
    (Doubled([1]), [1, 1]),
    (
        {"a": OrderedDict(b=Text("c")), "d": defaultdict(int, e=1), "f": Counter("gg")},
        {"a": {"b": "c"}, "d": {"e": 1}, "f": {"g": 2}},
    ),
    (
        [AT, _at(hours=2), AT.replace(tzinfo=None)],
        [AT.isoformat(), _at(hours=2).isoformat(), AT.isoformat()[:-6]],
    ),
    ([AT.date(), AT.time(), AT.timetz()], ["2026-01-02", "03:04:05", "03:04:05+00:00"]),
    # The mapping of an object, alone and with others whose keys would make up for it.
    (vars(SimpleNamespace(at=AT)), {"at": AT.isoformat()}),
    ([vars(Plain()), {1: 2}], [{"at": AT.isoformat()}, {"1": 2}]),
    ([vars(Plain()), {"a": 1}, "b"], [{"at": AT.isoformat()}, {"a": 1}, "b"]),
]
NOWHERE: list[tuple[Any, type[Exception] | tuple[type[Exception], ...], str]] = [
    ({"a": b"secret"}, TypeError, "JSON has no form for bytes"),
    ({"a": [bytearray()]}, TypeError, "JSON has no form for bytearray"),
    ({"a": {"b": memoryview(b"secret")}}, TypeError, "JSON has no form for memoryview"),
    ([datetime.timedelta(1)], TypeError, "JSON has no form for timedelta"),
    ({"x": {1: "a", "1": "b"}}, ValueError, "two keys of a mapping are one text in JSON"),
    ([{True: "a", "true": "b"}], ValueError, "two keys of a mapping are one text in JSON"),
    # The lowest jsonschema-rs looks at it first.
    ([1j], (TypeError, ValueError), "complex"),
    ({"a": ["\ud800"]}, ValueError, "a text with a lone surrogate has no bytes|surrogates not allowed"),
    ({(1, 2): 3}, TypeError, "a key of a JSON object is a text or a number, not tuple"),
    ({b"secret": 3}, TypeError, "JSON has no form for bytes"),
    ({Number(4): 5, "4": 6}, ValueError, "are one text in JSON"),
    # One mapping without other keys beside one with them, and one that has had them.
    ([{"a": 1, "b": 2}, {"c": {1: "a", "1": "b"}}, "d"], ValueError, "are one text in JSON"),
    # The standard library of Python 3.14 notes the keys.
    ({"secret": [{"secret": object()}]}, (TypeError, ValueError), "object"),
    ({"secret": math.nan, "x": object()}, (TypeError, ValueError), "object"),
]
ENCODERS = [(), ("orjson",), ("orjson", "msgspec", "msgspec.json")]


def _encode_without(
    missing: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, *, validate: bool
) -> Callable[[Any], bytes]:
    for name in missing:
        monkeypatch.setitem(sys.modules, name, None)
    serializer: JsonSerializer[Any] = JsonSerializer("http://localhost", validate=validate, schema_id=1)
    return serializer._make(Schema("{}", "JSON"), {}).encode(b"")


@pytest.mark.parametrize("validate", [True, False])
@pytest.mark.parametrize("missing", ENCODERS, ids=["orjson", "msgspec", "json"])
def test_each_encoder_writes_the_same(
    missing: tuple[str, ...], validate: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Objects of subclasses, keys that are no texts, times, large numbers: whatever is installed."""
    encode = _encode_without(missing, monkeypatch, validate=validate)
    for data, wanted in EVERYWHERE:
        made = json.loads(encode(data))
        assert made == wanted
        assert repr(made) == repr(wanted)


@pytest.mark.parametrize("missing", ENCODERS, ids=["orjson", "msgspec", "json"])
def test_numbers_as_keys(missing: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    """Their texts are those of the standard library."""
    encode = _encode_without(missing, monkeypatch, validate=False)
    assert json.loads(encode({1e22: 1, math.nan: 2, math.inf: 3})) == {"1e+22": 1, "NaN": 2, "Infinity": 3}


@pytest.mark.parametrize("missing", ENCODERS, ids=["orjson", "msgspec", "json"])
def test_a_zone_with_seconds(missing: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    """Amsterdam had one until 1937. orjson rounds it in a mapping of plain objects, and the others write it as it is."""
    encode = _encode_without(missing, monkeypatch, validate=False)
    made = json.loads(encode({"at": _at(minutes=19, seconds=32)}))
    assert made["at"] == "2026-01-02T00:00:00" + ("+00:19:32" if missing else "+00:20")


@pytest.mark.parametrize("validate", [True, False])
@pytest.mark.parametrize("missing", ENCODERS, ids=["orjson", "msgspec", "json"])
def test_each_encoder_refuses_the_same(
    missing: tuple[str, ...], validate: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the same error, which has no value in it."""
    encode = _encode_without(missing, monkeypatch, validate=validate)
    for data, kind, text in NOWHERE:
        with pytest.raises(kind, match=text) as caught:
            encode(data)
        assert not any("secret" in each for each in texts_of(caught.value))


def test_the_written_mapping_is_the_one_that_fits() -> None:
    """A mapping or list with methods of its own is looked at as it is written."""
    schema = {"properties": {"a": {"properties": {"b": {"type": "integer"}}}}}
    serializer: JsonSerializer[Any] = JsonSerializer("http://localhost", schema, schema_id=1)
    encode = serializer._make(Schema(json.dumps(schema), "JSON"), {}).encode(b"")
    assert encode({"a": OrderedDict(b=1)}) == b'{"a":{"b":1}}'
    with pytest.raises(ValueError, match="at /a/b"):
        encode({"a": Masked(b=1)})


@pytest.mark.parametrize("missing", [("orjson",), ("orjson", "msgspec", "msgspec.json")])
def test_plain_mappings_are_not_copied(missing: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    """Without orjson too: msgspec or the standard library get the mapping itself, and others in plain form."""
    for name in missing:
        monkeypatch.setitem(sys.modules, name, None)
    seen: list[Any] = []

    def dumps(*arguments: Any) -> str:
        seen.append(arguments[-1])
        return ""

    monkeypatch.setattr(msgspec.json, "encode", dumps)
    # A method of the encoder.
    monkeypatch.setattr(json.JSONEncoder, "encode", dumps)
    serializer: JsonSerializer[Any] = JsonSerializer("http://localhost", validate=False, schema_id=1)
    encode = serializer._make(Schema("{}", "JSON"), {}).encode(b"")
    plain = {"id": 1, "lines": [{"sku": "a", "n": 1.5, "of": None, "is": True}], "at": (1, "")}
    encode(plain)
    assert seen.pop() is plain
    for each in (Point(1), decimal.Decimal("1.5"), Level.HIGH, AT, KEY):
        encode({"lines": [each]})
        (made,) = seen.pop()["lines"]
        assert type(made) in (str, int, dict)


def test_an_object_with_itself_in_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is refused."""
    for name in ("orjson", "msgspec", "msgspec.json"):
        monkeypatch.setitem(sys.modules, name, None)
    serializer: JsonSerializer[Any] = JsonSerializer("http://localhost", validate=False, schema_id=1)
    encode = serializer._make(Schema("{}", "JSON"), {}).encode(b"")
    endless: dict[str, Any] = {}
    endless["lines"] = [endless, endless]
    with pytest.raises(RecursionError):
        encode(endless)


class Level(enum.IntEnum):
    """A number with a name."""

    HIGH = 3


class Point(NamedTuple):
    """A tuple with names, which is an object in JSON."""

    x: int


async def test_decimals_of_a_mapping(embedded: EmbeddedRegistry) -> None:
    """They are strings, as those of other objects; the validator looks at them as numbers."""
    text = {"properties": {"d": {"type": "string"}}, "required": ["d"]}
    async with Registry(embedded.url) as registry:
        serializer: JsonSerializer[Any] = JsonSerializer(registry, text)
        for more in ({}, {"s": {1}}):
            made = await written(serializer, {"d": decimal.Decimal("1.5"), **more})
            assert json.loads(made[5:])["d"] == "1.5"
        with pytest.raises(ValueError, match="at /: /required"):
            await written(serializer, {})


async def test_an_iterator_for_a_function_of_the_program(embedded: EmbeddedRegistry) -> None:
    """It reads it, once."""
    async with Registry(embedded.url) as registry:
        read = partial(json.dumps, default=list)
        serializer: JsonSerializer[Any] = JsonSerializer(registry, ORDER, dumps=read)
        made = await written(serializer, {"id": 1, "lines": iter("ab")})
        assert json.loads(made[5:]) == {"id": 1, "lines": ["a", "b"]}


def _encode_by(dumps: Any, schema: Any, *, validate: bool, **options: Any) -> Callable[[Any], bytes]:
    serializer: JsonSerializer[Any] = JsonSerializer(
        "http://localhost", schema, schema_id=1, validate=validate, dumps=dumps, **options
    )
    return serializer._make(Schema(json.dumps(schema), "JSON"), {}).encode(b"")


@pytest.mark.parametrize("validate", [True, False])
def test_the_form_of_a_function_of_the_program(validate: bool) -> None:
    """Its result is written, with and without a check, whatever the validator knows of the class of an object."""
    moment = datetime.datetime(2026, 1, 2)  # noqa: DTZ001  # the function has a zone for it
    utc = partial(orjson.dumps, option=orjson.OPT_NAIVE_UTC | orjson.OPT_UTC_Z)
    encode = _encode_by(utc, {"properties": {"t": {"type": "string"}}}, validate=validate)
    assert encode({"t": moment}) == b'{"t":"2026-01-02T00:00:00Z"}'
    seconds = partial(json.dumps, default=lambda at: at.timestamp())
    encode = _encode_by(seconds, {"properties": {"t": {"type": "number"}}}, validate=validate)
    assert json.loads(encode({"t": moment.replace(tzinfo=datetime.UTC)})) == {"t": 1767312000.0}
    renamed = _encode_by(lambda data: json.dumps({"b": data["a"]}), {"required": ["b"]}, validate=validate)
    assert json.loads(renamed({"a": 1})) == {"b": 1}
    given = _encode_by(json.dumps, {}, validate=validate, to_dict=lambda each: [each])
    assert given(1) == b"[1]"


@dataclasses.dataclass
class Payment:
    """An object with a card."""

    card: Any


@dataclasses.dataclass
class Pages:
    """An object with fields that is an iterator as well."""

    number: int = 1

    def __iter__(self) -> Iterator[int]:
        return self

    def __next__(self) -> int:
        raise StopIteration


CARD = Payment("4111")
TOPS: list[tuple[Callable[[], Any], Any]] = [
    (lambda: {"a": CARD}, {"a": "shown"}),
    (lambda: OrderedDict(a=CARD), {"a": "shown"}),
    (lambda: defaultdict(list, a=CARD), {"a": "shown"}),
    (lambda: MappingProxyType({"a": CARD}), {"a": "shown"}),
    (lambda: Masked(a=CARD), {"a": "***"}),
    (lambda: [CARD], ["shown"]),
    (lambda: Doubled([CARD]), ["shown", "shown"]),
    (lambda: (CARD,), ["shown"]),
    (lambda: {CARD.card}, ["4111"]),
    (lambda: deque([CARD]), ["shown"]),
    (lambda: iter([CARD]), ["shown"]),
    (lambda: Point(1), {"x": 1}),
    (lambda: CARD, {"card": "4111"}),
    (Pages, {"number": 1}),
]


SHOWN: list[Any] = [
    partial(json.dumps, default=lambda _: "shown"),
    partial(orjson.dumps, default=lambda _: "shown", option=orjson.OPT_PASSTHROUGH_DATACLASS),
]


@pytest.mark.parametrize("validate", [True, False])
@pytest.mark.parametrize("dumps", SHOWN, ids=["json", "orjson"])
def test_what_a_function_of_the_program_gets(dumps: Any, validate: bool) -> None:
    """The items of any mapping or list as they are: its form of an object is not passed by."""
    encode = _encode_by(dumps, {}, validate=validate)
    for top, wanted in TOPS:
        assert json.loads(encode(top())) == wanted


# The standard library reads them out of bytes, and the readers of other languages do not.
OTHER_ENCODINGS = ("utf-8-sig", "utf-16", "utf-16-le", "utf-32", "utf-32-be")


@pytest.mark.parametrize("missing", [(), ("msgspec", "msgspec.json"), ("msgspec", "msgspec.json", "orjson")])
def test_reading_what_a_function_of_the_program_has_made(
    missing: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The verdict is that of the standard library, whatever reads it."""
    for name in missing:
        monkeypatch.setitem(sys.modules, name, None)
    draft = "http://json-schema.org/draft-04/schema#"
    integer = _encode_by(_same, {"$schema": draft, "type": "integer"}, validate=True)
    # Readers that round to 64 bits would make a number with a point of it.
    for made in (b"7", "7", b"9223372036854775808", b"18446744073709551616", b"-9223372036854775809"):
        assert integer(made) == (made if isinstance(made, bytes) else made.encode())
    assert integer(bytearray(b"7")) == integer(memoryview(b"7")) == b"7"
    for made in (b"7.5", b"1e400", b'"7"', b"NaN"):
        with pytest.raises(ValueError, match="at /: /type"):
            integer(made)
    last = _encode_by(_same, {"properties": {"a": {"type": "integer"}}}, validate=True)
    assert last(b'{"a":"b","a":1}') == b'{"a":"b","a":1}'
    with pytest.raises(ValueError, match="at /a"):
        last(b'{"a":1,"a":"b"}')
    anything = _encode_by(_same, {"maxLength": 9}, validate=True)
    for made, words in (
        (b'{"a":NaN}', "dumps has made NaN, which is no JSON"),
        (b'["secret",-Infinity]', "dumps has made -Infinity, which is no JSON"),
        (b'"secret\\ud800"', "cannot be checked: .* a lone surrogate"),
        (b"9" * 5000, "cannot be checked: too many levels or digits"),
        (b"[" * 200_000 + b"]" * 200_000, "cannot be checked: too many levels"),
        (b'["secret\n"]', "dumps has made no JSON"),
        (b'["secret\xff"]', "dumps has made no JSON in UTF-8"),
        *(('["secret"]'.encode(each), "dumps has made no JSON in UTF-8") for each in OTHER_ENCODINGS),
    ):
        with pytest.raises(ValueError, match=words) as caught:
            anything(made)
        assert not any("secret" in each for each in texts_of(caught.value))


def _same(data: Any) -> Any:
    return data


def test_notes_of_a_function_of_the_program() -> None:
    """Those of the standard library of Python 3.14 have keys; its own ones are kept."""

    def dumps(_: Any) -> bytes:
        error = TypeError("no form")
        error.add_note("when serializing dict item 'secret'")
        error.add_note("see the manual")
        raise error

    with pytest.raises(TypeError, match="no form") as caught:
        _encode_by(dumps, {}, validate=True)({})
    assert caught.value.__notes__ == ["see the manual"]


@pytest.mark.parametrize("validate", [True, False])
@pytest.mark.parametrize("kind", [TypeError, ValueError, KeyError])
def test_the_error_of_a_function_of_the_program(kind: type[Exception], validate: bool) -> None:
    """It is raised as it is, and the function is called once: what it keeps back is not written in another form."""
    raised = kind("of its own")
    calls = []

    def shown(each: Any) -> Any:
        calls.append(each)
        raise raised

    encode = _encode_by(
        partial(json.dumps, default=shown), {"properties": {"p": {"type": "object"}}}, validate=validate
    )
    with pytest.raises(kind) as caught:
        encode({"p": Point.__new__, "x": 1})
    assert caught.value is raised
    assert len(calls) == 1


@pytest.mark.parametrize(
    ("dumps", "words"),
    [
        (lambda data: f"{{secret {data}", "dumps has made no JSON"),
        (lambda data: b"\xffsecret", "dumps has made no JSON"),
        (lambda data: '"secret\ud800"', "a text with a lone surrogate has no bytes"),
    ],
)
def test_what_is_no_json_of_a_function_of_the_program(dumps: Any, words: str) -> None:
    """The error shows nothing of it."""
    encode = _encode_by(dumps, {}, validate=words.startswith("dumps"))
    with pytest.raises(ValueError, match=words) as caught:
        encode({})
    assert not any("secret" in each for each in texts_of(caught.value))


async def test_decimals_by_a_function_of_the_program(embedded: EmbeddedRegistry) -> None:
    """It writes them as texts or as numbers: its result fits the schema."""
    texts: list[Any] = [msgspec.json.encode, partial(json.dumps, default=str)]
    numbers = partial(json.dumps, default=float)
    async with Registry(embedded.url) as registry:
        for dumps in (*texts, numbers):
            serializer: JsonSerializer[Any] = JsonSerializer(
                registry, {"properties": {"d": {"type": "number"}}}, dumps=dumps
            )
            if dumps is numbers:
                made = await written(serializer, {"d": decimal.Decimal("1.5")})
                assert json.loads(made[5:]) == {"d": 1.5}
                continue
            with pytest.raises(ValueError, match="at /d: /properties/d/type"):
                await written(serializer, {"d": decimal.Decimal("1.5")})


def test_a_missing_validator_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """With its extra; without `validate` it is not needed."""
    monkeypatch.setitem(sys.modules, "jsonschema_rs", None)
    with pytest.raises(ModuleNotFoundError, match=r"aioproducer\[jsonschema\]"):
        JsonSerializer("http://localhost", ORDER)
    JsonSerializer("http://localhost", ORDER, validate=False)


def test_the_name_of_a_file_is_no_schema() -> None:
    """The advice is to read the file."""
    with pytest.raises(ConfigurationError, match="not the name of its file"):
        JsonSerializer("http://localhost", "schemas/order.json")
    with pytest.raises(ConfigurationError, match="read_text"):
        JsonSerializer("http://localhost", Path("schemas/order.json"))  # type: ignore[arg-type]

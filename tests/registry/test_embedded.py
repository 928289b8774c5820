"""The embedded registry: its faults, its rules of compatibility, its fixture."""

from __future__ import annotations

import asyncio
import json
import math
from typing import Any

import pytest

from aioproducer.registry import IncompatibleSchemaError, Registry, RegistryError, Schema
from aioproducer.testing import EmbeddedRegistry

ORDER = Schema('{"type":"string"}')


async def test_faults_end_after_their_number(embedded: EmbeddedRegistry) -> None:
    """A status, a cut and a delay, each for some requests; the client tries again."""
    failed = embedded.faults.add(status=503, times=2)
    cut = embedded.faults.add(cut=True, times=1)
    async with Registry(embedded.url) as registry:
        assert (await registry.register("s", ORDER)).id == 1
        assert (failed.hits, cut.hits) == (2, 1)
        assert len(embedded.requests) == 4
        with embedded.faults.add(delay=math.inf) as held:
            call = asyncio.create_task(registry.subjects())
            await held.reached()
            assert not call.done()
        assert await call == ["s"]


async def test_a_request_that_is_cut_after_it_was_handled(embedded: EmbeddedRegistry) -> None:
    """It is registered once, and the repetition gets the same id."""
    embedded.faults.add(cut=True, handled=True, times=1, path="/subjects/s")
    async with Registry(embedded.url) as registry:
        made = await registry.register("s", ORDER)
    assert [each["id"] for each in embedded.versions("s")] == [made.id]


async def test_a_fault_with_a_body(embedded: EmbeddedRegistry) -> None:
    """A proxy in between answers."""
    embedded.faults.add(status=404, body=b"<html>", path="/subjects/s")
    async with Registry(embedded.url) as registry:
        assert await registry.subjects() == []
        with pytest.raises(RegistryError) as caught:
            await registry.latest("s")
        assert (caught.value.status, caught.value.code) == (404, None)


async def test_it_dies_and_comes_back(embedded: EmbeddedRegistry) -> None:
    """At the same port, with what it knows; a client waits for it."""
    async with Registry(embedded.url) as registry:
        made = await registry.register("s", ORDER)
        await embedded.stop()
        call = asyncio.create_task(registry.latest("s"))
        await asyncio.sleep(0)
        await embedded.start()
        assert (await call).id == made.id


@pytest.mark.parametrize("wrong", [{"delay": -1}, {"delay": math.nan}, {"times": 0}, {"times": 1.5}])
def test_faults_that_cannot_be(wrong: dict[str, Any]) -> None:
    """They are refused."""
    with pytest.raises(ValueError, match=next(iter(wrong))):
        EmbeddedRegistry().faults.add(**wrong)


def test_a_level_that_does_not_exist() -> None:
    """It is refused."""
    level: Any = "FULL"
    with pytest.raises(ValueError, match="NONE, BACKWARD"):
        EmbeddedRegistry(compatibility=level)


def record(*fields: Any, name: str = "R", **more: Any) -> dict[str, Any]:
    """A record with these fields."""
    return {"type": "record", "name": name, "fields": list(fields), **more}


def field(name: str, kind: Any, **more: Any) -> dict[str, Any]:
    """A field."""
    return {"name": name, "type": kind, **more}


def enum(*symbols: str, **more: Any) -> dict[str, Any]:
    """An enumeration."""
    return {"type": "enum", "name": "E", "symbols": list(symbols), **more}


TREE = record(field("next", ["null", "R"]))
READABLE: list[tuple[Any, Any, bool]] = [
    ("int", "long", True),
    ("long", "int", False),
    ("float", "double", True),
    ("string", "bytes", True),
    ("int", "string", False),
    (record(field("a", "int")), record(), True),
    (record(), record(field("a", "int")), False),
    (record(), record(field("a", "int", default=0)), True),
    (record(field("a", "int")), record(field("b", "int", aliases=["a"])), True),
    (record(name="A"), record(name="B"), False),
    (record(name="A"), record(name="B", aliases=["A"]), True),
    (record(name="n.R"), record(name="m.R"), True),
    (enum("a", "b"), enum("a"), False),
    (enum("a", "b"), enum("a", default="a"), True),
    (enum("a"), enum("a", "b"), True),
    ({"type": "fixed", "name": "F", "size": 2}, {"type": "fixed", "name": "F", "size": 3}, False),
    ({"type": "array", "items": "int"}, {"type": "array", "items": "long"}, True),
    ({"type": "map", "values": "long"}, {"type": "map", "values": "int"}, False),
    ("int", ["null", "int"], True),
    (["null", "int"], "int", False),
    (["null", "int"], ["null", "long"], True),
    (TREE, TREE, True),
    (TREE, record(field("next", ["null", "R"]), field("a", "int")), False),
]


@pytest.mark.parametrize(("old", "new", "readable"), READABLE)
async def test_backward_compatibility(old: Any, new: Any, readable: bool, embedded: EmbeddedRegistry) -> None:
    """A new version is accepted when it can read what the latest one has written."""
    embedded.set_compatibility("BACKWARD", "s")
    async with Registry(embedded.url) as registry:
        await registry.register("s", Schema(json.dumps(old)))
        assert await registry.compatible("s", Schema(json.dumps(new))) is readable
        if readable:
            await registry.register("s", Schema(json.dumps(new)))
        else:
            with pytest.raises(IncompatibleSchemaError):
                await registry.register("s", Schema(json.dumps(new)))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "7",
        '"none"',
        '{"type":"record"}',
        '{"type":"record","name":"R","fields":[{"name":"a","type":"B"}]}',
        "[" * 9,
    ],
)
async def test_text_that_is_no_avro(text: str, embedded: EmbeddedRegistry) -> None:
    """It is refused with the code 42201."""
    async with Registry(embedded.url) as registry:
        with pytest.raises(RegistryError) as caught:
            await registry.register("s", Schema(text))
        assert (caught.value.status, caught.value.code) == (422, 42201)


async def test_the_fixture_for_tests_of_users(embedded_registry: EmbeddedRegistry) -> None:
    """A registry that runs in the loop of the test."""
    async with Registry(embedded_registry.url) as registry:
        await registry.register("s", ORDER)
    assert embedded_registry.subjects == ("s",)
    assert repr(embedded_registry) == "<EmbeddedRegistry running, 1 subject(s)>"

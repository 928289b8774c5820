"""The client of a registry: on the embedded one, and on a real one."""

from __future__ import annotations

import asyncio
import json
import urllib.request

import pytest

from aioproducer.registry import (
    IncompatibleSchemaError,
    Reference,
    Registry,
    RegistryError,
    Schema,
    SchemaNotFoundError,
)
from tests.registry.conftest import Place


def record(*fields: str, name: str = "Order") -> Schema:
    """A record of strings; a field that ends with "?" has a default."""
    described = [
        {"name": field.rstrip("?"), "type": "string", **({"default": ""} if field.endswith("?") else {})}
        for field in fields
    ]
    return Schema(json.dumps({"type": "record", "name": name, "fields": described}))


async def set_compatibility(url: str, subject: str, level: str) -> None:
    """Set the level of a subject as an administrator does."""

    def put() -> None:
        request = urllib.request.Request(
            f"{url}/config/{subject}",
            json.dumps({"compatibility": level}).encode(),
            {"Content-Type": "application/vnd.schemaregistry.v1+json"},
            method="PUT",
        )
        with urllib.request.urlopen(request) as answer:
            assert answer.status == 200

    await asyncio.to_thread(put)


async def test_a_schema_is_registered_once(registry: Registry, place: Place) -> None:
    """The same schema has one id, in each subject and at each call; another client gets the same."""
    subject = place.subject("orders-value")
    first = await registry.register(subject, record("a"))
    async with Registry(place.url) as other:
        assert await other.register(subject, record("a")) == first
        found = await other.register(place.subject("elsewhere"), record("a"))
        assert (found.id, found.guid) == (first.id, first.guid)
    assert first.id > 0
    assert (first.guid is not None) is place.has_guids
    assert first.version == (1 if place.has_versions else None)


async def test_a_registered_schema_is_found(registry: Registry, place: Place) -> None:
    """By its text, its version, as the latest, and by its id."""
    subject = place.subject("orders-value")
    made = await registry.register(subject, record("a"))
    async with Registry(place.url) as other:
        found = await other.lookup(subject, record("a"))
        assert (found.id, found.version) == (made.id, 1)
        latest = await other.latest(subject)
        assert (latest.subject, latest.version, latest.id) == (subject, 1, made.id)
        assert latest.schema == record("a")
        assert await other.version(subject, 1) == latest
        assert await other.schema(made.id) == record("a")
        assert latest.schema_id.id == made.id


async def test_what_does_not_exist(registry: Registry, place: Place) -> None:
    """An unknown subject, version, schema and id are a SchemaNotFoundError with the registry's code."""
    subject = place.subject("orders-value")
    await registry.register(subject, record("a"))
    codes = []
    for question in (
        registry.latest(place.subject("none")),
        registry.lookup(place.subject("none"), record("a")),
        registry.version(subject, 7),
        registry.lookup(subject, record("b")),
        registry.schema(999_999),
    ):
        with pytest.raises(SchemaNotFoundError) as caught:
            await question
        assert (caught.value.status, caught.value.retriable) == (404, False)
        codes.append(caught.value.code)
    assert codes == [40401, 40401, 40402, 40403, 40403]


async def test_a_compatible_schema_becomes_the_next_version(registry: Registry, place: Place) -> None:
    """Under BACKWARD, a new field needs a default."""
    subject = place.subject("orders-value")
    await registry.register(subject, record("a"))
    await set_compatibility(place.url, subject, "BACKWARD")
    assert not await registry.compatible(subject, record("a", "b"))
    assert await registry.compatible(subject, record("a", "b?"))
    assert await registry.compatible(subject, record("a", "b?"), 1)
    with pytest.raises(IncompatibleSchemaError) as caught:
        await registry.register(subject, record("a", "b"))
    assert (caught.value.status, caught.value.code, caught.value.retriable) == (409, 409, False)
    second = await registry.register(subject, record("a", "b?"))
    async with Registry(place.url) as other:
        latest = await other.latest(subject)
        assert (latest.version, latest.id) == (2, second.id)


async def test_text_that_is_no_schema(registry: Registry, place: Place) -> None:
    """It is refused for good."""
    with pytest.raises(RegistryError) as caught:
        await registry.register(place.subject("x"), Schema("{nonsense"))
    assert (caught.value.status, caught.value.retriable) == (422, False)


async def test_subjects_with_any_name(registry: Registry, place: Place) -> None:
    """Names are encoded: "/", blanks, "%", "?" and other alphabets."""
    names = [place.subject(name) for name in ("a/b", "c d", "e%2Ff", "g?h#i", "größe", "..")]
    for name in names:
        await registry.register(name, record("a"))
        assert (await registry.latest(name)).subject == name
    assert set(names) <= set(await registry.subjects())


async def test_a_schema_that_refers_to_another(registry: Registry, place: Place) -> None:
    """The registry resolves the reference, and tells it again."""
    address = place.subject("address")
    await registry.register(address, record("street", name="Address"))
    text = '{"type":"record","name":"Person","fields":[{"name":"home","type":"Address"}]}'
    person = Schema(text, references=[Reference("Address", address, 1)])
    made = await registry.register(place.subject("person"), person)
    async with Registry(place.url) as other:
        assert await other.schema(made.id) == person
        assert (await other.latest(place.subject("person"))).schema == person
        with pytest.raises(RegistryError) as caught:
            await other.register(
                place.subject("broken"),
                Schema(text, references=[Reference("Address", place.subject("no"), 1)]),
            )
        assert caught.value.status in (404, 422)


async def test_normalized_schemas_are_the_same(registry: Registry, place: Place) -> None:
    """With `normalize`, the order of the attributes of an Avro schema does not count."""
    subject = place.subject("orders-value")
    made = await registry.register(
        subject, Schema('{"type":"record","name":"R","fields":[]}'), normalize=True
    )
    turned = Schema('{"name":"R","fields":[],"type":"record"}')
    assert (await registry.lookup(subject, turned, normalize=True)).id == made.id
    assert (await registry.register(subject, turned, normalize=True)).id == made.id

"""A schema registry with Confluent's REST API, and serializers of Avro, JSON and Protobuf whose schemas are in it.

    registry = Registry("http://localhost:8081")
    producer = Producer("localhost:9092", value_serializer=AvroSerializer(registry, schema))

It requires the extra `registry`, and each serializer one of its own: `avro`, `jsonschema`, `protobuf`.
See docs/registry.md.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Final

try:
    import httpx2  # noqa: F401  # reported here for all parts
except ModuleNotFoundError as error:
    if error.name != "httpx2":
        raise
    raise ModuleNotFoundError(
        "aioproducer.registry requires the extra registry: pip install 'aioproducer[registry]'",
        name=error.name,
    ) from None

from aioproducer.registry.client import Registry as Registry
from aioproducer.registry.errors import IncompatibleSchemaError as IncompatibleSchemaError
from aioproducer.registry.errors import RegistryError as RegistryError
from aioproducer.registry.errors import SchemaNotFoundError as SchemaNotFoundError
from aioproducer.registry.schemas import Reference as Reference
from aioproducer.registry.schemas import RegisteredSchema as RegisteredSchema
from aioproducer.registry.schemas import Schema as Schema
from aioproducer.registry.schemas import SchemaId as SchemaId

if TYPE_CHECKING:
    from aioproducer.registry.formats.avro import AvroSerializer as AvroSerializer
    from aioproducer.registry.formats.json_schema import JsonSerializer as JsonSerializer
    from aioproducer.registry.formats.protobuf import ProtobufSerializer as ProtobufSerializer

__all__ = [
    "AvroSerializer",
    "IncompatibleSchemaError",
    "JsonSerializer",
    "ProtobufSerializer",
    "Reference",
    "RegisteredSchema",
    "Registry",
    "RegistryError",
    "Schema",
    "SchemaId",
    "SchemaNotFoundError",
]

# Each needs packages of its own.
_SERIALIZERS: Final = {
    "AvroSerializer": "formats.avro",
    "JsonSerializer": "formats.json_schema",
    "ProtobufSerializer": "formats.protobuf",
}


def __getattr__(name: str) -> Any:
    if name not in _SERIALIZERS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_SERIALIZERS[name]}"), name)

"""The schemas of structured rows: the driver asks the registry for them before any task starts, and no task asks it."""

from __future__ import annotations

import base64
import binascii
import ssl
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from aioproducer import ConfigurationError
from aioproducer.config import DirectoryProvider, EnvProvider, FileProvider, UnresolvedError, replaced
from aioproducer.secret import Secret
from aioproducer.spark.formats import Format, PartFormat, RegistryPlace
from aioproducer.spark.options import SinkOptions
from aioproducer.spark.shipping.columns import Layout
from aioproducer.spark.shipping.structured import FoundSchema
from aioproducer.spark.shipping.worker import this_worker

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from aioproducer.registry import Registry, Schema

__all__ = ["layout_of"]

# Files that any other may import.
WELL_KNOWN: Final = ("any", "duration", "empty", "field_mask", "struct", "timestamp", "wrappers")


def layout_of(schema: StructType, options: SinkOptions, *, is_stream: bool) -> Layout:
    """The layout of a DataFrame with this schema; ConfigurationError with all of its faults.

    Streams are planned for every epoch: this process asks the registry once for those with the same options, and their
    schema stays. A batch has the latest one.
    """
    if options.structure is None:
        return Layout.of(schema, options)
    structure = options.structure
    parts = tuple(
        (name, part)
        for name, part in (("value", structure.value), ("key", structure.key))
        if part is not None
    )
    if structure.registry is None:
        return Layout.of(schema, options, {})
    find = _found_once if is_stream else _found
    return Layout.of(schema, options, find(structure.registry, parts, options.topic))


def _found(
    place: RegistryPlace, parts: tuple[tuple[str, PartFormat], ...], topic: str | None
) -> dict[str, FoundSchema]:
    """The schemas of the parts."""
    return this_worker().run(_ask(place, parts, topic))


_found_once: Final = cache(_found)


async def _ask(
    place: RegistryPlace, parts: Iterable[tuple[str, PartFormat]], topic: str | None
) -> dict[str, FoundSchema]:
    from aioproducer.registry import Registry  # noqa: PLC0415  # packages that other formats do without

    async with Registry(place.url, auth=_auth(place), ssl_context=_ssl_context(place)) as registry:
        return {
            name: await _schema(registry, part, part.subject or f"{topic}-{name}") for name, part in parts
        }


async def _schema(registry: Registry, part: PartFormat, subject: str) -> FoundSchema:
    from aioproducer.registry import SchemaNotFoundError  # noqa: PLC0415
    from aioproducer.registry.serializing import referred_texts  # noqa: PLC0415

    try:
        if part.schema_id is None:
            latest = await registry.latest(subject)
            number, schema = latest.id, latest.schema
        else:
            number, schema = part.schema_id, await registry.schema(part.schema_id)
        referred = await referred_texts(registry, schema)
    except SchemaNotFoundError as error:
        named = (
            f"with the id {part.schema_id}"
            if part.schema_id is not None
            else f"under the subject {subject!r}"
        )
        raise ConfigurationError(
            f"the registry has no schema {named}: register it first, or set 'subject' or 'schema.id'",
            cause=error,
        ) from error
    if schema.type != part.format.value.upper():
        raise ConfigurationError(
            f"the schema with the id {number} is {schema.type}, and the format is {part.format.value}"
        )
    prefix = b"\0" + number.to_bytes(4, "big")
    if part.format is Format.PROTOBUF:
        return _of_protobuf(part, schema, referred, prefix)
    return FoundSchema(prefix, schema.text, tuple(referred.items()))


def _of_protobuf(part: PartFormat, schema: Schema, referred: dict[str, str], prefix: bytes) -> FoundSchema:
    from aioproducer.registry.formats.protobuf_paths import path_in  # noqa: PLC0415
    from aioproducer.registry.framings import path_bytes  # noqa: PLC0415

    files = _files(part.descriptors) if part.descriptors is not None else _decoded(schema, referred)
    descriptor = _message(files, part.message)
    # The file of the descriptors may have its messages in another order.
    path = path_in(schema.text, descriptor.full_name)
    if path is None:
        raise ConfigurationError(
            f"protobuf.message: the schema of the registry has no message {descriptor.full_name}"
        )
    return FoundSchema(prefix + path_bytes(path), descriptor=descriptor)


def _files(path: str) -> list[Any]:
    from google.protobuf.descriptor_pb2 import FileDescriptorSet  # noqa: PLC0415
    from google.protobuf.message import DecodeError  # noqa: PLC0415

    try:
        return list(FileDescriptorSet.FromString(Path(path).read_bytes()).file)
    except (OSError, DecodeError) as error:
        raise ConfigurationError(
            f"protobuf.descriptors: the file cannot be read ({type(error).__name__}); make it by "
            "protoc --include_imports --descriptor_set_out"
        ) from None


def _decoded(schema: Schema, referred: dict[str, str]) -> list[Any]:
    """The files of a schema that the registry has as descriptors, as this library registers them."""
    from google.protobuf.descriptor_pb2 import FileDescriptorProto  # noqa: PLC0415
    from google.protobuf.message import DecodeError  # noqa: PLC0415

    try:
        return [
            FileDescriptorProto.FromString(base64.b64decode(text, validate=True))
            for text in (*referred.values(), schema.text)
        ]
    except (binascii.Error, DecodeError, ValueError):
        raise ConfigurationError(
            "the registry has the text of a .proto file: set protobuf.message, and protobuf.descriptors to a file that "
            "protoc --include_imports --descriptor_set_out has made"
        ) from None


def _message(files: list[Any], name: str | None) -> Any:
    """The descriptor of a message: by its full name, or the first of the last file."""
    from google.protobuf.descriptor_pool import DescriptorPool  # noqa: PLC0415

    pool: Any = DescriptorPool()
    known = {file.name for file in files}
    try:
        for file in (*_well_known(known), *files):
            pool.AddSerializedFile(file.SerializeToString())
        if name is not None:
            return pool.FindMessageTypeByName(name)
        return pool.FindFileByName(files[-1].name).message_types_by_name[files[-1].message_type[0].name]
    except (KeyError, IndexError):
        raise ConfigurationError(f"protobuf.message: there is no message {name or 'in the file'}") from None
    except TypeError as error:
        raise ConfigurationError(f"the descriptors of Protobuf are not complete: {error}") from None


def _well_known(besides: set[str]) -> list[Any]:
    from importlib import import_module  # noqa: PLC0415

    from google.protobuf.descriptor_pb2 import FileDescriptorProto  # noqa: PLC0415

    modules: list[Any] = [import_module(f"google.protobuf.{name}_pb2") for name in WELL_KNOWN]
    return [
        FileDescriptorProto.FromString(each.DESCRIPTOR.serialized_pb)
        for each in modules
        if each.DESCRIPTOR.name not in besides
    ]


def _auth(place: RegistryPlace) -> Any:
    """The credentials that the references stand for, read on the driver only."""
    if place.token is None and place.password is None:
        return None
    providers: dict[str, Any] = {}
    if place.folders:
        providers |= {"file": FileProvider(place.folders), "dir": DirectoryProvider(place.folders)}
    if place.variables is not None:
        providers["env"] = EnvProvider(place.variables)
    try:
        if place.token is not None:
            return Secret(replaced(place.token, providers))
        return replaced(place.username or "", providers), Secret(replaced(place.password or "", providers))
    except UnresolvedError as error:
        problem = f"registry.username, registry.password and registry.token: {error}"
    raise ConfigurationError(f"{problem}; set secrets.folders or secrets.env")


def _ssl_context(place: RegistryPlace) -> ssl.SSLContext | None:
    if place.ca_location is None:
        return None
    try:
        return ssl.create_default_context(cafile=place.ca_location)
    except OSError as error:
        raise ConfigurationError(f"registry.ca.location: {error.strerror or 'no certificates'}") from None

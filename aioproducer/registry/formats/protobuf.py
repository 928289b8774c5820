"""Protobuf messages, whose schemas are the descriptors of their files."""

from __future__ import annotations

import base64
import numbers
from collections.abc import Callable, Iterable
from functools import partial
from operator import attrgetter
from typing import Any, Final

import attrs

from aioproducer.errors import ConfigurationError
from aioproducer.registry.client import Registry
from aioproducer.registry.formats.floats import is_rounded_to_infinity, is_text
from aioproducer.registry.formats.to_dict import Plain, is_read_once
from aioproducer.registry.framings import GivenFraming
from aioproducer.registry.schemas import Reference, Schema
from aioproducer.registry.serializing import Encoder, Place, RegistrySerializer, T_contra
from aioproducer.registry.subjects import GivenSubject

try:
    from google.protobuf.descriptor_pb2 import FileDescriptorProto
    from google.protobuf.message import Message
    from google.protobuf.message_factory import GetMessageClass

    from aioproducer.registry.formats.protobuf_failures import STRUCT, made_of
    from aioproducer.registry.formats.protobuf_paths import path_in
except ModuleNotFoundError as error:
    if not (error.name or "").startswith("google"):
        raise
    raise ModuleNotFoundError(
        "ProtobufSerializer requires the extra protobuf: pip install 'aioproducer[protobuf]'", name=error.name
    ) from None

__all__ = ["ProtobufSerializer", "message_path"]

# Every registry and every client has these.
_WELL_KNOWN: Final = "google/protobuf/"
_LIST: Final = "google.protobuf.ListValue"
_NO_LIST: Final = (str, bytes, bytearray, memoryview)


class ProtobufSerializer(RegistrySerializer[T_contra]):
    """Messages of Protobuf, with the id of their schema and their place in it before them.

    `message_type` is the generated class. Messages of it are encoded as they are; other objects, as those of an
    `AvroSerializer`, become the fields of a new message. The files that its file imports are registered first, each under
    its name as the subject. The other options are described in docs/registry.md.
    """

    _type = "PROTOBUF"

    def __init__(
        self,
        registry: Registry | str,
        message_type: type[T_contra],
        *,
        subject: GivenSubject = "topic",
        auto_register: bool | None = None,
        use_latest: bool = False,
        schema_id: int | None = None,
        normalize: bool = False,
        framing: GivenFraming = "prefix",
        to_dict: Callable[[T_contra], Any] | None = None,
    ) -> None:
        place = Place(registry)
        # No frame of a traceback keeps the password of a URL.
        del registry
        kind: Any = message_type
        if not _is_message_class(kind):
            raise ConfigurationError("message_type: must be the generated class of a Protobuf message")
        descriptor: Any = kind.DESCRIPTOR
        self._file = descriptor.file
        self._encoder_of_type = Encoder(
            partial(_encode_of, kind, to_dict), descriptor.full_name, message_path(descriptor)
        )
        schema = _schema_of(self._file, ())
        self._text = schema.text
        super().__init__(
            place,
            schema,
            subject=subject,
            auto_register=auto_register,
            use_latest=use_latest,
            schema_id=schema_id,
            normalize=normalize,
            framing=framing,
        )

    async def _encoder(self, registry: Registry, schema: Schema) -> Encoder:
        # The message knows its own encoding, but not its place in a schema of the registry.
        if schema.text == self._text:
            return self._encoder_of_type
        name = self._encoder_of_type.name
        path = path_in(schema.text, str(name))
        if path is None:
            raise ConfigurationError(f"the schema of the registry has no message {name}")
        return attrs.evolve(self._encoder_of_type, indexes=path)

    async def _complete(self, registry: Registry, schema: Schema) -> Schema:
        return _schema_of(self._file, await self._references(registry, self._file))

    async def _references(self, registry: Registry, file: Any) -> tuple[Reference, ...]:
        """The imports of a file, registered with their own imports before them."""
        return tuple(
            [
                await self._reference(registry, imported)
                for imported in file.dependencies
                if not imported.name.startswith(_WELL_KNOWN)
            ]
        )

    async def _reference(self, registry: Registry, file: Any) -> Reference:
        schema = _schema_of(file, await self._references(registry, file))
        options = self._options
        ask = registry.register if options.auto_register else registry.lookup
        found = await ask(file.name, schema, normalize=options.normalize)
        if found.version is None:
            # A registry that tells the version of what it finds only.
            found = await registry.find(file.name, schema, normalize=options.normalize)
        if found.version is None:
            raise ConfigurationError(f"the registry does not tell the version of {file.name}")
        return Reference(file.name, file.name, found.version)


def _is_message_class(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, Message)


def _schema_of(file: Any, references: tuple[Reference, ...]) -> Schema:
    return Schema(base64.b64encode(file.serialized_pb).decode(), "PROTOBUF", references)


def _encode_of(
    message_type: type[Any], to_dict: Callable[[Any], Any] | None, prefix: bytes
) -> Callable[[Any], bytes]:
    plain = Plain(json=False)
    serialize = message_type.SerializeToString

    def encode(data: Any) -> bytes:
        if to_dict is not None:
            data = to_dict(data)
        if type(data) is not message_type:
            if isinstance(data, Message):
                raise TypeError(f"the serializer takes {message_type.__name__}, not {type(data).__name__}")
            fields = plain(data)
            if not isinstance(fields, dict):
                raise TypeError(f"the serializer takes {message_type.__name__}, not {type(data).__name__}")
            _check(message_type.DESCRIPTOR, fields)
            data = made_of(message_type, fields)
        return prefix + serialize(data)  # type: ignore[no-any-return]  # of the generated class

    return encode


def _check(descriptor: Any, fields: dict[Any, Any]) -> None:
    """Refuse fields of which the message would have others: two of one oneof, text as a list, 1e39 as infinity.

    Mappings in the map of a message become messages.
    """
    for group in descriptor.oneofs:
        given = [each.name for each in group.fields if fields.get(each.name) is not None]
        if len(given) > 1:
            raise ValueError(
                f"{' and '.join(given)} are in one oneof, {group.full_name}: one of them is given, and None for others"
            )
    for name, value in fields.items():
        field = descriptor.fields_by_name.get(name)
        # The message refuses a field that it does not have.
        if field is None or value is None:
            continue
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            _check_entries(field, value)
        elif not _is_repeated(field):
            _check_one(field, value, name)
        elif isinstance(value, (*_NO_LIST, dict)) or is_read_once(value):
            raise TypeError(f"a list is required for the field {name}, not {type(value).__name__}")
        elif isinstance(value, Iterable):
            for each in value:
                _check_one(field, each, name)


def _is_repeated_by_label(field: Any) -> bool:
    return bool(field.label == field.LABEL_REPEATED)


# Protobuf has this since 6.31, and warns about the label later.
_is_repeated: Callable[[Any], bool] = (
    attrgetter("is_repeated")
    if hasattr(FileDescriptorProto.DESCRIPTOR.fields[0], "is_repeated")
    else _is_repeated_by_label
)


def _check_entries(field: Any, entries: Any) -> None:
    if not isinstance(entries, dict):
        raise TypeError(f"a mapping is required on field {field.name}, not {type(entries).__name__}")
    parts = field.message_type.fields_by_name
    kind = parts["value"].message_type
    for key, value in entries.items():
        _check_one(parts["key"], key, field.name)
        _check_one(parts["value"], value, field.name)
        if isinstance(value, dict) and kind is not None and kind.full_name != STRUCT:
            # Before 6.30, Protobuf makes no messages of the values of a map.
            entries[key] = made_of(GetMessageClass(kind), value)


def _check_one(field: Any, value: Any, name: str) -> None:
    """Check one value of a field. A message in it has kept what it was given. `name` is that of the map of an entry."""
    if field.type == field.TYPE_FLOAT:
        _check_number(name, value, 32)
    elif field.type == field.TYPE_DOUBLE:
        if not isinstance(value, float):
            _check_number(name, value, 64)
    elif field.type == field.TYPE_BOOL:
        is_number = isinstance(value, numbers.Number)
        if is_number and value not in (0, 1):
            raise TypeError(f"a bool is required for the field {name}, not {type(value).__name__}")
    elif field.message_type is not None:
        kind = field.message_type
        if kind.full_name == _LIST and isinstance(value, _NO_LIST):
            raise TypeError(f"a list is required for the field {name}, not {type(value).__name__}")
        if isinstance(value, dict) and kind.full_name != STRUCT:
            _check(kind, value)


def _check_number(name: str, value: Any, bits: int) -> None:
    if is_text(value):
        # Protobuf reads numbers out of some.
        raise TypeError(f"a number is required on field {name}, not {type(value).__name__}")
    if is_rounded_to_infinity(value, bits):
        raise ValueError(f"the field {name} has {bits} bits, and this number is too large for them")


def message_path(descriptor: Any) -> tuple[int, ...]:
    """The indexes that lead from the file to the message."""
    path: list[int] = []
    while descriptor.containing_type is not None:
        outer = descriptor.containing_type
        path.append([each.full_name for each in outer.nested_types].index(descriptor.full_name))
        descriptor = outer
    path.append(list(descriptor.file.message_types_by_name).index(descriptor.name))
    return tuple(reversed(path))

"""Avro, encoded by fastavro."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import partial
from io import BytesIO
from typing import Any

from aioproducer.registry.client import Registry
from aioproducer.registry.formats.to_dict import Convert, Plain, conversion
from aioproducer.registry.framings import GivenFraming
from aioproducer.registry.schemas import Schema, given_schema
from aioproducer.registry.serializing import Encoder, Place, RegistrySerializer, T_contra
from aioproducer.registry.subjects import GivenSubject
from aioproducer.serializers import is_outside

try:
    from fastavro import schemaless_writer

    from aioproducer.registry.formats.avro_checks import check_of
    from aioproducer.registry.formats.avro_failures import reason_of
    from aioproducer.registry.formats.avro_rules import PRIMITIVES, Check
    from aioproducer.registry.formats.avro_schemas import AvroSchema, parsed
except ModuleNotFoundError as error:
    if (error.name or "").partition(".")[0] != "fastavro":
        raise
    raise ModuleNotFoundError(
        "AvroSerializer requires the extra avro: pip install 'aioproducer[avro]'", name=error.name
    ) from None

__all__ = ["AvroSerializer"]


class AvroSerializer(RegistrySerializer[T_contra]):
    """Objects in Avro, with the id of their schema before them.

    `schema` is its text, its JSON as a mapping or list, or a `Schema`, which may refer to others. Objects are mappings,
    dataclasses, of attrs, msgspec or pydantic, have `asdict()`, or are converted by `to_dict`. A tuple of a name and an
    object chooses a branch of a union, as in fastavro. With `strict`, an object must have the fields of the schema and no
    others. The schema "bytes" writes bytes as they are. The other options are described in docs/registry.md.
    """

    _type = "AVRO"

    def __init__(
        self,
        registry: Registry | str,
        schema: str | Mapping[str, Any] | list[Any] | Schema | None = None,
        *,
        subject: GivenSubject = "topic",
        auto_register: bool | None = None,
        use_latest: bool = False,
        schema_id: int | None = None,
        normalize: bool = False,
        framing: GivenFraming = "prefix",
        to_dict: Callable[[T_contra], Any] | None = None,
        strict: bool = False,
    ) -> None:
        place = Place(registry)
        # No frame of a traceback keeps the password of a URL.
        del registry
        self._to_dict = to_dict
        self._strict = strict
        given = given_schema(schema, "AVRO", _text_of)
        if given is not None and not given.references:
            # The names of a reference are known later.
            parsed(given.text)
        super().__init__(
            place,
            given,
            subject=subject,
            auto_register=auto_register,
            use_latest=use_latest,
            schema_id=schema_id,
            normalize=normalize,
            framing=framing,
        )

    def _make(self, schema: Schema, referred: dict[str, str]) -> Encoder:
        found, to_dict = parsed(schema.text, referred.values()), self._to_dict
        if found.is_bytes:
            return Encoder(lambda prefix: _bytes_of(prefix, to_dict), found.name)
        strict = self._strict
        return Encoder(lambda prefix: _encode_of(prefix, found, to_dict, strict=strict), found.name)


def _encode_of(
    prefix: bytes, schema: AvroSchema, to_dict: Convert | None, *, strict: bool
) -> Callable[[Any], bytes]:
    names = schema.records_of_unions()
    plain = Plain(json=False, names=names)
    convert, spared = conversion(to_dict, plain)
    root, check = schema.root, check_of(schema, plain, strict=strict)
    write: Any = partial(schemaless_writer, strict=True) if strict else schemaless_writer
    encode_again = _encode_again_of(schema, write, check, strict=strict)

    def encode(data: Any) -> bytes:
        if type(data) is not spared:
            data = convert(data)
        buffer = BytesIO()
        try:
            if check is not None:
                check(data)
            write(buffer, root, data)
        except Exception as error:  # of fastavro or of a function of the program
            if is_outside(error):
                raise
            # It may have the record in its text: nothing else is raised here, where it would be the context.
        else:
            return prefix + buffer.getvalue()
        return prefix + encode_again(plain(data))

    return encode


def _encode_again_of(
    schema: AvroSchema, write: Any, check: Check | None, *, strict: bool
) -> Callable[[Any], bytes]:
    """Encode a mapping with objects in it."""

    def encode_again(data: Any) -> bytes:
        if check is not None:
            check(data)
        buffer = BytesIO()
        try:
            write(buffer, schema.root, data)
        except Exception as error:  # of fastavro or of a function of the program
            if is_outside(error):
                # The record may fit.
                raise
            kind = TypeError if isinstance(error, TypeError) else ValueError
        else:
            return buffer.getvalue()
        raise kind(reason_of(schema, data, strict=strict))

    return encode_again


def _bytes_of(prefix: bytes, to_dict: Convert | None) -> Callable[[Any], bytes]:
    def encode(data: Any) -> bytes:
        data = data if to_dict is None else to_dict(data)
        if not isinstance(data, bytes | bytearray | memoryview):
            raise TypeError(f'the schema "bytes" takes bytes, not {type(data).__name__}')
        return prefix + data

    return encode


def _text_of(schema: Any) -> str | None:
    if isinstance(schema, str):
        return json.dumps(schema.strip()) if schema.strip() in PRIMITIVES else schema
    if isinstance(schema, Mapping | list):
        return json.dumps(schema if isinstance(schema, list) else dict(schema))
    return None

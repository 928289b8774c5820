"""JSON, validated by a JSON schema."""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from aioproducer.errors import ConfigurationError
from aioproducer.registry.client import Registry
from aioproducer.registry.formats.json_encoders import (
    WITHOUT_FORM,
    Dumps,
    default_dumps,
    default_loads,
    dumps_of_json,
    first_of,
    without_keys,
)
from aioproducer.registry.formats.json_references import References
from aioproducer.registry.formats.to_dict import Convert, Plain, conversion, is_plain
from aioproducer.registry.framings import GivenFraming
from aioproducer.registry.schemas import Schema, advice_about, given_schema
from aioproducer.registry.serializing import Encoder, Place, RegistrySerializer, T_contra
from aioproducer.registry.subjects import GivenSubject

__all__ = ["JsonSerializer", "check_of", "load_validators"]

# What a validator or an encoder raises for an object of a class that it does not know.
_UNKNOWN: Final = (TypeError, ValueError)
# What a function of the program gets as it is.
_AS_GIVEN: Final = (dict, list, tuple)


class JsonSerializer(RegistrySerializer[T_contra]):
    """Objects in JSON, with the id of their JSON schema before them.

    `schema` is its text, its JSON as a mapping, or a `Schema`, which may refer to others by their names. Objects are as
    those of an `AvroSerializer`. With `validate`, which needs the extra `jsonschema`, an object that does not fit is
    refused. `dumps` makes the JSON; by default it is that of orjson, msgspec or the standard library, the first that is
    installed. The other options are described in docs/registry.md.
    """

    _type = "JSON"

    def __init__(
        self,
        registry: Registry | str,
        schema: str | Mapping[str, Any] | Schema | None = None,
        *,
        subject: GivenSubject = "topic",
        auto_register: bool | None = None,
        use_latest: bool = False,
        schema_id: int | None = None,
        normalize: bool = False,
        framing: GivenFraming = "prefix",
        to_dict: Callable[[T_contra], Any] | None = None,
        validate: bool = True,
        dumps: Dumps | None = None,
    ) -> None:
        place = Place(registry)
        # No frame of a traceback keeps the password of a URL.
        del registry
        self._to_dict = to_dict
        self._given = dumps
        self._dumps, self._takes_mappings = default_dumps()
        self._validators = load_validators() if validate else None
        given = given_schema(schema, "JSON", _text_of)
        if given is not None and not given.references:
            self._make(given, {})
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
        content = _content(schema.text)
        name = content.get("title") if isinstance(content, dict) else None
        check = None if self._validators is None else check_of(self._validators, content, referred)
        return Encoder(lambda prefix: self._encode_of(prefix, check), name if isinstance(name, str) else None)

    def _encode_of(self, prefix: bytes, check: Callable[[Any], None] | None) -> Callable[[Any], bytes]:
        if self._given is not None:
            return _encode_by(prefix, self._given, self._to_dict, check)
        dumps, plain = self._dumps, Plain(json=True, refused=WITHOUT_FORM)
        convert, spared = conversion(self._to_dict, plain)
        if not self._takes_mappings:
            convert, spared = _converted_first(self._to_dict, plain), None
        # What orjson refuses of plain objects as well, the others write: numbers of more than 64 bits.
        again = _converted(first_of(dumps, dumps_of_json()), check)

        def encode(data: Any) -> bytes:
            if type(data) is not spared:
                data = convert(data)
            try:
                if check is not None:
                    check(data)
                made = dumps(data)
                return prefix + (made.encode() if isinstance(made, str) else made)
            except _UNKNOWN as error:
                # A decimal in a mapping was looked at as a number.
                if type(error) is DoesNotFitError and is_plain(data):
                    raise
            return prefix + again(plain(data))

        return encode


class DoesNotFitError(ValueError):
    """An object that its schema refuses. The text has none of its values."""


def check_of(validators: Any, content: Any, referred: dict[str, str]) -> Callable[[Any], None]:
    """The check of objects against a schema: it raises a ValueError with the place and the rule."""
    contents = {name: _content(text) for name, text in referred.items()}
    try:
        references = References(contents, content)
        validator = validators.validator_for(references.placed(content), retriever=references.retrieve)
    except (ValueError, RecursionError, validators.ReferencingError) as error:
        raise ConfigurationError(f"schema: is no JSON schema: {error}") from None
    is_valid = validator.is_valid
    named = frozenset(each for part in (content, *contents.values()) for each in _properties(part))

    def check(data: Any) -> None:
        if is_valid(data):
            return
        found = next(validator.iter_errors(data))
        # The names of others may be data of users.
        place = "".join(
            f"/{part if isinstance(part, int) or part in named else '*'}" for part in found.instance_path
        )
        rule = "".join(f"/{part}" for part in found.schema_path)
        raise DoesNotFitError(f"the object does not fit its JSON schema at {place or '/'}: {rule}")

    return check


def _properties(content: Any) -> Iterator[str]:
    """The names of the properties in a schema, at any depth."""
    parts = [content]
    while parts:
        part = parts.pop()
        if isinstance(part, dict):
            properties = part.get("properties")
            yield from properties if isinstance(properties, dict) else ()
            parts.extend(part.values())
        elif isinstance(part, list):
            parts.extend(part)


def load_validators() -> Any:
    """The module that checks; ModuleNotFoundError names its extra."""
    try:
        return importlib.import_module("jsonschema_rs")
    except ModuleNotFoundError as error:
        if error.name != "jsonschema_rs":
            raise
        raise ModuleNotFoundError(
            "JsonSerializer requires the extra jsonschema: pip install 'aioproducer[jsonschema]', or validate=False",
            name=error.name,
        ) from None


def _converted(dumps: Dumps, check: Callable[[Any], None] | None) -> Callable[[Any], bytes]:
    """The encoding of a mapping whose objects were converted."""

    def encode(data: Any) -> bytes:
        try:
            if check is not None:
                check(data)
            made = dumps(data)
            return made.encode() if isinstance(made, str) else made
        except UnicodeError:
            # It has the whole text.
            pass
        raise ValueError("a text with a lone surrogate has no bytes")

    return encode


def _converted_first(to_dict: Convert | None, plain: Plain) -> Convert:
    """The conversion for a function that would write some objects in a form of its own: none of them reaches it."""

    def convert(data: Any) -> Any:
        if to_dict is not None:
            data = to_dict(data)
        return data if is_plain(data) else plain(data)

    return convert


def _encode_by(
    prefix: bytes, dumps: Dumps, to_dict: Convert | None, check: Callable[[Any], None] | None
) -> Callable[[Any], bytes]:
    """The encoding by a function of the program: what it makes is checked and written, and what it raises is raised.

    It may have a form of its own for any object, or keep a part of it back: nothing else is written when it fails.
    """
    convert, spared = (_opened(Plain(json=True)), _AS_GIVEN) if to_dict is None else (to_dict, ())
    verify = None if check is None else _check_of_made(check)

    def encode(data: Any) -> bytes:
        if type(data) not in spared:
            data = convert(data)
        made = without_keys(dumps, data)
        made = _bytes_of(made) if isinstance(made, str) else b"" + made
        if verify is not None:
            verify(made)
        return prefix + made

    return encode


def _opened(plain: Plain) -> Convert:
    """The conversion for a function of the program: it gets what mappings and lists show, as it is."""

    def convert(data: Any) -> Any:
        if isinstance(data, Mapping):
            return dict(data.items())
        return list(data) if plain.is_list(data) else plain(data)

    return convert


def _check_of_made(check: Callable[[Any], None]) -> Callable[[bytes], None]:
    """The check of the JSON that a function of the program has made."""
    loads = default_loads()

    def verify(made: bytes) -> None:
        try:
            check(loads(made))
        except (DoesNotFitError, MemoryError):
            raise
        except Exception:  # noqa: BLE001, S110 - of any reader; it may have the whole text
            pass
        else:
            return
        problem = _problem_of(made, check)
        if problem:
            raise ValueError(problem)

    return verify


def _problem_of(made: bytes, check: Callable[[Any], None]) -> str:
    """The reason for which bytes are no JSON that can be checked. The standard library reads more than others."""
    constants: list[str] = []
    try:
        # Of bytes, it would read UTF-16 and UTF-32 as well, which other readers refuse.
        check(json.loads(made.decode(), parse_constant=constants.append))
    except DoesNotFitError:
        raise
    except (UnicodeDecodeError, json.JSONDecodeError):
        return "dumps has made no JSON in UTF-8"
    except (ValueError, RecursionError):
        return "what dumps has made cannot be checked: too many levels or digits, or a lone surrogate"
    return f"dumps has made {constants[0]}, which is no JSON" if constants else ""


def _bytes_of(made: str) -> bytes:
    try:
        return made.encode()
    except UnicodeError:
        # It has the whole text.
        pass
    raise ValueError("a text with a lone surrogate has no bytes")


def _text_of(schema: Any) -> str | None:
    if isinstance(schema, str):
        return schema
    return json.dumps(dict(schema)) if isinstance(schema, Mapping) else None


def _content(text: str) -> Any:
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ConfigurationError(f"schema: is no JSON: {error}{advice_about(text)}") from None
    if not isinstance(content, dict | bool):
        raise ConfigurationError("schema: a JSON schema is an object or a boolean")
    return content

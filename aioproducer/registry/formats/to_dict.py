"""From objects of the common libraries to mappings: dataclasses, attrs, msgspec Structs, pydantic models, `asdict()`.

No library is imported: each leaves its marks on its classes.
"""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import enum
import json
import sys
import uuid
from collections import deque
from collections.abc import Callable, Collection, Container, Iterable, Mapping
from gc import get_referents
from itertools import chain
from operator import le
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from aioproducer.registry.formats.by_class import ByClass
from aioproducer.registry.formats.pydantic_classes import Classes, Named, Unnamed

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

__all__ = ["EXACT", "WITH_PARTS", "Convert", "Plain", "conversion", "is_plain", "is_read_once"]

Convert: TypeAlias = Callable[[Any], Any]

_ATOMS: Final = (str, bytes, bytearray, memoryview, int, float, bool, type(None))
_TIMES: Final = (datetime.datetime, datetime.date, datetime.time)
# The classes of plain objects, and not their subclasses. Bytes are none: encoders of JSON refuse or convert them.
_OWN_ATOMS: Final = {str, int, float, bool, type(None)}
_OWN: Final = {dict, list, tuple, *_OWN_ATOMS}
_MAPPINGS: Final = {dict}
# From Python 3.13 on, a mapping refers to nothing while it is the `__dict__` of an object.
_ALL_ARE_SEEN: Final = sys.version_info < (3, 13)
# Of an object that has itself in it, there is no end.
_DEPTHS: Final = range(100)
_MOST_PARTS: Final = 1_000_000
EXACT: Final[Mapping[type, Convert]] = MappingProxyType(
    {str: str.__str__, int: int.__int__, float: float.__float__}
)
"""The conversions of objects of subclasses to the object of Python's own class, whatever their own methods make of it."""
WITH_PARTS: Final = (Mapping, list, tuple, set, frozenset, deque)
"""The classes of objects whose parts are converted."""
_NO_NAMES: Final[Mapping[str, str]] = MappingProxyType({})


class Plain:
    """Makes objects plain: mappings, lists and atoms.

    `json`: times, UUIDs and decimals become the strings of JSON, and all others objects of Python's own classes, which each
    encoder writes in one way; so do keys. What can be read once becomes a list. Objects of the classes `refused` are refused. `names` has the names of records that a union of the schema
    has beside others, by the names of the classes whose objects they are for. How the objects of a class are converted is
    found out once.
    """

    def __init__(
        self,
        *,
        json: bool,
        refused: tuple[type, ...] = (),
        names: Mapping[str, str] = _NO_NAMES,
    ) -> None:
        self._json = json
        self._refused = refused
        self._names = names
        self._classes = Classes(names)
        given: dict[type, Convert] = {
            **dict.fromkeys(_ATOMS, _same),
            **dict.fromkeys(refused, _without_form),
            Named: lambda data: Named(self._of_mapping(data), data.name),
            Unnamed: lambda data: Unnamed(self._of_mapping(data)),
        }
        self._by_class = ByClass(given)
        self.whole = ByClass(dict.fromkeys(_OWN_ATOMS, True))
        """The classes of objects that are neither read once nor have parts that may be."""

    def __call__(self, data: Any) -> Any:
        """The object in plain form, with all that it has in it."""
        kind = type(data)
        convert = self._by_class.get(kind)
        if convert is None:
            convert = self._by_class.remember(kind, self._convert_of(kind))
        return convert(data)

    def reads(self, data: Any) -> bool:
        """Whether an object becomes a list of what may be read once: nothing is read of it before."""
        return is_read_once(data) and self.is_list(data)

    def check_readable(self, data: Any) -> None:
        """Refuse what may be read once, and what has it inside: a function of the program may be called more than once."""
        try:
            found = self._reader_in(data)
        except RecursionError:
            # Such an object is not converted either.
            return
        if found is not None:
            raise TypeError(f"a list is required, not {type(found).__name__}")

    def _reader_in(self, data: Any) -> Any:
        """The first part of an object that may be read once; None if there is none."""
        kind, whole = type(data), self.whole
        if kind not in _OWN and not isinstance(data, WITH_PARTS):
            if self.reads(data):
                return data
            whole.remember(kind, True)
            return None
        for each in data.values() if kind is dict or isinstance(data, Mapping) else data:
            if type(each) not in whole:
                found = self._reader_in(each)
                if found is not None:
                    return found
        return None

    def is_list(self, data: Any) -> bool:
        """Whether an object becomes a list of its items: it has no fields, and no form of its own."""
        kind = type(data)
        return (self._by_class.get(kind) or self._convert_of(kind)) in (self._of_list, self._of_tuple)

    def _convert_of(self, kind: type) -> Convert:
        if issubclass(kind, enum.Enum):
            return self._of_enum
        if issubclass(kind, (*_ATOMS, *self._refused)):
            return self._of_subclass(kind)
        if issubclass(kind, Mapping):
            return self._of_mapping
        if issubclass(kind, list | set | frozenset | deque):
            return self._of_list
        if issubclass(kind, tuple) and not hasattr(kind, "_asdict"):
            return self._of_tuple
        return self._of_record(kind) or self._of_other(kind)

    def _of_record(self, kind: type) -> Convert | None:
        """The conversion of an object with fields, and with the name of its record where a union needs it."""
        convert, name = self._of_object(kind), self._names.get(kind.__name__)
        return convert if convert is None or name is None else _named(convert, name)

    def _of_object(self, kind: type) -> Convert | None:
        if hasattr(kind, "__struct_fields__"):
            return self._of_struct(kind)
        if callable(getattr(kind, "model_dump", None)):
            return self._of_model()
        if dataclasses.is_dataclass(kind):
            return self._of_dataclass(kind)
        if hasattr(kind, "__attrs_attrs__"):
            return self._by_fields(tuple((each.name, each.name) for each in kind.__attrs_attrs__))
        for method in ("asdict", "_asdict"):
            if callable(getattr(kind, method, None)):
                return lambda data: self(getattr(data, method)())
        return None

    def _of_model(self) -> Convert:
        """The conversion of a pydantic model, by itself: with its aliases, and without fields that it excludes."""
        mode = "json" if self._json else "python"

        def convert(data: Any) -> Any:
            made = self(data.model_dump(mode=mode, by_alias=True))
            return self._classes.mark(made, data) if self._names else made

        return convert

    def _of_dataclass(self, kind: type[DataclassInstance]) -> Convert:
        serializer, mode = _serializer_of(kind), "json" if self._json else "python"
        if serializer is None:
            return self._by_fields(tuple((each.name, each.name) for each in dataclasses.fields(kind)))

        # One of pydantic is converted by itself, as its models are.
        def convert(data: Any) -> Any:
            made = self(serializer.to_python(data, mode=mode, by_alias=True))
            return self._classes.mark(made, data) if self._names else made

        return convert

    def _of_struct(self, kind: Any) -> Convert:
        """The conversion of a Struct: without fields that are UNSET, and in JSON with its tag, as msgspec encodes it."""
        by_fields = self._by_fields(
            tuple(zip(kind.__struct_fields__, kind.__struct_encode_fields__, strict=True))
        )
        config = kind.__struct_config__
        # The schemas of other formats name their records.
        tag = {config.tag_field: config.tag} if self._json and config.tag is not None else {}

        def convert(data: Any) -> dict[str, Any]:
            return tag | {key: value for key, value in by_fields(data).items() if not _is_unset(value)}

        return convert

    def _by_fields(self, fields: tuple[tuple[str, str], ...]) -> Convert:
        by_class = self._by_class

        def convert(data: Any) -> dict[str, Any]:
            made: dict[str, Any] = {}
            for name, key in fields:
                value = getattr(data, name)
                made[key] = value if by_class.get(type(value)) is _same else self(value)
            return made

        return convert

    def _of_enum(self, data: Any) -> Any:
        return self(data.value)

    def _of_subclass(self, kind: type) -> Convert:
        """The conversion of an object of a subclass to that of Python's own class, in JSON."""
        if issubclass(kind, self._refused):
            return _without_form
        if not self._json:
            return _same
        return next((exact for base, exact in EXACT.items() if issubclass(kind, base)), _same)

    def _of_mapping(self, data: Any) -> dict[Any, Any]:
        if self._json:
            return self._of_json_object(data)
        return {key: self(value) for key, value in data.items()}

    def _of_json_object(self, data: Any) -> dict[str, Any]:
        made: dict[str, Any] = {}
        for key, value in data.items():
            text = key if type(key) is str else self._text_of(key)
            if text in made:
                raise ValueError("two keys of a mapping are one text in JSON")
            made[text] = self(value)
        return made

    def _text_of(self, key: Any) -> str:
        """The text of a key: that of its value in JSON."""
        made = self(key)
        if type(made) is str:
            return made
        if type(made) not in _OWN_ATOMS:
            raise TypeError(f"a key of a JSON object is a text or a number, not {type(key).__name__}")
        return json.dumps(made)

    def _of_list(self, data: Any) -> list[Any]:
        return [self(each) for each in data]

    def _of_tuple(self, data: Any) -> Any:
        made = [self(each) for each in data]
        # fastavro names a branch of a union by a tuple.
        return tuple(made) if len(made) == 2 and isinstance(made[0], str) else made

    def _of_other(self, kind: type) -> Convert:
        # One with members may have no end, such as a network of addresses: it is no list.
        if issubclass(kind, Iterable) and not issubclass(kind, Container):
            return self._of_list
        return self._of_atom(kind) if self._json else _same

    @staticmethod
    def _of_atom(kind: type) -> Convert:
        if issubclass(kind, _TIMES):
            return lambda data: data.isoformat()
        return str if issubclass(kind, uuid.UUID | decimal.Decimal) else _same


def is_plain(data: Any) -> bool:
    """Whether an object has only mappings with texts as keys, lists, tuples and atoms in it, of Python's own classes.

    Each step looks at all objects of one depth, without a loop in Python, which would take twice as long.
    """
    parts: Any = (data,)
    kinds = {type(data)}
    for _ in _DEPTHS:
        below = get_referents(*parts)
        if kinds == _MAPPINGS:
            is_sure = (_ALL_ARE_SEEN or len(parts) == 1) and len(below) == sum(map(len, parts))
            if not (is_sure or _have_texts_as_keys(parts)):
                return False
        elif not kinds <= _OWN or (
            dict in kinds and not _have_texts_as_keys([each for each in parts if type(each) is dict])
        ):
            return False
        kinds = {*map(type, below)}
        if kinds <= _OWN_ATOMS:
            return True
        parts = below
        if len(parts) > _MOST_PARTS:
            return False
    return False


def _have_texts_as_keys(mappings: Any) -> bool:
    """Whether the keys of all mappings are texts: two others may be one text in JSON, and encoders differ.

    A mapping without other keys refers to its values alone, and else to its keys as well.
    """
    sizes, seen = [*map(len, mappings)], [*map(len, map(get_referents, mappings))]
    return sizes == seen or (
        all(map(le, sizes, seen)) and {*map(type, chain.from_iterable(mappings))} <= {str}
    )


def is_read_once(data: Any) -> bool:
    """Whether an object may have no items left when they were read: others are read to be checked, and to be written."""
    return isinstance(data, Iterable) and not isinstance(data, Collection)


def _named(convert: Convert, name: str) -> Convert:
    def named(data: Any) -> Any:
        made = convert(data)
        return Named(made, name) if type(made) is dict else made

    return named


def _serializer_of(kind: Any) -> Any:
    """The serializer of a dataclass of pydantic: of the class that has defined its fields, None for others."""
    owner = next(each for each in kind.__mro__ if "__dataclass_fields__" in vars(each))
    return vars(owner).get("__pydantic_serializer__")


def _same(data: Any) -> Any:
    return data


def _without_form(data: Any) -> Any:
    raise TypeError(f"JSON has no form for {type(data).__name__}")


def _is_unset(value: Any) -> bool:
    kind = type(value)
    return kind.__name__ == "UnsetType" and kind.__module__ == "msgspec"


def conversion(to_dict: Convert | None, plain: Plain) -> tuple[Convert, type | None]:
    """The conversion of objects, and the class whose objects it leaves out; the user's function takes all."""
    return (plain, dict) if to_dict is None else (to_dict, None)

"""The encoders of JSON: orjson, msgspec or the standard library. They write the same values, but for a zone with seconds, and refuse the same objects."""

from __future__ import annotations

import datetime
import enum
import importlib
import json
from collections import OrderedDict
from collections.abc import Callable
from functools import partial
from operator import attrgetter
from typing import Any, Final, TypeAlias

from aioproducer.registry.formats.by_class import ByClass
from aioproducer.registry.formats.to_dict import EXACT, Convert

__all__ = [
    "WITHOUT_FORM",
    "Dumps",
    "default_dumps",
    "default_loads",
    "dumps_of_json",
    "first_of",
    "without_keys",
]

Dumps: TypeAlias = Callable[[Any], bytes | str]

WITHOUT_FORM: Final = (bytes, bytearray, memoryview, datetime.timedelta)
"""Classes whose objects msgspec writes in a form of its own, and the other encoders refuse."""


def default_dumps() -> tuple[Dumps, bool]:
    """The function that makes the JSON, and whether it refuses each object that it would write otherwise than we do."""
    for name, make in (("orjson", _of_orjson), ("msgspec.json", attrgetter("encode"))):
        try:
            module = importlib.import_module(name)
        except ModuleNotFoundError:
            continue
        found: Dumps = make(module)
        return found, name == "orjson"
    return dumps_of_json(), False


def dumps_of_json() -> Dumps:
    """The function of the standard library, with NaN and infinities as null, as the others write them."""
    strict, loose = (
        json.JSONEncoder(ensure_ascii=False, allow_nan=allow_nan, separators=(",", ":")).encode
        for allow_nan in (False, True)
    )

    def dumps(data: Any) -> str:
        try:
            return strict(data)
        except ValueError:
            pass
        # Behind the block: that error has keys of objects in its notes, and would be the context of the next one.
        return strict(json.loads(loose(data), parse_constant=_null))

    return partial(without_keys, dumps)


def without_keys(dumps: Dumps, data: Any) -> bytes | str:
    """The result of a function, whose errors lose the notes of the standard library of Python 3.14: they have keys of objects."""
    try:
        return dumps(data)
    except Exception as error:
        notes = getattr(error, "__notes__", None)
        if isinstance(notes, list):
            notes[:] = [each for each in notes if not str(each).startswith("when serializing ")]
        raise


def default_loads() -> Callable[[bytes], Any]:
    """The fastest function that reads JSON in UTF-8 as `json.loads` does. It may refuse what that takes, and refuses NaN."""
    for name, make in (("msgspec.json", attrgetter("decode")), ("orjson", _reader_of_orjson)):
        try:
            module = importlib.import_module(name)
        except ModuleNotFoundError:
            continue
        found: Callable[[bytes], Any] = make(module)
        return found
    strict = json.JSONDecoder(parse_constant=_no_number).decode
    return lambda made: strict(made.decode())


def first_of(dumps: Dumps, other: Dumps) -> Dumps:
    """The first of two functions that takes an object."""

    def first(data: Any) -> bytes | str:
        try:
            return dumps(data)
        except (TypeError, ValueError):
            pass
        return other(data)

    return first


def _null(_name: str) -> None:
    """The value of NaN."""


def _no_number(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")


def _reader_of_orjson(module: Any) -> Callable[[bytes], Any]:
    # Integers of more than 64 bits would be rounded.
    loads = module.loads

    def read(made: bytes) -> Any:
        if _LONG in made.translate(_DIGITS):
            raise ValueError("a number may have more than 64 bits")
        return loads(made)

    return read


_DIGITS: Final = bytes.maketrans(b"123456789", b"000000000")
_LONG: Final = b"0" * 19


def _of_orjson(module: Any) -> Dumps:
    # It would leave out the fields of a dataclass whose names begin with an underscore, and take no notice of the methods of a
    # subclass of dict or list. It writes times itself, a tenth of a microsecond each in place of one: the seconds that the zone
    # of a time may have before 1972 are rounded.
    option = module.OPT_PASSTHROUGH_DATACLASS | module.OPT_PASSTHROUGH_SUBCLASS
    return partial(module.dumps, default=_others(), option=option)


def _others() -> Convert:
    """The conversion of objects of subclasses that are written as the validator sees them: orjson asks for it.

    Other objects are refused, and converted together with the mapping that they are in.
    """
    by_class: ByClass[Convert] = ByClass({})

    def others(data: Any) -> Any:
        kind = type(data)
        convert = by_class.get(kind)
        if convert is None:
            convert = by_class.remember(kind, _convert_of(kind))
        return convert(data)

    return others


def _convert_of(kind: type) -> Convert:
    if not issubclass(kind, enum.Enum):
        for base, exact in EXACT.items():
            if issubclass(kind, base):
                return exact
        if issubclass(kind, dict) and kind.items in _ITEMS and kind.__iter__ in _ITERATORS:
            return dict
        if issubclass(kind, list) and kind.__iter__ is list.__iter__:
            return list
    return _refused


_ITEMS: Final = (dict.items, OrderedDict.items)
_ITERATORS: Final = (dict.__iter__, OrderedDict.__iter__)


def _refused(data: Any) -> Any:
    raise TypeError(f"objects of {type(data).__name__} are converted with their mapping")

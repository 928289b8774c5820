"""From objects of the common libraries to mappings: dataclasses, attrs, msgspec Structs, pydantic models, `asdict()`.

No library is imported: each leaves its marks on its classes.
"""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import enum
import uuid
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

__all__ = ["Convert", "Plain", "conversion"]

Convert: TypeAlias = Callable[[Any], Any]

_ATOMS: Final = (str, bytes, bytearray, memoryview, int, float, bool, type(None))
_TIMES: Final = (datetime.datetime, datetime.date, datetime.time)


class Plain:
    """Makes objects plain: mappings, lists and atoms. `json`: times, UUIDs and decimals become the strings of JSON.

    How the objects of a class are converted is found out once.
    """

    def __init__(self, *, json: bool) -> None:
        self._json = json
        self._by_class: dict[type, Convert] = dict.fromkeys(_ATOMS, _same)

    def __call__(self, data: Any) -> Any:
        """The object in plain form, with all that it has in it."""
        kind = type(data)
        convert = self._by_class.get(kind)
        if convert is None:
            convert = self._by_class[kind] = self._convert_of(kind)
        return convert(data)

    def _convert_of(self, kind: type) -> Convert:
        if issubclass(kind, enum.Enum):
            return self._of_enum
        if issubclass(kind, _ATOMS):
            return _same
        if issubclass(kind, Mapping):
            return self._of_mapping
        if issubclass(kind, list | set | frozenset):
            return self._of_list
        if issubclass(kind, tuple) and not hasattr(kind, "_asdict"):
            return self._of_tuple
        return self._of_object(kind) or (self._of_atom(kind) if self._json else _same)

    def _of_object(self, kind: type) -> Convert | None:
        """The conversion of an object with fields."""
        if hasattr(kind, "__struct_fields__"):
            fields = zip(kind.__struct_fields__, kind.__struct_encode_fields__, strict=True)  # type: ignore[attr-defined]
            return self._by_fields(tuple(fields))
        if callable(getattr(kind, "model_dump", None)):
            mode = "json" if self._json else "python"
            return lambda data: self(data.model_dump(mode=mode, by_alias=True))
        if dataclasses.is_dataclass(kind):
            return self._by_fields(tuple((each.name, each.name) for each in dataclasses.fields(kind)))
        if hasattr(kind, "__attrs_attrs__"):
            return self._by_fields(tuple((each.name, each.name) for each in kind.__attrs_attrs__))
        for method in ("asdict", "_asdict"):
            if callable(getattr(kind, method, None)):
                return lambda data: self(getattr(data, method)())
        return None

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

    def _of_mapping(self, data: Any) -> dict[Any, Any]:
        return {key: self(value) for key, value in data.items()}

    def _of_list(self, data: Any) -> list[Any]:
        return [self(each) for each in data]

    def _of_tuple(self, data: Any) -> tuple[Any, ...]:
        # fastavro names a branch of a union by a tuple.
        return tuple(self(each) for each in data)

    @staticmethod
    def _of_atom(kind: type) -> Convert:
        if issubclass(kind, _TIMES):
            return lambda data: data.isoformat()
        return str if issubclass(kind, uuid.UUID | decimal.Decimal) else _same


def _same(data: Any) -> Any:
    return data


def conversion(to_dict: Convert | None, plain: Plain) -> tuple[Convert, type | None]:
    """The conversion of objects, and the class whose objects it leaves out; the user's function takes all."""
    return (plain, dict) if to_dict is None else (to_dict, None)

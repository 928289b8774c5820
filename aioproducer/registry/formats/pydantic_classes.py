"""The classes of the objects in what pydantic has made: it makes mappings that do not tell them.

The parts of an object are found by the keys of its fields. The result of a serializer of the program is not: it may sort, leave
out or replace. Then the class is not known.
"""

from __future__ import annotations

import dataclasses
import types
import typing
from collections import deque
from collections.abc import Iterator, Mapping
from typing import Any, Final

import attrs

from aioproducer.registry.formats.by_class import ByClass

__all__ = ["Classes", "Named", "Unnamed"]

# Where fastavro looks for the record of a union that a mapping is for.
_TYPE: Final = "-type"
_ATOMS: Final = (str, int, float, bool)
_SERIALIZERS: Final = ("PlainSerializer", "WrapSerializer")
_LISTS: Final = (list, tuple, deque)


class Named(dict[str, Any]):
    """The fields of a record with its name, where fastavro looks for it. It is no field: `strict` would refuse it."""

    __slots__ = ("name",)

    def __init__(self, fields: Mapping[str, Any], name: str) -> None:
        super().__init__(fields)
        self.name = name

    def __contains__(self, key: object) -> bool:
        return key == _TYPE or super().__contains__(key)

    def __getitem__(self, key: str) -> Any:
        return self.name if key == _TYPE else super().__getitem__(key)


class Unnamed(dict[str, Any]):
    """The fields of an object whose class is not known."""

    __slots__ = ()


@attrs.frozen
class _Fields:
    """The fields of a class of pydantic."""

    attributes: tuple[tuple[str, str], ...]
    """The keys and the attributes of the fields that it converts by itself."""
    computed: tuple[tuple[str, str, Any], ...]
    """The keys, the attributes and the types of the computed ones."""
    by_program: frozenset[str]
    """The keys of fields that a serializer of the program converts."""
    is_by_program: bool
    """Whether one converts the whole object."""


class Classes:
    """Marks what pydantic has made with the classes of the objects. `names` has the records by the names of the classes."""

    def __init__(self, names: Mapping[str, str]) -> None:
        self._names = names
        self._fields: ByClass[_Fields] = ByClass()

    def mark(self, made: Any, data: Any) -> Any:
        """The result of an object, or of a part of it."""
        kind = type(data)
        if getattr(kind, "__pydantic_root_model__", False):
            fields = self._of(kind)
            is_free = fields.is_by_program or "root" in fields.by_program
            return self._named(_unnamed(made) if is_free else self.mark(made, data.root), kind)
        if type(made) is list and isinstance(data, _LISTS):
            if len(made) != len(data):
                return _unnamed(made)
            return [self.mark(each, of) for each, of in zip(made, data, strict=True)]
        if type(made) is not dict:
            return made
        if isinstance(data, Mapping):
            return {key: self.mark(each, data[key]) if key in data else each for key, each in made.items()}
        return self._marked(made, data, self._of(kind))

    def _marked(self, made: dict[str, Any], data: Any, fields: _Fields) -> Any:
        if fields.is_by_program:
            return self._named(_parts_unnamed(made), type(data))
        if not all(_is_of(made.get(key), data, attribute) for key, attribute in fields.attributes):
            return _unnamed(made)
        self._mark_fields(made, data, fields)
        return self._named(made, type(data))

    def _mark_fields(self, made: dict[str, Any], data: Any, fields: _Fields) -> None:
        extra = getattr(data, "__pydantic_extra__", None) or ()
        for key, attribute in (*fields.attributes, *((each, each) for each in extra)):
            part = made.get(key)
            if type(part) is dict or type(part) is list:
                made[key] = self.mark(part, getattr(data, attribute))
        for key in fields.by_program & made.keys():
            made[key] = _unnamed(made[key])
        for key, attribute, kind in fields.computed:
            part = made.get(key)
            if type(part) is dict or type(part) is list:
                # Of a cached property. To compute another one again may take long, or have another result.
                known = vars(data).get(attribute)
                made[key] = self._by_type(part, kind) if known is None else self.mark(part, known)

    def _by_type(self, made: Any, kind: Any) -> Any:
        """The result of an object of an annotated type."""
        given = [each for each in typing.get_args(kind) if each not in (type(None), ...)]
        origin = typing.get_origin(kind)
        if (origin is typing.Union or origin is types.UnionType) and len(given) == 1:
            return self._by_type(made, given[0])
        if type(made) is list and len(given) == 1:
            return [self._by_type(each, given[0]) for each in made]
        if type(made) is not dict:
            return _unnamed(made)
        if isinstance(origin, type) and issubclass(origin, Mapping):
            return {key: self._by_type(each, given[1]) for key, each in made.items()}
        if not isinstance(kind, type) or kind.__name__ not in self._names:
            return _unnamed(made)
        # The classes of its fields may be others than the annotated ones.
        return self._named(_parts_unnamed(made), kind)

    def _named(self, made: Any, kind: type) -> Any:
        name = self._names.get(kind.__name__)
        return Named(made, name) if name is not None and type(made) in (dict, Unnamed) else made

    def _of(self, kind: type) -> _Fields:
        fields = self._fields.get(kind)
        if fields is None:
            fields = self._fields.remember(kind, _fields_of(kind))
        return fields


def _fields_of(kind: Any) -> _Fields:
    described = getattr(kind, "__pydantic_fields__", None) or getattr(kind, "model_fields", None)
    if described is None:
        is_plain = dataclasses.is_dataclass(kind)
        described = dict.fromkeys(each.name for each in dataclasses.fields(kind)) if is_plain else {}
    decorators: Any = getattr(kind, "__pydantic_decorators__", None)
    converted = set() if decorators is None else set(_converted_by(decorators))
    keys = {name: getattr(each, "serialization_alias", None) or name for name, each in described.items()}
    by_program = {
        name
        for name, each in described.items()
        if not converted.isdisjoint((name, "*"))
        or _has_serializer((*getattr(each, "metadata", ()), getattr(each, "annotation", None)))
    }
    computed = {} if decorators is None else decorators.computed_fields
    of_computed = {name: each.info.alias or name for name, each in computed.items()}
    free = {name for name in computed if not converted.isdisjoint((name, "*"))}
    return _Fields(
        tuple((key, name) for name, key in keys.items() if name not in by_program),
        tuple(
            (of_computed[name], name, computed[name].info.return_type)
            for name in computed
            if name not in free
        ),
        frozenset((*(keys[name] for name in by_program), *(of_computed[name] for name in free))),
        decorators is not None and any(map(_is_used, decorators.model_serializers.values())),
    )


def _converted_by(decorators: Any) -> Iterator[str]:
    for each in decorators.field_serializers.values():
        if _is_used(each):
            yield from each.info.fields


def _is_used(decorator: Any) -> bool:
    return not decorator.info.when_used.startswith("json")


def _has_serializer(annotations: tuple[Any, ...]) -> bool:
    """Whether an annotation has a serializer of the program, at any depth."""
    return any(
        (type(each).__name__ in _SERIALIZERS and not each.when_used.startswith("json"))
        or _has_serializer(typing.get_args(each))
        for each in annotations
    )


def _is_of(made: Any, data: Any, attribute: str) -> bool:
    """Whether the result of an attribute may be its value: an atom stays as it is."""
    if type(made) not in _ATOMS:
        return True
    value = getattr(data, attribute, made)
    # A number that is none is not equal to itself.
    return type(value) is not type(made) or bool(value == made or value != value)  # noqa: PLR0124


def _unnamed(made: Any) -> Any:
    if type(made) is list:
        return [_unnamed(each) for each in made]
    return Unnamed(_parts_unnamed(made)) if type(made) is dict else made


def _parts_unnamed(made: dict[str, Any]) -> dict[str, Any]:
    return {key: _unnamed(each) for key, each in made.items()}

"""Unions of several types: which of them fastavro takes for a value, and whether it would write another value with it.

fastavro takes the first type that the value fits, a `double` before a `float`, and of records the one with the most of the
fields. A datetime fits a `date`, an integer a `double`, and some text a `date` as well: they are refused where another type
of the union holds them as they are. Behind a name, fastavro looks at nothing.
"""

from __future__ import annotations

import datetime
import decimal
import numbers
import struct
import uuid
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, Final

import attrs
from fastavro.validation import ValidationError, validate

from aioproducer.registry.formats.avro_losses import ATOMS, Places, may_lose
from aioproducer.registry.formats.avro_rules import Rule, is_custom, made_by_custom
from aioproducer.registry.formats.avro_schemas import AvroSchema
from aioproducer.registry.formats.pydantic_classes import Named, Unnamed
from aioproducer.registry.formats.to_dict import Plain
from aioproducer.serializers import is_outside

__all__ = ["Branch", "rule_of_union"]

_BYTES: Final = (bytes, bytearray)
_MOMENTS: Final = tuple(
    f"long-{zone}timestamp-{unit}" for zone in ("", "local-") for unit in ("millis", "micros")
)
_TIMES: Final = ("int-time-millis", "long-time-micros")
_DECIMALS: Final = ("bytes-decimal", "fixed-decimal")
_FLOATS: Final = ("float", "double")
_RECORDS: Final = ("record", "error")
_OF_MAPPINGS: Final = (*_RECORDS, "map")
_NAMED: Final = (*_RECORDS, "enum", "fixed")

# The types that may take the values of a class; the type "union" may take all.
_TAKEN_BY: Final[dict[type, tuple[str, ...]]] = {
    type(None): ("null",),
    bool: ("boolean",),
    int: ("int", "long", *_FLOATS, "int-date", *_TIMES, *_MOMENTS),
    float: _FLOATS,
    str: ("string", "string-uuid", "enum", "int-date"),
    bytes: ("bytes", "fixed", *_DECIMALS, "array"),
    bytearray: ("bytes", "fixed", *_DECIMALS, "array"),
    datetime.datetime: ("int-date", *_MOMENTS),
    datetime.date: ("int-date",),
    datetime.time: _TIMES,
    decimal.Decimal: _DECIMALS,
    uuid.UUID: ("string-uuid",),
    dict: (*_RECORDS, "map"),
    list: ("array",),
}
# The types without values that fastavro would change in a union: it takes those of the class only, in their range.
_VALIDATED: Final = ("null", "boolean", "int", "long", "bytes", "fixed")
# The types that take all values of a class: fastavro tries no other one behind them.
_TAKES_ALL: Final[dict[type, str]] = {
    type(None): "null",
    bool: "boolean",
    str: "string",
    bytes: "bytes",
    float: "double",
}
# The values that are read as those of another class, by the type.
_CONVERTED_BY: Final[dict[str, tuple[type, ...]]] = {
    "int-date": (str, numbers.Integral, datetime.datetime),
    "string-uuid": (str,),
    **dict.fromkeys((*_TIMES, *_MOMENTS), (numbers.Integral,)),
    **dict.fromkeys(_DECIMALS, _BYTES),
}
# The values that are read as they are.
_HELD_BY: Final[dict[str, tuple[type, ...]]] = {
    "string": (str,),
    "enum": (str,),
    "long-time-micros": (datetime.time,),
    **dict.fromkeys(("int", "long", *_FLOATS), (numbers.Integral,)),
    **dict.fromkeys(("bytes", "fixed"), _BYTES),
    **dict.fromkeys(_MOMENTS, (datetime.datetime,)),
}
_LOGICAL: Final = {*_CONVERTED_BY}
# The mappings of a program have few sets of the fields of a schema.
_MOST_SHAPES: Final = 1_000


@attrs.frozen
class Branch:
    """A type of a union."""

    name: str
    """By which a tuple chooses it."""
    type: str
    """The type, with its logical type if fastavro knows that."""
    schema: Any
    rule: Rule | None
    fields: frozenset[str]
    """The names of the fields of a record."""
    required: frozenset[str]
    """Those without a default that cannot be null."""
    is_deep: bool
    """Whether the values of a mapping may be mappings of which a part is left out."""
    whole: AvroSchema
    is_custom: bool = False
    """Whether a function of the program makes its values, of values of any class."""

    @property
    def reaches_custom(self) -> bool:
        """Whether a function of the program makes its values, or parts of them."""
        return self.is_custom or any(map(_is_custom, self.whole.within(self.schema)))

    @classmethod
    def of(cls, schema: Any, whole: AvroSchema, rule: Rule | None) -> Branch:
        """The type of a union in a whole schema."""
        found = whole.named.get(schema, schema) if isinstance(schema, str) else schema
        if isinstance(found, list):
            return cls("union", "union", whole.alone(found), rule, frozenset(), frozenset(), False, whole)
        kind = found["type"] if isinstance(found, dict) else found
        described = found if isinstance(found, dict) else {}
        fields = described.get("fields", ())
        logical = f"{kind}-{described.get('logicalType')}"
        return cls(
            str(described["name"] if kind in _NAMED else kind),
            logical if logical in _LOGICAL else kind,
            whole.alone(schema),
            rule,
            frozenset(each["name"] for each in fields),
            frozenset(each["name"] for each in fields if _is_required(each)),
            any(may_lose(each["type"], whole.named) for each in fields)
            or may_lose(described.get("values"), whole.named),
            whole,
            is_custom(kind, found),
        )

    def may_lose(self, data: Mapping[Any, Any]) -> bool:
        """Whether a part of a mapping may be left out."""
        return self.is_deep or not (self.type == "map" or data.keys() <= self.fields)

    def may_take(self, keys: AbstractSet[Any]) -> bool:
        """Whether one of these keys may have a place in this type."""
        return self.type == "map" or not self.fields.isdisjoint(keys)

    def held(self, data: Mapping[Any, Any]) -> int:
        """The number of the keys of a mapping that have a place in this type and a value."""
        keys = data if self.type == "map" else self.fields.intersection(data)
        return sum(data[key] is not None for key in keys)

    @property
    def looks_at_made(self) -> bool:
        """Whether the value that a function of the program makes has to be looked at: fastavro would change some."""
        if not self.is_custom or self.rule is None or self.type in _VALIDATED:
            return False
        return self.rule.looks_at_all

    def check(self, data: Any) -> None:
        """Check a value that is written with this type."""
        if self.rule is not None and type(data) not in self.rule.fits:
            self.rule.check(data)


@attrs.frozen
class _Shape:
    """The meaning of the keys of a mapping."""

    possible: Sequence[Branch]
    """The types that the mapping may fit."""
    may_lose: bool
    """Whether one of them may leave out a part of it."""
    take: Callable[..., Branch | None]
    """The function that finds the one that fastavro takes."""

    @classmethod
    def of(cls, branches: Sequence[Branch], data: dict[Any, Any]) -> _Shape:
        """That of a mapping which is written with one of these types."""
        left = _left(branches, data)
        may_lose = any(each.may_lose(data) for each in left)
        if any(each.type != "record" for each in left):
            return cls(left, may_lose, _taken)
        # The first of those with the most of the fields: mostly, one of them is looked at.
        left = sorted(left, key=lambda each: len(each.fields.intersection(data)), reverse=True)
        return cls(left, may_lose, _first)


@attrs.frozen
class _Shapes:
    """The shapes of the mappings in a union: most mappings have the keys of one before.

    Those with other keys than the fields of the schema are not remembered: the keys of a map are the user's data.
    """

    branches: Sequence[Branch]
    known: dict[tuple[Any, ...], _Shape] = attrs.field(factory=dict, init=False)
    _fields: frozenset[str] = attrs.field(init=False)

    @_fields.default
    def _fields_of_all(self) -> frozenset[str]:
        return frozenset[str]().union(*(each.fields for each in self.branches))

    def of(self, data: dict[Any, Any]) -> _Shape:
        """The shape of a mapping."""
        found = _Shape.of(self.branches, data)
        if len(self.known) < _MOST_SHAPES and self._fields.issuperset(data) and "-type" not in data:
            self.known[tuple(data)] = found
        return found


def rule_of_union(branches: Sequence[Branch], plain: Plain, *, strict: bool) -> Rule:
    """The rule of a union. `strict`: a record has all fields of its type, and no others."""
    taking = {kind: tuple(_taking(branches, types)) for kind, types in _TAKEN_BY.items()}
    harmless = {kind for kind, possible in taking.items() if _is_harmless(kind, possible)}
    # A mapping may fit a record that has no place for a part of it.
    is_free = dict in harmless and sum(each.type in _OF_MAPPINGS for each in taking[dict]) > 1
    harmless -= {dict} if is_free else set()
    has_custom, whole = _reaches_custom(branches), plain.whole
    # Those whose parts a function of the program may get.
    with_parts = harmless & {dict, list} if has_custom else frozenset[type]()
    harmless -= with_parts
    shapes = _Shapes(taking[dict])
    # The first one of each name.
    by_name = {each.name: each for each in reversed(branches)}

    def check(data: Any) -> None:
        kind = type(data)
        if kind in harmless:
            return
        if has_custom and kind not in whole and _is_harmless_if_readable(data, with_parts, plain):
            return
        if isinstance(data, tuple):
            _check_named(by_name, data)
            return
        take = _taken
        if kind is dict:
            shape = shapes.known.get(tuple(data)) or shapes.of(data)
            if is_free and not shape.may_lose:
                return
            possible, take = shape.possible, shape.take
        else:
            possible = taking[kind] if kind in taking else _of_others(branches, taking[dict], data)
        # Where one is left, fastavro takes that or none.
        taken = possible[0] if len(possible) == 1 else take(possible, data, strict=strict)
        if taken is None:
            # fastavro refuses it.
            return
        better = _better(taken, possible, data) if len(possible) > 1 else None
        if better is not None and by_name[better.name] is better:
            raise ValueError(
                f"the type {taken.type} of the union would change this {kind.__name__}, and {better.type} holds it: "
                f"give a tuple of the name and the value, ({better.name!r}, ...)"
            )
        if taken.type in _OF_MAPPINGS and isinstance(data, Mapping):
            _check_mapping(taken, taking[dict], data, strict=strict)
        taken.check(data)

    return Rule(check)


def _reaches_custom(branches: Sequence[Branch]) -> bool:
    return any(each.reaches_custom for each in branches)


def _is_harmless_if_readable(data: Any, harmless: AbstractSet[type], plain: Plain) -> bool:
    """Refuse what a function of the program would read for the choice of the type. Whether nothing else is looked at."""
    plain.check_readable(data)
    return type(data) in harmless


def _of_others(branches: Sequence[Branch], of_mappings: Sequence[Branch], data: Any) -> Sequence[Branch]:
    """The types that may take a value of another class."""
    return _left(of_mappings, data) if isinstance(data, dict) else branches


def _check_named(by_name: Mapping[str, Branch], data: tuple[Any, ...]) -> None:
    if len(data) == 2 and isinstance(data[0], str) and data[0] in by_name:
        by_name[data[0]].check(data[1])


def _is_custom(schema: Any) -> bool:
    return isinstance(schema, dict) and is_custom(schema["type"], schema)


def _is_required(field: Any) -> bool:
    kind = field["type"]
    return "default" not in field and not (kind == "null" or (isinstance(kind, list) and "null" in kind))


def _taking(branches: Sequence[Branch], types: Sequence[str]) -> Sequence[Branch]:
    return [each for each in branches if each.type in types or each.type == "union" or each.is_custom]


def _is_harmless(kind: type, possible: Sequence[Branch]) -> bool:
    """Whether fastavro refuses each value of a class that one of these types would change."""
    possible = _tried(kind, possible)
    if any(each.looks_at_made for each in possible):
        return False
    with_custom = [each.type for each in possible]
    # A function of the program is called by fastavro.
    possible = [each for each in possible if not each.is_custom]
    types = [each.type for each in possible]
    if kind is int:
        # The ranges of integers are looked at. A large one is rounded by a double that comes before a long, also of a program.
        in_front = with_custom[: with_custom.index("long")] if "long" in with_custom else []
        return {*types} <= {"int", "long", "double"} and "double" not in in_front
    if kind is float:
        return {*types} <= {*_FLOATS} and types != ["float"]
    is_converted = any(issubclass(kind, _CONVERTED_BY.get(each, ())) for each in types)
    return not is_converted and all(each.rule is None or kind in each.rule.fits for each in possible)


def _tried(kind: type, possible: Sequence[Branch]) -> Sequence[Branch]:
    """The types up to the first one that takes all values of a class."""
    for number, each in enumerate(possible, 1):
        if each.type == _TAKES_ALL.get(kind) and not each.is_custom:
            return possible[:number]
    return possible


def _left(branches: Sequence[Branch], data: dict[Any, Any]) -> Sequence[Branch]:
    """The types that a mapping may fit, by its keys and the name of its record. A custom type may take any mapping."""
    keys = data.keys()
    left = [each for each in branches if each.is_custom or keys >= each.required]
    if len(left) > 1 and "-type" in data:
        left = [
            each for each in left if each.is_custom or each.type not in _RECORDS or each.name == data["-type"]
        ]
    return left


def _first(branches: Sequence[Branch], data: Any, *, strict: bool) -> Branch | None:
    """The first type that a value fits."""
    for branch in branches:
        if _fits(branch, data, strict=strict):
            return branch
    return None


def _taken(branches: Sequence[Branch], data: Any, *, strict: bool) -> Branch | None:
    """The type that fastavro takes for a value without a name."""
    found: Branch | None = None
    most = -1
    for branch in branches:
        if found is not None and found.type == "float":
            if branch.type == "double":
                return branch
        elif _fits(branch, data, strict=strict):
            if branch.type == "record":
                fields = len(branch.fields.intersection(data)) if isinstance(data, Mapping) else 0
                if fields > most:
                    found, most = branch, fields
            elif branch.type == "float":
                found = branch
            else:
                return branch
    return found


def _better(taken: Branch, branches: Sequence[Branch], data: Any) -> Branch | None:
    """The type that holds a value as it is, where the one that fastavro takes would change it."""
    if taken.type in _OF_MAPPINGS:
        return None
    if not (isinstance(data, _CONVERTED_BY.get(taken.type, ())) or _is_rounded(taken.type, data)):
        return None
    for other in branches:
        if (
            other is not taken
            and not (taken.type in _FLOATS and other.type in _FLOATS)
            and isinstance(data, _HELD_BY.get(other.type, ()))
            and _fits(other, data, strict=False)
        ):
            return other
    return None


def _check_mapping(taken: Branch, others: Sequence[Branch], data: Mapping[Any, Any], *, strict: bool) -> None:
    if taken.is_custom:
        # It may be a mapping with other keys.
        made = made_by_custom(taken.schema, data)
        if not isinstance(made, Mapping):
            return
        data = made
    if type(data) is Unnamed:
        _check_class(taken, others, data, strict=strict)
    elif type(data) is Named and taken.type == "map" and any(each.name == data.name for each in others):
        raise ValueError(f"this object does not fit the record with the name of its class, {data.name}")
    if taken.may_lose(data):
        _check_losses(taken, others, data, strict=strict)


def _check_class(taken: Branch, others: Sequence[Branch], data: Mapping[Any, Any], *, strict: bool) -> None:
    """Refuse an object whose class is not known where two records have its fields."""
    keys = data.keys()
    for other in others:
        if (
            other is not taken
            and other.type in _RECORDS
            and len(keys & other.fields) == len(keys & taken.fields)
            and (other.fields <= keys or not taken.fields <= keys)
            and _fits(other, data, strict=strict)
        ):
            raise ValueError(
                f"{taken.name} and {other.name} have the fields of this object, and pydantic does not tell its class: "
                f"let the serializer of the program return a tuple of the name and the object, ({other.name!r}, ...), "
                "or annotate the computed field with the class"
            )


def _check_losses(taken: Branch, others: Sequence[Branch], data: Any, *, strict: bool) -> None:
    """Refuse a mapping of which a part is left out where another type has a place for it, or of which nothing is left.

    The mapping does not fit that type: it has an object in it that is not converted yet, a wrong value, or too few keys.
    """
    if "-type" in data:
        return
    without = data.keys() - taken.fields
    if taken.is_deep or any(each.may_take(without) for each in others):
        _compare(taken, others, data, strict=strict)
    has_values = any(each is not None for each in data.values())
    if has_values and taken.type != "map" and taken.fields.isdisjoint(data):
        # All fields of the record have defaults, or may be null.
        raise ValueError("no record of the union has a field of this mapping")


def _compare(taken: Branch, others: Sequence[Branch], data: Mapping[Any, Any], *, strict: bool) -> None:
    given = taken.held(data)
    rivals = [
        each
        for each in others
        if each is not taken and each.held(data) >= max(given, 1) and _may_be(each, taken, data)
    ]
    if not rivals:
        return
    places = Places(taken.whole)
    lost = places.lost(taken.schema, data)
    if not lost:
        return
    for other in sorted(rivals, key=lambda each: each.held(data), reverse=True):
        if other.held(data) > given or places.lost(other.schema, data) < lost:
            raise ValueError(
                f"{taken.name} would leave out a part of this mapping, for which {other.name} has a place"
                f"{_unfit(other, data, strict=strict)}: give a tuple of the name and the value, ({other.name!r}, ...), "
                f"or ({taken.name!r}, ...), which leaves it out"
            )


def _may_be(other: Branch, taken: Branch, data: Mapping[Any, Any]) -> bool:
    """Whether a map could hold what the fields of a record hold, which stays as it is when objects are converted."""
    if other.type != "map" or taken.type == "map":
        return True
    held = {key: data[key] for key in taken.fields.intersection(data) if type(data[key]) in ATOMS}
    return _fits(other, held, strict=False)


def _unfit(branch: Branch, data: Any, *, strict: bool) -> str:
    """The reason for which a mapping does not fit a type."""
    missing = sorted(branch.required.difference(data))
    if missing:
        return f" if it has {', '.join(missing)}"
    try:
        validate(data, branch.schema, strict=strict)
    except ValidationError as error:
        return f" if {error.errors[0].field or branch.name} has its type"
    except Exception as error:  # of fastavro or of the program, about a value of the user
        if is_outside(error):
            raise
        return " if its fields have their types"
    return ""


def _is_rounded(kind: str, data: Any) -> bool:
    if kind == "int-time-millis":
        return isinstance(data, datetime.time) and data.microsecond % 1000 != 0
    if kind not in _FLOATS or not isinstance(data, numbers.Integral):
        return False
    try:
        held = float(data)
        if kind == "float":
            (held,) = struct.unpack("<f", struct.pack("<f", held))
    except OverflowError:
        # Its own check refuses it.
        return False
    return bool(held != data)


def _fits(branch: Branch, data: Any, *, strict: bool) -> bool:
    try:
        return bool(validate(data, branch.schema, raise_errors=False, strict=strict))
    except Exception as error:  # it may have the value in its text
        if is_outside(error):
            raise
        kind = type(data).__name__
    raise ValueError(
        f"a type of the union cannot be tried with this {kind}: "
        "a tuple of the name and the value chooses a type of the union"
    )

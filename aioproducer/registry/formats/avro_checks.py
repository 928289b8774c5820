"""The values that fastavro would write as others, without an error: None as False, 3.7 as 3, text as an array of characters.

Only the types that have such values are looked at: most fields of most records need no more than a look at a class.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final

from aioproducer.registry.formats.avro_losses import ATOMS
from aioproducer.registry.formats.avro_rules import (
    PRIMITIVES,
    Check,
    Rule,
    is_custom,
    rule_of,
    rule_of_custom,
)
from aioproducer.registry.formats.avro_schemas import AvroSchema
from aioproducer.registry.formats.avro_unions import Branch, rule_of_union
from aioproducer.registry.formats.to_dict import WITH_PARTS, Plain, is_read_once
from aioproducer.serializers import is_outside

__all__ = ["check_of"]

_NO_ITEMS: Final = (str, bytes, bytearray, memoryview, Mapping)
_RECORDS: Final = {"record", "error"}


def check_of(schema: AvroSchema, plain: Plain, *, strict: bool) -> Check | None:
    """The check of values of a schema; None if there is nothing to check. `strict`: as they are written.

    `plain` converts the objects that are refused: functions of the program get nothing that it would read.
    """
    rules = _Rules(schema, plain, strict=strict)
    rule = rules.of(schema.root)
    if rule is None:
        return None
    check = rule.check if rule.looks_at_all else _single(rule)
    return _bounded(check) if rules.may_have_no_end else check


def _bounded(check: Check) -> Check:
    """The check of objects that may have themselves in them: fastavro would follow them until the process dies."""

    def bounded(data: Any) -> None:
        _descend(data)
        check(data)

    return bounded


def _descend(data: Any) -> None:
    """Look at all levels of an object, of which Python follows a bounded number: it raises a RecursionError."""
    if isinstance(data, WITH_PARTS):
        for each in data.values() if isinstance(data, Mapping) else data:
            if type(each) not in ATOMS:
                _descend(each)


class _Rules:
    """The rules of the types of a schema."""

    def __init__(self, schema: AvroSchema, plain: Plain, *, strict: bool) -> None:
        self._schema = schema
        self._plain = plain
        self._strict = strict
        self._made: dict[str, Rule | None] = {}
        self._begun: set[str] = set()
        self._is_recursive = False
        self._tries = False

    @property
    def may_have_no_end(self) -> bool:
        """Whether fastavro looks at a whole object, for the choice of a type, that may have itself in it."""
        return self._is_recursive and self._tries

    def of(self, schema: Any) -> Rule | None:
        """The rule of a type."""
        if isinstance(schema, list):
            return self._union(schema)
        if isinstance(schema, str) and schema not in PRIMITIVES:
            schema = self._schema.named[schema]
        kind = schema["type"] if isinstance(schema, dict) else schema
        rule = self._of_kind(kind, schema)
        return rule_of_custom(kind, schema, rule, self._plain) if is_custom(kind, schema) else rule

    def _of_kind(self, kind: str, schema: Any) -> Rule | None:
        if kind in _RECORDS:
            return self._record(schema["name"], schema["fields"])
        if kind == "array":
            return Rule(_array(self.of(schema["items"])))
        if kind == "map":
            return Rule(_map(self.of(schema["values"])))
        return rule_of(kind, schema)

    def _record(self, name: str, described: list[Any]) -> Rule | None:
        if name in self._made:
            self._is_recursive |= name in self._begun
            return self._made[name]
        self._begun.add(name)
        fields: list[tuple[str, Rule]] = []
        usual: list[tuple[str, Collection[type]]] = []
        others: list[tuple[str, Rule]] = []
        # A record may have itself in it.
        self._made[name] = Rule(_record(fields, usual, others))
        for field in described:
            rule = self.of(field["type"])
            if rule is None:
                continue
            fields.append((field["name"], rule))
            if rule.looks_at_all:
                others.append((field["name"], rule))
            else:
                usual.append((field["name"], rule.fits))
        if not fields:
            self._made[name] = None
        self._begun.remove(name)
        return self._made[name]

    def _union(self, schema: list[Any]) -> Rule | None:
        others = [each for each in schema if each != "null"]
        if len(others) == 1:
            rule = self.of(others[0])
            if rule is None:
                return None
            return Rule(_optional(rule), rule.fits if type(None) in rule.fits else {type(None)})
        self._tries = True
        branches = [Branch.of(each, self._schema, self.of(each)) for each in schema]
        return rule_of_union(branches, self._plain, strict=self._strict)


def _single(rule: Rule) -> Check:
    def check(data: Any) -> None:
        if type(data) not in rule.fits:
            rule.check(data)

    return check


def _record(
    fields: list[tuple[str, Rule]],
    usual: list[tuple[str, Collection[type]]],
    others: list[tuple[str, Rule]],
) -> Check:
    """The check of a record: of the fields whose values have usual classes, and of others. `fields` has both."""

    def check(data: Any) -> None:
        # Most objects are such mappings: this is all that they need.
        if type(data) is dict:
            try:
                for name, fits in usual:
                    if type(data[name]) not in fits:
                        break
                else:
                    if others:
                        _check_fields(data, others)
                    return
            except KeyError:
                pass
        _check_fields(data, fields)

    return check


def _check_fields(data: Any, fields: list[tuple[str, Rule]]) -> None:
    get = getattr(data, "get", None)
    if get is None:
        raise TypeError(f"an object with fields is required, not {type(data).__name__}")
    for name, rule in fields:
        value = get(name)
        if type(value) in rule.fits or (value is None and name not in data):
            # Fits, or its default is written, or it is missed.
            continue
        try:
            rule.check(value)
        except (TypeError, ValueError) as error:
            if is_outside(error):
                # Some are of two classes.
                raise
            kind = TypeError if isinstance(error, TypeError) else ValueError
            raise kind(f"{error} on field {name}") from None


def _array(rule: Rule | None) -> Check:
    def check(data: Any) -> None:
        if type(data) is not list and (isinstance(data, _NO_ITEMS) or is_read_once(data)):
            # What can be read once becomes a list, and nothing of it is read before.
            raise TypeError(f"a list is required, not {type(data).__name__}")
        if rule is not None:
            fits, inner = rule.fits, rule.check
            for each in data:
                if type(each) not in fits:
                    inner(each)

    return check


def _map(rule: Rule | None) -> Check:
    def check(data: Any) -> None:
        if not isinstance(data, Mapping):
            raise TypeError(f"a mapping is required, not {type(data).__name__}")
        if rule is not None:
            fits, inner = rule.fits, rule.check
            for each in data.values():
                if type(each) not in fits:
                    inner(each)

    return check


def _optional(rule: Rule) -> Check:
    def check(data: Any) -> None:
        if isinstance(data, tuple) and len(data) == 2:
            # The name of the type, and the value.
            data = data[1]
        if data is not None and type(data) not in rule.fits:
            rule.check(data)

    return check

"""Rows as JSON: as Spark's `to_json` writes them, but for times, which are exact and in UTC."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final

import attrs
import pyarrow as pa

from aioproducer._formats.forms import Form, UnfitError
from aioproducer._formats.types import is_bytes, is_list, is_text

__all__ = ["json_form", "told_form"]

QUOTED: Final = (("quoted", True),)
LENIENT: Final = (("lenient", True),)


def _is_float(kind: Any) -> bool:
    return bool(pa.types.is_float32(kind) or pa.types.is_float64(kind))


def _is_moment(kind: Any) -> bool:
    return bool(pa.types.is_timestamp(kind)) and kind.unit == "us" and kind.tz is not None


def _is_local_time(kind: Any) -> bool:
    return bool(pa.types.is_timestamp(kind)) and kind.unit == "us" and kind.tz is None


_Leaf = tuple[Callable[[Any], bool], str, str, tuple[tuple[str, Any], ...]]
# For each type: its kind of node, the cast before it, and further arguments.
LEAVES: Final[tuple[_Leaf, ...]] = (
    (is_text, "json string", "", ()),
    (pa.types.is_signed_integer, "json integer", "", ()),
    (_is_float, "json float", "string", ()),
    (pa.types.is_boolean, "json boolean", "", ()),
    (pa.types.is_decimal, "json text", "string", ()),
    (_is_moment, "json timestamp", "", (*QUOTED, ("mark", b"Z"))),
    (_is_local_time, "json timestamp", "", QUOTED),
    (pa.types.is_date32, "json date", "", QUOTED),
    (pa.types.is_time, "json text", "string", QUOTED),
    (is_bytes, "json base64", "", QUOTED),
    (pa.types.is_null, "constant", "", ()),
)


def json_form(
    kind: Any, path: str = "", *, omits_nulls: bool = True, before: bytes = b"", absent: bytes | None = None
) -> Form:
    """The form of items of an Arrow type; UnfitError for types that have none.

    `omits_nulls`: fields that are null are left out, at any depth.
    """
    if pa.types.is_struct(kind):
        fields = tuple(_field(each, path, omits_nulls=omits_nulls) for each in kind)
        return Form("json object", path, before, absent, fields, tuple(range(len(fields))))
    if pa.types.is_map(kind):
        entry = (
            _key(kind.key_type, path),
            json_form(kind.item_type, path, omits_nulls=omits_nulls, before=b":", absent=b":null"),
        )
        return Form("json map", path, before, absent, entry)
    if is_list(kind):
        item = json_form(kind.value_type, path, omits_nulls=omits_nulls, before=b",", absent=b",null")
        return Form("json array", path, before, absent, (item,))
    return _leaf(kind, path, before, absent)


def told_form(kind: Any, path: str = "") -> Form:
    """The form in which people read rows: each row has one, also rows that JSON has no form for."""
    return _lenient(json_form(kind, path, omits_nulls=False))


def _lenient(form: Form) -> Form:
    return attrs.evolve(form, fields=tuple(map(_lenient, form.fields)), more=(*form.more, *LENIENT))


def _field(field: Any, path: str, *, omits_nulls: bool) -> Form:
    before = b"," + json.dumps(field.name, ensure_ascii=False).encode() + b":"
    absent = b"" if omits_nulls else before + b"null"
    within = f"{path}.{field.name}" if path else field.name
    return json_form(field.type, within, omits_nulls=omits_nulls, before=before, absent=absent)


def _key(kind: Any, path: str) -> Form:
    """The key of a map: a string, whatever its type."""
    if pa.types.is_nested(kind) or pa.types.is_null(kind):
        raise UnfitError(f"{path}: the keys of a map must be no {kind}")
    form = _leaf(kind, path, b",", None)
    if form.kind == "json string":
        return form
    more = {**dict(form.more), "quoted": True}
    return Form(form.kind, path, b",", None, cast=form.cast, more=tuple(more.items()))


def _leaf(kind: Any, path: str, before: bytes, absent: bytes | None) -> Form:
    for fits, name, cast, more in LEAVES:
        if fits(kind):
            return Form(name, path, before, absent, cast=cast, more=more)
    raise UnfitError(f"{path}: JSON has no form for {kind}")

"""The application of a form to an Arrow array: a column of bytes, and the rows that do not fit."""

from __future__ import annotations

from typing import Any, Final

import attrs
import pyarrow as pa
import pyarrow.compute as pc

from aioproducer._core import KINDS, REASONS, RowEncoder
from aioproducer._formats.forms import ITSELF, NOWHERE, Form
from aioproducer._formats.types import is_bytes, is_text

__all__ = ["Encoded", "encode"]

OF_FIELDS: Final = frozenset({"json object", "record", "message"})
OF_ITEMS: Final = frozenset({"json array", "avro array", "repeated", "packed"})
OF_ENTRIES: Final = frozenset({"json map", "avro map", "entries"})
# No number of a symbol.
UNKNOWN: Final = 1 << 40


@attrs.frozen
class Encoded:
    """A column of bytes, null for rows that are null or do not fit, and the reasons by the numbers of such rows."""

    values: Any
    unfit: dict[int, str]


def encode(form: Form, array: Any, prefix: bytes = b"") -> Encoded:
    """The items of an array in this form, each behind the prefix."""
    work = _Work()
    rows = len(array)
    root = work.add(form, array)
    offsets, data, failed = work.encoder.encode(root, rows, prefix)
    unfit = {row: f"{work.paths[node] or 'the row'} {REASONS[why]}" for row, node, why in failed}
    validity = None
    if unfit or array.null_count:
        is_there = pc.is_valid(array).to_pylist()
        for row in unfit:
            is_there[row] = False
        validity = pa.array(is_there, pa.bool_()).buffers()[1]
    buffers = [validity, pa.py_buffer(offsets), pa.py_buffer(data)]
    return Encoded(pa.Array.from_buffers(pa.large_binary(), rows, buffers), unfit)


class _Work:
    """The nodes of one array."""

    def __init__(self) -> None:
        self.encoder = RowEncoder()
        self.paths: list[str] = []

    def add(self, form: Form, array: Any) -> int:
        """Add the node of an array after its children."""
        if pa.types.is_null(array.type):
            return self._node(form, "constant", len(array), validity=bytes(len(array) // 8 + 1))
        if form.kind == "constant":
            return self._node(form, form.kind, len(array), validity=_validity(array), first=array.offset)
        if form.kind in OF_FIELDS:
            return self._struct(form, array)
        if form.kind in OF_ITEMS:
            return self._lists(form, array, (self.add(form.fields[0], array.values),))
        if form.kind in OF_ENTRIES:
            entries = self.add(form.fields[0], array.keys), self.add(form.fields[1], array.items)
            return self._lists(form, array, entries)
        return self._leaf(form, _prepared(form, array))

    def _struct(self, form: Form, array: Any) -> int:
        children = tuple(
            self._field(each, array, at) for each, at in zip(form.fields, form.places, strict=True)
        )
        return self._node(
            form, form.kind, len(array), validity=_validity(array), first=array.offset, children=children
        )

    def _field(self, form: Form, array: Any, at: int) -> int:
        if at == NOWHERE:
            return self._node(form, "constant", len(array))
        return self.add(form, array if at == ITSELF else array.field(at))

    def _lists(self, form: Form, array: Any, children: tuple[int, ...]) -> int:
        return self._node(
            form,
            form.kind,
            len(array),
            validity=_validity(array),
            offsets=array.buffers()[1],
            first=array.offset,
            width=8 if pa.types.is_large_list(array.type) else 4,
            children=children,
        )

    def _leaf(self, form: Form, array: Any) -> int:
        buffers = array.buffers()
        kind = array.type
        if is_text(kind) or is_bytes(kind):
            is_large = pa.types.is_large_binary(kind) or pa.types.is_large_string(kind)
            places = {"offsets": buffers[1], "width": 8 if is_large else 4}
        elif pa.types.is_primitive(kind) or pa.types.is_decimal128(kind):
            places = {"width": kind.bit_width // 8}
        else:
            # Dictionaries, views and others have their items elsewhere. Spark hands out none.
            raise TypeError(
                f"{form.path or 'the column'}: an array of {kind} has another layout than its rows"
            )
        return self._node(
            form, form.kind, len(array), validity=buffers[0], data=buffers[-1], first=array.offset, **places
        )

    def _node(self, form: Form, kind: str, length: int, **arguments: Any) -> int:
        self.paths.append(form.path)
        return self.encoder.add(
            KINDS[kind],
            length=length,
            before=form.before,
            absent=form.absent,
            **arguments,
            **dict(form.more if kind == form.kind else ()),
        )


def _validity(array: Any) -> Any:
    return array.buffers()[0]


def _prepared(form: Form, array: Any) -> Any:
    if form.cast:
        return array.cast(form.cast)
    if form.symbols:
        found = pc.index_in(array, value_set=pa.array(form.symbols, array.type))
        numbers = pa.array(form.numbers, pa.int64()).take(found).fill_null(UNKNOWN)
        return pc.if_else(array.is_valid(), numbers, None)
    return array

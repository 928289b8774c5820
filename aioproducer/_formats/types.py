"""Questions about types of Arrow, and numbers of variable length, that the formats have in common."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from aioproducer._formats.forms import NOWHERE

__all__ = ["is_bytes", "is_list", "is_text", "places_of", "varint"]


def places_of(names: Sequence[str], columns: Sequence[str]) -> list[int]:
    """The place of the column of each name, as Spark finds columns: an equal name, otherwise one that differs in case.

    A column with the very name of another field is that field's.
    """
    by_name = {column: at for at, column in reversed(list(enumerate(columns)))}
    others = {column.lower(): at for at, column in reversed(list(enumerate(columns))) if column not in names}
    return [by_name.get(name, others.get(name.lower(), NOWHERE)) for name in names]


def is_text(kind: Any) -> bool:
    """Whether items are strings."""
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def is_bytes(kind: Any) -> bool:
    """Whether items are bytes of any number."""
    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind))


def is_list(kind: Any) -> bool:
    """Whether items are lists of any length."""
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind))


def varint(number: int) -> bytes:
    """A number that is not negative, seven bits to a byte."""
    made = bytearray()
    while number > 0x7F:
        made.append(number & 0x7F | 0x80)
        number >>= 7
    made.append(number)
    return bytes(made)

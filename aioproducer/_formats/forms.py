"""The form of rows: how the items of Arrow arrays are written. It is made once, from types, and applied to each array."""

from __future__ import annotations

from typing import Any, Final

import attrs

__all__ = ["ITSELF", "NOWHERE", "Form", "UnfitError"]

# Places of fields that are no field of the struct: a constant, and another part of the same item.
NOWHERE: Final = -1
ITSELF: Final = -2


class UnfitError(Exception):
    """A type that cannot be written in this form. The text begins with the path to it."""


@attrs.frozen
class Form:
    """How an item is written; the fields are the arguments of the compiled encoder's `add()`."""

    kind: str
    # For errors.
    path: str = ""
    before: bytes = b""
    # None: a null does not fit.
    absent: bytes | None = None
    # The fields of a struct with their places there, the item of a list, or the key and the value of a map.
    fields: tuple[Form, ...] = ()
    places: tuple[int, ...] = ()
    # The type that the array is cast to before.
    cast: str = ""
    # Texts that stand for numbers.
    symbols: tuple[str, ...] = ()
    numbers: tuple[int, ...] = ()
    # Further arguments of `add()`.
    more: tuple[tuple[str, Any], ...] = ()

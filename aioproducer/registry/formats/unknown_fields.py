"""The names of fields that a schema does not have, in errors: they may be data of users."""

from __future__ import annotations

from typing import Final

__all__ = ["shown_name"]

_LONGEST: Final = 60


def shown_name(name: object) -> str:
    """The name if it could be one of a schema, as a misspelled one is; otherwise "*"."""
    text = name if isinstance(name, str) else ""
    return text if text.isidentifier() and len(text) <= _LONGEST else "*"

"""A secret that no log, error or pickle shows."""

from __future__ import annotations

import hmac
from typing import Any, NoReturn, Self, final

__all__ = ["Secret"]

_HIDDEN = "***"


@final
class Secret:
    """A text that is shown as `***`; `reveal()` gives it."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def reveal(self) -> str:
        """The text. The caller keeps it out of errors and logs."""
        return self._text

    def __repr__(self) -> str:
        return f"Secret({_HIDDEN!r})"

    def __str__(self) -> str:
        return _HIDDEN

    def __format__(self, spec: str) -> str:
        return format(_HIDDEN, spec)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Secret):
            return NotImplemented
        return hmac.compare_digest(_bytes(self), _bytes(other))

    __hash__ = None  # type: ignore[assignment]  # a hash depends on the text, and so does the order of a set

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, _memo: dict[int, Any]) -> Self:
        return self

    def __reduce__(self) -> NoReturn:
        raise TypeError("a secret is not pickled; read it from a file or the environment where it is needed")


def _bytes(secret: Secret) -> bytes:
    # An error of the codec would hold the text.
    return secret.reveal().encode(errors="surrogatepass")

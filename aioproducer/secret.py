"""Secrets and tokens: no log, error, repr or pickle shows one."""

from __future__ import annotations

import hmac
import os
import re
from collections.abc import Awaitable, Callable, Mapping
from types import MappingProxyType
from typing import Any, NoReturn, Self, TypeAlias, final

import attrs

from aioproducer.errors import ConfigurationError

__all__ = ["GivenSecret", "Secret", "SecretEnv", "SecretFile", "Token"]

HIDDEN = "***"
_SURROGATE = re.compile(r"[\ud800-\udfff]")
_NO_EXTENSIONS: Mapping[str, str] = MappingProxyType({})


@final
class Secret:
    """A text that is shown as `***`; `reveal()` gives it."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        kind = type(text)
        if str not in kind.__mro__:
            del text  # No frame of a traceback keeps it.
            raise TypeError(f"a secret is a str, not {kind.__name__}")
        # Not a subclass, whose methods may return something else the next time.
        self._text = str.__str__(text)

    def reveal(self) -> str:
        """The text. The caller keeps it out of errors and logs."""
        return self._text

    def __repr__(self) -> str:
        return f"Secret({HIDDEN!r})"

    def __str__(self) -> str:
        return HIDDEN

    def __format__(self, spec: str) -> str:
        return format(HIDDEN, spec)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Secret):
            return NotImplemented
        return hmac.compare_digest(_bytes(self), _bytes(other))

    def __hash__(self) -> int:
        # The same for all: a hash of the text would show in the order of a set. Configurations are keys of mappings.
        return hash(Secret)

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, _memo: dict[int, Any]) -> Self:
        return self

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "a Secret is not pickled: use SecretFile or SecretEnv, which are read where they are needed"
        )


def shown_fields(shown: object, *names: str) -> str:
    """The repr of an object. One whose arguments were refused has no fields, and a traceback may show it."""
    fields = (f"{name}={getattr(shown, name)!r}" for name in names if hasattr(shown, name))
    return f"{type(shown).__name__}({', '.join(fields)})"


def _path(path: str | os.PathLike[str]) -> str:
    return os.fsdecode(path)


def _is_text(_instance: object, _attribute: object, name: Any) -> None:
    if not isinstance(name, str):
        raise TypeError(f"the name of a variable is a str, not {type(name).__name__}")


@final
@attrs.frozen
class SecretFile:
    """A secret that is the content of a file (UTF-8), without the line end at its end.

    The file is read at each authentication, so it may change while a producer runs.
    """

    path: str = attrs.field(converter=_path)

    def __repr__(self) -> str:
        return shown_fields(self, "path")


@final
@attrs.frozen
class SecretEnv:
    """A secret that is the value of an environment variable, which is read at each authentication."""

    name: str = attrs.field(validator=_is_text)

    def __repr__(self) -> str:
        return shown_fields(self, "name")


@final
@attrs.frozen
class SecretCall:
    """A secret that a coroutine function gives, or a function, in a thread; it is called at each authentication."""

    function: Callable[[], str | Secret | Awaitable[str | Secret]] = attrs.field(repr=False)


def secret_of(value: object) -> Secret | None:
    """The secret; None for an object that is neither `str` nor `Secret`, which the caller refuses without a frame of it."""
    if type(value) is Secret:
        return value
    # Not isinstance(): an object may lie about its class.
    return Secret(str.__str__(value)) if issubclass(type(value), str) else None


def is_unicode(secret: Secret) -> bool:
    """Whether the secret can be encoded as UTF-8: it has no lone surrogate."""
    # The error of the codec would hold the secret.
    return not _SURROGATE.search(secret.reveal())


@attrs.frozen(init=False)
class Token:
    """A bearer token of OAUTHBEARER.

    `expires_at` is in seconds since the epoch, like `exp` of a JWT; None: it is read from the token if that is a JWT.
    """

    value: Secret
    expires_at: float | None = None
    extensions: Mapping[str, str] = attrs.field(factory=dict)

    def __init__(
        self,
        value: str | Secret,
        expires_at: float | None = None,
        extensions: Mapping[str, str] = _NO_EXTENSIONS,
    ) -> None:
        secret, kind = secret_of(value), type(value).__name__
        # No frame of a traceback keeps it.
        del value
        if secret is None:
            del self
            raise ConfigurationError(f"Token() takes a str or Secret, not {kind}")
        self.__attrs_init__(secret, expires_at, {} if extensions is _NO_EXTENSIONS else extensions)


SecretSource: TypeAlias = Secret | SecretFile | SecretEnv | SecretCall
"""A secret, or the place where it is read."""
GivenSecret: TypeAlias = (
    str | Secret | SecretFile | SecretEnv | Callable[[], str | Secret | Awaitable[str | Secret]]
)
"""The forms in which a setting takes a secret."""


def _bytes(secret: Secret) -> bytes:
    # An error of the codec would hold the text.
    return secret.reveal().encode(errors="surrogatepass")

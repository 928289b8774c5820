"""The credentials of a registry, which no text of an error, a log or a repr shows."""

from __future__ import annotations

import asyncio
import base64
import inspect
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, TypeAlias

from aioproducer.errors import ConfigurationError
from aioproducer.registry.asking.addresses import Address
from aioproducer.registry.errors import RegistryError
from aioproducer.secret import Secret
from aioproducer.security.server_words import without_secrets

__all__ = ["Auth", "Credentials"]

Auth: TypeAlias = (
    tuple[str, str | Secret] | str | Secret | Callable[[], Awaitable[str | Secret | tuple[str, str | Secret]]]
)
"""A user with a password, a bearer token, or a coroutine function that gives either."""

# A header of fewer characters is no secret, and its text may be anywhere.
_LEAST_SECRET: Final = 8
# Of a provider: requests that are still under way have these.
_REMEMBERED: Final = 16
_END_OF_THE_PROGRAM: Final = (KeyboardInterrupt, SystemExit, GeneratorExit)


class Credentials:
    """The headers that authenticate requests, and the removal of their contents from texts."""

    def __init__(self, auth: Auth | None, headers: Mapping[str, str], addresses: tuple[Address, ...]) -> None:
        self._given: deque[Secret] = deque(maxlen=_REMEMBERED)
        self._headers = _checked(headers)
        self._call: Callable[[], Awaitable[Any]] | None = auth if callable(auth) else None
        self._header = None if auth is None or callable(auth) else self._authorization(auth)
        self._of_urls = {
            each.base: self._authorization((each.user or "", each.password or ""))
            for each in addresses
            if each.user is not None
        }
        long = [Secret(value) for value in self._headers.values() if len(value) >= _LEAST_SECRET]
        # Those that never change. The others are forgotten.
        self._secrets = (*self._given, *long)

    async def headers(self, base: str) -> dict[str, str]:
        """The headers of a request to the server at `base`."""
        made = dict(self._headers)
        header = self._of_urls.get(base) if self._header is None and self._call is None else self._header
        if self._call is not None:
            header = await self._called(self._call)
        if header is not None:
            made["Authorization"] = header.reveal()
        return made

    def without(self, text: str) -> str:
        """The text without secrets: a server may repeat what it was given."""
        return without_secrets(text, (*self._secrets, *self._given))

    async def _called(self, call: Callable[[], Awaitable[Any]]) -> Secret:
        problem = None
        try:
            given: Any = call()
            if inspect.isawaitable(given):
                given = await given
        except BaseException as error:  # user code, whose error may hold the secret
            if isinstance(error, _END_OF_THE_PROGRAM) or _is_cancelled():
                raise
            retriable = isinstance(error, OSError) or bool(getattr(error, "retriable", False))
            problem = RegistryError(
                f"the function that gives the credentials raised {type(error).__name__}", retriable=retriable
            )
        if problem is not None:
            raise problem
        try:
            return self._authorization(given)
        except ConfigurationError as error:
            problem = RegistryError(str(error).replace("auth:", "the function that gives the credentials:"))
        raise problem

    def _authorization(self, auth: Any) -> Secret:
        """The header of a user with a password, or of a token; its parts are hidden from now on."""
        if isinstance(auth, tuple) and len(auth) == 2:
            # No local of a frame that raises is a secret.
            if ":" in _text(auth[0]):
                raise ConfigurationError("auth: the name of a user must have no colon")
            user, password = (_text(part) for part in auth)
            coded = base64.b64encode(f"{user}:{password}".encode()).decode()
            self._given.extend((Secret(password), Secret(coded)))
            return Secret(f"Basic {coded}")
        if not isinstance(auth, str | Secret):
            raise ConfigurationError(
                "auth: must be (user, password), a token, or a coroutine function that gives one, not "
                f"{type(auth).__name__}"
            )
        if not _is_token(_text(auth)):
            raise ConfigurationError("auth: a token must be printable ASCII without blanks, and not empty")
        token = _text(auth)
        self._given.append(Secret(token))
        return Secret(f"Bearer {token}")


def _is_cancelled() -> bool:
    """Whether this task was cancelled; a function may raise a CancelledError of its own."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _is_token(text: str) -> bool:
    return bool(text) and text.isascii() and text.isprintable() and " " not in text


def _text(part: Any) -> str:
    if not isinstance(part, str | Secret):
        raise ConfigurationError(f"auth: user and password are strings, not {type(part).__name__}")
    return part.reveal() if isinstance(part, Secret) else part


def _checked(headers: object) -> dict[str, str]:
    if not isinstance(headers, Mapping):
        raise ConfigurationError(f"headers: must be a mapping of names, not {type(headers).__name__}")
    for name, value in headers.items():
        if not isinstance(name, str) or not name.isascii() or not name.isprintable() or ":" in name:
            raise ConfigurationError("headers: the name of a header must be printable ASCII without a colon")
        if not isinstance(value, str) or not value.isprintable():
            raise ConfigurationError(f"headers: the value of {name} must be a printable string")
        if not value.isascii():
            raise ConfigurationError(f"headers: the value of {name} must be ASCII")
    return dict(headers)

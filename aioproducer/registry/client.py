"""The client of a schema registry."""

from __future__ import annotations

import asyncio
import json
import logging
import math
import ssl
import sys
import uuid
from collections.abc import Callable, Coroutine, Hashable, Iterable, Mapping
from types import MappingProxyType, TracebackType
from typing import Any, Final, Self, TypeVar

import httpx2

from aioproducer.errors import ConfigurationError, StateError
from aioproducer.registry.asking.addresses import parse_urls, path_of
from aioproducer.registry.asking.answers import (
    Answer,
    read,
    to_compatible,
    to_registered,
    to_schema,
    to_schema_id,
    to_subjects,
)
from aioproducer.registry.asking.conversation import Conversation, Request
from aioproducer.registry.asking.credentials import Auth, Credentials
from aioproducer.registry.asking.single_flight import Flight, Flights
from aioproducer.registry.caches import Bounded, Failures, Latest
from aioproducer.registry.errors import RegistryError
from aioproducer.registry.schemas import RegisteredSchema, Schema, SchemaId, check_number

__all__ = ["Registry"]

T = TypeVar("T")

log: Final = logging.getLogger("aioproducer")

# Seconds in which one line is logged about a latest version that cannot be asked for again.
_QUIET: Final = 60.0
_PROXIES: Final = ("http://", "https://", "socks5://", "socks5h://")


class Registry:
    """A client of a schema registry with Confluent's REST API.

    `urls` are the addresses of its servers, separated by commas or in a sequence; the next one is asked when one fails.
    `auth` is `(user, password)`, a bearer token, or a coroutine function that gives either, which is called for each
    request. `headers` are added to each request. `timeout` limits each call in seconds, all attempts together.

    `ssl_context` is for https; by default the certificate authorities of the system are trusted. `proxy` is the URL of a
    proxy. `client` is an `httpx2.AsyncClient` in place of one of the registry; it stays open. Environment variables are
    not read.

    Ids, and schemas by id, are remembered until `cache_size` others were used since. The latest version of a subject
    serves for `latest_ttl` seconds, and as long again while it is asked for in the background.

    A registry belongs to the event loop of its first request. `close()` ends it, or `async with`.
    """

    def __init__(
        self,
        urls: str | Iterable[str],
        *,
        auth: Auth | None = None,
        headers: Mapping[str, str] = MappingProxyType({}),
        timeout: float = 10.0,
        ssl_context: ssl.SSLContext | None = None,
        proxy: str | None = None,
        cache_size: int = 1000,
        latest_ttl: float = 300.0,
        client: httpx2.AsyncClient | None = None,
    ) -> None:
        self._closed = False
        self._urls: tuple[str, ...] = ()
        try:
            _check_numbers(timeout, cache_size, latest_ttl)
            _check_client(client, ssl_context, proxy)
            addresses = parse_urls(urls)
            credentials = Credentials(auth, headers, addresses)
        except ConfigurationError as error:
            problem = str(error)
        else:
            problem = ""
        if problem:
            # Behind the handler, and without the arguments: no frame of a traceback keeps a password.
            del urls, auth, headers, proxy, client
            raise ConfigurationError(problem)
        self._urls = tuple(address.base for address in addresses)
        self._conversation = Conversation(addresses, credentials, timeout, client, ssl_context, proxy)
        self.timeout = timeout
        self.cache_size = cache_size
        self.latest_ttl = latest_ttl
        self._loop: asyncio.AbstractEventLoop | None = None
        self._closing: asyncio.Task[None] | None = None
        self._flights = Flights()
        self._ids: Bounded[Hashable, SchemaId] = Bounded(cache_size)
        self._schemas: Bounded[int, tuple[Schema, uuid.UUID | None]] = Bounded(cache_size)
        self._latest = Latest(cache_size, latest_ttl)
        self._failures = Failures(cache_size)
        self._told_at = -math.inf

    # ----- life cycle

    async def close(self) -> None:
        """End all requests and close the connections. Calls that wait raise a StateError. May be called again.

        Cancelled, it goes on; another call waits for it.
        """
        if self._closed:
            if self._closing is not None and self._loop is asyncio.get_running_loop():
                await asyncio.shield(self._closing)
            return
        loop = asyncio.get_running_loop()
        if self._loop not in (None, loop) and not self._loop.is_closed():
            raise StateError("call close() of a registry from the event loop of its requests")
        self._closed = True
        if self._loop is loop:
            self._closing = loop.create_task(self._close(), name="aioproducer registry")
            await asyncio.shield(self._closing)

    async def _close(self) -> None:
        try:
            await self._flights.close()
        finally:
            await self._conversation.close()

    @property
    def closed(self) -> bool:
        """True after `close()`."""
        return self._closed

    @property
    def ended(self) -> bool:
        """True when no call is possible any more: it is closed, or its event loop is."""
        return self._closed or (self._loop is not None and self._loop.is_closed())

    async def __aenter__(self) -> Self:
        self._enter()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def __repr__(self) -> str:
        return f"<Registry {', '.join(self._urls)}{' (closed)' if self._closed else ''}>"

    # ----- ids

    async def register(self, subject: str, schema: Schema, *, normalize: bool = False) -> SchemaId:
        """Register a schema under a subject, unless it is there; its id.

        `version` and `guid` of the id are None where the registry does not tell them. With `normalize` the registry
        takes schemas that mean the same for the same.
        """
        _check_question(subject, schema, normalize)
        known = self._ids.get((subject, schema, bool(normalize)))
        if known is not None:
            return known
        return await self._id(
            "register", path_of("subjects", subject, "versions"), subject, schema, normalize
        )

    async def lookup(self, subject: str, schema: Schema, *, normalize: bool = False) -> SchemaId:
        """The id of a schema that is registered under a subject; otherwise SchemaNotFoundError."""
        _check_question(subject, schema, normalize)
        known = self._ids.get((subject, schema, bool(normalize)))
        return known or await self.find(subject, schema, normalize=normalize)

    async def find(self, subject: str, schema: Schema, *, normalize: bool = False) -> SchemaId:
        """As `lookup()`, and always by a request."""
        return await self._id("lookup", path_of("subjects", subject), subject, schema, normalize)

    async def _id(self, what: str, path: str, subject: str, schema: Schema, normalize: bool) -> SchemaId:
        key = subject, schema, bool(normalize)
        body = _body(schema)
        request = Request("POST", f"{path}?normalize=true" if normalize else path, body)

        def keep(found: SchemaId) -> None:
            self._ids.put(key, found)

        return await self._asked((what, *key), request, to_schema_id, keep)

    # ----- schemas

    async def schema(self, id: int) -> Schema:  # noqa: A002 - the name in the interface of a registry
        """The schema with an id."""
        check_number("id", id)
        return (await self.schema_by_id(id))[0]

    async def schema_by_id(self, number: int) -> tuple[Schema, uuid.UUID | None]:
        """The schema with an id, and its guid where the registry tells it."""
        known = self._schemas.get(number)
        if known is not None:
            return known

        def keep(found: tuple[Schema, uuid.UUID | None]) -> None:
            self._schemas.put(number, found)

        return await self._asked(
            ("schema", number), Request("GET", path_of("schemas", "ids", number)), to_schema, keep
        )

    async def version(self, subject: str, n: int) -> RegisteredSchema:
        """A version of a subject."""
        _check_subject(subject)
        check_number("n", n)
        request = Request("GET", path_of("subjects", subject, "versions", n))
        return await self._asked(("version", subject, n), request, to_registered)

    async def latest(self, subject: str) -> RegisteredSchema:
        """The latest version of a subject, as it was at most `latest_ttl` seconds ago, or twice that."""
        _check_subject(subject)
        served = self.serving(subject)
        if served is not None:
            return served
        return await self._asked(("latest", subject), *self._ask_latest(subject))

    def serving(self, subject: str) -> RegisteredSchema | None:
        """The latest version of a subject that is known now; None: it has to be asked for.

        One that is old is asked for in the background.
        """
        self._enter()
        served = self._latest.get(subject, self._now())
        if served is None:
            return None
        if served.is_stale:
            self._refresh(subject)
        return served.schema

    def _ask_latest(
        self, subject: str
    ) -> tuple[Request, Callable[[Any], RegisteredSchema], Callable[[RegisteredSchema], None]]:
        asked_at = self._now()

        def keep(found: RegisteredSchema) -> None:
            # As old as the question: the answer may be of that moment.
            if not self._latest.put(subject, found, asked_at):
                self._conversation.turn_to_next()

        return Request("GET", path_of("subjects", subject, "versions", "latest")), to_registered, keep

    def _refresh(self, subject: str) -> None:
        key = "latest", subject
        try:
            self._failures.check(key, self._now())
        except RegistryError:
            return
        work = self._work(key, *self._ask_latest(subject))

        async def behind(flight: Flight[RegisteredSchema]) -> RegisteredSchema:
            try:
                return await work(flight)
            except RegistryError as error:
                self._tell(subject, error)
                raise

        self._flights.begin(key, self._now() + self.timeout, behind)

    def _tell(self, subject: str, error: RegistryError) -> None:
        now = self._now()
        if now - self._told_at >= _QUIET:
            self._told_at = now
            log.warning(
                "the latest version of the subject %s could not be asked for again: %s", subject, error
            )

    async def compatible(self, subject: str, schema: Schema, version: int | str = "latest") -> bool:
        """Whether a schema is compatible with a version of a subject."""
        _check_question(subject, schema)
        if not isinstance(version, str):
            check_number("version", version)
        path = path_of("compatibility", "subjects", subject, "versions", version)
        request = Request("POST", path, _body(schema))
        return await self._asked(("compatible", subject, schema, version), request, to_compatible)

    async def subjects(self) -> list[str]:
        """The names of all subjects."""
        return list(await self._asked(("subjects",), Request("GET", "/subjects"), to_subjects))

    # ----- requests

    async def _asked(
        self,
        key: Hashable,
        request: Request,
        to: Callable[[Any], T],
        keep: Callable[[T], None] = lambda _found: None,
    ) -> T:
        """The content of the answer, which any number of tasks share."""
        self._enter()
        now = self._now()
        self._failures.check(key, now)
        return await self._flights.share(key, now + self.timeout, self._work(key, request, to, keep))

    def _work(
        self, key: Hashable, request: Request, to: Callable[[Any], T], keep: Callable[[T], None]
    ) -> Callable[[Flight[T]], Coroutine[Any, Any, T]]:
        async def work(flight: Flight[T]) -> T:
            try:
                answer: Answer = await self._conversation.ask(request, flight)
                found = read(answer, to)
            except RegistryError as error:
                if not error.retriable:
                    self._failures.put(key, error, self._now())
                raise
            keep(found)
            return found

        return work

    def _enter(self) -> None:
        """Check that this call is possible: a registry belongs to one loop."""
        loop = asyncio.get_running_loop()
        if self._closed:
            raise StateError("the registry is closed")
        if self._loop is None:
            self._loop = loop
        elif self._loop is not loop:
            raise StateError(
                "the registry belongs to the event loop of its first request, and this is another one: "
                "create one for each loop"
            )

    def _now(self) -> float:
        return asyncio.get_running_loop().time()


def _body(schema: Schema) -> bytes:
    if not isinstance(schema, Schema):
        raise ConfigurationError(f"a schema is a Schema, not {type(schema).__name__}")
    said: dict[str, Any] = {"schema": schema.text}
    if schema.type != "AVRO":
        said["schemaType"] = schema.type
    if schema.references:
        said["references"] = [
            {"name": each.name, "subject": each.subject, "version": each.version}
            for each in schema.references
        ]
    return json.dumps(said).encode()


def _check_question(subject: object, schema: object, normalize: object = False) -> None:
    _check_subject(subject)
    if not isinstance(normalize, bool):
        raise ConfigurationError(f"normalize must be True or False, not {type(normalize).__name__}")
    if not isinstance(schema, Schema):
        raise ConfigurationError(f"schema must be a Schema, not {type(schema).__name__}")


def _check_subject(subject: object) -> None:
    if not isinstance(subject, str):
        raise ConfigurationError(f"the subject must be a str, not {type(subject).__name__}")


def _check_numbers(timeout: float, cache_size: int, latest_ttl: float) -> None:
    if not _is_number(timeout) or not 0 < timeout <= sys.float_info.max:
        raise ConfigurationError("timeout: must be a number of seconds above 0")
    if type(cache_size) is not int or cache_size < 1:
        raise ConfigurationError("cache_size: must be a whole number, 1 or more")
    # Not a huge whole number, which is no time.
    if not _is_number(latest_ttl) or not (0 <= latest_ttl <= sys.float_info.max or latest_ttl == math.inf):
        raise ConfigurationError("latest_ttl: must be a number of seconds, 0 or more")


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _check_client(
    client: httpx2.AsyncClient | None, ssl_context: ssl.SSLContext | None, proxy: str | None
) -> None:
    if ssl_context is not None and not isinstance(ssl_context, ssl.SSLContext):
        raise ConfigurationError(f"ssl_context: must be an ssl.SSLContext, not {type(ssl_context).__name__}")
    if proxy is not None and not isinstance(proxy, str):
        raise ConfigurationError(f"proxy: must be a URL, not {type(proxy).__name__}")
    if proxy is not None and not proxy.startswith(_PROXIES):
        # The HTTP client would show it, with its password.
        raise ConfigurationError(f"proxy: must be a URL that begins with {', '.join(_PROXIES)}")
    if client is None:
        return
    if not isinstance(client, httpx2.AsyncClient):
        raise ConfigurationError(f"client: must be an httpx2.AsyncClient, not {type(client).__name__}")
    if ssl_context is not None or proxy is not None:
        raise ConfigurationError("client: has its own TLS and proxy; give it without ssl_context and proxy")

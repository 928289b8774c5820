"""The HTTP conversation with a registry: one request, tried again at the next server until its time is over."""

from __future__ import annotations

import asyncio
import random
import time
from typing import TYPE_CHECKING, Final, Protocol

import attrs
import httpx2

from aioproducer.errors import text_of
from aioproducer.registry.asking.answers import Answer, error_of, retry_after
from aioproducer.registry.errors import RegistryError

if TYPE_CHECKING:
    import ssl

    from aioproducer.registry.asking.addresses import Address
    from aioproducer.registry.asking.credentials import Credentials

__all__ = ["Conversation", "Deadline", "Request"]

LARGEST_ANSWER: Final = 4 * 1024 * 1024
_FIRST_PAUSE: Final = 0.1
_LONGEST_PAUSE: Final = 2.0
_SPREAD: Final = 0.2
# Errors behind an error.
_DEEPEST: Final = 10
_MEDIA_TYPE: Final = "application/vnd.schemaregistry.v1+json"


class Deadline(Protocol):
    """The end of a request, which may move while callers join, and the last failure on the way."""

    until: float
    trouble: RegistryError | None
    # The address that was asked last.
    url: str | None
    # The limit of the present attempt, if that ends with the request: it moves as well.
    limit: asyncio.Timeout | None


@attrs.frozen
class Request:
    """A request to a registry: `path` is percent-encoded."""

    method: str
    path: str
    body: bytes | None = None


@attrs.frozen
class _Failure:
    """An attempt that has failed: its error, and the seconds in which its server wants no other."""

    error: RegistryError
    rest: float = 0.0


class Conversation:
    """Sends requests to the servers of a registry. A `client` of the user is not closed here."""

    def __init__(
        self,
        addresses: tuple[Address, ...],
        credentials: Credentials,
        timeout: float,
        client: httpx2.AsyncClient | None,
        ssl_context: ssl.SSLContext | None,
        proxy: str | None,
    ) -> None:
        self._addresses = addresses
        self._credentials = credentials
        # One that does not answer must not use up the time for the others.
        self._share = timeout / len(addresses)
        self._client = client
        self._is_ours = client is None
        self._ssl_context = ssl_context
        self._proxy = proxy
        self._opening = asyncio.Lock()
        # The server that is asked first: the one that answered last.
        self._at = 0

    async def ask(self, request: Request, deadline: Deadline) -> Answer:
        """The successful answer; RegistryError for a refusal, or when the time is over."""
        pause = _FIRST_PAUSE
        # When each server may be asked again.
        rested = [0.0] * len(self._addresses)
        while True:
            at = self._at
            answer = await self._once(self._addresses[at], request, deadline)
            if isinstance(answer, Answer):
                return answer
            if not answer.error.retriable:
                raise answer.error
            deadline.trouble = answer.error
            now = asyncio.get_running_loop().time()
            rested[at] = now + answer.rest
            if self._at == at:
                self._at = _next(at, rested, now + pause)
            wait = max(pause * random.uniform(1 - _SPREAD, 1 + _SPREAD), rested[self._at] - now)  # noqa: S311 - no secret
            pause = min(2 * pause, _LONGEST_PAUSE)
            if not await _slept(wait, deadline):
                raise answer.error

    def turn_to_next(self) -> None:
        """Ask the next server first: the one that answered last is behind it."""
        self._at = (self._at + 1) % len(self._addresses)

    async def close(self) -> None:
        """Close the connections."""
        client, self._client = self._client, None
        if client is not None and self._is_ours:
            await client.aclose()

    async def _once(self, address: Address, request: Request, deadline: Deadline) -> Answer | _Failure:
        deadline.url = url = address.base + request.path
        left = deadline.until - asyncio.get_running_loop().time()
        limit = left if len(self._addresses) == 1 else min(left, self._share)
        retriable = True
        cause: Exception | None = None
        try:
            async with asyncio.timeout(limit) as running:
                deadline.limit = running if len(self._addresses) == 1 else None
                try:
                    answer = await self._exchanged(url, address, request)
                finally:
                    deadline.limit = None
            if answer.good:
                return answer
            error = error_of(answer, self._credentials.without)
            return _Failure(error, retry_after(answer, time.time()))
        except RegistryError as raised:
            return _Failure(raised.with_traceback(None))
        except TimeoutError:
            text = "the schema registry did not answer in time"
        except (httpx2.LocalProtocolError, httpx2.InvalidURL):
            # Their texts have headers.
            text, retriable = "the request cannot be sent", False
        except (httpx2.RequestError, OSError) as raised:
            text, cause = "the schema registry cannot be reached", ConnectionError(self._reason(raised))
        except Exception as raised:  # noqa: BLE001  # of the user's client
            text, retriable = f"the HTTP client raised {type(raised).__name__}", False
            cause = RuntimeError(self._reason(raised))
        return _Failure(RegistryError(text, url=url, retriable=retriable, cause=cause))

    def _reason(self, error: BaseException) -> str:
        """The text of an error of the client without secrets; the errors themselves hold requests with headers."""
        text, inner, seen = text_of(error), error.__cause__ or error.__context__, 0
        while inner is not None and seen < _DEEPEST:
            if isinstance(inner, OSError) and text_of(inner):
                text = text_of(inner)
            inner, seen = inner.__cause__ or inner.__context__, seen + 1
        return self._credentials.without(text or type(error).__name__)

    async def _exchanged(self, url: str, address: Address, request: Request) -> Answer:
        client = await self._opened()
        headers = httpx2.Headers(await self._credentials.headers(address.base))
        headers["Accept"] = _MEDIA_TYPE
        if request.body is not None:
            headers["Content-Type"] = _MEDIA_TYPE
        async with client.stream(
            request.method, url, content=request.body, headers=headers, follow_redirects=False, timeout=None
        ) as response:
            body = bytearray()
            async for piece in response.aiter_bytes():
                body += piece
                if len(body) > LARGEST_ANSWER:
                    raise RegistryError(
                        f"the answer of the schema registry is larger than {LARGEST_ANSWER} bytes", url=url
                    )
            return Answer(response.status_code, bytes(body), url, response.headers.get("Retry-After"))

    async def _opened(self) -> httpx2.AsyncClient:
        if self._client is not None:
            return self._client
        async with self._opening:
            if self._client is None:
                # Environment variables of the process name no proxy and no password here.
                self._client = httpx2.AsyncClient(
                    verify=await self._trust(), proxy=self._proxy, trust_env=False, timeout=None
                )
            return self._client

    async def _trust(self) -> ssl.SSLContext | bool:
        if self._ssl_context is not None:
            return self._ssl_context
        bases = [address.base for address in self._addresses]
        if not any(base.startswith("https:") for base in (*bases, self._proxy or "")):
            return False
        # It reads the certificates of the system.
        return await asyncio.to_thread(httpx2.create_ssl_context, trust_env=False)


def _next(at: int, rested: list[float], soon: float) -> int:
    """The server to ask after this one: the next one that wants no rest then, otherwise the first that may be asked again."""
    others = [(at + step) % len(rested) for step in range(1, len(rested) + 1)]
    return next((other for other in others if rested[other] <= soon), min(others, key=rested.__getitem__))


async def _slept(seconds: float, deadline: Deadline) -> bool:
    """Wait so long; False when the time of the request is over before."""
    loop = asyncio.get_running_loop()
    until = loop.time() + seconds
    # The time of the request may be prolonged meanwhile.
    while (left := min(until, deadline.until) - loop.time()) > 0:  # noqa: ASYNC110 - a pause, for which no event comes
        await asyncio.sleep(left)
    return until < deadline.until

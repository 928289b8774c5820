"""Producers in web applications: a lifespan that starts and closes them, and an app that answers probes.

Both speak ASGI and need no package of a framework.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import Any, Self, TypeAlias

from aioproducer.errors import StateError
from aioproducer.producer import Producer
from aioproducer.stats import Health

__all__ = ["Probes", "lifespan"]

_Source: TypeAlias = Producer[Any, Any] | Callable[[], Producer[Any, Any]]
# A function of the application whose context is the time in which the application runs.
_Lifespan: TypeAlias = Callable[[Any], AbstractAsyncContextManager[Any]]
# Each framework has message types of its own.
_Receive: TypeAlias = Callable[[], Awaitable[Any]]
_Send: TypeAlias = Callable[[Any], Awaitable[None]]

_READ = ("GET", "HEAD")


def lifespan(
    *producers: _Source, wait_ready: float | None = None, inner: _Lifespan | None = None
) -> Callable[[Any], AbstractAsyncContextManager[dict[str, Any]]]:
    """A lifespan for FastAPI, Starlette and Litestar: it starts the producers in order, and closes them in reverse order.

    A producer starts once. In place of one, pass a function that makes it, for an application that starts several times,
    as in tests: it is called at each start. A producer that has run already is a StateError.

    The state that it yields is `{"producer": producer}`, with several producers `{"producers": (first, second, …)}`.
    With `wait_ready`, each start waits at most so many seconds until a broker has answered, or raises the reason.
    `inner` is another lifespan, which runs while the producers do. Its state is added, and wins where both have a name.
    """
    _require(producers)

    @asynccontextmanager
    async def running(app: Any) -> AsyncIterator[dict[str, Any]]:
        async with AsyncExitStack() as stack:
            started: list[Producer[Any, Any]] = []
            for source in producers:
                producer = _made(source)
                await _start(producer, wait_ready)
                stack.push_async_callback(producer.close)
                started.append(producer)
            state = None if inner is None else await stack.enter_async_context(inner(app))
            own = {"producers": tuple(started)} if len(started) > 1 else {"producer": started[0]}
            yield own | dict(state or {})

    return running


def _made(source: _Source) -> Producer[Any, Any]:
    if isinstance(source, Producer):
        if source.health().state == "closed":
            raise StateError(
                "the producer ran before, with an earlier start of the application, and can be started once only: pass a function "
                "that makes one, such as lifespan(lambda: Producer(...))"
            )
        return source
    made = source()
    if not isinstance(made, Producer):
        raise TypeError(f"the function must give a producer, not {type(made).__name__}")
    return made


async def _start(producer: Producer[Any, Any], wait_ready: float | None) -> None:
    try:
        await producer.start(wait_ready=wait_ready)
    except BaseException:
        # A producer that others have started is theirs to close.
        if producer.health().state == "new":
            await producer.close()
        raise


class Probes:
    """An ASGI app with the health of producers, to be mounted: `app.mount("/probes", Probes(producer))`.

    `Probes.of_state()` is for producers that the lifespan makes: it finds them in the state of the application.

    `GET` and `HEAD` of `/live` and `/ready` answer 200, or 503 where one of the producers is not, and tell both facts and
    the problems. `/health` answers 200 with all facts of each producer. Nothing of it does I/O.
    """

    # None: those of the state.
    _producers: tuple[Producer[Any, Any], ...] = ()

    def __init__(self, *producers: Producer[Any, Any]) -> None:
        _require(producers)
        if not all(isinstance(each, Producer) for each in producers):
            raise TypeError("pass producers; for those that lifespan() makes there is Probes.of_state()")
        self._producers = producers

    @classmethod
    def of_state(cls) -> Self:
        """The probes of the producers that `lifespan()` has put into the state of the application, as Starlette and FastAPI keep it."""
        return cls.__new__(cls)

    async def __call__(self, scope: Mapping[str, Any], receive: _Receive, send: _Send) -> None:
        """Answer one request."""
        if scope["type"] == "websocket":
            await send({"type": "websocket.close"})
            return
        if scope["type"] != "http":
            # As ASGI has it, a server then goes on without the events of a lifespan.
            raise ValueError(f"Probes answers HTTP only, not {scope['type']!r}")
        status, facts = self._answer(_path(scope), scope["method"], self._producers or _of_state(scope))
        body = json.dumps(facts).encode()
        headers = [
            (b"content-type", b"application/json"),
            (b"content-length", b"%d" % len(body)),
            (b"cache-control", b"no-store"),
        ]
        if status == 405:
            headers.append((b"allow", ", ".join(_READ).encode()))
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else body})

    def _answer(
        self, path: str, method: str, producers: tuple[Producer[Any, Any], ...]
    ) -> tuple[int, dict[str, Any]]:
        if path not in ("/live", "/ready", "/health"):
            return 404, {"detail": "not found: the probes are /live, /ready and /health"}
        if method not in _READ:
            return 405, {"detail": "probes are read by GET and HEAD"}
        found = [producer.health() for producer in producers]
        facts: dict[str, Any] = {
            "live": all(each.live for each in found),
            "ready": all(each.ready for each in found),
        }
        if path == "/health":
            names = [producer.config.client_id for producer in producers]
            each = [{"client_id": name} | health.as_dict() for name, health in zip(names, found, strict=True)]
            return 200, facts | {"producers": each}
        return 200 if facts[path[1:]] else 503, facts | {"problems": _problems(producers, found)}


def _problems(producers: tuple[Producer[Any, Any], ...], found: list[Health]) -> list[str]:
    """The problems in words; those of several producers begin with the client id."""
    if len(found) == 1:
        return list(found[0].problems)
    return [
        f"{producer.config.client_id}: {problem}"
        for producer, health in zip(producers, found, strict=True)
        for problem in health.problems
    ]


def _of_state(scope: Mapping[str, Any]) -> tuple[Producer[Any, Any], ...]:
    state = scope.get("state") or {}
    found = tuple(state.get("producers") or filter(None, [state.get("producer")]))
    if not found:
        raise RuntimeError(
            "the state of the application has no producer: is lifespan(...) of aioproducer.asgi the application's lifespan?"
        )
    return found


def _path(scope: Mapping[str, Any]) -> str:
    """The path below the place where the app is mounted.

    Starlette names that place beside the whole path; Litestar cuts it off, and ends each path with a slash.
    """
    path: str = scope["path"]
    root: str = scope.get("root_path", "").rstrip("/")
    below = path[len(root) :] if root and path.startswith(f"{root}/") else path
    return below.removesuffix("/")


def _require(producers: tuple[object, ...]) -> None:
    if not producers:
        raise TypeError("pass the producer, or several")

"""The public interface of the embedded registry."""

from __future__ import annotations

import base64
from types import TracebackType
from typing import Any, Self

from aioproducer.testing.registry.faults import RegistryFaults
from aioproducer.testing.registry.routes import RegistryRequest, answered
from aioproducer.testing.registry.server import Connections
from aioproducer.testing.registry.subjects import LEVELS, Compatibility, Subjects

__all__ = ["EmbeddedRegistry"]


class EmbeddedRegistry:
    """A schema registry inside this process, on loopback, for tests and demonstrations.

    `async with EmbeddedRegistry() as registry:` and point any client of Confluent's REST API to `registry.url`.
    Everything is in memory only. It runs in the event loop that started it.

    `compatibility` is "NONE" or "BACKWARD", which is checked for Avro. `guids=False`: like registries that know no
    guids. `auth`: (user, password) or a bearer token that requests must have. `port=0` selects a free port.
    `faults.add(...)` injects faults.
    """

    def __init__(
        self,
        *,
        port: int = 0,
        compatibility: Compatibility = "NONE",
        guids: bool = True,
        auth: tuple[str, str] | str | None = None,
    ) -> None:
        self.faults = RegistryFaults()
        self._subjects = Subjects(_checked(compatibility), guids=guids)
        self._port = port
        self._authorization = None if auth is None else _authorization(auth)
        self._connections = Connections(self._answer, self.faults)
        self._running = False

    async def start(self) -> None:
        """Listen. After `stop()` it listens at the same port again, with all subjects."""
        if self._running:
            raise RuntimeError("this embedded registry is already running")
        await self._connections.open(self._connections.port or self._port)
        self._running = True

    async def stop(self) -> None:
        """End all connections and close the port; a second call does nothing."""
        if self._running:
            self._running = False
            self.faults.heal()
            await self._connections.close()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    def __repr__(self) -> str:
        state = "running" if self._running else "stopped"
        return f"<EmbeddedRegistry {state}, {len(self._subjects.names)} subject(s)>"

    @property
    def url(self) -> str:
        """The address for clients."""
        return f"http://127.0.0.1:{self._connections.port}"

    @property
    def subjects(self) -> tuple[str, ...]:
        """The names of all subjects."""
        return tuple(self._subjects.names)

    @property
    def requests(self) -> tuple[RegistryRequest, ...]:
        """The requests that were received, oldest first; the newest 10,000 of them."""
        return tuple(self._connections.requests)

    @property
    def connections(self) -> int:
        """The number of connections that were opened."""
        return self._connections.opened

    def forget_requests(self) -> None:
        """Clear the history."""
        self._connections.requests.clear()

    def versions(self, subject: str) -> list[dict[str, Any]]:
        """The versions of a subject, as the registry tells them."""
        known = self._subjects.versions(subject) if subject in self._subjects.names else []
        return [self._subjects.described(subject, version) for version in known]

    def set_compatibility(self, level: Compatibility, subject: str | None = None) -> None:
        """Set the compatibility that new versions need, of one subject or of all that have none of their own."""
        if subject is None:
            self._subjects.level = _checked(level)
        else:
            self._subjects.levels[subject] = _checked(level)

    def _answer(self, request: RegistryRequest) -> tuple[int, Any]:
        if self._authorization not in (None, request.headers.get("authorization")):
            return 401, {"error_code": 401, "message": "Unauthorized"}
        return answered(self._subjects, request)


def _authorization(auth: tuple[str, str] | str) -> str:
    if isinstance(auth, str):
        return f"Bearer {auth}"
    return "Basic " + base64.b64encode(":".join(auth).encode()).decode()


def _checked(level: Compatibility) -> Compatibility:
    if level not in LEVELS:
        raise ValueError(f"compatibility={level!r:.60}: must be one of {', '.join(LEVELS)}")
    return level

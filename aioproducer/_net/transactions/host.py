"""The interface of a producer for its transactions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from aioproducer._net.cluster.session import Session

if TYPE_CHECKING:
    import asyncio

    from aioproducer._net.log import Log
    from aioproducer._net.tasks import Tasks
    from aioproducer._state.machines import Machines


class Host(Session, Protocol):
    """A running producer."""

    @property
    def log(self) -> Log:
        """The log of the producer."""

    @property
    def machines(self) -> Machines:
        """Its state machines."""

    @property
    def tasks(self) -> Tasks | None:
        """The tasks that end with the producer; None before it began, and after its end."""

    @property
    def crashed(self) -> BaseException | None:
        """The cause of its end, if it ends because of a bug, or cannot go on."""

    def crash(self, cause: BaseException) -> None:
        """End the producer because of a bug, or because it cannot go on."""

    def unresolved(self) -> int:
        """The number of accepted records without an outcome."""

    def flush(self) -> asyncio.Future[None]:
        """Send the buffered records without lingering; done when all of them have their outcome."""

    async def no_call_waits(self) -> None:
        """Wait until no call waits to be accepted."""

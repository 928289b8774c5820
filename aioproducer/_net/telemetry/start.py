"""The start of the telemetry: with the first broker that takes metrics, and not before."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aioproducer._wire.apis import TELEMETRY_APIS

if TYPE_CHECKING:
    from collections.abc import Callable

    from aioproducer._net.connecting.connection.connection import Connection
    from aioproducer._net.runtime.engine import Engine
    from aioproducer._net.telemetry.telemetry import Telemetry
    from aioproducer._state.telemetry.readings import Reading
    from aioproducer._state.telemetry.registered import RegisteredMetrics

__all__ = ["TelemetryStart"]


class TelemetryStart:
    """Follows the control connection of a producer; `telemetry` is None until a broker takes metrics."""

    def __init__(self, engine: Engine, registered: Callable[[], RegisteredMetrics]) -> None:
        self.engine = engine
        self.registered = registered
        self.began_at = engine.loop.time()
        self.counted_before = _counted_before(engine)
        self.telemetry: Telemetry | None = None
        engine.control.on_connected = self._connected

    def _connected(self, connection: Connection) -> None:
        """There is a new control connection."""
        if self.telemetry is not None:
            self.telemetry.connected()
        elif connection.versions.chosen.keys() >= TELEMETRY_APIS:
            try:
                self._start(connection)
            except Exception:  # the connection is of use all the same
                self.engine.log.debug("telemetry could not be started", exc_info=True)

    def _start(self, connection: Connection) -> None:
        # Most clusters take no metrics: their producers never load this.
        from aioproducer._net.telemetry.telemetry import Telemetry  # noqa: PLC0415

        telemetry = Telemetry(self.engine, self.registered, self.began_at, self.counted_before)
        if self.engine.supervisor.look_after("telemetry", telemetry.run):
            self.telemetry = telemetry

    async def close(self, limit: float) -> None:
        """Make the last push, if a broker expects it, for at most so many seconds."""
        if self.telemetry is not None:
            await self.telemetry.close(limit)


def _counted_before(engine: Engine) -> Reading | None:
    """The counters of a producer that is started again, which it may have pushed already; None at its first start."""
    if not engine.counters.had_a_start:
        return None
    from aioproducer._net.telemetry.reading import reading_of  # noqa: PLC0415  # as above

    return reading_of(engine)

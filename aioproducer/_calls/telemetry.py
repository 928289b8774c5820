"""The calls of a producer about the metrics that it pushes to brokers."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Literal

from aioproducer._deferred import deferred
from aioproducer.errors import MetadataTimeoutError

if TYPE_CHECKING:
    from aioproducer._calls import running
    from aioproducer._net.runtime.engine import Engine
    from aioproducer._net.telemetry.start import TelemetryStart
    from aioproducer._state.telemetry.registered import RegisteredMetrics
    from aioproducer.config import ProducerConfig
else:
    running = deferred("aioproducer._calls.running")


class TelemetryCalls:
    """The calls of `Producer` for the metrics that brokers ask clients for (KIP-714, KIP-1076)."""

    if TYPE_CHECKING:
        config: ProducerConfig
        _telemetry: TelemetryStart | None

    def _running(self) -> Engine:
        """The engine, or the reason why there is none to be used from here."""
        raise NotImplementedError

    def _timeout(self, timeout: float | None) -> float:
        """The limit of a call that waits, in seconds."""
        raise NotImplementedError

    def _registered_metrics(self) -> RegisteredMetrics:
        """The metrics of the application that are pushed."""
        raise NotImplementedError

    async def client_instance_id(self, timeout: float | None = None) -> uuid.UUID | None:
        """The id by which the cluster tells the metrics of this producer from those of others; None if it takes no metrics.

        Waits at most `timeout` seconds (default: `max_block_ms`) for the answers of a broker. The id is given where brokers
        have a receiver of metrics, also while they ask for none, and stays the same.
        """
        engine = self._running()
        limit = self._timeout(timeout)
        if not self.config.enable_metrics_push:
            return None
        until = engine.loop.time() + limit
        await running.first_answer(engine, limit, self._running)
        telemetry = None if self._telemetry is None else self._telemetry.telemetry
        if telemetry is None:
            return None
        try:
            async with asyncio.timeout_at(until):
                found = await telemetry.instance_id()
        except TimeoutError:
            raise MetadataTimeoutError("no broker has given a client instance id", waited=limit) from None
        if found is None:
            self._running()
        return found

    def register_metric(
        self,
        name: str,
        read: Callable[[], float],
        *,
        kind: Literal["gauge", "sum"] = "gauge",
        attributes: Mapping[str, str | bool | int | float] | None = None,
    ) -> None:
        """Push a metric of the application beside the producer's own, where the cluster asks for it (KIP-1076).

        `read()` returns the present number, or the total of a "sum", at each push, in the event loop. A value is left out, and
        this is logged once, if `read()` raises or takes 10 ms, or if a sum goes back. A second metric of the same name replaces
        the first. `name` has parts of a-z, 0-9 and "_", joined by dots; ConfigurationError otherwise.
        """
        self._registered_metrics().register(name, read, kind, attributes)

    def unregister_metric(self, name: str) -> None:
        """Push this metric of the application no more; an unknown name does nothing."""
        self._registered_metrics().unregister(name)

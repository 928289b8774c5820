"""The control connection: asks any broker for metadata and for a producer id, whichever answers."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, TypeVar

import anyio

from aioproducer._net.dialing import dial
from aioproducer.errors import BrokerUnavailableError, KafkaError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from aioproducer._net.connection import Connection
    from aioproducer._net.engine import Engine

log = logging.getLogger("aioproducer")

Response = TypeVar("Response", bound="tuple[Any, ...]")


class Control:
    """One connection beside those of the senders, so that no Produce request holds up a question."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.connection: Connection | None = None
        self.failures_in_a_row = 0
        # Metadata and identity may both find no connection: one of them dials, the other uses what comes of it.
        self.dialing = anyio.Lock()

    async def ask(self, message: tuple[Any, ...], response_type: type[Response]) -> Response:
        """The answer of the first broker that gives one; raises what the last one failed with."""
        timeout = self.engine.config.request_timeout_ms / 1000
        async with self.dialing:
            connection = await self._connected()
        return await connection.request(message, response_type, timeout=timeout)

    async def _connected(self) -> Connection:
        if self.connection is not None and not self.connection.closed:
            return self.connection
        last: KafkaError = BrokerUnavailableError("no broker is known")
        for host, port, node_id in self._candidates():
            try:
                self.connection = await dial(
                    host, port, self.engine.config, node_id=node_id, setup_timeout=self._patience()
                )
            except KafkaError as error:
                last = error
                self.engine.last_error = error
                self.failures_in_a_row += 1
                continue
            self.failures_in_a_row = 0
            return self.connection
        raise last

    def _patience(self) -> float:
        return self.engine.setup_timeout.after(self.failures_in_a_row, self.engine.rng)

    def _candidates(self) -> Iterator[tuple[str, int, int | None]]:
        """The brokers that are known, then the bootstrap addresses; each kind in random order."""
        nodes = list(self.engine.view.nodes)
        self.engine.rng.shuffle(nodes)
        for node in nodes:
            yield node.host, node.port, node.id
        addresses = list(self.engine.config.bootstrap_servers)
        self.engine.rng.shuffle(addresses)
        for host, port in addresses:
            yield host, port, None

    def close(self) -> None:
        """Close the connection, if there is one."""
        if self.connection is not None:
            self.connection.close()
            self.connection = None

"""A session for requests to coordinators: that of a producer, or a short one for a few requests."""

from __future__ import annotations

import asyncio
import logging
import random
from typing import TYPE_CHECKING, Protocol

from aioproducer._net.cluster.control import Control
from aioproducer._net.connecting.addresses import Addresses
from aioproducer._net.connecting.connection.traffic import Traffic
from aioproducer._net.connecting.contact import Contact
from aioproducer._net.connecting.dialing import SOCKETS, Network
from aioproducer._net.connecting.idle_connections import IdleConnections
from aioproducer._net.log import log_of
from aioproducer._net.securing.protocol import security_of
from aioproducer._state.backoff import Backoff
from aioproducer._state.cluster.metadata import MetadataView

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

    from aioproducer.config import ProducerConfig


class Session(Protocol):
    """The parts that a request needs: addresses to dial, a connection to any broker, and the settings."""

    @property
    def last_error(self) -> BaseException | None:
        """The newest error."""

    @last_error.setter
    def last_error(self, error: BaseException) -> None:
        """Set the newest error."""

    @property
    def config(self) -> ProducerConfig:
        """The settings."""

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The event loop of all connections."""

    @property
    def rng(self) -> random.Random:
        """Random numbers for backoffs."""

    @property
    def addresses(self) -> Addresses:
        """The addresses that can be dialed."""

    @property
    def view(self) -> MetadataView:
        """The known brokers."""

    @property
    def control(self) -> Control:
        """The connection to any broker."""


class ShortSession:
    """A few questions to a cluster without a producer: `async with ShortSession(config) as session: ...`."""

    def __init__(self, config: ProducerConfig, network: Network = SOCKETS) -> None:
        self.config = config
        self.loop = asyncio.get_running_loop()
        self.rng = random.Random()  # noqa: S311  # jitter, not secrets
        self.addresses = Addresses(
            config, self.loop, self.rng, security_of(config, self.loop, self.rng), network
        )
        # The view stays empty: requests go to the bootstrap addresses only.
        self.view = MetadataView(
            max_age=config.metadata_max_age_ms / 1000,
            max_idle=config.metadata_max_idle_ms / 1000,
            backoff=Backoff(config.retry_backoff_ms / 1000, config.retry_backoff_max_ms / 1000),
            rebootstrap_after=None,
        )
        self._last_error: BaseException | None = None
        # Shared by the calls of the session.
        self.idle = IdleConnections(config.connections_max_idle_ms, self.addresses.successor_of)
        self.control = Control(self, Contact(log_of(config.client_id), logging.DEBUG), Traffic())

    @property
    def last_error(self) -> BaseException | None:
        """The newest error."""
        return self._last_error

    @last_error.setter
    def last_error(self, error: BaseException) -> None:
        self._last_error = error

    def close_control_if_idle(self) -> None:
        """Close the connection to any broker if it was not used for `connections_max_idle_ms`."""
        limit = self.config.connections_max_idle_ms / 1000
        if limit > 0:
            self.control.close_if_idle(self.loop.time(), limit)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.control.end()
        self.addresses.close()

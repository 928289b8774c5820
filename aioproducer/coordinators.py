"""Questions to the coordinators of a cluster, without a producer."""

from __future__ import annotations

from collections.abc import Iterable
from types import TracebackType
from typing import Any, Self, Unpack

from aioproducer._net.cluster.session import ShortSession
from aioproducer._net.connecting.dialing import SOCKETS, Network
from aioproducer._net.transactions.foreign_transactions import end_foreign, fence_all, list_all
from aioproducer._net.transactions.stable_offsets import fetch_committed
from aioproducer.config import (
    BootstrapServers,
    ConnectionSettings,
    ProducerConfig,
    config_of_call,
    require_config,
    require_connection_settings,
)
from aioproducer.config.seconds import checked_timeout
from aioproducer.errors import StateError
from aioproducer.records import OffsetAndMetadata, TopicPartition, TransactionListing
from aioproducer.transaction import TransactionHandle

__all__ = ["Coordinators", "committed_offsets", "fence", "list_transactions"]


class Coordinators:
    """The coordinators of transactions and of groups: `async with Coordinators("localhost:9092") as coordinators:`.

    It takes the settings of connections only: addresses, timeouts and backoffs. Each call takes `timeout` seconds at most
    (default: the setting `max_block_ms`).
    """

    config: ProducerConfig
    # The network that connections are opened in.
    _network: Network = SOCKETS

    def __init__(self, bootstrap_servers: BootstrapServers, **settings: Unpack[ConnectionSettings]) -> None:
        require_connection_settings(settings)
        self.config = config_of_call(bootstrap_servers, settings)
        self._session: ShortSession | None = None

    @classmethod
    def from_config(cls, config: ProducerConfig) -> Self:
        """The coordinators of a producer's cluster, with the connection settings of that producer."""
        require_config(config)
        coordinators = cls.__new__(cls)
        coordinators.config = config
        coordinators._session = None  # noqa: SLF001  # a constructor
        return coordinators

    async def __aenter__(self) -> Self:
        if self._session is not None:
            raise StateError("the session is already open: use one `async with` at a time")
        self._session = await ShortSession(self.config, self._network).__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        session, self._session = self._session, None
        if session is not None:
            await session.__aexit__(kind, error, traceback)

    async def fence(self, transactional_ids: Iterable[str], *, timeout: float | None = None) -> None:
        """Abort the open transactions of these ids, and fence their producers.

        The limit is for all ids together.
        """
        session = self._asking()
        await fence_all(session, transactional_ids, self._timeout(timeout), session.idle)

    async def list_transactions(
        self, prefix: str = "", *, timeout: float | None = None
    ) -> list[TransactionListing]:
        """The transactional ids that begin with `prefix`, as all brokers know them, with the state of each."""
        session = self._asking()
        return await list_all(session, prefix, self._timeout(timeout), session.idle)

    async def committed_offsets(
        self, group: str, partitions: Iterable[Any], *, timeout: float | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """The offsets that a group has committed; partitions without one are left out.

        Waits for open transactions that contain offsets of these partitions.
        """
        session = self._asking()
        return await fetch_committed(session, group, partitions, self._timeout(timeout), session.idle)

    async def commit(self, handle: TransactionHandle, *, timeout: float | None = None) -> None:
        """Commit a detached transaction; see `TransactionHandle.commit()` for its errors."""
        await self._end(handle, timeout, committed=True)

    async def abort(self, handle: TransactionHandle, *, timeout: float | None = None) -> None:
        """Abort a detached transaction. Succeeds as well if its time was over."""
        await self._end(handle, timeout, committed=False)

    async def _end(self, handle: TransactionHandle, timeout: float | None, *, committed: bool) -> None:
        session, seconds = self._asking(), self._timeout(timeout)
        if handle.is_empty:
            return
        facts = (handle.transactional_id, handle.producer_id, handle.epoch, handle.version)
        await end_foreign(session, facts, seconds, session.idle, committed=committed)

    def _asking(self) -> ShortSession:
        if self._session is None:
            raise StateError("use `async with Coordinators(...) as coordinators:`")
        self._session.close_control_if_idle()
        return self._session

    def _timeout(self, timeout: float | None) -> float:
        seconds = checked_timeout("timeout", timeout)
        return self.config.max_block_ms / 1000 if seconds is None else seconds


async def fence(
    transactional_ids: Iterable[str],
    bootstrap_servers: BootstrapServers,
    *,
    timeout: float | None = None,
    **settings: Unpack[ConnectionSettings],
) -> None:
    """`Coordinators.fence()` over connections of its own."""
    async with Coordinators.from_config(config_of_call(bootstrap_servers, settings)) as coordinators:
        await coordinators.fence(transactional_ids, timeout=timeout)


async def list_transactions(
    prefix: str,
    bootstrap_servers: BootstrapServers,
    *,
    timeout: float | None = None,
    **settings: Unpack[ConnectionSettings],
) -> list[TransactionListing]:
    """`Coordinators.list_transactions()` over connections of its own."""
    async with Coordinators.from_config(config_of_call(bootstrap_servers, settings)) as coordinators:
        return await coordinators.list_transactions(prefix, timeout=timeout)


async def committed_offsets(
    group: str,
    partitions: Iterable[Any],
    bootstrap_servers: BootstrapServers,
    *,
    timeout: float | None = None,
    **settings: Unpack[ConnectionSettings],
) -> dict[TopicPartition, OffsetAndMetadata]:
    """`Coordinators.committed_offsets()` over connections of its own."""
    async with Coordinators.from_config(config_of_call(bootstrap_servers, settings)) as coordinators:
        return await coordinators.committed_offsets(group, partitions, timeout=timeout)

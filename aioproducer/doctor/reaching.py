"""Reaching the bootstrap servers and the advertised addresses, at most 20 of them at once."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from aioproducer._net.connecting.dialing import SOCKETS, resolve
from aioproducer._net.diagnosing.questions import Questions
from aioproducer._state.connecting.endpoint import BrokerEndpoint, joined
from aioproducer._state.diagnosing.addresses import Settings, address_findings, name_finding, nameless_finding
from aioproducer._state.diagnosing.advertised import (
    Advertised,
    Identity,
    broker_finding,
    mute_finding,
    unresolved,
)
from aioproducer._state.diagnosing.facts import Opening
from aioproducer._state.diagnosing.finding import Finding, Status
from aioproducer.errors import KafkaError

if TYPE_CHECKING:
    from aioproducer._net.connecting.connection.connection import Connection
    from aioproducer._net.diagnosing.opening import Door
    from aioproducer._wire.messages.metadata import MetadataResponseBroker
    from aioproducer.config import Endpoint
    from aioproducer.doctor.budget import Phase
    from aioproducer.doctor.record import Record

__all__ = ["AT_ONCE", "Bootstrap", "Brokers"]

AT_ONCE: Final = 20


class _Reaching:
    """Opens connections, a limited number at once."""

    def __init__(self, door: Door, settings: Settings, record: Record, phase: Phase) -> None:
        self._door = door
        self._settings = settings
        self._record = record
        self._phase = phase
        self._at_once = asyncio.Semaphore(AT_ONCE)

    async def _addresses(self, endpoint: BrokerEndpoint) -> list[str]:
        async with self._at_once:
            return await resolve(endpoint, self._phase.limit(), SOCKETS)

    async def _open(self, endpoint: BrokerEndpoint, address: str) -> tuple[Opening, Connection | None]:
        async with self._at_once:
            return await self._door.open(endpoint, address, self._phase.limit())

    async def _all(self, work: Iterable[Awaitable[None]]) -> None:
        """Do all of this at the same time, until the phase ends."""
        tasks = [asyncio.ensure_future(one) for one in work]
        try:
            with self._phase.scope():
                await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


class Bootstrap(_Reaching):
    """The addresses of `bootstrap.servers`, with the connections that were opened."""

    def __init__(self, door: Door, settings: Settings, record: Record, phase: Phase) -> None:
        super().__init__(door, settings, record, phase)
        self.connections: dict[str, Connection] = {}
        self._came_by: set[str] = set()

    @property
    def came_by(self) -> frozenset[str]:
        """The hosts by which this client came to the cluster, and their addresses."""
        return frozenset(self._came_by)

    async def reach(self, servers: Sequence[Endpoint]) -> None:
        """Examine each server."""
        ports = {server.host: server.port for server in reversed(servers)}
        hosts = dict.fromkeys(server.host for server in servers)
        addresses: dict[str, list[str]] = {}
        with self._record.expecting(*(("dns", host) for host in hosts)):
            await self._look_up({host: ports[host] for host in hosts}, addresses)
        found = [server for server in servers if server.host in addresses]
        places = [
            (str(step), joined(address, server.port))
            for server in found
            for address in addresses[server.host]
            for step in self._settings.steps()
        ]
        with self._record.expecting(*places):
            await self._all(
                self._server(BrokerEndpoint.bootstrap(*server), addresses[server.host]) for server in found
            )

    async def _look_up(self, hosts: Mapping[str, int], addresses: dict[str, list[str]]) -> None:
        """Look all names up; one without an address is a failure where no other has any."""
        failures: dict[str, tuple[KafkaError, float]] = {}

        async def host(name: str) -> None:
            began = self._record.now()
            try:
                found = await self._addresses(BrokerEndpoint.bootstrap(name, hosts[name]))
            except KafkaError as error:
                failures[name] = error, self._record.now() - began
            else:
                addresses[name] = found
                self._record.note("dns", name, name_finding(name, found), self._record.now() - began)

        await self._all(map(host, hosts))
        for name, (error, took) in failures.items():
            self._record.note("dns", name, nameless_finding(name, error, is_only=not addresses), took)

    async def _server(self, endpoint: BrokerEndpoint, addresses: Sequence[str]) -> None:
        opened = await asyncio.gather(*(self._open(endpoint, address) for address in addresses))
        is_reached = any(connection is not None for _, connection in opened)
        for opening, connection in opened:
            if connection is not None:
                self._came_by |= {opening.host, opening.address}
                # Two names may have the same address.
                if self.connections.setdefault(opening.place, connection) is not connection:
                    connection.close()
            self._note(opening, is_reached=is_reached)

    def _note(self, opening: Opening, *, is_reached: bool) -> None:
        found = address_findings(opening, self._settings, time.time(), is_reached=is_reached)
        for step, finding in found.items():
            self._record.note(str(step), opening.place, finding, opening.seconds.get(step, 0.0))


class Brokers(_Reaching):
    """The advertised addresses of all brokers."""

    def __init__(
        self,
        door: Door,
        settings: Settings,
        record: Record,
        phase: Phase,
        cluster_id: str | None,
        came_by: frozenset[str],
    ) -> None:
        super().__init__(door, settings, record, phase)
        self._cluster_id = cluster_id
        self._came_by = came_by
        self.unreachable: set[int] = set()

    async def reach(self, told: Sequence[MetadataResponseBroker]) -> None:
        """Examine each broker."""
        brokers = [
            Advertised(each.node_id, each.host, each.port, each.rack, self._came_by) for each in sorted(told)
        ]
        with self._record.expecting(*(("brokers", broker.target) for broker in brokers)):
            await self._all(map(self._broker, brokers))

    async def _broker(self, broker: Advertised) -> None:
        began = self._record.now()
        finding = await self._finding(broker)
        if finding.status is Status.FAIL:
            self.unreachable.add(broker.node_id)
        self._record.note("brokers", broker.target, finding, self._record.now() - began)

    async def _finding(self, broker: Advertised) -> Finding:
        endpoint = BrokerEndpoint.advertised(broker.host, broker.port, broker.node_id)
        try:
            endpoint.require_valid()
            addresses = await self._addresses(endpoint)
        except KafkaError as error:
            return unresolved(broker, error)
        opened = await asyncio.gather(*(self._open(endpoint, address) for address in addresses))
        connections = [connection for _, connection in opened if connection is not None]
        openings = [opening for opening, _ in opened]
        try:
            identity = await self._identity(broker, connections)
        except KafkaError as error:
            return mute_finding(broker, error)
        finally:
            for connection in connections:
                connection.close()
        return broker_finding(
            broker, openings, identity, self._settings, cluster_id=self._cluster_id, now=time.time()
        )

    async def _identity(self, broker: Advertised, connections: Sequence[Connection]) -> Identity | None:
        if not connections:
            return None
        return await Questions(connections).identity(broker.node_id, self._phase.limit())

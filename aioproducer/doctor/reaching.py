"""Reaching the bootstrap servers and the advertised addresses, at most 20 of them at once."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections import defaultdict
from collections.abc import Awaitable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

import attrs

from aioproducer._net.connecting.dialing import SOCKETS, resolve
from aioproducer._net.diagnosing.questions import Questions
from aioproducer._net.diagnosing.servers import Server
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


@attrs.frozen
class _Route:
    """One address of a server, and the target of its checks."""

    address: str
    target: str


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
            return await self._door.open(endpoint, address, self._phase.limit)

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
    """The addresses of `bootstrap.servers`, and those that lead to a broker, by address and port."""

    def __init__(self, door: Door, settings: Settings, record: Record, phase: Phase) -> None:
        super().__init__(door, settings, record, phase)
        self.servers: dict[str, Server] = {}
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
        found = [BrokerEndpoint.bootstrap(*server) for server in servers if server.host in addresses]
        routes = self._routes(found, addresses)
        places = [
            (str(step), route.target)
            for each in routes.values()
            for route in each
            for step in self._settings.steps()
        ]
        with self._record.expecting(*places):
            await self._all(itertools.starmap(self._server, routes.items()))

    def _routes(
        self, endpoints: Sequence[BrokerEndpoint], addresses: Mapping[str, Sequence[str]]
    ) -> dict[BrokerEndpoint, list[_Route]]:
        """The addresses of each server. One that several names lead to is examined once: only TLS depends on the name."""
        names: dict[str, list[BrokerEndpoint]] = defaultdict(list)
        for endpoint in endpoints:
            for address in addresses[endpoint.host]:
                names[joined(address, endpoint.port)].append(endpoint)
        routes: dict[BrokerEndpoint, list[_Route]] = defaultdict(list)
        for endpoint in endpoints:
            for address in addresses[endpoint.host]:
                place = joined(address, endpoint.port)
                if len(names[place]) == 1:
                    routes[endpoint].append(_Route(address, place))
                elif self._settings.has_tls:
                    routes[endpoint].append(_Route(address, f"{endpoint.name} ({place})"))
                elif names[place][0] is endpoint:
                    routes[endpoint].append(_Route(address, place))
        return routes

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

    async def _server(self, endpoint: BrokerEndpoint, routes: Sequence[_Route]) -> None:
        opened = await asyncio.gather(*(self._open(endpoint, route.address) for route in routes))
        is_reached = any(connection is not None for _, connection in opened)
        for route, (opening, connection) in zip(routes, opened, strict=True):
            if connection is not None:
                self._came_by |= {opening.host, opening.address}
                self._keep(opening.place, Server(self._door, endpoint, connection, opening.address))
            found = address_findings(opening, self._settings, time.time(), is_reached=is_reached)
            for step, finding in found.items():
                self._record.note(str(step), route.target, finding, opening.seconds.get(step, 0.0))

    def _keep(self, place: str, server: Server) -> None:
        # Two names may have the same address.
        if self.servers.setdefault(place, server) is not server:
            server.close()

    def close(self) -> None:
        """Close all connections."""
        for server in self.servers.values():
            server.close()


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
        servers = [
            Server(self._door, endpoint, connection, opening.address)
            for opening, connection in opened
            if connection is not None
        ]
        openings = [opening for opening, _ in opened]
        try:
            identity = await self._identity(broker, servers)
        except KafkaError as error:
            return mute_finding(broker, error)
        finally:
            for server in servers:
                server.close()
        return broker_finding(
            broker, openings, identity, self._settings, cluster_id=self._cluster_id, now=time.time()
        )

    async def _identity(self, broker: Advertised, servers: Sequence[Server]) -> Identity | None:
        if not servers:
            return None
        return await Questions(servers).identity(broker.node_id, self._phase.limit())

"""The sender of one broker: connects, waits until a request may leave, and lets the next one be written."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Final

import anyio
from anyio import WouldBlock

from aioproducer._net.connecting.connection.ends import Ending
from aioproducer._net.connecting.contact import Contact
from aioproducer._net.connecting.link import Link, is_busy, is_idle
from aioproducer._net.log import log_of
from aioproducer._net.observing.connections import CONNECTED, CONNECTING, THROTTLED
from aioproducer._net.producing.requests import ProduceRequests
from aioproducer._net.timers.wakeup import Wakeup
from aioproducer._state.connecting.endpoint import BrokerEndpoint, address_text
from aioproducer.errors import BrokerUnavailableError, KafkaError

if TYPE_CHECKING:
    from aioproducer._net.connecting.connection.connection import Connection
    from aioproducer._net.producing.brokers import Brokers
    from aioproducer._net.transactions.transactions import Transactions
    from aioproducer._state.cluster.metadata import Node
    from aioproducer._state.queues.partition_queue import NodeQueue

# Seconds between two questions for other leaders.
_LOOK_EVERY: Final = 1.0


class Sender:
    """One per broker; its task runs until the broker has left the cluster, or as long as the producer."""

    def __init__(self, brokers: Brokers, queue: NodeQueue) -> None:
        session, machines = brokers.session, brokers.machines
        self.brokers = brokers
        self.transactions = brokers.transactions
        self.config = session.config
        self.loop = session.loop
        self.view = session.view
        self.addresses = session.addresses
        self.drainer = machines.accumulator.drainer
        self.queue = queue
        self.requests = ProduceRequests(
            queue,
            machines,
            self.config,
            self.loop,
            self.transactions,
            compress=brokers.compress,
            hint=brokers.hint,
            crash=brokers.crash,
        )
        self.node_id = queue.node_id
        self.work = Wakeup(self.loop)
        self.link: Link | None = None
        self.contact = Contact(log_of(self.config.client_id))
        self.history = brokers.history_of(self.node_id)
        self.ended = False
        # The task, and a call that connects early.
        self._connecting = asyncio.Lock()

    # -- the task

    async def run(self) -> None:
        """Send the batches that become ready for this broker."""
        while not self.ended:
            await self.work.wait()
            while self._has_work():
                # Most requests have nothing to wait for, and need no coroutine.
                if not self._sends_at_once() and self._has_ready():
                    await self._send_next()

    def _has_work(self) -> bool:
        """Whether partitions may be ready: the draining of a request says more."""
        return bool(self.queue.ready) and (self.transactions is None or not self._is_early(self.transactions))

    def _has_ready(self) -> bool:
        return self._has_work() and self.drainer.has_ready(self.queue, self.loop.time())

    def _is_early(self, transactions: Transactions) -> bool:
        """Whether the previous transaction still has to settle; if so, the sender is woken after that."""
        if transactions.marker_delay.until <= self.loop.time():
            return False
        transactions.after_marker_delay.ring_at(transactions.marker_delay.until, self.work.ring)
        return True

    async def _send_next(self) -> None:
        link = self.link
        if link is None:
            await self.connect()
            return
        if await self._was_muted(link):
            return
        await link.permit()
        try:
            await link.connection.gate.drained()
        except KafkaError:
            link.permits.release()
            # The connection may have ended during its opening, and report that only in the loop's next turn: wait for
            # it.
            await link.ended.wait()
            return
        if not self._is_usable(link) or not self.requests.write_next(link):
            link.permits.release()

    def _is_usable(self, link: Link) -> bool:
        # The answer that returned the permit may have requested a pause.
        connection = link.connection
        return not (connection.closed or (connection.muted_until > 0 and self._pause(link) > 0))

    def send_at_once(self) -> bool:
        """Send one request without a turn of the loop; False: there is none, or it has to wait."""
        return self._has_work() and self._sends_at_once()

    def _sends_at_once(self) -> bool:
        link = self.link
        if link is None or not self._is_usable(link) or not link.connection.gate.writable():
            return False
        try:
            link.permits.acquire_nowait()
        except WouldBlock:
            return False
        if self.requests.write_next(link):
            return True
        link.permits.release()
        return False

    def end_if_idle(self) -> bool:
        """End the task if it is idle: the broker has left the cluster."""
        if self.history.state == CONNECTING or (self.link is not None and is_busy(self.link.connection)):
            return False
        self.leave()
        self.ended = True
        self.work.ring()
        return True

    def look_at_address(self) -> None:
        """Brokers may move: the connection is left when one to the present address is open."""
        node = self.view.brokers.node(self.node_id)
        if node is None or self.link is None:
            return
        connection, endpoint = self.link.connection, self._endpoint_of(node)
        if self.config.acks != 0:
            self.addresses.lead_to(connection, endpoint)
        elif not self.addresses.leads_to(connection, endpoint):
            # No answer would tell that the broker does not read from it any more.
            connection.departure.leave_when_answered()

    def _endpoint_of(self, node: Node) -> BrokerEndpoint:
        return BrokerEndpoint.advertised(node.host, node.port, self.node_id, node.advertised_by)

    async def handed_over(self) -> None:
        """Close the connection when the socket has all written bytes: with acks=0 no answer confirms them."""
        if self.link is not None:
            await _handed_over(self.link)

    def _pause(self, link: Link) -> float:
        # KIP-219: the broker requested a pause; other brokers go on.
        return link.connection.muted_until - self.loop.time()

    async def _was_muted(self, link: Link) -> bool:
        """Wait for the end of the pause that the broker requested; a new connection to it would not know of the pause."""
        pause = self._pause(link)
        if pause <= 0:
            return False
        self.history.become(THROTTLED)
        with anyio.move_on_after(pause):
            await link.ended.wait()
        if self.link is link:
            self.history.become(CONNECTED)
        return True

    # -- connecting

    async def connect(self) -> None:
        """Open the connection, unless there is one; a failure becomes the trouble of this broker."""
        async with self._connecting:
            if self.link is None:
                await self._connect()

    async def _connect(self) -> None:
        self._note_attempt()
        try:
            connection = await self._dialed(self._endpoint_of(await self._node()))
        except KafkaError as error:
            self.history.failed(error)
            self.queue.trouble = error
            self.contact.failed()
            self.brokers.unreachable(self.node_id, error)
        else:
            self._connected(connection)

    async def _dialed(self, endpoint: BrokerEndpoint) -> Connection:
        if not self.addresses.is_refused(endpoint.address):
            return await self.addresses.dial(endpoint)
        looking = asyncio.create_task(self._look_for_leaders(), name="aioproducer leaders")
        try:
            return await self.addresses.dial(endpoint)
        finally:
            looking.cancel()

    async def _look_for_leaders(self) -> None:
        """The pause after refusals is up to 30 seconds, and another broker may lead the partitions meanwhile."""
        while True:
            await anyio.sleep(_LOOK_EVERY)
            self.brokers.cluster.stale(None)

    def _note_attempt(self) -> None:
        node = self.view.brokers.node(self.node_id)
        self.history.connecting(self.history.address if node is None else address_text(node.host, node.port))

    async def _node(self) -> Node:
        node = self.view.brokers.node(self.node_id)
        if node is None:
            # Its partitions get another leader, or it comes back: metadata, which is requested meanwhile, will tell.
            await anyio.sleep(self.config.reconnect_backoff_max_ms / 1000)
            # Without it, nothing would say why there is no metadata.
            self.brokers.cluster.raise_denial()
            raise BrokerUnavailableError("the broker is no longer in the metadata", broker=self.node_id)
        return node

    def _connected(self, connection: Connection) -> None:
        self.queue.trouble = None
        self.history.connected(connection)
        self.contact.made(connection)
        self.link = Link.over(connection, self.config.max_in_flight_requests_per_connection)
        # The broker may have moved again during the dialing.
        self.look_at_address()
        connection.add_close_callback(self._closed)
        self.brokers.reachable(self.node_id)

    def _closed(self, connection: Connection) -> None:
        link = self.link
        if link is None or link.connection is not connection:
            return
        self.link = None
        if self._has_successor(connection) or connection.ending is Ending.LEFT:
            return
        reason = self.queue.trouble = connection.close_reason or BrokerUnavailableError(broker=self.node_id)
        if connection.ending is Ending.GIVEN_UP:
            self.brokers.unreachable(self.node_id, reason)

    def _has_successor(self, former: Connection) -> bool:
        """Go on with the connection that was opened in place of this one, also without a record: it may be needed."""
        successor = self.addresses.successor_of(former)
        if successor is None:
            return False
        self._connected(successor[1])
        return True

    def close(self) -> None:
        """Close the connection, if there is one, without counting it as a fault of the broker."""
        link, self.link = self.link, None
        if link is not None:
            link.connection.close()

    def close_if_idle(self, now: float, limit: float) -> None:
        """Close a connection without requests for so many seconds."""
        link = self.link
        if link is not None and is_idle(link.connection, now, limit):
            self.leave()

    def leave(self) -> None:
        """Close the connection, if there is one, when the socket has all written bytes; returns at once."""
        link, self.link = self.link, None
        if link is not None:
            link.connection.departure.leave()

    def __repr__(self) -> str:
        return f"<Sender {self.node_id} {self.history.state}>"


async def _handed_over(link: Link) -> None:
    with contextlib.suppress(KafkaError):
        await link.connection.gate.drained()
        await link.connection.departure.finish()

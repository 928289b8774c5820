"""The brokers that a producer sends to: a sender for each, and which of them cannot be reached."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aioproducer._net.connecting.connection.traffic import Traffic
from aioproducer._net.observing.connections import CONNECTING, ConnectionHistory
from aioproducer._net.producing.sender import Sender

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from aioproducer._net.cluster.metadata_task import Cluster
    from aioproducer._net.cluster.session import Session
    from aioproducer._net.transactions.transactions import Transactions
    from aioproducer._state.cluster.metadata import LeaderHint
    from aioproducer._state.machines import Machines
    from aioproducer._state.queues.partition_queue import NodeQueue
    from aioproducer.errors import KafkaError
    from aioproducer.listeners import ConnectionReport

# So many brokers that have left the cluster keep the counters of their connections: they may come back.
MOST_BROKERS = 100


class Brokers:
    """Makes the sender of a broker when its first batch is ready, and ends it when the broker has left the cluster.

    `senders` is shared with the metadata task, which follows the addresses of brokers. `look_after` runs a task of the producer,
    `compress` compresses closed batches, and `crash` ends the producer because of a bug.
    """

    def __init__(
        self,
        session: Session,
        machines: Machines,
        cluster: Cluster,
        transactions: Transactions | None,
        senders: dict[int, Sender],
        traffic: dict[int, Traffic],
        *,
        on_connection: Callable[[ConnectionReport], None] | None,
        look_after: Callable[[str, Callable[[], Awaitable[None]]], bool],
        compress: Callable[[], None],
        crash: Callable[[BaseException], None],
    ) -> None:
        self.session = session
        self.machines = machines
        self.cluster = cluster
        self.transactions = transactions
        self.senders = senders
        self.histories: dict[int, ConnectionHistory] = {}
        # Those of the histories, and of brokers before the producer was started again.
        self.traffic = traffic
        self.on_connection = on_connection
        self.look_after = look_after
        self.compress = compress
        self.crash = crash

    # -- senders

    def start_sender(self, queue: NodeQueue) -> None:
        """A broker without a sender has its first batch."""
        sender = self._sender_of(queue)
        if sender is not None:
            sender.work.ring()

    def send_at_once(self, queues: dict[NodeQueue, None]) -> None:
        """Send what has to wait for nothing. The queues of brokers that have nothing left to send are removed."""
        for queue in list(queues):
            sender = self.senders.get(queue.node_id)
            if sender is not None and queue.wakeup is sender.work:
                while sender.send_at_once():
                    pass
                if not queue.ready:
                    queues.pop(queue, None)

    def _sender_of(self, queue: NodeQueue) -> Sender | None:
        sender = self.senders.get(queue.node_id)
        if sender is None:
            sender = Sender(self, queue)
            if not self.look_after(f"sender {queue.node_id}", sender.run):
                return None
            self.senders[queue.node_id] = sender
            queue.wakeup = sender.work
        return sender

    async def connect_early(self, node_id: int) -> bool:
        """Connect to a broker before there is anything to send to it; False while its sender is connecting."""
        sender = self._sender_of(self.machines.accumulator.cluster.node(node_id))
        if sender is None:
            return False
        if sender.link is None and sender.history.state != CONNECTING:
            await sender.connect()
        return sender.link is not None

    async def handed_over(self) -> None:
        """Close the connections of all senders when the sockets have all written bytes."""
        for sender in list(self.senders.values()):
            await sender.handed_over()

    def history_of(self, node_id: int) -> ConnectionHistory:
        """The connections to this broker. Counters never go back: a broker that comes back continues its own."""
        found = self.histories.get(node_id)
        if found is None:
            traffic = self._traffic_of(node_id)
            found = ConnectionHistory(str(node_id), self.session.loop, traffic, self.on_connection)
            self.histories[node_id] = found
        return found

    def _traffic_of(self, node_id: int) -> Traffic:
        found = self.traffic.get(node_id)
        if found is None:
            if len(self.traffic) >= MOST_BROKERS:
                unused = next((each for each in self.traffic if each not in self.senders), node_id)
                self.traffic.pop(unused, None)
                self.histories.pop(unused, None)
            found = self.traffic[node_id] = Traffic()
        return found

    def forget_unused(self, now: float) -> None:
        """Drop the data of brokers that have left the cluster, and of addresses that are no longer dialed."""
        cluster = self.machines.accumulator.cluster
        for node_id in cluster.unused_nodes({node.id for node in self.session.view.brokers.nodes}):
            sender = self.senders.get(node_id)
            if sender is None or sender.end_if_idle():
                self.senders.pop(node_id, None)
                cluster.drop_node(node_id)
        told = ((node.host, node.port) for node in self.session.view.brokers.nodes)
        self.session.addresses.forget_unused(now, told)

    # -- what senders report

    def reachable(self, node_id: int) -> None:
        """A connection to the broker is open."""
        dead = self.machines.accumulator.cluster.dead
        if node_id in dead:
            self.machines.share_memory(dead - {node_id})

    def unreachable(self, node_id: int, error: KafkaError) -> None:
        """The broker cannot be connected to, or does not answer."""
        dead = self.machines.accumulator.cluster.dead
        if node_id not in dead:
            self.machines.share_memory(dead | {node_id})
        self.session.last_error = error
        self.session.view.broker_failed(node_id)
        self.cluster.stale(None)

    def hint(self, hints: Iterable[LeaderHint]) -> None:
        """A broker named the present leaders of partitions (KIP-951)."""
        self.cluster.apply(self.session.view.leader_hints(hints))

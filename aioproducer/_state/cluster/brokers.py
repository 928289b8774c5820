"""The known brokers and their addresses."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aioproducer._state.cluster.facts import Node

if TYPE_CHECKING:
    from collections.abc import Iterable

    from aioproducer._state.cluster.partitions import Partitions
    from aioproducer._wire.messages.metadata import MetadataResponseBroker

# Brokers that the newest answer omits but that may still lead a partition; bounded, in case answers invent ids.
MOST_PAST_NODES = 100


class KnownBrokers:
    """The brokers of the newest answer, and earlier ones that may still lead a partition."""

    def __init__(self) -> None:
        self._nodes: dict[int, Node] = {}
        self._past_nodes: dict[int, Node] = {}

    @property
    def nodes(self) -> tuple[Node, ...]:
        """The brokers of the newest answer."""
        return tuple(self._nodes.values())

    def node(self, node_id: int) -> Node | None:
        """The address of a broker; a broker that the newest answer omits is still known if it was before."""
        return self._nodes.get(node_id) or self._past_nodes.get(node_id)

    def addresses(self) -> dict[int, Node]:
        """All known brokers by their ids."""
        return {**self._past_nodes, **self._nodes}

    def take(
        self, brokers: Iterable[MetadataResponseBroker], by: str | None, partitions: Iterable[Partitions]
    ) -> bool:
        """Take over the brokers of an answer; earlier ones stay while they lead one of the partitions. True: a change."""
        listed = {
            broker.node_id: Node(broker.node_id, broker.host, broker.port, broker.rack, by)
            for broker in brokers
            if broker.node_id >= 0
        }
        changed = listed != self._nodes
        past = [(id_, node) for id_, node in self.addresses().items() if id_ not in listed]
        if past:
            leading = {leader for each in partitions for leader in each.leaders}
            past = [(id_, node) for id_, node in past if id_ in leading]
        self._nodes, self._past_nodes = listed, dict(past[-MOST_PAST_NODES:])
        return changed

    def learn(self, endpoint: Node) -> bool:
        """A broker named this address. True: a change."""
        changed = endpoint != self._nodes.get(endpoint.id)
        if changed:
            self._nodes[endpoint.id] = endpoint
        return changed

    def forget(self) -> None:
        """No broker is known any more."""
        self._nodes, self._past_nodes = {}, {}

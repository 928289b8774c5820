"""The ports of a real Kafka's nodes: no other program gets them, whether their nodes are up or down."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from tools.kafka_node import NodePorts, hold_ports


@pytest.fixture
def ports() -> Iterator[NodePorts]:
    """The ports of one node."""
    (held,) = hold_ports(1)
    yield held
    held.release()


def bound(port: int, *, reused: bool) -> socket.socket:
    """Another program's socket at a port: with SO_REUSEADDR, as Java opens it for a server, or without."""
    one = socket.socket()
    one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, reused)
    try:
        one.bind(("127.0.0.1", port))
    except OSError:
        one.close()
        raise
    return one


def test_a_held_port_is_nobody_elses(ports: NodePorts) -> None:
    """Before a node listens, while it listens and after it was killed, other programs get neither of its ports."""
    for port in (ports.broker, ports.controller):
        with pytest.raises(OSError, match="in use"):
            bound(port, reused=False)
        with bound(port, reused=True) as node:
            node.listen()
            for reused in (True, False):
                with pytest.raises(OSError, match="in use"):
                    bound(port, reused=reused)
        with pytest.raises(OSError, match="in use"):
            bound(port, reused=False)


def test_a_node_that_was_killed_listens_at_its_port_again(ports: NodePorts) -> None:
    """Connections that are still closing do not keep the node from its port."""
    with bound(ports.broker, reused=True) as node:
        node.listen()
        with socket.create_connection(("127.0.0.1", ports.broker)), node.accept()[0]:
            pass
    with bound(ports.broker, reused=True) as node:
        node.listen()


def test_all_ports_of_a_cluster_differ() -> None:
    """The ports differ also from those that another cluster holds."""
    clusters = [hold_ports(3), hold_ports(3)]
    numbers = [port for cluster in clusters for one in cluster for port in (one.broker, one.controller)]
    for one in (one for cluster in clusters for one in cluster):
        one.release()
    assert len(set(numbers)) == 12


def test_released_ports_are_free(ports: NodePorts) -> None:
    """A second release does nothing."""
    ports.release()
    ports.release()
    bound(ports.broker, reused=False).close()

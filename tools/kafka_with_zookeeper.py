"""A real Kafka of one node that keeps its metadata in ZooKeeper, as releases before 4.0 do; KRaft is ready from 3.3 on."""

from __future__ import annotations

import subprocess
from typing import Final

import attrs

from tools.kafka_cluster import KafkaCluster

_ZOOKEEPER: Final = """\
dataDir={folder}
clientPort={port}
clientPortAddress=127.0.0.1
admin.enableServer=false
"""
# Settings of the KRaft node, which an old broker would not know.
_UNKNOWN: Final = (
    "process.roles",
    "node.id",
    "controller.quorum.voters",
    "controller.listener.names",
)


@attrs.define
class KafkaWithZooKeeper(KafkaCluster):
    """One broker, and a ZooKeeper at the port that a controller would have."""

    _zookeeper: subprocess.Popen[bytes] | None = attrs.field(default=None, init=False)

    def close(self) -> None:
        """Kill the broker and its ZooKeeper, and delete their files."""
        process, self._zookeeper = self._zookeeper, None
        if process is not None:
            process.kill()
            process.wait(10)
        super().close()

    def _write_properties(self) -> None:
        (node,) = self.nodes
        listener = f"PLAINTEXT://127.0.0.1:{node.ports.broker}"
        common = self._properties_of(node, voters="")
        properties = {name: value for name, value in common.items() if name not in _UNKNOWN} | {
            "broker.id": str(node.node_id),
            "zookeeper.connect": f"127.0.0.1:{node.ports.controller}",
            "zookeeper.session.timeout.ms": "4000",
            # The default since 1.0.
            "delete.topic.enable": "true",
            "listeners": listener,
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT",
        }
        node.write_properties(properties)
        text = _ZOOKEEPER.format(folder=node.folder / "zookeeper", port=node.ports.controller)
        (node.folder / "zookeeper.properties").write_text(text, encoding="utf-8")

    def _format(self) -> None:
        (node,) = self.nodes
        main = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
        self._zookeeper = node.java(main, str(node.folder / "zookeeper.properties"))

    def _all_registered(self) -> bool:
        (node,) = self.nodes
        if not node.running:
            # ZooKeeper knows the killed broker until its session ends, and a broker ends where its id is taken.
            node.start()
        return super()._all_registered()

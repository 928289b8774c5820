"""The mutants of busy machines and slow networks: steps that work only while answers come at once."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Kind

_mutant = Kind("busy")

BUSY: Final = (
    _mutant(
        "metadata-cut-off-by-the-identity-task",
        "_net/cluster/control.py",
        "        if self.connection is not None and not self.connection.in_flight:\n"
        "            self.close()\n"
        "\n"
        "    def close_if_idle",
        "        self.close()\n\n    def close_if_idle",
        "The connection to a broker that gives no producer ids ends before its metadata arrives: over a network no other broker is ever known, and the producer neither works nor fails.",
        "tests/net/producing/test_identity.py",
    ),
    _mutant(
        "port-of-a-stopped-broker-is-free",
        "testing/broker/server.py",
        "        await self._keep_port(broker_id)\n",
        "",
        "While a broker of the embedded Kafka is down, another program gets its port, and it cannot come back.",
        "tests/testing/broker/test_cluster_life.py",
    ),
)

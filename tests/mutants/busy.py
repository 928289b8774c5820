"""The mutants of busy machines and slow networks: what goes well only as long as answers come at once."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Mutant

BUSY: Final = (
    Mutant(
        name="metadata-cut-off-by-the-identity-task",
        kind="busy",
        file="_net/control.py",
        line="        if self.connection is not None and not self.connection.in_flight:\n            self.close()\n\n    def close_if_idle",
        instead="        self.close()\n\n    def close_if_idle",
        bug=(
            "A broker that gives no producer ids is hung up on before its metadata has come: over a network no other broker "
            "is ever known, and the producer neither works nor fails."
        ),
        by=("tests/net/test_identity.py",),
    ),
    Mutant(
        name="port-of-a-stopped-broker-is-free",
        kind="busy",
        file="testing/server.py",
        line="        await self._keep_port(broker_id)\n",
        instead="",
        bug="While a broker of the embedded Kafka is down, another program gets its port, and it cannot come back.",
        by=("tests/testing/test_cluster_life.py",),
    ),
)

"""Three nodes of a real Kafka with a secured listener: all faults of `real_brokers`, and changes of secrets.

    python -m tests.soak.secured_brokers TOPICS

It takes the same commands as `tests.soak.brokers`.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Final

from tests.soak import real_brokers
from tests.soak.real_brokers import Fault
from tests.soak.secured_nodes import CHANGES, SecuredNodes
from tools.kafka_node import QUICK_START

FAULTS: Final[tuple[Fault[SecuredNodes], ...]] = (*CHANGES, *real_brokers.FAULTS)


def main(topics: dict[str, int]) -> None:
    """Serve until the other end of the input is closed."""
    with tempfile.TemporaryDirectory(prefix="aioproducer-soak-") as folder:
        nodes = SecuredNodes(
            3, settings=dict(real_brokers.SETTINGS), java_options=QUICK_START, folder=Path(folder)
        )
        with nodes as kafka:
            for name, partitions in topics.items():
                kafka.create_topic(name, partitions)
            real_brokers.serve(
                kafka,
                FAULTS,
                kafka.secured_servers,
                readers_servers=kafka.bootstrap_servers,
                folder=folder,
            )


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))

"""The version of transactions that a real cluster has finalized, changed while it runs."""

from __future__ import annotations

import subprocess
import time
from typing import Final

from aioproducer._wire.messages.api_versions import ApiVersionsRequest
from tests.contract.client import WireClient
from tools.kafka_cluster import KafkaCluster
from tools.kafka_jars import class_path, program
from tools.kafka_node import QUICK_START, KafkaNode

_LIMIT: Final = 60.0
FEATURE: Final = "transaction.version"


async def level_of(node: KafkaNode) -> int:
    """The version that one node announces."""
    async with WireClient(node.address) as client:
        answer = await client.ask(ApiVersionsRequest("levels", "1"), 4)
    found: dict[str, int] = {feature.name: feature.max_version_level for feature in answer.finalized_features}
    return found.get(FEATURE, 0)


async def finalize(kafka: KafkaCluster, level: int) -> None:
    """Upgrade or downgrade the cluster, and wait until each of its nodes announces it."""
    before = await level_of(kafka.node(1))
    if before == level:
        return
    command = ["upgrade" if level > before else "downgrade", "--feature", f"{FEATURE}={level}"]
    _run(kafka, command)
    deadline = time.monotonic() + _LIMIT
    for node in kafka.nodes:
        while await level_of(node) != level:
            assert time.monotonic() < deadline, f"{node.address} does not have {FEATURE} {level}"


def _run(kafka: KafkaCluster, arguments: list[str]) -> None:
    tool = "org.apache.kafka.tools.FeatureCommand"
    java = [program("java"), *QUICK_START, "-Xmx128m", "-cp", class_path(kafka.version), tool]
    command = [*java, "--bootstrap-server", kafka.bootstrap_servers, *arguments]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=_LIMIT, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr

"""An examination of a real Kafka of three nodes, one of which is frozen: topics at and below their minimum of replicas."""

from __future__ import annotations

import asyncio

import pytest

from aioproducer.doctor import Status
from tests.doctor.support import bad, examined, of
from tools.kafka_cluster import KafkaCluster

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(600)]
LIMIT = 120.0


async def test_a_topic_below_its_minimum(faulty_nodes: KafkaCluster) -> None:
    """Two of three replicas: at a minimum of two a warning, below one of three a failure that the probe confirms."""
    kafka, frozen = faulty_nodes, faulty_nodes.node(3)
    servers = f"{kafka.node(1).address},{kafka.node(2).address}"
    for topic, least in (("at-minimum", 2), ("below-minimum", 3)):
        await asyncio.to_thread(kafka.create_topic, topic, 1, min_insync_replicas=least)
    frozen.pause()
    try:
        async with asyncio.timeout(LIMIT):
            while "topic" not in bad(await examined(servers, "at-minimum", timeout=2)):
                pass
        report = await examined(servers, "at-minimum", "below-minimum", probe=True, timeout=8)
    finally:
        frozen.resume()
    at_minimum, _, below, _ = of(report, "topic")
    assert (at_minimum.status, at_minimum.summary) == (
        Status.WARN,
        "partition 0: 2 of 3 replicas in sync; min.insync.replicas is 2: one more failure stops writes",
    )
    assert (below.status, "min.insync.replicas is 3: writes with acks=all are refused" in below.summary) == (
        Status.FAIL,
        True,
    )
    accepted, refused = of(report, "probe")
    assert accepted.status in (Status.OK, Status.WARN)
    assert (refused.status, "NOT_ENOUGH_REPLICAS" in refused.summary) == (Status.FAIL, True)

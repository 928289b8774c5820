"""Answers that omit or invent a field: an examination ends in its time, with a report."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest

from aioproducer import ProducerConfig
from aioproducer._wire.apis import APIS
from aioproducer.doctor import examine
from aioproducer.testing import EmbeddedKafka
from tests.simulation.lies import DOCTOR, Lie, lies_of, version_at

METADATA, VERSIONS = 3, 18
TIMEOUT = 1.0

CASES = [
    pytest.param(lie, id=lie.name)
    for api in (*DOCTOR, METADATA, VERSIONS)
    for lie in lies_of(api, version_at(api, 2))
]


@pytest.mark.parametrize("lie", CASES)
async def test_an_examination_ends_with_a_report(lie: Lie) -> None:
    """No lie raises, or holds it up beyond six times its limit; what it does not lie about is examined."""
    rng = random.Random(lie.name)
    async with EmbeddedKafka() as kafka:
        kafka.create_topic("t", 2)
        kafka.faults.alter(lambda answer: lie.altered(answer, rng), api=APIS[lie.api].name, times=None)
        config: Any = ProducerConfig(kafka.bootstrap_servers)
        async with asyncio.timeout(6 * TIMEOUT + 5.0):
            report = await examine(config, ["t"], timeout=TIMEOUT)
    assert {"config", "dns", "tcp", "protocol"} <= {check.id for check in report.checks}

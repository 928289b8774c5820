"""A process that is killed while it sends: every record that it saw acknowledged is in the log."""

from __future__ import annotations

import asyncio
import random
import sys
from pathlib import Path

import pytest

from aioproducer import Outcome
from tests.judge.history import NO_NUMBER, Sent, digest_of
from tests.judge.judge import judge
from tests.kafka.faults.killed import filled
from tests.kafka.reading import read_found
from tests.seeds import fresh_seed
from tools.kafka_cluster import KafkaCluster

pytestmark = pytest.mark.kafka

_ROOT = Path(__file__).parents[3]
_LINES = 20_000


@pytest.mark.parametrize("run", range(3))
async def test_f12_what_a_killed_producer_knew_is_durable(real_kafka: KafkaCluster, run: int) -> None:
    """F12: kill -9 with requests in flight; every acknowledged record is at its offset, once and in order."""
    seed = fresh_seed()
    topic = real_kafka.create_topic(f"killed-producer-{run}", 6)
    acked = await _acks_until_killed(real_kafka, topic, random.Random(seed).randrange(1, _LINES))
    log = await asyncio.to_thread(read_found, real_kafka.bootstrap_servers, topic)
    known = {record.number for record in acked}
    # A record without an outcome may be in the log; if it is, it is there unchanged and once.
    last = max((record.number for record in log), default=NO_NUMBER)
    unknown = [_sent(topic, n, None, Outcome.UNKNOWN) for n in range(last + 1) if n not in known]
    assert judge([*acked, *unknown], log) == []
    assert len(acked) > 0


async def _acks_until_killed(kafka: KafkaCluster, topic: str, lines: int) -> list[Sent]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.kafka.faults.killed", kafka.bootstrap_servers, topic, "6"),
        cwd=_ROOT,
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    output = b""
    async with asyncio.timeout(60.0):
        try:
            while output.count(b"\n") < lines:
                output += await process.stdout.read(65_536)
        finally:
            process.kill()
        # The lines that it had written before its end are in the pipe.
        output += await process.stdout.read()
        await process.wait()
    *whole, _ = output.split(b"\n")
    return [_acked(topic, line) for line in whole]


def _acked(topic: str, line: bytes) -> Sent:
    number, partition, offset = map(int, line.split())
    return _sent(topic, number, partition, Outcome.ACKED, offset)


def _sent(topic: str, number: int, partition: int | None, outcome: Outcome, offset: int = -1) -> Sent:
    return Sent(number, digest_of(None, filled(number), (), None), topic, partition, outcome, offset)

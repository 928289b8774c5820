"""The password of the cluster changes, and the file on the executors follows: tasks that begin meanwhile go on."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Final

import pytest

from aioproducer import Producer
from aioproducer.spark.options import read_options
from aioproducer.testing import EmbeddedKafka
from tests.net.support import LIMIT, until

SCRAM: Final = {
    "kafka.security.protocol": "SASL_PLAINTEXT",
    "kafka.sasl.mechanism": "SCRAM-SHA-256",
    "topic": "t",
    "delivery": "exactly-once",
}
MODULE: Final = "org.apache.kafka.common.security.scram.ScramLoginModule required"
WRITTEN: Final = {
    "password": {"kafka.sasl.username": "alice", "kafka.sasl.password": "${dir:{folder}:password}"},
    "jaas": {"kafka.sasl.jaas.config": f'{MODULE} username="alice" password="${{dir:{{folder}}:password}}";'},
}


@pytest.mark.parametrize("written", WRITTEN)
async def test_a_task_begins_with_the_former_password(written: str, tmp_path: Path) -> None:
    """It is refused, and presents the new one when the file has it: it does not wait for the end of its time."""
    file = tmp_path / "password"
    file.write_text("former")
    async with EmbeddedKafka(2, users={"alice": "new"}) as kafka:
        kafka.create_topic("t", 2)
        given = {name: text.replace("{folder}", str(tmp_path)) for name, text in WRITTEN[written].items()}
        own = {"kafka.bootstrap.servers": kafka.bootstrap_servers, "secrets.folders": str(tmp_path)}
        options = read_options(SCRAM | own | given)
        async with Producer.from_config(options.producer) as producer, asyncio.timeout(LIMIT):
            beginning = asyncio.create_task(producer.init_transactions("task"))
            await until(lambda: sum(one.authentication_failures for one in producer.stats().connections) > 0)
            file.write_text("new")
            await beginning
            async with producer.transaction():
                await producer.send("t", b"1")
    assert [record.value for record in kafka.records("t")] == [b"1"]

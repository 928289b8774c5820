"""From a model to a record: a program of 30 lines, and each line that it prints, as docs/patterns.md shows them."""

from __future__ import annotations

import ast
import asyncio
import json
import re
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import attrs
import httpx

from aioproducer.registry import Registry, Schema
from aioproducer.testing import EmbeddedKafka, EmbeddedRegistry
from tests.examples.programs import ended, example, started
from tests.repo.source import ROOT

PROGRAM = example("model_to_record.py")
LIMIT = 60.0
FITS = json.dumps({"item": "apples", "count": 2})
DOES_NOT_FIT = json.dumps({"item": "pears"})
TOO_LARGE = json.dumps({"item": "x" * 2_000_000, "count": 1})
# With a field that a reader of the new schema would miss.
INCOMPATIBLE = Schema(
    '{"type": "record", "name": "Order", "fields": [{"name": "customer", "type": "string"}]}'
)


@attrs.define
class Orders:
    """The program while it runs."""

    process: Process
    kafka: EmbeddedKafka
    registry: EmbeddedRegistry

    async def line(self) -> str:
        """The next line that it prints, with the addresses of the page in place of those of this test."""
        assert self.process.stdout is not None
        async with asyncio.timeout(LIMIT):
            line = (await self.process.stdout.readline()).decode().rstrip("\n")
        line = line.replace(self.registry.url, "http://localhost:8081")
        return line.replace(self.kafka.bootstrap_servers, "localhost:9092")

    async def send(self, order: str) -> str:
        """The line that it prints for an order."""
        assert self.process.stdin is not None
        self.process.stdin.write(order.encode() + b"\n")
        return await self.line()

    async def end(self) -> None:
        """The end of its input ends it well."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        last = await ended(self.process)
        assert last.code == 0
        assert "Traceback" not in last.errors


@asynccontextmanager
async def running(kafka: EmbeddedKafka, registry: EmbeddedRegistry) -> AsyncIterator[tuple[Orders, str]]:
    """The program, and the address of its metrics."""
    async with started(kafka, PROGRAM, stdin=PIPE, REGISTRY=registry.url, METRICS="0") as process:
        orders = Orders(process, kafka, registry)
        name, _, address = (await orders.line()).partition(" ")
        assert name == "metrics:"
        yield orders, address


def shown() -> list[str]:
    """The lines that the page shows."""
    page = (ROOT / "docs" / "patterns.md").read_text()
    (block,) = re.findall(r"```text\n(# The registry is down.*?)```", page, re.DOTALL)
    return [line for line in block.splitlines() if line and not line.startswith("#")]


def settled(lines: list[str]) -> list[str]:
    """The lines without what differs from run to run: times, ports, and the attempts within a time limit."""
    text = re.sub(r"\b\d+(\.\d+)? s\b", "some s", "\n".join(lines))
    text = re.sub(r"\d+ attempts?", "some attempts", text)
    return re.sub(r"('127.0.0.1', )\d+", r"\1PORT", text).splitlines()


async def test_each_kind_of_failure_has_its_line(embedded_registry: EmbeddedRegistry) -> None:
    """The registry is down, the schema is incompatible, the record is of no use, the topic is missing, Kafka is down."""
    async with (
        EmbeddedKafka(auto_create_topics=False) as kafka,
        running(kafka, embedded_registry) as (orders, metrics),
        httpx.AsyncClient() as client,
    ):
        async with Registry(embedded_registry.url) as registry:
            await registry.register("orders-value", INCOMPATIBLE)
        embedded_registry.set_compatibility("BACKWARD")
        await embedded_registry.stop()
        told = [await orders.send(FITS)]
        await embedded_registry.start()
        told.append(await orders.send(FITS))
        embedded_registry.set_compatibility("NONE")
        # A refusal is remembered for a second.
        while (line := await orders.send(FITS)) == told[-1]:
            pass
        told.append(line)
        for topic in ("orders", "orders.dead"):
            kafka.create_topic(topic, 1)
        told += [await orders.send(order) for order in (FITS, DOES_NOT_FIT, TOO_LARGE)]
        held = kafka.faults.delay(api="Produce", times=None)
        told.append(await orders.send(FITS))
        held.release()
        told.append(await orders.send(FITS))
        await kafka.faults.stop_broker(1)
        # The program learns of it in the same moment.
        while not re.search(r'connection_up{.*broker="1".*} 0\.0', (await client.get(metrics)).text):
            pass
        told.append(await orders.send(FITS))
        page = (await client.get(metrics)).text
        await orders.end()
    assert settled(told) == settled(shown())
    for sample in (
        'records_acked_total{client_id="aioproducer",topic="orders"} 2.0',
        'records_failed_total{client_id="aioproducer",error="DeliveryTimeoutError",outcome="unknown",topic="orders"} 1.0',
        'dead_letters_total{client_id="aioproducer",topic="orders"} 2.0',
    ):
        assert f"\naioproducer_{sample}\n" in page


def test_it_has_thirty_lines() -> None:
    """Of code, without imports, docstrings and empty lines."""
    source = PROGRAM.read_text()
    left_out = [
        node
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Import | ast.ImportFrom)
        or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))
    ]
    code = {number for number, line in enumerate(source.splitlines(), 1) if line.strip()}
    for node in left_out:
        code -= set(range(node.lineno, (node.end_lineno or 0) + 1))
    assert len(code) <= 30

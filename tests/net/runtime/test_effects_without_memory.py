"""Effects that find no memory are performed later, and none is forgotten."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from aioproducer import (
    BatchReport,
    DeliveryTimeoutError,
    MetadataTimeoutError,
    Outcome,
    Producer,
    StateError,
    TransactionAbortedError,
)
from aioproducer._net.observing.listeners import Listeners
from aioproducer._net.transactions.operation import Operation
from aioproducer._net.transactions.transactions import Transactions
from aioproducer._state.delivery.outcomes import Outcomes
from aioproducer.testing import EmbeddedKafka, MockProducer
from tests.net.support import engine, turns, until


def without_memory_once(call: Callable[..., Any]) -> Callable[..., Any]:
    """The same call, which finds no memory the first time."""
    left = [MemoryError()]

    def starved(*args: Any, **kwargs: Any) -> Any:
        if left:
            raise left.pop()
        return call(*args, **kwargs)

    return starved


@pytest.mark.parametrize(
    ("owner", "name"), [(Transactions, "on_lost"), (Operation, "replace")], ids=["begin", "middle"]
)
async def test_a_lost_record_fails_its_transaction(
    owner: type, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A commit that waits for the record never succeeds, wherever on its way the loss found no memory."""
    async with MockProducer(auto_complete=False, transactional_id="id") as producer:
        await producer.init_transactions()
        await producer.begin_transaction()
        for value in (b"a", b"b"):
            await producer.send("orders", value)
        producer.complete_next()
        commit = asyncio.create_task(producer.commit_transaction())
        await asyncio.sleep(0)
        monkeypatch.setattr(owner, name, without_memory_once(getattr(owner, name)))
        producer.fail_next(DeliveryTimeoutError())
        with pytest.raises(TransactionAbortedError):
            await commit
        await producer.abort_transaction()
        assert producer.committed == ()


async def test_a_record_that_fails_without_memory_is_not_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its failure finds no memory behind its outcome: the transaction is not committed without it."""
    async with EmbeddedKafka() as kafka:
        kafka.create_topic("orders", 2)
        producer = Producer[Any, Any](kafka.bootstrap_servers, transactional_id="id", linger_ms=0)
        async with producer:
            await producer.init_transactions()
            await producer.begin_transaction()
            await (await producer.send("orders", b"a", partition=0))
            kafka.faults.error("INVALID_RECORD", topic="orders", partition=1)
            monkeypatch.setattr(Outcomes, "_report_the_end", without_memory_once(Outcomes._report_the_end))
            await producer.send("orders", b"b", partition=1)
            with pytest.raises(TransactionAbortedError):
                await producer.commit_transaction()
        assert kafka.records("orders") == []


async def test_a_waiting_record_that_is_refused_without_memory_is_not_left_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The refusal finds no memory: its caller gets it, no transaction is committed without the record, and the producer ends."""
    async with EmbeddedKafka(auto_create_topics=False) as kafka:
        kafka.create_topic("orders", 1)
        async with Producer[Any, Any](
            kafka.bootstrap_servers, transactional_id="id", linger_ms=0
        ) as producer:
            await producer.init_transactions()
            await producer.begin_transaction()
            await (await producer.send("orders", b"a"))
            monkeypatch.setattr(Transactions, "on_refused", without_memory_once(Transactions.on_refused))
            waiting = asyncio.ensure_future(producer.send("nowhere", b"b", max_block=0.1))
            await asyncio.sleep(0)
            with pytest.raises(StateError) as caught:
                await producer.commit_transaction()
            assert caught.value.outcome is Outcome.NOT_WRITTEN
            with pytest.raises(MetadataTimeoutError):
                await waiting
        assert kafka.records("orders") == []


async def test_reports_come_after_one_that_could_not_be_scheduled(monkeypatch: pytest.MonkeyPatch) -> None:
    """The delivery of the next report is scheduled, and has both."""
    reports: list[BatchReport] = []

    class Listener:
        def on_batch(self, report: BatchReport) -> None:
            reports.append(report)

    async with MockProducer(listeners=[Listener()], auto_complete=False) as producer:
        await producer.send("orders", b"a")
        await producer.send("orders", b"b")
        loop = engine(producer).listeners._loop
        with monkeypatch.context() as patched:
            patched.setattr(loop, "call_soon", without_memory_once(loop.call_soon))
            with pytest.raises(MemoryError):
                engine(producer).listeners.schedule()
        producer.complete_all()
        await until(lambda: len(reports) == 2)


@pytest.mark.parametrize("name", ["_put", "schedule"])
async def test_a_report_is_delivered_once(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A report without memory is repeated: each batch has one report."""
    reports: list[BatchReport] = []

    class Listener:
        def on_batch(self, report: BatchReport) -> None:
            reports.append(report)

    monkeypatch.setattr(Listeners, name, without_memory_once(getattr(Listeners, name)))
    async with MockProducer(listeners=[Listener()]) as producer:
        await producer.send("orders", b"a")
        await producer.send("orders", b"b")
        await until(lambda: len(reports) >= 2)
        await turns(5)
        assert [report.base_offset for report in reports] == [0, 1]

"""The table in docs/deliveries.md is what deliveries really say."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator

import pytest

from aioproducer import Delivery, DeliveryError, Outcome, Producer, RecordMetadata
from aioproducer.testing import EmbeddedKafka
from tests.repo.source import ROOT

STATES = ("pending", "pending, handle cancelled", "acked", "failed")
CALLS = ("done()", "cancelled()", "result()", "exception()")


def table() -> dict[str, dict[str, str]]:
    """The documented answers: by call, then by state."""
    text = (ROOT / "docs" / "deliveries.md").read_text()
    header = "| | " + " | ".join(STATES) + " |\n"
    rows = text.partition(header)[2].partition("\n\n")[0].splitlines()[1:]
    cells = [[cell.strip().replace("`", "") for cell in row.strip("|").split(" | ")] for row in rows]
    return {call: dict(zip(STATES, answers, strict=True)) for call, *answers in cells}


@pytest.fixture
async def producer() -> AsyncIterator[Producer]:
    """A producer that sends nothing before a flush."""
    async with EmbeddedKafka() as kafka, Producer(kafka.bootstrap_servers, linger_ms=600_000) as producer:
        yield producer


async def delivery_in(state: str, producer: Producer) -> Delivery:
    """A delivery that is in this state."""
    delivery = await producer.send("orders", b"2 apples")
    if state == "pending, handle cancelled":
        delivery.cancel()
    elif state == "acked":
        await producer.flush()
    elif state == "failed":
        producer.purge()
    return delivery


def said(delivery: Delivery, call: str) -> str:
    """The result of a call, in the words of the table."""
    try:
        value = getattr(delivery, call.removesuffix("()"))()
    except asyncio.CancelledError:
        return "CancelledError"
    except asyncio.InvalidStateError:
        return "InvalidStateError"
    except DeliveryError:
        return "raises its error"
    words = {RecordMetadata: "metadata", DeliveryError: "its error"}
    return words.get(type(value), str(value))


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("call", CALLS)
async def test_call_says_what_is_documented(producer: Producer, state: str, call: str) -> None:
    """In each state each call answers as the table has it."""
    assert said(await delivery_in(state, producer), call) == table()[call][state]


@pytest.mark.parametrize("state", STATES)
async def test_outcome_is_what_is_documented(producer: Producer, state: str) -> None:
    """In each state the outcome is one that the table names."""
    delivery = await delivery_in(state, producer)
    assert delivery.outcome.name in re.split(" or ", table()["outcome"][state])


@pytest.mark.parametrize("state", STATES)
async def test_awaiting_does_what_is_documented(producer: Producer, state: str) -> None:
    """Awaiting waits for the outcome also where the handle was cancelled, and then tells it."""
    delivery = await delivery_in(state, producer)
    waiting = asyncio.ensure_future(delivery.wait())
    await asyncio.sleep(0)
    assert waiting.done() == (table()["await delivery"][state] != "waits")
    await producer.flush()
    assert await waiting is (Outcome.NOT_WRITTEN if state == "failed" else Outcome.ACKED)
    if state == "failed":
        with pytest.raises(DeliveryError):
            await delivery
    else:
        assert (await delivery).topic == "orders"

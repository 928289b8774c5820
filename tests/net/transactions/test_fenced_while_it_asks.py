"""A leader refuses records, and the check for another producer is not answered yet: calls wait, and report the truth."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from aioproducer import (
    BrokerError,
    Delivery,
    DeliveryTimeoutError,
    Outcome,
    Producer,
    ProducerFencedError,
    StateError,
    TransactionAbortedError,
    TransactionError,
)
from aioproducer._state.transactions.table import State
from aioproducer.testing import EmbeddedKafka, Fault
from tests.net.support import LIMIT, Make, all_acked, turns, until
from tests.net.transactional import NAME, ended_by_time, put, seen, state

SOON = 0.1
DESCRIBE = "DescribeTransactions"


async def refused(
    clerk: Producer[Any, Any], make: Make, ledger: EmbeddedKafka, times: int | None = 1
) -> tuple[Fault, list[Delivery]]:
    """Another producer took over; records were refused by two leaders, and the answer to the check is in flight."""
    await clerk.begin_transaction()
    for partition in (0, 1):
        assert await all_acked(await put(clerk, b"a", topic="four", partition=partition))
    other = make(ledger, transactional_id=NAME)
    await other.start()
    await other.init_transactions()
    held = ledger.faults.delay(api=DESCRIBE, times=times)
    late = await put(clerk, b"b", topic="four")
    await held.reached()
    late += await put(clerk, b"b", topic="four", partition=1)
    await turns()
    return held, late


@pytest.mark.parametrize(
    "call",
    [
        pytest.param(lambda clerk: clerk.commit_transaction(timeout=LIMIT), id="commit"),
        pytest.param(
            lambda clerk: clerk.send_offsets_to_transaction({("source", 0): 1}, "readers", timeout=LIMIT),
            id="send_offsets",
        ),
        pytest.param(lambda clerk: clerk.abort_transaction(timeout=LIMIT), id="abort"),
        pytest.param(lambda clerk: clerk.send_and_wait("four", b"c", partition=0), id="send"),
    ],
)
async def test_calls_meanwhile_tell_the_truth(
    clerk: Producer[Any, Any],
    make: Make,
    ledger: EmbeddedKafka,
    call: Callable[[Producer[Any, Any]], Awaitable[object]],
) -> None:
    """No call advises to abort the transaction and try again; deliveries have the reason as their cause."""
    held, late = await refused(clerk, make, ledger)
    going_on = asyncio.ensure_future(call(clerk))
    await turns()
    assert not going_on.done()
    held.release()
    with pytest.raises((ProducerFencedError, BrokerError)) as caught:
        await going_on
    if isinstance(caught.value, BrokerError):
        assert isinstance(caught.value.cause, ProducerFencedError)
    for delivery in late:
        assert await delivery.wait(LIMIT) is Outcome.NOT_WRITTEN
    await until(lambda: state(clerk) is State.FATAL)
    for later in (clerk.begin_transaction, clerk.commit_transaction, lambda: clerk.send("four", b"d")):
        with pytest.raises(ProducerFencedError):
            await later()
    assert seen(ledger, topic="four") == []


async def test_deliveries_have_the_reason(
    clerk: Producer[Any, Any], make: Make, ledger: EmbeddedKafka
) -> None:
    """Each refused delivery is a BrokerError of the leader, with the fencing as its cause; none is resolved before."""
    held, late = await refused(clerk, make, ledger)
    assert {one.outcome for one in late} == {Outcome.PENDING}
    held.release()
    for delivery in late:
        assert await delivery.wait(LIMIT) is Outcome.NOT_WRITTEN
        error = delivery.exception()
        assert isinstance(error, BrokerError)
        assert isinstance(error.cause, ProducerFencedError)
    for call in (
        clerk.commit_transaction,
        clerk.begin_transaction,
        lambda: clerk.send("four", b"c"),
        lambda: clerk.send_offsets_to_transaction({("source", 0): 1}, "readers"),
    ):
        with pytest.raises(ProducerFencedError):
            await call()


async def test_a_look_without_an_answer_is_bounded(make: Make, ledger: EmbeddedKafka) -> None:
    """The coordinator is silent: the records end at their own deadline, with the leader's error."""
    clerk = make(ledger, transactional_id=NAME, delivery_timeout_ms=400, request_timeout_ms=300, linger_ms=0)
    await clerk.start()
    await clerk.init_transactions()
    held, late = await refused(clerk, make, ledger, times=None)
    for delivery in late:
        assert await delivery.wait(LIMIT) is Outcome.NOT_WRITTEN
        error = delivery.exception()
        assert isinstance(error, DeliveryTimeoutError)
        assert isinstance(error.cause, BrokerError)
    with pytest.raises(TransactionAbortedError):
        await clerk.commit_transaction()
    held.heal()
    held.release()


async def test_an_abort_does_not_wait_for_the_look(
    clerk: Producer[Any, Any], make: Make, ledger: EmbeddedKafka
) -> None:
    """Its records are resolved at once; the abort's own request shows the state of the id."""
    held, late = await refused(clerk, make, ledger)
    aborting = asyncio.create_task(clerk.abort_transaction(timeout=LIMIT))
    await turns()
    assert {one.outcome for one in late} == {Outcome.NOT_WRITTEN}
    held.release()
    with pytest.raises(ProducerFencedError):
        await aborting


async def test_a_close_meanwhile(clerk: Producer[Any, Any], make: Make, ledger: EmbeddedKafka) -> None:
    """It ends in its time, and so do the deliveries."""
    held, late = await refused(clerk, make, ledger)
    await clerk.close(timeout=SOON)
    assert {one.outcome for one in late} == {Outcome.NOT_WRITTEN}
    held.release()


async def test_its_time_was_over(make: Make, ledger: EmbeddedKafka) -> None:
    """No other producer: the delivery reports that its transaction was aborted, the commit too, and the next one works."""
    clerk = make(ledger, transactional_id=NAME)
    await clerk.start()
    await clerk.init_transactions()
    await clerk.begin_transaction()
    assert await all_acked(await put(clerk, b"a"))
    await ended_by_time(ledger)
    held = ledger.faults.delay(api=DESCRIBE)
    (late,) = await put(clerk, b"b")
    await held.reached()
    committing = asyncio.create_task(clerk.commit_transaction(timeout=LIMIT))
    with pytest.raises(StateError):
        await clerk.begin_transaction()
    assert late.outcome is Outcome.PENDING
    held.release()
    with pytest.raises(TransactionAbortedError) as caught:
        await committing
    assert caught.value.retriable
    error = late.exception()
    assert isinstance(error, BrokerError)
    assert isinstance(error.cause, TransactionError)
    assert "aborted the transaction" in str(error.cause)
    await clerk.abort_transaction()
    async with clerk.transaction():
        await put(clerk, b"c")
    assert seen(ledger) == [b"c"]

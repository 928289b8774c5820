"""ListTransactions and DescribeTransactions: the state of transactions for operators."""

from __future__ import annotations

from typing import Any

import pytest

from aioproducer._wire.error_codes import ErrorCode
from aioproducer._wire.messages.describe_transactions import DescribeTransactionsRequest, TransactionState
from aioproducer._wire.messages.list_transactions import ListTransactionsRequest
from tests.contract.client import WireClient
from tests.contract.transactions.transacting import Transactor


@pytest.fixture
async def transactor(client: WireClient, name: str) -> Transactor:
    """A transactional id that is initialized, and a topic of two partitions."""
    await client.create_topic(name, 2)
    made = Transactor(client, f"id-{name}-end", name)
    await made.init(timeout_ms=54_321)
    return made


async def _listed(transactor: Transactor, version: int = 1, **filters: Any) -> str | None:
    """The state under which the id is listed, None if the filters leave it out."""
    answer = await transactor.client.ask(ListTransactionsRequest(**filters), version)
    assert answer.error_code == 0
    states = {one.transactional_id: one for one in answer.transaction_states}
    found = states.get(transactor.id)
    assert found is None or found.producer_id == transactor.who.producer_id
    return found.transaction_state if found is not None else None


@pytest.mark.parametrize("version", range(3))
async def test_every_version_lists(transactor: Transactor, version: int) -> None:
    """Each id with producer id and state."""
    assert await _listed(transactor, version) == "Empty"
    await transactor.add_and_write()
    assert await _listed(transactor, version) == "Ongoing"
    await transactor.finish(commit=False)
    assert await _listed(transactor, version) == "CompleteAbort"


async def test_states_filter(transactor: Transactor) -> None:
    """Only ids in one of the states are listed."""
    assert await _listed(transactor, state_filters=["Ongoing"]) is None
    assert await _listed(transactor, state_filters=["Ongoing", "Empty"]) == "Empty"


async def test_unknown_states_are_told(transactor: Transactor) -> None:
    """They match nothing."""
    request = ListTransactionsRequest(["Sleeping", "Empty", "PrepareEpochFence", "Dead"])
    answer = await transactor.client.ask(request, 1)
    assert list(answer.unknown_state_filters) == ["Sleeping"]
    assert await _listed(transactor, state_filters=["Sleeping"]) is None


async def test_producer_ids_filter(transactor: Transactor) -> None:
    """Only ids of one of the producers are listed."""
    producer_id = transactor.who.producer_id
    assert await _listed(transactor, producer_id_filters=[producer_id + 1]) is None
    assert await _listed(transactor, producer_id_filters=[producer_id, producer_id + 1]) == "Empty"


async def test_durations_filter(transactor: Transactor) -> None:
    """Only transactions that began longer ago are listed; one that never began counts as very old."""
    assert await _listed(transactor, duration_filter=3_600_000) == "Empty"
    await transactor.add_and_write()
    assert await _listed(transactor, duration_filter=3_600_000) is None
    assert await _listed(transactor, duration_filter=-1) == "Ongoing"


async def test_patterns_filter(transactor: Transactor) -> None:
    """A regular expression must match the whole id; the empty one is no filter."""
    name = transactor.topic
    matching = [f"id-{name}-end", f"id-{name}.*", ".*-end", ""]
    states = [await _listed(transactor, 2, transactional_id_pattern=pattern) for pattern in matching]
    assert states == ["Empty"] * 4
    others = [f"id-{name}", name, "-end"]
    assert [await _listed(transactor, 2, transactional_id_pattern=one) for one in others] == [None] * 3


async def test_a_broken_pattern_is_refused(transactor: Transactor) -> None:
    """With INVALID_REGULAR_EXPRESSION."""
    request = ListTransactionsRequest(transactional_id_pattern="(")
    assert (await transactor.client.ask(request, 2)).error_code == ErrorCode.INVALID_REGULAR_EXPRESSION


async def test_a_transaction_is_described(transactor: Transactor) -> None:
    """With its limit, its producer and its partitions; before it begins it has no time of its own."""
    before = await transactor.describe()
    assert before == TransactionState(
        0, transactor.id, "Empty", 54_321, -1, transactor.who.producer_id, transactor.who.epoch, before.topics
    )
    await transactor.add(1, 0)
    open_one = await transactor.describe()
    assert open_one.transaction_start_time_ms > 0
    assert [(one.topic, sorted(one.partitions)) for one in open_one.topics] == [(transactor.topic, [0, 1])]
    await transactor.finish()
    assert list((await transactor.describe()).topics) == []


async def test_what_is_not_there_is_not_described(transactor: Transactor) -> None:
    """An unknown id is TRANSACTIONAL_ID_NOT_FOUND, the empty one INVALID_REQUEST."""
    request = DescribeTransactionsRequest([f"{transactor.id}-none", ""])
    answer = await transactor.client.ask(request, 0)
    codes = {one.transactional_id: one.error_code for one in answer.transaction_states}
    assert codes == {
        f"{transactor.id}-none": ErrorCode.TRANSACTIONAL_ID_NOT_FOUND,
        "": ErrorCode.INVALID_REQUEST,
    }

"""Requests for committed offsets with incomplete answers: no answer is taken for "nothing is committed"."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from aioproducer import ProtocolError, TopicPartition, TransactionTimeoutError, committed_offsets
from aioproducer.testing import EmbeddedKafka
from tests.net.support import LIMIT, Make
from tests.net.transactional import NAME, MovableClock

GROUP, PLACE = "readers", TopicPartition("one", 0)
Change = Callable[[Any], Any]


@pytest.fixture(params=[7, 9], ids=["one group", "a list of groups"])
async def marked(request: pytest.FixtureRequest, make: Make, ledger: EmbeddedKafka) -> EmbeddedKafka:
    """A cluster where the group has committed offset 5, and that speaks OffsetFetch in this form."""
    producer = make(ledger, transactional_id=NAME)
    await producer.start()
    await producer.init_transactions()
    async with producer.transaction() as transaction:
        transaction.send_offsets({PLACE: 5}, GROUP)
    ledger.limit_version("OffsetFetch", 7, request.param)
    return ledger


def _within(change: Change) -> Change:
    """Change the part of an answer about the group."""

    def changed(answer: Any) -> Any:
        if answer.groups:
            return answer._replace(groups=[change(group) for group in answer.groups])
        return change(answer)

    return changed


def _partitions(change: Change) -> Change:
    def changed(group: Any) -> Any:
        return group._replace(
            topics=[topic._replace(partitions=change(topic.partitions)) for topic in group.topics]
        )

    return _within(changed)


INCOMPLETE: dict[str, Change] = {
    "no group": lambda answer: answer._replace(groups=[], topics=[]),
    "another group": lambda answer: answer._replace(
        groups=[group._replace(group_id="others") for group in answer.groups], topics=[]
    ),
    "no topic": _within(lambda group: group._replace(topics=[])),
    "another topic": _within(
        lambda group: group._replace(topics=[topic._replace(name="four") for topic in group.topics])
    ),
    "no partition": _partitions(lambda _: []),
    "another partition": _partitions(lambda found: [found[0]._replace(partition_index=1)]),
    "two truths": _partitions(lambda found: [*found, found[0]._replace(committed_offset=-1)]),
    "no such offset": _partitions(lambda found: [found[0]._replace(committed_offset=-2)]),
}


@pytest.mark.parametrize("what", INCOMPLETE)
async def test_an_incomplete_answer_is_asked_for_again(marked: EmbeddedKafka, what: str) -> None:
    """The caller gets the next answer, which is complete."""
    fault = marked.faults.alter(INCOMPLETE[what], api="OffsetFetch", times=2)
    found = await committed_offsets(GROUP, [PLACE], marked.bootstrap_servers, retry_backoff_ms=1)
    assert found[PLACE].offset == 5
    assert fault.hits == 2


@pytest.mark.parametrize("what", INCOMPLETE)
async def test_answers_that_stay_incomplete_are_an_error(
    loop_clock: MovableClock, marked: EmbeddedKafka, what: str
) -> None:
    """The error comes within the caller's time, and its cause has the defect of the answers."""
    fault = marked.faults.alter(INCOMPLETE[what], api="OffsetFetch", times=None)
    asking = asyncio.ensure_future(
        committed_offsets(GROUP, [PLACE], marked.bootstrap_servers, timeout=LIMIT, retry_backoff_ms=1)
    )
    await fault.reached(2)
    loop_clock.skip(LIMIT)
    with pytest.raises(TransactionTimeoutError) as caught:
        await asking
    assert isinstance(caught.value.cause, ProtocolError)
    assert "OffsetFetch answer" in str(caught.value.cause)


async def test_more_than_was_asked_for_does_no_harm(marked: EmbeddedKafka) -> None:
    """Repeated entries, and errors of partitions without a request, have no effect."""
    marked.faults.alter(
        _partitions(lambda found: [*found, *found, found[0]._replace(partition_index=3, error_code=-1)]),
        api="OffsetFetch",
    )
    found = await committed_offsets(GROUP, [PLACE], marked.bootstrap_servers)
    assert set(found) == {PLACE}
    assert found[PLACE].offset == 5


async def test_nothing_is_committed_where_offset_minus_one_says_so(marked: EmbeddedKafka) -> None:
    """Offset -1 is an answer, and leaves no partition out."""
    others = [("four", 0), ("four", 1), ("four", 0)]
    assert set(await committed_offsets(GROUP, [PLACE, *others], marked.bootstrap_servers)) == {PLACE}

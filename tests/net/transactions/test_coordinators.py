"""A session with the coordinators of a cluster, without a producer."""

from __future__ import annotations

from typing import Any

import pytest

from aioproducer import ConfigurationError, Coordinators, Producer, StateError
from aioproducer.testing import EmbeddedKafka
from tests.net.support import LIMIT
from tests.net.transactional import NAME, put, written


async def test_one_session_answers_all_questions(clerk: Producer[Any, Any], ledger: EmbeddedKafka) -> None:
    """Listing, committed offsets, the end of a detached transaction, and fencing, over the same session."""
    async with clerk.transaction() as tx:
        await put(clerk, b"a")
        tx.send_offsets({("one", 0): 5}, "readers")
        handle = await tx.detach()
    async with Coordinators(ledger.bootstrap_servers, client_id="doctor") as coordinators:
        listed = await coordinators.list_transactions(timeout=LIMIT)
        assert [(each.transactional_id, each.state) for each in listed] == [(NAME, "Ongoing")]
        await coordinators.commit(handle, timeout=LIMIT)
        assert (await coordinators.committed_offsets("readers", [("one", 0)]))[("one", 0)].offset == 5  # type: ignore[index]
        await coordinators.abort(type(handle)(NAME, 0, 0, 2, is_empty=True))
        await coordinators.fence([NAME], timeout=LIMIT)
        assert [each.state for each in await coordinators.list_transactions()] == ["Empty"]
    assert written(ledger) == [b"a"]


async def test_many_ids_are_fenced_over_a_few_connections(ledger: EmbeddedKafka) -> None:
    """Connections are dialed one after the other: one for each of thousands of ids takes longer than the call may."""
    names = [f"{NAME}-{number}" for number in range(200)]
    async with Coordinators(ledger.bootstrap_servers) as coordinators:
        await coordinators.fence(names, timeout=LIMIT)
        listed = await coordinators.list_transactions(NAME, timeout=LIMIT)
    assert {one.transactional_id for one in listed} == set(names)
    assert sum(seen.api == "ApiVersions" for seen in ledger.requests) < 50


async def test_a_session_belongs_to_one_block(ledger: EmbeddedKafka) -> None:
    """Outside of its block it is refused; it may be entered again afterwards."""
    coordinators = Coordinators(ledger.bootstrap_servers)
    with pytest.raises(StateError, match="async with"):
        await coordinators.list_transactions()
    async with coordinators:
        with pytest.raises(StateError, match="already open"):
            await coordinators.__aenter__()
        assert await coordinators.list_transactions() == []
    async with coordinators:
        assert await coordinators.list_transactions() == []


async def test_only_settings_of_connections_are_taken(ledger: EmbeddedKafka) -> None:
    """Another setting is refused by name; from a whole configuration the relevant ones are read."""
    with pytest.raises(ConfigurationError, match=r"^linger_ms: not a setting of connections"):
        Coordinators("localhost:9092", linger_ms=5)  # type: ignore[call-arg]
    with pytest.raises(ConfigurationError, match="no such setting"):
        Coordinators("localhost:9092", linger=5)  # type: ignore[call-arg]
    config = Producer(ledger.bootstrap_servers, linger_ms=5, request_timeout_ms=1234).config
    async with Coordinators.from_config(config) as coordinators:
        assert coordinators.config.request_timeout_ms == 1234
        assert await coordinators.list_transactions() == []

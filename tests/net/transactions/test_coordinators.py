"""A session with the coordinators of a cluster, without a producer."""

from __future__ import annotations

from typing import Any

import pytest

from aioproducer import ConfigurationError, Coordinators, Producer, StateError, TopicPartition
from aioproducer.testing import EmbeddedKafka
from tests.net.support import LIMIT, Make, engine, until
from tests.net.transactional import NAME, asked, put, seen, written


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
    assert len(asked(ledger, "ApiVersions")) < 50


@pytest.mark.parametrize("call", ["commit", "abort"])
async def test_many_handles_are_ended_over_a_few_connections(
    clerk: Producer[Any, Any], ledger: EmbeddedKafka, call: str
) -> None:
    """The driver of a large job has thousands of them: each handshake costs processor time on both sides."""
    handles = []
    for number in range(60):
        await clerk.init_transactions(f"{NAME}-{number}")
        async with clerk.transaction() as tx:
            await put(clerk, b"%d" % number)
            handles.append(await tx.detach())
    ledger.forget_requests()
    async with Coordinators(ledger.bootstrap_servers) as coordinators:
        for one in handles:
            await getattr(coordinators, call)(one, timeout=LIMIT)
    assert len(asked(ledger, "EndTxn")) == 60
    assert len(asked(ledger, "ApiVersions")) < 10
    assert len(seen(ledger)) == (60 if call == "commit" else 0)


async def test_questions_about_groups_and_listings_share_connections(ledger: EmbeddedKafka) -> None:
    """The calls of one session that come one after the other need a connection to each broker, and one to any."""
    async with Coordinators(ledger.bootstrap_servers) as coordinators:
        for number in range(20):
            assert (
                await coordinators.committed_offsets(f"readers-{number}", [("one", 0)], timeout=LIMIT) == {}
            )
            assert await coordinators.list_transactions("none", timeout=LIMIT) == []
    assert len(asked(ledger, "ApiVersions")) < 10


async def _work(clerk: Producer[Any, Any], number: int) -> None:
    """The work of one task of a stream: it takes its id over, reads its mark, and commits rows with the next mark."""
    group, place = f"{NAME}-{number}", TopicPartition("one", 0)
    await clerk.init_transactions(group, timeout=LIMIT)
    found = await clerk.committed_offsets(group, [place], timeout=LIMIT)
    last = found[place].offset if found else 0
    await clerk.begin_transaction()
    await put(clerk, b"%d of %d" % (last, number))
    await clerk.send_offsets_to_transaction({place: last + 1}, group, timeout=LIMIT)
    await clerk.commit_transaction(timeout=LIMIT)


async def test_ids_and_groups_that_a_producer_had_before_need_no_dial(
    clerk: Producer[Any, Any], ledger: EmbeddedKafka
) -> None:
    """Tasks of a stream share the producer of their worker, which has other ids and groups in each epoch."""
    for number in range(3):
        await _work(clerk, number)
    ledger.forget_requests()
    for number in (2, 0, 1, 1, 0):
        await _work(clerk, number)
    assert asked(ledger, "ApiVersions") == []
    assert asked(ledger, "FindCoordinator") == []
    assert len(asked(ledger, "InitProducerId")) == 5
    assert sorted(map(str, seen(ledger))) == sorted(
        str(b"%d of %d" % (last, number))
        for number, count in ((0, 3), (1, 3), (2, 2))
        for last in range(count)
    )


async def test_a_coordinator_that_has_moved_since_an_id_was_in_use(
    clerk: Producer[Any, Any], ledger: EmbeddedKafka
) -> None:
    """The broker of the former connection says so, and the new one is looked up."""
    for number in (0, 1):
        await _work(clerk, number)
    for broker in (1, 2):
        ledger.faults.move_coordinator(f"{NAME}-0", broker)
        for number in (0, 1):
            await _work(clerk, number)
    assert len(seen(ledger)) == 6


async def test_connections_of_former_ids_are_closed_when_they_are_idle(
    make: Make, ledger: EmbeddedKafka
) -> None:
    """They have no other user, and brokers limit the number of connections."""
    clerk = make(ledger, transactional_id=NAME, connections_max_idle_ms=60)
    await clerk.start()
    for number in range(3):
        await _work(clerk, number)
    await until(lambda: sum(broker.connections for broker in ledger.brokers) == 0)
    await _work(clerk, 0)
    assert len(seen(ledger)) == 4
    transactions = engine(clerk).transactions
    assert transactions is not None
    # A look-up was begun, and cancelled.
    transactions.coordinators.of_id._is_elsewhere(0)
    await until(lambda: sum(broker.connections for broker in ledger.brokers) == 0)


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

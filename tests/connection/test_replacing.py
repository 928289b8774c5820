"""Replacing open connections: each gets its successor first, and never in the way of the end of a producer."""

from __future__ import annotations

import asyncio
import gc
import logging
import random
from collections.abc import AsyncIterator
from typing import Any
from unittest import mock

import attrs
import pytest

from aioproducer._net.connecting.replacing import Replacement
from aioproducer._net.log import log_of
from aioproducer._state.connecting.endpoint import BrokerEndpoint
from aioproducer.errors import AuthenticationError, BrokerUnavailableError, KafkaError
from tests.net.support import turns

MAX_IDLE_MS = 540_000
STAY = "open connections stay as they are"
REFUSED = AuthenticationError("no", reason="credentials", code=58)


def broker(number: int) -> BrokerEndpoint:
    """The endpoint of a broker."""
    return BrokerEndpoint.advertised(f"broker{number}", 9092, number)


@attrs.define
class Brokers:
    """Connections that are open, and what brokers answer to the next attempts."""

    open: dict[Any, BrokerEndpoint] = attrs.Factory(dict)
    problems: dict[int, KafkaError] = attrs.Factory(dict)
    dialed: list[int | None] = attrs.Factory(list)
    free_at: dict[str, float] = attrs.Factory(dict)
    replaced: Replacement = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        loop = asyncio.get_running_loop()
        self.replaced = Replacement(
            loop,
            random.Random(1),
            self.open,
            self.dial,
            lambda place: self.free_at.get(place[0], 0.0),
            MAX_IDLE_MS,
            log_of("tests"),
        )

    def connect(self, number: int) -> Any:
        """An open connection; its departure ends it at once."""
        connection = mock.Mock(closed=False, last_used=float(-len(self.open)))
        connection.gate.takes_requests = True
        connection.gate.is_retired = False
        self.open[connection] = broker(number)

        def leave() -> None:
            connection.closed = True
            connection.gate.takes_requests = False
            if self.open.pop(connection, None) is not None:
                self.replaced.ended(connection)

        connection.departure.leave_when_answered.side_effect = leave
        connection.departure.leave.side_effect = leave
        connection.close.side_effect = leave
        return connection

    async def dial(self, endpoint: BrokerEndpoint) -> Any:
        """A further connection, or the problem of this broker."""
        self.dialed.append(endpoint.node_id)
        changes = self.replaced.changes
        await asyncio.sleep(0)
        if endpoint.node_id in self.problems:
            raise self.problems[endpoint.node_id]
        connection = self.connect(endpoint.node_id or 0)
        self.replaced.opened(connection, changes)
        return connection


@pytest.fixture
async def brokers() -> AsyncIterator[Brokers]:
    """Two brokers with a connection each."""
    made = Brokers()
    made.connect(1)
    made.connect(2)
    yield made
    made.replaced.end()
    await turns(2)


async def test_the_successor_comes_first(brokers: Brokers) -> None:
    """The second connection is replaced when the successor of the first one has its user."""
    first, second = brokers.open
    brokers.replaced.begin()
    await turns(2)
    assert brokers.dialed == [1]
    assert not first.closed
    await turns(5)
    assert first.closed
    assert not second.closed
    taken = brokers.replaced.take(broker(1))
    assert taken in brokers.open
    assert brokers.replaced.take(broker(1)) is None
    await turns(10)
    assert second.closed
    assert brokers.dialed == [1, 2]


@pytest.mark.parametrize("problem", [REFUSED, BrokerUnavailableError("it does not answer")])
async def test_a_connection_without_a_successor_stays(
    brokers: Brokers, problem: KafkaError, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other broker is tried before it again, and one warning counts those that stay."""
    monkeypatch.setattr("aioproducer._net.connecting.replacing._PAUSE", mock.Mock(after=lambda *_: 0.0))
    monkeypatch.setattr("aioproducer._net.connecting.replacing._TAKEN_WITHIN", 0.0)
    first, second = brokers.open
    brokers.problems[1] = problem
    with caplog.at_level(logging.WARNING):
        brokers.replaced.begin()
        while not second.closed:
            await turns(1)
        await turns(5)
    assert not first.closed
    assert brokers.dialed[:2] == [1, 2]
    assert [f"2 {STAY}" in line for line in caplog.messages] == [True]
    brokers.problems.clear()
    while not first.closed:
        await turns(1)


async def test_attempts_that_lead_to_nothing_have_pauses(brokers: Brokers) -> None:
    """All brokers refuse: the next attempt comes a second later, unless the settings have changed again."""
    brokers.problems.update({1: REFUSED, 2: REFUSED})
    brokers.replaced.begin()
    await turns(20)
    assert brokers.dialed == [1]
    brokers.replaced.begin()
    await turns(20)
    assert brokers.dialed == [1, 1]


async def test_an_address_with_a_pause_is_not_dialed(brokers: Brokers) -> None:
    """The other one is free."""
    brokers.free_at["broker1"] = asyncio.get_running_loop().time() + 60.0
    brokers.replaced.begin()
    await turns(20)
    assert brokers.dialed == [2]


async def test_a_connection_that_ends_as_its_replacement_begins(
    brokers: Brokers, caplog: pytest.LogCaptureFixture
) -> None:
    """It needs no successor, and the others are replaced."""
    first, second = brokers.open
    brokers.replaced.begin()
    asyncio.get_running_loop().call_soon(first.close)
    await turns(10)
    brokers.replaced.take(broker(1))
    await turns(10)
    gc.collect()
    assert second.closed
    assert brokers.dialed == [2]
    assert not caplog.messages


async def test_a_broker_that_is_down_is_no_bad_password(
    brokers: Brokers, caplog: pytest.LogCaptureFixture
) -> None:
    """Its connection has ended as well."""
    first, _ = brokers.open
    brokers.problems[1] = BrokerUnavailableError("it was stopped")
    with caplog.at_level(logging.WARNING):
        brokers.replaced.begin()
        first.close()
        await turns(10)
    assert not caplog.messages


async def test_a_connection_that_was_being_opened_is_replaced_as_well() -> None:
    """It may have the former credentials; one whose attempt began later has the new ones."""
    brokers = Brokers()
    before = brokers.replaced.changes
    brokers.replaced.begin()
    first, second = brokers.connect(1), brokers.connect(2)
    brokers.replaced.opened(first, before)
    brokers.replaced.opened(second, brokers.replaced.changes)
    await turns(10)
    assert first.closed
    assert not second.closed
    brokers.replaced.end()
    await turns(2)


async def test_a_successor_with_former_settings_is_replaced_as_well(brokers: Brokers) -> None:
    """The settings change while it is opened: it works, and another one follows it."""
    first, second = brokers.open
    brokers.replaced.begin()
    await turns(2)
    assert brokers.dialed == [1]
    brokers.replaced.begin()
    await turns(10)
    assert first.closed
    taken = brokers.replaced.take(broker(1))
    assert taken is not None
    while not (taken.closed and second.closed):
        brokers.replaced.take(broker(2))
        await turns(1)
    assert brokers.dialed == [1, 2, 1]
    assert brokers.replaced.take(broker(1)) in brokers.open


async def test_a_successor_of_former_settings_is_of_use(brokers: Brokers) -> None:
    """Nothing has taken it when wrong settings follow: it may be the last connection, and is replaced like any other."""
    brokers.replaced.begin()
    await turns(10)
    _, unused = brokers.open
    brokers.problems.update({1: REFUSED, 2: REFUSED})
    brokers.replaced.begin()
    await turns(10)
    assert brokers.replaced.take(broker(1)) is unused
    assert unused is not None
    assert not unused.closed
    brokers.problems.clear()
    brokers.replaced.begin()
    await turns(10)
    brokers.replaced.take(broker(2))
    await turns(10)
    assert unused.closed


async def test_a_rotation_is_not_forgotten_for_a_broker_that_is_back(brokers: Brokers) -> None:
    """It has moved, the settings change, and it is where it was: its connection has the former settings."""
    first, _ = brokers.open
    brokers.problems[7] = BrokerUnavailableError("nothing listens there")
    brokers.replaced.lead_to(first, BrokerEndpoint.advertised("elsewhere", 9092, 7))
    brokers.replaced.begin()
    brokers.replaced.lead_to(first, broker(1))
    await turns(10)
    assert first.closed
    assert brokers.replaced.take(broker(1)) in brokers.open


async def test_an_attempt_at_a_former_place_is_not_given_up(brokers: Brokers) -> None:
    """It may have presented the credentials. What it opens there is left, as the broker is elsewhere by then."""
    first, second = brokers.open
    brokers.replaced.lead_to(first, broker(7))
    await turns(1)
    assert brokers.dialed == [7]
    brokers.replaced.lead_to(first, broker(8))
    await turns(10)
    assert brokers.dialed == [7, 8]
    assert first.closed
    endpoint, successor = brokers.replaced.take_for(first) or (None, None)
    assert endpoint == broker(8)
    assert list(brokers.open) == [second, successor]
    assert not brokers.replaced._moving
    assert not brokers.replaced._targets


async def test_a_successor_is_that_of_its_connection_wherever_it_leads(brokers: Brokers) -> None:
    """The broker is where it was again, while the connection that is left waits for its last answers."""
    first, _ = brokers.open
    first.departure.leave_when_answered.side_effect = None
    brokers.replaced.lead_to(first, broker(7))
    await turns(5)
    first.gate.is_retired = True
    brokers.replaced.lead_to(first, broker(1))
    await turns(5)
    assert brokers.dialed == [7]
    endpoint, successor = brokers.replaced.take_for(first) or (None, None)
    assert endpoint == broker(7)
    assert successor in brokers.open
    assert brokers.replaced.take_for(first) is None


async def test_a_broker_that_moves_while_the_settings_change(brokers: Brokers) -> None:
    """Its connection, which waits for its last answers, has one successor: the other one is closed."""
    first, second = brokers.open
    first.departure.leave_when_answered.side_effect = None
    brokers.replaced.begin()
    brokers.replaced.lead_to(first, broker(7))
    await turns(10)
    assert set(brokers.dialed[:2]) == {1, 7}
    _, successor = brokers.replaced.take_for(first) or (None, None)
    assert set(brokers.open) == {first, second, successor}
    assert brokers.replaced.take_for(first) is None


async def test_brokers_that_have_moved_wait_for_no_other(brokers: Brokers) -> None:
    """One is advertised at a place that does not answer, and another one may be dialed at once."""
    first, second = brokers.open
    brokers.problems[7] = BrokerUnavailableError("nothing listens there")
    brokers.replaced.lead_to(first, BrokerEndpoint.advertised("elsewhere", 9092, 7))
    await turns(5)
    brokers.replaced.lead_to(second, broker(8))
    await turns(5)
    assert second.closed
    assert not first.closed
    assert brokers.replaced.take(broker(8)) in brokers.open


async def test_a_successor_that_has_ended_is_not_taken(brokers: Brokers) -> None:
    """The broker has closed it meanwhile."""
    brokers.replaced.begin()
    await turns(10)
    list(brokers.open)[-1].close()
    assert brokers.replaced.take(broker(1)) is None


async def test_two_connections_to_one_endpoint_have_a_successor_each(
    brokers: Brokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One is of a sender, and one of a coordinator: each of them gets its own."""
    monkeypatch.setattr("aioproducer._net.connecting.replacing._TAKEN_WITHIN", 0.0)
    first, second = brokers.open
    third = brokers.connect(1)
    brokers.replaced.begin()
    while not (first.closed and second.closed and third.closed):
        await turns(1)
    assert brokers.dialed.count(1) == 2
    taken = [brokers.replaced.take(broker(1)) for _ in range(3)]
    assert taken[0] in brokers.open
    assert taken[1] in brokers.open
    assert taken[0] is not taken[1]
    assert taken[2] is None


async def test_a_connection_that_was_left_gets_no_successor(brokers: Brokers) -> None:
    """It waits for its last answers, and its user has another one."""
    brokers.connect(3).gate.is_retired = True
    brokers.replaced.begin()
    taken = 0
    while taken < 2:
        taken += sum(brokers.replaced.take(broker(number)) is not None for number in (1, 2))
        await turns(1)
    await turns(10)
    assert brokers.dialed == [1, 2]


async def test_a_broker_that_holds_an_answer_holds_up_no_further_change(brokers: Brokers) -> None:
    """The first connection to be left has a request in flight when the settings change again."""
    first, second = brokers.open
    first.departure.leave_when_answered.side_effect = None
    brokers.replaced.begin()
    await turns(5)
    assert brokers.dialed == [1]
    first.gate.is_retired = True
    brokers.replaced.begin()
    await turns(10)
    assert second.closed


async def test_successors_without_a_user_are_closed_at_last(
    brokers: Brokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their users have nothing to send, and open a connection when they have. It holds also while another one has no successor."""
    monkeypatch.setattr("aioproducer._net.connecting.replacing._TAKEN_WITHIN", 0.0)
    brokers.replaced._max_idle = 0.001
    first, _ = brokers.open
    brokers.problems[1] = REFUSED
    brokers.replaced.begin()
    brokers.replaced._former.reverse()
    while list(brokers.open) != [first] or brokers.dialed != [2, 1]:
        await turns(1)
    assert brokers.replaced.take(broker(2)) is None


def test_a_loop_that_was_closed_first() -> None:
    """The end of a producer whose loop is closed goes on behind it: its sockets are still to be closed."""
    loop = asyncio.new_event_loop()

    async def begin() -> Replacement:
        brokers = Brokers()
        brokers.connect(1)
        brokers.replaced.begin()
        await turns(1)
        return brokers.replaced

    replaced = loop.run_until_complete(begin())
    loop.close()
    replaced.end()

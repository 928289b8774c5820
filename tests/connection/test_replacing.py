"""Replacing open connections: one after the other, and never in the way of the end of a producer."""

from __future__ import annotations

import asyncio
import random
from typing import Any
from unittest import mock

import pytest

from aioproducer._net.connecting.refusals import Refusals
from aioproducer._net.connecting.replacing import Replacement
from aioproducer._net.log import log_of
from aioproducer.errors import AuthenticationError
from tests.net.support import turns

ADDRESS = ("broker", 9092)


def waiting() -> mock.Mock:
    """A connection with requests in flight."""
    return mock.Mock(closed=False, last_used=0.0)


def replacement(loop: asyncio.AbstractEventLoop, connections: dict[Any, tuple[str, int]]) -> Replacement:
    """The replacement of these connections."""
    return Replacement(loop, connections, Refusals(loop, random.Random(1)), log_of("tests"))


async def refused(refusals: Refusals, number: int = 3) -> None:
    """A broker refuses the credentials of an attempt."""
    with pytest.raises(AuthenticationError):
        async with refusals.attempt((f"broker{number}", 9092)) as attempt:
            attempt.presented = refusals.changes
            raise AuthenticationError("no", reason="credentials", code=58)


async def test_one_after_the_other() -> None:
    """The second connection is left when the first one has ended and its address has another one."""
    first, second, third = waiting(), waiting(), waiting()
    connections = {first: ADDRESS, second: ("other", 9092)}
    replaced = replacement(asyncio.get_running_loop(), connections)
    replaced.begin()
    await turns(3)
    first.departure.leave_when_answered.assert_called_once()
    del connections[first]
    replaced.note()
    await turns(3)
    second.departure.leave_when_answered.assert_not_called()
    connections[third] = ADDRESS
    replaced.opened(third, replaced.changes)
    await turns(3)
    second.departure.leave_when_answered.assert_called_once()
    third.departure.leave_when_answered.assert_not_called()
    replaced.end()
    await turns(2)


def test_a_loop_that_was_closed_first() -> None:
    """The end of a producer whose loop is closed goes on behind it: its sockets are still to be closed."""
    loop = asyncio.new_event_loop()

    async def begin() -> Replacement:
        replaced = replacement(loop, {waiting(): ADDRESS})
        replaced.begin()
        await turns(3)
        return replaced

    replaced = loop.run_until_complete(begin())
    loop.close()
    replaced.end()


async def test_a_connection_that_was_being_opened_is_replaced_as_well() -> None:
    """It may have the former credentials; one whose attempt began later has the new ones."""
    first, second = waiting(), waiting()
    connections: dict[Any, tuple[str, int]] = {}
    replaced = replacement(asyncio.get_running_loop(), connections)
    before = replaced.changes
    replaced.begin()
    await turns(3)
    for connection, changes in ((first, before), (second, replaced.changes)):
        connections[connection] = ADDRESS
        replaced.opened(connection, changes)
    await turns(3)
    first.departure.leave_when_answered.assert_called_once()
    second.departure.leave_when_answered.assert_not_called()
    replaced.end()
    await turns(2)


async def test_a_refusal_from_before_is_none_of_the_new_certificates() -> None:
    """One broker has refused the credentials: the connections to the others are replaced."""
    first, second, third = waiting(), waiting(), waiting()
    connections: dict[Any, tuple[str, int]] = {first: ADDRESS, second: ("other", 9092)}
    refusals = Refusals(asyncio.get_running_loop(), random.Random(1))
    replaced = Replacement(asyncio.get_running_loop(), connections, refusals, log_of("tests"))
    await refused(refusals)
    replaced.begin()
    await turns(3)
    del connections[first]
    connections[third] = ADDRESS
    replaced.opened(third, replaced.changes)
    await turns(3)
    second.departure.leave_when_answered.assert_called_once()
    replaced.end()
    await turns(2)


async def test_one_broker_may_refuse_what_others_accept() -> None:
    """The replacement goes on where the new credentials are proven; a second broker that refuses them ends it."""
    connections: dict[Any, tuple[str, int]] = {waiting(): (f"broker{number}", 9092) for number in range(4)}
    order = list(connections)
    refusals = Refusals(asyncio.get_running_loop(), random.Random(1))
    replaced = Replacement(asyncio.get_running_loop(), connections, refusals, log_of("tests"))
    replaced.begin()
    await turns(3)
    connections[waiting()] = connections.pop(order[0])
    replaced.opened(list(connections)[-1], replaced.changes)
    await turns(3)
    for number, is_next in ((1, True), (2, False)):
        refusals._not_before = 0.0
        await refused(refusals, number)
        connections[waiting()] = connections.pop(order[number])
        replaced.note()
        await turns(5)
        assert order[number + 1].departure.leave_when_answered.called is is_next
    replaced.end()
    await turns(2)


async def test_a_refusal_since_then_ends_it() -> None:
    """The remaining connections are of use until their sessions end."""
    first, second = waiting(), waiting()
    connections: dict[Any, tuple[str, int]] = {first: ADDRESS, second: ("other", 9092)}
    refusals = Refusals(asyncio.get_running_loop(), random.Random(1))
    replaced = Replacement(asyncio.get_running_loop(), connections, refusals, log_of("tests"))
    replaced.begin()
    await turns(3)
    del connections[first]
    await refused(refusals)
    replaced.note()
    await turns(5)
    second.departure.leave_when_answered.assert_not_called()
    replaced.end()
    await turns(2)

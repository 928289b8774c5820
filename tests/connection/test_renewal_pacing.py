"""The distance between renewals of sessions: they follow one another, and none holds up the others for long."""

from __future__ import annotations

import asyncio
import random
from itertools import pairwise

import pytest

from aioproducer import AuthenticationError
from aioproducer._net.connecting.refusals import Refusals
from aioproducer._net.connecting.renewal_pacing import RenewalPacing
from tests.connection.test_refused_credentials import present

LIMIT = 30.0


async def test_renewals_follow_one_another() -> None:
    """Also without a refusal before: the first one may be refused."""
    loop = asyncio.get_running_loop()
    refusals, pacing = Refusals(loop, random.Random(1)), RenewalPacing(loop)
    refused = AuthenticationError("no", reason="credentials", code=58)
    begun: list[bool] = []

    async def renew() -> None:
        until = loop.time() + 0.3
        async with pacing.turn(0.3), refusals.attempt_before(("127.0.0.1", 9092), until) as attempt:
            begun.append(attempt is not None)
            await asyncio.sleep(0)
            if attempt is not None:
                await present(attempt, refused)

    outcomes = await asyncio.gather(*(renew() for _ in range(3)), return_exceptions=True)
    assert sorted(begun) == [False, False, True]
    assert [type(each) for each in outcomes] == [AuthenticationError, type(None), type(None)]
    assert refusals.refusing


async def test_renewals_that_take_long_hold_up_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """Brokers may not answer: each next renewal begins a second after the one before it."""
    monkeypatch.setattr("aioproducer._net.connecting.renewal_pacing._AFTER_ONE_ANOTHER", 0.05)
    loop = asyncio.get_running_loop()
    pacing = RenewalPacing(loop)
    answered = asyncio.Event()
    began: list[float] = []

    async def renew() -> None:
        async with pacing.turn(LIMIT):
            began.append(loop.time())
            if len(began) == 3:
                answered.set()
            await answered.wait()

    async with asyncio.timeout(LIMIT):
        await asyncio.gather(*(renew() for _ in range(3)))
    assert all(later - earlier >= 0.045 for earlier, later in pairwise(began))


async def test_a_renewal_waits_for_others_for_a_part_of_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its session ends as well: a quarter of the time that is left, and no second."""
    monkeypatch.setattr("aioproducer._net.connecting.renewal_pacing._AFTER_ONE_ANOTHER", LIMIT)
    pacing = RenewalPacing(asyncio.get_running_loop())
    async with asyncio.timeout(LIMIT / 2), pacing.turn(LIMIT), pacing.turn(0.04):
        pass

"""Attempts beside each other: the first success counts, and nothing of the others is left."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from functools import partial
from typing import Any

import pytest

from aioproducer._net.connecting.beside import Rounds, first_success

Attempt = Callable[[], Coroutine[Any, Any, str]]


class Attempts:
    """Attempts that end when the test says so; the names of those that have begun, and what became of them."""

    def __init__(self, setup_timeout: float = 0.01) -> None:
        self._setup_timeout = setup_timeout
        self.begun: list[str] = []
        self.failures: list[str] = []
        self.discarded: list[str | None] = []
        self.unexpected: list[str] = []
        self._ends: dict[str, asyncio.Future[str]] = {}

    def __call__(self, name: str) -> Attempt:
        return partial(self._attempt, name)

    async def _attempt(self, name: str) -> str:
        self.begun.append(name)
        self._ends[name] = asyncio.get_running_loop().create_future()
        return await self._ends[name]

    def succeed(self, name: str) -> None:
        self._ends[name].set_result(name)

    def fail(self, name: str) -> None:
        self._ends[name].set_exception(OSError(name))

    def failed(self, error: Exception) -> bool:
        self.failures.append(str(error))
        return True

    def run(self, *names: str) -> asyncio.Task[str | None]:
        attempts = map(self, names)
        return asyncio.ensure_future(
            first_success(attempts, self._setup_timeout, self.failed, self.discarded.append)
        )

    async def until(self, *begun: str) -> None:
        async with asyncio.timeout(10):
            while self.begun != [*begun]:  # noqa: ASYNC110  # a turn of the loop after the other
                await asyncio.sleep(0)


def begin(
    attempts: Attempts,
    rounds: Rounds[str, str],
    names: Iterable[str],
    setup_timeout: float,
    *,
    has_others: bool,
) -> asyncio.Task[str | None]:
    """A round with these attempts."""
    made = {name: attempts(name) for name in names}
    return asyncio.ensure_future(
        rounds.first_success(made, setup_timeout, attempts.failed, has_others=has_others)
    )


async def test_the_next_one_begins_beside_one_that_takes_long() -> None:
    """The first one may succeed all the same, and the other one is cancelled."""
    attempts, loop = Attempts(setup_timeout=0.01), asyncio.get_running_loop()
    began = loop.time()
    found = attempts.run("a", "b", "c")
    await attempts.until("a", "b", "c")
    assert loop.time() < began + 3.0
    attempts.succeed("a")
    assert await found == "a"
    assert (attempts.failures, attempts.discarded) == ([], [])


async def test_the_next_one_begins_at_once_where_one_has_failed() -> None:
    """Without the time of the first one being over."""
    attempts = Attempts(setup_timeout=1_000.0)
    found = attempts.run("a", "b")
    await attempts.until("a")
    attempts.fail("a")
    await attempts.until("a", "b")
    attempts.fail("b")
    assert await found is None
    assert attempts.failures == ["a", "b"]


@pytest.mark.parametrize("is_cancelled", [False, True])
async def test_what_ends_in_the_turn_of_the_end_is_discarded(is_cancelled: bool) -> None:
    """Two succeed in the same turn, or the caller is cancelled in the turn of a success."""
    attempts = Attempts()
    found = attempts.run("a", "b")
    await attempts.until("a", "b")
    attempts.succeed("a")
    attempts.succeed("b")
    await asyncio.sleep(0)
    if is_cancelled:
        found.cancel()
    results = await asyncio.gather(found, return_exceptions=True)
    await asyncio.sleep(0)
    kept = [result for result in results if isinstance(result, str)]
    assert len(kept) == 1 - is_cancelled
    assert {*kept, *attempts.discarded} == {"a", "b"}


async def test_an_error_behind_which_no_attempt_begins() -> None:
    """One that has begun may still succeed; the end is known when it has failed as well."""
    for name in ("a", "b"):
        attempts = Attempts()
        names = ["a", "b", "c"]

        def failed(error: Exception) -> bool:
            return str(error) != "b"

        found = asyncio.ensure_future(
            first_success(map(attempts, names), 0.05, failed, attempts.discarded.append)
        )
        await attempts.until("a", "b")
        attempts.fail("b")
        await asyncio.sleep(0)
        assert not found.done()
        if name == "a":
            attempts.succeed("a")
        else:
            attempts.fail("a")
        assert await found == ("a" if name == "a" else None)
        assert attempts.begun == ["a", "b"]


async def test_an_error_of_the_program() -> None:
    """It ends all: those that go on are cancelled."""
    attempts = Attempts()

    def failed(error: Exception) -> bool:
        raise error

    names = ["a", "b", "c"]
    found = asyncio.ensure_future(
        first_success(map(attempts, names), 0.05, failed, attempts.discarded.append)
    )
    await attempts.until("a", "b")
    attempts.fail("b")
    with pytest.raises(OSError, match="b"):
        await found
    assert attempts.discarded == []


async def test_one_that_has_failed_is_repeated_beside_one_that_takes_long(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its broker may be well again. When the slow one has ended, all are over."""
    monkeypatch.setattr("aioproducer._net.connecting.beside._LEAST_PAUSE", 0.01)
    for is_well in (True, False):
        attempts = Attempts()
        found = attempts.run("slow", "restarting")
        await attempts.until("slow", "restarting")
        attempts.fail("restarting")
        await attempts.until("slow", "restarting", "restarting")
        attempts.succeed("restarting") if is_well else attempts.fail("slow")
        assert await found == ("restarting" if is_well else None)
        assert attempts.failures == (["restarting"] if is_well else ["restarting", "slow"])


async def test_one_that_has_failed_is_not_repeated_at_once() -> None:
    """However short the setup timeout is."""
    attempts, loop = Attempts(setup_timeout=0.0), asyncio.get_running_loop()
    found = attempts.run("slow", "refusing")
    await attempts.until("slow", "refusing")
    attempts.fail("refusing")
    failed_at = loop.time()
    await attempts.until("slow", "refusing", "refusing")
    assert loop.time() - failed_at > 0.9
    attempts.succeed("slow")
    assert await found == "slow"


async def test_a_slow_one_goes_on_beside_the_next_round() -> None:
    """The round is over when the others have failed; the slow one may succeed in any later one."""
    attempts = Attempts()
    rounds = Rounds[str, str](attempts.discarded.append, attempts.unexpected.append)

    def run(*names: str, has_others: bool = False) -> asyncio.Task[str | None]:
        return begin(attempts, rounds, names, 0.01, has_others=has_others)

    found = run("slow", "a")
    await attempts.until("slow", "a")
    attempts.fail("a")
    assert await found is None
    assert rounds.under_way() == {"slow"}
    found = run("b", has_others=True)
    await attempts.until("slow", "a", "b")
    assert await found is None
    found = run()
    attempts.succeed("slow")
    assert await found == "slow"
    assert (attempts.failures, attempts.discarded) == (["a"], [])
    assert rounds.under_way() == set()
    assert await run() is None


async def test_a_round_with_nothing_else_to_try_waits() -> None:
    """One broker alone may take as long as its attempt is given."""
    attempts = Attempts(setup_timeout=0.0)
    rounds = Rounds[str, str](attempts.discarded.append, attempts.unexpected.append)
    found = asyncio.ensure_future(
        rounds.first_success({"a": attempts("a")}, 0.0, attempts.failed, has_others=False)
    )
    await attempts.until("a")
    await asyncio.sleep(0)
    assert not found.done()
    attempts.succeed("a")
    assert await found == "a"


async def test_rounds_that_are_given_up() -> None:
    """The result of an attempt that ends all the same is discarded."""
    attempts = Attempts()
    rounds = Rounds[str, str](attempts.discarded.append, attempts.unexpected.append)
    found = begin(attempts, rounds, "ab", 0.01, has_others=True)
    await attempts.until("a", "b")
    assert await found is None
    attempts.succeed("a")
    rounds.give_up()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert attempts.discarded in (["a"], [])
    assert await rounds.first_success({}, 0.01, attempts.failed, has_others=False) is None


async def test_a_round_that_is_given_up_begins_nothing_more() -> None:
    """Another task has led to a connection meanwhile."""
    attempts = Attempts()
    rounds = Rounds[str, str](attempts.discarded.append, attempts.unexpected.append)
    found = begin(attempts, rounds, "abc", 1_000.0, has_others=False)
    await attempts.until("a")
    rounds.give_up()
    assert await found is None
    assert (attempts.begun, attempts.failures) == (["a"], [])


@pytest.mark.parametrize("is_cancelled", [False, True])
async def test_one_that_succeeds_while_nothing_waits_for_it(is_cancelled: bool) -> None:
    """The round was cancelled, or is over: the result is used at once, and no later round gets it."""
    attempts = Attempts()
    rounds = Rounds[str, str](attempts.discarded.append, attempts.unexpected.append)
    found = begin(attempts, rounds, "ab", 0.01, has_others=not is_cancelled)
    await attempts.until("a", "b")
    if is_cancelled:
        found.cancel()
    await asyncio.gather(found, return_exceptions=True)
    attempts.fail("a")
    attempts.succeed("b")
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert attempts.unexpected == ["b"]
    assert await rounds.first_success({}, 0.01, attempts.failed, has_others=True) is None
    # Nor is the failure told, which may be one of long ago.
    assert (attempts.failures, attempts.discarded) == ([], [])


async def test_one_that_succeeds_in_the_turn_of_the_cancellation() -> None:
    """Its round sees neither."""
    attempts = Attempts()
    rounds = Rounds[str, str](attempts.discarded.append, attempts.unexpected.append)
    found = begin(attempts, rounds, "a", 0.01, has_others=False)
    await attempts.until("a")
    attempts.succeed("a")
    found.cancel()
    results = await asyncio.gather(found, return_exceptions=True)
    await asyncio.sleep(0)
    assert [*(one for one in results if isinstance(one, str)), *attempts.unexpected] == ["a"]

"""Refused credentials: callers learn of them at once, and the whole producer makes one attempt at a time, ever less often."""

from __future__ import annotations

import asyncio
import contextlib
import random
from functools import partial
from typing import Any, cast

import anyio
import pytest

from aioproducer import AuthenticationError, ConfigurationError, DeliveryError, Outcome, Producer
from aioproducer._net.connecting.refusals import Attempt, Refusals
from aioproducer._state.backoff import Backoff
from aioproducer._state.connecting.dialogue import Await, Dialogue
from aioproducer.errors import BrokerUnavailableError
from tests.connection.peer import Peer
from tests.connection.test_authenticating import CANARY, Broker
from tests.connection.test_pairing import Listen
from tests.net.support import turns

LIMIT = 30.0
ADDRESS, OTHER = ("127.0.0.1", 9092), ("127.0.0.1", 9093)
SETTINGS: dict[str, Any] = {
    "security_protocol": "SASL_PLAINTEXT",
    "allow_plaintext_credentials": True,
    "sasl_mechanism": "PLAIN",
    "sasl_username": "user",
    "sasl_password": CANARY,
}


def servers(*peers: Peer) -> str:
    """The bootstrap servers."""
    return ",".join(f"127.0.0.1:{peer.port}" for peer in peers)


async def test_callers_learn_of_a_refusal_at_once(listen: Listen) -> None:
    """`ready()`, a waiting call and a queued record get the AuthenticationError; no other broker is tried for it."""
    brokers = [Broker("PLAIN", refuses="credentials") for _ in range(3)]
    peers = [await listen(broker) for broker in brokers]
    async with asyncio.timeout(LIMIT), Producer(servers(*peers), **SETTINGS) as producer:
        queued = producer.send_nowait("orders", b"a")
        waiting = asyncio.ensure_future(producer.send("orders", b"b"))
        with pytest.raises(AuthenticationError, match="refused the credentials") as caught:
            await producer.ready(LIMIT)
        assert (caught.value.reason, caught.value.code) == ("credentials", 58)
        with pytest.raises(AuthenticationError):
            await waiting
        assert await queued.wait(LIMIT) is Outcome.NOT_WRITTEN
        lost = queued.exception()
        assert isinstance(lost, DeliveryError)
        assert isinstance(lost.cause, AuthenticationError)
        assert sum(broker.seen.count("SaslAuthenticate") for broker in brokers) == 1


async def test_a_refused_attempt_of_another_task_is_told(
    listen: Listen, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The producer id is asked for as well: a call waits for one attempt, and not for two pauses."""
    monkeypatch.setattr("aioproducer._net.connecting.refusals._PAUSE", Backoff(0.3, 0.3))
    broker = Broker("PLAIN", refuses="credentials")
    peer = await listen(broker)
    async with asyncio.timeout(LIMIT), Producer(servers(peer), **SETTINGS) as producer:
        for _ in range(2):
            attempts = broker.seen.count("SaslAuthenticate")
            with pytest.raises(AuthenticationError):
                await producer.send("orders", b"a")
            assert broker.seen.count("SaslAuthenticate") == attempts + 1


async def test_a_missing_file_is_told_at_once() -> None:
    """Waiting does not help: the error names the setting and the file."""
    async with Producer(
        "127.0.0.1:1", security_protocol="SSL", ssl_truststore_location="/no/such/ca.pem"
    ) as producer:
        with pytest.raises(ConfigurationError, match=r"ssl_truststore_location=/no/such/ca\.pem"):
            await producer.ready(LIMIT)


async def present(
    attempt: Attempt, refused: Exception | None = None, during: Dialogue[None] | None = None
) -> None:
    """The authentication of this attempt, in its turn, with this result."""

    def authentication() -> Dialogue[None]:
        yield from during or ()
        if refused is not None:
            raise refused

    dialogue = attempt.presenting(authentication())
    with contextlib.suppress(StopIteration):
        step = next(dialogue)
        while True:
            assert isinstance(step, Await)
            try:
                given = await step.function()
            except AuthenticationError as error:
                step = dialogue.throw(error)
            else:
                step = dialogue.send(given)


def judged(begun: asyncio.Event, answered: asyncio.Event) -> Dialogue[None]:
    """The time that a broker takes for its answer."""
    begun.set()
    yield Await("the answer", answered.wait)


class Wrong:
    """Attempts with wrong credentials, and the number of those that presented them."""

    def __init__(self, refusals: Refusals, refused: AuthenticationError) -> None:
        self.presented = 0
        self._refusals = refusals
        self._refused = refused

    async def attempt(self) -> None:
        """One attempt, which the broker refuses after a while."""
        async with self._refusals.attempt(ADDRESS) as attempt:
            await present(attempt, self._refused, self._judged())

    def _judged(self) -> Dialogue[None]:
        self.presented += 1
        yield Await("the judgement of the broker", partial(turns, 3))


class Waits:
    """Records the pauses, which take no time; the clock of these refusals is put forward by them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1000.0
        self.seconds: list[float] = []
        self._whole = anyio.move_on_after
        monkeypatch.setattr(anyio, "move_on_after", self)
        self.refusals = Refusals(cast("asyncio.AbstractEventLoop", self), random.Random(1))

    def __call__(self, seconds: float | None) -> anyio.CancelScope:
        """A time limit that is over at once; none is left alone."""
        if seconds is None:
            return self._whole(None)
        self.seconds.append(seconds)
        self.now += seconds
        return self._whole(0.0)

    def time(self) -> float:
        """The time of the loop."""
        return self.now

    def taken(self) -> float:
        """All pauses since the last call."""
        seconds, self.seconds = sum(self.seconds), []
        return seconds


async def failing(refusals: Refusals, error: Exception, address: tuple[str, int] = ADDRESS) -> None:
    """One attempt."""
    with pytest.raises(type(error)):
        async with refusals.attempt(address) as attempt:
            await present(attempt, error)


async def test_the_pauses_grow(monkeypatch: pytest.MonkeyPatch) -> None:
    """From 1 s to 30 s, each 20 % more or less; a success ends them (S41)."""
    waits = Waits(monkeypatch)
    refusals = waits.refusals
    refused = AuthenticationError("no", reason="credentials", code=58)
    for expected in (0, 1, 2, 4, 8, 16, 30, 30):
        await failing(refusals, refused)
        assert 0.75 * expected <= waits.taken() <= 1.2 * expected
    async with refusals.attempt(ADDRESS) as attempt:
        await present(attempt)
    waits.taken()
    async with refusals.attempt(ADDRESS) as attempt:
        await present(attempt)
    assert waits.seconds == []


@pytest.mark.parametrize(
    "error",
    [
        BrokerUnavailableError("gone"),
        AuthenticationError("no", reason="certificate"),
        AuthenticationError("the callable raised", reason="credentials"),
    ],
)
async def test_other_failures_do_not_hold_up_the_producer(
    error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only a broker that refuses the credentials may lock the account."""
    waits = Waits(monkeypatch)
    refusals = waits.refusals
    await failing(refusals, error)
    async with refusals.attempt(ADDRESS) as attempt:
        await present(attempt)
    assert waits.seconds == []


async def test_refusals_of_a_kdc_hold_up_the_producer(monkeypatch: pytest.MonkeyPatch) -> None:
    """They have no code of Kafka, and many of them lock the principal as well (S41)."""
    waits = Waits(monkeypatch)
    refusals = waits.refusals
    refused = AuthenticationError("another key", reason="credentials", mechanism="GSSAPI")
    for _ in range(2):
        await failing(refusals, refused)
    assert waits.taken() > 0.75


async def test_a_refusal_is_that_of_all_attempts_that_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """One attempt for the whole producer: otherwise the last of many brokers would be told after many pauses (S41)."""
    monkeypatch.setattr("aioproducer._net.connecting.refusals._PAUSE", Backoff(0.1, 0.1))
    refusals = Refusals(asyncio.get_running_loop(), random.Random(1))
    refused = AuthenticationError("no", reason="credentials", code=58)
    await failing(refusals, refused)
    wrong = Wrong(refusals, refused)
    outcomes = await asyncio.gather(*(wrong.attempt() for _ in range(5)), return_exceptions=True)
    assert [type(each) for each in outcomes] == [AuthenticationError] * 5
    assert {str(each) for each in outcomes} == {str(refused)}
    assert wrong.presented == 1


async def test_an_attempt_whose_time_is_over_is_not_made() -> None:
    """A renewal behind a refusal: its session ends before its turn comes."""
    loop = asyncio.get_running_loop()
    refusals = Refusals(loop, random.Random(1))
    await failing(refusals, AuthenticationError("no", reason="credentials", code=58))
    async with refusals.attempt_before(ADDRESS, loop.time() + 0.01) as has_turn:
        assert not has_turn
    assert refusals.refusing
    refusals.forget()
    async with refusals.attempt_before(ADDRESS, loop.time() + LIMIT) as has_turn:
        assert has_turn


async def test_one_attempt_at_a_time() -> None:
    """Behind a refusal the attempts of several brokers wait for one another."""
    refusals = Refusals(asyncio.get_running_loop(), random.Random(1))
    await failing(refusals, AuthenticationError("no", reason="mechanism", code=33))
    refusals._not_before = 0.0
    inside = most = 0

    async def wait() -> None:
        nonlocal inside, most
        inside += 1
        most = max(most, inside)
        await asyncio.sleep(0)
        inside -= 1

    def unanswered() -> Dialogue[None]:
        yield Await("the answer", wait)

    async def attempt(port: int) -> None:
        with contextlib.suppress(BrokerUnavailableError):
            async with refusals.attempt(("127.0.0.1", port)) as attempt:
                await present(attempt, BrokerUnavailableError("neither refused nor accepted"), unanswered())

    await asyncio.gather(*(attempt(port) for port in range(3)))
    assert most == 1


async def test_new_credentials_end_the_pause() -> None:
    """An attempt that waits goes on at once (S41)."""
    refusals = Refusals(asyncio.get_running_loop(), random.Random(1))
    await failing(refusals, AuthenticationError("no", reason="credentials", code=58))
    attempt = asyncio.create_task(succeed(refusals))
    await asyncio.sleep(0)
    assert not attempt.done()
    refusals.forget()
    async with asyncio.timeout(LIMIT / 60):
        await attempt
    assert not refusals.refusing


async def test_new_credentials_end_the_wait_for_the_turn() -> None:
    """The attempt that has the turn may be one at a broker that does not answer."""
    refusals = Refusals(asyncio.get_running_loop(), random.Random(1))
    await failing(refusals, AuthenticationError("no", reason="credentials", code=58))
    answered, begun = asyncio.Event(), asyncio.Event()

    async def unanswered() -> None:
        async with refusals.attempt(ADDRESS) as attempt:
            await present(attempt, during=judged(begun, answered))

    refusals._not_before = 0.0
    refusals._refused.clear()
    async with asyncio.timeout(LIMIT):
        first = asyncio.create_task(unanswered())
        await begun.wait()
        second = asyncio.create_task(succeed(refusals))
        await turns(3)
        assert not second.done()
        refusals.forget()
        await second
        answered.set()
        await first


@pytest.mark.parametrize("goes_on", [True, False])
async def test_an_attempt_without_an_answer_ends_the_wait_for_the_turn(*, goes_on: bool) -> None:
    """Its connection was reset. It goes on at another address of its host: it waits there, or has not yet reached it."""
    refusals = Refusals(asyncio.get_running_loop(), random.Random(1))
    refusals.forget()
    reset, begun = asyncio.Event(), asyncio.Event()
    async with asyncio.timeout(LIMIT / 60), refusals.attempt(ADDRESS) as attempt:
        lost = BrokerUnavailableError("the connection was reset")
        first = asyncio.create_task(present(attempt, lost, judged(begun, reset)))
        await begun.wait()
        second = asyncio.create_task(succeed(refusals, OTHER))
        await turns(3)
        assert not second.done()
        if goes_on:
            next_one = asyncio.create_task(present(attempt))
            await second
            await next_one
        reset.set()
        await second
        with pytest.raises(BrokerUnavailableError):
            await first


async def test_an_attempt_that_a_change_ends_has_no_turn_behind_it() -> None:
    """Its wait is cancelled some turns of the loop later: the turn is that of another one at once."""
    refusals = Refusals(asyncio.get_running_loop(), random.Random(1))
    refusals.forget()
    answered, begun = asyncio.Event(), asyncio.Event()
    async with asyncio.timeout(LIMIT / 60):
        async with refusals.attempt(OTHER) as holding:
            held = asyncio.create_task(present(holding, during=judged(begun, answered)))
            await begun.wait()
            async with refusals.attempt(ADDRESS) as former:
                left = asyncio.create_task(present(former))
                await turns(3)
                refusals.forget()
            await turns(3)
            assert not former.has_begun
            await succeed(refusals, ADDRESS)
            left.cancel()
            answered.set()
            await held


async def test_an_attempt_that_waits_is_refused_with_those_that_have_begun() -> None:
    """The credentials are the same: other ones end it, while an answer at another address of its host is still awaited."""
    refusals = Refusals(asyncio.get_running_loop(), random.Random(1))
    refusals.forget()
    answered, begun = asyncio.Event(), asyncio.Event()
    refused = AuthenticationError("no", reason="credentials", code=58)
    async with asyncio.timeout(LIMIT), refusals.attempt(OTHER) as attempt, refusals.attempt(ADDRESS) as waits:
        first = asyncio.create_task(present(attempt, refused, judged(begun, answered)))
        await begun.wait()
        second = asyncio.create_task(present(waits))
        await turns(3)
        assert not waits.is_refused
        answered.set()
        await asyncio.wait([first, second])
        assert isinstance(second.exception(), AuthenticationError)
        assert not waits.has_begun
        assert waits.is_refused


async def test_new_credentials_are_tried_once_as_well() -> None:
    """They may be wrong: those that waited for the pause, or for the turn, do not all present them."""
    refusals = Refusals(asyncio.get_running_loop(), random.Random(1))
    refused = AuthenticationError("no", reason="credentials", code=58)
    await failing(refusals, refused)
    wrong = Wrong(refusals, refused)
    async with asyncio.timeout(LIMIT):
        waiting = [asyncio.create_task(wrong.attempt()) for _ in range(12)]
        await turns(3)
        assert wrong.presented == 0
        refusals.forget()
        outcomes = await asyncio.gather(*waiting, return_exceptions=True)
    assert wrong.presented == 1
    assert {str(each) for each in outcomes} == {str(refused)}


@pytest.mark.parametrize("is_refused", [True, False])
async def test_an_answer_to_former_credentials_says_nothing_of_the_new_ones(*, is_refused: bool) -> None:
    """A refusal makes no pause, and a success ends none."""
    refusals = Refusals(asyncio.get_running_loop(), random.Random(1))
    refused = AuthenticationError("no", reason="credentials", code=58)
    answered, begun = asyncio.Event(), asyncio.Event()

    async def late() -> None:
        async with refusals.attempt(ADDRESS) as attempt:
            await present(attempt, refused if is_refused else None, judged(begun, answered))

    former = asyncio.create_task(late())
    await begun.wait()
    refusals.forget()
    if not is_refused:
        await failing(refusals, refused)
    answered.set()
    await asyncio.wait([former])
    assert isinstance(former.exception(), AuthenticationError) is is_refused
    assert bool(refusals.refusing) is not is_refused


@pytest.mark.parametrize("is_refused", [True, False])
async def test_an_answer_of_one_address_while_another_one_of_the_host_is_tried(*, is_refused: bool) -> None:
    """It counts at once. The other address may answer as late as it likes."""
    refusals = Refusals(asyncio.get_running_loop(), random.Random(1))
    refused = AuthenticationError("no", reason="credentials", code=58)
    if not is_refused:
        await failing(refusals, refused)
        refusals._not_before = 0.0
        refusals._refused.clear()
    answered, never = asyncio.Event(), asyncio.Event()
    begun = [asyncio.Event(), asyncio.Event()]
    async with asyncio.timeout(LIMIT), refusals.attempt(ADDRESS) as attempt:
        result = refused if is_refused else None
        first = asyncio.create_task(present(attempt, result, judged(begun[0], answered)))
        await begun[0].wait()
        second = asyncio.create_task(present(attempt, during=judged(begun[1], never)))
        await begun[1].wait()
        answered.set()
        await asyncio.wait([first])
        assert isinstance(first.exception(), AuthenticationError) is is_refused
        assert bool(refusals.refusing) is is_refused
        assert attempt.has_begun
        second.cancel()


async def test_former_credentials_that_one_address_accepts_say_nothing_of_those_at_another_one() -> None:
    """They have changed between the attempts at two addresses of a host."""
    refusals = Refusals(asyncio.get_running_loop(), random.Random(1))
    answered, never = asyncio.Event(), asyncio.Event()
    begun = [asyncio.Event(), asyncio.Event()]
    async with asyncio.timeout(LIMIT), refusals.attempt(ADDRESS) as attempt:
        first = asyncio.create_task(present(attempt, during=judged(begun[0], answered)))
        await begun[0].wait()
        refusals.forget()
        second = asyncio.create_task(present(attempt, during=judged(begun[1], never)))
        await begun[1].wait()
        await failing(refusals, AuthenticationError("no", reason="credentials", code=58), OTHER)
        answered.set()
        await first
        assert refusals.refusing == {OTHER}
        second.cancel()


async def test_an_address_has_a_pause_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """A success at another address ends that of the others alone."""
    waits = Waits(monkeypatch)
    refusals = waits.refusals
    for expected in (0, 1, 2, 4, 8, 16, 30, 30):
        waits.taken()
        await failing(refusals, AuthenticationError("no", reason="credentials", code=58))
        assert 0.75 * expected <= waits.taken() <= 1.2 * expected
        now = waits.now
        assert refusals.not_before(ADDRESS) > now
        await succeed(refusals, OTHER)
        assert refusals.not_before(ADDRESS) > now > refusals.not_before(OTHER)
        waits.taken()
        # The pause of the whole producer has passed for the first address as well: it is not to count twice.
        waits.now = now
        await succeed(refusals, OTHER)
        assert waits.seconds == []
    refusals.forget_address(ADDRESS)
    await succeed(refusals)
    assert waits.seconds == []


async def test_the_pause_of_one_address_holds_up_no_other() -> None:
    """It waits without the turn: the pause is up to 30 s."""
    refusals = Refusals(asyncio.get_running_loop(), random.Random(1))
    refused = AuthenticationError("no", reason="credentials", code=58)
    await failing(refusals, refused)
    refusals._not_before = 0.0
    waiting = asyncio.create_task(succeed(refusals))
    await turns(3)
    async with asyncio.timeout(LIMIT / 60):
        await succeed(refusals, OTHER)
    assert not waiting.done()
    waiting.cancel()


async def test_a_broker_that_does_not_answer_holds_up_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """It may be one that checks the credentials: it is waited for, but not for long."""
    monkeypatch.setattr("aioproducer._state.connecting.turns._UNANSWERED", 0.05)
    monkeypatch.setattr("aioproducer._state.connecting.turns._LEAST_UNANSWERED", 0.05)
    refusals = Refusals(asyncio.get_running_loop(), random.Random(1))
    await failing(refusals, AuthenticationError("no", reason="credentials", code=58))
    refusals._not_before = 0.0
    silent, answered = asyncio.Event(), asyncio.Event()

    async def unanswered() -> None:
        async with refusals.attempt(ADDRESS) as attempt:
            await present(attempt, BrokerUnavailableError("no answer"), judged(silent, answered))

    refusals._refused.clear()
    async with asyncio.timeout(LIMIT):
        first = asyncio.create_task(unanswered())
        await silent.wait()
        second = asyncio.create_task(succeed(refusals, OTHER))
        await turns(3)
        assert not second.done()
        await second
        answered.set()
        await asyncio.wait([first])


async def succeed(refusals: Refusals, address: tuple[str, int] = ADDRESS) -> None:
    """One attempt that is not refused."""
    async with refusals.attempt(address) as attempt:
        await present(attempt)


async def test_refusals_of_one_moment_are_one() -> None:
    """Twelve connections were opened behind a success: the pause is the shortest."""
    loop = asyncio.get_running_loop()
    refusals = Refusals(loop, random.Random(1))
    await succeed(refusals)
    refused = AuthenticationError("no", reason="credentials", code=58)
    begun = [asyncio.Event() for _ in range(12)]
    answered = asyncio.Event()

    async def attempt(port: int) -> None:
        async with refusals.attempt(("127.0.0.1", port)) as attempt:
            await present(attempt)
            begun[port].set()
            await answered.wait()
            raise refused

    attempts = [asyncio.create_task(attempt(port)) for port in range(12)]
    async with asyncio.timeout(LIMIT):
        for event in begun:
            await event.wait()
        answered.set()
        outcomes = await asyncio.gather(*attempts, return_exceptions=True)
    assert {type(each) for each in outcomes} == {AuthenticationError}
    assert refusals.not_before(("127.0.0.1", 12)) - loop.time() <= 1.2

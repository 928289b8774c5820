"""Sessions that end: a connection in use authenticates again, any other takes no further request and is closed."""

from __future__ import annotations

import asyncio
import logging
import random
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import attrs
import pytest

from aioproducer._net.cluster.session import ShortSession
from aioproducer._net.connecting.addresses import Addresses
from aioproducer._net.connecting.connection.asking import answer_to
from aioproducer._net.connecting.connection.connection import Connection
from aioproducer._net.connecting.connection.ends import Ending
from aioproducer._net.connecting.dialing import dial
from aioproducer._net.connecting.refusals import Refusals
from aioproducer._net.connecting.renewal import SessionRenewal
from aioproducer._net.connecting.security import SecurityProtocol
from aioproducer._state.backoff import Backoff
from aioproducer._state.connecting.dialogue import Ask, Await, Dialogue
from aioproducer._state.connecting.endpoint import BrokerEndpoint
from aioproducer._state.connecting.sessions import AuthenticatedSession
from aioproducer._state.connecting.turns import Turn
from aioproducer._wire.codec import decode_request, encode_response
from aioproducer._wire.messages.metadata import MetadataRequest, MetadataResponse
from aioproducer._wire.messages.sasl_authenticate import SaslAuthenticateResponse
from aioproducer._wire.messages.sasl_handshake import SaslHandshakeRequest
from aioproducer.config import ProducerConfig
from aioproducer.errors import AuthenticationError, BrokerUnavailableError
from tests.connection.peer import Peer, Wire, at, framed
from tests.connection.test_authenticating import CONFIG, Broker, protocol
from tests.connection.test_pairing import Listen
from tests.connection.test_refused_credentials import present
from tests.net.support import turns, until

LIMIT = 30.0
SASL: dict[str, Any] = {"security_protocol": "SASL_SSL", "sasl_mechanism": "PLAIN", "sasl_username": "user"}


def as_early_as_allowed(session: AuthenticatedSession, _chance: float, _delay: float) -> float:
    """The time of a renewal."""
    return session.began_at + 1.1


class ShortSessions(Broker):
    """Grants sessions of so many seconds."""

    def __init__(self, seconds: float) -> None:
        super().__init__("PLAIN", silent_after=sys.maxsize)
        self.seconds = seconds
        self.renewed = asyncio.Event()

    def _answer(self, request: Any) -> Any:
        if self.seen.count("SaslAuthenticate") > 1:
            self.renewed.set()
        answer = super()._answer(request)
        if isinstance(answer, SaslAuthenticateResponse):
            return answer._replace(session_lifetime_ms=round(self.seconds * 1000))
        return answer


class SlowAnswers(ShortSessions):
    """The answer to the first request for metadata waits."""

    def __init__(self, seconds: float) -> None:
        super().__init__(seconds)
        self.released = asyncio.Event()

    async def __call__(self, wire: Wire) -> None:
        while True:
            header, request = decode_request(await wire.read())
            self.seen.append(type(request).__name__.removesuffix("Request"))
            if isinstance(request, MetadataRequest):
                await self.released.wait()
            answer = self._answer(request)
            wire.write(framed(encode_response(answer, header.api_version, header.correlation_id)))


class WatchedRefusals(Refusals):
    """Tells when an attempt asks for its turn."""

    def __init__(self, loop: asyncio.AbstractEventLoop, rng: random.Random) -> None:
        super().__init__(loop, rng)
        self.asked = asyncio.Event()

    async def take_turn(self, turn: Turn) -> None:
        """Wait until it may."""
        self.asked.set()
        await super().take_turn(turn)


async def connected(
    broker: Broker, listen: Listen, security: SecurityProtocol | None = None
) -> tuple[Connection, asyncio.Event]:
    """A connection whose session is looked after, and the event of its end."""
    loop = asyncio.get_running_loop()
    addresses = Addresses(CONFIG, loop, random.Random(1), security or protocol("PLAIN"))
    connection = await addresses.dial(at("127.0.0.1", (await listen(broker)).port))
    ended = asyncio.Event()
    connection.add_close_callback(lambda _: ended.set())
    return connection, ended


def session_tasks() -> list[asyncio.Task[Any]]:
    """The tasks that look after sessions."""
    return [each for each in asyncio.all_tasks() if each.get_name() == "aioproducer session"]


def expire(connection: Connection) -> None:
    """The loop was blocked, and the session has ended meanwhile."""
    assert connection.gate.session is not None
    connection.gate.session = attrs.evolve(
        connection.gate.session, began_at=connection.gate.session.began_at - 61.0
    )


async def ask(connection: Connection) -> None:
    """One request and its answer."""
    await answer_to(connection, MetadataRequest(), MetadataResponse, timeout=LIMIT, version=5)


async def test_a_connection_in_use_authenticates_again(listen: Listen) -> None:
    """Before its session ends, on the same connection, whose next session begins later."""
    broker = ShortSessions(1.5)
    connection, ended = await connected(broker, listen)
    first = connection.gate.session
    assert first is not None
    await ask(connection)
    async with asyncio.timeout(LIMIT):
        await broker.renewed.wait()
        while connection.gate.session is first:
            await ask(connection)
    assert connection.gate.session is not None
    assert first.renew_at(0) < connection.gate.session.began_at < first.ends_at
    assert not ended.is_set()
    connection.close()


def _set(event: asyncio.Event, _connection: Connection) -> None:
    event.set()


async def test_refused_renewals_keep_a_distance(listen: Listen, caplog: pytest.LogCaptureFixture) -> None:
    """One connection is refused; the sessions of the others end before their next attempt would be made (S41).

    One warning says so (S57).
    """
    brokers = [ShortSessions(3.0) for _ in range(3)]
    loop = asyncio.get_running_loop()
    addresses = Addresses(CONFIG, loop, random.Random(1), protocol("PLAIN"))
    peers = [await listen(broker) for broker in brokers]
    connections = [await addresses.dial(at("127.0.0.1", peer.port)) for peer in peers]
    ended = [asyncio.Event() for _ in connections]
    for connection, end in zip(connections, ended, strict=True):
        connection.add_close_callback(partial(_set, end))
        await ask(connection)
    for broker in brokers:
        broker.refuses = "credentials"
    async with asyncio.timeout(LIMIT):
        await asyncio.gather(*(end.wait() for end in ended))
    assert sum(broker.seen.count("SaslAuthenticate") for broker in brokers) == len(brokers) + 1
    (told,) = (record.getMessage() for record in caplog.records if record.levelno == logging.WARNING)
    assert "the broker refused the credentials" in told


async def test_the_refusal_of_another_attempt_is_told_there(
    listen: Listen, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A renewal that waits for its turn meanwhile has not failed: it goes on when the pause is over."""
    monkeypatch.setattr(AuthenticatedSession, "renew_at", as_early_as_allowed)
    monkeypatch.setattr("aioproducer._net.connecting.refusals._PAUSE", Backoff(0.1, 0.1))
    broker, loop = ShortSessions(60.0), asyncio.get_running_loop()
    refusals = WatchedRefusals(loop, random.Random(1))
    connection = await dial(at("127.0.0.1", (await listen(broker)).port), CONFIG, protocol("PLAIN"))
    authenticate = protocol("PLAIN").authenticate
    assert authenticate is not None
    again = partial(authenticate, at("127.0.0.1", 1), connection.versions)
    renewal = SessionRenewal(loop, random.Random(1), "tests", LIMIT, refusals)
    await ask(connection)

    async def wait() -> None:
        refusals.asked.clear()
        renewal.watch(connection, ("127.0.0.1", 2), again)
        await ask(connection)
        await refusals.asked.wait()

    def judged() -> Dialogue[None]:
        yield Await("the judgement of the broker", wait)

    async with asyncio.timeout(LIMIT):
        with pytest.raises(AuthenticationError):
            async with refusals.attempt(("127.0.0.1", 1)) as attempt:
                refusals.forget()
                await present(attempt, AuthenticationError("no", reason="credentials", code=58), judged())
        await broker.renewed.wait()
    assert connection.traffic.authentication_failures == 0
    assert caplog.text == ""
    connection.close()


async def test_a_connection_without_use_ends_with_its_session(listen: Listen) -> None:
    """It does not authenticate again; its end is no fault of the broker."""
    # A tenth of it is the time that a busy machine has to end the connection before the session.
    broker = ShortSessions(2.0)
    connection, ended = await connected(broker, listen)
    async with asyncio.timeout(LIMIT):
        await ended.wait()
    assert connection.ending is Ending.LEFT
    assert connection.gate.session is not None
    tick = 0.001  # of uvloop's clock, which rounds down
    assert (
        connection.gate.session.last_write_at - tick
        <= asyncio.get_running_loop().time()
        < connection.gate.session.ends_at
    )
    assert broker.seen.count("SaslHandshake") == 1


async def test_without_new_credentials_the_connection_ends_with_its_session(
    listen: Listen, caplog: pytest.LogCaptureFixture
) -> None:
    """Requests go on until then; each failure is a WARNING without the error of the user's code."""
    plain = protocol("PLAIN").authenticate
    opened: list[BrokerEndpoint] = []

    async def failing() -> None:
        raise AuthenticationError("sasl_password: the callable raised ValueError", reason="credentials")

    def authenticate(endpoint: BrokerEndpoint, versions: Any) -> Any:
        assert plain is not None
        if not opened:
            opened.append(endpoint)
            return plain(endpoint, versions)
        return iter_failing()

    def iter_failing() -> Any:
        yield from Await("the request for credentials", failing)

    connection, ended = await connected(
        ShortSessions(1.5), listen, SecurityProtocol(authenticate=authenticate)
    )
    with caplog.at_level(logging.WARNING, "aioproducer"):
        async with asyncio.timeout(LIMIT):
            with pytest.raises(BrokerUnavailableError):
                while True:
                    await ask(connection)
            await ended.wait()
    assert connection.ending is Ending.LEFT
    assert "authenticating again" in caplog.text
    assert "the callable raised ValueError" in caplog.text


async def test_nothing_is_written_after_the_end_of_a_session(listen: Listen) -> None:
    """The loop was blocked over the end: a request waits, and fails when the connection is closed (S45)."""
    broker = ShortSessions(60.0)
    connection, _ = await connected(broker, listen)
    await ask(connection)
    assert connection.gate.writable()
    expire(connection)
    assert not connection.gate.writable()
    request = asyncio.ensure_future(ask(connection))
    await asyncio.sleep(0)
    assert connection.in_flight == 0
    connection.close()
    with pytest.raises(BrokerUnavailableError):
        await request
    assert broker.seen[-1] == "Metadata"
    assert broker.seen.count("Metadata") == 1


async def test_all_requests_that_wait_at_the_end_of_a_session_fail(listen: Listen) -> None:
    """The check of the first must not shut the gate again, before the others have seen the end of the connection."""
    connection, _ = await connected(ShortSessions(60.0), listen)
    expire(connection)
    requests = [asyncio.ensure_future(ask(connection)) for _ in range(3)]
    await asyncio.sleep(0)
    connection.close()
    async with asyncio.timeout(LIMIT):
        outcomes = await asyncio.gather(*requests, return_exceptions=True)
        with pytest.raises(BrokerUnavailableError):
            await ask(connection)
    assert [type(each) for each in outcomes] == [BrokerUnavailableError] * 3


def first_plainly(later: Callable[[], Any]) -> SecurityProtocol:
    """The opening authenticates by a password, a renewal by this dialogue."""
    plain = protocol("PLAIN").authenticate
    used: list[BrokerEndpoint] = []

    def authenticate(endpoint: BrokerEndpoint, versions: Any) -> Any:
        assert plain is not None
        used.append(endpoint)
        return plain(endpoint, versions) if len(used) == 1 else later()

    return SecurityProtocol(authenticate=authenticate)


def late_credentials() -> tuple[asyncio.Future[asyncio.Future[None]], Callable[[], Any]]:
    """The request for the credentials of a renewal, which the test answers, and the dialogue of that renewal."""
    loop = asyncio.get_running_loop()
    fetching: asyncio.Future[asyncio.Future[None]] = loop.create_future()

    async def late() -> None:
        fetching.set_result(loop.create_future())
        await fetching.result()

    def slow() -> Any:
        yield from Await("the request for credentials", late)
        yield from Ask(SaslHandshakeRequest("PLAIN"), 1)

    return fetching, slow


async def test_a_renewal_that_fails_in_an_unknown_way_leaves_no_connection_behind(
    listen: Listen, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing else would close it: requests would wait for it without end. The error's text may have a secret."""

    async def broken() -> None:
        raise LookupError("canary")

    def unusual() -> Any:
        yield from Await("the request for credentials", broken)

    # As early as is allowed: on a busy machine a short session may end before its renewal begins.
    monkeypatch.setattr(AuthenticatedSession, "renew_at", as_early_as_allowed)
    connection, ended = await connected(ShortSessions(4.0), listen, first_plainly(unusual))
    async with asyncio.timeout(LIMIT):
        with pytest.raises(BrokerUnavailableError):
            while True:
                await ask(connection)
        await ended.wait()
    assert connection.ending is Ending.LEFT
    assert "failed: LookupError" in caplog.text
    assert "canary" not in caplog.text
    assert sum(record.levelno == logging.WARNING for record in caplog.records) == 1


async def test_credentials_that_come_after_the_end_of_the_session(
    listen: Listen, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The connection takes no request any more, thus no authentication either; it is closed."""
    fetching, slow = late_credentials()
    monkeypatch.setattr(AuthenticatedSession, "renew_at", as_early_as_allowed)
    broker = ShortSessions(60.0)
    connection, ended = await connected(broker, listen, first_plainly(slow))
    await ask(connection)
    async with asyncio.timeout(LIMIT):
        credentials = await fetching
        expire(connection)
        assert not connection.gate.writable()
        credentials.set_result(None)
        await ended.wait()
    assert broker.seen.count("SaslHandshake") == 1


class SlowlyAuthenticated:
    """An attempt whose authentication begins with a request for credentials that takes as long as the test says."""

    def __init__(self) -> None:
        plain = protocol("PLAIN").authenticate
        assert plain is not None
        self._authenticate = plain
        self.begun, self.released = asyncio.Event(), asyncio.Event()
        self.requests = 0
        security = SecurityProtocol(authenticate=self._slow, adopt_credentials=lambda _: None)
        self.addresses = Addresses(CONFIG, asyncio.get_running_loop(), random.Random(1), security)

    async def dialing(self, listen: Listen) -> asyncio.Task[Connection]:
        """The attempt, which waits for the credentials."""
        port = (await listen(ShortSessions(60.0))).port
        dialing = asyncio.create_task(self.addresses.dial(at("127.0.0.1", port)))
        await self.begun.wait()
        return dialing

    def _slow(self, endpoint: Any, versions: Any) -> Any:
        yield from Await("the request for credentials", self._wait)
        return (yield from self._authenticate(endpoint, versions))

    async def _wait(self) -> None:
        self.requests += 1
        self.begun.set()
        await self.released.wait()


@pytest.mark.parametrize("has_changed", [True, False])
async def test_a_connection_that_was_being_opened_during_a_change(
    listen: Listen, *, has_changed: bool
) -> None:
    """It may have presented the former certificate: it is replaced as well."""
    slow = SlowlyAuthenticated()
    async with asyncio.timeout(LIMIT):
        dialing = await slow.dialing(listen)
        if has_changed:
            await slow.addresses.reload_certificates()
        slow.released.set()
        connection = await dialing
        await turns(5)
        if has_changed:
            await until(lambda: connection.gate.is_retired)
        assert connection.gate.is_retired is has_changed
    slow.addresses.close()


async def test_an_attempt_that_goes_on_while_credentials_change(listen: Listen) -> None:
    """It may have presented the former ones: it begins again, and its connection is not replaced."""
    slow = SlowlyAuthenticated()
    async with asyncio.timeout(LIMIT):
        dialing = await slow.dialing(listen)
        slow.addresses.adopt_credentials(ProducerConfig("localhost:9092", **SASL, sasl_password="another"))
        await until(lambda: slow.requests == 2)
        slow.released.set()
        connection = await dialing
        await turns(5)
    assert not connection.gate.is_retired
    slow.addresses.close()


class Incomparable:
    """A provider that raises when it is compared."""

    async def __call__(self) -> str:
        return "token"

    def __eq__(self, other: object) -> bool:
        raise ValueError("it is not to be compared")

    def __hash__(self) -> int:
        return 1


async def test_credentials_are_compared_without_code_of_the_user() -> None:
    """Where they are the same, attempts go on."""
    settings: dict[str, Any] = {"security_protocol": "SASL_SSL", "sasl_mechanism": "OAUTHBEARER"}
    configs = [ProducerConfig("localhost:9092", **settings, sasl_token_provider=Incomparable()) for _ in "ab"]
    security = SecurityProtocol(adopt_credentials=lambda _: None)
    addresses = Addresses(configs[0], asyncio.get_running_loop(), random.Random(1), security)
    for config in configs:
        addresses.adopt_credentials(config)
    addresses.close()


async def test_a_connection_that_is_being_replaced_is_not_renewed(
    listen: Listen, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It takes no request any more, thus no authentication either: that is no failure, and no WARNING says so."""
    fetching, slow = late_credentials()
    monkeypatch.setattr(AuthenticatedSession, "renew_at", as_early_as_allowed)
    broker = SlowAnswers(60.0)
    connection, ended = await connected(broker, listen, first_plainly(slow))
    async with asyncio.timeout(LIMIT):
        asked = asyncio.create_task(ask(connection))
        credentials = await fetching
        connection.departure.leave_when_answered()
        credentials.set_result(None)
        await turns(10)
        assert not ended.is_set()
        broker.released.set()
        await asked
        await ended.wait()
    assert connection.traffic.authentication_failures == 0
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []


async def test_requests_in_flight_do_not_count_against_a_renewal(listen: Listen) -> None:
    """The broker answers them first, perhaps after the end of the session: the exchange goes on, and nothing is lost."""
    broker = SlowAnswers(1.5)
    connection, ended = await connected(broker, listen)
    first = connection.gate.session
    assert first is not None
    request = asyncio.ensure_future(ask(connection))
    async with asyncio.timeout(LIMIT):
        # The broker reads nothing behind the request: the exchange has begun when the session ends.
        await asyncio.sleep(first.ends_at - asyncio.get_running_loop().time())
        assert connection.gate.is_held
        broker.released.set()
        await request
        await broker.renewed.wait()
        await ask(connection)
    assert not ended.is_set()
    connection.close()


async def test_a_connection_that_ends_in_a_renewal_leaves_no_task(
    listen: Listen, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its session may have ten minutes left."""
    monkeypatch.setattr(AuthenticatedSession, "renew_at", as_early_as_allowed)
    broker = ShortSessions(60.0)
    connection, ended = await connected(broker, listen)
    await ask(connection)
    broker.refuses = "credentials"
    async with asyncio.timeout(LIMIT):
        await ended.wait()
    for _ in range(3):
        await asyncio.sleep(0)
    assert connection.gate.session is not None
    assert asyncio.get_running_loop().time() < connection.gate.session.last_write_at
    assert session_tasks() == []


async def test_a_connection_whose_task_is_cancelled_is_closed(listen: Listen) -> None:
    """Nothing else would close it at the end of its session."""
    connection, ended = await connected(ShortSessions(60.0), listen)
    (task,) = session_tasks()
    task.cancel()
    async with asyncio.timeout(LIMIT):
        await ended.wait()
    assert connection.closed


def test_a_connection_is_closed_while_its_loop_stands(caplog: pytest.LogCaptureFixture) -> None:
    """As when a producer is dropped between two runs of its loop."""

    async def start() -> tuple[Peer, Connection]:
        peer = await Peer.start(ShortSessions(60.0))
        addresses = Addresses(CONFIG, asyncio.get_running_loop(), random.Random(1), protocol("PLAIN"))
        return peer, await addresses.dial(at("127.0.0.1", peer.port))

    async def finish(peer: Peer) -> list[asyncio.Task[Any]]:
        await peer.stop()
        return session_tasks()

    with asyncio.Runner() as runner:
        peer, connection = runner.run(start())
        connection.close()
        assert runner.run(finish(peer)) == []
    assert caplog.text == ""


async def test_a_request_waits_no_longer_than_its_time_limit_for_the_connection(listen: Listen) -> None:
    """The session is over, and nothing watches the connection: the request is not written, and fails."""
    broker = ShortSessions(60.0)
    connection = await dial(at("127.0.0.1", (await listen(broker)).port), CONFIG, protocol("PLAIN"))
    expire(connection)
    async with asyncio.timeout(LIMIT):
        with pytest.raises(BrokerUnavailableError, match="the request was not written"):
            await answer_to(connection, MetadataRequest(), MetadataResponse, timeout=0.1, version=5)
    assert broker.seen[-1] == "SaslAuthenticate"
    connection.close()


async def test_a_connection_whose_session_is_over_is_not_handed_out(listen: Listen) -> None:
    """A request would fail at its end: metadata and coordinators are asked over another one at once."""
    port = (await listen(ShortSessions(60.0))).port
    config = ProducerConfig(f"127.0.0.1:{port}", reconnect_backoff_ms=1, reconnect_backoff_max_ms=1)
    async with ShortSession(config) as session:
        session.addresses = Addresses(config, session.loop, random.Random(1), protocol("PLAIN"))
        first = await session.control.connected()
        assert await session.control.connected() is first
        # An answer is missing, so that it is not closed yet.
        pending = asyncio.ensure_future(ask(first))
        expire(first)
        second = await session.control.connected()
        assert second is not first
        assert second.gate.takes_requests
        assert not pending.done()
        session.addresses.close()
        await asyncio.gather(pending, return_exceptions=True)
    assert first.closed
    assert second.closed


class EndsAtARequest(SlowAnswers):
    """Closes the connection in place of the answer to a request for metadata."""

    async def __call__(self, wire: Wire) -> None:
        while not isinstance((decoded := decode_request(await wire.read()))[1], MetadataRequest):
            header, request = decoded
            answer = self._answer(request)
            wire.write(framed(encode_response(answer, header.api_version, header.correlation_id)))
        await self.released.wait()


async def test_an_end_at_an_earlier_request_is_no_end_of_the_authentication(
    listen: Listen, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The broker has not read the authentication behind it: the error is no hint at the credentials."""
    due = asyncio.Event()

    async def note() -> None:
        due.set()

    def again() -> Any:
        yield from Await("the request for credentials", note)
        yield from Ask(SaslHandshakeRequest("PLAIN"), 1)

    monkeypatch.setattr(AuthenticatedSession, "renew_at", as_early_as_allowed)
    broker = EndsAtARequest(60.0)
    connection, ended = await connected(broker, listen, first_plainly(again))
    request = asyncio.ensure_future(ask(connection))
    async with asyncio.timeout(LIMIT):
        await due.wait()
        await turns(10)
        assert connection.authenticating == "SaslHandshake"
        broker.released.set()
        with pytest.raises(BrokerUnavailableError) as caught:
            await request
        await ended.wait()
    assert "authentication" not in str(caught.value)

"""The driver of dialogues, on connections that are opened and on those in use."""

from __future__ import annotations

import asyncio
import random
import threading
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, TypeAlias

import pytest

from aioproducer._net.connecting.connection.asking import answer_to
from aioproducer._net.connecting.connection.connection import Connection
from aioproducer._net.connecting.connection.ends import Ending
from aioproducer._net.connecting.conversing import converse, converse_in_use
from aioproducer._state.connecting.dialogue import Ask, Await, Compute, Dialogue, Now, Step
from aioproducer._wire.codec import decode_request, encode_request, encode_response
from aioproducer._wire.messages.metadata import MetadataRequest, MetadataResponse
from aioproducer._wire.messages.sasl_authenticate import SaslAuthenticateRequest
from aioproducer._wire.messages.sasl_handshake import SaslHandshakeRequest
from aioproducer.errors import AuthenticationError, BrokerUnavailableError, KafkaError
from tests.connection.peer import Recorder, Wire, framed
from tests.connection.test_pairing import Connect, Listen
from tests.reports import report
from tests.simulation.network import NetworkedLoop

Drive: TypeAlias = Callable[..., Awaitable[Any]]

HANDSHAKE = Ask(SaslHandshakeRequest("PLAIN"), 1)
AUTHENTICATE = Ask(SaslAuthenticateRequest(b"secret"), 2)
BOTH = pytest.mark.parametrize("drive", [converse, converse_in_use])


class Script:
    """A broker that reads requests into a queue, and answers when the test says so."""

    def __init__(self) -> None:
        self.requests = asyncio.Queue[tuple[str, int]]()
        self.wire: Wire | None = None

    async def __call__(self, wire: Wire) -> None:
        self.wire = wire
        while True:
            header, message = decode_request(await wire.read())
            self.requests.put_nowait((type(message).__name__, header.correlation_id))

    async def read(self) -> str:
        """The name of the next request."""
        async with asyncio.timeout(10):
            return (await self.requests.get())[0]

    def answer(self, correlation_id: int, body: bytes = b"") -> None:
        """Answer a request."""
        assert self.wire is not None
        self.wire.answer(correlation_id, body)

    def answer_metadata(self, correlation_id: int) -> None:
        """Answer one for metadata."""
        assert self.wire is not None
        self.wire.write(framed(encode_response(MetadataResponse(), 5, correlation_id)))


@pytest.fixture
def script() -> Script:
    return Script()


@pytest.fixture
async def connection(listen: Listen, connect: Connect, script: Script) -> Connection:
    return await connect(await listen(script))


def one(step: Step[Any]) -> Dialogue[Any]:
    """A dialogue of one step."""
    return (yield from step)


def authentication() -> Dialogue[tuple[bytes, bytes]]:
    """Two questions."""
    return (yield from HANDSHAKE), (yield from AUTHENTICATE)


def metadata(connection: Connection) -> asyncio.Task[MetadataResponse]:
    """A request of the producer."""
    request = answer_to(connection, MetadataRequest(), MetadataResponse, timeout=30, version=5)
    return asyncio.ensure_future(request)


async def turns(count: int = 10) -> None:
    """Let the loop turn."""
    for _ in range(count):
        await asyncio.sleep(0)


# ---------------------------------------------------------------------------------------------- steps


@BOTH
async def test_each_step_is_performed(drive: Drive, connection: Connection, script: Script) -> None:
    """A question goes over the wire, a computation into a thread, a coroutine into the loop; the time is the loop's."""
    loop = asyncio.get_running_loop()

    async def token() -> asyncio.AbstractEventLoop:
        return asyncio.get_running_loop()

    def everything() -> Dialogue[tuple[Any, ...]]:
        where = yield from Await("the token provider", token)
        thread = yield from Compute("key derivation", threading.get_ident)
        now = yield from Now()
        return where, thread, now, (yield from HANDSHAKE)

    before = loop.time()
    running = asyncio.ensure_future(drive(connection, everything(), timeout=30))
    assert await script.read() == "SaslHandshakeRequest"
    script.answer(0, b"yes")
    where, thread, now, frame = await running
    assert where is loop
    assert thread != threading.get_ident()
    assert before <= now <= loop.time()
    assert frame == b"\0\0\0\0yes"
    assert connection.gate.writable()


class ProviderError(Exception):
    """An error of a user's function."""


def fail() -> bytes:
    """A computation that fails."""
    raise ProviderError("no")


async def fail_later() -> str:
    """A provider that fails."""
    raise ProviderError("no")


async def cancel_oneself() -> str:
    """A provider that raises CancelledError though it is not cancelled."""
    raise asyncio.CancelledError


@BOTH
@pytest.mark.parametrize(
    ("step", "error"),
    [
        (Compute("key derivation", fail), ProviderError),
        (Await("the token provider", fail_later), ProviderError),
        (Await("the token provider", cancel_oneself), RuntimeError),
    ],
)
async def test_errors_are_raised_inside_the_dialogue(
    drive: Drive, connection: Connection, step: Step[Any], error: type[Exception]
) -> None:
    """The dialogue says what they mean; what it does not catch leaves the driver. No question: the connection stays."""

    def careful() -> Dialogue[str]:
        try:
            yield from step
        except error as caught:
            raise AuthenticationError("no token") from caught
        return "no error"

    with pytest.raises(AuthenticationError, match="no token"):
        await drive(connection, careful(), timeout=30)
    with pytest.raises(error):
        await drive(connection, one(step), timeout=30)
    assert connection.gate.writable()


@BOTH
async def test_the_end_of_the_connection_is_raised_inside_the_dialogue(
    drive: Drive, listen: Listen, connect: Connect
) -> None:
    """A broker that hangs up in place of an answer: the dialogue may say more about it."""

    async def hang_up(wire: Wire) -> None:
        await wire.read()

    def careful() -> Dialogue[str]:
        try:
            yield from HANDSHAKE
        except BrokerUnavailableError as caught:
            return str(caught)
        return "no error"

    connection = await connect(await listen(hang_up))
    assert "the broker closed the connection" in await drive(connection, careful(), timeout=30)
    assert connection.closed


async def test_what_is_no_step_is_refused(connection: Connection) -> None:
    """A dialogue that yields anything else is a mistake of the library."""

    def wrong() -> Dialogue[None]:
        yield "a string"  # type: ignore[misc]  # that is the mistake

    with pytest.raises(TypeError, match="yielded str, which is not a step"):
        await converse(connection, wrong(), timeout=30)


# ---------------------------------------------------------------------------------------------- time limits, cancellation


async def for_ever() -> str:
    """A provider that never ends."""
    await asyncio.Event().wait()
    return "never"


@BOTH
async def test_cancelling_ends_the_dialogue_and_what_it_waits_for(
    drive: Drive, connection: Connection
) -> None:
    """The generator is closed, and the coroutine of the user's is cancelled. No question: the connection stays."""
    ended: list[str] = []

    async def provider() -> str:
        try:
            return await for_ever()
        finally:
            ended.append("provider")

    def dialogue() -> Dialogue[str]:
        try:
            return (yield from Await("the token provider", provider))
        finally:
            ended.append("dialogue")

    running = asyncio.ensure_future(drive(connection, dialogue(), timeout=30))
    await turns()
    running.cancel()
    await asyncio.wait([running])
    await turns()
    assert running.cancelled()
    assert sorted(ended) == ["dialogue", "provider"]
    assert connection.gate.writable()


async def test_a_provider_that_suppresses_its_cancellation_holds_up_nothing(connection: Connection) -> None:
    """Its task goes on alone; what it raises in the end is not logged as an exception that nothing waited for."""
    go_on = asyncio.Event()
    troubles: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, trouble: troubles.append(trouble))

    async def stubborn() -> str:
        while not go_on.is_set():
            try:
                await go_on.wait()
            except asyncio.CancelledError:
                continue
        raise ProviderError("too late")

    running = asyncio.ensure_future(
        converse(connection, one(Await("the token provider", stubborn)), timeout=30)
    )
    await turns()
    running.cancel()
    await asyncio.wait([running])
    assert running.cancelled()
    go_on.set()
    await turns()
    assert troubles == []


def test_one_time_limit_for_all_steps() -> None:
    """Many short steps end at the same time as a long one; the error names the step that did not end."""

    async def a_while() -> None:
        await asyncio.sleep(4.0)  # of virtual time

    def slow() -> Dialogue[None]:
        while True:
            yield from Await("the token provider", a_while)

    def stuck() -> Dialogue[str]:
        return (yield from Await("the certificate", for_ever))

    async def until_it_ends(dialogue: Dialogue[Any]) -> tuple[float, str]:
        loop = asyncio.get_running_loop()
        begin = loop.time()
        with pytest.raises(TimeoutError) as raised:
            await converse(Connection("b", "tests", loop), dialogue, timeout=30.0)
        return loop.time() - begin, str(raised.value)

    loop = NetworkedLoop(random.Random(1))
    try:
        for dialogue, text in (
            (slow(), "the token provider did not end"),
            (stuck(), "the certificate did not end"),
        ):
            seconds, told = loop.run_until_complete(until_it_ends(dialogue))
            assert seconds == pytest.approx(30.0, abs=0.01)
            assert told == text
    finally:
        loop.close()


# ---------------------------------------------------------------------------------------------- secrets


CANARY = "canary-" + "7"


async def token() -> str:
    """A provider of the user."""
    return CANARY


def refusing() -> Dialogue[None]:
    """The dialogue itself ends with an error."""
    yield from Await("the token provider", token)
    raise AuthenticationError("refused")


def going_on(step: Step[Any]) -> Dialogue[None]:
    """Another step follows."""
    yield from Await("the token provider", token)
    yield from step


@BOTH
@pytest.mark.parametrize(
    "dialogue",
    [
        refusing,
        partial(going_on, Compute("key derivation", fail)),
        partial(going_on, Await("the token provider", fail_later)),
        partial(going_on, Await("the token provider", for_ever)),
        partial(going_on, HANDSHAKE),
    ],
    ids=["refused", "computation", "provider", "endless-provider", "unanswered"],
)
async def test_an_error_keeps_no_result_of_a_former_step(
    drive: Drive, connection: Connection, script: Script, dialogue: Callable[[], Dialogue[None]]
) -> None:
    """A token that an Await returned is in no frame of the error, whatever fails after it (S17)."""
    with pytest.raises(Exception, match=r"refused|no|did not end") as raised:
        await drive(connection, dialogue(), timeout=0.05)
    assert "_run" in report(raised.value)
    assert CANARY not in report(raised.value)


# ---------------------------------------------------------------------------------------------- in use


async def test_requests_in_flight_come_first_and_new_ones_wait(
    connection: Connection, script: Script
) -> None:
    """The dialogue is written after the requests in flight; nothing is written in between until it is over (S42)."""
    in_flight = Recorder()
    correlation_id = connection.next_correlation_id()
    request = encode_request(MetadataRequest(), 5, correlation_id, "tests")
    connection.write_request(correlation_id, (request,), in_flight, 30)
    before = metadata(connection)
    await turns()
    running = asyncio.ensure_future(converse_in_use(connection, authentication(), timeout=30))
    await turns()
    behind, drained = metadata(connection), asyncio.ensure_future(connection.gate.drained())
    await turns()
    assert not connection.gate.writable()
    read = [await script.read() for _ in range(3)]
    assert read == ["MetadataRequest", "MetadataRequest", "SaslHandshakeRequest"]
    script.answer(0, b"first")
    script.answer_metadata(1)
    script.answer(2, b"handshake")
    assert await script.read() == "SaslAuthenticateRequest"
    await before
    assert in_flight.answers == [b"\0\0\0\0first"]
    assert not connection.gate.writable()
    assert not drained.done()
    assert script.requests.empty()
    script.answer(3, b"done")
    assert await running == (b"\0\0\0\x02handshake", b"\0\0\0\x03done")
    await drained
    assert connection.gate.writable()
    assert await script.read() == "MetadataRequest"
    script.answer_metadata(4)
    await behind


async def test_steps_before_the_first_question_hold_up_nothing(
    connection: Connection, script: Script
) -> None:
    """Credentials are fetched while requests go on."""
    token = asyncio.Event()

    async def provider() -> bool:
        return await token.wait()

    def renewal() -> Dialogue[None]:
        yield from Await("the token provider", provider)
        yield from authentication()

    running = asyncio.ensure_future(converse_in_use(connection, renewal(), timeout=30))
    await turns()
    assert connection.gate.writable()
    request = metadata(connection)
    assert await script.read() == "MetadataRequest"
    script.answer_metadata(0)
    await request
    token.set()
    assert await script.read() == "SaslHandshakeRequest"
    assert not connection.gate.writable()
    script.answer(1)
    assert await script.read() == "SaslAuthenticateRequest"
    script.answer(2)
    await running
    assert connection.gate.writable()


async def test_a_refusal_that_the_dialogue_accepts_keeps_the_connection(
    connection: Connection, script: Script
) -> None:
    """A broker that refuses a second authentication so soon goes on serving the connection (KIP-368)."""

    def renewal() -> Dialogue[str]:
        yield from HANDSHAKE
        return "the session stays as it was"

    running = asyncio.ensure_future(converse_in_use(connection, renewal(), timeout=30))
    assert await script.read() == "SaslHandshakeRequest"
    script.answer(0, b"\0\x22")
    await running
    assert connection.gate.writable()
    assert not connection.closed


async def in_the_middle(
    connection: Connection, script: Script, dialogue: Dialogue[Any], timeout: float
) -> Any:
    """A renewal whose broker has read the second question; a request waits behind it."""
    running = asyncio.ensure_future(converse_in_use(connection, dialogue, timeout=timeout))
    assert await script.read() == "SaslHandshakeRequest"
    script.answer(0)
    assert await script.read() == "SaslAuthenticateRequest"
    behind = metadata(connection)
    await turns()
    return running, behind


def refused() -> Dialogue[None]:
    """A renewal that the broker refuses."""
    yield from authentication()
    raise AuthenticationError("refused")


def broken() -> Dialogue[None]:
    """A renewal with a mistake."""
    yield from authentication()
    raise ProviderError("secret")


@pytest.mark.parametrize(
    ("dialogue", "error", "told"),
    [
        (refused, AuthenticationError, "refused"),
        (broken, ProviderError, "in the middle of an exchange: ProviderError"),
    ],
)
async def test_a_failure_behind_a_question_ends_the_connection(
    connection: Connection,
    script: Script,
    dialogue: Callable[[], Dialogue[None]],
    error: type[Exception],
    told: str,
) -> None:
    """The broker takes nothing else in the middle of an exchange; what waits learns why, and shows no secret."""
    running, behind = await in_the_middle(connection, script, dialogue(), timeout=30)
    script.answer(1)
    with pytest.raises(error):
        await running
    with pytest.raises(KafkaError, match=told) as raised:
        await behind
    assert "secret" not in str(raised.value)
    assert connection.closed
    assert connection.ending is Ending.GIVEN_UP


async def test_cancelling_in_the_middle_ends_the_connection(connection: Connection, script: Script) -> None:
    """Requests and tasks that wait fail at once, and so does the next request."""
    running, behind = await in_the_middle(connection, script, authentication(), timeout=30)
    drained = asyncio.ensure_future(connection.gate.drained())
    await turns()
    running.cancel()
    await asyncio.wait([running, behind, drained])
    assert running.cancelled()
    for waiting in (behind, drained, metadata(connection)):
        with pytest.raises(BrokerUnavailableError, match="closed by this producer"):
            await waiting
    assert connection.ending is Ending.LEFT


async def test_a_time_limit_in_the_middle_ends_the_connection(connection: Connection, script: Script) -> None:
    """A broker that is silent in the middle of an exchange is given up, with the name of the request."""
    running, behind = await in_the_middle(connection, script, authentication(), timeout=0.1)
    with pytest.raises(TimeoutError, match="no answer to SaslAuthenticate"):
        await running
    with pytest.raises(BrokerUnavailableError, match="no answer to SaslAuthenticate"):
        await behind
    assert connection.ending is Ending.GIVEN_UP


async def test_the_broker_hangs_up_in_the_middle(connection: Connection, script: Script) -> None:
    """Requests in flight fail as written, those that wait as not written, and the dialogue with the same reason."""
    in_flight = Recorder()
    running = asyncio.ensure_future(converse_in_use(connection, authentication(), timeout=30))
    assert await script.read() == "SaslHandshakeRequest"
    behind = metadata(connection)
    await turns()
    assert script.wire is not None
    script.wire.writer.close()
    for waiting in (running, behind):
        with pytest.raises(BrokerUnavailableError, match="the broker closed the connection"):
            await waiting
    connection.write_request(connection.next_correlation_id(), (b"?",), in_flight, 30)
    assert [written for _, written in in_flight.failures] == [False]


async def test_two_dialogues_cannot_hold_a_connection(connection: Connection, script: Script) -> None:
    """The second is refused before it writes; the first goes on."""
    running = asyncio.ensure_future(converse_in_use(connection, authentication(), timeout=30))
    assert await script.read() == "SaslHandshakeRequest"
    with pytest.raises(RuntimeError, match="two dialogues"):
        await converse_in_use(connection, authentication(), timeout=30)
    assert not connection.gate.writable()
    script.answer(0)
    assert await script.read() == "SaslAuthenticateRequest"
    script.answer(1)
    await running
    assert connection.gate.writable()


async def test_a_full_transport_and_a_held_connection(connection: Connection, script: Script) -> None:
    """The gate opens when the transport has room and the dialogue is over, in either order."""
    running = asyncio.ensure_future(converse_in_use(connection, one(HANDSHAKE), timeout=30))
    assert await script.read() == "SaslHandshakeRequest"
    connection.pause_writing()
    connection.resume_writing()
    assert not connection.gate.writable()
    connection.pause_writing()
    script.answer(0)
    await running
    assert not connection.gate.writable()
    connection.resume_writing()
    assert connection.gate.writable()

"""Requests and their answers on one connection."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from functools import partial
from itertools import pairwise
from typing import Any, TypeAlias, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aioproducer._net.connecting.connection.asking import answer_to
from aioproducer._net.connecting.connection.connection import Connection
from aioproducer._wire.codec import encode_response
from aioproducer._wire.messages.metadata import MetadataRequest, MetadataResponse
from aioproducer.errors import BrokerUnavailableError, ProtocolError
from tests.connection.peer import Peer, Recorder, Wire, frame, framed

Listen: TypeAlias = Callable[..., Awaitable[Peer]]
Connect: TypeAlias = Callable[[Peer], Awaitable[Connection]]


def ask(connection: Connection, body: bytes = b"?", timeout: float = 30) -> Recorder:
    """Write a request, and record what becomes of it."""
    recorder = Recorder()
    connection.write_request(connection.next_correlation_id(), (body,), recorder, timeout)
    return recorder


async def closed(connection: Connection) -> None:
    """Wait for the end of the connection."""
    ended = asyncio.Event()
    connection.add_close_callback(lambda _: ended.set())
    await ended.wait()


async def test_request_is_written_behind_its_length(listen: Listen, connect: Connect) -> None:
    """Parts of any bytes-like kind go out as one frame, empty ones too, and the answer comes back whole."""
    seen = asyncio.Queue[bytes]()

    async def script(wire: Wire) -> None:
        seen.put_nowait(await wire.read())
        wire.answer(0, b"yes")
        await wire.until_closed()

    connection = await connect(await listen(script))
    recorder = Recorder()
    parts = (b"ab", memoryview(b"cd"), bytearray(b"ef"), b"")
    connection.write_request(connection.next_correlation_id(), parts, recorder, 30)
    assert connection.in_flight == 1
    await recorder.told.wait()
    assert await seen.get() == b"abcdef"
    assert recorder.answers == [b"\0\0\0\0yes"]
    assert (connection.in_flight, recorder.failures) == (0, [])


async def test_several_answers_in_one_read_go_to_their_requests(listen: Listen, connect: Connect) -> None:
    """Answers that arrive together are given out in order (A14)."""

    async def script(wire: Wire) -> None:
        for _ in range(5):
            await wire.read()
        wire.write(b"".join(frame(n, b"%d" % n) for n in range(5)))
        await wire.until_closed()

    connection = await connect(await listen(script))
    recorders = [ask(connection) for _ in range(5)]
    await recorders[-1].told.wait()
    assert [recorder.answers[0][4:] for recorder in recorders] == [b"0", b"1", b"2", b"3", b"4"]


async def test_answer_larger_than_the_buffer_arrives_whole(listen: Listen, connect: Connect) -> None:
    """An answer of 300 KB, and a small one right behind it, survive the way through the socket."""
    body = bytes(range(256)) * 1200

    async def script(wire: Wire) -> None:
        await wire.read()
        await wire.read()
        wire.write(frame(0, body) + frame(1, b"small"))
        await wire.until_closed()

    connection = await connect(await listen(script))
    first, second = ask(connection), ask(connection)
    await second.told.wait()
    assert (first.answers[0][4:], second.answers[0][4:]) == (body, b"small")


@pytest.mark.parametrize(
    ("answers", "told"),
    [
        (frame(7), "unexpected correlation id 7 (expected 0)"),
        (frame(1) + frame(0), "unexpected correlation id 1 (expected 0)"),
    ],
)
async def test_wrong_correlation_id_ends_the_connection(
    listen: Listen, connect: Connect, answers: bytes, told: str
) -> None:
    """An answer for another request than the oldest fails all of them, with an error that names the broker (B01)."""

    async def script(wire: Wire) -> None:
        await wire.read()
        await wire.read()
        wire.write(answers)
        await wire.until_closed()

    peer = await listen(script)
    connection = await connect(peer)
    first, second = ask(connection), ask(connection)
    await closed(connection)
    for recorder in (first, second):
        ((error, written),) = recorder.failures
        assert isinstance(error, ProtocolError)
        assert written
        assert told in str(error)
        assert f"127.0.0.1:{peer.port}" in str(error)
        assert recorder.answers == []


@pytest.mark.parametrize("repeats", [1, 3])
async def test_answer_that_nobody_asked_for_ends_the_connection(
    listen: Listen, connect: Connect, repeats: int
) -> None:
    """The same answer twice is one too many; the first has been delivered (B02)."""

    async def script(wire: Wire) -> None:
        await wire.read()
        wire.write(frame(0, b"once") * (1 + repeats))
        await wire.until_closed()

    connection = await connect(await listen(script))
    recorder = ask(connection)
    await closed(connection)
    assert recorder.answers == [b"\0\0\0\0once"]
    assert recorder.failures == []
    assert "no request waits for one" in str(connection.close_reason)


@pytest.mark.parametrize("sent", [b"\0\0\0\x40\0\0\0\0cut", b"\0\0"])
async def test_answer_cut_short_says_so(listen: Listen, connect: Connect, sent: bytes) -> None:
    """A connection that ends inside an answer fails the request with a text that tells how far it came (A09)."""

    async def script(wire: Wire) -> None:
        await wire.read()
        wire.write(sent)

    connection = await connect(await listen(script))
    recorder = ask(connection)
    await recorder.told.wait()
    ((error, written),) = recorder.failures
    assert isinstance(error, BrokerUnavailableError)
    assert written
    assert "in the middle of an answer" in str(error)


async def test_half_close_is_the_end(listen: Listen, connect: Connect) -> None:
    """A peer that shuts only its writing side will not answer: the connection ends at once (A11)."""

    async def script(wire: Wire) -> None:
        await wire.read()
        wire.writer.write_eof()
        await wire.until_closed()

    connection = await connect(await listen(script))
    recorder = ask(connection)
    await recorder.told.wait()
    assert connection.closed
    assert "the broker closed the connection" in recorder.error


async def test_reset_is_the_end(listen: Listen, connect: Connect) -> None:
    """RST fails the requests with the system's error as the cause (A05, A07)."""

    async def script(wire: Wire) -> None:
        await wire.read()
        wire.writer.transport.abort()

    connection = await connect(await listen(script))
    recorder = ask(connection, b"x" * 100)
    await recorder.told.wait()
    ((error, _),) = recorder.failures
    assert isinstance(error, BrokerUnavailableError)
    assert connection.close_reason is error


async def test_handlers_are_told_once_whoever_closes(listen: Listen, connect: Connect) -> None:
    """Closing again, losing the transport afterwards and closing from a handler report nothing twice (I4)."""

    async def script(wire: Wire) -> None:
        await wire.until_closed()

    connection = await connect(await listen(script))
    recorders = [ask(connection) for _ in range(3)]
    ended: list[Connection] = []
    connection.add_close_callback(ended.append)
    connection.add_close_callback(lambda ending: ending.close())
    reason = BrokerUnavailableError("enough")
    connection.close(reason)
    connection.close(BrokerUnavailableError("again"))
    for _ in range(5):
        await asyncio.sleep(0)
    assert [recorder.failures for recorder in recorders] == [[(reason, True)]] * 3
    assert ended == [connection]
    assert connection.close_reason is reason
    assert "enough" in repr(connection)


async def test_close_needs_no_reason(listen: Listen, connect: Connect) -> None:
    """Closing without a reason still gives the handlers an error that says which side closed."""
    connection = await connect(await listen(Wire.until_closed))
    recorder = ask(connection)
    connection.close()
    assert "closed by this producer" in recorder.error


async def test_nothing_is_written_after_the_end(listen: Listen, connect: Connect) -> None:
    """A request on an ended connection fails at once, as not written; one without a handler raises."""
    connection = await connect(await listen(Wire.until_closed))
    connection.close(BrokerUnavailableError("enough"))
    recorder = ask(connection)
    ((error, written),) = recorder.failures
    assert "enough" in str(error)
    assert not written
    with pytest.raises(BrokerUnavailableError, match="enough"):
        connection.write_request(1, (b"acks=0",), None, 30)
    late: list[Connection] = []
    connection.add_close_callback(late.append)
    await asyncio.sleep(0)
    assert late == [connection]


async def test_request_without_an_answer_is_not_waited_for(listen: Listen, connect: Connect) -> None:
    """With acks=0 nothing is in flight, and the next answer belongs to the next request."""

    async def script(wire: Wire) -> None:
        await wire.read()
        await wire.read()
        wire.answer(1, b"second")
        await wire.until_closed()

    connection = await connect(await listen(script))
    connection.write_request(connection.next_correlation_id(), (b"acks=0",), None, 0)
    assert connection.in_flight == 0
    recorder = ask(connection)
    await recorder.told.wait()
    assert recorder.answers[0][4:] == b"second"


async def test_answers_to_requests_that_want_none(
    listen: Listen, connect: Connect, caplog: pytest.LogCaptureFixture
) -> None:
    """Some brokers answer Produce with acks=0: that is ignored, told once, and no request gets it for its own."""

    async def script(wire: Wire) -> None:
        for _ in range(3):
            await wire.read()
        wire.answer(0, b"not asked for")
        wire.answer(1, b"not asked for")
        wire.answer(2, b"third")
        wire.answer(2, b"once more")
        await wire.until_closed()

    connection = await connect(await listen(script))
    with caplog.at_level(logging.DEBUG):
        for _ in range(2):
            connection.write_request(connection.next_correlation_id(), (b"acks=0",), None, 0)
        recorder = ask(connection)
        await closed(connection)
    assert [answer[4:] for answer in recorder.answers] == [b"third"]
    assert "correlation id 2 (no request waits for one)" in str(connection.close_reason)
    assert caplog.text.count("answers requests that want no answer") == 1


async def test_bytes_behind_the_last_field_are_told_once(
    listen: Listen, connect: Connect, caplog: pytest.LogCaptureFixture
) -> None:
    """Bytes behind the last field of answers are ignored; one DEBUG line for the connection says so."""

    async def script(wire: Wire) -> None:
        for correlation_id in range(2):
            await wire.read()
            wire.write(framed(encode_response(MetadataResponse(), 9, correlation_id) + b"more"))
        await wire.until_closed()

    connection = await connect(await listen(script))
    with caplog.at_level(logging.DEBUG):
        for _ in range(2):
            answer = await answer_to(connection, MetadataRequest(), MetadataResponse, timeout=30, version=9)
            assert list(answer.topics) == []
    assert caplog.text.count("bytes behind the last field of its answers (4)") == 1
    assert not connection.closed


async def test_failing_handler_ends_the_connection(
    listen: Listen, connect: Connect, caplog: pytest.LogCaptureFixture
) -> None:
    """An exception in `answered` is logged and becomes the reason; this handler and the others are called."""

    class Broken(Recorder):
        def answered(self, frame: memoryview) -> None:
            raise ZeroDivisionError("bug")

    async def script(wire: Wire) -> None:
        await wire.read()
        await wire.read()
        wire.write(frame(0) + frame(1))
        await wire.until_closed()

    connection = await connect(await listen(script))
    broken = Broken()
    connection.write_request(connection.next_correlation_id(), (b"?",), broken, 30)
    other = ask(connection)
    await other.told.wait()
    assert isinstance(connection.close_reason, BrokerUnavailableError)
    assert isinstance(connection.close_reason.cause, ZeroDivisionError)
    assert broken.failures == [(connection.close_reason, True)]
    assert other.failures == [(connection.close_reason, True)]
    assert [record.levelno for record in caplog.records] == [logging.ERROR]


async def test_handler_that_closes_the_connection_and_fails(listen: Listen, connect: Connect) -> None:
    """Its `failed()` is called after `answered()`, as for a handler whose connection was closed elsewhere."""

    class Closing(Recorder):
        def answered(self, frame: memoryview) -> None:
            connection.close()
            raise ZeroDivisionError("bug")

    async def script(wire: Wire) -> None:
        await wire.read()
        wire.write(frame(0))
        await wire.until_closed()

    connection = await connect(await listen(script))
    closing = Closing()
    connection.write_request(connection.next_correlation_id(), (b"?",), closing, 30)
    await closing.told.wait()
    assert [written for _, written in closing.failures] == [True]


async def test_handlers_that_fail_while_closing_keep_nobody_from_being_told(
    listen: Listen, connect: Connect, caplog: pytest.LogCaptureFixture
) -> None:
    """An exception in `failed` or in a close callback is logged, and the rest go on."""

    class Broken(Recorder):
        def failed(self, error: Exception, *, written: bool) -> None:
            raise ZeroDivisionError("bug")

    connection = await connect(await listen(Wire.until_closed))
    connection.write_request(connection.next_correlation_id(), (b"?",), Broken(), 30)
    other = ask(connection)
    ended: list[Connection] = []
    connection.add_close_callback(lambda _: 1 / 0)  # type: ignore[arg-type]
    connection.add_close_callback(ended.append)
    connection.close()
    assert len(other.failures) == 1
    assert ended == [connection]
    assert len(caplog.records) == 2


async def test_without_memory_to_close_the_socket_the_handlers_are_told(
    listen: Listen, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing else would tell them: the connection counts as closed."""
    connection = await connect(await listen(Wire.until_closed))
    recorder = ask(connection)
    hang_up = Connection._hang_up

    def without_memory(_connection: Connection) -> None:
        raise MemoryError

    monkeypatch.setattr(Connection, "_hang_up", without_memory)
    with pytest.raises(MemoryError):
        connection.close()
    assert recorder.failures == [(connection.close_reason, True)]
    hang_up(connection)


async def test_without_memory_to_tell_the_handlers_they_are_told_with_the_end_of_the_transport(
    listen: Listen, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    """None of them waits without end, each is called once, and the close callback comes last."""
    connection = await connect(await listen(Wire.until_closed))
    recorders = [ask(connection) for _ in range(3)]
    told: list[list[int]] = []
    connection.add_close_callback(lambda _: told.append([len(each.failures) for each in recorders]))
    calls = 0

    def short(call: Callable[..., None], *arguments: Any, **named: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == 2:
            raise MemoryError
        return partial(call, *arguments, **named)

    monkeypatch.setattr("aioproducer._net.connecting.connection.connection.partial", short)
    with pytest.raises(MemoryError):
        connection.close()
    assert [len(each.failures) for each in recorders] == [1, 0, 0]
    await recorders[-1].told.wait()
    assert told == [[1, 1, 1]]


async def test_closing_in_a_handler_drops_the_answers_behind(listen: Listen, connect: Connect) -> None:
    """After a handler has closed the connection, answers of the same read are not given out any more."""

    class Closing(Recorder):
        def answered(self, frame: memoryview) -> None:
            connection.close(BrokerUnavailableError("enough"))

    async def script(wire: Wire) -> None:
        await wire.read()
        await wire.read()
        wire.write(frame(0) + frame(1))
        await wire.until_closed()

    connection = await connect(await listen(script))
    connection.write_request(connection.next_correlation_id(), (b"?",), Closing(), 30)
    behind = ask(connection)
    await behind.told.wait()
    assert (behind.answers, len(behind.failures)) == ([], 1)


async def test_part_that_is_no_bytes_ends_the_connection(
    listen: Listen, connect: Connect, caplog: pytest.LogCaptureFixture
) -> None:
    """A request that cannot be written fails its handler instead of being half in the stream."""
    connection = await connect(await listen(Wire.until_closed))
    recorder = Recorder()
    connection.write_request(connection.next_correlation_id(), cast(Any, ("text",)), recorder, 30)
    assert "could not be written" in recorder.error
    assert connection.closed
    assert len(caplog.records) == 1


def test_correlation_ids_wrap() -> None:
    """After 2^31-1 comes 0, never a negative id."""
    loop = asyncio.new_event_loop()
    connection = Connection("b", None, loop)
    assert connection.next_correlation_id() == 0
    connection._pairing._correlation_id = 2**31 - 2
    assert [connection.next_correlation_id() for _ in range(3)] == [2**31 - 1, 0, 1]
    loop.close()


class _Transport(asyncio.Transport):
    """Takes everything, does nothing."""

    def writelines(self, list_of_data: object) -> None:
        pass

    def write(self, data: object) -> None:
        pass

    def is_closing(self) -> bool:
        return False

    def abort(self) -> None:
        pass


def receive(connection: Connection, piece: bytes) -> None:
    """Hand bytes to the connection as a transport does."""
    while piece and not connection.closed:
        place = connection.get_buffer(-1)
        count = min(len(place), len(piece))
        place[:count] = piece[:count]
        piece = piece[count:]
        connection.buffer_updated(count)


@settings(max_examples=60)
@given(
    st.lists(st.binary(max_size=100), min_size=1, max_size=6),
    st.sampled_from([b"", frame(99), frame(0), b"\xff\xff\xff\xff", b"HTTP/1.1"]),
    st.lists(st.integers(min_value=0, max_value=800), max_size=20),
)
def test_every_split_of_the_answers_has_the_same_outcome(
    bodies: list[bytes], ending: bytes, places: list[int]
) -> None:
    """Answers, and the error behind them, are the same wherever the stream is cut (A14, B01, B03)."""
    stream = b"".join(frame(n, body) for n, body in enumerate(bodies)) + ending

    def run(cuts: list[int]) -> tuple[list[list[bytes]], list[str], str]:
        loop = asyncio.new_event_loop()
        connection = Connection("b", None, loop)
        connection.connection_made(_Transport())
        recorders = [Recorder(loop) for _ in range(len(bodies) + 1)]
        for recorder in recorders:
            connection.write_request(connection.next_correlation_id(), (b"?",), recorder, 30)
        edges = [0, *sorted(min(cut, len(stream)) for cut in cuts), len(stream)]
        for start, end in pairwise(edges):
            receive(connection, stream[start:end])
        reason = str(connection.close_reason)
        connection.close()
        loop.close()
        failures = [str(error) for recorder in recorders for error, _ in recorder.failures]
        return [recorder.answers for recorder in recorders], failures, reason

    expected = run([])
    assert [answers[0][4:] for answers in expected[0][:-1]] == bodies
    assert run(places) == expected
    assert run(list(range(len(stream)))) == expected

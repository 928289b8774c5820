"""The token of a producer: fetched once for all connections, renewed in time, and never shown."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import logging
import random
import threading
import traceback
from functools import partial
from pathlib import Path
from typing import Any

import anyio.to_thread
import pytest

from aioproducer import AuthenticationError
from aioproducer._net.log import log_of
from aioproducer._net.securing import calling
from aioproducer._net.securing.calling import Given
from aioproducer._net.securing.tokens import TokenSource
from aioproducer.auth import Token, token_file
from aioproducer.security.tokens.lifetime import CachedToken, Renewal, token_of
from tests.net.support import until

CANARY = "canary"


class Clock:
    """A clock that is put forward by hand."""

    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


def jwt(expires_at: float) -> str:
    """A token with three parts."""
    parts = ({"alg": "none"}, {"exp": expires_at})
    return (
        ".".join(base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in parts)
        + ".x"
    )


def source(provider: Any, clock: Clock) -> TokenSource:
    """A source of tokens."""
    fetch = partial(calling.UserFunctions().call, provider)
    extensions = {"logicalCluster": "lkc-1"}
    return TokenSource(
        fetch, "sasl_token_provider", extensions, log_of("tests"), random.Random(1), clock=clock
    )


@pytest.mark.parametrize("form", ["token", "pair", "jwt"])
async def test_a_token_is_kept_until_it_is_renewed(form: str) -> None:
    """Connections at the same time share one call; the next comes at 80 to 85 % of its life."""
    clock, calls = Clock(), 0

    async def provide() -> object:
        nonlocal calls
        calls += 1
        await asyncio.sleep(0)
        end = clock.now + 3600
        return {"token": Token(f"t{calls}", end), "pair": (f"t{calls}", end), "jwt": jwt(end)}[form]

    tokens = source(provide, clock)
    given = await asyncio.gather(*(tokens.credentials() for _ in range(9)))
    assert calls == 1
    assert dict(given[0].extensions) == {"logicalCluster": "lkc-1"}
    clock.now += 0.79 * 3600
    await tokens.credentials()
    assert calls == 1
    clock.now += 0.07 * 3600
    await tokens.credentials()
    assert calls == 2


async def test_a_token_without_an_end_is_fetched_each_time() -> None:
    """A text that is no JWT may end at any time."""
    texts = iter(("a", "b"))
    tokens = source(lambda: next(texts), Clock())
    assert [(await tokens.credentials()).token.reveal() for _ in range(2)] == ["a", "b"]


async def test_connections_at_the_same_time_share_a_token_without_an_end() -> None:
    """One call for all that wait for it: a slow provider of such tokens would otherwise hold up each one after the other."""
    calls, answered = 0, asyncio.Event()

    async def provide() -> str:
        nonlocal calls
        calls += 1
        await answered.wait()
        return f"opaque-{calls}"

    tokens = source(provide, Clock())
    asking = [asyncio.create_task(tokens.credentials()) for _ in range(5)]
    await asyncio.sleep(0)
    answered.set()
    assert {one.token.reveal() for one in await asyncio.gather(*asking)} == {"opaque-1"}
    assert (await tokens.credentials()).token.reveal() == "opaque-2"


def test_the_time_of_renewal() -> None:
    """As in Kafka's client: not within 60 s of getting it, nor within 300 s of its end, unless its life is too short for both."""
    made = [
        CachedToken.fetched(Token("t", 1000.0 + life), 1000.0, 1.0).refresh_at for life in (100, 400, 1000)
    ]
    assert made == pytest.approx([1085.0, 1100.0, 1700.0])


async def test_a_provider_that_fails(caplog: pytest.LogCaptureFixture) -> None:
    """The present token is used until it is about to end; then authentication fails, without the provider's words."""
    clock = Clock()
    first = [Token(CANARY, clock.now + 3600)]

    def provide() -> Token:
        if first:
            return first.pop()
        raise RuntimeError(CANARY)

    tokens = source(provide, clock)
    before = await tokens.credentials()
    clock.now += 3500
    with caplog.at_level(logging.WARNING, "aioproducer"):
        assert (await tokens.credentials()).token == before.token
    clock.now += 95
    with pytest.raises(AuthenticationError, match="sasl_token_provider raised RuntimeError") as caught:
        await tokens.credentials()
    assert (caught.value.reason, caught.value.retriable) == ("token", True)
    assert CANARY not in caplog.text + str(caught.value)
    assert caught.value.__context__ is None


@pytest.mark.parametrize("given", [None, 5, b"token", ("a",), (5, 1.0), {"token": "a"}])
async def test_what_is_no_token(given: object) -> None:
    """The error names the type, and not the value."""
    with pytest.raises(AuthenticationError, match=f"not {type(given).__name__}"):
        await source(lambda: given, Clock()).credentials()


def test_a_jwt_that_is_none() -> None:
    """Three parts that are no JWT have no known end."""
    for text in ("a.b.c", "a.e30.c", "a.bnVsbA.c", f"a.{'x' * 5}.c"):
        assert token_of(text).expires_at is None


@pytest.mark.parametrize(
    "given",
    [
        Token(CANARY, "soon"),  # type: ignore[arg-type]
        Token(CANARY, 10**400),
        Token(CANARY, float("nan")),
        Token(CANARY, True),
        (CANARY, "soon"),
        Token(CANARY, 5.0, None),  # type: ignore[arg-type]
        Token(CANARY, 5.0, {1: 2}),  # type: ignore[dict-item]
        Token(CANARY, 5.0, {"auth": "x"}),
        (f"{CANARY} with a space", 5.0),
        {"access_token": CANARY},
        (CANARY, 1, 2),
        CANARY.encode(),
    ],
)
async def test_a_token_that_is_wrong(given: object) -> None:
    """One error, which ends no task of the producer; no variable of its frames has the token (S17)."""
    with pytest.raises(AuthenticationError, match="sasl_token_provider failed") as caught:
        await source(lambda: given, Clock()).credentials()
    assert (caught.value.reason, caught.value.retriable) == ("token", True)
    told = traceback.TracebackException.from_exception(caught.value, capture_locals=True)
    assert not [
        frame for frame in told.stack if "/aioproducer/" in frame.filename and CANARY in str(frame.locals)
    ]


async def test_a_wrong_token_is_not_kept() -> None:
    """The next authentication fetches another one, also if the wrong one had a long life."""
    clock = Clock()
    given = [("not a token", clock.now + 3600), ("good", clock.now + 3600)]
    tokens = source(lambda: given.pop(0), clock)
    with pytest.raises(AuthenticationError):
        await tokens.credentials()
    clock.now += 1.3
    assert (await tokens.credentials()).token.reveal() == "good"


async def test_a_provider_that_fails_is_not_called_by_each_connection() -> None:
    """One call, then pauses of 1 to 10 s with the same error; a clock that is set back makes none longer."""
    clock, calls = Clock(), 0

    async def provide() -> str:
        nonlocal calls
        calls += 1
        raise LookupError

    tokens = source(provide, clock)
    asking = await asyncio.gather(*(tokens.credentials() for _ in range(12)), return_exceptions=True)
    assert {str(error) for error in asking} == {
        "sasl_token_provider raised LookupError (SASL mechanism OAUTHBEARER)"
    }
    assert calls == 1
    for pause in (1.2, 2.4, 4.8, 9.6, 10.0, 10.0):
        clock.now += pause / 2
        with pytest.raises(AuthenticationError):
            await tokens.credentials()
        before = calls
        clock.now += pause / 2 + 0.01
        with pytest.raises(AuthenticationError):
            await tokens.credentials()
        assert calls == before + 1
    clock.now -= 3600
    with pytest.raises(AuthenticationError):
        await tokens.credentials()
    assert calls == before + 2


async def test_a_refused_token_is_forgotten() -> None:
    """The next authentication fetches one; the refusal of a former token says nothing of the present one."""
    clock = Clock()
    names = iter(("a", "b", "c"))
    tokens = source(lambda: (next(names), clock.now + 3600), clock)
    first = await tokens.credentials()
    tokens.refused(first)
    second = await tokens.credentials()
    assert (first.token.reveal(), second.token.reveal()) == ("a", "b")
    tokens.refused(first)
    assert (await tokens.credentials()).token.reveal() == "b"


async def test_a_source_that_fails_in_an_unknown_way() -> None:
    """Such as a key that cannot sign: the text of the error may have a secret."""

    async def fetch() -> Given:
        raise OverflowError(CANARY)

    clock = Clock()
    tokens = TokenSource(fetch, "the token endpoint", {}, log_of("tests"), random.Random(1), clock=clock)
    with pytest.raises(AuthenticationError, match="the token endpoint failed with OverflowError") as caught:
        await tokens.credentials()
    assert caught.value.__context__ is None
    assert caught.value.reason == "token"


async def test_an_end_in_milliseconds_is_refused() -> None:
    """It would be thousands of years ahead, and the token would never be renewed. The `exp` of a JWT is taken for unknown."""
    clock = Clock()
    end = 1_764_000_000_000
    with pytest.raises(AuthenticationError, match=f"expires_at of a token is {end}: .*not of milliseconds"):
        await source(lambda: ("t", end), clock).credentials()
    given = iter((jwt(end), "second"))
    tokens = source(lambda: next(given), clock)
    assert [(await tokens.credentials()).token.reveal() for _ in range(2)] == [jwt(end), "second"]


def test_the_time_of_renewal_is_before_the_end() -> None:
    """Also where the factor and the jitter add up to more than 1."""
    renewal = Renewal(1.0, 0.25, 0.0, 0.0)
    assert CachedToken.fetched(Token("t", 1100.0), 1000.0, 1.0, renewal).refresh_at == 1100.0


class Odd(BaseException):
    """An error that is no Exception."""


@pytest.mark.parametrize("error", [Odd(CANARY), asyncio.CancelledError(CANARY), GeneratorExit(CANARY)])
async def test_a_provider_that_raises_anything(error: BaseException) -> None:
    """It cancels nothing, and ends no task but its own."""

    async def provide() -> str:
        raise error

    with pytest.raises(AuthenticationError, match=f"raised {type(error).__name__}"):
        await source(provide, Clock()).credentials()


async def test_a_provider_that_cancels_its_own_task() -> None:
    """It fails as one that raises: nothing else is cancelled, and the next connection asks it again."""
    calls = 0

    async def provide() -> Token:
        nonlocal calls
        calls += 1
        task = asyncio.current_task()
        if calls == 1 and task is not None:
            task.cancel()
        return Token("t", clock.now + 3600)

    clock = Clock()
    tokens = source(provide, clock)
    with pytest.raises(AuthenticationError, match="was cancelled"):
        await tokens.credentials()
    clock.now += 1.3
    assert (await tokens.credentials()).token.reveal() == "t"


async def test_a_provider_that_cannot_be_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    """A call that suppresses its cancellation is left alone, and the next authentication calls again."""
    monkeypatch.setattr(calling, "LONGEST_CALL", 0.01)
    ended, calls = asyncio.Event(), 0

    async def provide() -> str:
        nonlocal calls
        calls += 1
        while calls == 1 and not ended.is_set():
            with contextlib.suppress(asyncio.CancelledError):
                await ended.wait()
        return "good"

    clock = Clock()
    tokens = source(provide, clock)
    with pytest.raises(AuthenticationError, match="gave nothing within"):
        await tokens.credentials()
    clock.now += 1.3
    assert (await tokens.credentials()).token.reveal() == "good"
    ended.set()


async def test_a_provider_that_hangs_holds_up_one_connection() -> None:
    """The others use the present token, also after the connection that has called was given up (S46)."""
    clock, hangs, calls = Clock(), asyncio.Event(), 0

    async def provide() -> Token:
        nonlocal calls
        calls += 1
        if calls > 1:
            await hangs.wait()
        return Token(f"t{calls}", clock.now + 3600)

    tokens = source(provide, clock)
    await tokens.credentials()
    clock.now += 0.86 * 3600
    first = asyncio.ensure_future(tokens.credentials())
    await settle()
    assert (await tokens.credentials()).token.reveal() == "t1"
    first.cancel()
    await settle()
    assert (await tokens.credentials()).token.reveal() == "t1"
    assert calls == 2
    clock.now += 10
    hangs.set()
    assert (await tokens.credentials()).token.reveal() == "t3"


async def test_a_cancelled_authentication_leaves_the_call_to_the_next() -> None:
    """The lock is free again, and nothing of the cancelled call is kept."""
    hangs, calls = asyncio.Event(), 0

    async def provide() -> str:
        nonlocal calls
        calls += 1
        if calls == 1:
            await hangs.wait()
        return f"t{calls}"

    tokens = source(provide, Clock())
    first = asyncio.ensure_future(tokens.credentials())
    second = asyncio.ensure_future(tokens.credentials())
    await settle()
    first.cancel()
    assert (await second).token.reveal() == "t2"


async def settle() -> None:
    """Give other tasks some turns of the loop."""
    for _ in range(5):
        await asyncio.sleep(0)


async def test_a_token_in_a_file(tmp_path: Path) -> None:
    """White space and the mark of an encoding are no part of it; the error of a file that cannot be used names the file."""
    path, clock = tmp_path / "token", Clock()
    path.write_bytes(b"\xef\xbb\xbf" + jwt(clock.now + 60).encode() + b"\r\n")
    credentials = await source(token_file(str(path)), clock).credentials()
    assert credentials.token.reveal() == jwt(clock.now + 60)
    for content, why in (
        (b" \n", "it is empty"),
        (b"\xff" + CANARY.encode(), "it is not UTF-8"),
        (None, "No such file"),
    ):
        path.unlink()
        if content is not None:
            path.write_bytes(content)
        with pytest.raises(
            AuthenticationError, match=f"sasl_token_provider failed: reading {path}: {why}"
        ) as caught:
            await source(token_file(str(path)), clock).credentials()
        path.touch()
        assert CANARY not in str(caught.value)
        assert caught.value.reason == "token"


async def test_a_token_in_a_file_while_all_threads_are_taken(tmp_path: Path) -> None:
    """Jobs of the program that fill anyio's own limit of threads do not hold it up."""
    path, gate = tmp_path / "token", threading.Event()
    path.write_text("a-token")
    limiter = anyio.to_thread.current_default_thread_limiter()
    jobs = [
        asyncio.ensure_future(anyio.to_thread.run_sync(gate.wait)) for _ in range(int(limiter.total_tokens))
    ]
    await until(lambda: not limiter.available_tokens)
    try:
        async with asyncio.timeout(10):
            token = await token_file(str(path))()
    finally:
        gate.set()
        await asyncio.gather(*jobs)
    assert token == Token("a-token")

"""`aioproducer.asgi.lifespan`: producers start with an application and end with it, whatever fails in between."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import httpx
import pytest

from aioproducer import BrokerUnavailableError, CloseReport, MetadataTimeoutError, Producer, StateError
from aioproducer.asgi import Probes, lifespan
from aioproducer.testing import MockProducer
from tests.api.support import until
from tests.ports import unused_port
from tests.repo.source import ROOT

APP = object()


class Noting(MockProducer[Any, Any]):
    """A producer that notes its start and its end in the order of all of them."""

    def __init__(self, notes: list[str], name: str, **failures: BaseException) -> None:
        super().__init__(client_id=name)
        self.notes = notes
        self.failures = failures

    async def start(self, *, wait_ready: float | None = None) -> None:
        """Start, unless it shall fail."""
        if "start" in self.failures:
            raise self.failures["start"]
        await super().start(wait_ready=wait_ready)
        self.notes.append(f"{self.config.client_id} starts")

    async def close(self, timeout: float | None = None) -> CloseReport:
        """Close, and fail after that if it shall."""
        self.notes.append(f"{self.config.client_id} closes")
        report = await super().close(timeout)
        if "close" in self.failures:
            raise self.failures["close"]
        return report


def within(notes: list[str], state: Any = None, failure: Exception | None = None) -> Any:
    """A lifespan of an application that notes when it runs."""

    @asynccontextmanager
    async def running(app: object) -> AsyncIterator[Any]:
        assert app is APP
        notes.append("application starts")
        if failure is not None:
            raise failure
        try:
            yield state
        finally:
            notes.append("application ends")

    return running


@pytest.fixture
def closed_address() -> Iterator[str]:
    """An address without a listener."""
    with unused_port() as port:
        yield f"127.0.0.1:{port}"


async def test_the_state_of_one_producer() -> None:
    """A single producer is the state's "producer": it runs inside, and is closed behind."""
    producer = MockProducer()
    async with lifespan(producer)(APP) as state:
        assert state == {"producer": producer}
        assert (await producer.send_and_wait("orders", b"1")).offset == 0
    assert producer.health().state == "closed"


async def test_several_start_in_order_and_close_in_reverse_order() -> None:
    """Several producers are the state's "producers"."""
    notes: list[str] = []
    first, second, third = (Noting(notes, name) for name in ("first", "second", "third"))
    async with lifespan(first, second, third)(APP) as state:
        assert state == {"producers": (first, second, third)}
        assert notes == ["first starts", "second starts", "third starts"]
        notes.clear()
    assert notes == ["third closes", "second closes", "first closes"]


async def test_an_inner_lifespan_runs_while_the_producers_do() -> None:
    """The other lifespan gets the application; its state is added, and wins where both have a name."""
    notes: list[str] = []
    producer = Noting(notes, "p")
    async with lifespan(producer, inner=within(notes, {"pool": 7}))(APP) as state:
        assert state == {"producer": producer, "pool": 7}
    assert notes == ["p starts", "application starts", "application ends", "p closes"]
    async with lifespan(MockProducer(), inner=within(notes, {"producer": "mine"}))(APP) as state:
        assert state == {"producer": "mine"}


async def test_an_inner_lifespan_without_state() -> None:
    """A lifespan that yields nothing adds nothing."""
    async with lifespan(producer := MockProducer(), inner=within([]))(APP) as state:
        assert state == {"producer": producer}


async def test_a_start_that_fails_half_way_closes_what_has_started() -> None:
    """The producers that run are closed in reverse order, the failed one is released, later ones are left alone."""
    notes: list[str] = []
    reason = BrokerUnavailableError()
    first, second = Noting(notes, "first"), Noting(notes, "second")
    broken, last = Noting(notes, "broken", start=reason), Noting(notes, "last")
    with pytest.raises(BrokerUnavailableError) as caught:
        await lifespan(first, second, broken, last, inner=within(notes))(APP).__aenter__()
    assert caught.value is reason
    assert notes == ["first starts", "second starts", "broken closes", "second closes", "first closes"]
    assert last.health().state == "new"


async def test_wait_ready_raises_the_reason(closed_address: str) -> None:
    """With `wait_ready` an application does not start without a broker; nothing of the producers is left."""
    first, second = MockProducer(), Producer(closed_address)
    with pytest.raises(MetadataTimeoutError):
        await lifespan(first, second, wait_ready=0.05)(APP).__aenter__()
    assert [one.health().state for one in (first, second)] == ["closed", "closed"]


async def test_without_wait_ready_an_application_starts_without_kafka(closed_address: str) -> None:
    """Kafka that is down keeps no application from starting, nor from ending."""
    async with lifespan(Producer(closed_address))(APP) as state:
        assert state["producer"].health().state == "running"


async def test_a_running_producer_is_not_closed() -> None:
    """A producer that others have started is refused, and stays theirs."""
    async with MockProducer() as theirs:
        with pytest.raises(StateError, match="already running"):
            await lifespan(theirs)(APP).__aenter__()
        assert theirs.health().state == "running"


async def test_a_second_start_of_an_application_says_what_to_do() -> None:
    """A producer starts once: an application that starts again needs a function that makes one."""
    running = lifespan(MockProducer())
    async with running(APP):
        pass
    with pytest.raises(
        StateError, match=r"with an earlier start .* can be started once only: pass a function"
    ):
        await running(APP).__aenter__()


async def test_a_function_makes_a_producer_at_each_start() -> None:
    """The state has the producer of this start; each is closed with it."""
    made: list[MockProducer] = []

    def make() -> MockProducer:
        made.append(MockProducer())
        return made[-1]

    running = lifespan(make, theirs := MockProducer())
    assert made == []
    async with running(APP) as state:
        assert state == {"producers": (made[0], theirs)}
        assert made[0].health().state == "running"
    alone = lifespan(make)
    for number in (1, 2):
        async with alone(APP) as state:
            assert state == {"producer": made[number]}
            await state["producer"].send_and_wait("orders", b"1")
    assert [each.health().state for each in made] == ["closed"] * 3


async def test_a_function_that_fails_closes_what_has_started() -> None:
    """The error comes out, as that of a start."""
    first = MockProducer()

    def broken() -> MockProducer:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await lifespan(first, broken)(APP).__aenter__()
    assert first.health().state == "closed"
    wrong: Any = lambda: "localhost:9092"  # noqa: E731
    with pytest.raises(TypeError, match="must give a producer, not str"):
        await lifespan(wrong)(APP).__aenter__()


async def test_one_application_of_starlette_starts_twice() -> None:
    """As with its test client, which runs the lifespan in each context; the probes follow the producer of the state."""
    from starlette.applications import Starlette
    from starlette.routing import Mount

    application = Starlette(routes=[Mount("/probes", Probes.of_state())], lifespan=lifespan(MockProducer))
    for _ in range(2):
        async with application.router.lifespan_context(application) as state:

            async def served(scope: Any, receive: Any, send: Any, state: Any = state) -> None:
                # A server passes the state on, which this client does not know of.
                await application({**scope, "state": dict(state)}, receive, send)

            transport = httpx.ASGITransport(served)
            async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
                answer = await client.get("/probes/ready")
        assert answer.json() == {"live": True, "ready": True, "problems": []}


@pytest.mark.parametrize("inner", [True, False])
async def test_a_failure_of_the_application_closes_everything(inner: bool) -> None:
    """An error in the application, or in the start of the inner lifespan, comes out behind the closing."""
    notes: list[str] = []
    producer, failure = Noting(notes, "p"), ZeroDivisionError("boom")
    running = lifespan(producer, inner=within(notes, failure=failure if inner else None))
    with pytest.raises(ZeroDivisionError):
        async with running(APP):
            raise failure
    assert notes[0] == "p starts"
    assert notes[-1] == "p closes"


async def test_a_close_that_fails_does_not_keep_others_from_closing() -> None:
    """All are closed, and the error is raised."""
    notes: list[str] = []
    first, second = Noting(notes, "first"), Noting(notes, "second", close=RuntimeError("boom"))
    with pytest.raises(RuntimeError, match="boom"):
        async with lifespan(first, second)(APP):
            notes.clear()
    assert notes == ["second closes", "first closes"]


async def test_a_cancelled_start_leaves_nothing(closed_address: str) -> None:
    """A server that gives up while a start waits for a broker leaves no running producer."""
    first, second = MockProducer(), Producer(closed_address)
    starting = asyncio.ensure_future(lifespan(first, second, wait_ready=60)(APP).__aenter__())
    await until(lambda: second.health().state == "running")
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    assert [one.health().state for one in (first, second)] == ["closed", "closed"]


def test_no_producer_is_a_mistake() -> None:
    """Without a producer there is nothing to start."""
    with pytest.raises(TypeError, match="pass the producer"):
        lifespan()


def test_each_call_is_a_context_of_its_own() -> None:
    """A lifespan is called with the application, as Starlette and Litestar do."""
    assert isinstance(lifespan(MockProducer())(APP), AbstractAsyncContextManager)


def test_it_needs_the_standard_library_only() -> None:
    """Neither the package imports the module, nor the module a web framework."""
    code = (
        "import sys, aioproducer; assert 'aioproducer.asgi' not in sys.modules; import aioproducer.asgi\n"
        "web = {'starlette', 'fastapi', 'litestar', 'quart', 'uvicorn'} & set(sys.modules)\n"
        "assert not web, web\n"
    )
    subprocess.run([sys.executable, "-W", "error", "-c", code], cwd=ROOT, check=True)

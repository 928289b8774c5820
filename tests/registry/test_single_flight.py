"""One request for any number of tasks, whatever happens to them."""

from __future__ import annotations

import asyncio
import gc
import weakref
from contextvars import ContextVar
from typing import Any

import httpx2
import pytest

from aioproducer.errors import StateError
from aioproducer.registry import Registry, RegistryError, Schema, SchemaId
from aioproducer.testing import EmbeddedRegistry
from tests.registry.scripted import ORDER, Scripted, client_of, passes, play, refused, silence, told


class Held:
    """A registry that answers when the test says so."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.free = asyncio.Event()

    async def __call__(self, request: httpx2.Request) -> httpx2.Response:
        self.asked.set()
        await self.free.wait()
        return httpx2.Response(200, json={"id": 7})


async def test_fifty_tasks_make_one_request(embedded: EmbeddedRegistry) -> None:
    """All of them have its answer."""
    async with Registry(embedded.url) as registry:
        found = await asyncio.gather(*(registry.register("s", Schema(ORDER)) for _ in range(50)))
        again = await registry.lookup("s", Schema(ORDER))
    assert set(found) == {again}
    assert len(embedded.requests) == 1


@pytest.mark.parametrize("cancelled", [range(1), range(1, 50), range(49), range(50)])
def test_cancelling_some_cancels_nothing_for_others(cancelled: range) -> None:
    """Whether it was the first or all: the request goes on, and its answer is that of the next call as well."""

    async def main() -> None:
        held = Held()
        place = Scripted(held)
        registry = client_of(place)
        calls = [asyncio.create_task(registry.register("s", Schema(ORDER))) for _ in range(50)]
        await held.asked.wait()
        for number in cancelled:
            calls[number].cancel()
        await asyncio.sleep(0)
        held.free.set()
        outcomes = await asyncio.gather(*calls, return_exceptions=True)
        for number, outcome in enumerate(outcomes):
            wanted = asyncio.CancelledError if number in cancelled else SchemaId
            assert isinstance(outcome, wanted), number
        assert (await registry.register("s", Schema(ORDER))).id == 7
        assert len(place.requests) == 1
        await registry.close()

    play(main)


def test_each_caller_has_an_error_of_its_own() -> None:
    """A shared failure is raised in each task as another object with the same facts."""

    async def main() -> None:
        registry = client_of(Scripted(told(404, {"error_code": 40401, "message": "no"})))
        outcomes = await asyncio.gather(*(registry.latest("s") for _ in range(9)), return_exceptions=True)
        errors = [each for each in outcomes if isinstance(each, RegistryError)]
        assert len({id(each) for each in errors}) == 9
        assert {(type(each), str(each), each.code) for each in errors} == {
            (type(errors[0]), str(errors[0]), 40401)
        }
        await registry.close()

    play(main)


def test_a_caller_that_joins_late_has_all_of_its_time() -> None:
    """The request goes on for the last caller, while each of them waits for its own time only."""

    async def slow(request: httpx2.Request) -> httpx2.Response:
        await passes(15.0)
        return httpx2.Response(200, json={"id": 7})

    async def main() -> None:
        place = Scripted(refused, slow)
        registry = client_of(place, timeout=10.0)
        first = asyncio.create_task(registry.register("s", Schema(ORDER)))
        await passes(9.0)
        second = asyncio.create_task(registry.register("s", Schema(ORDER)))
        with pytest.raises(RegistryError) as caught:
            await first
        assert caught.value.retriable
        assert isinstance(caught.value.cause, ConnectionError)
        assert (await second).id == 7
        await registry.close()

    play(main)


def test_attempts_go_on_for_a_caller_that_joins_late() -> None:
    """The registry comes back when the time of the first caller is over, and that of the second is not."""

    async def main() -> None:
        began = asyncio.get_running_loop().time()

        def answer(request: httpx2.Request) -> httpx2.Response:
            if asyncio.get_running_loop().time() < began + 12.0:
                return refused(request)
            return httpx2.Response(200, json={"id": 7})

        registry = client_of(Scripted(answer), timeout=10.0)
        first = asyncio.create_task(registry.register("s", Schema(ORDER)))
        await passes(9.0)
        second = asyncio.create_task(registry.register("s", Schema(ORDER)))
        with pytest.raises(RegistryError):
            await first
        assert (await second).id == 7
        await registry.close()

    play(main)


def test_a_caller_that_joins_in_the_turn_of_the_last_attempt() -> None:
    """The attempt ends with the time of the first caller, and cannot be prolonged any more: the second one has its time."""

    async def main() -> None:
        loop = asyncio.get_running_loop()
        registry = client_of(Scripted(silence, told()), timeout=1.0)
        first = asyncio.create_task(registry.register("s", Schema(ORDER)))
        await passes(0.5)
        (flight,) = registry._flights._running.values()
        assert flight.limit is not None
        ends = flight.limit.when()
        assert ends is not None
        turn = loop.create_future()
        # Less than the resolution of the clock: both are in one turn of the loop.
        loop.call_at(ends - 1e-10, turn.set_result, None)
        await turn
        assert (await registry.register("s", Schema(ORDER))).id == 1
        with pytest.raises(RegistryError):
            await first
        await registry.close()

    play(main)


class Kept:
    """An object of a caller."""


def test_a_request_keeps_no_context_of_a_call() -> None:
    """Neither its variables nor what they refer to, also after the call was cancelled."""
    variable: ContextVar[Kept | None] = ContextVar("variable", default=None)
    seen: list[Kept | None] = []

    async def token() -> str:
        seen.append(variable.get())
        return "token"

    async def main() -> None:
        held = Held()
        registry = client_of(Scripted(held), auth=token)

        async def call() -> None:
            variable.set(Kept())
            await registry.register("s", Schema(ORDER))

        async def begun() -> weakref.ref[Any]:
            task = asyncio.create_task(call())
            await held.asked.wait()
            (kept,) = (each for each in gc.get_objects() if type(each) is Kept)
            task.cancel()
            await asyncio.wait([task])
            return weakref.ref(kept)

        kept = await begun()
        gc.collect()
        assert kept() is None
        assert seen == [None]
        held.free.set()
        assert (await registry.register("s", Schema(ORDER))).id == 7
        await registry.close()

    play(main)


def test_closing_ends_those_that_wait() -> None:
    """They raise a StateError, as do later calls; a second close() does nothing."""

    async def main() -> None:
        held = Held()
        registry = client_of(Scripted(held))
        calls = [asyncio.create_task(registry.register("s", Schema(ORDER))) for _ in range(3)]
        await held.asked.wait()
        await registry.close()
        await registry.close()
        for outcome in await asyncio.gather(*calls, return_exceptions=True):
            assert isinstance(outcome, StateError)
        with pytest.raises(StateError, match="closed"):
            await registry.subjects()
        assert registry.closed

    play(main)


def test_a_registry_belongs_to_one_loop() -> None:
    """Another loop is refused, and a registry whose loop has ended can be closed anywhere."""
    registry = client_of(Scripted(told(200, [])))

    async def other() -> None:
        with pytest.raises(StateError, match="event loop"):
            await registry.subjects()
        await registry.close()

    async def main() -> None:
        await registry.subjects()

    play(main)
    play(other)


def test_the_latest_version_is_asked_for_again_behind() -> None:
    """It serves for latest_ttl, then while it is asked for, at most as long again; one refresh at a time."""

    def version(number: int) -> Any:
        return {"subject": "s", "version": number, "id": number, "schema": ORDER}

    async def main() -> None:
        place = Scripted(told(200, version(1)), refused, told(200, version(2)), refused)
        registry = client_of(place, latest_ttl=100.0, timeout=30.0)
        assert (await registry.latest("s")).version == 1
        await passes(99.0)
        assert (await registry.latest("s")).version == 1
        assert len(place.requests) == 1
        await passes(1.1)
        for _ in range(20):
            assert (await registry.latest("s")).version == 1
        await passes(1.0)
        assert len(place.requests) == 3
        assert (await registry.latest("s")).version == 2
        # The registry dies: the known version serves until it is too old.
        await passes(150.0)
        assert (await registry.latest("s")).version == 2
        await passes(60.0)
        with pytest.raises(RegistryError):
            await registry.latest("s")
        await registry.close()

    play(main)


def test_a_server_that_is_behind() -> None:
    """A version before the one that serves is not taken from it: the next server is asked. It may be the latest in the end."""

    def version(number: int) -> Any:
        return told(200, {"subject": "s", "version": number, "id": number, "schema": ORDER})

    async def main() -> None:
        place = Scripted(version(2), refused, version(1), version(2), version(1))
        registry = client_of(place, "http://a:8081,http://b:8081", latest_ttl=100.0, timeout=30.0)
        assert (await registry.latest("s")).version == 2
        await passes(101.0)
        for _ in range(110):
            assert (await registry.latest("s")).version == 2
            await passes(1.0)
        assert place.hosts == ["a", "a", "b", "a"]
        # Version 2 has been deleted.
        found = set()
        for _ in range(110):
            found.add((await registry.latest("s")).version)
            await passes(1.0)
        assert found == {1, 2}
        assert (await registry.latest("s")).version == 1
        assert len(place.requests) < 20
        await registry.close()

    play(main)


def test_caches_are_bounded() -> None:
    """The id that was used longest ago is asked for again."""

    async def main() -> None:
        place = Scripted(told())
        registry = client_of(place, cache_size=2)
        for subject in ("a", "b", "a", "c", "a", "b"):
            await registry.register(subject, Schema(ORDER))
        assert [request.url.path.split("/")[2] for request in place.requests] == ["a", "b", "c", "b"]
        await registry.close()

    play(main)


def test_a_close_that_is_cancelled_goes_on() -> None:
    """The HTTP client is closed all the same, and another call waits for that."""

    async def main() -> None:
        held = Held()
        scripted = Scripted(held)
        closed = asyncio.Event()

        class Client(httpx2.AsyncClient):
            async def aclose(self) -> None:
                await passes(1.0)
                await super().aclose()
                closed.set()

        registry = Registry("http://registry:8081")
        registry._conversation._client = Client(transport=scripted)
        call = asyncio.create_task(registry.register("s", Schema(ORDER)))
        await held.asked.wait()
        closing = asyncio.create_task(registry.close())
        await asyncio.sleep(0)
        closing.cancel()
        await asyncio.wait([closing])
        assert closing.cancelled()
        with pytest.raises(StateError, match="closed"):
            await call
        assert not closed.is_set()
        await registry.close()
        assert closed.is_set()

    play(main)

"""The requests of a registry: their form, and their repetition."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from email.utils import formatdate
from typing import Any

import httpx2
import pytest

from aioproducer.errors import ConfigurationError
from aioproducer.registry import Reference, Registry, RegistryError, Schema
from aioproducer.registry.serializing import referred_texts
from tests.registry.scripted import (
    ORDER,
    Scripted,
    Step,
    bodies,
    client_of,
    passes,
    play,
    refused,
    silence,
    told,
)


def register_at_two(place: Scripted) -> None:
    """Register a schema at a registry of two servers."""

    async def main() -> None:
        registry = client_of(place, "http://a,http://b")
        await registry.register("s", Schema(ORDER))
        await registry.close()

    play(main)


def test_the_form_of_a_request() -> None:
    """Media types, a base path, an encoded subject; what has its default is left out."""
    place = Scripted(told())

    async def main() -> None:
        registry = client_of(place, "http://a:8081/base/path/")
        await registry.register("a/b", Schema(ORDER))
        await registry.lookup(
            "a b", Schema("{}", "JSON", [Reference("other", "of other", 3)]), normalize=True
        )
        await registry.close()

    play(main)
    first, second = place.requests
    assert str(first.url) == "http://a:8081/base/path/subjects/a%2Fb/versions"
    assert str(second.url) == "http://a:8081/base/path/subjects/a%20b?normalize=true"
    for request in (first, second):
        assert request.headers["accept"] == "application/vnd.schemaregistry.v1+json"
        assert request.headers["content-type"] == "application/vnd.schemaregistry.v1+json"
        assert "authorization" not in request.headers
    reference = {"name": "other", "subject": "of other", "version": 3}
    assert bodies(place) == [
        {"schema": ORDER},
        {"schema": "{}", "schemaType": "JSON", "references": [reference]},
    ]


@pytest.mark.parametrize("status", [408, 425, 429, 500, 502, 503, 504])
def test_some_answers_are_repeated(status: int) -> None:
    """The next server is asked, after 0.1 s, then the first one again after 0.2 s."""
    place = Scripted(told(status, {}), told(status, {}), told())

    async def main() -> None:
        registry = client_of(place, "http://a:8081,http://b:8081")
        assert (await registry.register("s", Schema(ORDER))).id == 1
        await registry.close()

    play(main)
    assert place.hosts == ["a", "b", "a"]
    assert [round(pause / expected, 1) for pause, expected in zip(place.pauses, (0.1, 0.2), strict=True)] == [
        pytest.approx(1, abs=0.21)
    ] * 2


def test_pauses_grow_to_two_seconds_and_end_with_the_time() -> None:
    """Backoff is 0.1 to 2 s, and the last failure is raised when the time of the call is over."""
    place = Scripted(refused)

    async def main() -> float:
        registry = client_of(place, timeout=10.0)
        began = asyncio.get_running_loop().time()
        with pytest.raises(RegistryError) as caught:
            await registry.subjects()
        assert caught.value.retriable
        assert caught.value.url == "http://a:8081/subjects"
        assert isinstance(caught.value.cause, ConnectionError)
        ended = asyncio.get_running_loop().time()
        await registry.close()
        return ended - began

    assert play(main) == pytest.approx(10.0, abs=0.01)
    for pause, expected in zip(place.pauses, (0.1, 0.2, 0.4, 0.8, 1.6, 2.0, 2.0), strict=False):
        assert 0.79 * expected < pause < 1.21 * expected
    # Each pause is up to a fifth shorter or longer.
    assert 8 <= len(place.requests) <= 10


@pytest.mark.parametrize("status", [301, 307, 400, 401, 403, 404, 405, 409, 422, 501])
def test_other_answers_are_final(status: int) -> None:
    """They are not repeated, nor is a redirect followed; a second call within a second is answered from memory."""
    place = Scripted(told(status, {"error_code": status, "message": "no"}, location="http://c/"))

    async def main() -> None:
        registry = client_of(place)
        for _ in range(2):
            with pytest.raises(RegistryError) as caught:
                await registry.latest("s")
            assert (caught.value.status, caught.value.code) == (status, status)
            assert not caught.value.retriable
        assert len(place.requests) == 1
        await passes(1.001)
        with pytest.raises(RegistryError):
            await registry.latest("s")
        assert len(place.requests) == 2
        await registry.close()

    play(main)


@pytest.mark.parametrize("form", ["seconds", "date"])
def test_retry_after_counts(form: str) -> None:
    """The pause is as long as the server asks for."""
    asked = "5" if form == "seconds" else formatdate(time.time() + 5, usegmt=True)
    place = Scripted(told(503, {}, **{"Retry-After": asked}), told())

    async def main() -> None:
        registry = client_of(place)
        await registry.register("s", Schema(ORDER))
        await registry.close()

    play(main)
    assert place.pauses == [pytest.approx(5, abs=1.1)]


def test_another_server_need_not_rest() -> None:
    """Retry-After is about the server that sent it."""
    place = Scripted(told(503, {}, **{"Retry-After": "9"}), told())

    register_at_two(place)
    assert place.pauses == [pytest.approx(0.1, abs=0.03)]


def test_a_server_that_rests_holds_up_no_other() -> None:
    """The second of two servers fails once, while the first one asks for a minute of rest: the second is asked again."""
    place = Scripted(told(503, {}, **{"Retry-After": "60"}), told(503, {}), told())

    register_at_two(place)
    assert place.hosts == ["a", "b", "b"]


def test_the_shortest_rest_of_all_servers() -> None:
    """All of them ask for a rest: the one that may be asked first is asked next."""
    place = Scripted(told(503, {}, **{"Retry-After": "6"}), told(503, {}, **{"Retry-After": "2"}), told())

    register_at_two(place)
    assert place.hosts == ["a", "b", "b"]
    assert place.pauses[1] == pytest.approx(2.0, abs=0.03)


def version_of(request: httpx2.Request) -> httpx2.Response:
    """A subject whose schema refers to itself, or to two of the next level."""
    subject = request.url.path.split("/")[2]
    level = int(subject.partition("-")[0])
    next_ones = [f"{level + 1}-{side}" for side in "ab"] if 0 < level < 12 else []
    refers = ["0-a"] if level == 0 else next_ones
    content = {
        "subject": subject,
        "version": 1,
        "id": 1,
        "schema": json.dumps({"type": "fixed", "size": 1, "name": f"N{subject.replace('-', '')}"}),
        "references": [
            {"name": f"N{each.replace('-', '')}", "subject": each, "version": 1} for each in refers
        ],
    }
    return httpx2.Response(200, json=content)


@pytest.mark.parametrize(("subject", "requests"), [("0-a", 1), ("1-a", 23)])
def test_each_reference_is_asked_for_once(subject: str, requests: int) -> None:
    """A schema that refers to itself, and one whose references share theirs: no requests without an end."""

    def answer(request: httpx2.Request) -> httpx2.Response:
        assert len(place.requests) < 100
        return version_of(request)

    place = Scripted(answer)

    async def main() -> dict[str, str]:
        registry = client_of(place)
        texts = await referred_texts(
            registry, Schema(ORDER, references=[Reference(f"N{subject.replace('-', '')}", subject, 1)])
        )
        await registry.close()
        return texts

    texts = play(main)
    assert len(place.requests) == len(texts) == requests
    if requests > 1:
        names = list(texts)
        # A schema comes behind those that it refers to.
        assert names.index("N12b") < names.index("N11a") < names.index("N1a")


def test_references_without_an_end_are_refused() -> None:
    """A registry may tell a new one with each answer."""
    count = iter(range(1, 10_000))

    def answer(request: httpx2.Request) -> httpx2.Response:
        number = next(count)
        refers = [{"name": f"N{number}", "subject": f"s{number}", "version": 1}]
        content = {"subject": "s", "version": 1, "id": 1, "schema": ORDER, "references": refers}
        return httpx2.Response(200, json=content)

    async def main() -> None:
        registry = client_of(Scripted(answer))
        with pytest.raises(ConfigurationError, match="refers to more than 1,000 others"):
            await referred_texts(registry, Schema(ORDER, references=[Reference("N0", "s0", 1)]))
        await registry.close()

    play(main)


def test_a_silent_server_leaves_time_for_the_next() -> None:
    """Each of two servers has half of the time; the one that answered is asked first from then on."""
    place = Scripted(silence, told())

    async def main() -> None:
        registry = client_of(place, "http://a,http://b", timeout=4.0)
        await registry.register("s", Schema(ORDER))
        await registry.register("t", Schema(ORDER))
        await registry.close()

    play(main)
    assert place.hosts == ["a", "b", "b"]
    assert place.pauses[0] == pytest.approx(2.1, abs=0.03)


def test_a_slow_answer_of_the_only_server_is_waited_for() -> None:
    """It has the whole time."""

    async def slow(request: httpx2.Request) -> httpx2.Response:
        await passes(9.9)
        return httpx2.Response(200, json=[])

    place = Scripted(slow)

    async def main() -> None:
        registry = client_of(place)
        assert await registry.subjects() == []
        await registry.close()

    play(main)


def large(request: httpx2.Request) -> httpx2.Response:
    """An answer of more than 4 MiB."""
    return httpx2.Response(200, content=b'"' + b"a" * (4 * 1024 * 1024) + b'"')


def html(request: httpx2.Request) -> httpx2.Response:
    """An answer of a proxy."""
    return httpx2.Response(200, text="<html>")


@pytest.mark.parametrize(
    "step",
    [
        large,
        html,
        told(200, {}),
        told(200, {"id": True}),
        told(200, {"id": -1}),
        told(200, {"id": 1, "guid": "x"}),
        told(200, []),
    ],
)
def test_an_answer_that_is_none(step: Step) -> None:
    """Too large an answer, or one that is not that of a registry, is refused for good."""
    place = Scripted(step)

    async def main() -> None:
        registry = client_of(place)
        with pytest.raises(RegistryError) as caught:
            await registry.register("s", Schema(ORDER))
        assert not caught.value.retriable
        assert len(str(caught.value)) < 200
        await registry.close()

    play(main)
    assert len(place.requests) == 1


FORMLESS: list[tuple[int, bytes]] = [
    (status, body)
    for status in (200, 404)
    for body in (
        b"[]",
        b"null",
        b"5",
        b'"text"',
        b"{}",
        b'{"id": 1, "guid": 5}',
        b'{"id": 1, "guid": {}}',
        b'{"schema": "{}", "schemaType": "XML", "guid": []}',
        b'{"schema": "{}", "references": [5]}',
        b'{"error_code": Infinity, "message": "no"}',
        b"[" * 100_000,
    )
]


@pytest.mark.parametrize(("status", "body"), FORMLESS)
def test_an_answer_without_form_to_every_call(status: int, body: bytes) -> None:
    """It is a RegistryError with the status, and no error of the code that reads it."""

    async def main() -> None:
        registry = client_of(Scripted(*[lambda _: httpx2.Response(status, content=body)] * 6))
        schema = Schema(ORDER)
        for call in (
            registry.register("s", schema),
            registry.lookup("s", schema),
            registry.latest("s"),
            registry.version("s", 1),
            registry.schema(1),
            registry.compatible("s", schema),
        ):
            with pytest.raises(RegistryError) as caught:
                await call
            assert (type(caught.value), caught.value.status) == (RegistryError, status)
        await registry.close()

    play(main)


@pytest.mark.parametrize(
    ("status", "problem"),
    [
        (302, "redirects"),
        (401, "refuses the credentials"),
        (403, "refuses the credentials"),
        (404, "not that of a schema registry: check its address"),
        (405, "not that of a schema registry: check its address"),
        (409, "not compatible"),
    ],
)
def test_a_refusal_that_is_no_json(status: int, problem: str) -> None:
    """A proxy or another server has answered: the error tells what to look at."""

    async def main() -> None:
        registry = client_of(Scripted(lambda _: httpx2.Response(status, text="<html>")))
        with pytest.raises(RegistryError, match=problem) as caught:
            await registry.latest("s")
        assert "http://a:8081/subjects/s" in str(caught.value)
        await registry.close()

    play(main)


def test_a_silent_server_is_named() -> None:
    """By the error of a call whose time ends with that of its request, and of one that joined."""

    async def main() -> None:
        registry = client_of(Scripted(silence))
        calls = [registry.latest("s") for _ in range(2)]
        for error in await asyncio.gather(*calls, return_exceptions=True):
            assert isinstance(error, RegistryError)
            assert error.url == "http://a:8081/subjects/s/versions/latest"
        await registry.close()

    play(main)


def released() -> memoryview:
    """A view whose bytes are gone."""
    view = memoryview(b"http://h")
    view.release()
    return view


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({"urls": ""}, "at least one"),
        ({"urls": "localhost:8081"}, "http"),
        ({"urls": "http://h:99999"}, "not a URL"),
        ({"urls": "http://h/?a=b"}, "query"),
        ({"urls": 7}, "urls"),
        ({"urls": memoryview(bytes(4)).cast("B", (2, 2))}, "urls"),
        ({"urls": released()}, "urls"),
        ({"timeout": 0}, "timeout"),
        ({"timeout": float("nan")}, "timeout"),
        ({"cache_size": 0}, "cache_size"),
        ({"timeout": 10**400}, "timeout"),
        ({"latest_ttl": 10**400}, "latest_ttl"),
        ({"latest_ttl": -1}, "latest_ttl"),
        ({"auth": ("a", "b", "c")}, "auth"),
        ({"auth": ("a:b", "c")}, "colon"),
        ({"auth": "two words"}, "token"),
        ({"auth": 5}, "auth"),
        ({"headers": {"X": "a\r\nb"}}, "X"),
        ({"client": object()}, "client"),
        ({"client": httpx2.AsyncClient(), "proxy": "http://p"}, "client"),
    ],
)
def test_arguments_that_cannot_be(arguments: dict[str, object], problem: str) -> None:
    """They are refused at once."""
    with pytest.raises(ConfigurationError, match=problem):
        Registry(**{"urls": "http://h", **arguments})  # type: ignore[arg-type]


ODD: Any = b"a"


@pytest.mark.parametrize(
    ("make", "problem"),
    [
        (lambda: Schema("", ODD), "AVRO, JSON, PROTOBUF"),
        (lambda: Schema(ODD), "string"),
        (lambda: Schema("", references=[ODD]), "Reference"),
    ],
)
def test_schemas_that_cannot_be(make: Callable[[], object], problem: str) -> None:
    """They are refused at once."""
    with pytest.raises(ConfigurationError, match=problem):
        make()


def test_a_subject_without_bytes() -> None:
    """It is refused by name, and nothing is asked."""

    async def main() -> None:
        registry = client_of(Scripted())
        with pytest.raises(ConfigurationError, match=r"lone surrogate: '\\ud800'"):
            await registry.latest("\ud800")
        await registry.close()

    play(main)

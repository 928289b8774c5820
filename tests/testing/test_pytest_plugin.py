"""The fixture `embedded_kafka` under each plugin that runs coroutines."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from pytest_aioproducer import WITHOUT_A_LOOP

TEST = """
import asyncio
import pytest

{mark}
async def test_it(embedded_kafka):
    embedded_kafka.create_topic("t")
    host, port = embedded_kafka.bootstrap_servers.rsplit(":", 1)
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(bytes.fromhex("0000000b 0012 007f 00000007 ffff 00".replace(" ", "")))
    assert len(await asyncio.wait_for(reader.readexactly(20), 5)) == 20
    writer.close()
    await writer.wait_closed()
"""

ANYIO_BACKEND = """
@pytest.fixture
def anyio_backend():
    return "asyncio"
"""

ASYNCIO = ("-p", "pytest_asyncio.plugin", "-o", "asyncio_default_fixture_loop_scope=function")
ANYIO = ("-p", "anyio.pytest_plugin")
IN_THE_PACKAGE = "aioproducer.testing.pytest_plugin"


def run_pytest(folder: Path, plugins: tuple[str, ...], text: str, name: str = "pytest_aioproducer") -> str:
    """Run a test module with these plugins and that of the library, warnings as errors; return the output of pytest."""
    (folder / "pytest.ini").write_text("[pytest]\nfilterwarnings = error\n")
    (folder / "test_one.py").write_text(text)
    environment = {
        **os.environ,
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        "PYTHONPATH": str(Path(__file__).parents[2]),
    }
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *plugins, "-p", name],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )
    return run.stdout + run.stderr


@pytest.mark.parametrize(
    ("plugins", "text"),
    [
        pytest.param((*ASYNCIO, "--asyncio-mode=auto"), TEST.format(mark=""), id="pytest-asyncio auto"),
        pytest.param(
            (*ASYNCIO, "--asyncio-mode=strict"),
            TEST.format(mark="@pytest.mark.asyncio"),
            id="pytest-asyncio strict",
        ),
        pytest.param(
            (*ASYNCIO, *ANYIO, "--asyncio-mode=strict"),
            TEST.format(mark="@pytest.mark.anyio") + ANYIO_BACKEND,
            id="anyio beside pytest-asyncio",
        ),
    ],
)
def test_the_fixture_runs_in_the_loop_of_the_test(
    tmp_path: Path, plugins: tuple[str, ...], text: str
) -> None:
    """A test gets a running Kafka and talks to it; all of it is gone afterwards (warnings are errors)."""
    output = run_pytest(tmp_path, plugins, text)
    assert "1 passed" in output, output


def test_the_plugin_by_its_name_in_the_package(tmp_path: Path) -> None:
    """The plugin behaves the same under its name in the package."""
    output = run_pytest(tmp_path, (*ASYNCIO, "--asyncio-mode=auto"), TEST.format(mark=""), IN_THE_PACKAGE)
    assert "1 passed" in output, output


SYNCHRONOUS = """
def test_it(embedded_kafka):
    raise AssertionError("this is not reached")
"""
IN_A_THREAD = """
from anyio.from_thread import start_blocking_portal
from fastapi import FastAPI
from fastapi.testclient import TestClient

from aioproducer import Producer
from aioproducer.testing import EmbeddedKafka

app = FastAPI()


@app.post("/orders")
async def order() -> int:
    async with Producer(app.state.servers) as producer:
        return (await producer.send_and_wait("orders", b"2 apples")).offset


def test_it():
    with start_blocking_portal() as portal, portal.wrap_async_context_manager(EmbeddedKafka()) as kafka:
        portal.call(kafka.create_topic, "orders")
        app.state.servers = kafka.bootstrap_servers
        with TestClient(app) as client:
            assert [client.post("/orders").json() for _ in range(3)] == [0, 1, 2]
        assert [record.value for record in kafka.records("orders")] == [b"2 apples"] * 3
"""


def test_a_synchronous_test_is_refused_at_once(tmp_path: Path) -> None:
    """Its requests would hang without an answer; the error says what to do."""
    output = run_pytest(tmp_path, (*ASYNCIO, "--asyncio-mode=auto"), SYNCHRONOUS)
    assert "1 error" in output, output
    for words in ("test_it() is no coroutine function", "ASGITransport", "start_blocking_portal"):
        assert words in output
    assert "Traceback" not in output


def test_what_a_synchronous_test_is_told_to_do(tmp_path: Path) -> None:
    """With the broker in a thread, a TestClient works."""
    output = run_pytest(tmp_path, ("-W", "ignore:Using `httpx` with"), IN_A_THREAD)
    assert "1 passed" in output, output
    (lesson,) = [line for line in WITHOUT_A_LOOP.splitlines() if "with start_blocking_portal" in line]
    assert lesson.strip() in IN_A_THREAD


LOADED = """
import importlib.metadata, sys
import pytest, pytest_asyncio
before = set(sys.modules)
(plugin,) = [each for each in importlib.metadata.entry_points(group="pytest11") if each.name == "aioproducer"]
plugin.load()
print(*sorted(set(sys.modules) - before))
"""


def test_the_plugin_costs_a_project_nothing() -> None:
    """pytest loads the plugin wherever the library is installed: one module, and no other of the library."""
    run = subprocess.run([sys.executable, "-c", LOADED], capture_output=True, text=True, check=True)
    assert run.stdout.split() == ["pytest_aioproducer"]

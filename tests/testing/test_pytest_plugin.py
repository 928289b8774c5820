"""The fixture `embedded_kafka` under each plugin that runs coroutines."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

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
    """A test gets a running Kafka, talks to it, and nothing is left afterwards (warnings are errors)."""
    (tmp_path / "pytest.ini").write_text("[pytest]\nfilterwarnings = error\n")
    (tmp_path / "test_one.py").write_text(text)
    environment = {
        **os.environ,
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        "PYTHONPATH": str(Path(__file__).parents[2]),
    }
    options = [*plugins, "-p", "aioproducer.testing.pytest_plugin"]
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *options],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )
    assert "1 passed" in run.stdout, run.stdout + run.stderr

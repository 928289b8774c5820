"""Running the code of the documents as a reader would, with the embedded Kafka in the place of localhost:9092."""

from __future__ import annotations

import ast
import asyncio
import inspect
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import aioproducer
from aioproducer import Producer, interceptors, partitioners, serializers
from aioproducer.testing import EmbeddedKafka
from tests.repo.documents.document_code import Block
from tests.repo.source import ROOT

STAND_IN = "localhost:9092"
PYTEST_INI = """\
[pytest]
asyncio_mode = auto
asyncio_default_fixture_loop_scope = function
filterwarnings = error
"""
PLUGINS = ("-p", "pytest_asyncio.plugin", "-p", "aioproducer.testing.pytest_plugin")


async def run(*command: str, folder: Path, **environment: str) -> str:
    """Run a command in a folder; its output, if it went well."""
    process = await asyncio.create_subprocess_exec(
        *command,
        cwd=folder,
        env={"PYTHONPATH": str(ROOT), **environment},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    output, _ = await process.communicate()
    assert process.returncode == 0, output.decode()
    return output.decode()


async def run_program(source: str, folder: Path, kafka: EmbeddedKafka) -> str:
    """Run a whole program, with warnings as errors; what it printed."""
    program = folder / "program.py"
    program.write_text(source.replace(STAND_IN, kafka.bootstrap_servers))
    return await run(sys.executable, "-W", "error", str(program), folder=folder)


async def run_tests(modules: Iterable[Block], folder: Path) -> str:
    """Let pytest run test modules; what it said."""
    for block in modules:
        (folder / f"test_line_{block.line}.py").write_text(block.source)
    (folder / "pytest.ini").write_text(PYTEST_INI)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *PLUGINS]
    return await run(*command, folder=folder, PYTEST_DISABLE_PLUGIN_AUTOLOAD="1")


async def run_fragments(fragments: Iterable[Block]) -> None:
    """Run the fragments of one page in their order, in one namespace, beside a running producer."""
    async with EmbeddedKafka() as kafka, Producer(kafka.bootstrap_servers) as producer:
        namespace = names_for(producer, kafka)
        write_properties(kafka)
        for block in fragments:
            namespace["page"] = block.document.read_text()
            await run_fragment(block, namespace, kafka)


def write_properties(kafka: EmbeddedKafka) -> None:
    """The client.properties that pages speak of, in the current folder."""
    Path("client.properties").write_text(f"bootstrap.servers={kafka.bootstrap_servers}\n")


def names_for(producer: Producer, kafka: EmbeddedKafka) -> dict[str, Any]:
    """The names that fragments use without importing or making them."""
    public = {name: getattr(aioproducer, name) for name in aioproducer.__all__}
    modules = {
        "asyncio": asyncio,
        "interceptors": interceptors,
        "partitioners": partitioners,
        "serializers": serializers,
    }
    return {**public, **modules, "__name__": "document", "producer": producer, "kafka": kafka}


async def run_fragment(block: Block, namespace: dict[str, Any], kafka: EmbeddedKafka) -> None:
    """Run one fragment; a traceback names the line of the document."""
    source = "\n" * block.line + block.source.replace(STAND_IN, kafka.bootstrap_servers)
    flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    code = compile(source, str(block.document), "exec", flags=flags, dont_inherit=True)
    outcome = eval(code, namespace)
    if inspect.isawaitable(outcome):
        await outcome

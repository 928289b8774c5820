"""The cost of imports: what each step of a program loads, counted in modules, because time depends on the machine."""

from __future__ import annotations

import ast
import asyncio
import json
import subprocess
import sys
from typing import Final

import pytest

import aioproducer
from aioproducer.testing import EmbeddedKafka
from tests.repo.source import PACKAGE, ROOT, parsed

# Prints the modules that the program in `code` loads beyond asyncio.
_COUNTED: Final = """
import asyncio, json, sys
before = set(sys.modules)
{code}
print(json.dumps(sorted(set(sys.modules) - before)))
"""


def loaded(code: str) -> set[str]:
    """The modules that these lines load in a new interpreter that has asyncio."""
    program = _COUNTED.format(code=code)
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, check=True, capture_output=True, text=True
    )
    return set(json.loads(done.stdout.splitlines()[-1]))


def own(modules: set[str]) -> set[str]:
    """Those of the library."""
    return {name for name in modules if name.partition(".")[0] == "aioproducer"}


def test_the_package_alone_loads_nothing() -> None:
    """`import aioproducer` loads a table of names, and at most `typing` of the standard library."""
    assert loaded("import typing, aioproducer") - loaded("import typing") == {"aioproducer"}


def test_names_have_their_homes() -> None:
    """The table of names agrees with the imports that type checkers read."""
    imported = {
        alias.name: node.module
        for block in parsed(PACKAGE / "__init__.py").body
        if isinstance(block, ast.If) and ast.unparse(block.test) == "typing.TYPE_CHECKING"
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert imported == {name: f"aioproducer.{home}" for name, home in aioproducer._HOMES.items()}
    assert set(aioproducer.__all__) == {*imported, "__version__"}


def test_an_unknown_name_is_an_attribute_error() -> None:
    """A name that is not public is not found, with the usual error."""
    with pytest.raises(AttributeError, match="module 'aioproducer' has no attribute 'Consumer'"):
        getattr(aioproducer, "Consumer")  # noqa: B009  # as a program finds out
    assert not hasattr(aioproducer, "__wrapped__")


@pytest.mark.parametrize("name", ["errors", "serializers", "partitioners", "records", "stats", "auth"])
def test_modules_are_attributes(name: str) -> None:
    """`import aioproducer` is enough for the public modules that come with the producer."""
    assert f"aioproducer.{name}" in loaded(f"import aioproducer; aioproducer.{name}")


# Nothing of these is needed before a producer starts.
LATER: Final = {
    "aioproducer._net.runtime",
    "aioproducer._net.connecting",
    "aioproducer._state.machines",
    "aioproducer._wire",
    "aioproducer.coordinators",
    "aioproducer.security",
    "anyio",
    "argparse",
    "crc32c",
    "email",
    "importlib.metadata",
}


def test_the_class_loads_no_engine() -> None:
    """`from aioproducer import Producer` loads settings, errors and facts, and a quarter of the modules of a whole producer.

    They are 94 with Python 3.11, of which 58 are the library's, and cost 0.4 ms each where all 425 modules of a running producer
    cost 120 ms together with the classes that attrs makes: 50 ms are 125 modules.
    """
    modules = loaded("from aioproducer import Producer")
    assert modules & LATER == set()
    assert len(modules) <= 125, sorted(modules)


def test_errors_load_errors() -> None:
    """A program that only handles errors loads them alone."""
    assert own(loaded("from aioproducer import KafkaError")) == {
        "aioproducer",
        "aioproducer.errors",
        "aioproducer.outcome",
    }


# The settings of a plain producer exclude these, or only calls that it may never make need them.
UNUSED: Final = {
    "aioproducer._net.securing.protocol",
    "aioproducer._net.securing.sources",
    "aioproducer._net.tls",
    "aioproducer._net.transactions.transactions",
    "aioproducer._state.transactions.current",
    "aioproducer._state.transactions.dialogues",
    "aioproducer.auth",
    "aioproducer.coordinators",
    "aioproducer.security.sasl",
    "aioproducer.security.stores",
}
MESSAGES: Final = {"api_versions", "declaration", "header", "init_producer_id", "metadata", "produce"}


def test_a_plain_producer_loads_neither_security_nor_transactions() -> None:
    """The first `start()` loads the engine, and the messages of the four APIs that a producer speaks.

    They are 323 modules with `Producer` itself, in place of 418; those of the dependencies vary with their versions. 350 is less
    than either security or transactions would add.
    """
    modules = loaded("import aioproducer._calls.running")
    package = "aioproducer._wire.messages."
    assert modules & UNUSED == set()
    assert {name.removeprefix(package) for name in modules if name.startswith(package)} == MESSAGES
    assert len(modules) <= 350, sorted(modules)


# The calls of a producer's whole life, with whatever settings; prints the modules that were loaded by them after `ready()`.
_LIFE: Final = """
import asyncio, json, sys
from aioproducer import KafkaError, Producer, Record

async def live(servers):
    async with Producer(servers, topics=["orders"]) as producer:
        await producer.ready(60)
        before = set(sys.modules)
        await producer.send_and_wait("orders", b"1", key=b"k", headers={"h": b"v"})
        await (await producer.send("orders", b"2"))
        producer.send_nowait("orders", b"3")
        await (await producer.send_batch("orders", [b"4", b"5"]))
        await producer.send_all([Record("orders", b"6")])
        await producer.flush()
        async with producer.scope() as scope:
            await producer.send("orders", b"7")
            await scope.flush()
        try:
            await producer.send("no topic!", b"8")
        except KafkaError:
            pass
        await producer.partitions_for("orders")
        producer.stats(), producer.health(), producer.purge(), repr(producer)
    return set(sys.modules) - before

print(json.dumps(sorted(asyncio.run(live(sys.argv[1])))))
"""


async def test_nothing_is_imported_while_a_producer_runs() -> None:
    """An import takes milliseconds, for which the event loop stands still: `start()` loads all that sending needs."""
    async with EmbeddedKafka() as kafka:
        program = await asyncio.create_subprocess_exec(
            sys.executable, "-c", _LIFE, kafka.bootstrap_servers, cwd=ROOT, stdout=asyncio.subprocess.PIPE
        )
        output, _ = await program.communicate()
    assert program.returncode == 0
    assert json.loads(output) == []


# Prints the modules that are looked for in the thread of the event loop, while producers start and are asked.
_STARTS: Final = """
import asyncio, json, sys, threading
from aioproducer import KafkaError, Producer

class Recorder:
    def find_spec(self, name, path=None, target=None):
        if threading.current_thread() is threading.main_thread():
            found.append(name)

found = []
SASL = dict(security_protocol="SASL_SSL", sasl_mechanism="SCRAM-SHA-512", sasl_username="u", sasl_password="p")

async def start(**settings):
    producer = Producer("127.0.0.1:1", **settings)
    sys.meta_path.insert(0, Recorder())
    try:
        await producer.start()
        for call in (producer.fence(["id"], timeout=0.01), producer.committed_offsets("g", [("t", 0)], timeout=0.01)):
            try:
                await call
            except KafkaError:
                pass
        await producer.close()
    finally:
        sys.meta_path.pop(0)

for settings in (SASL, dict(transactional_id="id"), {}):
    asyncio.run(start(**settings))
print(json.dumps(found))
"""


def test_the_event_loop_goes_on_while_start_imports() -> None:
    """Modules that the settings of a producer need, or one of its calls, are imported in another thread."""
    done = subprocess.run(
        [sys.executable, "-c", _STARTS], cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True
    )
    found = set(json.loads(done.stdout))
    assert own(found) == set()
    assert found & {"anyio._backends._asyncio", "crc32c", "ssl", "importlib.metadata"} == set()

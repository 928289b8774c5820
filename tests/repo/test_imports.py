"""The cost of imports: what each step of a program loads, counted in modules, because time depends on the machine."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from typing import Final

import pytest

import aioproducer
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
    """`import aioproducer` loads a table of names."""
    assert loaded("import aioproducer") == {"aioproducer"}


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
    """What is not public is not found, with the usual error."""
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

"""The committed vectors are the present output of the Java client."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.golden.java import GENERATED, HERE, run_java

pytestmark = pytest.mark.kafka

# The output of a compressor may change with the zlib of the machine.
_COMPRESSED = ("size", "sha256", "bytes")


def _comparable(line: str) -> Any:
    vector = json.loads(line)
    if isinstance(vector, dict) and vector.get("codec", "none") != "none":
        return {name: value for name, value in vector.items() if name not in _COMPRESSED}
    return vector


@pytest.mark.parametrize("program", GENERATED)
def test_the_vectors_are_current(program: str) -> None:
    """Running the generator on Kafka's jars again gives the committed file."""
    committed = (HERE / GENERATED[program]).read_text(encoding="utf-8").splitlines()
    generated = run_java(program).splitlines()
    assert len(generated) == len(committed)
    for now, then in zip(generated, committed, strict=True):
        assert _comparable(now) == _comparable(then)

"""The imports of the registry, and the error for a missing package."""

from __future__ import annotations

import importlib
import subprocess
import sys

import pytest

import aioproducer.registry
from tests.repo.source import ROOT


@pytest.mark.parametrize(
    ("package", "module", "name", "extra"),
    [
        ("httpx2", "aioproducer.registry", "Registry", "registry"),
        ("fastavro", "aioproducer.registry.formats.avro", "AvroSerializer", "avro"),
        (
            "google.protobuf.message",
            "aioproducer.registry.formats.protobuf",
            "ProtobufSerializer",
            "protobuf",
        ),
    ],
)
def test_a_missing_package_is_named(
    package: str, module: str, name: str, extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the extra that brings it."""
    monkeypatch.setitem(sys.modules, package, None)
    monkeypatch.delitem(sys.modules, module, raising=False)
    with pytest.raises(ModuleNotFoundError, match=rf"aioproducer\[{extra}\]"):
        getattr(importlib.import_module("aioproducer.registry"), name)


def test_the_client_needs_no_encoder() -> None:
    """Nor does the embedded registry need what speaks HTTP."""
    code = (
        "import sys\n"
        "from aioproducer.testing import EmbeddedRegistry\n"
        "assert 'httpx2' not in sys.modules\n"
        "from aioproducer.registry import Registry\n"
        "assert not {'fastavro', 'jsonschema_rs', 'google.protobuf', 'orjson'} & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-W", "error", "-c", code], cwd=ROOT, check=True)


def test_public_names() -> None:
    """All of them are there, and no other."""
    for name in aioproducer.registry.__all__:
        assert getattr(aioproducer.registry, name).__doc__
    with pytest.raises(AttributeError, match="Nothing"):
        _ = aioproducer.registry.Nothing

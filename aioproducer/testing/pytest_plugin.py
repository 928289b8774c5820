"""The pytest plugin under its name within the package, for `-p aioproducer.testing.pytest_plugin`."""

from __future__ import annotations

from pytest_aioproducer import (
    _for_anyio,
    _for_asyncio,
    _registry_for_anyio,
    _registry_for_asyncio,
    embedded_kafka,
    embedded_registry,
)

__all__ = [
    "_for_anyio",
    "_for_asyncio",
    "_registry_for_anyio",
    "_registry_for_asyncio",
    "embedded_kafka",
    "embedded_registry",
]

"""The pytest plugin under its name within the package, for `-p aioproducer.testing.pytest_plugin`."""

from __future__ import annotations

from pytest_aioproducer import _for_anyio, _for_asyncio, embedded_kafka

__all__ = ["_for_anyio", "_for_asyncio", "embedded_kafka"]

"""A real PostgreSQL for the tests of outboxes."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any

import asyncpg
import pytest

from tools.postgres import Postgres


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    """A server of this run."""
    with Postgres() as server:
        yield server


@pytest.fixture
async def pool(postgres: Postgres) -> AsyncIterator[asyncpg.Pool[Any]]:
    """A pool on an empty database."""
    async with asyncpg.create_pool(**postgres.address, min_size=1, max_size=5) as pool:
        await pool.execute(
            "DROP SCHEMA IF EXISTS shop CASCADE; DROP TABLE IF EXISTS outbox; CREATE SCHEMA shop"
        )
        yield pool

"""Every test here runs against the embedded Kafka and against real ones, new and old, and asserts the same of all.

What Kafka 3.9 cannot answer is not collected for it: `old_kafka.OTHERWISE` says what that is, and why. Tests of
transactions run on a fourth one: a new Kafka that is finalized at the first version of transactions. It answers as the
other new one does, since the version of each request decides; what a client may choose is written in the features.
"""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Iterator
from typing import TYPE_CHECKING

import pytest

from aioproducer.testing import EmbeddedKafka
from tests.contract.client import WireClient
from tests.contract.old_kafka import OldKafkaClient, not_for_old_kafka

if TYPE_CHECKING:
    pass

_numbers = itertools.count()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the tests that the old Kafka cannot pass, and those that do not depend on the version of transactions."""
    left_out = [*not_for_old_kafka(items), *_not_about_transactions(items)]
    if left_out:
        items[:] = [item for item in items if item not in left_out]
        config.hook.pytest_deselected(items=left_out)


def _not_about_transactions(items: list[pytest.Item]) -> Iterator[pytest.Item]:
    """Tests for the Kafka at the first version that ask for nothing transactional."""
    for item in items:
        if "contract" in item.path.parts and "[level1" in item.name and "transact" not in item.path.name:
            yield item


@pytest.fixture(
    params=[
        "embedded",
        pytest.param("real", marks=pytest.mark.kafka),
        pytest.param("level1", marks=pytest.mark.kafka),
        pytest.param("old", marks=pytest.mark.kafka),
    ]
)
async def address(request: pytest.FixtureRequest) -> AsyncIterator[str]:
    """Where the Kafka under test listens. It creates no topics by itself."""
    if request.param != "embedded":
        yield request.getfixturevalue(f"{request.param}_kafka").bootstrap_servers
        return
    async with EmbeddedKafka(auto_create_topics=False, validate_records=True) as kafka:
        yield kafka.bootstrap_servers


@pytest.fixture
async def client(request: pytest.FixtureRequest, address: str) -> AsyncIterator[WireClient]:
    """A connection to it."""
    kind = OldKafkaClient if request.node.callspec.params["address"] == "old" else WireClient
    async with kind(address) as connected:
        yield connected


@pytest.fixture
def name() -> str:
    """A topic name that no other test uses."""
    return f"contract-{next(_numbers)}"

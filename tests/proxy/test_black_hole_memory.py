"""Very many senders that go on sending to brokers which never answer: memory stays within what was promised."""

from __future__ import annotations

import sys

import pytest

from tests.proxy.programs import broker, last_words, result
from tests.proxy.reach import PROOF

SENDERS = 10_000
BUFFER_MEMORY = 32 << 20
# The interpreters from 3.12 on take some megabytes more by themselves, before anything is imported.
INTERPRETER = (4 << 20) if sys.version_info >= (3, 12) else 0
LIMIT = 2 * BUFFER_MEMORY + (32 << 20) + INTERPRETER
SECONDS = 30 if PROOF else 3


@pytest.fixture
def nothing_blocks() -> None:
    """What is measured runs elsewhere."""


async def test_a04_black_holed_cluster_takes_bounded_memory() -> None:
    """10,000 senders without a pause: the whole process never takes more than twice `buffer_memory` and 32 MiB (I6)."""
    async with broker("silent_broker") as (process, port):
        peak, accepted, failed, refused = await result(
            "black_hole_victim", port, SENDERS, BUFFER_MEMORY, SECONDS
        )
        (requests,) = await last_words(process)
    print(f"peak {peak} bytes; {accepted} accepted, {failed} failed, {refused} refused; {requests} requests")
    assert accepted * 1_000 > BUFFER_MEMORY
    assert failed > 0
    assert requests > 0
    assert peak <= LIMIT

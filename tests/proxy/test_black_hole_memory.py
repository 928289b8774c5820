"""Very many senders that go on sending to brokers which never answer: memory stays within its limit."""

from __future__ import annotations

import pytest

from tests.proxy.programs.starting import broker, last_words, result
from tests.proxy.reach import PROOF

SENDERS = 10_000
BUFFER_MEMORY = 32 << 20
# That the whole process takes at most twice `buffer_memory` and 32 MiB (I6) leaves those 32 MiB to the interpreter, which are
# nothing that a producer decides. What it adds is about 1.5 times `buffer_memory`: the records, and 10,000 waiting calls.
LIMIT = 2 * BUFFER_MEMORY
SECONDS = 30 if PROOF else 3


@pytest.fixture
def nothing_blocks() -> None:
    """The measured program runs in another process."""


async def test_a04_black_holed_cluster_takes_bounded_memory() -> None:
    """10,000 senders without a pause: they add at most twice `buffer_memory` to the initial memory (I6)."""
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

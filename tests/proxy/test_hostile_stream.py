"""A broker that streams bytes at its client without an end: the client stays as small as it was."""

from __future__ import annotations

import pytest

from tests.effort import FEW
from tests.proxy.programs.hostile_broker import STREAMS
from tests.proxy.programs.starting import broker, last_words, result
from tests.proxy.reach import PROOF

MUCH = 600_000_000
SOME = MUCH if PROOF else 20_000_000 if FEW else 60_000_000
STREAMED = {kind: SOME if FEW or kind != "unasked" else MUCH for kind in STREAMS}
MAY_GROW = 2 << 20
GOOD_ANSWERS = 5
"""The answers that a client needs at first; the broker turns hostile after them."""


@pytest.fixture
def nothing_blocks() -> None:
    """The measured program runs in another process."""


@pytest.mark.parametrize("kind", list(STREAMS))
async def test_b03_b04_hostile_stream_takes_no_memory(kind: str) -> None:
    """Up to 600 MB of invalid, unrequested or too long answers make the client grow by 2 MiB at most."""
    streamed = STREAMED[kind]
    async with broker("hostile_broker", kind, streamed, GOOD_ANSWERS) as (process, port):
        grown, connects = await result("stream_victim", port, GOOD_ANSWERS)
        taken, connections = await last_words(process)
    print(f"{kind}: grown by {grown} bytes, {taken} bytes over {connections} connections")
    assert taken >= streamed
    assert 2 <= connections < connects + 2
    assert grown <= MAY_GROW

"""The memory of a buffered record; tracemalloc does not see the core's memory, so the process is asked."""

from __future__ import annotations

import gc
import resource
from pathlib import Path

import attrs

from tests.state.machines import LIMITS, Machines

RECORDS = 100_000
VALUE = bytes(100)


def resident() -> int:
    """Bytes of this process in memory."""
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def test_a_buffered_record_takes_little_more_than_its_bytes() -> None:
    """A 100-byte value whose delivery is held: its encoded bytes, the growth of its batch, at most 64 for the handle."""
    m = Machines(attrs.evolve(LIMITS, batch_size=131_072), memory=1 << 30).introduced(1)
    held = [None] * RECORDS
    before = resident()
    for at in range(RECORDS):
        held[at] = m.append(VALUE)  # type: ignore[call-overload]
    per_record = (resident() - before) / RECORDS
    assert per_record <= 1.25 * m.used / RECORDS + 64


def test_settled_batches_keep_no_bytes() -> None:
    """A delivery that is kept after its outcome does not keep the record."""
    m = Machines(attrs.evolve(LIMITS, batch_size=131_072), memory=1 << 30).introduced(1)
    held = []
    before = resident()
    for _ in range(200):
        held += [m.append(bytes(3000)) for _ in range(20)]
        m.accumulator.flush(m.now)
        while batches := m.drain():
            m.acknowledge(*batches)
    assert m.is_clean()
    assert resident() - before < 4 << 20

"""Records with a key go to the partitions to which the Java client sends them, by the compiled send path itself."""

from __future__ import annotations

import pytest

from tests.golden.vectors import golden_keys
from tests.state.machines import Machines


@pytest.mark.parametrize("count", [3, 7, 100])
def test_a_key_lands_where_javas_does(count: int) -> None:
    """The partition is the same for the empty key, and for a hash with its highest bit set."""
    m = Machines(memory=1 << 24).introduced(*[1] * count)
    keys = golden_keys()
    landed = [m.append(key=golden.key, partition=-1).partition for golden in keys]
    assert landed == [golden.partitions[count] for golden in keys]

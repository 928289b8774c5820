"""Opening a batch that comes to nothing: its first record could not be appended."""

from __future__ import annotations

from typing import Any

import pytest

from tests.state.machines import Machines


def test_batch_without_a_record_was_never_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is sent, a flush has nothing to wait for, and the next record opens a batch of its own."""
    m = Machines().introduced(1)
    make = m.accumulator.maker.batch_type
    lent = []

    def in_use(*args: Any) -> Any:
        batch = make(*args)
        # While its bytes are lent out they do not grow: as if there were no memory for them.
        lent.append(batch.view())
        return batch

    with monkeypatch.context() as patch:
        patch.setattr(m.accumulator.maker, "batch_type", in_use)
        with pytest.raises(BufferError, match="in use"):
            m.append(bytes(1_000))
    assert len(lent) == 1
    assert m.accumulator.flush(m.now).done
    m.later(1.0)
    assert m.drain() == []
    assert m.is_clean()
    m.append(b"value")
    m.later(1.0)
    assert m.only().record_count == 1

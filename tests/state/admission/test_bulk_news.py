"""A bulk send that waits for memory is not disturbed by changes of its topic."""

from __future__ import annotations

from tests.state.admission.test_bulk import bulk, numbered, written
from tests.state.machines import LIMITS, LINGER, Machines


def test_news_of_the_topic_place_no_record_twice() -> None:
    """Metadata that come while one record of the call waits for memory do not make it wait a second time."""
    m = Machines(LIMITS, memory=700).introduced(1)
    values = numbered(6, 200)
    call = bulk(m, values)
    assert call.waiting is not None
    assert call.waiting.alone is not None
    sent: list[bytes | None] = []
    while not call.done:
        m.learn(1)
        m.later(LINGER)
        sent += written(m)
        call.go_on()
    assert sent + written(m) == values
    assert m.is_clean()

"""The intake of a mock: every record takes the long way, and may be refused as ordered."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from aioproducer._net.accepting.intake import Intake

if TYPE_CHECKING:
    from collections.abc import Callable

    from aioproducer._net.runtime.engine import Engine
    from aioproducer._state.admission.lines import ReadyRecord
    from aioproducer.records import Record
    from aioproducer.testing.mock.orders import Orders


class MockIntake(Intake):
    """Takes records in, one at a time."""

    watches_each = True
    answers_at_once = False

    def __init__(
        self, engine: Engine, pace: Callable[[], bool], usable: Callable[[], object], orders: Orders
    ) -> None:
        super().__init__(engine, pace, usable)
        self._orders = orders

    def reads_each(self, topic: str) -> bool:
        """True when one of them is refused as ordered."""
        return self._orders.refusals.next_for(topic) is not None

    def _checked(self, record: Record[Any, Any], headers: Any, key: object, value: object) -> ReadyRecord:
        ready = super()._checked(record, headers, key, value)
        ordered = self._orders.refusals.take(record.topic)
        if ordered is not None:
            raise ordered
        return ready

"""The intake of a mock: every record takes the long way, and may be refused as ordered."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aioproducer._net.accepting.intake import Intake
from aioproducer._net.accepting.serializing import Serializing

if TYPE_CHECKING:
    from collections.abc import Callable

    from aioproducer._net.accepting.serializing import Unready
    from aioproducer._net.runtime.engine import Engine
    from aioproducer._state.admission.lines import ReadyRecord
    from aioproducer.serializers import Encoded
    from aioproducer.testing.mock.orders import Orders


class MockSerializing(Serializing):
    """Refuses records as ordered, when they are ready."""

    def __init__(self, engine: Engine, orders: Orders) -> None:
        super().__init__(engine)
        self._orders = orders

    def ready(
        self, record: Unready, key: bytes | Encoded | None, value: bytes | Encoded | None
    ) -> ReadyRecord:
        """The record in the form that is appended."""
        made = super().ready(record, key, value)
        ordered = self._orders.refusals.take(record.topic)
        if ordered is not None:
            raise ordered
        return made


class MockIntake(Intake):
    """Takes records in, one at a time."""

    watches_each = True
    answers_at_once = False

    def __init__(
        self, engine: Engine, pace: Callable[[], bool], usable: Callable[[], object], orders: Orders
    ) -> None:
        self._orders = orders
        super().__init__(engine, pace, usable)

    def _serializing_of(self, engine: Engine) -> Serializing:
        return MockSerializing(engine, self._orders)

    def reads_each(self, topic: str) -> bool:
        """True when one of them is refused as ordered."""
        return self._orders.refusals.next_for(topic) is not None

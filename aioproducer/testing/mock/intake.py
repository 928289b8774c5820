"""The intake of a mock: it sees every record, and refuses those of which the test has ordered it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from aioproducer._net.accepting.intake import Intake
from aioproducer._net.accepting.serializing import Serializing

if TYPE_CHECKING:
    from aioproducer.testing.mock.orders import Orders


class MockSerializing(Serializing):
    """Refuses valid records as ordered."""

    orders: Orders

    def taken(self, record: Any) -> Any:
        """See `Serializing.taken`."""
        ready = super().taken(record)
        error = self.orders.take("send", record.topic)
        if error is not None:
            raise error
        return ready


class MockIntake(Intake):
    """Accepts records one by one."""

    serializing: MockSerializing
    make_serializing = MockSerializing
    watches_each = True
    answers_at_once = False

"""Unresolved records; resolved ones leave this process, so that their memory is not measured."""

from __future__ import annotations

import asyncio
from collections import Counter
from functools import partial

import attrs

from aioproducer import Delivery, Outcome
from aioproducer.errors import KafkaError
from tests.judge.history import Headers, Sent, digest_of, refused, told, value_of
from tests.soak.judging import history_format


@attrs.define(eq=False)
class Ledger:
    """Numbers the records in the order of the calls, and writes each to the history when its outcome is known."""

    outcomes: Counter[Outcome] = attrs.Factory(Counter)
    unknown: Counter[str] = attrs.Factory(Counter)
    """The records of each topic whose outcome is UNKNOWN."""
    latest: float = float("-inf")
    """The delay of the latest outcome after its deadline; negative if each came before."""
    acked_at: dict[tuple[str, int], float] = attrs.Factory(dict)
    """The time of the last acknowledgement of each partition."""
    unsent: bytearray = attrs.Factory(bytearray)
    """Bytes that are not sent to the judge yet."""
    _next: int = 0
    _pending: dict[int, tuple[str, bytes]] = attrs.Factory(dict)

    @property
    def resolved(self) -> int:
        """The number of records with an outcome."""
        return self.outcomes.total()

    @property
    def below(self) -> int:
        """Every record below this number has its outcome."""
        return next(iter(self._pending), self._next)

    def enter(
        self, topic: str, filling: bytes, key: bytes | None = None, headers: Headers = ()
    ) -> tuple[int, bytes]:
        """The next record's number and value; it must be handed to the producer before the next call of enter()."""
        number, self._next = self._next, self._next + 1
        value = value_of(number, filling)
        self._pending[number] = (topic, digest_of(key, value, headers, None))
        return number, value

    # -- outcomes

    def accepted(self, number: int, delivery: Delivery, due_at: float) -> None:
        """It has a delivery, whose callback records the outcome."""
        delivery.add_done_callback(partial(self._record_outcome, number, due_at))

    def placed(self, number: int, partition: int, offset: int, due_at: float) -> None:
        """It was acknowledged, by a call without a delivery."""
        topic, digest = self._pending[number]
        sent = Sent(number, digest, topic, partition, Outcome.ACKED, offset, due_at, _now())
        self._write(sent)

    def failed(self, number: int, error: KafkaError, due_at: float) -> None:
        """It was refused, or lost, by a call without a delivery."""
        topic, digest = self._pending[number]
        self._write(refused(number, digest, topic, error, due_at=due_at, resolved_at=_now()))

    def withdrawn(self, number: int) -> None:
        """Its caller was cancelled before acceptance: this promises that it is never written."""
        topic, digest = self._pending[number]
        error = "its caller was cancelled"
        self._write(Sent(number, digest, topic, None, Outcome.NOT_WRITTEN, on_wire=False, error=error))

    def hand_over_the_rest(self) -> None:
        """Write the records that were never resolved, too, as pending."""
        for number, (topic, digest) in list(self._pending.items()):
            self._write(Sent(number, digest, topic, None, Outcome.PENDING))

    def _record_outcome(self, number: int, due_at: float, delivery: Delivery) -> None:
        _, digest = self._pending[number]
        # After a fault thousands are answered at once, and their callbacks run in slices: this one may be one of
        # the last, of a record whose answer came in time.
        answered, now = delivery.timings.answered, _now()
        resolved_at = now if answered is None else min(answered, now)
        self._write(told(number, digest, delivery, due_at=due_at, resolved_at=resolved_at))

    def _write(self, sent: Sent) -> None:
        del self._pending[sent.number]
        self.outcomes[sent.outcome] += 1
        if sent.outcome is Outcome.UNKNOWN:
            self.unknown[sent.topic] += 1
        if sent.outcome is not Outcome.PENDING:
            self.latest = max(self.latest, sent.resolved_at - sent.due_at)
        if sent.outcome is Outcome.ACKED and sent.partition is not None:
            self.acked_at[sent.topic, sent.partition] = _now()
        self.unsent += history_format.of_record(sent)


def _now() -> float:
    return asyncio.get_running_loop().time()

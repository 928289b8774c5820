"""The rows between the table and Kafka: sent and not deleted."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from datetime import datetime

from aioproducer import Delivery
from aioproducer.errors import KafkaError
from aioproducer.outbox.doubts import Doubts
from aioproducer.outbox.held import Held, HeldRow
from aioproducer.outbox.rows import Row
from aioproducer.outcome import Outcome

__all__ = ["Flight"]


class Flight:
    """Follows each sent row to its outcome. `changed` is called at each of them."""

    def __init__(self, changed: Callable[[], None]) -> None:
        self._changed = changed
        self._in_flight: dict[Delivery, Row] = {}
        # Rows that were read and not deleted, with the time in seconds since the epoch that their age counts from. Held ones
        # have their own.
        self._since: dict[int, float] = {}
        # Those of them that the next read leaves out: without the failed ones.
        self._taken: set[int] = set()
        # Sent rows that can be deleted: by this session, which has read them.
        self.acked: dict[int, Row] = {}
        # The same of earlier sessions. The database may have lost them since, and have other rows with their ids.
        self._acked_before: dict[int, Row] = {}
        self.failed: list[tuple[Row, KafkaError]] = []
        # The failed rows whose records may be written, of the last attempt.
        self._in_doubt: set[int] = set()
        # Of each row, the records that may be written, of all attempts: also of earlier sessions.
        self.doubts: dict[int, Doubts] = {}
        # The rows that neither are sent again nor can be set aside: also of earlier sessions.
        self.held = Held()
        self.sent = 0

    def begin(self) -> None:
        """A session begins, and each sent row has its outcome. Rows that are not deleted are read again."""
        self.failed.clear()
        self._in_doubt.clear()
        self._acked_before |= self.acked
        self.acked.clear()
        self._taken.clear()
        self.held.begin()

    # -- rows on their way

    def unsent(self, rows: Sequence[Row], *, are_last: bool) -> Sequence[Row]:
        """The rows of a page without those that are held, and those that an earlier session has sent.

        The latter are deleted, if they are still the same.
        """
        if not self._acked_before and not self.held:
            return rows
        unsent = []
        for row in rows:
            if self._acked_before.pop(row.id, None) == row:
                self.done(row)
            elif not self.held.is_same(row):
                unsent.append(row)
        # A page leaves out no row that is not on its way, or held: those that it has passed are gone.
        passed = None if are_last else rows[-1].id
        self._acked_before = {
            one: row for one, row in self._acked_before.items() if passed is not None and one > passed
        }
        self.held.passed(passed)
        return unsent

    def began(self, row: Row, delivery: Delivery) -> None:
        """The producer has accepted the record of this row."""
        self.sent += 1
        self._note(row)
        self._taken.add(row.id)
        self._in_flight[delivery] = row
        delivery.add_done_callback(self._ended)

    def refused(self, row: Row, error: KafkaError) -> None:
        """The producer has not accepted the record of this row."""
        self._note(row)
        self.failed.append((row, error))

    def hold(self, row: Row, error: KafkaError, doubts: Doubts) -> None:
        """This row is refused, and records of it may be written: it stays in the table until that is certain."""
        self._note(row)
        self.doubts.pop(row.id, None)
        self.held.add(HeldRow(row, error, doubts), self._since.pop(row.id))

    def done(self, row: Row) -> None:
        """This row can be deleted: its record was acknowledged, or set aside."""
        since = self.held.drop(row.id)
        if since is not None:
            self._since[row.id] = since
        self._note(row)
        self._taken.add(row.id)
        self.acked[row.id] = row

    def _note(self, row: Row) -> None:
        if row.id not in self._since:
            self._since[row.id] = _seconds_of(row)

    def _ended(self, delivery: Delivery) -> None:
        row = self._in_flight.pop(delivery)
        if delivery.outcome is Outcome.ACKED:
            self.acked[row.id] = row
            if self.held:
                self.held.followed((delivery.topic, delivery.partition))
        else:
            self._taken.discard(row.id)
            if delivery.outcome is Outcome.UNKNOWN:
                self._in_doubt.add(row.id)
                doubts = self.doubts.get(row.id)
                if doubts is None or doubts.row != row:
                    doubts = self.doubts[row.id] = Doubts(row)
                doubts.deliveries.append(delivery)
            error = delivery.exception()
            self.failed.append((row, error or KafkaError("the outcome is unknown", outcome=Outcome.UNKNOWN)))
        self._changed()

    def withdraw(self) -> None:
        """Take back records that were not drained yet, the newest first, so that no record is written behind one that is not."""
        for delivery in reversed(list(self._in_flight)):
            delivery.try_cancel()

    # -- rows that are done with

    def deleted(self, ids: Collection[int]) -> None:
        """These rows are gone."""
        self._taken.difference_update(ids)
        for one in ids:
            self.acked.pop(one, None)
            self._since.pop(one, None)
            self.doubts.pop(one, None)

    def take_failed(self) -> list[tuple[Row, KafkaError]]:
        """The failed rows in the order of their ids; they are read again."""
        failed, self.failed = self.failed, []
        return sorted(failed, key=lambda each: each[0].id)

    def take_in_doubt(self) -> set[int]:
        """The ids of the failed rows whose records of the last attempt may be written."""
        in_doubt, self._in_doubt = self._in_doubt, set()
        return in_doubt

    def doubts_of(self, row: Row) -> Doubts | None:
        """The records of a row that may be written. Another row may have had its id."""
        doubts = self.doubts.get(row.id)
        return doubts if doubts is not None and doubts.row == row and not doubts.are_cleared else None

    def keep_only(self, ids: Collection[int]) -> None:
        """Forget the rows that were neither read again nor sent: another relay has deleted them."""
        kept = self._taken.union(ids)
        self._since = {one: since for one, since in self._since.items() if one in kept}

    # -- looking

    @property
    def ids(self) -> Collection[int]:
        """The ids that the next read leaves out."""
        return self._taken | self.held.here if self.held else self._taken

    @property
    def on_their_way(self) -> int:
        """The number of rows that are sent and not deleted. Those that are held do not count."""
        return len(self._taken)

    @property
    def records_in_doubt(self) -> int:
        """The number of records that may be written, of the rows that are sent again."""
        return sum(len(each.deliveries) for each in self.doubts.values())

    @property
    def is_landed(self) -> bool:
        """True when each sent record has its outcome."""
        return not self._in_flight

    @property
    def pending(self) -> int:
        """The number of rows that were read and not deleted."""
        return len(self._since) + len(self.held)

    def oldest_seconds(self) -> float | None:
        """The age of the oldest pending row."""
        # One step: another thread may ask while rows come and go.
        since = [*self._since.values(), *self.held.since.values()]
        return max(0.0, time.time() - min(since)) if since else None


def _seconds_of(row: Row) -> float:
    stamp = row.timestamp
    # A moment that no record can have: the producer refuses it.
    with suppress(ValueError, OverflowError, OSError):
        if isinstance(stamp, datetime):
            return stamp.timestamp()
        if isinstance(stamp, int):
            return stamp / 1000
    return time.time()

"""The work of a relay while it has the lock: read, send, delete, and begin again after a failure."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable, Coroutine, Sequence
from copy import copy
from typing import TYPE_CHECKING, Any, Final, TypeVar

from aioproducer import Delivery
from aioproducer.errors import KafkaError, StateError
from aioproducer.outbox.doubts import search
from aioproducer.outbox.letters import DeadLetterFailedError, Letters
from aioproducer.outbox.looking import Looking
from aioproducer.outbox.rows import Row, record_of
from aioproducer.outbox.setting_aside import SettingAside
from aioproducer.outbox.signals import ended, first_of, is_cancelled
from aioproducer.outbox.verdicts import is_certain, is_of_the_record, is_of_the_time, lacks_its_partition

if TYPE_CHECKING:
    from aioproducer.outbox.backoff import Backoff
    from aioproducer.outbox.doubts import Doubts
    from aioproducer.outbox.flight import Flight
    from aioproducer.outbox.signals import Signals
    from aioproducer.outbox.store import DeadLetterOutlet, Store
    from aioproducer.producer import Producer
    from aioproducer.records import Record

__all__ = [
    "LockLostError",
    "RelayStoppedError",
    "Session",
]

T = TypeVar("T")

log: Final = logging.getLogger("aioproducer")

# At most so many pages of rows are sent and not deleted: one is read while others are on their way.
PAGES: Final = 4
# At most so many rows are held, by the size of a page: then the next one holds up the outbox.
PAGES_HELD: Final = 4
# The time of the search for records of unknown outcome, in seconds, before their rows are sent again.
SEARCH: Final = 1.0
# Of each row of all pages, so many records whose outcome is unknown: with more of them, rows are sent one at a time, so that
# only the records of one row become more, however long the brokers do not tell.
MANY_IN_DOUBT: Final = 5
# The pause before a row is sent again, in seconds for each of its records in doubt: they become more and more slowly.
PAUSE_IN_DOUBT: Final = 0.02
# Refused timestamps, and a row that holds up the outbox, are logged at this interval, in seconds.
LOG_INTERVAL: Final = 10.0


class LockLostError(Exception):
    """Another relay may have the lock: nothing more may be sent."""


class RelayStoppedError(Exception):
    """The relay cannot go on, for the reason that `error` tells; `by` names the row that cannot be written."""

    def __init__(self, error: KafkaError, row: Row | None = None, doubt: str = "") -> None:
        super().__init__(error)
        self.error, self.by = error, "its producer"
        if row is not None:
            # The rows of a batch have one error.
            self.error, self.by = copy(error), f"row {row.id}"
            self.error.add_note(f"row {row.id} of the outbox")
            if doubt:
                self.error.add_note(f"an earlier record of it may be written: {doubt}")


class Session:
    """One time with the lock, from `acquire()` to `release()`."""

    def __init__(
        self,
        producer: Producer[Any, Any],
        store: Store,
        flight: Flight,
        signals: Signals,
        backoff: Backoff,
        *,
        batch: int,
        poll: float,
        dead_letters: DeadLetterOutlet | None,
    ) -> None:
        self._producer = producer
        self._store = store
        self._flight = flight
        self._signals = signals
        self._backoff = backoff
        self._batch = batch
        self._poll = poll
        self._letters = None if dead_letters is None else Letters(dead_letters)
        self._now = asyncio.get_running_loop().time
        self._asked_at = self._now()
        # Rows up to this id are sent one at a time: a broker has refused one of them, and did not tell which.
        self._singly_until: int | None = None
        # The partitions, by topic and number, that the brokers did not have in the last attempt.
        self._missing: frozenset[tuple[str, int | None]] = frozenset()
        # Rows whose timestamp a broker has refused: they are sent with the present time.
        self._untimely: set[int] = set()
        self._logged_at = -math.inf
        self._logged_hold_up_at = -math.inf
        self._logged_letter_at = -math.inf
        self._looking = Looking(flight.held, signals.changed, self._now)
        self._setting_aside = SettingAside(flight.held, self._letters, signals.changed, self._now)
        self._has_begun = False
        self.deleted = 0

    async def run(self) -> None:
        """Relay rows until the end of the relay, the loss of the lock, or a failure of the store."""
        try:
            await self._work()
        finally:
            await ended(*self._looking.tasks, *self._setting_aside.tasks)
            self._looking.end()
            self._setting_aside.end()

    async def _work(self) -> None:
        await self._landed()
        self._flight.begin()
        self._has_begun = True
        while not self._signals.stopping:
            self._signals.clear()
            if self._flight.failed:
                await self._begin_again()
                continue
            await self._check_lock()
            had_room = self._has_room
            has_more = await self._send_page() if had_room else False
            if not has_more or len(self._flight.acked) >= self._batch:
                await self.delete_acked()
            await self._end_held()
            has_work = has_more or self._flight.failed or (not had_room and self._has_room)
            if not has_work and not self._signals.stopping:
                await self._wait()
        await self._landed()
        await self.delete_acked()
        await self._end_letter()

    @property
    def _has_room(self) -> bool:
        return self._flight.on_their_way < (1 if self._is_single else self._batch * PAGES)

    @property
    def _is_single(self) -> bool:
        """Whether one row is sent at a time."""
        return (
            self._singly_until is not None
            or self._flight.records_in_doubt >= MANY_IN_DOUBT * self._batch * PAGES
        )

    # -- sending

    async def _send_page(self) -> bool:
        """Send the next rows; whether there may be more of them."""
        is_single = self._is_single
        # One row to send, and those that are held and read again.
        limit = min(1 + self._flight.held.away, self._batch) if is_single else self._batch
        is_first = not self._flight.on_their_way
        rows = await self._store.read(limit, self._flight.ids)
        if is_first:
            self._flight.keep_only([row.id for row in rows])
            self._forget_deleted(rows)
        # The store may have taken long to answer.
        await self._check_lock()
        if self._singly_until is not None and (not rows or rows[0].id > self._singly_until):
            self._singly_until = None
            return True
        unsent = self._flight.unsent(rows, are_last=len(rows) < limit)
        for row in unsent[:1] if is_single else unsent:
            if self._flight.failed or self._signals.stopping:
                break
            # The process may have stood still since the row before.
            await self._check_lock()
            await self._send(row)
        return len(rows) == limit

    def _forget_deleted(self, rows: Sequence[Row]) -> None:
        """Forget the rows that a page of the oldest ones has passed: another program has deleted them."""
        ids = {row.id for row in rows}
        last = max(ids, default=math.inf)
        self._untimely = {one for one in self._untimely if one in ids or one > last}
        doubts = self._flight.doubts
        self._flight.doubts = {one: each for one, each in doubts.items() if one in ids or one > last}

    async def _send(self, row: Row) -> None:
        try:
            await self._offer(row, record_of(row))
        except StateError as error:
            raise RelayStoppedError(error) from error
        except KafkaError as error:
            self._flight.refused(row, error)

    async def _offer(self, row: Row, record: Record[Any, Any]) -> None:
        """Send the record; it is followed once it is accepted, also when this is cancelled then."""
        sending = self._producer.send(
            record.topic,
            record.value,
            key=record.key,
            partition=record.partition,
            timestamp=None if row.id in self._untimely else record.timestamp,
            headers=record.headers,
        )
        try:
            if sending.delivery is None:
                await self._accepted(sending)
            else:
                await sending
        finally:
            if sending.delivery is not None:
                self._flight.began(row, sending.delivery)

    async def _accepted(self, sending: Coroutine[Any, Any, Delivery]) -> None:
        """Wait for metadata or memory; the end of the relay or the loss of the lock withdraws the record."""
        task = asyncio.ensure_future(sending)
        try:
            while not task.done() and not self._signals.stopping:
                self._signals.clear()
                await first_of(_until(task), self._signals.next_change(), timeout=self._poll)
                await self._check_lock()
        finally:
            await ended(task)
        if not task.cancelled():
            task.result()

    async def _with_lock(self, work: Coroutine[Any, Any, T]) -> T:
        """Do this while the lock is held; its loss cancels the work."""
        task = asyncio.ensure_future(work)
        try:
            while not task.done():
                await asyncio.wait([task], timeout=self._poll)
                await self._check_lock()
        finally:
            await ended(task)
        return task.result()

    # -- waiting

    async def _wait(self) -> None:
        """Wait for an outcome, for the end, for the time of a search, or for new rows where there is room for them."""
        new_rows = (self._store.wait(self._poll),) if self._has_room else ()
        due = min(self._looking.due, self._setting_aside.due)
        timeout = min(self._poll, max(0.0, due - self._now()))
        await first_of(*new_rows, self._signals.next_change(), timeout=timeout)

    async def _landed(self) -> None:
        """Wait until each sent record has its outcome."""
        await self._wait_until(lambda: self._flight.is_landed)

    async def _wait_until(self, is_so: Callable[[], bool]) -> None:
        """Wait until it is so, while the lock is held."""
        while not is_so():
            self._signals.clear()
            await first_of(self._signals.next_change(), timeout=self._poll)
            await self._check_lock()

    async def _check_lock(self) -> None:
        """Ask for the lock again when the last answer is old."""
        if self._now() - self._asked_at < self._poll:
            return
        if not await self._store.acquire():
            raise LockLostError
        self._asked_at = self._now()

    # -- outcomes

    async def delete_acked(self) -> None:
        """Delete the rows of this session whose records are acknowledged, or set aside."""
        acked = list(self._flight.acked)
        if acked and self._has_begun:
            await self._store.delete(acked)
            self._flight.deleted(acked)
            self._untimely.difference_update(acked)
            self.deleted += len(acked)
            self._backoff.reset()

    async def _begin_again(self) -> None:
        """After a failure: wait for all outcomes, set aside what can never be written, and make a pause."""
        await self._landed()
        await self.delete_acked()
        failed = await self._not_found(self._flight.take_failed())
        untimely = [each for each in failed if self._is_untimely(*each)]
        never = [each for each in failed if is_of_the_record(each[1]) and not self._is_untimely(*each)]
        certain = [each for each in (*never, *self._without_partition(failed)) if self._is_certain(each[1])]
        if untimely:
            self._send_without_time(untimely)
        if certain:
            await self._set_all_aside(certain)
        elif never:
            self._singly_until = never[-1][0].id
        elif failed and not untimely:
            await self._back_off(failed)

    async def _not_found(self, failed: list[tuple[Row, KafkaError]]) -> list[tuple[Row, KafkaError]]:
        """The failed rows without those whose records are in the log, though no answer said so: a copy would follow them."""
        in_doubt = self._flight.take_in_doubt()
        if not in_doubt:
            return failed
        doubts = self._flight.doubts
        # Those of rows that another program has deleted meanwhile are forgotten.
        found = await self._with_lock(search([doubts[one] for one in in_doubt if one in doubts], SEARCH))
        for row, _ in failed:
            if row.id in found:
                self._flight.done(row)
        return [each for each in failed if each[0].id not in found]

    def _is_certain(self, error: KafkaError) -> bool:
        # A refusal of a broker is certain of a row that was sent alone: another program may use the producer, and a record of
        # its own be in the same batch.
        return self._singly_until is not None or is_certain(error) or lacks_its_partition(error)

    def _without_partition(self, failed: list[tuple[Row, KafkaError]]) -> list[tuple[Row, KafkaError]]:
        """The rows whose partition the brokers did not have in the attempt before either: one of them may be outdated."""
        lacking = [each for each in failed if lacks_its_partition(each[1])]
        before, self._missing = self._missing, frozenset(_place_of(row) for row, _ in lacking)
        return [each for each in lacking if _place_of(each[0]) in before]

    def _is_untimely(self, row: Row, error: KafkaError) -> bool:
        return is_of_the_time(error) and row.timestamp is not None and row.id not in self._untimely

    def _send_without_time(self, untimely: list[tuple[Row, KafkaError]]) -> None:
        """Send these rows with the present time: the clock of the database may be wrong, or the row be too old."""
        self._untimely.update(row.id for row, _ in untimely)
        self._backoff.reset()
        if self._now() >= self._logged_at + LOG_INTERVAL:
            self._logged_at = self._now()
            row, error = untimely[0]
            log.warning(
                "outbox: the broker refuses the timestamps of %d rows, from row %d on; sent again with the present time: %s",
                len(untimely),
                row.id,
                error,
            )

    async def _set_all_aside(self, certain: list[tuple[Row, KafkaError]]) -> None:
        """Set these rows aside, up to one whose letter is not written: it is sent again, and the others are read again.

        The session goes on meanwhile. The next one would read all rows that are held again; and another relay, which could
        have the lock before, knows nothing of their records.
        """
        for row, error in certain:
            await self._check_lock()
            try:
                is_aside = await self._set_aside(row, error)
            except (DeadLetterFailedError, asyncio.CancelledError) as failure:
                # The outlet may cancel the task of its letter.
                if is_cancelled():
                    raise
                # Without the rows behind it: they would be refused, or withdrawn, at each attempt.
                self._singly_until = max(row.id, row.id if self._singly_until is None else self._singly_until)
                await self._pause_after_letter(row, failure)
                break
            if not is_aside:
                await self._back_off([(row, error)])

    async def _set_aside(self, row: Row, error: KafkaError) -> bool:
        """Set a row aside, or hold it, because an earlier record of it may be written; False if it holds up the others."""
        doubts = self._flight.doubts_of(row)
        if doubts is not None and self._can_hold:
            self._flight.hold(row, error, doubts)
            return True
        if doubts is not None and row.id in await self._with_lock(search([doubts], SEARCH)):
            # The leader answers now: a letter would be a copy of the record.
            self._flight.done(row)
            await self.delete_acked()
            return True
        doubts = self._flight.doubts_of(row)
        if self._letters is None:
            raise RelayStoppedError(error, row, "" if doubts is None else doubts.reason) from error
        if doubts is not None:
            self._log_hold_up(row, doubts)
            return False
        await self._with_lock(self._letters.write(row, error))
        self._flight.done(row)
        await self.delete_acked()
        return True

    @property
    def _can_hold(self) -> bool:
        # Without idempotence, the request of an earlier record may be taken behind later ones.
        return (
            self._letters is not None
            and self._producer.config.enable_idempotence
            and len(self._flight.held) < self._batch * PAGES_HELD
        )

    def _log_hold_up(self, row: Row, doubts: Doubts) -> None:
        if self._now() >= self._logged_hold_up_at + LOG_INTERVAL:
            self._logged_hold_up_at = self._now()
            log.warning(
                "outbox: row %d is refused, and holds up the outbox beside %d held rows: an earlier record of it may be written: %s",
                row.id,
                len(self._flight.held),
                doubts.reason,
            )

    async def _end_held(self) -> None:
        """Delete the rows that are done with, and go on with the searches for the records of the others, and their letters."""
        self._looking.go_on()
        await self._check_lock()
        self._setting_aside.go_on()
        await self._delete_held()

    async def _end_letter(self) -> None:
        """The relay ends: wait for the letter that is on its way, and delete its row, so that no other relay writes it again."""
        await self._wait_until(lambda: not self._setting_aside.is_writing)
        self._setting_aside.note()
        if self._flight.held.has_letters:
            rows = await self._store.read(self._batch, self._flight.ids)
            await self._check_lock()
            # A row that is not in this page stays, and has a second letter: another row may have its id.
            self._flight.unsent(rows, are_last=len(rows) < self._batch)
            await self._delete_held()

    async def _delete_held(self) -> None:
        done = self._flight.held.done
        for each in done:
            self._flight.done(each.row)
        if done:
            await self.delete_acked()

    async def _back_off(self, failed: list[tuple[Row, KafkaError]]) -> None:
        row, error = failed[0]
        pause = max(self._backoff.next(), self._pause_in_doubt(row))
        log.warning(
            "outbox: %d rows were not acknowledged, from row %d on; sent again in %.3g s: %s",
            len(failed),
            row.id,
            pause,
            error,
        )
        await self._pause(pause)

    async def _pause_after_letter(self, row: Row, failure: BaseException) -> None:
        if self._now() >= self._logged_letter_at + LOG_INTERVAL:
            self._logged_letter_at = self._now()
            error = failure.error if isinstance(failure, DeadLetterFailedError) else failure
            log.warning(
                "outbox: the dead letter of row %d was not written, and is tried again: %s: %s",
                row.id,
                type(error).__name__,
                error,
            )
        await self._pause(self._backoff.next())

    async def _pause(self, seconds: float) -> None:
        """Wait for so many seconds, or until the relay shall end, while the lock is held."""
        until = self._now() + seconds
        while not self._signals.stopping and self._now() < until:
            await self._signals.pause(min(until - self._now(), self._poll))
            await self._check_lock()

    def _pause_in_doubt(self, row: Row) -> float:
        doubts = self._flight.doubts_of(row)
        return 0.0 if doubts is None else PAUSE_IN_DOUBT * (len(doubts.deliveries) - MANY_IN_DOUBT)


async def _until(task: asyncio.Task[Any]) -> None:
    await asyncio.wait([task])


def _place_of(row: Row) -> tuple[str, int | None]:
    return row.topic, row.partition

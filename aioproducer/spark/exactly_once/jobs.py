"""Exactly once, in a batch: tasks write and leave their transactions open, and the driver commits all of them, or none.

Each attempt of a task has a transactional id of its own. An attempt that Spark has given up may start after the end of
its successor: under the same id it would abort the transaction that the driver is about to commit.

The driver checks all transactions before it commits the first: one that has timed out cannot be committed any more, and
then none is. A job that can be repeated has a mark of its own besides those of its tasks; it has their number.
"""

from __future__ import annotations

import asyncio
import json
import re
import time
import uuid
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from typing import Any, Final, Self

import anyio
import attrs

from aioproducer import (
    KafkaError,
    OffsetAndMetadata,
    Outcome,
    Producer,
    StateError,
    Transaction,
    TransactionAbortedError,
    TransactionError,
    TransactionHandle,
    TransactionListing,
    fence,
    list_transactions,
)
from aioproducer.spark.exactly_once.commits import commit_all
from aioproducer.spark.exactly_once.epochs import counted
from aioproducer.spark.exactly_once.fingerprint import Fingerprint
from aioproducer.spark.exactly_once.markers import (
    Mark,
    OtherRowsError,
    Place,
    marks_at,
    take_id,
    transactional_name,
)
from aioproducer.spark.exactly_once.rounds import write_in_rounds
from aioproducer.spark.facts import TaskFacts
from aioproducer.spark.options import SinkOptions, settings_of, with_time_for_a_job
from aioproducer.spark.shipping.columns import Layout
from aioproducer.spark.shipping.shipment import Shipment, Written
from aioproducer.spark.shipping.summary import log
from aioproducer.spark.shipping.whole_input import whole
from aioproducer.spark.shipping.worker import this_worker

__all__ = ["Job", "LeftOpen", "write_and_leave_open"]

# A job that can be repeated is a single epoch.
THE_ONLY: Final = 0
# The number of the driver's notes in one transaction.
IN_ONE: Final = 100
# The length of the name of a run.
DIGITS: Final = 12
# Lookups of a coordinator: while it moves, no broker answers for a moment.
LOOKS: Final = 4
SECONDS_BETWEEN_LOOKS: Final = 0.5
OPEN: Final = "Ongoing"
# The coordinator ends a transaction that timed out as 'CompleteAbort'; only a takeover of the id leaves it empty.
FENCED: Final = "Empty"
TASKS: Final = "tasks"
RUN: Final = "run"
# An attempt that sets rows aside aborts its transaction, and writes in another. After a commit it does nothing more.
MAY_WRITE: Final = frozenset({"Empty", OPEN, "PrepareAbort", "CompleteAbort"})


@attrs.define
class LeftOpen:
    """The rows of a task, and the handle that ends its transaction; no handle if an earlier run has committed it."""

    written: Written
    handle: TransactionHandle | None = None

    def as_text(self) -> str:
        """As text for the driver, where it is a row like others."""
        written = attrs.asdict(self.written) | {
            "places": [[*at, rows] for at, rows in self.written.places.items()]
        }
        handle = None if self.handle is None else attrs.asdict(self.handle)
        return json.dumps({"written": written, "handle": handle})

    @classmethod
    def of_text(cls, text: str) -> Self:
        """The reverse of `as_text`."""
        facts = json.loads(text)
        places = Counter(
            {(topic, partition): rows for topic, partition, rows in facts["written"].pop("places")}
        )
        handle = facts["handle"]
        return cls(
            Written(**facts["written"], places=places),
            None if handle is None else TransactionHandle(**handle),
        )


def write_and_leave_open(batches: Iterable[Any], layout: Layout, job: Job, task: TaskFacts) -> LeftOpen:
    """Write the rows of a task into a transaction that the driver ends."""
    worker = this_worker()
    place, options = job.place(task.partition), job.options
    batches = layout.encoded(whole(batches))
    stack = AsyncExitStack()
    transaction: Transaction
    seen = Fingerprint()

    async def prepared() -> tuple[Producer[Any, Any], Mark | None]:
        producer = await worker.producer(options.producer)
        await producer.init_transactions(job.transactional_id(task.partition, task.attempt))
        mark = job.marks_before.get(task.partition)
        await job.require_going_on(producer, is_written=mark is not None)
        return producer, mark

    async def begin(refused: Mapping[int, KafkaError]) -> Shipment:
        nonlocal transaction
        transaction = await stack.enter_async_context(producer.transaction())
        return Shipment(producer, layout, options, refused)

    async def undo(refusal: KafkaError) -> None:
        await stack.__aexit__(type(refusal), refusal, refusal.__traceback__)

    async def leave_open(written: Written) -> LeftOpen:
        if options.write_id:
            note = Mark.new(producer, place, THE_ONLY, seen, options.topic).as_offset()
            await place.keep(producer, note)
            transaction.send_offsets({place.where: note}, place.name)
        return LeftOpen(written, await transaction.detach())

    try:
        began = time.monotonic()
        producer, mark = worker.run(prepared())
        fenced = time.monotonic() - began
        if mark is not None:
            for _ in counted(batches, layout, seen):
                pass
            mark.require_same(seen, options.topic, place)
            worker.run(place.require_same_topic(producer, mark, "write.id"))
            return LeftOpen(Written(skipped=seen.rows, fence_seconds=fenced))
        rows = counted(batches, layout, seen) if options.write_id else batches
        written = write_in_rounds(worker, rows, begin, undo, sets_aside=options.dead_letters is not None)
        written.fence_seconds = fenced
        return worker.run(leave_open(written))
    except BaseException:
        worker.run(worker.forget(options.producer))
        raise


@attrs.frozen
class Job:
    """All transactions of one batch write, as the driver sees them."""

    name: str
    options: SinkOptions
    # Distinguishes this run of the job from others of the same name.
    run: str
    # The note of another run at the start of this one.
    note_before: str | None = None
    # The verdict of another run at that time.
    verdict_before: str | None = None
    # The marks of tasks that another run has committed before this one began.
    marks_before: Mapping[int, Mark] = attrs.field(factory=dict)

    @classmethod
    def of(cls, options: SinkOptions) -> Self:
        """A new run of a job."""
        name = options.write_id or uuid.uuid4().hex
        return cls(transactional_name(name), with_time_for_a_job(options), uuid.uuid4().hex[:DIGITS])

    def place(self, partition: int) -> Place:
        """The place of the marks of a task."""
        assert self.options.marker_topic is not None  # noqa: S101  # the options were checked
        ledger = None if self.options.write_id is None else self.options.ledger_topic
        return Place(f"{self.name}-{partition}", self.options.marker_topic, ledger)

    def transactional_id(self, partition: int, attempt: int | str) -> str:
        """The transactional id of an attempt of a task."""
        return f"{self.name}-{partition}-{self.run}.{attempt}"

    def begin(self) -> Self:
        """Called before any task: aborts the open transactions of an earlier run, and fences its tasks.

        Returns the job for its tasks and its commit.
        """
        return this_worker().run(self._begin())

    def commit(self, handles: Sequence[TransactionHandle | None]) -> None:
        """Commit the tasks' open transactions: one handle of each, or None for a task that an earlier run has committed.

        Raises unless all are certainly committed; commits none if one of them cannot be.
        """
        this_worker().run(self._commit(handles))

    def abort(self, handles: Sequence[TransactionHandle | None] = ()) -> None:
        """Abort everything, also of tasks without a result: an open transaction would hide all records behind it.

        `handles`: those that are known; a coordinator that is being elected does not list its transactions.
        """
        this_worker().run(self._abort(_known(handles)))

    @property
    def _tasks(self) -> Place:
        """The place for the number of tasks of a job that may be partly committed."""
        return attrs.evolve(self.place(0), name=f"{self.name}-job")

    async def require_going_on(self, producer: Producer[Any, Any], *, is_written: bool) -> None:
        """Raise in a task that begins after the driver's verdict; such a task does nothing with its transactional id.

        `is_written`: an earlier run has committed the rows of the task.
        """
        verdict = _text(await self._driver.note(producer))
        if verdict == self.run:
            raise TransactionAbortedError("the driver has ended the job of this task", retriable=False)
        if is_written or verdict in (None, self.verdict_before):
            return
        # Of another run, which has replaced that of this one, or has failed: only a run that is committed has a note.
        if _text(await self._tasks.note(producer)) != self.note_before:
            raise _taken_over("a task began behind the end of its run", self.options)

    @property
    def _driver(self) -> Place:
        """The place of the driver's verdict; also its transactional id, which only the driver of another run fences."""
        return attrs.evolve(self.place(0), name=f"{self.name}-driver", ledger=None)

    async def _abort(self, handles: Sequence[TransactionHandle] = ()) -> None:
        # In this order: a task that takes its id after the fence finds the verdict, and a task that has it already is
        # fenced.
        try:
            await self._write_down([self._verdict])
        except KafkaError:
            # Attempts may still begin, but those that are open would hide later records.
            await self._end_attempts(handles)
            raise
        await self._end_attempts(handles)

    @property
    def _verdict(self) -> tuple[Place, OffsetAndMetadata]:
        return self._driver, OffsetAndMetadata(THE_ONLY, self.run)

    async def _write_down(
        self, notes: Sequence[tuple[Place, OffsetAndMetadata]], *, if_only_run: bool = False
    ) -> None:
        """Written as offsets with metadata, under a transactional id of the driver's own."""
        config = self.options.producer.evolve(transactional_id=self._driver.name)
        async with Producer.from_config(config) as producer:
            await producer.init_transactions()
            if if_only_run:
                # After the fence: of two drivers, one finds the note of the other or is fenced before it commits its
                # own.
                await self._require_no_other_note(producer)
            for first in range(0, len(notes), IN_ONE):
                async with producer.transaction() as transaction:
                    some = notes[first : first + IN_ONE]
                    for place, note in some:
                        transaction.send_offsets({place.where: note}, place.name)
                    await asyncio.gather(*(place.keep(producer, note) for place, note in some))

    async def _require_no_other_note(self, producer: Producer[Any, Any]) -> None:
        found = await self._tasks.note(producer)
        if found is not None and found.metadata != self.note_before:
            raise _taken_over("nothing of this run was committed", self.options)

    async def _begin(self) -> Self:
        # The driver's id always: a broker that does not allow it, or so long a timeout, then refuses before there are
        # tasks. And the open transaction of a driver that died would delay this one.
        await take_id(self._driver.name, self.options.producer)
        listed = await self._listed()
        await self._fence(_may_write(listed))
        if not self.options.write_id:
            return self
        note = await self._tasks.look_up(self.options.producer)
        verdict = await self._driver.look_up(self.options.producer)
        earlier = _tasks_of(note)
        # Jobs of older versions have no note, and neither have streams, all of whose epochs have a first task.
        numbers = self._numbers(listed) | {0} if earlier is None else range(earlier)
        places = {self.place(number): number for number in numbers}
        marks = {places[place]: mark for place, mark in await marks_at(places, self.options.producer)}
        for number, mark in marks.items():
            if mark.epoch != THE_ONLY:
                raise StateError(
                    f"the name {self.options.write_id!r} of write.id is that of a stream as well, which has committed epoch "
                    f"{mark.epoch} ({self.place(number).name!r}): use another write.id. This job has written nothing"
                )
        return attrs.evolve(self, note_before=_text(note), verdict_before=_text(verdict), marks_before=marks)

    async def _end_attempts(self, handles: Sequence[TransactionHandle] = ()) -> None:
        """End the attempts of this run: another run has a driver of its own."""
        listed = await self._listed()
        names = {name for name in _may_write(listed) if self._is_of_this_run(name)}
        known = {one.transactional_id for one in listed}
        names |= {one.transactional_id for one in handles if one.transactional_id not in known}
        await self._fence(sorted(names))

    async def _attempts(self) -> list[str]:
        return _may_write(await self._listed())

    def _is_of_this_run(self, name: str) -> bool:
        return name.rpartition(".")[0].endswith(f"-{self.run}")

    async def _listed(self) -> list[TransactionListing]:
        """All attempts of this job, of every run."""
        config = self.options.producer
        listings = await list_transactions(f"{self.name}-", config.bootstrap_servers, **settings_of(config))
        # Names of other jobs may begin with this one's.
        return [one for one in listings if self._attempt.fullmatch(one.transactional_id)]

    @property
    def _attempt(self) -> re.Pattern[str]:
        return re.compile(rf"{re.escape(self.name)}-(\d+)-[0-9a-f]{{{DIGITS}}}\.\d+")

    async def _fence(self, names: Sequence[str]) -> None:
        config = self.options.producer
        await fence(names, config.bootstrap_servers, **settings_of(config))

    async def _commit(self, left: Sequence[TransactionHandle | None]) -> None:
        handles = _known(left)
        try:
            await self._require_open(handles)
            if self.options.write_id:
                await self._require_the_only_run(left, handles)
            await self._commit_all(handles)
        except KafkaError as error:
            await self._abort_after(error, handles)
            raise
        try:
            # Another attempt, of a slow or a lost executor, may not even have begun: it finds the verdict, or is fenced.
            await (self._end_attempts() if self.options.write_id else self._abort())
        except KafkaError:
            log.warning(
                "a repeated task may have left a transaction open that could not be aborted: readers of committed "
                "records wait until it times out",
                exc_info=True,
            )

    async def _abort_after(self, error: KafkaError, handles: Sequence[TransactionHandle]) -> None:
        """The user must see why the job has failed, also where the open transactions could not be aborted."""
        try:
            await self._abort(handles)
        except KafkaError as failure:
            log.warning("a job failed (%s), and its open transactions were not aborted: %s", error, failure)

    async def _require_the_only_run(
        self, left: Sequence[TransactionHandle | None], handles: Sequence[TransactionHandle]
    ) -> None:
        """Raise unless no other run of this job can commit its tasks as well.

        Two concurrent runs do not see each other's marks until one is committed. Each fences the other before it checks
        that its own transactions are open. Brokers do not list the transactions of a coordinator that is being elected:
        a run that was not fenced for that reason finds the note of the other.
        """
        await self._fence([name for name in await self._attempts() if not self._is_of_this_run(name)])
        await self._require_same_tasks(len(left), found=len(handles) < len(left))
        await self._require_open(handles)
        note = OffsetAndMetadata(THE_ONLY, json.dumps({TASKS: len(left), RUN: self.run}))
        # With the verdict: every task has reported.
        await self._write_down(
            [(self._tasks, note), self._verdict, *await self._marks_found(left)], if_only_run=bool(handles)
        )

    async def _marks_found(
        self, left: Sequence[TransactionHandle | None]
    ) -> list[tuple[Place, OffsetAndMetadata]]:
        """The marks of tasks that an earlier run has committed; written again, so that none of an older version expires."""
        written = {one.transactional_id.rpartition("-")[0] for one in left if one is not None}
        places = [place for place in map(self.place, range(len(left))) if place.name not in written]
        marks = await marks_at(places, self.options.producer)
        return [(place, attrs.evolve(mark, ledger=place.ledger).as_offset()) for place, mark in marks]

    async def _require_same_tasks(self, tasks: int, *, found: bool) -> None:
        """Raise if an earlier run committed tasks, and had another number of them; `found`: some marks exist."""
        place = self._tasks
        earlier = _tasks_of(await place.look_up(self.options.producer))
        if earlier == tasks:
            return
        others = range(tasks, earlier) if earlier is not None else await self._numbers_from(tasks)
        marks = await marks_at(map(self.place, others), self.options.producer)
        # A mark of an older version lacks the number: it was more than now, if one of the other tasks has a mark.
        if marks or (found and earlier is not None):
            was = f"{earlier} tasks" if earlier is not None else "more tasks"
            raise OtherRowsError(
                f"write.id {self.options.write_id!r} was committed by {was}, at least in part, and is now repeated with {tasks}: "
                "rows would be lost or duplicated. Nothing of this run is visible. Repeat it with as many partitions as before, or "
                "with another write.id"
            )

    async def _numbers_from(self, tasks: int) -> set[int]:
        """The numbers of tasks that earlier runs had and this run lacks."""
        return {number for number in self._numbers(await self._listed()) if number >= tasks}

    def _numbers(self, listed: Iterable[TransactionListing]) -> set[int]:
        names = [self._attempt.fullmatch(one.transactional_id) for one in listed]
        return {int(name[1]) for name in names if name is not None}

    async def _require_open(self, handles: Sequence[TransactionHandle]) -> None:
        """Raise if one of them cannot be committed any more."""
        left = {one.transactional_id: one.producer_id for one in handles if not one.is_empty}
        for look in range(LOOKS):
            if look:
                await anyio.sleep(SECONDS_BETWEEN_LOOKS)
            listed = {one.transactional_id: one for one in await self._listed()} if left else {}
            for name, one in listed.items():
                if left.get(name) == one.producer_id and one.state == OPEN:
                    del left[name]
            if not left:
                return
            if gone := [name for name in left if name in listed]:
                raise _not_open(gone[0], listed[gone[0]].state, self.options)
        raise _not_open(next(iter(left)), "unknown", self.options)

    async def _commit_all(self, handles: Sequence[TransactionHandle]) -> None:
        failed = await commit_all(handles, self.options.producer)
        if failed:
            name, error = next(iter(failed.items()))
            are_out = all(map(_is_not_written, failed.values()))
            raise TransactionError(
                f"{len(failed)} of {len(handles)} tasks {'were not' if are_out else 'are not certainly'} committed, {name!r} for "
                f"one; {self._remedy()}",
                # For the whole job: rows of the other tasks are visible.
                outcome=Outcome.NOT_WRITTEN if are_out and len(failed) == len(handles) else Outcome.UNKNOWN,
                cause=error if isinstance(error, KafkaError) else None,
            ) from error

    def _remedy(self) -> str:
        if self.options.write_id:
            forgotten = (
                " within offsets.retention.minutes (7 days by default on brokers)"
                if self.options.ledger_topic is None
                else ""
            )
            return (
                f"run the job again with the same write.id{forgotten}: committed tasks are not written again"
            )
        return (
            "the others are committed: only a job with a write.id can be run again without duplicating them"
        )


def _is_not_written(error: Exception) -> bool:
    return isinstance(error, KafkaError) and error.outcome is Outcome.NOT_WRITTEN


def _text(found: OffsetAndMetadata | None) -> str | None:
    return None if found is None else found.metadata


def _tasks_of(found: OffsetAndMetadata | None) -> int | None:
    try:
        return None if found is None else int(json.loads(found.metadata)[TASKS])
    except (ValueError, KeyError, TypeError):
        return None


def _not_open(name: str, state: str, options: SinkOptions) -> TransactionAbortedError:
    if state == FENCED and options.write_id:
        return _taken_over(f"the transaction {name!r} is no longer open", options)
    seconds = options.producer.transaction_timeout_ms / 1000
    return TransactionAbortedError(
        f"the transaction {name!r} is no longer open (its state is {state!r}), most likely because the job took longer than "
        f"kafka.transaction.timeout.ms allows ({seconds:g} s). Nothing of this run is visible: all of it was "
        "aborted. Raise the timeout, which brokers limit by transaction.max.timeout.ms, or write smaller jobs",
        retriable=True,
    )


def _taken_over(what: str, options: SinkOptions) -> TransactionAbortedError:
    return TransactionAbortedError(
        f"{what}: another run of the job with write.id {options.write_id!r} has taken over. Nothing of this run is "
        "visible: all of it was aborted. Run only one job with this write.id at a time",
        retriable=False,
    )


def _known(handles: Iterable[TransactionHandle | None]) -> list[TransactionHandle]:
    return [handle for handle in handles if handle is not None]


def _may_write(listings: Iterable[TransactionListing]) -> list[str]:
    return [listing.transactional_id for listing in listings if listing.state in MAY_WRITE]

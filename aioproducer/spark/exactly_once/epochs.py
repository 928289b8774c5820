"""Exactly once, in a stream: the rows of one task and their mark are committed together, once."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final

import anyio
import attrs

from aioproducer import BrokerError, KafkaError, Producer, ProducerFencedError, StateError, TransactionError
from aioproducer.documentation import page
from aioproducer.spark.exactly_once.fingerprint import Fingerprint
from aioproducer.spark.exactly_once.markers import Mark, Place, transactional_name
from aioproducer.spark.exactly_once.rounds import write_in_rounds
from aioproducer.spark.options import SinkOptions
from aioproducer.spark.shipping.columns import Layout
from aioproducer.spark.shipping.shipment import Shipment, Written
from aioproducer.spark.shipping.summary import log
from aioproducer.spark.shipping.tasks import begun
from aioproducer.spark.shipping.whole_input import whole
from aioproducer.spark.shipping.worker import this_worker

__all__ = ["counted", "write_epoch"]

# For an attempt beside another: Spark runs two at a time, and its next one begins when one of them has failed.
MOST_TAKEOVERS: Final = 4
SECONDS_BETWEEN_LOOKS: Final = 0.2
SECONDS_FOR_A_LOOK: Final = 5.0
# The refusals of a producer that was fenced. The last one is that of a commit while the other attempt is taking over: its first
# request for the id aborts the transaction, and its next one, a moment later, gets the id.
FENCED: Final = frozenset({"INVALID_PRODUCER_EPOCH", "PRODUCER_FENCED", "INVALID_TXN_STATE"})


def write_epoch(
    batches: Iterable[Any],
    layout: Layout,
    options: SinkOptions,
    task: tuple[str, int],
    epoch: int,
    *,
    is_query: bool = False,
    speculation: bool = False,
) -> Written:
    """Commit the rows of a task, which has this name and number, with their mark, unless an earlier attempt has.

    `is_query`: the name is the id of a query, all of whose epochs have marks, from the first on. `speculation`: another attempt
    of the task may run at the same time.
    """
    assert options.marker_topic is not None  # noqa: S101  # the options were checked
    name, number = task
    first, place = (
        Place(f"{transactional_name(name)}-{at}", options.marker_topic, options.ledger_topic)
        for at in (0, number)
    )
    work = EpochOfTask(layout, options, first, place, epoch, is_query)
    batches = layout.encoded(begun(whole(batches)))
    return write_beside_others(work, list(batches)) if speculation else work.write(batches)


@attrs.frozen
class EpochOfTask:
    """The rows of a task in one epoch, and the places of the marks of the first task and of this one."""

    layout: Layout
    options: SinkOptions
    first: Place
    place: Place
    epoch: int
    is_query: bool

    def write(self, batches: Iterable[Any]) -> Written:
        """Fence all other attempts, and commit the rows, unless one of them has."""
        worker, options = this_worker(), self.options
        try:
            began = time.monotonic()
            producer, mark = worker.run(self._taken_over())
            fenced = time.monotonic() - began
            if mark is not None and mark.epoch >= self.epoch:
                written = self.found(batches, mark)
                written.fence_seconds = fenced
                if options.ledger_topic not in (None, mark.ledger):
                    # Of an older version, or of another ledger: this epoch may be repeated again when its offset is
                    # forgotten.
                    worker.run(self._move(producer, attrs.evolve(mark, ledger=options.ledger_topic)))
                return written
            seen = Fingerprint()
            written = write_in_rounds(
                worker,
                counted(batches, self.layout, seen),
                partial(self._begin, producer),
                lambda _refusal: producer.abort_transaction(),
                partial(self._finish, producer, seen),
                sets_aside=options.dead_letters is not None,
            )
            written.fence_seconds = fenced
            return written
        except BaseException:
            worker.run(worker.forget(options.producer))
            raise

    def found(self, batches: Iterable[Any], mark: Mark) -> Written:
        """The result where an attempt has committed this epoch: nothing is written again, but these rows must be the same."""
        if mark.epoch > self.epoch:
            raise _set_back(self.place, mark, self.epoch)
        seen = Fingerprint()
        for _ in counted(batches, self.layout, seen):
            pass
        mark.require_same(seen, self.options.topic, self.place)
        this_worker().run(self._require_same_topic(mark))
        return Written(skipped=seen.rows)

    async def committed_mark(self) -> Mark | None:
        """The mark of this epoch, or of a later one, if an attempt has committed it; no attempt is fenced.

        The ledger is not read: the mark of an attempt that runs at the same time is an offset. The open mark of an attempt that
        died is not waited for.
        """
        producer = await this_worker().producer(self.options.producer)
        with anyio.move_on_after(SECONDS_FOR_A_LOOK):
            mark = await attrs.evolve(self.place, ledger=None).read(producer)
            return mark if mark is not None and mark.epoch >= self.epoch else None
        return None

    async def _taken_over(self) -> tuple[Producer[Any, Any], Mark | None]:
        producer = await this_worker().producer(self.options.producer)
        # First of all: it aborts the open transaction of an earlier attempt, and prevents its commit.
        await producer.init_transactions(self.place.name)
        mark = await self.place.read(producer)
        if mark is None or mark.epoch < self.epoch - 1:
            # This task was not in the previous epoch, but the first task was: its mark may show that the checkpoint was
            # set back, or that marks are lost.
            of_first = mark if self.first == self.place else await self.first.read(producer)
            _require_previous_epoch(self.first, of_first, self.epoch, is_query=self.is_query)
        return producer, mark

    async def _begin(self, producer: Producer[Any, Any], refused: Mapping[int, KafkaError]) -> Shipment:
        await producer.begin_transaction()
        return Shipment(producer, self.layout, self.options, refused)

    async def _finish(self, producer: Producer[Any, Any], seen: Fingerprint, shipment: Shipment) -> Written:
        """Send the mark beside the last rows, and commit when all of them are written."""
        mark = Mark.new(producer, self.place, self.epoch, seen, self.options.topic)
        marked, written = await asyncio.gather(
            self.place.write(producer, mark.as_offset()), shipment.finish(), return_exceptions=True
        )
        # The error of a row says more than that of the mark, which is refused after it.
        if isinstance(written, BaseException):
            raise written
        if isinstance(marked, BaseException):
            raise marked
        written = shipment.counted()
        now = Mark.new(producer, self.place, self.epoch, seen, self.options.topic)
        if now != mark:
            # The topic was created again behind the last epoch: the present one has the rows.
            await self.place.write(producer, now.as_offset())
        began = time.monotonic()
        await producer.commit_transaction()
        written.commit_seconds = time.monotonic() - began
        return written

    async def _move(self, producer: Producer[Any, Any], mark: Mark) -> None:
        await producer.begin_transaction()
        await self.place.write(producer, mark.as_offset())
        await producer.commit_transaction()

    async def _require_same_topic(self, mark: Mark) -> None:
        producer = await this_worker().producer(self.options.producer)
        await self.place.require_same_topic(producer, mark, "sink.id")


def write_beside_others(work: EpochOfTask, rows: Sequence[Any]) -> Written:
    """Write the rows of an attempt, another of which may run at the same time.

    The first attempt that has all of its rows writes them. If the other has its own before the commit, it takes over; the
    fenced attempt then waits for the mark of the other. It does not fail: Spark counts failures, and ends the query after a
    few. If the other attempt dies, its transaction times out, and this one takes over.
    """
    worker, takeovers = this_worker(), 0
    while True:
        try:
            mark = worker.run(work.committed_mark())
            return work.write(rows) if mark is None else work.found(rows, mark)
        except KafkaError as error:
            takeovers += 1
            if takeovers == MOST_TAKEOVERS or not _is_fenced(error):
                raise
        log.info("epoch %d of %r: another attempt of the task has taken over", work.epoch, work.place.name)
        worker.run(_other_has_ended(work))


async def _other_has_ended(work: EpochOfTask) -> None:
    """Wait until the attempt that has taken over has committed, or its transaction has certainly timed out."""
    deadline = time.monotonic() + work.options.producer.transaction_timeout_ms / 1000
    while time.monotonic() < deadline:
        if await work.committed_mark() is not None:
            return
        await anyio.sleep(SECONDS_BETWEEN_LOOKS)


def _is_fenced(error: BaseException | None) -> bool:
    """Whether another attempt has taken over the transactional id."""
    while error is not None:
        if isinstance(error, ProducerFencedError) or _is_abort_by_coordinator(error):
            return True
        if isinstance(error, BrokerError) and error.name in FENCED:
            return True
        error = error.__cause__
    return False


def _is_abort_by_coordinator(error: BaseException) -> bool:
    """Whether no part of the transaction failed, but another client asked for its id, or its time was over."""
    return type(error) is TransactionError and error.retriable and error.cause is None


def _require_previous_epoch(first: Place, mark: Mark | None, epoch: int, *, is_query: bool) -> None:
    """Raise if the mark of the first task, which is in every epoch, is of a later epoch, or is missing."""
    if mark is not None and mark.epoch > epoch:
        raise _set_back(first, mark, epoch)
    if epoch == 0 or (mark is not None and mark.epoch >= epoch - 1):
        return
    last = "has no mark at all" if mark is None else f"has no mark since epoch {mark.epoch}"
    what = (
        f"this task writes epoch {epoch}, and {first.name!r} {last} for topic {first.topic!r}: the option marker.topic (topic, "
        "if that is not set) was changed, marks were lost (the ledger was deleted, or brokers forgot marks of an older version), "
        "or the last epochs were written without exactly-once"
    )
    if is_query:
        raise StateError(
            f"{what}. If epoch {epoch} was committed, its rows would be doubled, so this task has written nothing. To write it, "
            f"set a new sink.id; see {page('spark.md#lost-marks')}"
        )
    log.warning("%s. If epoch %d was committed before, its rows are doubled", what, epoch)


def _set_back(place: Place, mark: Mark, epoch: int) -> StateError:
    return StateError(
        f"this task writes epoch {epoch}, but {place.name!r} has committed epoch {mark.epoch}: the checkpoint was reset or "
        "deleted, or two queries have the same sink.id. This task has written nothing. Restore the checkpoint, or set a new "
        f"sink.id and begin behind the committed rows; see {page('spark.md#a-lost-checkpoint')}"
    )


def counted(batches: Iterable[Any], layout: Layout, seen: Fingerprint) -> Iterator[Any]:
    """The same batches; `seen` has all of them when they have ended."""
    for batch in batches:
        seen.add(batch, layout)
        yield batch

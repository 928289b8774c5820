"""The sink, with faults: tasks that die before, in and after their commits, or wait there, and drivers that die."""

from __future__ import annotations

import itertools
import os
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple, Self
from unittest.mock import patch

import anyio
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from aioproducer import Coordinators, TransactionHandle
from aioproducer.spark.exactly_once import commits, epochs, jobs
from aioproducer.spark.exactly_once.fingerprint import Fingerprint
from aioproducer.spark.facts import TaskFacts
from aioproducer.spark.shipping.columns import Layout
from aioproducer.spark.shipping.worker import this_worker
from aioproducer.spark.source import KafkaSink, Message
from tests.spark.exactly_once.faulty import first_time
from tests.spark.faults.diary import Diary, Entry
from tests.spark.faults.injected import Fault, Faults

__all__ = [
    "AT_LEAST_ONCE",
    "COMMIT_FAILS",
    "EXACTLY_ONCE",
    "FAULTS",
    "FOLDER",
    "JOB",
    "KILLED_AFTER",
    "Executor",
    "FaultyJobs",
    "FaultyStreams",
    "HeldBatches",
    "KilledBatches",
    "diary_in",
    "go_on",
    "half_way",
    "happened",
    "hold",
    "outlives",
]

EXACTLY_ONCE: Final = "exactly-once"
AT_LEAST_ONCE: Final = "at-least-once"
# Options of these sinks.
FAULTS: Final = "test.faults"
FOLDER: Final = "test.folder"
KILLED_AFTER: Final = "test.killed.after"
JOB: Final = "test.job"

COMMIT_FAILS: Final = "a commit() that the test has fail"
# The longest hold of a task if the test has ended meanwhile: longer than a test may take.
LONGEST_HOLD: Final = 1_800.0


def diary_in(folder: str | Path) -> Diary:
    """The diary of the run with this folder."""
    return Diary(Path(folder) / "diary")


def hold(folder: str | Path, epoch: int) -> Path:
    """The file that makes a task of this epoch remove it, and wait before its commit."""
    return Path(folder) / f"hold in {epoch}"


def outlives(folder: str | Path, epoch: int) -> Path:
    """The file that lets the held task of this epoch outlive the Java of its executor."""
    return Path(folder) / f"outlives in {epoch}"


def happened(folder: str | Path, epoch: int) -> Path:
    """The file that lets this epoch end, after its incident."""
    return Path(folder) / f"happened in {epoch}"


def half_way(folder: str | Path, epoch: int) -> Path:
    """The file that makes the driver of this job remove it, and wait in its commit with one task committed."""
    return Path(folder) / f"half-way in {epoch}"


def go_on(folder: str | Path, epoch: int = 0) -> Path:
    """The file that releases the held task of this epoch."""
    return Path(folder) / f"go on in {epoch}"


def beside(folder: str | Path, moment: str, epoch: int, partition: int, attempt: int) -> Path:
    """The file that says that an exactly-once attempt has come so far."""
    return Path(folder) / f"{moment} in {epoch}, {partition}, {attempt}"


def wait_for(file: Path) -> None:
    """Wait until the test releases this process."""
    deadline = time.monotonic() + LONGEST_HOLD
    while not file.exists() and time.monotonic() < deadline:
        time.sleep(0.005)


class Executor(NamedTuple):
    """The process ids of an executor: Java, and one of its workers, which are forked from a daemon that Java has started."""

    java: int
    worker: int

    @classmethod
    def here(cls) -> Self:
        """That of this worker."""
        stat = Path(f"/proc/{os.getppid()}/stat").read_text()
        return cls(int(stat.rpartition(")")[2].split()[1]), os.getpid())

    @classmethod
    def read(cls, detail: str) -> Self:
        """The executor of an entry of the diary."""
        return cls(*map(int, detail.split()))

    def __str__(self) -> str:
        return " ".join(map(str, self))


def attempt_number() -> int:
    """The number of the running attempt."""
    context = TaskContext.get()
    assert context is not None
    return context.attemptNumber()


# ------------------------------------------------------------------------------------------- streams
class FaultyStreams(KafkaSink):
    """`faulty-streams`: its tasks and commits fail as the option `test.faults` says."""

    @classmethod
    def name(cls) -> str:
        return "faulty-streams"

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:  # noqa: N802  # Spark's
        faults = Faults.read(self.options.pop(FAULTS))
        return FaultyStreamWriter(super().streamWriter(schema, overwrite), faults)


class FaultyStreamWriter(DataSourceStreamArrowWriter):
    """The writer of one micro-batch."""

    def __init__(self, writer: DataSourceStreamArrowWriter, faults: Faults) -> None:
        self._writer = writer
        self._faults = faults

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        epoch = TaskFacts.here().epoch
        assert epoch is not None
        return FaultyAttempt(self._faults, epoch).write(self._writer.write, iterator)

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803  # Spark's
        _before_the_commit(self._faults, batchId)
        self._writer.commit(list(messages), batchId)

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803  # Spark's
        self._writer.abort(list(messages), batchId)


def _before_the_commit(faults: Faults, epoch: int) -> None:
    """The driver waits for the incident of this epoch, and may fail."""
    diary = diary_in(faults.folder)
    diary.tell(Entry("committing", faults.query, epoch))
    if faults.query == EXACTLY_ONCE and epoch in faults.incidents:
        wait_for(happened(faults.folder, epoch))
    if epoch in faults.commits and first_time(faults.folder, f"commit {faults.query} {epoch}"):
        diary.tell(Entry("commit() raised", faults.query, epoch))
        raise RuntimeError(COMMIT_FAILS)


class FaultyAttempt:
    """One attempt of a task, which notes its progress."""

    def __init__(self, faults: Faults, epoch: int) -> None:
        self._faults = faults
        self._task = (epoch, TaskFacts.here().partition)
        self._attempt = attempt_number()
        self._fault = faults.of(*self._task, self._attempt)
        self._about_the_commit = threading.Timer(faults.seconds_about_the_commit(*self._task), os._exit, (1,))

    def write(
        self, write: Callable[[Iterator[Any]], WriterCommitMessage], batches: Iterator[Any]
    ) -> WriterCommitMessage:
        """Write as the sink does, with this attempt's fault."""
        try:
            if self._faults.query == EXACTLY_ONCE:
                with _fenced_first(self._handed_out):
                    message = write(self._asked_for(batches))
            else:
                message = write(self._handed_out(batches))
        except Exception as error:
            self._tell("failed", f"{type(error).__name__}: {error}"[:300])
            raise
        assert isinstance(message, Message)
        self._tell("skipped" if message.written.skipped else "wrote", str(message.written.rows))
        self._behind()
        return message

    def _asked_for(self, batches: Iterable[Any]) -> Iterator[Any]:
        self._come_to("asked")
        yield from batches

    def _handed_out(self, batches: Iterable[Any]) -> Iterator[Any]:
        """Hand the rows out; an exactly-once sink has fenced all other attempts before."""
        for number, batch in enumerate(batches):
            if number == 2 and self._fault is Fault.EXITS_IN_THE_MIDDLE:
                self._exit()
            yield batch
            if number == 0:
                self._tell("began")
                self._come_to("began")
        self._before()

    def _before(self) -> None:
        """All rows are handed out, and none is committed."""
        if self._is_held():
            folder, epoch = self._faults.folder, self._task[0]
            if outlives(folder, epoch).exists():
                # Spark's daemon ends its workers by this signal when Java has ended.
                signal.signal(signal.SIGHUP, signal.SIG_IGN)
            self._tell("holding", str(Executor.here()))
            wait_for(go_on(folder, epoch))
        self._wait_for_another()
        match self._fault:
            case Fault.RAISES_BEFORE:
                self._tell(Fault.RAISES_BEFORE.value)
                raise RuntimeError("a failure of the test")
            case Fault.EXITS_IN_THE_MIDDLE:  # the task had no more than two Arrow batches
                self._exit()
            case Fault.EXITS_WITH_ALL_SENT:
                _flush_all()
                self._exit()
            case Fault.EXITS_ABOUT_THE_COMMIT:
                self._tell(Fault.EXITS_ABOUT_THE_COMMIT.value)
                self._about_the_commit.start()

    def _is_held(self) -> bool:
        """Only an attempt of a task without another fault is held, once in an epoch: the test watches its end.

        It may be a repeated one: on a busy machine an executor may be lost before any first attempt has come so far.
        An attempt behind a fault may find the rows committed, and would end without a refusal.
        """
        if self._faults.query != EXACTLY_ONCE or self._faults.has_fault(*self._task):
            return False
        try:
            hold(self._faults.folder, self._task[0]).unlink()
        except FileNotFoundError:
            return False
        return True

    def _come_to(self, moment: str) -> None:
        if self._faults.has_wait(*self._task):
            beside(self._faults.folder, moment, *self._task, self._attempt).touch()

    def _wait_for_another(self) -> None:
        """Wait, once in an epoch, until a later attempt of the same task is before or behind its fence."""
        folder, (epoch, partition) = self._faults.folder, self._task
        if self._faults.query != EXACTLY_ONCE or not self._faults.has_wait(epoch, partition):
            return
        if first_time(folder, f"waited in {epoch}"):
            # Before the wait: Spark ends this attempt where the other one is first.
            self._tell("waited")
            wait_for(beside(folder, ("asked", "began")[epoch % 2], epoch, partition, self._attempt + 1))

    def _behind(self) -> None:
        match self._fault:
            case Fault.EXITS_ABOUT_THE_COMMIT:
                self._about_the_commit.join()
            case Fault.EXITS_BEHIND:
                self._exit()
            case Fault.RAISES_BEHIND:
                self._tell(Fault.RAISES_BEHIND.value)
                raise RuntimeError("a failure of the test")

    def _exit(self) -> None:
        assert self._fault is not None
        self._tell(self._fault.value)
        os._exit(1)

    def _tell(self, what: str, detail: str = "") -> None:
        entry = Entry(what, self._faults.query, *self._task, self._attempt, detail)
        diary_in(self._faults.folder).tell(entry)


@contextmanager
def _fenced_first(handed_out: Callable[[Iterable[Any]], Iterator[Any]]) -> Iterator[None]:
    """The rows of this attempt are handed out behind its fence: beside other attempts, all of them come before it."""
    counted = epochs.counted

    def replaced(batches: Iterable[Any], layout: Layout, seen: Fingerprint) -> Iterator[Any]:
        return counted(handed_out(batches), layout, seen)

    # Streams and jobs each have it under a name of their own.
    with patch.object(epochs, "counted", replaced), patch.object(jobs, "counted", replaced):
        yield


def _flush_all() -> None:
    """The broker has all rows."""
    worker = this_worker()

    async def flush() -> None:
        for producer in worker._producers.values():
            await producer.flush()

    worker.run(flush())


# ---------------------------------------------------------------------------------------------- jobs
class FaultyJobs(KafkaSink):
    """`faulty-jobs`: as `faulty-streams`, for the batch with the number `test.job`."""

    @classmethod
    def name(cls) -> str:
        return "faulty-jobs"

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        faults, number = Faults.read(self.options.pop(FAULTS)), int(self.options.pop(JOB))
        return FaultyJobWriter(super().writer(schema, overwrite), faults, number)


class FaultyJobWriter(DataSourceArrowWriter):
    """The writer of one job."""

    def __init__(self, writer: DataSourceArrowWriter, faults: Faults, number: int) -> None:
        self._writer = writer
        self._faults = faults
        self._number = number

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        return FaultyAttempt(self._faults, self._number).write(self._writer.write, iterator)

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        if self._waits_half_way():
            self._halt_half_way()
        else:
            _before_the_commit(self._faults, self._number)
        self._writer.commit(list(messages))

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        self._writer.abort(list(messages))

    def _waits_half_way(self) -> bool:
        try:
            half_way(self._faults.folder, self._number).unlink()
        except FileNotFoundError:
            return False
        return True

    def _halt_half_way(self) -> None:
        """Commits behind the first one wait until the incident of this job has happened."""
        committed, numbers, folder = commits._committed, itertools.count(), self._faults.folder

        async def halting(handle: TransactionHandle, coordinators: Coordinators, timeout: float) -> None:
            if is_first := next(numbers) == 0:
                await committed(handle, coordinators, timeout)
                diary_in(folder).tell(Entry("half-way", self._faults.query, self._number))
            await anyio.to_thread.run_sync(wait_for, happened(folder, self._number))
            if not is_first:
                await committed(handle, coordinators, timeout)

        commits._committed = halting


# ------------------------------------------------------------------------------------------- batches
class HeldBatches(KafkaSink):
    """`held-batches`: the first attempt of the first task waits with all of its rows written and its transaction open."""

    @classmethod
    def name(cls) -> str:
        return "held-batches"

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        folder = self.options.pop(FOLDER)
        return HeldWriter(super().writer(schema, overwrite), folder)


class HeldWriter(DataSourceArrowWriter):
    """The writer of one job."""

    def __init__(self, writer: DataSourceArrowWriter, folder: str) -> None:
        self._writer = writer
        self._folder = folder

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        message = self._writer.write(iterator)
        partition, attempt = TaskFacts.here().partition, attempt_number()
        if (partition, attempt) == (0, 0):
            holding = Entry("holding", "job", 0, partition, attempt, str(Executor.here()))
            diary_in(self._folder).tell(holding)
            wait_for(go_on(self._folder))
        return message

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        self._writer.commit(list(messages))

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        self._writer.abort(list(messages))


class KilledBatches(KafkaSink):
    """`killed-batches`: the driver dies after as many commits of tasks as `test.killed.after` says."""

    @classmethod
    def name(cls) -> str:
        return "killed-batches"

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        after, driver = map(int, self.options.pop(KILLED_AFTER).split(":"))
        return KilledWriter(super().writer(schema, overwrite), after, driver)


class KilledWriter(DataSourceArrowWriter):
    """The writer of one job."""

    def __init__(self, writer: DataSourceArrowWriter, after: int, driver: int) -> None:
        self._writer = writer
        self._after = after
        # The driver's process group: Python, Java, and the committing process.
        self._driver = driver

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        return self._writer.write(iterator)

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        if self._after == 0:
            self._die()
        committed, numbers, done = commits._committed, itertools.count(), itertools.count(1)

        async def some_committed(
            handle: TransactionHandle, coordinators: Coordinators, timeout: float
        ) -> None:
            if next(numbers) >= self._after:
                await anyio.sleep_forever()
            await committed(handle, coordinators, timeout)
            if next(done) == self._after:
                self._die()

        commits._committed = some_committed
        self._writer.commit(list(messages))

    def _die(self) -> None:
        os.killpg(self._driver, signal.SIGKILL)
        os._exit(1)

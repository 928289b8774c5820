"""Checkpoints: the position of a source up to which all of its records are acknowledged."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Coroutine
from copy import copy
from typing import TYPE_CHECKING, Any, Generic, NoReturn, Self, overload

from typing_extensions import TypeVar

from aioproducer._core import AckedPrefix, BatchDelivery, Sending
from aioproducer.config.seconds import checked_timeout
from aioproducer.errors import CheckpointStoppedError, ConfigurationError, KafkaError, StateError
from aioproducer.outlets.dead_letters import DeadLetters
from aioproducer.outlets.rule import shares_a_refusal
from aioproducer.outlets.saving import Saver
from aioproducer.outlets.sent_columns import SentColumns
from aioproducer.producer import Producer

if TYPE_CHECKING:
    from types import TracebackType

    from aioproducer._core import Delivery, PrefixPart
    from aioproducer.outlets.sent_record import SentRecord
    from aioproducer.records import Headers, Timestamp

__all__ = ["Checkpoint"]

P = TypeVar("P", default=Any)
# A record as `send` gives it: a `Delivery`, or with dead letters a `SentRecord`.
R = TypeVar("R", bound="Delivery | SentRecord", default="Delivery")

# The seconds that the last save has at least, when all others are used up.
SHORTLY = 1.0


class Checkpoint(AckedPrefix, Generic[P, R]):
    """Tells how far a source is acknowledged, so that it can go on from there after a crash: at least once.

    ```python
    async with Checkpoint(producer, store.save) as checkpoint:
        async for line in lines(after=await store.load()):
            await checkpoint.send("lines", line.data)
            checkpoint.mark(line.end)  # all that was sent before belongs to this position
    ```

    `position` is the newest mark before which everything is acknowledged, or set aside by `dead_letters`. `save(position)`, a
    function or a coroutine function, gets it at most once in `every` seconds, and again at closing: never two calls at
    once, never an older position after a newer one.

    A record that fails stops the checkpoint: `position` stays before it, `error` has the reason, and `send` and `mark` raise
    `CheckpointStoppedError` until `rewind()`. If a broker refused other records of its batch, `send` then waits for the outcome
    of each record up to the next mark, so that `dead_letters` gets those that are refused alone. Memory grows with open batches and open marks, not with records.

    `send` and `send_nowait` give a `Delivery`, with `dead_letters` a `SentRecord`. The type is `Checkpoint[P]`, with
    `dead_letters` `Checkpoint[P, SentRecord]`, where `P` is that of the positions.
    """

    @overload
    def __init__(
        self: Checkpoint[P, Delivery],
        producer: Producer[Any, Any],
        save: Callable[[P], object] | None = None,
        *,
        every: float = 1.0,
        dead_letters: None = None,
    ) -> None: ...

    @overload
    def __init__(
        self: Checkpoint[P, SentRecord],
        producer: Producer[Any, Any],
        save: Callable[[P], object] | None = None,
        *,
        every: float = 1.0,
        dead_letters: DeadLetters[Any, Any],
    ) -> None: ...

    @overload
    def __init__(
        self: Checkpoint[P, Delivery | SentRecord],
        producer: Producer[Any, Any],
        save: Callable[[P], object] | None = None,
        *,
        every: float = 1.0,
        dead_letters: DeadLetters[Any, Any] | None,
    ) -> None: ...

    def __init__(
        self,
        producer: Producer[Any, Any],
        save: Callable[[P], object] | None = None,
        *,
        every: float = 1.0,
        dead_letters: DeadLetters[Any, Any] | None = None,
    ) -> None:
        _check(producer, save, every, dead_letters)
        self._producer = producer
        self._letters = dead_letters
        self._sets_aside = dead_letters is not None
        self._saver = None if save is None else Saver(save, every, self._newest_position, self._wake)
        self._waiters: list[asyncio.Future[None]] = []
        self._own_loop: asyncio.AbstractEventLoop | None = None
        self._rewinds = 0
        # The number of times that marks were forgotten.
        self._generation = 0
        # Until so many marks are reached, `send` waits for the outcome of each record.
        self._singly_until = 0
        self._told = False
        # Failed records whose failure the program has not learned.
        self._unread: list[SentRecord | SentColumns] = []
        self._state = "open"
        self._follow(producer, self._on_change)

    if TYPE_CHECKING:

        def send(  # the types of the compiled part, which does not know them
            self,
            topic: str,
            value: Any = None,
            *,
            key: Any = None,
            partition: int | None = None,
            timestamp: Timestamp | None = None,
            headers: Headers | None = None,
            timeout: float | None = None,
            max_block: float | None = None,
        ) -> Coroutine[Any, Any, R]: ...

        def send_nowait(
            self,
            topic: str,
            value: Any = None,
            *,
            key: Any = None,
            partition: int | None = None,
            timestamp: Timestamp | None = None,
            headers: Headers | None = None,
            timeout: float | None = None,
        ) -> R: ...

        def mark(self, position: P) -> None: ...

        @property
        def position(self) -> P | None: ...

    # -- looking

    @property
    def error(self) -> KafkaError | None:
        """The error of the record that stopped it; None while it goes on."""
        self._take_changes()
        if self._failure is None:
            return None
        self._note_told()
        return _kafka_error(self._failure)

    async def reached(self, position: P | None = None, timeout: float | None = None) -> None:
        """Wait until this mark (default: the last one) is reached, and saved if there is a function for that.

        Raises `CheckpointStoppedError` if a record before it failed, and TimeoutError after `timeout` seconds.
        """
        limit = checked_timeout("timeout", timeout)
        self._look()
        number = self._marked if position is None else self._number_of(position)
        generation = self._generation
        self._hurry()
        async with asyncio.timeout(limit):
            while not self._is_saved(number):
                if generation != self._generation:
                    raise CheckpointStoppedError("the mark was forgotten by rewind()")
                if 0 <= self._failed_after < number:
                    raise self._stopped()
                if self._state == "closed":
                    raise StateError("the checkpoint was closed before this mark was reached and saved")
                await self._changed_once()

    # -- going on

    async def rewind(self) -> P | None:
        """Wait until all records have their outcome, forget the marks behind `position`, and return it.

        The source goes on from there. Meanwhile `send` and `mark` raise `CheckpointStoppedError`.
        """
        self._look()
        if self._state != "open":
            raise StateError("the checkpoint is closed")
        generation = self._generation
        self._rewinds += 1
        self._update_refusing()
        try:
            await self._settled()
            # Of several tasks that wait for it, the first one does it.
            if generation == self._generation:
                self._generation += 1
                if self._letters is not None and shares_a_refusal(self._failure):
                    # The source sends the same records again, and in one batch they would be refused again.
                    self._singly_until = self._marked + 1
                self._forget()
                self._told = False
        finally:
            self._rewinds -= 1
            self._update_refusing()
            self._wake()
        return self.position

    async def close(self, timeout: float | None = None) -> None:
        """Take no more records, wait for the outcomes, and save the position, within `timeout` seconds.

        The default is the setting `close_timeout_ms` of the producer; the last save has one second at least. Raises the exception of `save`, TimeoutError, and
        `CheckpointStoppedError` for a failure that no call has reported before.
        """
        limit = checked_timeout("timeout", timeout)
        if limit is None:
            limit = self._producer.config.close_timeout_ms / 1000
        self._look()
        if self._state != "open":
            async with asyncio.timeout(limit):
                while self._state != "closed":
                    await self._changed_once()
            return
        self._state = "closing"
        self._update_refusing()
        try:
            await self._finish(limit)
        finally:
            self._state = "closed"
            if self._saver is not None:
                self._saver.cancel()
            self._wake()
        if self._failure is not None and not self._told:
            raise self._stopped()

    async def __aenter__(self) -> Self:
        self._look()
        if self._state != "open":
            raise StateError("the checkpoint is closed: create a new one")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if error is None:
            await self.close()
            return
        # The error of the block is the one to be raised.
        self._told = True
        try:
            await self.close()
        except Exception as failure:  # noqa: BLE001  # noted in the error that is raised
            error.add_note(f"closing the checkpoint failed as well: {type(failure).__name__}: {failure}")

    async def _finish(self, limit: float) -> None:
        until = asyncio.get_running_loop().time() + limit
        try:
            async with asyncio.timeout_at(until):
                await self._settled()
        except TimeoutError:
            # The position that is reached by now is saved nevertheless.
            await self._save_last(until)
            raise TimeoutError(f"records had no outcome within {limit:g} s") from None
        await self._save_last(until)

    async def _save_last(self, until: float) -> None:
        if self._saver is None:
            return
        try:
            async with asyncio.timeout_at(max(until, asyncio.get_running_loop().time() + SHORTLY)) as limit:
                await self._saver.finish()
        except TimeoutError:
            if not limit.expired():
                raise
            raise TimeoutError("save() did not return in time; the last position may not be saved") from None

    async def _settled(self) -> None:
        """Wait until all records have their outcome."""
        while not self._is_idle:
            self._hurry()
            await self._changed_once()

    # -- with dead letters

    def _send_aside(self, *arguments: Any) -> Any:
        sent = self._begin_aside(lambda letters: letters.send_by(self._producer, *arguments))
        return sent.accepted() if self._reached >= self._singly_until else self._alone(sent)

    @staticmethod
    async def _alone(sent: SentRecord) -> SentRecord:
        """The record, when it has its outcome: it shares no batch with the next one. A failure stops the checkpoint, as always."""
        await sent.accepted()
        await sent.wait()
        return sent

    def _send_aside_nowait(self, *arguments: Any) -> SentRecord:
        return self._begin_aside(lambda letters: letters.send_nowait_by(self._producer, *arguments))

    def _begin_aside(self, send: Callable[[DeadLetters[Any, Any]], SentRecord]) -> SentRecord:
        assert self._letters is not None  # noqa: S101  # asked for by the caller
        part = self._begun()
        try:
            sent = send(self._letters)
        except BaseException as error:
            # One that may be sent again was not sent.
            part.settle(error if isinstance(error, KafkaError) and not error.retriable else None)
            raise
        sent.when_settled(lambda sent: self._settle_aside(part, sent))
        return sent

    def _settle_aside(self, part: PrefixPart, sent: SentRecord) -> None:
        error = _unless_aside(sent)
        if error is not None:
            self._unread.append(sent)
        part.settle(error)

    def _send_batch_aside(self, *arguments: Any) -> Sending[BatchDelivery]:
        assert self._letters is not None  # noqa: S101  # asked for by the caller
        part = self._begun()
        try:
            columns = SentColumns(self._letters, self._producer, arguments)
        except BaseException as error:
            part.settle(error if isinstance(error, KafkaError) else None)
            raise
        columns.when_settled(lambda error: self._settle_columns(part, columns, error))
        return columns.sending

    def _settle_columns(self, part: PrefixPart, columns: SentColumns, error: KafkaError | None) -> None:
        if not columns.is_read:
            self._unread.append(columns)
        part.settle(error)

    # -- of the compiled part

    def _look(self) -> None:
        running = asyncio.get_running_loop()
        if self._own_loop is None:
            self._own_loop = running
            self._run_in(running)
        elif running is not self._own_loop:
            raise StateError("the checkpoint belongs to another event loop")
        self._take_changes()

    def _refuse(self) -> NoReturn:
        if self._failure is not None:
            raise self._stopped()
        if self._rewinds:
            raise CheckpointStoppedError("the checkpoint is being rewound")
        raise StateError("the checkpoint is closed")

    def _on_change(self) -> None:
        self._turned()
        if self._saver is not None and self._state == "open":
            self._saver.begin()
        self._wake()

    # -- the parts of these

    def _update_refusing(self) -> None:
        self._refuses = self._state != "open" or self._rewinds > 0 or self._failure is not None

    def _stopped(self) -> CheckpointStoppedError:
        self._note_told()
        error = self._failure
        assert error is not None  # noqa: S101  # asked for by the caller
        return CheckpointStoppedError(
            "a record before the next mark was not acknowledged; rewind() returns the position to go on from",
            cause=copy(error),
        )

    def _note_told(self) -> None:
        self._told = True
        self._tell()

    def _tell(self) -> None:
        super()._tell()
        unread, self._unread = self._unread, []
        for sent in unread:
            sent.see()

    def _newest_position(self) -> tuple[int, Any]:
        self._take_changes()
        return self._reached, self.position

    def _number_of(self, position: P) -> int:
        marks = self._open_marks()
        for at in range(len(marks) - 1, -1, -1):
            if marks[at] is position or _is_equal(marks[at], position):
                return self._reached + at + 1
        return self._reached

    def _is_saved(self, number: int) -> bool:
        self._take_changes()
        return number <= (self._reached if self._saver is None else self._saver.saved)

    async def _changed_once(self) -> None:
        waiter = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        try:
            await waiter
        finally:
            if waiter in self._waiters:
                self._waiters.remove(waiter)

    def _wake(self) -> None:
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    def __repr__(self) -> str:
        state = "stopped" if self._failure is not None else self._state
        return f"<Checkpoint {state}: {self._reached} of {self._marked} marks reached>"


def _is_equal(mark: object, position: object) -> bool:
    try:
        return bool(mark == position)
    except Exception:  # noqa: BLE001  # an object of the user's, such as an array
        return False


def _unless_aside(sent: SentRecord) -> KafkaError | None:
    return None if sent.dead_lettered else sent.error


def _kafka_error(error: BaseException) -> KafkaError:
    if isinstance(error, KafkaError):
        return copy(error)
    return StateError("the process could not follow a record", cause=error)


def _check(
    producer: object,
    save: object,
    every: object,
    letters: object,
) -> None:
    if not isinstance(producer, Producer):
        raise ConfigurationError(f"Checkpoint takes a Producer, not {type(producer).__name__}")
    if producer.config.transactional_id is not None:
        raise ConfigurationError(
            "a checkpoint needs a producer without transactional_id: a transaction has positions of its own, its offsets"
        )
    if save is not None and not callable(save):
        raise ConfigurationError(f"save must be a function of a position, not {type(save).__name__}")
    if isinstance(every, bool) or not isinstance(every, int | float) or not 0 <= every < math.inf:
        raise ConfigurationError("every must be a number of seconds of 0 or more")
    if letters is not None and not isinstance(letters, DeadLetters):
        raise ConfigurationError(f"dead_letters takes DeadLetters, not {type(letters).__name__}")

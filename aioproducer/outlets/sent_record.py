"""One record that is sent with a way out: it is written, or its dead letter is, or its error is raised."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Generator
from copy import copy
from typing import TYPE_CHECKING, Any

from aioproducer._core import entry_of, hurry, observe, peek
from aioproducer._net.log import log
from aioproducer._net.observing.failures import END_OF_THE_PROGRAM
from aioproducer._state.admission.ready import ReadyRecord
from aioproducer.config.seconds import checked_timeout
from aioproducer.errors import KafkaError, text_of
from aioproducer.outcome import Outcome
from aioproducer.records import RecordMetadata

if TYPE_CHECKING:
    from aioproducer._core import Delivery, Sending
    from aioproducer.outlets.dead_letters import DeadLetters
    from aioproducer.producer import Producer
    from aioproducer.records import Record

__all__ = ["SentRecord"]


class SentRecord:
    """The outcome of one record, or of its dead letter. Await it for the metadata of the one that is written.

    Cancelling a task that waits for it cancels nothing.
    """

    __slots__ = (
        "__weakref__",
        "_decision",
        "_delivery",
        "_entry",
        "_error",
        "_is_placed",
        "_is_reported",
        "_is_settled",
        "_is_urgent",
        "_letter",
        "_letter_error",
        "_letters",
        "_loop",
        "_on_settled",
        "_producer",
        "_ready",
        "_record",
        "_seen",
        "_waiters",
    )

    def __init__(self, letters: DeadLetters, producer: Producer[Any, Any], record: Record[Any, Any]) -> None:
        self._letters = letters
        self._producer = producer
        self._record: Record[Any, Any] | None = record
        self._loop = asyncio.get_running_loop()
        # The bytes of the record, where user code makes them.
        self._ready: ReadyRecord | None = None
        # The entry of a call that waits for its place, of the record or of its letter.
        self._entry: Any = None
        self._delivery: Delivery | None = None
        self._letter: Delivery | None = None
        self._error: KafkaError | None = None
        self._letter_error: BaseException | None = None
        # Whether its error sets it aside; None before the rule was asked.
        self._decision: bool | None = None
        # The record has its place, or its end.
        self._is_placed = False
        self._is_settled = False
        # A caller reports its failure.
        self._is_reported = False
        self._is_urgent = False
        self._seen = False
        self._waiters: list[asyncio.Future[None]] = []
        self._on_settled: Callable[[SentRecord], object] | None = None

    # -- for the program

    @property
    def outcome(self) -> Outcome:
        """The outcome of the record itself; PENDING until its dead letter, if it has one, has an outcome as well."""
        if self._is_settled:
            self.see()
        return self._outcome_now()

    def _outcome_now(self) -> Outcome:
        if not self._is_settled:
            return Outcome.PENDING
        return Outcome.ACKED if self._error is None else self._error.outcome

    @property
    def dead_lettered(self) -> bool:
        """True when the record was set aside: its dead letter is acknowledged."""
        return self._is_settled and self._is_aside

    def done(self) -> bool:
        """True when the outcome is known."""
        return self._is_settled

    async def wait(self, timeout: float | None = None) -> Outcome:
        """Return the outcome after at most `timeout` seconds (None: as long as it takes); cancels nothing."""
        limit = _limit_of(timeout)
        if not self._is_settled:
            self._hurry()
            try:
                async with asyncio.timeout(limit):
                    await self._until(lambda: self._is_settled)
            except TimeoutError:
                pass
        return self.outcome

    def __await__(self) -> Generator[Any, None, RecordMetadata]:
        """The metadata of the record, or of its dead letter; the error of the record if neither is written."""
        return self._metadata().__await__()

    def __repr__(self) -> str:
        if not self._is_settled:
            return "<SentRecord pending>"
        found = "acked" if self._error is None else "set aside" if self._is_aside else "failed"
        return f"<SentRecord {found}>"

    async def _metadata(self) -> RecordMetadata:
        await self.wait()
        if self._error is None:
            assert self._delivery is not None  # noqa: S101  # it was acknowledged
            return self._delivery.result()
        if self._is_aside:
            assert self._letter is not None  # noqa: S101  # it was acknowledged
            return self._letter.result()
        raise self._noted(copy(self._error))

    def _noted(self, error: KafkaError) -> KafkaError:
        """An error of the record, with the failure of its dead letter."""
        if self._letter_error is not None:
            error.add_note(_note_of(self._letter_error))
        return error

    # -- for the other parts of this package

    @property
    def error(self) -> KafkaError | None:
        """The error of a record that was not acknowledged, also where its dead letter was; None before."""
        if not self._is_settled or self._error is None:
            return None
        return self._error if self._letter_error is None else self._noted(copy(self._error))

    def when_settled(self, call: Callable[[SentRecord], object]) -> None:
        """Call this once with the object when the outcome is known."""
        if self._is_settled:
            call(self)
        else:
            self._on_settled = call

    def fate(self) -> tuple[Outcome, KafkaError | None, bool]:
        """The outcome, the error of a record that is neither written nor set aside, and whether it is set aside.

        For a caller that reports the failure later: until then it is not read, and in gapless mode nothing is written behind it.
        """
        self._is_reported = True
        return self._outcome_now(), None if self._is_aside else self.error, self.dead_lettered

    async def placed(self) -> None:
        """Wait until the record has its place, or its end. Cancelled before that, the record is withdrawn."""
        try:
            await self._until(lambda: self._is_placed)
        except asyncio.CancelledError:
            self.withdraw()
            raise

    async def accepted(self) -> SentRecord:
        """The same; raises the error of a record that has ended without being written or set aside."""
        await self.placed()
        if self._is_settled and self._error is not None and not self._is_aside:
            await self._metadata()
        return self

    def withdraw(self) -> None:
        """The caller went away: a record that is not accepted yet is not sent, and not set aside."""
        if self._delivery is None and self._error is None and self._entry is not None:
            self._decision = False
            self._entry.withdraw()

    # -- the way of the record

    def send(self, *arguments: Any) -> SentRecord:
        """Send the record, with the positional arguments of a `send()`."""
        topic, value, key, partition, timestamp, headers, timeout, max_block = arguments
        try:
            if self._producer._is_followed():  # noqa: SLF001  # a seam for this package
                sending = self._producer._send_followed(self, *arguments)  # noqa: SLF001
            else:
                sending = self._producer.send(
                    topic,
                    value,
                    key=key,
                    partition=partition,
                    timestamp=timestamp,
                    headers=headers,
                    timeout=timeout,
                    max_block=max_block,
                )
        except KafkaError as error:
            self._fail(error)
        else:
            self._follow(sending, self._placed, self._refused)
        return self

    def send_nowait(self, *arguments: Any) -> SentRecord:
        """The same of a `send_nowait()`; raises what does not set the record aside."""
        try:
            self._placed(self._producer._send_now_followed(self, *arguments))  # noqa: SLF001
        except KafkaError as error:
            if not self.spares(error):
                raise
            self._fail(error)
        return self

    def set_aside(self, error: KafkaError) -> SentRecord:
        """The record was sent in another way, and failed with this error."""
        self._fail(error)
        return self

    def ready(self, record: ReadyRecord) -> None:
        """The record has its bytes."""
        self._ready = record

    def spares(self, error: BaseException) -> bool:
        """True when the error sets the record aside, so that it does not fail its transaction."""
        if self._decision is None:
            self._decision = isinstance(error, KafkaError) and self._letters.takes(error)
        return self._decision

    def _follow(
        self,
        sending: Sending[Delivery],
        placed: Callable[[Delivery], None],
        failed: Callable[[KafkaError], None],
    ) -> None:
        # It is not awaited: this object is.
        sending.close()
        if sending.delivery is not None:
            placed(sending.delivery)
            return

        def ended(entry: Any) -> None:
            self._entry = None
            error = entry.take_error()
            if entry.delivery is not None and error is None:
                placed(entry.delivery)
            else:
                failed(copy(error))

        self._entry = entry = entry_of(sending)
        if entry.finished:
            ended(entry)
        else:
            entry.on_end = ended

    def _placed(self, delivery: Delivery) -> None:
        self._delivery = delivery
        self._is_placed = True
        self._wake()
        self._watch(delivery, self._ended)

    def _watch(self, delivery: Delivery, ended: Callable[[Delivery], None]) -> None:
        if self._is_urgent and not delivery.done():
            hurry(delivery)
        if delivery.done():
            ended(delivery)
        else:
            observe(delivery, ended)

    def _ended(self, delivery: Delivery) -> None:
        _, error = peek(delivery)
        if error is None:
            self._settle()
        else:
            self._fail(error)

    def _refused(self, error: KafkaError) -> None:
        """The call of the record is refused, which has not failed the transaction if the record is set aside."""
        self._fail(error, is_refused=True)

    def _fail(self, error: KafkaError, *, is_refused: bool = False) -> None:
        self._error = error
        if not self.spares(error):
            self._settle()
            return
        assert self._record is not None  # noqa: S101  # kept until the outcome
        try:
            sending = self._letters.begin(
                self._record, self._ready, error, self._delivery, is_refused=is_refused
            )
        except BaseException as failure:  # of the user's function or objects, or of a producer that is closed
            if is_refused:
                self._producer._fail_transaction(error)  # noqa: SLF001  # a seam for this package
            self._fail_letter(failure)
            if isinstance(failure, END_OF_THE_PROGRAM):
                raise
        else:
            self._follow(sending, self._letter_placed, self._fail_letter)

    # -- the way of its dead letter

    @property
    def _is_aside(self) -> bool:
        return self._letter is not None and self._letter_error is None

    def _letter_placed(self, delivery: Delivery) -> None:
        self._letter = delivery
        self._is_placed = True
        self._wake()
        self._watch(delivery, self._letter_ended)

    def _letter_ended(self, delivery: Delivery) -> None:
        _, error = peek(delivery)
        if error is not None:
            self._fail_letter(error)
            return
        assert self._record is not None  # noqa: S101  # kept until the outcome
        self._letters.count(self._record.topic)
        lost = self._delivery
        if lost is not None and self._producer._is_only_loss(lost.topic, lost.partition):  # noqa: SLF001  # a seam for this package
            # Its failure is dealt with: in gapless mode, the records behind it may go on. Where others were lost with it, they
            # may go on when the program has read one of these failures.
            lost.exception()
        self._settle()

    def _fail_letter(self, error: BaseException) -> None:
        self._letter_error = error
        self._settle()

    # -- the end

    def _settle(self) -> None:
        self._is_settled = self._is_placed = True
        # The user's objects.
        self._record = self._ready = None
        self._wake()
        if self._on_settled is not None:
            on_settled, self._on_settled = self._on_settled, None
            on_settled(self)

    def _wake(self) -> None:
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    async def _until(self, holds: Callable[[], bool]) -> None:
        while not holds():
            waiter = self._loop.create_future()
            self._waiters.append(waiter)
            try:
                await waiter
            finally:
                # A program may ask again and again for a while.
                if waiter in self._waiters:
                    self._waiters.remove(waiter)

    def _hurry(self) -> None:
        self._is_urgent = True
        delivery = self._letter or self._delivery
        if delivery is not None and not delivery.done():
            hurry(delivery)

    def see(self) -> None:
        """The program learns of the outcome: in gapless mode, records behind a failure may be sent again."""
        if not self._seen:
            self._seen = True
            if self._delivery is not None and self._error is not None:
                self._delivery.exception()
            if self._letter is not None and self._letter_error is not None:
                self._letter.exception()

    def __del__(self) -> None:
        # The attribute is missing where memory ended during construction.
        error = getattr(self, "_error", None)
        if error is not None and not self._seen and not self._is_reported and not self._is_aside:
            log.error(
                "a record was neither written nor set aside, and the program never read its outcome: %s",
                error,
            )


def _note_of(error: BaseException) -> str:
    """The note about a dead letter in the error of its record."""
    is_unknown = isinstance(error, KafkaError) and error.outcome is Outcome.UNKNOWN
    found = "may not be written" if is_unknown else "was not written"
    return f"its dead letter {found}: {text_of(error) or type(error).__name__}"


def _limit_of(timeout: Any) -> float | None:
    """As `Delivery.wait()` has it: a negative time counts as 0, and infinity is no limit."""
    if not isinstance(timeout, bool) and isinstance(timeout, (int, float)):
        if timeout < 0:
            return 0.0
        if timeout == math.inf:
            return None
    return checked_timeout("timeout", timeout)

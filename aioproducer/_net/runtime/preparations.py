"""The preparation of serializers: one `prepare()` at a time for each topic and part, for any number of waiting calls."""

from __future__ import annotations

import asyncio
import inspect
from collections import deque
from contextvars import Context, copy_context
from typing import TYPE_CHECKING, Any

import attrs

from aioproducer._net.observing.failures import END_OF_THE_PROGRAM
from aioproducer._net.runtime.serializer_tasks import GRACE
from aioproducer.errors import SerializationError
from aioproducer.serializers import is_retriable

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from aioproducer._net.log import Log
    from aioproducer._net.runtime.serializer_tasks import SerializerTasks
    from aioproducer._state.admission.ready import PlainHeaders
    from aioproducer.serializers import Bound, Part, Unserialized


@attrs.define(eq=False)
class Preparation:
    """One call of `prepare()`, or of `warm()`, that waits for its turn."""

    topic: str
    part: Part
    method: str
    call: Callable[[], Any]
    # The preparation ends then, or after the limit of the producer, whichever comes later.
    until: float
    # The serializer.
    owner: Any
    # True for the record of the preparation; False for others, which call their serializer again. None: no record
    # waits.
    over: asyncio.Future[bool] | None = None
    # The reason that it had when its time was over.
    reason: BaseException | None = None
    context: Context = attrs.Factory(copy_context)

    @property
    def left(self) -> bool:
        """True when the record of the preparation no longer waits."""
        return self.over is not None and self.over.done()

    def trouble(self) -> BaseException | None:
        """The reason why it has not ended yet, if the serializer tells one."""
        if self.reason is not None:
            return self.reason
        ask = getattr(self.owner, "trouble_of_prepare", None)
        if not callable(ask):
            return None
        try:
            cause = ask(self.topic)
        except END_OF_THE_PROGRAM:
            raise
        except BaseException:  # noqa: BLE001  # user code, which is asked for an explanation only
            return None
        return cause if isinstance(cause, BaseException) else None

    def succeeded(self) -> None:
        """The serializer was prepared for this record."""
        if self.over is not None and not self.over.done():
            self.over.set_result(True)

    def try_again(self) -> None:
        """The serializer was prepared for another record, which may be enough for this one."""
        if self.over is not None and not self.over.done():
            self.over.set_result(False)

    def failed(self, error: SerializationError) -> None:
        """The record is refused."""
        if self.over is not None and not self.over.done():
            self.over.set_exception(error)


class Preparations:
    """The preparations of one producer."""

    def __init__(
        self, tasks: SerializerTasks, loop: asyncio.AbstractEventLoop, limit: float, log: Log
    ) -> None:
        self._tasks = tasks
        self._loop = loop
        self._limit = limit
        self._log = log
        self._waiting: dict[tuple[str, Part], deque[Preparation]] = {}
        self._running: set[asyncio.Task[Any]] = set()
        self._ended = False
        # The count for all topics: a serializer's answer from before the last preparation may no longer hold.
        self.succeeded = 0

    async def prepared(self, missing: Unserialized, topic: str, headers: PlainHeaders, until: float) -> bool:
        """Wait for a preparation: True for one with this record, False for one with another. Raises its error.

        A cancelled call does not stop the preparation: other calls may wait for it, and the next call would begin it
        again.
        """
        preparation = self._of(missing, topic, headers, until)
        over: asyncio.Future[bool] = self._loop.create_future()
        preparation.over = over
        self._join(preparation)
        try:
            return await over
        except BaseException:
            self._leave(preparation)
            raise

    def begin(self, missing: Unserialized, topic: str, headers: PlainHeaders) -> None:
        """Prepare the serializer for later records, unless a preparation of this topic and part is under way."""
        if (topic, missing.serializer.part) not in self._waiting:
            self._join(self._of(missing, topic, headers, 0.0))

    def trouble(self, topic: str) -> SerializationError | None:
        """The error of a call that has waited too long for a preparation whose serializer knows the reason."""
        parts: tuple[Part, ...] = ("key", "value")
        for part in parts:
            waiting = self._waiting.get((topic, part))
            cause = waiting[0].trouble() if waiting else None
            if cause is not None:
                text = f"prepare() of the {part} serializer did not end within max_block"
                return SerializationError(
                    text, topic=topic, part=part, cause=cause, retriable=is_retriable(cause)
                )
        return None

    def warm(self, bound: Bound, topic: str) -> None:
        """Call `warm()` of the serializer for a topic before any record."""
        warm = getattr(bound.owner, "warm", None)
        if callable(warm):
            self._join(Preparation(topic, bound.part, "warm", lambda: warm(topic), 0.0, bound.owner))

    def _of(self, missing: Unserialized, topic: str, headers: PlainHeaders, until: float) -> Preparation:
        bound, data = missing.serializer, missing.data
        owner = bound.owner
        return Preparation(
            topic, bound.part, "prepare", lambda: owner.prepare(topic, headers, data), until, owner
        )

    def _join(self, preparation: Preparation) -> None:
        key = preparation.topic, preparation.part
        waiting = self._waiting.get(key)
        if waiting is not None:
            waiting.append(preparation)
        elif not self._ended:
            waiting = self._waiting[key] = deque([preparation])
            try:
                self._start(self._prepare_all(key, waiting))
            except BaseException:
                self._waiting.pop(key, None)
                raise

    def _leave(self, preparation: Preparation) -> None:
        """The call was refused. What goes on may take long: it must not keep the data of all records that waited for it."""
        waiting = self._waiting.get((preparation.topic, preparation.part))
        if waiting and waiting[0] is not preparation and preparation in waiting:
            waiting.remove(preparation)

    def _start(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        task = self._tasks.start(work)
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        return task

    async def _prepare_all(self, key: tuple[str, Part], waiting: deque[Preparation]) -> None:
        try:
            while waiting:
                first = waiting[0]
                if first.left:
                    waiting.popleft()
                    continue
                error = await self._prepare(first)
                if error is None:
                    self.succeeded += 1
                    first.succeeded()
                    # The other calls repeat their serializers, in order. Those that need more come here again.
                    break
                # The failed preparation serves no other record: the next record gets its own.
                first.failed(error)
                # Its call is refused in the next turn, and until then its reason is known here.
                await asyncio.sleep(0)
                waiting.popleft()
        finally:
            del self._waiting[key]
            for each in waiting:
                each.try_again()

    async def _prepare(self, preparation: Preparation) -> SerializationError | None:
        """The error of the preparation, or None."""
        task = preparation.context.run(self._start, _outcome_of(preparation))
        until = max(self._loop.time() + self._limit, preparation.until)
        await asyncio.wait([task], timeout=until - self._loop.time())
        if not task.done():
            # A cancelled serializer no longer waits for anything.
            preparation.reason = preparation.trouble()
            self._tasks.stop(task)
            await asyncio.wait([task], timeout=GRACE)
            return self._refusal(preparation, "did not end in time", preparation.reason)
        cause = asyncio.CancelledError() if task.cancelled() else task.exception() or task.result()
        if cause is None:
            return None
        what = "was cancelled" if isinstance(cause, asyncio.CancelledError) else "failed"
        return self._refusal(preparation, what, cause)

    def _refusal(
        self, preparation: Preparation, what: str, cause: BaseException | None
    ) -> SerializationError:
        text = f"{preparation.method}() of the {preparation.part} serializer {what}"
        # A preparation that ran out of time may succeed the next time.
        retriable = cause is None or is_retriable(cause)
        topic, part = preparation.topic, preparation.part
        error = SerializationError(text, topic=topic, part=part, cause=cause, retriable=retriable)
        if preparation.method == "warm" and not self._ended:
            self._log.warning("%s; the first record prepares it again", error)
        return error

    def end(self) -> None:
        """Cancel all preparations: the producer has ended."""
        self._ended = True
        for task in list(self._running):
            self._tasks.stop(task)


async def _outcome_of(preparation: Preparation) -> BaseException | None:
    """The exception of the call, of any class: it is user code."""
    try:
        answer = preparation.call()
        if inspect.isawaitable(answer):
            await answer
    except (KeyboardInterrupt, SystemExit, GeneratorExit):
        raise
    except BaseException as error:  # noqa: BLE001  # the cause of a refusal
        return error
    return None

"""The records of one `send_batch()`, each of which is written, or its dead letter is, or its error is kept."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from aioproducer._callers.refusals import Reading
from aioproducer._core import failures_were_read, settled
from aioproducer._net.accepting.arrow import is_arrow, listed_times
from aioproducer._net.accepting.columns import BulkCall, taken_over
from aioproducer._state.admission.checking import checked_topic
from aioproducer.errors import KafkaError, StateError
from aioproducer.outlets.kept import kept, kept_headers
from aioproducer.outlets.sent_record import SentRecord
from aioproducer.records import Record

if TYPE_CHECKING:
    from collections.abc import Callable

    from aioproducer._core import BatchDelivery, Sending
    from aioproducer.config import ProducerConfig
    from aioproducer.outlets.dead_letters import DeadLetters
    from aioproducer.producer import Producer

__all__ = ["SentColumns"]


class SentColumns:
    """Sends the columns, and sets aside the records that can never be written when the others have their outcome."""

    def __init__(
        self, letters: DeadLetters[Any, Any], producer: Producer[Any, Any], columns: tuple[Any, ...]
    ) -> None:
        self._letters = letters
        self._producer = producer
        topic, values, keys, _, timestamps, _, timeout = columns
        with Reading(topic):
            self._columns = own = _own(producer.config, *columns)
        # The core reads an Arrow array without its items; its bytes do not change.
        self.sending: Sending[BatchDelivery] = producer.send_batch(
            own.topic,
            values if is_arrow(values) else own.values,
            keys=keys if is_arrow(keys) else own.keys,
            partition=own.partition,
            timestamps=timestamps if is_arrow(timestamps) else own.timestamps,
            headers=own.headers,
            timeout=timeout,
        )
        self._task: asyncio.Task[None] | None = None
        # The failures need not be told to the program.
        self.is_read = False

    def when_settled(self, call: Callable[[KafkaError | None], object]) -> None:
        """Call this once with the first error, or None, when each record has its outcome, or its dead letter has."""
        self._task = asyncio.get_running_loop().create_task(
            self._run(call), name="aioproducer-checkpoint-batch"
        )

    def see(self) -> None:
        """The program learns of the failures: in gapless mode, records behind them may be sent again."""
        if self._many.done():
            failures_were_read(self._many)

    @property
    def _many(self) -> BatchDelivery:
        many = self.sending.delivery
        assert many is not None  # noqa: S101  # that of a send_batch() exists from the beginning
        return many

    async def _run(self, call: Callable[[KafkaError | None], object]) -> None:
        error: KafkaError | None = StateError("the task that waits for the records was cancelled")
        try:
            error = await self._first_error()
        finally:
            call(error)

    async def _first_error(self) -> KafkaError | None:
        result = await settled(self._many)
        failed: list[KafkaError] = []
        aside: list[SentRecord] = []
        for at, error in sorted(result.errors.items()):
            if self._letters.takes(error):
                aside.append(SentRecord(self._letters, self._producer, self._record(at)).set_aside(error))
            else:
                failed.append(error)
        for sent in aside:
            await sent.wait()
            if not sent.dead_lettered and sent.error is not None:
                failed.append(sent.error)
        places = {result.partitions[at] for at in result.errors}
        self.is_read = not failed and all(
            self._producer._is_only_loss(self._columns.topic, place)  # noqa: SLF001  # a seam for this package
            for place in places
        )
        if self.is_read and places:
            # As of a single record: nothing else is missing.
            self.see()
        return failed[0] if failed else None

    def _record(self, at: int) -> Record[Any, Any]:
        columns = self._columns
        return Record(
            columns.topic,
            _item(columns.values, at),
            key=_item(columns.keys, at),
            partition=_item(columns.partition, at),
            timestamp=_item(columns.timestamps, at),
            headers=_item(columns.headers, at),
        )


def _own(
    config: ProducerConfig,
    topic: Any,
    values: Any,
    keys: Any,
    partition: Any,
    timestamps: Any,
    headers: Any,
    timeout: Any,
) -> BulkCall:
    """The columns as `send_batch` reads them, in lists that no one else changes."""
    name = checked_topic(topic)
    times = listed_times(timestamps, name) if is_arrow(timestamps) else timestamps
    own = taken_over(name, values, keys, partition, times, headers, timeout, as_columns=False)
    return own._replace(
        values=_kept(own.values, has_bytes=is_arrow(values) and config.value_serializer is None),
        keys=_kept(own.keys, has_bytes=is_arrow(keys) and config.key_serializer is None),
        headers=kept_headers(own.headers),
    )


def _kept(items: Any, *, has_bytes: bool) -> Any:
    """The items; `has_bytes`: those of an Arrow array whose texts are sent as bytes."""
    if items is None:
        return None
    return [item.encode() if has_bytes and isinstance(item, str) else kept(item) for item in items]


def _item(column: Any, at: int) -> Any:
    """The item of one record; any other object than a list is for all of them."""
    return column[at] if type(column) is list else column

"""The records of one `send_batch()`, each of which is written, or its dead letter is, or its error is kept."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from aioproducer.errors import KafkaError, StateError
from aioproducer.outlets.dead_letters import kept
from aioproducer.outlets.sent_record import SentRecord
from aioproducer.records import Record

if TYPE_CHECKING:
    from aioproducer._core import BatchDelivery, PrefixPart, Sending
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
        # As at acceptance: the caller may fill the same lists again.
        self._columns = tuple(_own(column) for column in columns)
        topic, values, keys, partition, timestamps, headers, timeout = columns
        self.sending: Sending[BatchDelivery] = producer.send_batch(
            topic,
            values,
            keys=keys,
            partition=partition,
            timestamps=timestamps,
            headers=headers,
            timeout=timeout,
        )
        self._task: asyncio.Task[None] | None = None

    def when_settled(self, part: PrefixPart) -> None:
        """Settle this part when each record has its outcome, or its dead letter has."""
        self._task = asyncio.get_running_loop().create_task(
            self._run(part), name="aioproducer-checkpoint-batch"
        )

    async def _run(self, part: PrefixPart) -> None:
        error: BaseException | None = StateError("the task that waits for the records was cancelled")
        try:
            error = await self._first_error()
        finally:
            part.settle(error)

    async def _first_error(self) -> KafkaError | None:
        many = self.sending.delivery
        assert many is not None  # noqa: S101  # that of a send_batch() exists from the beginning
        result = await many
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
        return failed[0] if failed else None

    def _record(self, at: int) -> Record[Any, Any]:
        topic, values, keys, partition, timestamps, headers, _ = self._columns
        return Record(
            topic,
            _item(values, at),
            key=_item(keys, at),
            partition=_item(partition, at) if isinstance(partition, list | tuple) else partition,
            timestamp=_item(timestamps, at),
            headers=_item(headers, at) if _is_one_each(headers) else headers,
        )


def _own(column: Any) -> Any:
    """A column that no one else changes."""
    if type(column) is list or type(column) is tuple:
        return type(column)(kept(item) for item in column)
    if type(column) is dict or type(column).__module__.partition(".")[0] in {"numpy", "pandas"}:
        # NaT and NA of pandas are no columns and have no copy: the call refuses them.
        return column.copy() if hasattr(column, "copy") else column
    return column


def _item(column: Any, at: int) -> Any:
    if column is None:
        return None
    item = column[at]
    # Of an Arrow array.
    return item.as_py() if hasattr(item, "as_py") else item


def _is_one_each(headers: Any) -> bool:
    """True for a sequence with one set of headers per record, and not one set for all."""
    if not isinstance(headers, list | tuple) or not headers:
        return False
    first = headers[0]
    return first is None or not (isinstance(first, tuple) and len(first) == 2 and isinstance(first[0], str))

"""The time limits of waiting calls: a call that has waited too long is refused with the reason of its wait."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aioproducer._state.admission.topic_errors import no_such_partition, said_of_topic, still_unknown
from aioproducer._state.effects import event
from aioproducer.errors import BufferFullError, MetadataTimeoutError

if TYPE_CHECKING:
    from collections.abc import Callable

    from aioproducer._state.admission.lines import Admission
    from aioproducer._state.admission.waiting import Waiting
    from aioproducer.errors import KafkaError


class CallExpiry:
    """Refuses the calls whose time limit has passed."""

    def __init__(self, admission: Admission) -> None:
        self.admission = admission
        self.calls = admission.calls
        self.view = admission.view
        self.accumulator = admission.accumulator
        self.effects = admission.effects
        # The reason of a serializer that is being prepared for a topic, where it knows one.
        self.unprepared: Callable[[str], KafkaError | None] = _unknown

    @event
    def expire(self, now: float) -> None:
        """Refuse the calls that have waited too long."""
        topics: dict[str, None] = {}
        # A call that is watched anew for this same time is due in the next pass.
        over: list[tuple[Waiting, KafkaError]] = []
        for call in list(self.calls.deadlines.pop_due(now)):
            if call.give_up_at > now and not call.ended:
                self.calls.watch(call)
            elif not call.ended:
                # All errors are made before the first refusal: the reason of one call may be another that is refused
                # with it.
                over.append((call, self._waited_too_long(call, now)))
        for call, error in over:
            if not call.ended:
                topics[call.topic] = None
                call.expire(self.calls, error, now)
                if not call.ended:
                    self.calls.watch(call)
        if topics:
            # The freed memory may be enough for the next call of a line.
            self.effects.room()
        for topic in topics:
            self.admission.advance(topic, now)

    def trouble_with(self, topic: str) -> BaseException | None:
        """The reason why a topic is not known: no broker answers, or the error in their answers; None without such a
        reason.
        """
        reach = self.accumulator.cluster.reach
        if self.view.failing:
            return reach.last_error
        code = self.view.error_of(topic)
        if code is not None:
            return said_of_topic(code)
        # After a useless answer the client changes to another broker; meanwhile no connection is open.
        return None if self.view.topic(topic) is not None else reach.missing

    def _waited_too_long(self, call: Waiting, now: float) -> KafkaError:
        waited = now - call.asked_at
        if call.share is not None:
            queue = call.queue
            assert queue is not None  # noqa: S101  # set on joining the line
            trouble = self.accumulator.cluster.trouble_at(queue.node.node_id)
            return BufferFullError(topic=call.topic, partition=queue.index, waited=waited, cause=trouble)
        if not call.prepared:
            text = "the serializer did not finish in time"
            return self.unprepared(call.topic) or BufferFullError(text, topic=call.topic, waited=waited)
        partition, trouble = call.wanted_partition, self.trouble_with(call.topic)
        queues = self.accumulator.cluster.topics.get(call.topic)
        count = 0 if queues is None else len(queues.partitions)
        if trouble is None and partition is not None and 0 < count <= partition:
            confirmed = self.view.confirmed_at(call.topic) >= call.asked_at
            return no_such_partition(call.topic, partition, count, waited, confirmed=confirmed)
        if count and (partition is None or partition < count):
            return self._held_up(call, waited, trouble)
        return still_unknown(call.topic, waited, trouble, partition)

    def _held_up(self, call: Waiting, waited: float, trouble: BaseException | None) -> KafkaError:
        """The error of a call whose topic and partition are known: it waited for earlier calls."""
        line = self.admission.topic_lines.get(call.topic)
        first = None if line is None else line.first()
        if first is not None and first is not call and first.prepared and first.part_in_line() is None:
            text = "an earlier record waits for its partition"
            return MetadataTimeoutError(text, topic=call.topic, waited=waited, cause=trouble)
        text = _held_by(None if first is call else first)
        return BufferFullError(text, topic=call.topic, waited=waited, cause=trouble)


def _unknown(_topic: str) -> None:
    return None


def _held_by(first: Waiting | None) -> str:
    if first is None:
        return "earlier calls used all of its time"
    if first.part_in_line() is not None:
        return "an earlier send_batch() waits for memory"
    return "the serializer of an earlier record did not finish in time"

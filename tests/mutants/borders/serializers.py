"""The mutants of serializers that wait: they are prepared too often, too late, or in the wrong task."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Kind

_PREPARED: Final = "tests/net/accepting/test_not_prepared.py"
_ENCODED: Final = "tests/net/accepting/test_encoded.py"
_STEPS: Final = "tests/net/runtime/test_first_step.py"
_ENDS: Final = "tests/net/runtime/test_serializer_ends.py"

_mutant = Kind("serializers")

SERIALIZERS: Final = (
    _mutant(
        "one-preparation-per-call",
        "_net/runtime/preparations.py",
        "        if waiting is not None:\n            waiting.append(preparation)\n        elif not self._ended:\n",
        "        if not self._ended:\n",
        "A thousand calls that wait for one schema send a thousand requests to the registry.",
        f"{_PREPARED}::test_one_preparation_for_all_that_wait",
    ),
    _mutant(
        "failure-refuses-all-that-wait",
        "_net/runtime/preparations.py",
        "                first.failed(error)\n",
        "                while waiting:\n                    waiting.popleft().failed(error)\n",
        "One record without a schema refuses all records of its topic that wait at that moment.",
        f"{_PREPARED}::test_a_preparation_that_fails",
    ),
    _mutant(
        "failure-wakes-all-that-wait",
        "_net/runtime/preparations.py",
        "                first.failed(error)\n",
        "                first.failed(error)\n                break\n",
        "With the registry down, N waiting calls cost N times N calls of the serializer.",
        f"{_PREPARED}::test_many_preparations_that_fail",
    ),
    _mutant(
        "preparation-without-a-limit",
        "_net/runtime/preparations.py",
        "        await asyncio.wait([task], timeout=until - self._loop.time())\n",
        "        await asyncio.wait([task])\n",
        "A request to the registry that is never answered refuses all records of its topic from then on.",
        f"{_PREPARED}::test_a_preparation_that_hangs_is_given_up",
    ),
    _mutant(
        "limit-of-the-call-is-passed-over",
        "_net/runtime/preparations.py",
        "        until = max(self._loop.time() + self._limit, preparation.until)\n",
        "        until = self._loop.time() + self._limit\n",
        "A send() with a longer max_block is refused after the limit of the producer.",
        f"{_PREPARED}::test_a_longer_max_block_has_a_longer_preparation",
    ),
    _mutant(
        "stale-refusals-are-believed",
        "_net/accepting/serializing.py",
        "                if learned == preparations.succeeded:\n",
        "                if True:\n",
        "Each record of a send_batch() asks the registry again for the schema of the record before it.",
        f"{_PREPARED}::test_send_batch",
    ),
    _mutant(
        "prepared-without-end",
        "_net/accepting/serializing.py",
        "                if was_prepared:\n",
        "                if False:\n",
        "A serializer that always asks for preparation is prepared again and again until max_block is over.",
        f"{_PREPARED}::test_not_prepared_after_its_preparation_is_an_error",
    ),
    _mutant(
        "too-early-fails-the-transaction",
        "producer.py",
        "            if not isinstance(error, BufferFullError) and not running.is_being_prepared(error):\n",
        "            if not isinstance(error, BufferFullError):\n",
        "send_nowait() prepares the same record again, and its transaction can only be aborted.",
        f"{_PREPARED}::test_send_nowait_that_comes_too_early_fails_no_transaction",
    ),
    _mutant(
        "first-step-in-the-task-of-the-caller",
        "_net/runtime/first_step.py",
        "        _set_current_task(self._loop, task)\n        try:\n",
        "        _set_current_task(self._loop, caller or task)\n        try:\n",
        "The time limit of a serializer's request cancels the task that called send().",
        f"{_STEPS}::test_a_time_limit_that_is_entered_in_the_first_step",
    ),
    _mutant(
        "cancelled-before-its-task-has-begun",
        "_net/runtime/first_step.py",
        "        if self._begun:\n            self.task.cancel()\n",
        "        if True:\n            self.task.cancel()\n",
        "A call that is dropped at once has its serializer closed instead of cancelled.",
        f"{_STEPS}::test_a_cancellation_reaches_what_is_awaited",
    ),
    _mutant(
        "spare-task-is-shared",
        "_net/runtime/first_step.py",
        "        spare, self._spare = self._spare, None\n        if spare is not None and spare.usable:\n",
        "        spare = self._spare\n        if spare is not None and spare.usable:\n",
        "Two waiting serializers are given to one task: one of them never ends.",
        _STEPS,
    ),
    _mutant(
        "context-of-the-task",
        "_net/runtime/first_step.py",
        "                    yielded = run(coroutine.send, sent)\n",
        "                    yielded = coroutine.send(sent)\n",
        "After its first await a serializer has lost the context variables of its caller, and the trace with them.",
        f"{_STEPS}::test_one_context_from_the_first_step_to_the_last",
    ),
    _mutant(
        "headers-of-any-pair",
        "_core/accept.pyx",
        "    return serializer is not None and isinstance(made, tuple) and len(<tuple>made) == 2\n",
        "    return isinstance(made, tuple) and len(<tuple>made) == 2\n",
        "A pair as a value without a serializer is written, with its second item taken for headers.",
        f"{_ENCODED}::test_only_a_serializer_can_give_it",
    ),
    _mutant(
        "closed-while-in-use",
        "_net/runtime/preparing.py",
        "                await self._over.wait()\n",
        "                pass\n",
        "The HTTP session of a serializer is closed while its requests are still ending.",
        f"{_ENDS}::test_closed_after_the_last_record",
    ),
    _mutant(
        "closed-twice",
        "_net/runtime/preparing.py",
        "            id(each.owner): each.owner\n",
        "            id(each): each.owner\n",
        "An object that serializes both keys and values is closed twice.",
        f"{_ENDS}::test_one_object_for_both_parts",
    ),
)

"""The mutants of failed allocations: amounts counted too early, and records that are refused and written."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Kind

_STARVATION: Final = "tests/runtime/starvation/test_starvation.py"

_mutant = Kind("memory")

MEMORY: Final = (
    _mutant(
        "marks-counted-before-they-are-there",
        "_core/records.pyx",
        "            capacity = max(2, self._mark_capacity * 2)\n",
        "            capacity = self._mark_capacity = max(2, self._mark_capacity * 2)\n",
        "The block of marks could not grow, and the next marks are written behind its end.",
        _STARVATION,
    ),
    _mutant(
        "places-looked-at-before-they-are-there",
        "_core/delivery_many.pxi",
        "        self._loop = loop\n        self._batches = []\n",
        "        self._loop = loop\n        self.total = total\n        self._batches = []\n",
        "A bulk send without memory for its places reads them while it is dropped.",
        _STARVATION,
    ),
    _mutant(
        "refused-and-written",
        "_core/accept.pyx",
        "            fill(delivery, self._chosen.open, k.size, v.size, stamp)\n            return True\n",
        "            Delivery.__new__(Delivery)\n"
        "            fill(delivery, self._chosen.open, k.size, v.size, stamp)\n            return True\n",
        "The record is in its batch when there is no memory for its delivery: the caller gets MemoryError, and the record is written.",
        _STARVATION,
    ),
    _mutant(
        "refused-and-in-the-line",
        "_state/admission/lines.py",
        "            self.calls.refuse(call, without_memory(call.topic, error))\n            self.advance(call.topic, now)\n",
        "            raise error\n",
        "A call that joins a line finds no memory: it raises and keeps its place, and those behind it wait.",
        _STARVATION,
    ),
    _mutant(
        "alarm-that-is-not-there",
        "_net/timers/wakeup.py",
        "            timer = self._loop.call_at(deadline, self._due, context=self._context)\n            if self._at <= deadline:\n",
        "            self._at = deadline\n            timer = self._loop.call_at(deadline, self._due, context=self._context)\n            if self._at < deadline:\n",
        "Without memory for a timer the next alarms count as later than it, and the task never wakes.",
        "tests/net/timers/test_wakeup.py",
    ),
    _mutant(
        "deadline-forgotten-without-memory",
        "_state/batching/batch_deadlines.py",
        "            except OUT_OF_MEMORY:\n                self.unwatched = True\n",
        "            except OUT_OF_MEMORY:\n                self.unwatched = False\n",
        "A record whose own deadline found no memory waits until the common deadline.",
        "tests/state/batching/test_own_deadlines.py",
    ),
    _mutant(
        "place-without-memory-for-it",
        "_core/delivery_many.pxi",
        "        self._batches.append(None)\n        self._has_room = True\n",
        "        self._batches.append(None)\n        self._batches.pop()\n",
        "A record of a bulk send is appended and finds no place in its list: it is refused, and written.",
        _STARVATION,
    ),
    _mutant(
        "loss-told-after-the-outcome",
        "_state/delivery/losses.py",
        "        if batch.pending:\n            self.effects.losses.append(error)\n        self.outcomes.conclude(batch, error, now)\n",
        "        lost = batch.pending\n        self.outcomes.conclude(batch, error, now)\n        if lost:\n            self.effects.losses.append(error)\n",
        "A record fails without memory behind its outcome, and its transaction is committed without it.",
        "tests/net/runtime/test_effects_without_memory.py",
    ),
    _mutant(
        "commit-of-a-producer-that-ends",
        "_net/transactions/steps.py",
        "            elif self._host.crashed is not None:\n",
        "            elif False:\n",
        "A refusal ends without memory, and the transaction is committed before the producer has ended.",
        "tests/net/runtime/test_effects_without_memory.py",
    ),
    _mutant(
        "batch-without-a-record",
        "_core/accept.pyx",
        "                partition.unroll()\n                raise\n",
        "                raise\n",
        "A batch is opened, its first record finds no memory, and the empty batch is sent.",
        "tests/state/batching/test_opening.py",
    ),
)

"""The mutants of memory that fails: what was counted before it was there, and records that were refused and written."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Kind

_STARVATION: Final = "tests/runtime/test_starvation.py"

_mutant = Kind("memory")

MEMORY: Final = (
    _mutant(
        "marks-counted-before-they-are-there",
        "_core/records.pyx",
        "            capacity = max(2, self._mark_capacity * 2)\n",
        "            capacity = self._mark_capacity = max(2, self._mark_capacity * 2)\n",
        "The block of marks could not grow, and the next ones are written behind its end.",
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
        "The record is in its batch when there is no memory for its delivery: the caller is told MemoryError, and it is written.",
        _STARVATION,
    ),
    _mutant(
        "batch-without-a-record",
        "_core/accept.pyx",
        "            partition.unroll()\n            raise\n",
        "            raise\n",
        "A batch is opened, its first record finds no memory, and the empty batch is sent.",
        "tests/state/test_opening.py",
    ),
)

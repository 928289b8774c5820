"""The faults of each attempt of each task: decided by a seed and the task's numbers alone."""

from __future__ import annotations

import enum
import json
import random
from typing import Final

import attrs

__all__ = ["Fault", "Faults"]

# Spark gives a task four attempts, and kills of brokers and executors need some of them.
FAULTY_ATTEMPTS: Final = 2


class Fault(enum.Enum):
    """The fault of an attempt."""

    RAISES_BEFORE = "raised before the commit"
    EXITS_IN_THE_MIDDLE = "exited in mid-transaction"
    EXITS_WITH_ALL_SENT = "exited with all rows sent"
    EXITS_ABOUT_THE_COMMIT = "exited about the commit"
    EXITS_BEHIND = "exited behind the commit"
    RAISES_BEHIND = "raised behind the commit"


@attrs.frozen
class Faults:
    """The faults of one query."""

    seed: int
    # Its name in the diary.
    query: str
    # The folder of the diary, and of the markers of one-time events.
    folder: str
    tasks: int
    # Epochs from this number on have no faults.
    epochs: int
    # The probability that an attempt fails by chance.
    likely: float
    # Epochs of which the driver's commit() fails, once.
    commits: tuple[int, ...] = ()
    # Epochs with an event of a whole process: they do not end before the test lets them.
    incidents: tuple[int, ...] = ()
    # Epochs in which one attempt waits until Spark's speculation has begun another one of its task.
    waits: tuple[int, ...] = ()

    def write(self) -> str:
        """The faults as an option."""
        return json.dumps(attrs.asdict(self))

    @classmethod
    def read(cls, option: str) -> Faults:
        """The faults of an option that `write` has made."""
        facts = json.loads(option)
        return cls(**facts | {name: tuple(facts[name]) for name in ("commits", "incidents", "waits")})

    def of(self, epoch: int, partition: int, attempt: int) -> Fault | None:
        """One task of every epoch fails, each time differently; others by chance, except in epochs with an incident."""
        if epoch >= self.epochs or attempt >= FAULTY_ATTEMPTS:
            return None
        if attempt == 0 and partition == self._failing(epoch):
            return list(Fault)[(self.seed + epoch) % len(Fault)]
        if epoch in self.incidents or epoch in self.waits:
            return None
        rng = random.Random(f"{self.seed} {epoch} {partition} {attempt}")
        return rng.choice(list(Fault)) if rng.random() < self.likely else None

    def has_fault(self, epoch: int, partition: int) -> bool:
        """Whether an attempt of this task fails."""
        return any(self.of(epoch, partition, attempt) is not None for attempt in range(FAULTY_ATTEMPTS))

    def has_wait(self, epoch: int, partition: int) -> bool:
        """Whether one attempt of this task waits for another one; the task that fails in each epoch is not it."""
        return epoch in self.waits and partition == (self._failing(epoch) + 1) % self.tasks

    def _failing(self, epoch: int) -> int:
        """The task whose first attempt fails."""
        return random.Random(f"{self.seed} {epoch}").randrange(self.tasks)

    def seconds_about_the_commit(self, epoch: int, partition: int) -> float:
        """The time from its last row to the end of an attempt: a commit takes some milliseconds."""
        return random.Random(f"{self.seed} {epoch} {partition}").uniform(0, 0.03)

"""Which faults befall which attempt of which task: decided by a seed and the task's numbers, by nothing else."""

from __future__ import annotations

import enum
import json
import random
from typing import Final

import attrs

__all__ = ["Fault", "Faults"]

# Spark gives a task four attempts, and brokers and executors that are killed need some of them.
FAULTY_ATTEMPTS: Final = 2


class Fault(enum.Enum):
    """What happens to an attempt."""

    RAISES_BEFORE = "raised before the commit"
    EXITS_IN_THE_MIDDLE = "exited in mid-transaction"
    EXITS_WITH_ALL_SENT = "exited with all rows sent"
    EXITS_ABOUT_THE_COMMIT = "exited about the commit"
    EXITS_BEHIND = "exited behind the commit"
    RAISES_BEHIND = "raised behind the commit"


@attrs.frozen
class Faults:
    """Of one query."""

    seed: int
    # What it is called in the diary.
    query: str
    # Where the diary is, and what was done once.
    folder: str
    tasks: int
    # Those from this on are left alone.
    epochs: int
    # How likely an attempt fails that does not have to.
    likely: float
    # Epochs of which the driver's commit() fails, once.
    commits: tuple[int, ...] = ()
    # Epochs in which something happens to a whole process: they do not end before the test lets them.
    incidents: tuple[int, ...] = ()

    def write(self) -> str:
        """As an option."""
        return json.dumps(attrs.asdict(self))

    @classmethod
    def read(cls, option: str) -> Faults:
        """What `write` has made."""
        facts = json.loads(option)
        return cls(**facts | {name: tuple(facts[name]) for name in ("commits", "incidents")})

    def of(self, epoch: int, partition: int, attempt: int) -> Fault | None:
        """One task of every epoch fails, each time in another way; others may, but where something else happens as well."""
        if epoch >= self.epochs or attempt >= FAULTY_ATTEMPTS:
            return None
        if attempt == 0 and partition == random.Random(f"{self.seed} {epoch}").randrange(self.tasks):
            return list(Fault)[(self.seed + epoch) % len(Fault)]
        if epoch in self.incidents:
            return None
        rng = random.Random(f"{self.seed} {epoch} {partition} {attempt}")
        return rng.choice(list(Fault)) if rng.random() < self.likely else None

    def seconds_about_the_commit(self, epoch: int, partition: int) -> float:
        """So long after its last row an attempt is gone: a commit takes some milliseconds."""
        return random.Random(f"{self.seed} {epoch} {partition}").uniform(0, 0.03)

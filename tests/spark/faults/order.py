"""The order of a run under faults, as the argument of its driver: the rows, where they go, and what happens to them."""

from __future__ import annotations

import json

import attrs

from tests.spark.faults.injected import Faults

__all__ = ["Order"]

BATCHES_OF_A_TASK = 4
_TUPLES = ("commits", "incidents", "waits")


@attrs.frozen
class Order:
    """The rows of streams or of jobs, and their faults; an epoch is a micro-batch of a stream, or a job."""

    # The options of the sink that lead to the cluster.
    connection: dict[str, str]
    # For checkpoints, the diary and all other files of Spark.
    folder: str
    # The topic of each guarantee.
    topics: dict[str, str]
    master: str
    seed: int
    epochs: int
    # Rows of an epoch.
    rows: int
    tasks: int
    likely: float
    commits: tuple[int, ...]
    # Epochs in which whole processes end.
    incidents: tuple[int, ...]
    # Epochs in which one attempt waits for another one of its task.
    waits: tuple[int, ...] = ()
    # Of Spark.
    settings: dict[str, str] = attrs.field(factory=dict)

    def write(self) -> str:
        """The order as an argument."""
        return json.dumps(attrs.asdict(self))

    @classmethod
    def read(cls, argument: str) -> Order:
        """The order of an argument."""
        facts = json.loads(argument)
        return cls(**facts | {name: tuple(facts[name]) for name in _TUPLES})

    def faults(self, delivery: str) -> Faults:
        """The faults of a guarantee, the same for both."""
        return Faults(
            self.seed,
            delivery,
            self.folder,
            self.tasks,
            self.epochs,
            self.likely,
            self.commits,
            self.incidents,
            self.waits,
        )

    @property
    def arrow(self) -> dict[str, str]:
        """Spark's setting that gives each task some Arrow batches."""
        each = max(self.rows // self.tasks // BATCHES_OF_A_TASK, 1)
        return {"spark.sql.execution.arrow.maxRecordsPerBatch": str(each)}

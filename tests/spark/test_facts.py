"""The facts of a task, from Spark's context."""

from __future__ import annotations

import attrs
import pytest
from pyspark import TaskContext

from aioproducer.spark.facts import TaskFacts


@attrs.frozen
class _Context:
    """A context like Spark's, with one property."""

    speculation: str | None

    def partitionId(self) -> int:  # noqa: N802  # Spark's
        return 3

    def taskAttemptId(self) -> int:  # noqa: N802  # Spark's
        return 7

    def getLocalProperty(self, name: str) -> str | None:  # noqa: N802  # Spark's
        return self.speculation if name == "spark.speculation" else None


@pytest.mark.parametrize(
    ("value", "expected"), [("true", True), ("TRUE", True), ("false", False), (None, False)]
)
def test_speculation_is_known_as_spark_reads_it(
    monkeypatch: pytest.MonkeyPatch, value: str | None, expected: bool
) -> None:
    """Spark ignores the case of true and false."""
    monkeypatch.setattr(TaskContext, "get", lambda: _Context(value))
    facts = TaskFacts.here()
    assert (facts.partition, facts.attempt, facts.speculation) == (3, 7, expected)

"""The parts of examples/pipeline that need no Spark; tests/spark/pipeline runs the others."""

from __future__ import annotations

from pathlib import Path

import pytest

from aioproducer.spark.auditing import Verdict
from aioproducer.spark.auditing.bruteforce import Counted
from aioproducer.spark.auditing.verdict import judge
from examples.pipeline.demo import report
from examples.pipeline.orders import Orders, wrong_sums
from examples.pipeline.topic import Stretch, limited, stretches
from tests.examples.programs import example
from tests.repo.source import ROOT

# Only the environment with a Java has pyspark.
pytestmark = [pytest.mark.kafka]


def test_an_epoch_takes_the_same_part_of_each_partition() -> None:
    """A partition with more records has more of them in an epoch; the last epoch has all that are left."""
    start, end = {"0": 0, "1": 10}, {"0": 300, "1": 110, "2": 0}
    assert limited(start, end, 100) == {"0": 75, "1": 35, "2": 0}
    assert limited(start, end, 400) == end
    assert limited(end, end, 100) == end
    assert stretches(start, {"0": 75, "1": 10, "2": 0}) == [Stretch(0, 0, 75)]


def verdict_of(found: int, expected: int) -> Verdict:
    """The verdict on a topic with the first of so many records."""
    counted = {"till 0": Counted(found, found, found - 1, 0)} if expected else {}
    return judge([], counted, {"till 0": expected} if expected else {}, ["sales"], "read_committed")


@pytest.mark.parametrize(
    ("verdict", "wrong", "code"),
    [(verdict_of(0, 0), [], 0), (verdict_of(0, 3), [], 1), (verdict_of(0, 0), ["a sum"], 1)],
    ids=["clean", "lost", "a wrong sum"],
)
def test_the_exit_code_of_the_demonstration(
    verdict: Verdict, wrong: list[str], code: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is 1 if the audit is not clean, or a sum is wrong; there is a picture in any case."""
    assert report(verdict, wrong, tmp_path / "report.png") == code
    assert (tmp_path / "report.png").read_bytes().startswith(b"\x89PNG")
    assert ("NOT CLEAN" in capsys.readouterr().out) == (not verdict.is_clean)


def test_a_wrong_sum_is_named() -> None:
    """An order that was counted twice changes the sum: the marks of the audit do not show that."""
    value = b'sums of till 0:0:00000000:{"shop":"till 0","start":"2026-01-01T00:00:00.000Z","orders":121,"pence":1}'
    (found,) = wrong_sums(Orders(700), iter([value]))
    assert found.startswith("the sum of till 0, window 0: ")


def test_make_runs_the_demonstration() -> None:
    """The command of the Makefile is that of the example."""
    assert (
        f"-m examples.{example('pipeline').name}.demo build/pipeline-report.png"
        in (ROOT / "Makefile").read_text()
    )

"""Spark's Python workers on a busy machine, where they start slowly."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

from pyspark.errors import PySparkException

T = TypeVar("T")

ATTEMPTS: Final = 6
# Of a query, and of a server of Spark Connect.
WORKER_IS_LATE: Final = (
    "Python worker failed to connect back",
    "Timed out while waiting for the Python worker to connect back",
)


def with_workers(start: Callable[[], T], *, before_another: Callable[[], object] = lambda: None) -> T:
    """The result, once Spark has its Python workers.

    Spark gives a worker 10 s from its start to its connection, which no setting changes. It imports pandas and PyArrow, and for
    Spark Connect gRPC, in that time: on a busy machine that takes longer. The query does not start, and may be started again.
    """
    for _ in range(ATTEMPTS - 1):
        try:
            return start()
        except PySparkException as error:
            if not any(each in str(error) for each in WORKER_IS_LATE):
                raise
        before_another()
    return start()

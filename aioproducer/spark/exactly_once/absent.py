"""Tasks of an earlier run of an epoch that are absent in the repeated run: their rows belong to other tasks now.

An absent task is not repeated, so no task finds its mark. Only the driver knows the number of tasks, and only after
their end: Spark does not pass it to tasks in Python.
"""

from __future__ import annotations

import re
from typing import Final

import anyio

from aioproducer import ProducerConfig, ProtocolError, fence, list_transactions
from aioproducer.documentation import page
from aioproducer.spark.exactly_once.jobs import LOOKS, SECONDS_BETWEEN_LOOKS
from aioproducer.spark.exactly_once.markers import (
    Mark,
    OtherRowsError,
    Place,
    marks_at,
    marks_kept,
    transactional_name,
)
from aioproducer.spark.options import SinkOptions, settings_of
from aioproducer.spark.shipping.summary import log

__all__ = ["may_be_repeated", "require_no_absent_tasks"]

# By name, the newest run and epoch of the query in this process.
_last: Final[dict[str, tuple[str | None, int]]] = {}


def may_be_repeated(name: str, run: str | None, epoch: int) -> bool:
    """Whether this epoch may have begun before: in a run of the query, each later epoch follows a completed one."""
    last = _last.get(name)
    _last[name] = (run, epoch)
    # Without the name of its run, another process may have begun the epoch.
    return run is None or last is None or last[0] != run or epoch <= last[1]


async def require_no_absent_tasks(options: SinkOptions, name: str, epoch: int, tasks: int) -> None:
    """Raise if a task with a number above those of this run has committed rows of this epoch, or of a later one.

    Such tasks are fenced first: none of them can commit afterwards. The ledger also has the marks of tasks that brokers
    no longer list.
    """
    assert options.marker_topic is not None  # noqa: S101  # the options were checked
    config, prefix = options.producer, f"{transactional_name(name)}-"
    marks: list[tuple[Place, Mark]] = []
    try:
        numbers = await _tasks_listed(config, prefix, epoch, tasks)
    except ProtocolError as error:
        log.warning(
            "an epoch that is repeated with fewer tasks than before is %s: the brokers do not list transactional ids "
            "(Kafka 3.0 and later do): %s",
            "not detected" if options.ledger_topic is None else "detected only where those tasks have ended",
            error,
        )
    else:
        names = [f"{prefix}{number}" for number in sorted(numbers) if number >= tasks]
        if names:
            await fence(names, config.bootstrap_servers, **settings_of(config))
            marks += await marks_at([Place(each, options.marker_topic) for each in names], config)
    if options.ledger_topic is not None:

        def is_absent(group: str) -> bool:
            return _number(group, prefix) >= tasks

        marks += await marks_kept(options.ledger_topic, prefix, options.marker_topic, is_absent, config)
    late = sorted({place.name for place, mark in marks if mark.epoch >= epoch})
    if late:
        raise OtherRowsError(
            f"epoch {epoch} was repeated with {tasks} tasks, and {late[0]!r}, which is not one of them, has committed rows of it "
            "in an earlier run: rows may be in the topic twice. The source or the plan has fewer partitions than before. See "
            f"{page('spark.md#other-rows')}"
        )


async def _tasks_listed(config: ProducerConfig, prefix: str, epoch: int, tasks: int) -> set[int]:
    """The numbers of all tasks that brokers know; a listing without recently ended tasks is incomplete."""
    numbers: set[int] = set()
    for look in range(LOOKS):
        if look:
            await anyio.sleep(SECONDS_BETWEEN_LOOKS)
        listings = await list_transactions(prefix, config.bootstrap_servers, **settings_of(config))
        numbers |= {_number(one.transactional_id, prefix) for one in listings}
        if numbers.issuperset(range(tasks)):
            return numbers
    log.warning(
        "brokers did not list all transactional ids of epoch %d: the epoch may have been repeated with fewer tasks than "
        "before",
        epoch,
    )
    return numbers


def _number(transactional_id: str, prefix: str) -> int:
    """The number of the task with this id; -1 for an id of no task."""
    found = re.fullmatch(r"\d+", transactional_id.removeprefix(prefix))
    return -1 if found is None else int(found[0])

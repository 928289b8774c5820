"""Helpers of the tests of examinations."""

from __future__ import annotations

from typing import Any

from aioproducer import ProducerConfig
from aioproducer.doctor import Check, Report, Status, examine
from aioproducer.testing import EmbeddedKafka

LIMIT = 5.0


async def examined(servers: str, *topics: str, **flags: Any) -> Report:
    """The report; flags of `examine` are taken out of the settings."""
    options = {
        name: flags.pop(name) for name in ("probe", "transactional_id", "timeout", "strict") if name in flags
    }
    return await examine(ProducerConfig(servers, **flags), topics, **{"timeout": LIMIT, **options})


def of(report: Report, kind: str) -> list[Check]:
    """The checks with this id."""
    return [check for check in report.checks if check.id == kind]


def one(report: Report, kind: str) -> Check:
    """The only check with this id."""
    [check] = of(report, kind)
    return check


def bad(report: Report) -> dict[str, list[str]]:
    """Failures and warnings: summaries by id."""
    found: dict[str, list[str]] = {}
    for check in report.checks:
        if check.status in (Status.FAIL, Status.WARN):
            found.setdefault(check.id, []).append(check.summary)
    return found


def advertise(kafka: EmbeddedKafka, broker: int, host: str, port: int | None = None) -> None:
    """Let the cluster tell this address of a broker."""

    def change(answer: Any) -> Any:
        return answer._replace(
            brokers=[
                each._replace(host=host, port=each.port if port is None else port)
                if each.node_id == broker
                else each
                for each in answer.brokers
            ]
        )

    kafka.faults.alter(change, api="Metadata", times=None)

"""The findings of producer ids and transactional ids."""

from __future__ import annotations

from typing import Final

import attrs

from aioproducer._state.diagnosing.finding import Finding, counted, duration
from aioproducer._wire.error_codes import ErrorCode, describe
from aioproducer.errors import printable

__all__ = [
    "TransactionFacts",
    "coordinator_refused",
    "idempotence_finding",
    "no_producer_ids",
    "transaction_finding",
]

_ONGOING: Final = "Ongoing"


@attrs.frozen
class TransactionFacts:
    """The state of a transactional id at its coordinator; times in seconds, `started` since the epoch."""

    code: int
    coordinator: str
    state: str = ""
    started: float = -1.0
    timeout: float = 0.0
    partitions: int = 0


def idempotence_finding(code: int) -> Finding:
    """The finding of an answer to InitProducerId without a transactional id."""
    if code == ErrorCode.NONE:
        return Finding.ok("a producer id was given")
    if code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
        return Finding.fail(
            "not authorized to get a producer id",
            "Grant this principal the ACL WRITE on a topic (from Kafka 2.8 on that suffices) or IDEMPOTENT_WRITE on the cluster, or set "
            "enable.idempotence=false.",
            error=describe(code),
        )
    return Finding.fail(
        f"no producer id was given: {describe(code)}",
        "Look at the log of the broker; without producer ids, set enable.idempotence=false.",
        error=describe(code),
    )


def no_producer_ids() -> Finding:
    """The finding where no broker has a version of InitProducerId that this client knows."""
    return Finding.fail(
        "the brokers give no producer ids", "Set enable.idempotence=false, or use brokers from Kafka 0.11 on."
    )


def coordinator_refused(transactional_id: str, code: int) -> Finding:
    """The finding where no coordinator was found."""
    name = printable(transactional_id)
    if code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED:
        return _not_authorized(name)
    return Finding.fail(
        f"{name}: there is no coordinator ({describe(code)})",
        "Check that the topic __transaction_state exists and has leaders: on a small cluster, "
        "transaction.state.log.replication.factor must not exceed the number of brokers.",
        error=describe(code),
    )


def transaction_finding(transactional_id: str, facts: TransactionFacts, now: float) -> Finding:
    """The finding of a transactional id, as its coordinator describes it."""
    name = printable(transactional_id)
    detail = {"state": facts.state or None, "coordinator": facts.coordinator}
    if facts.code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
        return Finding.ok(f"{name}: not in use, coordinator {facts.coordinator}", **detail)
    if facts.code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED:
        return _not_authorized(name)
    if facts.code != ErrorCode.NONE:
        return Finding.fail(
            f"{name}: the coordinator {facts.coordinator} refused to describe it: {describe(facts.code)}",
            "Look at the log of this broker.",
            error=describe(facts.code),
            **detail,
        )
    if facts.state != _ONGOING:
        return Finding.ok(f"{name}: {printable(facts.state)}, coordinator {facts.coordinator}", **detail)
    since = duration(max(0.0, now - facts.started))
    return Finding.warn(
        f"{name}: Ongoing for {since}, in {counted(facts.partitions, 'partition')}; coordinator {facts.coordinator}",
        "A producer has an open transaction under this id: readers of committed records wait for its end. It is aborted after "
        f"{duration(facts.timeout)} (transaction.timeout.ms). A second producer with this id would fence the first one.",
        ongoing_seconds=round(max(0.0, now - facts.started), 3),
        timeout_seconds=facts.timeout,
        **detail,
    )


def _not_authorized(name: str) -> Finding:
    return Finding.fail(
        f"{name}: not authorized",
        f"Grant this principal the ACLs DESCRIBE and WRITE on the transactional id {name}.",
        error=describe(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED),
    )

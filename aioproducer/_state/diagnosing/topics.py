"""The findings of a topic: its partitions, their leaders and replicas, its settings, the permission to write."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Final

import attrs

from aioproducer._state.admission.topic_errors import may_write
from aioproducer._state.diagnosing.finding import Finding, Status, counted, listed
from aioproducer._wire.error_codes import ErrorCode, describe
from aioproducer._wire.messages.metadata import MetadataResponsePartition, MetadataResponseTopic

__all__ = ["Wanted", "is_compacted", "topic_findings", "unknown_topic"]

_NO_LEADER: Final = -1
_ISR: Final = "min.insync.replicas"
_SIZE: Final = "max.message.bytes"
_POLICY: Final = "cleanup.policy"


@attrs.frozen
class Wanted:
    """The facts beside the topic that its findings depend on.

    `unreachable`: the brokers that cannot be reached; `creates`: whether brokers create missing topics, None where that is
    not known; `unread`: the reason for which no broker tells the settings of topics.
    """

    needs_all_replicas: bool
    max_request_size: int
    unreachable: Collection[int] = ()
    creates: bool | None = None
    unread: str | None = None


def topic_findings(
    topic: MetadataResponseTopic, configs: Mapping[str, str | None] | None, wanted: Wanted
) -> list[Finding]:
    """All findings of a topic, the worst first. `configs` None: this client may not read the settings."""
    refused = _refused(topic, wanted)
    if refused is not None:
        return [refused]
    found = [
        *_permission(topic),
        *_leaders(topic, wanted),
        *_replicas(topic, _least_in_sync(configs), wanted),
        *_size(configs, wanted),
        *_unread(wanted),
    ]
    order = (Status.FAIL, Status.WARN)
    found.sort(key=lambda each: order.index(each.status))
    whole = _whole(topic, configs, wanted, writable=not any(_permission(topic)))
    return [*found, whole]


def unknown_topic() -> Finding:
    """The finding of a topic that the answer of the brokers does not have."""
    return Finding.fail(
        "the brokers' answer does not have it", "Look at the log of the broker that was asked."
    )


def _refused(topic: MetadataResponseTopic, wanted: Wanted) -> Finding | None:
    code = topic.error_code
    if code == ErrorCode.TOPIC_AUTHORIZATION_FAILED:
        return Finding.fail(
            "not authorized to see it",
            "Grant this principal the ACLs WRITE and DESCRIBE on the topic.",
            error=describe(code),
        )
    if code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        would = {
            True: "the first record would create it (auto.create.topics.enable)",
            False: "the brokers create no topics by themselves",
            None: "whether the first record would create it is not known",
        }[wanted.creates]
        return Finding.fail(
            f"it does not exist; {would}",
            "Check the name, or create the topic with the partitions and replicas that it needs.",
            error=describe(code),
            would_be_created=wanted.creates,
        )
    if code != ErrorCode.NONE and not topic.partitions:
        return Finding.fail(
            f"the brokers do not describe it: {describe(code)}",
            "Check the name of the topic.",
            error=describe(code),
        )
    return None


def _permission(topic: MetadataResponseTopic) -> Iterator[Finding]:
    if not may_write(topic.topic_authorized_operations):
        yield Finding.fail(
            "not writable by this principal", "Grant this principal the ACL WRITE on the topic."
        )


def _leaders(topic: MetadataResponseTopic, wanted: Wanted) -> Iterator[Finding]:
    without = [each.partition_index for each in topic.partitions if each.leader_id == _NO_LEADER]
    if without:
        yield Finding.fail(
            f"{_named(without)} {_has(without)} no leader",
            "Start the brokers that hold their replicas: records of these partitions wait, and then fail.",
            partitions=without,
        )
    led_by: dict[int, list[int]] = defaultdict(list)
    for each in topic.partitions:
        if each.leader_id in wanted.unreachable:
            led_by[each.leader_id].append(each.partition_index)
    for leader, partitions in sorted(led_by.items()):
        verb = "is" if len(partitions) == 1 else "are"
        yield Finding.fail(
            f"{_named(partitions)} {verb} led by broker {leader}, which cannot be reached",
            f"See the advice for broker {leader}: records of these partitions fail after delivery.timeout.ms.",
            partitions=partitions,
            leader=leader,
        )


def _replicas(topic: MetadataResponseTopic, least: int | None, wanted: Wanted) -> Iterator[Finding]:
    groups: dict[tuple[int, int], list[MetadataResponsePartition]] = defaultdict(list)
    for each in topic.partitions:
        if each.leader_id != _NO_LEADER:
            groups[len(each.isr_nodes), len(each.replica_nodes)].append(each)
    for (in_sync, replicas), partitions in sorted(groups.items()):
        finding = _of_replicas(in_sync, replicas, partitions, least, wanted)
        if finding is not None:
            yield finding


def _of_replicas(
    in_sync: int,
    replicas: int,
    partitions: Sequence[MetadataResponsePartition],
    least: int | None,
    wanted: Wanted,
) -> Finding | None:
    indexes = [each.partition_index for each in partitions]
    missing = sorted({one for each in partitions for one in each.replica_nodes if one not in each.isr_nodes})
    state = f"{_named(indexes)}: {in_sync} of {counted(replicas, 'replica')} in sync"
    detail: dict[str, Any] = {"partitions": indexes, "in_sync": in_sync, "replicas": replicas}
    detail["missing"] = missing
    brokers = f"broker{'' if len(missing) == 1 else 's'} {listed(missing)}"
    bring_back = f"Bring the missing replicas back: look at {brokers}."
    if least is not None and wanted.needs_all_replicas:
        detail["min_insync_replicas"] = least
        if in_sync == replicas < least:
            return Finding.fail(
                f"{state}; {_ISR} is {least}, more than there are replicas: brokers before Kafka 3.7 refuse writes with acks=all, "
                f"later ones count it as {replicas}",
                f"Lower {_ISR}, or add replicas.",
                **detail,
            )
        if in_sync < least:
            return Finding.fail(
                f"{state}; {_ISR} is {least}: writes with acks=all are refused (NOT_ENOUGH_REPLICAS)",
                bring_back,
                **detail,
            )
        # A single replica never has one to lose.
        if in_sync == least and replicas > 1:
            advice = (
                bring_back
                if in_sync < replicas
                else f"Lower {_ISR} below the number of replicas, or add replicas."
            )
            return Finding.warn(
                f"{state}; {_ISR} is {least}: one more failure stops writes", advice, **detail
            )
    if in_sync < replicas:
        return Finding.warn(state, bring_back, **detail)
    return None


def _size(configs: Mapping[str, str | None] | None, wanted: Wanted) -> Iterator[Finding]:
    largest = _number(configs, _SIZE)
    if largest is not None and largest < wanted.max_request_size:
        yield Finding.warn(
            f"{_SIZE} is {largest:,}, and max.request.size {wanted.max_request_size:,}: larger records are refused",
            f"Raise {_SIZE} of the topic, or lower max.request.size so that such records fail before they are sent.",
            max_message_bytes=largest,
            max_request_size=wanted.max_request_size,
        )


def _unread(wanted: Wanted) -> Iterator[Finding]:
    if wanted.unread is not None:
        yield Finding.warn(
            f"its settings are not known: {wanted.unread}",
            f"Examine again, with a longer --timeout: {_ISR} and {_SIZE} were not examined.",
        )


def _whole(
    topic: MetadataResponseTopic,
    configs: Mapping[str, str | None] | None,
    wanted: Wanted,
    *,
    writable: bool,
) -> Finding:
    replicas = sorted({len(each.replica_nodes) for each in topic.partitions})
    several = "-".join(map(str, replicas[:1] + replicas[1:][-1:]))
    copies = f"{several} replica{'' if replicas == [1] else 's'}"
    parts = [f"{counted(len(topic.partitions), 'partition')} × {copies}"]  # noqa: RUF001  # it multiplies
    detail: dict[str, Any] = {"partitions": len(topic.partitions), "replicas": replicas, "writable": writable}
    if configs is None:
        parts += ["settings not readable (ACL DESCRIBE_CONFIGS)"] if wanted.unread is None else []
    else:
        detail["configs"] = {name: configs[name] for name in (_ISR, _SIZE, _POLICY) if name in configs}
    if is_compacted(configs):
        parts.append("compacted: records need keys")
    parts += ["writable"] if writable else []
    return Finding.ok(", ".join(parts), **detail)


def is_compacted(configs: Mapping[str, str | None] | None) -> bool:
    """Whether the topic takes records with keys only."""
    return configs is not None and "compact" in (configs.get(_POLICY) or "")


def _least_in_sync(configs: Mapping[str, str | None] | None) -> int | None:
    return _number(configs, _ISR)


def _number(configs: Mapping[str, str | None] | None, name: str) -> int | None:
    text = None if configs is None else configs.get(name)
    try:
        return None if text is None else int(text)
    except ValueError:
        return None


def _named(partitions: Sequence[int]) -> str:
    return f"partition{'' if len(partitions) == 1 else 's'} {listed(partitions)}"


def _has(partitions: Sequence[int]) -> str:
    return "has" if len(partitions) == 1 else "have"

"""The condition of a producer: whether it is ready, and its problems in words, the worst first."""

from __future__ import annotations

import os
import socket
from itertools import islice
from typing import TYPE_CHECKING

from aioproducer._callers.copied import retried
from aioproducer._net.observing.connections import THROTTLED
from aioproducer._net.observing.not_running import NOT_RUNNING
from aioproducer._net.observing.snapshot import connected_brokers, oldest_unacked, seconds_since
from aioproducer._state.connecting.endpoint import address_text
from aioproducer._state.queues.partition_queue import NO_LEADER
from aioproducer.errors import KafkaError, printable, text_of
from aioproducer.stats import Health

if TYPE_CHECKING:
    from collections.abc import Iterator

    from aioproducer._net.accepting.intake import Intake
    from aioproducer._net.runtime.engine import Engine

MOST_PROBLEMS = 10
# A stall of the loop is a problem for so many seconds.
STALL_IS_RECENT = 60.0
LONGEST_REASON = 200
# A request to a coordinator that is tried again for a shorter time is no problem: a new transaction waits for the end of the last.
COORDINATOR_IS_SLOW = 1.0
# At most this many partitions are named.
NAMED = 3
_IN_USE = frozenset(("running", "closing"))


def health_of(
    engine: Engine, intake: Intake, state: str, cause: BaseException | None, unusable: str | None
) -> Health:
    """The result of `Producer.health()`; `cause`: the error that ended the producer.

    `unusable`: the reason for which a producer that was not closed can do nothing any more.
    """
    now = engine.loop.time()
    tally = engine.tally
    nodes = engine.view.brokers.nodes
    unreachable = [
        node
        for node in nodes
        if engine.addresses.trouble_at(node.host, node.port) is not None
        and not _takes_records(engine, node.id)
    ]
    oldest = oldest_unacked(engine, intake, now)
    is_served = len(unreachable) < len(nodes) and not _is_fenced(engine) and unusable is None
    found = _problems(engine, state, cause, oldest, now)
    if unusable is not None and state in _IN_USE:
        found = iter((unusable,))
    return Health(
        state=state,
        connected_brokers=connected_brokers(engine),
        seconds_since_last_ack=seconds_since(now, tally.last_ack),
        oldest_unacked_seconds=oldest,
        last_error=cause or tally.last_error,
        answered_seconds_ago=seconds_since(now, engine.addresses.answered_at),
        last_error_seconds_ago=seconds_since(now, tally.last_error_at),
        live=state != "failed",
        ready=state == "running" and engine.cluster.known and is_served and not _is_late(engine, oldest),
        problems=tuple(islice(found, MOST_PROBLEMS)),
        brokers_known=len(nodes),
        brokers_unreachable=len(unreachable),
    )


def _is_fenced(engine: Engine) -> bool:
    return engine.transactions is not None and engine.transactions.table.is_fatal


def _is_late(engine: Engine, oldest: float | None) -> bool:
    return oldest is not None and oldest > engine.config.request_timeout_ms / 1000


def _problems(
    engine: Engine, state: str, cause: BaseException | None, oldest: float | None, now: float
) -> Iterator[str]:
    """All problems, the worst first."""
    if state == "failed":
        yield f"the producer has failed: {_reason(cause)}"
    elif _is_fenced(engine) and engine.transactions is not None:
        yield f"the producer cannot go on with its transactional id: {_reason(engine.transactions.table.cause)}"
    elif state in NOT_RUNNING:
        yield NOT_RUNNING[state]
    if state in ("closed", "failed"):
        return
    if not engine.cluster.known:
        yield (
            f"no metadata was read yet: {_reason(engine.last_error)}"
            if engine.last_error
            else "no metadata was read yet"
        )
    yield from _brokers_out_of_reach(engine, now)
    yield from _partitions_without_leader(engine)
    if engine.sequences.identity is None and engine.sequences.trouble is not None:
        yield f"no broker has given a producer id: {_reason(engine.sequences.trouble)}"
    yield from _coordinators(engine, now)
    if oldest is not None and _is_late(engine, oldest):
        yield (
            f"the oldest record has waited for {_seconds(oldest)}, longer than request_timeout_ms "
            f"({engine.config.request_timeout_ms})"
        )
    yield from _calls_that_wait(engine)
    yield from _throttled(engine, now)
    yield from _stalls(engine, now)


def _brokers_out_of_reach(engine: Engine, now: float) -> Iterator[str]:
    """The known brokers, the longest out of reach first; without any, the bootstrap servers."""
    nodes = engine.view.brokers.nodes
    named: dict[tuple[str, int], tuple[int | None, str]] = {
        (node.host, node.port): (node.id, f"broker {node.id} ({address_text(node.host, node.port)})")
        for node in nodes
    } or {
        (host, port): (None, f"bootstrap server {address_text(host, port)}")
        for host, port in engine.config.bootstrap_servers
    }
    found = ((engine.addresses.trouble_at(*place), *who) for place, who in named.items())
    troubles = [(*trouble, node, name) for trouble, node, name in found if trouble is not None]
    for since, error, node, name in sorted(troubles, key=lambda trouble: trouble[0]):
        state = "lets no further connection be opened" if _takes_records(engine, node) else "unreachable"
        yield f"{name} {state} for {_seconds(now - since)}: {_reason(error)}"


def _takes_records(engine: Engine, node: int | None) -> bool:
    """Whether a connection for records is open to this broker: it is of use, also where no other one can be opened."""
    sender = None if node is None else engine.senders.get(node)
    link = None if sender is None else sender.link
    return link is not None and not link.connection.closed


def _partitions_without_leader(engine: Engine) -> Iterator[str]:
    """Those that records wait for. Most producers have none, and nothing is searched."""
    cluster = engine.accumulator.cluster
    nowhere = cluster.nodes.get(NO_LEADER)
    if nowhere is None or retried(lambda: nowhere.is_idle):
        return
    names = retried(
        lambda: [
            f"{topic.name}-{queue.index}"
            for topic in cluster.topics.values()
            for queue in topic.all_queues()
            if queue.node is nowhere and queue.queue
        ]
    )
    if len(names) == 1:
        yield f"partition {names[0]} has no leader: its records wait"
    elif names:
        more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
        yield f"{len(names)} partitions have no leader: their records wait ({', '.join(names[:NAMED])}{more})"


def _coordinators(engine: Engine, now: float) -> Iterator[str]:
    """Those whose answers are errors, and those that do not answer, while a call of a transaction waits for them."""
    transactions = engine.transactions
    for each in () if transactions is None else retried(transactions.coordinators.all):
        since, trouble = each.troubled_since, each.trouble
        if since is not None and trouble is not None and now - since >= COORDINATOR_IS_SLOW:
            name = printable(each.of, LONGEST_REASON)
            yield f"the coordinator of {name} has not done a request for {_seconds(now - since)}: {_reason(trouble)}"


def _calls_that_wait(engine: Engine) -> Iterator[str]:
    used, capacity = engine.accumulator.budget.used, engine.accumulator.budget.capacity
    waiting = engine.admission.calls.waiting
    if waiting and used > 0.9 * capacity:
        calls = "1 call waits" if waiting == 1 else f"{waiting} calls wait"
        yield f"{calls} for memory: {used} bytes of buffer_memory ({capacity}) are in use"


def _throttled(engine: Engine, now: float) -> Iterator[str]:
    for history in list(engine.brokers.histories.values()):
        connection = history.connection
        if history.state == THROTTLED and connection is not None:
            left = max(0.0, connection.muted_until - now)
            yield f"broker {history.broker} ({history.address}) throttles this client for {_seconds(left)} more"


def _stalls(engine: Engine, now: float) -> Iterator[str]:
    recent = [stall for stall in list(engine.stalls.recent) if stall.ended_at > now - STALL_IS_RECENT]
    if recent:
        longest = max(stall.seconds for stall in recent)
        yield f"the event loop was blocked for up to {longest * 1000:.0f} ms in the last {STALL_IS_RECENT:g} s"


def _seconds(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"


def _reason(error: BaseException | None) -> str:
    """The innermost cause of an error, in its shortest form."""
    while isinstance(error, KafkaError) and error.cause is not None:
        error = error.cause
    number = getattr(error, "errno", None)
    if isinstance(error, OSError) and isinstance(number, int) and not isinstance(error, socket.gaierror):
        text = os.strerror(number)
    else:
        text = (
            (getattr(error, "strerror", None) or text_of(error))
            if error is not None
            else "no reason is known"
        )
    text = printable(text, LONGEST_REASON) or type(error).__name__
    return text[:1].lower() + text[1:] if text[1:2].islower() else text

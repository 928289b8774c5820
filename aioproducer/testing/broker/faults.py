"""Faults on demand: every fault that a test can inject into the embedded Kafka.

A rule (`error`, `delay`, `drop_answer`, `cut`, ...) is for the requests that its keywords name: `api` (Kafka's name, such
as "Produce"), `broker` (id), `topic`, `partition`, `client_id`, `step` (of an authentication). It passes over the first `skip` of them, happens to the
next `times` (None: to all), and is then spent. Rules compose: all that fit a request happen to it. Each returns its
`Fault`: `hits`, `await reached()`, `release()`, `heal()`; as a context manager it is healed at the end of the block.

Cluster life (leaders, brokers, topics) is changed at once and stays so until changed back.
"""

from __future__ import annotations

import math
import ssl
from collections.abc import Callable, Mapping
from typing import Any, Protocol, TypedDict, Unpack

import attrs

from aioproducer._wire.error_codes import ErrorCode
from aioproducer.testing.broker.cluster.cluster import Cluster, key_of
from aioproducer.testing.broker.rules import (
    NO_FAULTS,
    Action,
    Alter,
    Asked,
    Certificate,
    Cut,
    CutAnswer,
    CutHandshake,
    CutRecord,
    CutRequest,
    DropAnswer,
    EndWriting,
    Fault,
    GiveError,
    HangUp,
    Hold,
    HoldMarkers,
    Plan,
    Rewrite,
    Silence,
    StopReading,
    Target,
    Throttle,
    Trickle,
)

_BEFORE_THE_REQUEST = (CutRequest, StopReading, HangUp, Certificate, CutHandshake)


def code_of(error: int | str) -> int:
    """The number of an error given as a number or as Kafka's name; an unknown name is a ValueError."""
    if isinstance(error, int):
        return int(error)
    if error in ErrorCode.__members__:
        return int(ErrorCode[error])
    message = f"Kafka has no error named {error!r}; give one of Kafka's names, or a number"
    raise ValueError(message)


class Where(TypedDict, total=False):
    """The keywords that every rule takes."""

    api: str | None
    broker: int | None
    topic: str | None
    partition: int | None
    client_id: str | None
    step: int | None
    skip: int
    times: int | None


class WhereConnected(TypedDict, total=False):
    """The keywords of the rules for connections, which are opened before any request."""

    broker: int | None
    skip: int
    times: int | None


class Doors(Protocol):
    """The entrances of the brokers: sockets, or their replacement."""

    async def open(self, broker_id: int, port: int | None = None) -> None:
        """Accept connections."""

    async def close(self, broker_id: int) -> None:
        """Accept no new connection."""

    def drop_connections(self, broker_id: int, *, reset: bool) -> None:
        """End the open connections."""


@attrs.define(eq=False)
class FaultRules:
    """The active rules."""

    _faults: list[Fault] = attrs.field(factory=list)

    def add(self, fault: Fault) -> None:
        """Add a rule."""
        self._faults.append(fault)

    def heal_all(self) -> None:
        """Remove all rules."""
        for fault in self._faults:
            fault.heal()
        self._faults.clear()

    def __bool__(self) -> bool:
        return bool(self._faults)

    def plan(self, asked: Asked) -> Plan:
        """The faults of this request; the rules count it."""
        return (
            Plan(tuple(self._strike(asked, _BEFORE_THE_REQUEST, wanted=False))) if self._faults else NO_FAULTS
        )

    def before_request(self, asked: Asked, kind: type[Any]) -> Any:
        """The action of a kind that acts before a request is read, if there is one for it now."""
        return next((fault.action for fault in self._strike(asked, (kind,), wanted=True)), None)

    def stopped_reading(self, asked: Asked) -> bool:
        """Whether this broker leaves its input unread. Not counted, because it is asked repeatedly."""
        return any(
            isinstance(fault.action, StopReading) and fault.active and fault.target.covers(asked)
            for fault in self._faults
        )

    def _strike(self, asked: Asked, kinds: tuple[type[Any], ...], *, wanted: bool) -> list[Fault]:
        fitting = [
            fault
            for fault in self._faults
            if isinstance(fault.action, kinds) is wanted and fault.active and fault.target.covers(asked)
        ]
        struck = [fault for fault in fitting if fault.strike()]
        if struck:
            self._faults[:] = [fault for fault in self._faults if fault.active]
        return struck


@attrs.define(eq=False)
class Faults:
    """The interface for tests; `kafka.faults`."""

    _cluster: Cluster
    _doors: Doors
    _rules: FaultRules
    _has_tls: bool = False

    # ----- answers with errors

    def error(
        self,
        error: int | str,
        *,
        append: bool | None = None,
        message: str | None = None,
        **where: Unpack[Where],
    ) -> Fault:
        """Answer with an error (Kafka's name or any number), to Produce unless `api` names another API.

        The records are not appended, but for NOT_ENOUGH_REPLICAS_AFTER_APPEND; `append` decides it for any error.
        """
        code = code_of(error)
        appends = code == ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND if append is None else append
        return self._add(GiveError(code, appends, message), where)

    def record_errors(
        self, errors: Mapping[int, str], *, error: int | str = "INVALID_RECORD", message: str | None = None,
        **where: Unpack[Where],
    ) -> Fault:  # fmt: skip
        """Refuse a batch because of some of its records, identified by their index (KIP-467)."""
        return self._add(GiveError(code_of(error), False, message, tuple(errors.items())), where)

    def throttle(self, milliseconds: int, *, mute: bool = True, **where: Unpack[Where]) -> Fault:
        """Return `throttle_time_ms`; with `mute` the connection is not read for that time (KIP-219)."""
        return self._add(Throttle(milliseconds, mute), where)

    # ----- late and missing answers

    def delay(self, seconds: float | None = None, *, before: bool = False, **where: Unpack[Where]) -> Fault:
        """Delay the answer until `release()`, at most `seconds`; `before` delays the handling itself."""
        return self._add(Hold(_checked_seconds(seconds), before), where)

    def delay_markers(self, seconds: float | None = None, **where: Unpack[Where]) -> Fault:
        """Write the markers of the next transaction that ends after `release()`, at most `seconds` later.

        Until then the transactional id answers CONCURRENT_TRANSACTIONS. `api="InitProducerId"` is for the aborts that
        fencing makes.
        """
        return self._add(HoldMarkers(_checked_seconds(seconds)), {"api": "EndTxn", **where})

    def trickle(self, piece: int = 3, *, pause: float = 0.01, **where: Unpack[Where]) -> Fault:
        """Send the answer in pieces of so many bytes, with pauses of so many seconds between them."""
        if type(piece) is not int or piece < 1:
            raise ValueError(f"piece={piece!r:.60}: it must be a number of bytes from 1")
        return self._add(Trickle(piece, _checked_seconds(pause) or 0.0), where)

    def drop_answer(self, **where: Unpack[Where]) -> Fault:
        """Handle the request, send no answer, keep the connection."""
        return self._add(DropAnswer(), where)

    def silence(self, **where: Unpack[Where]) -> Fault:
        """Read requests and drop them: of every API unless named, without a limit unless `times` is set."""
        return self._add(Silence(), {"api": None, "times": None, **where})

    def stop_reading(self, **where: Unpack[Where]) -> Fault:
        """Leave requests unread, so that the TCP window closes; by `broker` only; until healed."""
        fault = self._add(StopReading(), {"api": None, "times": None, **where})
        self._cluster.changes.notify()
        return fault

    # ----- connections that end

    def cut(self, *, before: bool = False, reset: bool = True, **where: Unpack[Where]) -> Fault:
        """End the connection instead of the answer; `before` the request is handled, or after (default)."""
        return self._add(Cut(before, reset), where)

    def cut_request(self, at_byte: int, *, reset: bool = True, **where: Unpack[Where]) -> Fault:
        """End the connection after this number of bytes of a request, its length included; topics cannot be named."""
        return self._add(CutRequest(at_byte, reset), where)

    def cut_answer(self, at_byte: int, *, reset: bool = False, **where: Unpack[Where]) -> Fault:
        """Send only this number of bytes of the answer, its length included, and end the connection."""
        return self._add(CutAnswer(at_byte, reset), where)

    def close_without_notify(self, *, before: bool = False, **where: Unpack[Where]) -> Fault:
        """End the TCP connection instead of the answer, without TLS's close_notify; `before` as in `cut`."""
        self._require_tls("close_without_notify")
        return self._add(Cut(before, reset=False, notify=False), where)

    def cut_record(self, at_byte: int, *, reset: bool = False, **where: Unpack[Where]) -> Fault:
        """Send only this number of bytes of the TLS record of the answer, its header of 5 included, and end the connection."""
        self._require_tls("cut_record")
        return self._add(CutRecord(at_byte, reset), where)

    def cut_handshake(
        self, at_byte: int = 0, *, reset: bool = False, **where: Unpack[WhereConnected]
    ) -> Fault:
        """End a connection after this number of bytes of the broker's TLS handshake, at the end of it at the latest."""
        self._require_tls("cut_handshake")
        return self._add(CutHandshake(at_byte, reset), _of_connections(where, times=1))

    def certificate(self, context: ssl.SSLContext, **where: Unpack[WhereConnected]) -> Fault:
        """Open new connections with another TLS context, such as one with an expired certificate, until healed."""
        self._require_tls("certificate")
        return self._add(Certificate(context), _of_connections(where, times=None))

    def half_close(self, **where: Unpack[Where]) -> Fault:
        """Answer, then close the direction of the broker only."""
        return self._add(EndWriting(), where)

    def hang_up(self, *, reset: bool = False, **where: Unpack[Where]) -> Fault:
        """Accept a connection and close it at once; by `broker` only."""
        return self._add(HangUp(reset), {"api": None, **where})

    def drop_connections(self, broker: int, *, reset: bool = True) -> None:
        """End all connections of a broker now."""
        self._doors.drop_connections(broker, reset=reset)

    async def refuse_connections(self, broker: int) -> None:
        """Close the broker's port; open connections continue."""
        await self._doors.close(broker)

    async def accept_connections(self, broker: int) -> None:
        """Open the port again."""
        await self._doors.open(broker, self._cluster.node(broker).port)

    # ----- wrong answers

    def alter(self, change: Callable[[Any], Any], **where: Unpack[Where]) -> Fault:
        """Send `change(answer)`: the answer is the codec's message, which has `_replace`."""
        return self._add(Alter(change), where)

    def rewrite(self, change: Callable[[bytes], bytes], **where: Unpack[Where]) -> Fault:
        """Send `change(frame)`: the frame is the encoded answer with the four bytes of its length."""
        return self._add(Rewrite(change), where)

    def sasl(
        self,
        step: int,
        change: Callable[[bytes], bytes] | None = None,
        *,
        broker: int | None = None,
        skip: int = 0,
        times: int | None = 1,
    ) -> Fault:
        """Change the bytes of the mechanism in the answer to a step of authentications; without `change` it is refused.

        The first SaslAuthenticate of an exchange is step 1. Every rule takes `step`: `cut(api="SaslAuthenticate", step=2)`.
        """
        where: Where = {
            "api": "SaslAuthenticate",
            "step": step,
            "broker": broker,
            "skip": skip,
            "times": times,
        }
        if change is None:
            return self.error("SASL_AUTHENTICATION_FAILED", **where)
        return self.alter(lambda answer: answer._replace(auth_bytes=change(answer.auth_bytes)), **where)

    def garbage(self, data: bytes = b"HTTP/1.1 400 Bad Request\r\n\r\n", **where: Unpack[Where]) -> Fault:
        """Send these bytes instead of the answer."""
        return self.rewrite(lambda _: data, **where)

    def wrong_correlation_id(self, by: int = 1, **where: Unpack[Where]) -> Fault:
        """Answer with another correlation id."""
        return self.rewrite(lambda frame: frame[:4] + _added(frame[4:8], by) + frame[8:], **where)

    def wrong_length(self, length: int, **where: Unpack[Where]) -> Fault:
        """Send this length in the answer, which may be negative or huge."""
        return self.rewrite(lambda frame: length.to_bytes(4, "big", signed=True) + frame[4:], **where)

    def answer_twice(self, **where: Unpack[Where]) -> Fault:
        """Send the answer twice."""
        return self.rewrite(lambda frame: frame * 2, **where)

    # ----- changes of the cluster

    def move_leader(self, topic: str, partition: int, broker: int) -> None:
        """Set another leader, with a new leader epoch; -1 leaves the partition without one."""
        self._cluster.move_leader(topic, partition, broker)

    def move_coordinator(self, key: str, broker: int, *, loading: float = 0.0) -> None:
        """Set another coordinator of a group or a transactional id; it loads for this number of seconds first."""
        self._cluster.move_coordinator(key, broker, loading)

    def shrink_isr(self, topic: str, partition: int, *in_sync: int) -> None:
        """Set the in-sync replicas; fewer than min.insync.replicas refuse writes with acks=all."""
        self._cluster.partition(topic, partition).isr = in_sync

    async def stop_broker(self, broker: int, *, reset: bool = True) -> None:
        """Stop a broker: its port closes, its connections end, its partitions move to other replicas if there are any."""
        self._cluster.broker_down(broker)
        await self._doors.close(broker)
        self._doors.drop_connections(broker, reset=reset)

    async def start_broker(self, broker: int, *, port: int | None = None) -> None:
        """Start it again, at its old port unless another is set (0: any free port)."""
        await self._doors.open(broker, self._cluster.node(broker).port if port is None else port)
        self._cluster.broker_up(broker)

    def hide_topic(self, topic: str, *, broker: int | None = None) -> None:
        """Omit a topic from the metadata of one broker, or of all; it accepts records as before."""
        self._cluster.hidden.add((topic, broker))

    def show_topic(self, topic: str, *, broker: int | None = None) -> None:
        """Undo `hide_topic`."""
        self._cluster.hidden.discard((topic, broker))

    def truncate(self, topic: str, partition: int, end_offset: int) -> None:
        """Lose acknowledged records, like an unclean leader election; the leader epoch increases."""
        self._cluster.truncate(topic, partition, end_offset)

    def delete_records(self, topic: str, partition: int, before_offset: int) -> None:
        """Delete the records before an offset, like retention."""
        self._cluster.partition(topic, partition).log.delete_before(before_offset)

    def forget_producers(self, topic: str, partition: int, producer_id: int | None = None) -> None:
        """Drop producer state, like expiry."""
        self._cluster.partition(topic, partition).log.producers.forget(producer_id)

    # ----- all faults

    def heal(self) -> None:
        """Remove all rules; delayed requests continue. Changes of the cluster stay."""
        self._rules.heal_all()
        self._cluster.changes.notify()

    def _require_tls(self, fault: str) -> None:
        if not self._has_tls:
            raise ValueError(
                f"{fault} is a fault of TLS, which these brokers do not have: EmbeddedKafka(tls=...)"
            )

    def _add(self, action: Action, where: Where) -> Fault:
        api = where.get("api", "Produce")
        target = Target(
            None if api is None else key_of(api),
            where.get("broker"),
            where.get("topic"),
            where.get("partition"),
            where.get("client_id"),
            where.get("step"),
        )
        fault = Fault(
            target, action, where.get("skip", 0), where.get("times", 1), changes=self._cluster.changes
        )
        self._rules.add(fault)
        return fault


def _of_connections(where: WhereConnected, times: int | None) -> Where:
    return {
        "api": None,
        "broker": where.get("broker"),
        "skip": where.get("skip", 0),
        "times": where.get("times", times),
    }


def _checked_seconds(seconds: object) -> float | None:
    if seconds is None:
        return None
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float)) or not 0 <= seconds < math.inf:
        raise ValueError(f"seconds={seconds!r:.60}: it must be a number from 0, or None for no limit")
    return float(seconds)


def _added(number: bytes, by: int) -> bytes:
    return ((int.from_bytes(number, "big") + by) % 2**32).to_bytes(4, "big")

"""One broker without sockets: a request frame in, effects out, with all injected faults."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs

from aioproducer._wire.apis import API_VERSIONS, SASL_AUTHENTICATE
from aioproducer._wire.codec import RequestHeader, encode_response
from aioproducer._wire.error_codes import ErrorCode
from aioproducer.errors import ProtocolError
from aioproducer.testing.broker.authentication.session import Authentication, Session
from aioproducer.testing.broker.authorization import ALL_ON_TOPICS, Authorizer, Permissions, error_of
from aioproducer.testing.broker.call import Call, Handler, Later, Message, NoAnswer
from aioproducer.testing.broker.cluster.cluster import Cluster, Node
from aioproducer.testing.broker.effects import Close, Dialogue, HalfClose, Wait, Write, WriteCut, never
from aioproducer.testing.broker.faults import FaultRules
from aioproducer.testing.broker.handlers import HANDLERS
from aioproducer.testing.broker.handlers.api_versions import refusal
from aioproducer.testing.broker.history import SeenRequest
from aioproducer.testing.broker.requests import read_request
from aioproducer.testing.broker.rules import (
    Alter,
    Asked,
    Cut,
    CutAnswer,
    CutRecord,
    DropAnswer,
    EndWriting,
    Plan,
    Rewrite,
    Silence,
    Throttle,
    Trickle,
)


@attrs.define(eq=False)
class Broker:
    """One node of the cluster: handles requests."""

    cluster: Cluster
    node: Node
    rules: FaultRules
    authentication: Authentication | None = attrs.field(default=None, kw_only=True)
    permissions: Permissions | None = attrs.field(default=None, kw_only=True)
    """None: every user may do everything."""

    def new_session(self) -> Session:
        """The session of a new connection."""
        return Session(self.authentication, self.cluster.clock)

    def handle(self, frame: bytes, session: Session) -> Dialogue:
        """Handle one request; the effects apply to its connection, in order."""
        try:
            header, request = read_request(frame)
        except ProtocolError:
            yield Close()  # Kafka too closes the connection of a malformed request.
            return
        if not session.admits(header.api_key):
            yield Close()
            return
        handler = HANDLERS.get(header.api_key)
        if handler is None or not self._speaks(handler, header):
            session.versions_refused()
            yield self._refuse(header)
            return
        subjects = handler.subjects(request, self.cluster)
        seen = SeenRequest(
            self.node.id,
            handler.name,
            header.api_version,
            header.client_id,
            header.correlation_id,
            subjects or (),
            transactional_id=_transactional_id(request),
        )
        self.cluster.requests.append(seen)
        step = session.messages if header.api_key == SASL_AUTHENTICATE else 0
        if session.must_close:
            # Another request came within an exchange of SASL.
            plan = Plan((error_of(ErrorCode.ILLEGAL_SASL_STATE),))
        else:
            plan = self.rules.plan(Asked(self.node.id, header.api_key, header.client_id, subjects, step))
        operations: Callable[[str], int] = _all_operations
        if self.permissions is not None and session.user is not None:
            user = Authorizer(self.permissions.get(session.user, ()), self.cluster)
            plan = Plan((*plan.faults, *user.denials(header.api_key, request, subjects)))
            operations = user.topic_operations
        yield from self._go_through(
            handler, Call(self.cluster, self.node, session, header, request, plan, seen, operations)
        )

    def _speaks(self, handler: Handler, header: RequestHeader) -> bool:
        low, high = self.cluster.versions(handler)
        return self.cluster.offers(handler) and low <= header.api_version <= high

    def _refuse(self, header: RequestHeader) -> Write | Close:
        if header.api_key != API_VERSIONS:
            return Close()
        return Write(
            _framed(encode_response(refusal(self.cluster, HANDLERS[API_VERSIONS]), 0, header.correlation_id))
        )

    def _go_through(self, handler: Handler, call: Call) -> Dialogue:
        plan = call.plan
        if plan.first(Silence) is not None:
            return
        yield from self._held(plan, before=True)
        for cut in plan.all_of(Cut):
            if cut.before:
                yield Close(cut.reset, cut.notify)
                return
        self.cluster.transactions.tick()
        answer = handler.answer(call)
        if isinstance(answer, Later):
            yield Wait(answer.ready, answer.deadline)
            answer = answer.finish()
        yield from self._held(plan, before=False)
        if isinstance(answer, NoAnswer):
            if answer.hang_up:
                yield Close()
            return
        yield from self._send(call, answer)

    def _held(self, plan: Plan, *, before: bool) -> Dialogue:
        for fault, hold in plan.holds(before=before):
            until = None if hold.seconds is None else self.cluster.clock() + hold.seconds
            yield Wait(fault.is_released, until)

    def _send(self, call: Call, message: Message) -> Dialogue:
        plan = call.plan
        for cut in plan.all_of(Cut):
            yield Close(cut.reset, cut.notify)
            return
        if plan.first(DropAnswer) is not None:
            return
        throttle: Throttle | None = plan.first(Throttle)
        message = _changed(message, plan, throttle)
        frame = _framed(encode_response(message, _version_of(call, message), call.header.correlation_id))
        for rewrite in plan.all_of(Rewrite):
            frame = rewrite.change(frame)
        for part in plan.all_of(CutAnswer):
            yield Write(frame[: part.at_byte])
            yield Close(part.reset)
            return
        for record in plan.all_of(CutRecord):
            yield WriteCut(frame, record.at_byte)
            yield Close(record.reset, notify=False)
            return
        yield from self._written(frame, plan)
        if call.session.must_close:
            yield Close()
            return
        if plan.first(EndWriting) is not None:
            yield HalfClose()
        if throttle is not None and throttle.mute:
            yield Wait(never, self.cluster.clock() + throttle.milliseconds / 1000)

    def _written(self, frame: bytes, plan: Plan) -> Dialogue:
        trickle = plan.first(Trickle)
        if trickle is None:
            yield Write(frame)
            return
        for begin in range(0, len(frame), trickle.piece):
            if begin:
                yield Wait(never, self.cluster.clock() + trickle.pause)
            yield Write(frame[begin : begin + trickle.piece])


def _changed(message: Any, plan: Plan, throttle: Throttle | None) -> Any:
    if throttle is not None:
        message = message._replace(throttle_time_ms=throttle.milliseconds)
    for alter in plan.all_of(Alter):
        message = alter.change(message)
    return message


def _all_operations(_topic: str) -> int:
    return ALL_ON_TOPICS


def _transactional_id(request: Any) -> str | None:
    """Requests about one transaction say which in one of these fields."""
    for field in ("transactional_id", "v3_and_below_transactional_id"):
        named: str | None = getattr(request, field, None)
        if named:
            return named
    return None


def _version_of(call: Call, message: Any) -> int:
    """An ApiVersions answer that refuses the version is always written in version 0 (KIP-511)."""
    refused = call.header.api_key == API_VERSIONS and message.error_code == ErrorCode.UNSUPPORTED_VERSION
    return 0 if refused else call.version


def _framed(answer: bytes) -> bytes:
    return len(answer).to_bytes(4, "big") + answer

"""The identity task: requests a producer id when one is wanted (InitProducerId)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import anyio

from aioproducer._net.connecting.connection.asking import answer_to
from aioproducer._net.log import log_of
from aioproducer._net.transactions.required import require_identity
from aioproducer._state.backoff import Backoff
from aioproducer._state.delivery.verdicts import IdentityKind, identity_verdict
from aioproducer._wire.apis import INIT_PRODUCER_ID
from aioproducer._wire.error_codes import ErrorCode
from aioproducer._wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from aioproducer.errors import (
    AuthorizationError,
    BrokerError,
    BrokerUnavailableError,
    KafkaError,
    ProtocolError,
)

if TYPE_CHECKING:
    from aioproducer._net.cluster.session import Session
    from aioproducer._net.connecting.connection.connection import Connection
    from aioproducer._state.machines import Machines


class IdentitySource:
    """Keeps an idempotent producer supplied with a producer id and an epoch."""

    def __init__(self, session: Session, machines: Machines) -> None:
        self.session = session
        self.machines = machines
        self.log = log_of(session.config.client_id)
        self.wanted = anyio.Event()

    def want(self) -> None:
        """A new identity is needed."""
        self.wanted.set()

    async def run(self) -> None:
        """Send a request whenever an identity is wanted; ends with the error if the brokers refuse one."""
        failures = 0
        backoff = Backoff(
            self.session.config.retry_backoff_ms / 1000, self.session.config.retry_backoff_max_ms / 1000
        )
        while True:
            if not self.machines.sequences.wanted:
                await self.wanted.wait()
            self.wanted = anyio.Event()
            code = await self._ask()
            if code:
                self._consider(code)
                await anyio.sleep(backoff.after(failures, self.session.rng))
            failures = failures + 1 if code else 0

    async def _ask(self) -> int:
        """One request; returns the error code of its answer."""
        try:
            connection = await self.session.control.connected()
        except KafkaError as error:
            return self._no_answer(error)
        try:
            version = self._version(connection)
        except ProtocolError as error:
            self.session.control.give_up_on_its_broker()
            if self._is_unsupported():
                raise
            return self._no_answer(error)
        try:
            answer = await answer_to(
                connection,
                InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=0x7FFFFFFF),
                InitProducerIdResponse,
                timeout=self.session.config.request_timeout_ms / 1000,
                version=version,
            )
            require_identity(connection, answer, "InitProducerId")
        except KafkaError as error:
            return self._no_answer(error)
        if not answer.error_code:
            self.machines.sequences.obtained(answer.producer_id, answer.producer_epoch)
            self.machines.accumulator.update_all_readiness(self.session.loop.time())
        return answer.error_code

    def _no_answer(self, error: KafkaError) -> int:
        # The peer of a nonsensical answer may not be a broker at all: the next request goes to another one.
        self._note(error)
        self.log.debug("no producer id: %s", error)
        return ErrorCode.NETWORK_EXCEPTION

    def _is_unsupported(self) -> bool:
        """Whether no known broker can give a producer id; a single broker may just be older than the others."""
        known = {(node.host, node.port) for node in self.session.view.brokers.nodes}
        return bool(known) and known <= self.session.control.lacking

    def _version(self, connection: Connection) -> int:
        try:
            return connection.versions.choose(INIT_PRODUCER_ID)
        except ProtocolError as error:
            raise ProtocolError(
                "the broker does not support producer ids, which an idempotent producer requires: use newer brokers, or set "
                "enable_idempotence=False",
                broker=connection.broker,
                cause=error,
            ) from None

    def _consider(self, code: int) -> None:
        if identity_verdict(code).kind is IdentityKind.FATAL:
            raise refused(code)
        if code != ErrorCode.NETWORK_EXCEPTION:
            self._note(refused(code))
            self.log.debug("no producer id yet: %s", self.session.last_error)

    def _note(self, error: KafkaError) -> None:
        """The reason why records wait, for the errors of those whose time is over."""
        self.session.last_error = error
        self.machines.sequences.trouble = BrokerUnavailableError(
            "no broker has given a producer id", cause=error
        )


def refused(code: int) -> KafkaError:
    """The error for an answer without a producer id."""
    decided = identity_verdict(code)
    if code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
        return AuthorizationError(decided.advice)
    return BrokerError(
        decided.advice, code=code, name=decided.name, retriable=decided.kind is not IdentityKind.FATAL
    )

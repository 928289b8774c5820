"""The identity task: asks for a producer id when one is wanted (InitProducerId)."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import anyio

from aioproducer._state.backoff import Backoff
from aioproducer._state.verdicts import IdentityKind, identity_verdict
from aioproducer._wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from aioproducer.errors import AuthorizationError, BrokerError, KafkaError

if TYPE_CHECKING:
    from aioproducer._net.engine import Engine

log = logging.getLogger("aioproducer")

CLUSTER_AUTHORIZATION_FAILED = 31


class IdentitySource:
    """Keeps an idempotent producer supplied with a producer id and an epoch."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.wanted = anyio.Event()

    def want(self) -> None:
        """A new identity is needed."""
        self.wanted.set()

    async def run(self) -> None:
        """Ask whenever an identity is wanted, for ever."""
        failures = 0
        backoff = Backoff(
            self.engine.config.retry_backoff_ms / 1000, self.engine.config.retry_backoff_max_ms / 1000
        )
        while True:
            try:
                await self._obtain()
            except KafkaError as error:
                self.engine.last_error = error
                log.debug("no producer id: %s", error)
                if not error.retriable:
                    raise
                await anyio.sleep(backoff.after(failures, self.engine.rng))
                failures += 1
                continue
            failures = 0
            await self.wanted.wait()
            self.wanted = anyio.Event()

    async def _obtain(self) -> None:
        if not self.engine.sequences.wanted:
            return
        answer = await self.engine.control.ask(
            InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=0x7FFFFFFF),
            InitProducerIdResponse,
        )
        if answer.error_code:
            raise refused(answer.error_code)
        self.engine.sequences.obtained(answer.producer_id, answer.producer_epoch)
        self.engine.accumulator.consider_all(self.engine.loop.time())


def refused(code: int) -> KafkaError:
    """The error that an answer without a producer id stands for."""
    decided = identity_verdict(code)
    if code == CLUSTER_AUTHORIZATION_FAILED:
        return AuthorizationError(decided.advice)
    return BrokerError(
        decided.advice, code=code, name=decided.name, retriable=decided.kind is not IdentityKind.FATAL
    )

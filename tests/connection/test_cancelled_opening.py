"""An opening over TLS and SASL that is cancelled at any of its steps leaves nothing behind."""

from __future__ import annotations

import asyncio
import itertools
import ssl

import pytest

from aioproducer._net.connecting.dialing import dial
from aioproducer._net.connecting.security import SecurityProtocol
from aioproducer._net.tls.context import make_context
from aioproducer._state.connecting.authentication import authentication
from aioproducer._state.connecting.dialogue import Dialogue
from aioproducer._state.connecting.endpoint import BrokerEndpoint
from aioproducer._state.connecting.opening import BrokerVersions
from aioproducer._state.connecting.sessions import AuthenticatedSession
from aioproducer.secret import Secret
from aioproducer.security.sasl.credentials import PasswordCredentials
from aioproducer.security.sasl.mechanisms import MECHANISMS
from aioproducer.security.tls.settings import PemText, TlsSettings
from aioproducer.testing import EmbeddedKafka, certificates
from tests.connection.peer import at
from tests.connection.test_authenticating import CONFIG
from tests.net.support import until
from tests.runtime.stepping import Moment, cancelled_at

MOST_STEPS = 60
WAITS_FOR = 7
"""TCP, TLS, ApiVersions, SaslHandshake, both messages of SCRAM, and its keys."""
MECHANISM = "SCRAM-SHA-512"


def scram_over_tls(trusted: str) -> SecurityProtocol:
    """SCRAM over TLS."""
    context = make_context(TlsSettings(PemText("ssl_truststore_certificates", trusted)))

    async def tls_context() -> ssl.SSLContext:
        return context

    def authenticate(_: BrokerEndpoint, versions: BrokerVersions) -> Dialogue[AuthenticatedSession]:
        exchange = MECHANISMS[MECHANISM].exchange(PasswordCredentials("alice", Secret("secret")))
        return authentication(MECHANISM, exchange, versions)

    return SecurityProtocol(tls_context, authenticate)


@pytest.mark.parametrize("moment", Moment, ids=lambda moment: moment.name.lower())
async def test_f03_every_await_point_of_an_opening(moment: Moment) -> None:
    """The broker sees the end of the connection; no task is left, and the next opening succeeds."""
    authority = certificates()
    security = scram_over_tls(authority.authority)
    tasks = asyncio.all_tasks()
    async with EmbeddedKafka(tls=authority.broker_context(), users={"alice": "secret"}) as kafka:
        endpoint = at("127.0.0.1", kafka.brokers[0].port)
        for step in itertools.count(1):
            assert step < MOST_STEPS
            ended = await cancelled_at(dial(endpoint, CONFIG, security), {step}, moment)
            assert (ended.cancelled, ended.error) == (ended.cancels > 0, None)
            if not ended.cancels:
                ended.result.close()
            await until(lambda: kafka.brokers[0].connections == 0)
            await until(lambda: asyncio.all_tasks() == tasks)
            if not ended.cancels:
                break
        assert step > WAITS_FOR

"""The tickets of a key table: renewed beside their use, in one thread, and got anew after a broker refused them."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterable
from typing import Any

import pytest

from aioproducer import AuthenticationError, ProducerConfig
from aioproducer._net.log import log_of
from aioproducer._net.securing.tickets import TicketSource
from aioproducer._state.connecting.endpoint import BrokerEndpoint
from aioproducer.security.sasl.credentials import KerberosCredentials

LIMIT = 30.0
CONFIG = ProducerConfig(
    bootstrap_servers="127.0.0.1:9092",
    security_protocol="SASL_PLAINTEXT",
    sasl_mechanism="GSSAPI",
    sasl_kerberos_service_name="kafka",
    sasl_kerberos_principal="orders@X.EXAMPLE",
    sasl_kerberos_keytab="/etc/orders.keytab",
)


class Kdc:
    """The renewals that were begun; each of them blocks until it is answered."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.asked: list[tuple[str, set[str], float]] = []
        self.answers: queue.Queue[Exception | None] = queue.Queue()
        self.source = TicketSource(CONFIG, log_of("tests"), renew=self.renew, clock=lambda: self.now)

    def renew(self, credentials: KerberosCredentials, services: Iterable[str], left: float) -> None:
        """Take the place of `renew_tickets`."""
        self.asked.append((credentials.store["ccache"], set(services), left))
        answer = self.answers.get(timeout=LIMIT)
        if answer is not None:
            raise answer

    async def use(self, host: str, left: float) -> str:
        """An authentication with tickets that last for `left` seconds; the place of them."""
        given = await self.source.given(BrokerEndpoint.bootstrap(host, 9092))
        given.on_use(left)
        return given.store["ccache"]

    def answer(self, answer: Exception | None) -> None:
        """End the renewal that is under way."""
        self.answers.put(answer)
        for thread in renewing():
            thread.join(LIMIT)


def renewing() -> list[threading.Thread]:
    """The threads of renewals."""
    return [thread for thread in threading.enumerate() if thread.name == "aioproducer tickets"]


async def test_a_kdc_that_does_not_answer_holds_up_no_authentication() -> None:
    """The tickets are used meanwhile, and one thread waits for the KDC. The renewed ones are in another place."""
    kdc = Kdc()
    first = await kdc.use("a", 100.0)
    assert renewing() == []
    for left in (50.0, 49.0, 10.0):
        assert await kdc.use("b", left) == first
        kdc.now += 60.0
    assert len(renewing()) == 1
    kdc.answer(None)
    ((place, services, left),) = kdc.asked
    assert (services, left) == ({"kafka@a", "kafka@b"}, 50.0)
    assert await kdc.use("a", 100.0) == place != first
    # The two places take turns: the library frees none.
    await kdc.use("a", 50.0)
    kdc.answer(None)
    assert await kdc.use("a", 100.0) == first
    # Brokers that were not authenticated with since then.
    assert kdc.asked[1][1] == {"kafka@a", "kafka@b"}


async def test_a_renewal_that_fails(caplog: pytest.LogCaptureFixture) -> None:
    """One warning, the present tickets go on, and the KDC is asked again half a minute later."""
    kdc = Kdc()
    first = await kdc.use("a", 100.0)
    await kdc.use("a", 50.0)
    kdc.answer(AuthenticationError("no KDC of the realm answers", reason="token", mechanism="GSSAPI"))
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "no KDC of the realm answers" in caplog.text
    kdc.now += 29.0
    assert await kdc.use("a", 21.0) == first
    assert renewing() == []
    kdc.now += 1.0
    await kdc.use("a", 20.0)
    assert len(renewing()) == 1
    kdc.answer(None)
    assert await kdc.use("a", 100.0) != first


async def test_tickets_that_a_broker_refused_meanwhile() -> None:
    """The renewed ones would take the place of those that were got anew."""
    kdc = Kdc()
    await kdc.use("a", 100.0)
    given = await kdc.source.given(BrokerEndpoint.bootstrap("a", 9092))
    given.on_use(50.0)
    kdc.source.refused(given)
    anew = await kdc.use("a", 100.0)
    kdc.answer(None)
    assert await kdc.use("a", 100.0) == anew
    # A late use of the former ones says nothing of the present ones.
    kdc.now += 60.0
    given.on_use(1.0)
    assert renewing() == []


async def test_a_system_without_room_for_another_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """The renewal is begun by a later authentication."""
    kdc = Kdc()
    await kdc.use("a", 100.0)

    def refuse(_: Any) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as full:
        full.setattr(threading.Thread, "start", refuse)
        await kdc.use("a", 50.0)
    kdc.now += 30.0
    await kdc.use("a", 40.0)
    assert len(renewing()) == 1
    kdc.answer(None)


async def test_refused_tickets_come_from_the_kdc_again() -> None:
    """The broker may have another key. The library frees no cache, so there is one more a minute at most."""
    kdc = Kdc()
    endpoint = BrokerEndpoint.bootstrap("b.example", 9092)
    places = []
    for passed in (0.0, 1.0, 58.0, 2.0):
        kdc.now += passed
        given = await kdc.source.given(endpoint)
        places.append(given.store["ccache"])
        kdc.source.refused(given)
    first, second, third, fourth = places
    assert first != second
    assert second == third == fourth
    assert (await kdc.source.given(endpoint)).store["ccache"] not in (first, second)

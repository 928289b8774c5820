"""The tickets of Kerberos of a producer: those of a key table are renewed beside their use."""

from __future__ import annotations

import math
import threading
import time
from functools import partial
from typing import TYPE_CHECKING, Final

import attrs

from aioproducer.config import ticket_cache
from aioproducer.errors import KafkaError
from aioproducer.security.sasl.credentials import KerberosCredentials
from aioproducer.security.sasl.kerberos import renew_tickets
from aioproducer.security.sasl.ticket_renewal import TicketRenewal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from aioproducer._net.log import Log
    from aioproducer._state.connecting.endpoint import BrokerEndpoint
    from aioproducer.config import ProducerConfig

__all__ = ["TicketSource"]

# Seconds for which a cache of tickets is used at least, whatever the broker says of them.
_CACHE_LASTS: Final = 60.0


class TicketSource:
    """The place of the tickets. Those of a key table stay in a cache in memory.

    A KDC that does not answer holds up no authentication while the tickets last: they are renewed in one thread, begun by the
    first use of them after half of their life.
    """

    def __init__(
        self,
        config: ProducerConfig,
        log: Log,
        *,
        renew: Callable[[KerberosCredentials, Iterable[str], float], None] = renew_tickets,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._config = config
        self._log = log
        self._renew = renew
        self._clock = clock
        self._changed_at = -math.inf
        # Tickets are used in threads.
        self._lock = threading.Lock()
        self._caches = 0
        self._renewals = 0
        self._renewal = TicketRenewal()
        self._is_renewing = False
        # Those of authentications since the last renewal; their tickets are renewed as well.
        self._services: set[str] = set()

    async def given(self, endpoint: BrokerEndpoint) -> KerberosCredentials:
        """The place of the tickets for this broker."""
        with self._lock:
            return self._credentials(endpoint.server_name)

    def refused(self, _: KerberosCredentials) -> None:
        """The next tickets come from the KDC: those in the cache belong to a former key of the broker."""
        # The library does not free a cache, so a broker that goes on refusing must not make one each time.
        with self._lock:
            if self._clock() >= self._changed_at + _CACHE_LASTS:
                self._changed_at = self._clock()
                self._caches += 1
                self._renewal.renewed()

    def _credentials(self, host: str) -> KerberosCredentials:
        config, place = self._config, (self._caches, self._renewals)
        return KerberosCredentials(
            config.sasl_kerberos_service_name or "",
            host,
            config.sasl_kerberos_principal,
            config.sasl_kerberos_keytab,
            ticket_cache(config.sasl_jaas_config),
            *place,
            partial(self._used, host, place),
        )

    def _used(self, host: str, place: tuple[int, int], left: float) -> None:
        """An authentication, in this thread, uses tickets that last for `left` seconds."""
        with self._lock:
            if place != (self._caches, self._renewals):
                return
            used = self._credentials(host)
            self._services.add(used.service_at_host)
            if self._is_renewing or not self._renewal.is_due(left, self._clock()):
                return
            self._is_renewing = True
            services, self._services = self._services, set()
        thread = threading.Thread(
            target=self._renewed, args=(used, services, left), name="aioproducer tickets", daemon=True
        )
        try:
            thread.start()
        except RuntimeError:  # the system has no room for a thread now
            self._is_renewing = False

    def _renewed(self, used: KerberosCredentials, services: set[str], left: float) -> None:
        """Renew the tickets into the other place, which is used from then on."""
        try:
            self._renew(attrs.evolve(used, renewals=used.renewals + 1), services, left)
        except KafkaError as error:
            self._log.warning(
                "the tickets of Kerberos are not renewed, the present ones are used until they end: %s", error
            )
        else:
            with self._lock:
                if used.caches == self._caches:
                    self._renewals += 1
                    self._renewal.renewed()
        finally:
            self._is_renewing = False

"""An examination: its phases, one after the other, each with an end."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable
from typing import TYPE_CHECKING

import anyio

from aioproducer._net.connecting.security import PLAINTEXT
from aioproducer._net.diagnosing.opening import Door
from aioproducer._net.diagnosing.preparing import prepared
from aioproducer._state.admission.checking import checked_topic
from aioproducer._state.diagnosing.addresses import Settings, own_certificate
from aioproducer._state.diagnosing.configured import config_finding
from aioproducer._state.diagnosing.finding import Finding
from aioproducer.config import checked_transactional_id, require_config
from aioproducer.config.seconds import checked_timeout
from aioproducer.doctor.asking import Asking, ClusterView
from aioproducer.doctor.budget import Budget, Phase
from aioproducer.doctor.configuring import unusable
from aioproducer.doctor.probe import probe as send_probe
from aioproducer.doctor.reaching import AT_ONCE, Bootstrap, Brokers
from aioproducer.doctor.record import Record
from aioproducer.errors import AuthenticationError, ConfigurationError, StateError

if TYPE_CHECKING:
    from aioproducer._net.connecting.security import SecurityProtocol
    from aioproducer.config import ProducerConfig
    from aioproducer.doctor.report import Report

__all__ = ["Examination", "examine"]

_TIMEOUT = 10.0


async def examine(
    config: ProducerConfig,
    topics: Iterable[str] = (),
    *,
    probe: bool = False,
    transactional_id: str | None = None,
    timeout: float = _TIMEOUT,
    strict: bool = False,
) -> Report:
    """Examine the way to a cluster, and these topics; it ends within 6 times `timeout` seconds.

    It changes nothing, except that `probe` sends one record to each topic. `transactional_id` is looked up (by default that of
    the configuration), and never initialized. With `strict`, a warning counts as a failure.
    """
    examination = Examination(
        config, topics, probe=probe, transactional_id=transactional_id, timeout=timeout, strict=strict
    )
    return await examination.run()


class Examination:
    """An examination that can be reported at any time, also when it was cancelled."""

    def __init__(
        self,
        config: ProducerConfig,
        topics: Iterable[str] = (),
        *,
        probe: bool = False,
        transactional_id: str | None = None,
        timeout: float = _TIMEOUT,
        strict: bool = False,
    ) -> None:
        require_config(config)
        self._config = config
        self._topics = list(
            dict.fromkeys(map(checked_topic, [topics] if isinstance(topics, str) else topics))
        )
        self._probes = probe
        given = config.transactional_id if transactional_id is None else transactional_id
        self._transactional_id = None if given is None else checked_transactional_id(given)
        seconds = checked_timeout("timeout", timeout)
        if seconds is not None and seconds <= 0:
            raise ConfigurationError("timeout: must be more than 0 seconds")
        self._timeout = _TIMEOUT if seconds is None else seconds
        self._record = Record(strict=strict)
        # Each has a producer of its own: more of them would measure each other.
        self._probing = asyncio.Semaphore(AT_ONCE)
        self._has_run = False
        self._settings = Settings(
            security_protocol=config.security_protocol,
            sasl_mechanism=config.sasl_mechanism,
            compression_type=config.compression_type,
            enable_idempotence=config.enable_idempotence,
            transactional=self._transactional_id is not None,
        )

    @property
    def report(self) -> Report:
        """The checks that are finished."""
        return self._record.report()

    async def run(self) -> Report:
        """Examine everything, once, and give the report."""
        if self._has_run:
            raise StateError("an examination runs once: make another one")
        self._has_run = True
        self._record.begin()
        budget = Budget(self._timeout, self._record.now())
        with anyio.CancelScope(deadline=budget.last) as limit:
            await self._examine(budget)
        if not limit.cancelled_caught:
            self._record.end()
        return self.report

    async def _examine(self, budget: Budget) -> None:
        security = await self._prepare(budget)
        door = Door(
            self._config,
            PLAINTEXT if security is None else security,
            only_tcp=security is None,
        )
        bootstrap = Bootstrap(door, self._settings, self._record, budget.phase("bootstrap"))
        try:
            await bootstrap.reach(self._config.bootstrap_servers)
            await self._examine_cluster(door, bootstrap, budget)
        finally:
            bootstrap.close()

    async def _prepare(self, budget: Budget) -> SecurityProtocol | None:
        """Read the files and secrets of the settings; None where they cannot be used."""
        began, phase = self._record.now(), budget.phase("config")
        try:
            async with asyncio.timeout(phase.limit()):
                found = await prepared(self._config)
        except (ConfigurationError, AuthenticationError, TimeoutError) as error:
            for finding in unusable(error):
                self._record.note("config", None, finding, self._record.now() - began)
            return None
        finding = config_finding(
            self._config.security_protocol,
            acks=self._config.acks,
            idempotent=self._config.enable_idempotence,
            compression_type=self._config.compression_type,
            transactional_id=self._config.transactional_id,
        )
        self._record.note("config", None, finding, self._record.now() - began)
        if found.own_certificate is not None:
            self._record.note("tls", "own certificate", own_certificate(found.own_certificate, time.time()))
        return found.security

    async def _examine_cluster(self, door: Door, bootstrap: Bootstrap, budget: Budget) -> None:
        view: ClusterView | None = None
        asking = Asking(self._config, door, bootstrap.servers, self._record)
        if bootstrap.servers:
            view = await asking.cluster(budget.phase("cluster"))
            if view is None:
                self._skip("no bootstrap server tells the cluster", but=("cluster",))
        else:
            self._skip("no bootstrap server can be used")
        if view is None:
            return
        phase = budget.phase("brokers")
        brokers = Brokers(door, self._settings, self._record, phase, view.id, bootstrap.came_by)
        asking.clock(view)
        asking.telemetry()
        await asyncio.gather(
            brokers.reach(list(view.brokers.values())),
            asking.idempotence(phase),
            self._transactions(asking, budget),
        )
        await self._examine_topics(asking, brokers.unreachable, view, budget)

    async def _transactions(self, asking: Asking, budget: Budget) -> None:
        if self._transactional_id is not None:
            await asking.transactions(self._transactional_id, budget.phase("brokers"))

    async def _examine_topics(
        self, asking: Asking, unreachable: set[int], view: ClusterView, budget: Budget
    ) -> None:
        if not self._topics:
            if self._probes:
                self._record.note("probe", None, Finding.skip("no topic was given"))
            return
        probed = self._topics if self._probes else []
        with self._record.expecting(*(("probe", topic) for topic in probed)):
            needs_keys = await asking.topics(self._topics, unreachable, view, budget.phase("topics"))
            phase = budget.phase("probe")
            with phase.scope():
                await asyncio.gather(*(self._probe(topic, needs_keys.get(topic), phase) for topic in probed))

    async def _probe(self, topic: str, needs_key: bool | None, phase: Phase) -> None:
        if needs_key is None:
            self._record.note(
                "probe", topic, Finding.skip("the topic cannot be written to, or was not examined")
            )
            return
        async with self._probing:
            began = self._record.now()
            finding = await send_probe(self._config, topic, phase.limit(), needs_key=needs_key)
            self._record.note("probe", topic, finding, self._record.now() - began)

    def _skip(self, why: str, but: tuple[str, ...] = ()) -> None:
        """Note the checks whose ground failed."""
        targets: list[tuple[str, str | None]] = [
            ("cluster", None),
            ("brokers", None),
            ("clock", None),
            ("idempotence", None),
            *(("transactions", each) for each in (self._transactional_id,) if each is not None),
            *(("topic", topic) for topic in self._topics),
            *(("probe", topic) for topic in self._topics if self._probes),
            ("telemetry", None),
        ]
        for kind, target in targets:
            if kind not in but:
                self._record.note(kind, target, Finding.skip(why))

"""The questions to a cluster that was reached, each with its check."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

import anyio

from aioproducer._net.diagnosing.questions import Questions
from aioproducer._net.diagnosing.servers import Server
from aioproducer._state.connecting.endpoint import BrokerEndpoint, address_text
from aioproducer._state.diagnosing.cluster import (
    ClockReading,
    MuteServer,
    clock_finding,
    cluster_finding,
    mute_cluster,
    telemetry_finding,
    with_mute_servers,
)
from aioproducer._state.diagnosing.finding import Finding
from aioproducer._state.diagnosing.identity import (
    coordinator_refused,
    idempotence_finding,
    no_producer_ids,
    transaction_finding,
)
from aioproducer._state.diagnosing.topics import Wanted, is_compacted, topic_findings, unknown_topic
from aioproducer._wire.error_codes import ERRORS, ErrorCode
from aioproducer.errors import KafkaError, printable

if TYPE_CHECKING:
    from aioproducer._net.diagnosing.opening import Door
    from aioproducer._state.connecting.opening import BrokerVersions
    from aioproducer._wire.messages.metadata import MetadataResponse, MetadataResponseBroker
    from aioproducer.config import ProducerConfig
    from aioproducer.doctor.budget import Phase
    from aioproducer.doctor.record import Record

__all__ = ["Asking", "ClusterView"]

T = TypeVar("T")


class ClusterView:
    """The cluster, as the bootstrap servers tell it."""

    def __init__(self) -> None:
        self.id: str | None = None
        self.brokers: dict[int, MetadataResponseBroker] = {}
        self.clock: ClockReading | None = None
        self.no_clock = "no broker tells the time of the controller"


class Asking:
    """Asks the bootstrap servers that were reached."""

    def __init__(
        self, config: ProducerConfig, door: Door, servers: Mapping[str, Server], record: Record
    ) -> None:
        self._config = config
        self._door = door
        self._servers = servers
        self._record = record
        self._questions = Questions(servers.values())

    async def _noted(
        self, kind: str, target: str | None, phase: Phase, examine: Callable[[], Awaitable[Finding]]
    ) -> None:
        """Note the finding of one question; its error is a failure."""
        began = self._record.now()
        with self._record.expecting((kind, target)), phase.scope():
            try:
                finding = await examine()
            except KafkaError as error:
                finding = Finding.fail(str(error), "Look at the log of this broker; see the findings above.")
            self._record.note(kind, target, finding, self._record.now() - began)

    async def _settled(self, ask: Callable[[], Awaitable[T]], code_of: Callable[[T], int], phase: Phase) -> T:
        """The answer; asked again while its error may pass: a coordinator is loading, or its topic is being made."""
        pause = self._config.retry_backoff_ms / 1000
        until = self._record.now() + phase.limit() - pause
        while True:
            answer = await ask()
            error = ERRORS.get(code_of(answer))
            if error is None or not error.retriable or self._record.now() >= until:
                return answer
            await asyncio.sleep(pause)

    # ------------------------------------------------------------------------------------------ the cluster

    async def cluster(self, phase: Phase) -> ClusterView | None:
        """The cluster; None if no bootstrap server tells it."""
        view = ClusterView()
        await self._noted("cluster", None, phase, lambda: self._cluster(view, phase))
        return view if view.brokers else None

    async def _cluster(self, view: ClusterView, phase: Phase) -> Finding:
        told: dict[str, str | None] = {}
        mute: dict[str, KafkaError] = {}

        async def ask(place: str, server: Server) -> None:
            try:
                answer = await Questions([server]).metadata((), phase.limit())
            except KafkaError as error:
                mute[place] = error
                return
            told[place] = answer.cluster_id
            if view.id in (None, answer.cluster_id):
                view.id = answer.cluster_id
                view.brokers |= {broker.node_id: broker for broker in answer.brokers}

        await asyncio.gather(*(ask(*each) for each in self._servers.items()))
        # Those that answered are asked first from here on.
        self._questions = Questions(sorted(self._servers.values(), key=lambda each: each.place in mute))
        silent = await self._mute(mute, phase)
        has_tls = self._door.security.tls_context is not None
        if not told:
            return mute_cluster(silent, has_tls=has_tls)
        controller = await self._controller(view, phase)
        racks = {broker.node_id: broker.rack for broker in view.brokers.values()}
        return with_mute_servers(cluster_finding(told, racks, controller), silent, has_tls=has_tls)

    async def _mute(self, errors: Mapping[str, KafkaError], phase: Phase) -> list[MuteServer]:
        """The brokers tell their versions and nothing else: a listener for SASL ends other connections."""
        offers: Sequence[tuple[str, ...] | None] = [None] * len(errors)
        if self._door.security.authenticate is None:
            servers = [self._servers[place] for place in errors]
            offers = await asyncio.gather(*(server.offered(phase.limit()) for server in servers))
        return [
            MuteServer(place, str(error), offer or ())
            for (place, error), offer in zip(errors.items(), offers, strict=True)
        ]

    async def _controller(self, view: ClusterView, phase: Phase) -> int | None:
        try:
            controller, view.clock, why = await self._questions.controller(phase.limit())
        except KafkaError as error:
            view.no_clock = str(error)
            return None
        view.no_clock = why or view.no_clock
        return controller if controller >= 0 else None

    def clock(self, view: ClusterView) -> None:
        """The clock of the controller."""
        reading = view.clock
        if reading is None:
            self._record.note("clock", None, Finding.skip(view.no_clock))
        else:
            self._record.note("clock", None, clock_finding(reading), reading.answered - reading.written)

    def telemetry(self) -> None:
        """The metrics of clients."""
        versions: list[BrokerVersions] = [each.versions for each in self._servers.values()]
        self._record.note("telemetry", None, telemetry_finding(versions))

    # ------------------------------------------------------------------------------------------ identities

    async def idempotence(self, phase: Phase) -> None:
        """A producer id."""
        if not self._config.enable_idempotence:
            self._record.note("idempotence", None, Finding.skip("enable.idempotence is false"))
            return
        if self._config.transactional_id is not None:
            text = "a transactional producer gets its producer id with its transactional id"
            self._record.note("idempotence", None, Finding.skip(text))
            return

        async def examine() -> Finding:
            if not self._questions.give_producer_ids():
                return no_producer_ids()
            code = await self._settled(
                lambda: self._questions.producer_id(phase.limit()), lambda code: code, phase
            )
            return idempotence_finding(code)

        await self._noted("idempotence", None, phase, examine)

    async def transactions(self, transactional_id: str, phase: Phase) -> None:
        """The state of a transactional id at its coordinator; it is not initialized."""
        await self._noted(
            "transactions", transactional_id, phase, lambda: self._transaction(transactional_id, phase)
        )

    async def _transaction(self, transactional_id: str, phase: Phase) -> Finding:
        found = await self._settled(
            lambda: self._questions.coordinator(transactional_id, phase.limit()),
            lambda answer: answer.error_code,
            phase,
        )
        if found.error_code:
            return coordinator_refused(transactional_id, found.error_code)
        place = f"{found.node_id} {address_text(found.host, found.port)}"
        endpoint = BrokerEndpoint.advertised(found.host, found.port, found.node_id)
        try:
            connection = await self._door.dial(endpoint, phase.limit())
        except KafkaError as error:
            return Finding.fail(
                f"{printable(transactional_id)}: the coordinator {place} cannot be reached: {error}",
                f"See the advice for broker {found.node_id}.",
            )
        server = Server(self._door, endpoint, connection)
        try:
            questions = Questions([server])
            facts = await self._settled(
                lambda: questions.transaction(transactional_id, place, phase.limit()),
                lambda answer: 0 if answer is None else answer.code,
                phase,
            )
        finally:
            server.close()
        if facts is None:
            return Finding.skip(f"coordinator {place}; the brokers do not describe transactions (Kafka 3.0)")
        return transaction_finding(transactional_id, facts, time.time())

    # ------------------------------------------------------------------------------------------ topics

    async def topics(
        self, names: Sequence[str], unreachable: set[int], view: ClusterView, phase: Phase
    ) -> dict[str, bool]:
        """Examine these topics; gives those that may be written to, and whether they need keys."""
        began = self._record.now()
        writable: dict[str, bool] = {}
        with self._record.expecting(*(("topic", name) for name in names)), phase.scope():
            try:
                answer = await self._questions.metadata(names, phase.limit())
            except KafkaError as error:
                for name in names:
                    finding = Finding.fail(str(error), "Look at the log of this broker.")
                    self._record.note("topic", name, finding, self._record.now() - began)
                return {}
            # Without their answers the topics can be examined nevertheless: they get half of the time.
            half = phase.limit() / 2
            (settings, unread), creates = await asyncio.gather(
                self._topic_settings(names, half), self._creates_topics(answer, view, half)
            )
            wanted = Wanted(
                self._config.acks == -1, self._config.max_request_size, unreachable, creates, unread
            )
            found = {topic.name or "": topic for topic in answer.topics}
            for name in names:
                topic = found.get(name)
                findings = (
                    [unknown_topic()] if topic is None else topic_findings(topic, settings.get(name), wanted)
                )
                for finding in findings:
                    self._record.note("topic", name, finding, self._record.now() - began)
                    if finding.detail.get("writable"):
                        writable[name] = is_compacted(settings.get(name))
        return writable

    async def _topic_settings(
        self, names: Sequence[str], limit: float
    ) -> tuple[Mapping[str, Mapping[str, str | None] | None], str | None]:
        """The settings of each topic, or the reason for which no broker tells them."""
        try:
            return await self._questions.topic_settings(names, limit), None
        except KafkaError as error:
            return {}, str(error)

    async def _creates_topics(self, answer: MetadataResponse, view: ClusterView, limit: float) -> bool | None:
        """Whether a missing topic would be created; None where none is missing, or nothing tells it in this time."""
        if all(topic.error_code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION for topic in answer.topics):
            return None
        with anyio.move_on_after(limit):
            # Only the broker itself tells its settings, and any one of them may be at the other end.
            for node_id in view.brokers:
                with contextlib.suppress(KafkaError):
                    told = await self._questions.creates_topics(node_id, limit)
                    if told is not None:
                        return told
        return None

"""The metadata task: keeps the view of the cluster up to date, and applies changes to the queues."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Protocol

import anyio.lowlevel

from aioproducer._net.cluster.control import FINAL
from aioproducer._net.log import PacedWarning, log_of
from aioproducer._net.timers.wakeup import Wakeup, wake
from aioproducer._state.admission.topic_errors import REFUSALS, refusal_of, said_of_topic
from aioproducer._wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from aioproducer.errors import KafkaError, ProtocolError

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Iterable, Mapping

    from aioproducer._net.cluster.session import Session
    from aioproducer._state.admission.waiting import Waiting
    from aioproducer._state.cluster.metadata import MetadataQuestion, Update
    from aioproducer._state.machines import Machines


class FollowsItsAddress(Protocol):
    """The sender of a broker, as changes of the metadata concern it."""

    def look_at_address(self) -> None: ...


class Cluster:
    """Asks for metadata when it is due, and applies every change to the queues and the lines."""

    def __init__(
        self, session: Session, machines: Machines, senders: Mapping[int, FollowsItsAddress]
    ) -> None:
        self.session = session
        self.machines = machines
        self.senders = senders
        self.log = log_of(session.config.client_id)
        self.loop = session.loop
        self.view = session.view
        self.wakeup = Wakeup(session.loop)
        self.watchers: list[asyncio.Future[None]] = []
        self.known = False
        # The newest request failed for a reason that waiting does not change.
        self.denial: KafkaError | None = None
        # The time of the last answer.
        self.read_at: float | None = None
        self.ended = False
        # The last line about a new beginning.
        self._warning = PacedWarning()

    # -- requests by other parts

    def want(self, topic: str) -> None:
        """A call waits for this topic, or for a partition that it does not have yet."""
        now = self.loop.time()
        self.view.want(topic, now)
        if self.view.topic(topic) is not None:
            self.view.refresh_needed([topic], now)
        self.wakeup.ring()

    def stale(self, topic: str | None) -> None:
        """An error showed that the view may be out of date."""
        self.view.refresh_needed(None if topic is None else [topic], self.loop.time())
        if topic is not None:
            self.view.leader_failed(topic)
        self.wakeup.ring()

    # -- the task

    async def run(self) -> None:
        """Send each question when it is due; never returns."""
        while True:
            now = self.loop.time()
            self._drop_idle(now)
            question = self.view.due(now)
            if question is not None:
                await self._ask(question)
                continue
            deadline = self.view.next_deadline()
            if deadline is not None:
                self.wakeup.by(deadline)
            await self.wakeup.wait()

    async def _ask(self, question: MetadataQuestion) -> None:
        try:
            if self.view.rebootstrap_due(self.loop.time()) and self._has_a_beginning():
                await self._rebootstrap()
            response = await self.session.control.ask(request_for(question), MetadataResponse)
            if self.session.control.has_begun():
                self._begin_again()
        except KafkaError as error:
            self._failed(error)
            return
        self.denial = None
        update = await self._read(response)
        self.apply(update)
        if update.unusable or update.topic_errors or (question.again and not update.changed):
            # Another broker may know more: this one may lag behind the others.
            self.session.control.change()
        self._advance(question.topics)
        self._wake_watchers()

    def _advance(self, topics: Iterable[str]) -> None:
        """Calls that still wait for one of these topics request it again: a partition may be missing."""
        now = self.loop.time()
        for topic in topics:
            if self.machines.admission.has_line(topic):
                self.machines.admission.advance(topic, now)

    async def _read(self, response: MetadataResponse) -> Update:
        """Apply the answer in slices that leave the loop free."""
        reading = self.view.answering(response, self.loop.time(), self.session.control.answered_by)
        while True:
            try:
                next(reading)
            except StopIteration as end:
                update: Update = end.value
                self._judge(update)
                return update
            await anyio.lowlevel.checkpoint()

    def _judge(self, update: Update) -> None:
        """A useless answer counts as a failure; a topic that contradicts itself keeps its old view."""
        if update.unusable:
            self.session.last_error = ProtocolError(f"the broker's metadata is unusable: {update.unusable}")
        else:
            self.known = True
            self.read_at = self.loop.time()
        for topic, code in update.topics_failing:
            self.log.warning(
                "the brokers returned no metadata of topic %s and are asked again: %s",
                topic,
                said_of_topic(code),
                extra={"topic": topic},
            )
        for topic, why in update.rejected:
            text = "the metadata of topic %s is invalid and was ignored: %s"
            self.log.warning(text, topic, why, extra={"topic": topic})

    def _failed(self, error: KafkaError) -> None:
        self.log.debug("no metadata: %s", error)
        self.session.last_error = error
        self.view.failed(self.loop.time(), self.session.rng)
        self.denial = error if isinstance(error, FINAL) else None
        if self.denial is not None:
            self.machines.admission.refuse_without_metadata(lambda _call: copy.copy(error))
        self._wake_watchers()

    def _has_a_beginning(self) -> bool:
        """Whether one of `bootstrap_servers` may accept a connection."""
        refused = self.session.addresses.has_refused_lately
        return not all(map(refused, self.session.config.bootstrap_servers))

    async def _rebootstrap(self) -> None:
        # Brokers that give no metadata may still take records: they are left when there is a place to begin at.
        if self.session.addresses.connected() and not await self.session.control.begun_again():
            return
        self._begin_again()

    def _begin_again(self) -> None:
        now = self.loop.time()
        self.log.log(
            self._warning.level(now),
            "no broker of the last metadata is usable: starting again from bootstrap_servers",
        )
        self.view.rebootstrapped(now)
        # What listens at their addresses may have changed.
        self.session.addresses.renew_all(but_for=self.session.control.connection)

    def _drop_idle(self, now: float) -> None:
        for topic in self.machines.accumulator.cluster.topics.values():
            if topic.used_at:
                self.view.touch(topic.name, topic.used_at)
        in_use = {batch.topic for batch in self.machines.accumulator.live} | self.machines.admission.topics()
        in_use |= self.machines.accumulator.cluster.counted_topics()
        for name in self.view.expire(now, in_use):
            self.machines.accumulator.cluster.forget(name)

    # -- effects

    def apply(self, update: Update) -> None:
        """Apply a change of the view to the queues and the lines of waiting calls."""
        now = self.loop.time()
        if update.nodes_changed:
            self.machines.accumulator.sticky.racks = {node.id: node.rack for node in self.view.brokers.nodes}
            for sender in self.senders.values():
                sender.look_at_address()
        changed = dict.fromkeys(update.topics_learned)
        changed.update(dict.fromkeys(name for name, _, _ in update.leaders_changed))
        changed.update(dict.fromkeys(name for name, *_ in update.counts_changed))
        changed.update(dict.fromkeys(update.topics_recreated))
        for name in changed:
            self._learn(name, now)
        for name, code in update.topic_errors:
            self._refuse(name, code)

    def _learn(self, name: str, now: float) -> None:
        facts = self.view.topic(name)
        if facts is None:
            return
        self.machines.learn(name, facts.topic_id, facts.partitions.leaders, now)

    def _refuse(self, name: str, code: int) -> None:
        if code not in REFUSALS:
            return

        def refusal(call: Waiting) -> KafkaError:
            return refusal_of(call.topic, code)

        self.machines.admission.refuse_topic(name, refusal)

    def raise_denial(self) -> None:
        """Raise the reason why no broker accepts this client, if the newest request failed for one."""
        if self.denial is not None:
            raise copy.copy(self.denial)

    def raise_refusal(self, name: str) -> None:
        """Raise the error that keeps this topic from ever being known, if there is one."""
        code = self.view.error_of(name)
        if code in REFUSALS:
            raise refusal_of(name, code)

    # -- waiting for changes

    async def metadata_changed(self) -> None:
        """Wait for the next answer, or failure, of a metadata request."""
        if self.ended:
            return
        waiter = self.loop.create_future()
        self.watchers.append(waiter)
        try:
            await waiter
        finally:
            if waiter in self.watchers:
                self.watchers.remove(waiter)

    def _wake_watchers(self) -> None:
        watchers, self.watchers = self.watchers, []
        for waiter in watchers:
            wake(waiter)

    def close(self) -> None:
        """No more changes will come."""
        self.ended = True
        self.wakeup.silence()
        self._wake_watchers()


def request_for(question: MetadataQuestion) -> MetadataRequest:
    """The request; without topics it asks for the brokers only."""
    topics = [MetadataRequestTopic(name=name) for name in question.topics]
    return MetadataRequest(topics=topics, allow_auto_topic_creation=True)

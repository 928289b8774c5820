"""The metadata view: the known state of the cluster, which bad answers do not erase, and the next question."""

from __future__ import annotations

import math
from collections.abc import Collection, Generator, Iterable, Mapping
from typing import NamedTuple

import attrs

from aioproducer._state.backoff import Backoff, Uniform
from aioproducer._state.cluster.brokers import KnownBrokers
from aioproducer._state.cluster.facts import NO_TOPIC_ID, Changes, Node, TopicFacts, Update, is_recreated
from aioproducer._state.cluster.partitions import PartitionFacts
from aioproducer._state.cluster.questions import Interest, MetadataQuestion, Questions
from aioproducer._state.cluster.topic_reading import SLICE, TopicReading, read_topic
from aioproducer._wire.error_codes import ERRORS, ErrorCode, describe
from aioproducer._wire.messages.metadata import MetadataResponse, MetadataResponseTopic

__all__ = ["LeaderHint", "MetadataQuestion", "MetadataView", "Node", "PartitionFacts", "TopicFacts", "Update"]

REBOOTSTRAP_AFTER = 300.0
# After this time, an error of a topic that went away and came back gets another line in the log: brokers may disagree.
QUIET_FOR = 60.0


class LeaderHint(NamedTuple):
    """The leader of a partition, as a Produce answer names it.

    `topic_id` is the id in the request; a topic that was deleted since then says nothing about the present one.
    """

    topic: str
    partition: int
    leader: int
    leader_epoch: int
    endpoint: Node | None
    topic_id: bytes = NO_TOPIC_ID


class MetadataView:
    """The cluster as its last answers described it; a bad answer never erases known facts.

    One question is under way at a time: `due()` hands it out, `answered()` or `failed()` ends it. Known facts stay
    usable while it is under way, and when it fails.
    """

    def __init__(
        self,
        *,
        max_age: float,
        max_idle: float,
        backoff: Backoff,
        rebootstrap_after: float | None = REBOOTSTRAP_AFTER,
    ) -> None:
        """All times in seconds; without `rebootstrap_after` the bootstrap addresses are never used again."""
        self._questions = Questions(
            max_age=max_age, max_idle=max_idle, backoff=backoff, rebootstrap_after=rebootstrap_after
        )
        self._facts: dict[str, TopicFacts] = {}
        self.brokers = KnownBrokers()
        # Hints that arrived while a question was under way; its answer may be older than the hints.
        self._hints: list[LeaderHint] = []

    def __repr__(self) -> str:
        question = self._questions.under_way
        state = f"asking about {len(question.topics)} topics" if question else "not asking"
        known = f"{len(self._facts)} of {len(self._questions.interests)} topics, {len(self.brokers.nodes)} brokers"
        return f"<MetadataView {known}, {state}>"

    # -- known facts

    def topic(self, name: str) -> TopicFacts | None:
        """The facts about a topic, at any age."""
        return self._facts.get(name)

    def error_of(self, name: str) -> int | None:
        """The error of the last answer about a topic; None after a good one, and before the first."""
        interest = self._questions.interests.get(name)
        return interest.error if interest else None

    @property
    def failing(self) -> bool:
        """Whether the last completed question got no answer from any broker."""
        return self._questions.failing

    def confirmed_at(self, name: str) -> float:
        """When a broker last confirmed all partitions of a topic that are known; -inf for never."""
        interest = self._questions.interests.get(name)
        return interest.confirmed_at if interest else -math.inf

    # -- wanted topics

    def want(self, topic: str, now: float) -> None:
        """A caller needs this topic: the question is due at once for a new topic, after the backoff for one that failed."""
        self._questions.want(topic, now)
        if topic not in self._facts:
            self._questions.ask_for(topic, now)

    def touch(self, topic: str, now: float) -> None:
        """The topic was used at `now` (times may come out of order)."""
        self._questions.touch(topic, now)

    def leader_failed(self, topic: str) -> None:
        """Records did not reach the leader of a partition: its epoch may be that of a former topic of this name."""
        interest = self._questions.interests.get(topic)
        if interest is not None:
            interest.leader_failed = True

    def broker_failed(self, node_id: int) -> None:
        """This broker cannot be reached: the same applies to all partitions that it leads."""
        for name, facts in self._facts.items():
            if node_id in facts.partitions.leaders:
                self.leader_failed(name)

    def id_refused(self, topic: str, topic_id: bytes) -> None:
        """A leader does not know the topic by this id; the present id may have come from a broker that lags behind."""
        known, interest = self._facts.get(topic), self._questions.interests.get(topic)
        if known is not None and interest is not None and known.topic_id == topic_id:
            interest.id_refused = True

    def expire(self, now: float, in_use: Collection[str] = ()) -> tuple[str, ...]:
        """Drop the topics that were not used for `max_idle` and are not `in_use` now; returns their names."""
        dropped = self._questions.expire(now, in_use)
        for topic in dropped:
            self._facts.pop(topic, None)
        return dropped

    # -- asking

    def refresh_needed(self, topics: Iterable[str] | None, now: float) -> None:
        """An error showed that the view is out of date. `topics` become wanted, also if they had been dropped."""
        for topic in topics or ():
            self.want(topic, now)
        self._questions.all_stale()

    def next_deadline(self) -> float | None:
        """When `due()` or `expire()` may have work; a time in the past means now."""
        return self._questions.next_deadline()

    def due(self, now: float) -> MetadataQuestion | None:
        """The question to ask now, if there is one; it is under way from then on."""
        return self._questions.due(now)

    def failed(self, now: float, rng: Uniform) -> None:
        """No usable answer came: the question is asked again after the backoff."""
        self._hints.clear()
        self._questions.failed(now, rng)

    def rebootstrap_due(self, now: float) -> bool:
        """Whether to give up all known brokers (KIP-899, KIP-1102)."""
        return self._questions.rebootstrap_due(now)

    def rebootstrapped(self, now: float) -> None:
        """The next question goes to the bootstrap addresses. Topics stay known, the brokers are forgotten."""
        self.brokers.forget()
        self._questions.rebootstrapped(now)

    # -- answers

    def answering(
        self, response: MetadataResponse, now: float, by: str | None = None
    ) -> Generator[None, None, Update]:
        """Apply an answer, with a pause after every few thousand partitions; the `Update` is its return value.

        `by` is the broker that answered. Each topic changes as a whole. A caller that stops in between calls `failed()`.
        """
        reason = unusable(response)
        if reason is not None:
            return self._refuse(response, reason, now)
        changes = Changes()
        partitions = (facts.partitions for facts in self._facts.values())
        changes.nodes = self.brokers.take(response.brokers, by, partitions)
        answered = yield from self._take_topics(response, changes, now)
        question = self._questions.under_way
        for name in question.topics if question else ():
            if name not in answered and name in self._questions.interests:
                self._topic_failed(name, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, changes, now)
        update = changes.update()
        self._hints.clear()
        self._questions.answered(now, changed=update.changed)
        return update

    def _refuse(self, response: MetadataResponse, reason: str, now: float) -> Update:
        self._hints.clear()
        self._questions.failed(now, None)
        rebootstrap = (
            response.error_code == ErrorCode.REBOOTSTRAP_REQUIRED
            and self._questions.rebootstrap_after is not None
        )
        self._questions.rebootstrap_required |= rebootstrap
        return Update(unusable=reason, rebootstrap=rebootstrap)

    def _take_topics(
        self, response: MetadataResponse, changes: Changes, now: float
    ) -> Generator[None, None, set[str]]:
        brokers = self.brokers.addresses()
        answered = set()
        since_pause = 0
        for topic in response.topics:
            interest = self._questions.interests.get(topic.name or "")
            if topic.name is None or interest is None:
                continue
            answered.add(topic.name)
            yield from self._take_topic(topic, topic.name, interest, brokers, changes, now)
            since_pause += len(topic.partitions)
            if since_pause >= SLICE:
                since_pause = 0
                yield
        return answered

    def _take_topic(
        self,
        answer: MetadataResponseTopic,
        name: str,
        interest: Interest,
        brokers: Mapping[int, Node],
        changes: Changes,
        now: float,
    ) -> Generator[None, None, None]:
        if answer.error_code:
            self._topic_failed(name, answer.error_code, changes, now)
        elif interest.rejects(answer.topic_id, now):
            changes.rejected.append((name, "it has the id of a topic that was deleted before"))
            self._questions.unsettled(name, now, again=True)
        else:
            known = self._facts.get(name)
            trusted = not interest.may_be_another_topic(now)
            reading = TopicReading(answer, known, brokers, trust_known=trusted)
            yield from read_topic(answer, reading)
            if self._questions.interests.get(name) is interest:
                self._take_reading(reading, interest, changes, now)

    def _take_reading(self, reading: TopicReading, interest: Interest, changes: Changes, now: float) -> None:
        name, problem = reading.name, reading.contradiction or reading.strange
        if problem:
            changes.rejected.append((name, problem))
        if not reading.contradiction:
            interest.error = None
            if interest.logged_at is not None and interest.logged_at + QUIET_FOR <= now:
                interest.logged_at = None
            interest.vanished = False
            interest.compare_leaders(now, others=reading.names_others)
            interest.confirmed_at = self._questions.asked_at if reading.confirms else -math.inf
            self._replace(reading, interest, changes, now)
        if reading.contradiction or reading.unsettled:
            self._questions.unsettled(name, now, again=True)
        else:
            self._questions.settled(name, now)

    def _replace(self, reading: TopicReading, interest: Interest, changes: Changes, now: float) -> None:
        known, facts = reading.known, reading.facts()
        self._facts[facts.name] = facts
        if known is not None and is_recreated(known, facts.topic_id):
            changes.recreated.append(facts.name)
            interest.id_replaced(known.topic_id, now)
            return
        interest.id_confirmed()
        if known is None:
            changes.learned.append(facts.name)
            return
        changes.leaders.extend(reading.leaders_changed)
        if len(facts.partitions) != len(known.partitions):
            changes.counts.append((facts.name, len(known.partitions), len(facts.partitions)))
        count = len(facts.partitions)
        hints = [hint for hint in self._hints if hint.topic == facts.name and hint.partition < count]
        if hints:
            self._lead(facts.name, hints, changes)

    def _topic_failed(self, name: str, code: int, changes: Changes, now: float) -> None:
        interest = self._questions.interests[name]
        # Brokers that create the topic also return this error once.
        if interest.error is not None and interest.logged_at is None and _may_pass(code):
            interest.logged_at = now
            changes.failing.append((name, code))
        interest.error = code
        known = self._facts.get(name)
        if (
            code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            and known is not None
            and known.topic_id == NO_TOPIC_ID
        ):
            interest.vanished = True
        changes.errors.append((name, code))
        # No permission, or an invalid name: only another call for the topic makes it worth a question.
        self._questions.unsettled(name, now, again=_may_pass(code))

    # -- hints

    def leader_hints(self, hints: Iterable[LeaderHint]) -> Update:
        """A Produce answer named leaders (KIP-951): each is accepted if its epoch is newer and its address is known."""
        changes = Changes()
        by_topic: dict[str, list[LeaderHint]] = {}
        for hint in hints:
            if self._is_news(hint, changes):
                if self._questions.under_way is not None:
                    self._hints.append(hint)
                by_topic.setdefault(hint.topic, []).append(hint)
        for topic, news in by_topic.items():
            self._lead(topic, news, changes)
        return changes.update()

    def _is_news(self, hint: LeaderHint, changes: Changes) -> bool:
        known = self._facts.get(hint.topic)
        if known is None or hint.leader < 0 or not 0 <= hint.partition < len(known.partitions):
            return False
        if is_recreated(known, hint.topic_id):
            return False
        if hint.leader_epoch <= known.partitions.leader_epochs[hint.partition]:
            return False
        if hint.endpoint is not None and hint.endpoint.id == hint.leader:
            changes.nodes |= self.brokers.learn(hint.endpoint)
        return self.brokers.node(hint.leader) is not None

    def _lead(self, topic: str, hints: Iterable[LeaderHint], changes: Changes) -> None:
        # All at once: to copy the columns of a large topic for each of its partitions would hold the loop for long.
        known = self._facts[topic]
        leaders, epochs = list(known.partitions.leaders), list(known.partitions.leader_epochs)
        for hint in hints:
            index = hint.partition
            if hint.leader_epoch <= epochs[index]:
                continue
            if leaders[index] != hint.leader:
                changes.leaders.append((topic, index, hint.leader))
            leaders[index], epochs[index] = hint.leader, hint.leader_epoch
        self._facts[topic] = attrs.evolve(known, partitions=known.partitions.led(leaders, epochs))


def unusable(response: MetadataResponse) -> str | None:
    """The reason why nothing can be learned from an answer, if there is one."""
    if response.error_code:
        return f"the broker answered {describe(response.error_code)}"
    if not any(broker.node_id >= 0 for broker in response.brokers):
        return "the broker names no broker at all, not even itself"
    return None


def _may_pass(code: int) -> bool:
    known = ERRORS.get(code)
    return known is None or known.retriable or code == ErrorCode.UNKNOWN_SERVER_ERROR

"""The metadata view: which topics are wanted, what is known of them, and when to ask again."""

from __future__ import annotations

from collections.abc import Collection, Generator, Iterable, Sequence

import attrs

from aioproducer._state.backoff import Backoff, Uniform
from aioproducer._state.deadlines import Deadlines
from aioproducer._state.facts import (
    NO_TOPIC_ID,
    SLICE,
    Node,
    PartitionFacts,
    TopicFacts,
    TopicReading,
    Update,
    is_recreated,
    read_topic,
)
from aioproducer._wire.error_codes import ERRORS, describe
from aioproducer._wire.messages.metadata import MetadataResponse, MetadataResponseTopic

__all__ = ["MetadataQuestion", "MetadataView", "Node", "PartitionFacts", "TopicFacts", "Update"]

UNKNOWN_TOPIC_OR_PARTITION = 3
REBOOTSTRAP_REQUIRED = 129
REBOOTSTRAP_AFTER = 300.0
# Brokers that the newest answer leaves out but that may still lead something; bounded, for answers that make ids up.
MOST_PAST_NODES = 100
# Ids of deleted topics, remembered per topic: a broker that lags behind must not bring an old one back.
MOST_RETIRED_IDS = 4


@attrs.frozen
class MetadataQuestion:
    """What to ask a broker: about these topics (none: about the brokers only), and no others.

    `partial`: only about topics that are missing; the others keep their age.
    """

    topics: tuple[str, ...]
    partial: bool


@attrs.define
class _Interest:
    """One wanted topic: when it was last used, and how it went with asking about it."""

    used: float
    ask_at: float | None = None
    fruitless: int = 0
    error: int | None = None
    retired_ids: tuple[bytes, ...] = ()
    # Without topic ids nobody says that a topic which comes back is another one; then its epochs may start anew.
    vanished: bool = False


@attrs.define
class _Changes:
    """An `Update` while it is being put together."""

    learned: list[str] = attrs.Factory(list)
    leaders: list[tuple[str, int, int]] = attrs.Factory(list)
    added: list[tuple[str, int, int]] = attrs.Factory(list)
    recreated: list[str] = attrs.Factory(list)
    errors: list[tuple[str, int]] = attrs.Factory(list)
    rejected: list[tuple[str, str]] = attrs.Factory(list)
    nodes: bool = False

    def update(self) -> Update:
        return Update(
            tuple(self.learned),
            tuple(self.leaders),
            tuple(self.added),
            tuple(self.recreated),
            tuple(self.errors),
            tuple(self.rejected),
            self.nodes,
        )


class MetadataView:
    """Knows the cluster as well as its last answers did, and never forgets what it knows because of a bad one.

    One question is under way at a time: `due()` hands it out, `answered()` or `failed()` ends it. While it is under way,
    and when it fails, what was known stays usable.
    """

    def __init__(
        self,
        *,
        max_age: float,
        max_idle: float,
        backoff: Backoff,
        rebootstrap_after: float | None = REBOOTSTRAP_AFTER,
    ) -> None:
        self.max_age = max_age
        self.max_idle = max_idle
        self.backoff = backoff
        self.rebootstrap_after = rebootstrap_after
        self._interests: dict[str, _Interest] = {}
        self._facts: dict[str, TopicFacts] = {}
        self._nodes: dict[int, Node] = {}
        self._past_nodes: dict[int, Node] = {}
        self._idle: Deadlines[str] = Deadlines()
        self._in_idle: set[str] = set()
        self._asks: set[str] = set()
        self._under_way: MetadataQuestion | None = None
        self._hints: list[tuple[str, PartitionFacts]] = []
        # When everything was last asked for with success, and how often in a row that changed nothing.
        self._complete_at: float | None = None
        self._stale = False
        self._fruitless = 0
        # Failed questions in a row, and the time before which none may be asked because of them.
        self._failures = 0
        self._not_before = 0.0
        self._trying_since: float | None = None
        self._rebootstrap_required = False

    def __repr__(self) -> str:
        state = f"asking for {len(self._under_way.topics)} topics" if self._under_way else "idle"
        known = f"{len(self._facts)} of {len(self._interests)} topics, {len(self._nodes)} brokers"
        return f"<MetadataView {known}, {state}>"

    # -- what is known

    @property
    def nodes(self) -> tuple[Node, ...]:
        """The brokers of the newest answer."""
        return tuple(self._nodes.values())

    def node(self, node_id: int) -> Node | None:
        """Where a broker listens; one that the newest answer leaves out is still known if it was before."""
        return self._nodes.get(node_id) or self._past_nodes.get(node_id)

    def topic(self, name: str) -> TopicFacts | None:
        """What is known of a topic, however old."""
        return self._facts.get(name)

    def error_of(self, name: str) -> int | None:
        """The error of the last answer about a topic; None after a good one, and before the first."""
        interest = self._interests.get(name)
        return interest.error if interest else None

    # -- what is wanted

    def want(self, topic: str, now: float) -> None:
        """Somebody needs this topic: it is asked for at once if it is new, after the backoff if that failed before."""
        interest = self._interests.get(topic)
        if interest is None:
            interest = self._interests[topic] = _Interest(now)
            self._watch_idle(topic, now)
        self.touch(topic, now)
        if topic not in self._facts and interest.ask_at is None:
            self._ask_for(topic, interest, now)

    def touch(self, topic: str, now: float) -> None:
        """The topic was used at `now`."""
        interest = self._interests.get(topic)
        if interest is not None and interest.used < now:
            interest.used = now

    def topic_unused(self, topic: str) -> bool:
        """Nobody waits for the topic and nothing is buffered for it: drop it now if it never became known."""
        if topic not in self._interests or topic in self._facts:
            return False
        self._drop(topic)
        return True

    def expire(self, now: float, in_use: Collection[str] = ()) -> tuple[str, ...]:
        """Drop the topics that were not used for `max_idle` and are not in use; returns their names."""
        dropped = []
        for topic in self._idle.pop_due(now):
            self._in_idle.discard(topic)
            if topic in in_use:
                self.touch(topic, now)
            interest = self._interests.get(topic)
            if interest is None:
                continue
            if interest.used + self.max_idle <= now:
                self._drop(topic)
                dropped.append(topic)
            else:
                self._watch_idle(topic, interest.used)
        return tuple(dropped)

    def _watch_idle(self, topic: str, used: float) -> None:
        # One entry per topic, moved on when it comes up: using a topic costs nothing here.
        if topic not in self._in_idle:
            self._in_idle.add(topic)
            self._idle.add(used + self.max_idle, topic)

    def _drop(self, topic: str) -> None:
        del self._interests[topic]
        self._facts.pop(topic, None)
        self._asks.discard(topic)

    # -- when to ask

    def refresh_needed(self, topics: Iterable[str] | None, now: float) -> None:
        """An error showed that the view is old. `topics` (if named) are wanted, also if they had been dropped."""
        for topic in topics or ():
            self.want(topic, now)
        self._stale = True

    def next_deadline(self) -> float | None:
        """When `due()`, `expire()` or `rebootstrap_due()` may have something to say; in the past means now."""
        times = [self._idle.earliest(), self._rebootstrap_at()]
        if self._under_way is None:
            times.append(self._ask_at())
        return min((time for time in times if time is not None), default=None)

    def due(self, now: float) -> MetadataQuestion | None:
        """The question to ask now, if there is one; from here on it is under way."""
        if self._under_way is not None or now < self._not_before:
            return None
        if now >= self._complete_due():
            question = MetadataQuestion(tuple(self._interests), partial=False)
            self._stale = False
        else:
            topics = tuple(topic for topic in self._asks if self._ask_time(topic) <= now)
            if not topics:
                return None
            question = MetadataQuestion(topics, partial=True)
        for topic in question.topics:
            self._interests[topic].ask_at = None
        self._asks.difference_update(question.topics)
        if self._trying_since is None:
            self._trying_since = now
        self._under_way = question
        return question

    def failed(self, now: float, rng: Uniform) -> None:
        """No usable answer came: the question will be asked again after the backoff."""
        self._give_back(now, self.backoff.after(self._failures, rng))

    def _complete_due(self) -> float:
        if self._complete_at is None:
            return 0.0
        return self._complete_at + (self.backoff.plain(self._fruitless) if self._stale else self.max_age)

    def _ask_time(self, topic: str) -> float:
        return self._interests[topic].ask_at or 0.0

    def _ask_at(self) -> float:
        return max(self._not_before, min(map(self._ask_time, self._asks), default=self._complete_due()), 0.0)

    def _ask_for(self, topic: str, interest: _Interest, now: float) -> None:
        """Ask about this topic: now the first time, then after the backoff."""
        wait = self.backoff.plain(interest.fruitless - 1) if interest.fruitless else 0.0
        interest.ask_at = now + wait
        self._asks.add(topic)

    def _give_back(self, now: float, wait: float) -> None:
        question, self._under_way = self._under_way, None
        self._hints.clear()
        self._failures += 1
        self._not_before = now + wait
        if question is None:
            return
        if not question.partial:
            self._stale = True
        for topic in question.topics:
            if topic in self._interests:
                self._interests[topic].ask_at = now
                self._asks.add(topic)

    # -- starting again from the bootstrap addresses

    def rebootstrap_due(self, now: float) -> bool:
        """Whether no known broker is worth asking any more (KIP-899, KIP-1102)."""
        at = self._rebootstrap_at()
        return at is not None and now >= at

    def rebootstrapped(self) -> None:
        """The next question goes to the bootstrap addresses. Topics stay known, the brokers are forgotten."""
        self._nodes = {}
        self._past_nodes = {}
        self._trying_since = None
        self._rebootstrap_required = False
        self._complete_at = None

    def _rebootstrap_at(self) -> float | None:
        if self.rebootstrap_after is None:
            return None
        if self._rebootstrap_required:
            return 0.0
        # Counted from the first question without an answer, as in Java: a client that has nothing to ask is not lost.
        return None if self._trying_since is None else self._trying_since + self.rebootstrap_after

    # -- answers

    def answered(self, response: MetadataResponse, now: float) -> Update:
        """Take in a whole answer at once."""
        reading = self.answering(response, now)
        while True:
            try:
                next(reading)
            except StopIteration as end:
                update: Update = end.value
                return update

    def answering(self, response: MetadataResponse, now: float) -> Generator[None, None, Update]:
        """Take in an answer, with a pause after every few thousand partitions; the `Update` is its return value.

        Each topic changes as a whole. Whoever stops in between says `failed()`.
        """
        reason = _unusable(response)
        if reason is not None:
            return self._refuse_answer(response, reason, now)
        question = self._under_way
        changes = _Changes()
        self._take_nodes(response, changes)
        brokers = self._nodes.keys() | self._past_nodes.keys()
        answered = set()
        since_pause = 0
        for topic in response.topics:
            if topic.name is None or topic.name not in self._interests:
                continue
            answered.add(topic.name)
            since_pause += len(topic.partitions)
            yield from self._take_topic(topic, topic.name, brokers, changes, now)
            if since_pause >= SLICE:
                since_pause = 0
                yield
        for name in question.topics if question else ():
            if name not in answered and name in self._interests:
                self._topic_failed(name, UNKNOWN_TOPIC_OR_PARTITION, changes, now)
        update = changes.update()
        self._complete(question, update, now)
        return update

    def _refuse_answer(self, response: MetadataResponse, reason: str, now: float) -> Update:
        rebootstrap = response.error_code == REBOOTSTRAP_REQUIRED
        self._give_back(now, self.backoff.plain(self._failures))
        self._rebootstrap_required = self._rebootstrap_required or rebootstrap
        return Update(unusable=reason, rebootstrap=rebootstrap and self.rebootstrap_after is not None)

    def _complete(self, question: MetadataQuestion | None, update: Update, now: float) -> None:
        self._under_way = None
        self._hints.clear()
        self._failures = 0
        self._not_before = 0.0
        self._trying_since = None
        self._rebootstrap_required = False
        if question is None or not question.partial:
            self._complete_at = now
            self._fruitless = 0 if update.changed else self._fruitless + 1

    def _take_nodes(self, response: MetadataResponse, changes: _Changes) -> None:
        listed = {
            broker.node_id: Node(broker.node_id, broker.host, broker.port, broker.rack)
            for broker in response.brokers
            if broker.node_id >= 0
        }
        changes.nodes = listed != self._nodes
        past = {**self._past_nodes, **self._nodes}
        self._nodes = listed
        self._past_nodes = _last(
            {id_: node for id_, node in past.items() if id_ not in listed}, MOST_PAST_NODES
        )

    def _take_topic(
        self,
        answer: MetadataResponseTopic,
        name: str,
        brokers: Collection[int],
        changes: _Changes,
        now: float,
    ) -> Generator[None, None, None]:
        interest = self._interests[name]
        if answer.error_code:
            self._topic_failed(name, answer.error_code, changes, now)
            return
        if answer.topic_id in interest.retired_ids:
            changes.rejected.append((name, "it has the id of a topic that was deleted before"))
            self._ask_again(name, interest, now)
            return
        known = self._facts.get(name)
        reading = yield from read_topic(answer, known, brokers, trust_epochs=not interest.vanished)
        if self._interests.get(name) is interest:
            self._settle_topic(reading, interest, changes, now)

    def _settle_topic(
        self, reading: TopicReading, interest: _Interest, changes: _Changes, now: float
    ) -> None:
        problem = reading.contradiction or reading.strange
        if problem:
            changes.rejected.append((reading.name, problem))
        if reading.contradiction:
            self._ask_again(reading.name, interest, now)
            return
        interest.error = None
        interest.vanished = False
        known, facts = reading.known, reading.facts()
        self._facts[reading.name] = facts
        self._record_changes(known, facts, reading, interest, changes)
        for name, hinted in self._hints:
            if name == reading.name:
                self._lead(name, hinted, changes)
        if reading.unsettled:
            self._ask_again(reading.name, interest, now)
        else:
            interest.fruitless = 0

    def _record_changes(
        self,
        known: TopicFacts | None,
        facts: TopicFacts,
        reading: TopicReading,
        interest: _Interest,
        changes: _Changes,
    ) -> None:
        if known is None:
            changes.learned.append(facts.name)
        elif is_recreated(known, facts.topic_id):
            changes.recreated.append(facts.name)
            interest.retired_ids = (*interest.retired_ids, known.topic_id)[-MOST_RETIRED_IDS:]
        else:
            changes.leaders.extend(reading.leaders_changed)
            if len(facts.partitions) != len(known.partitions):
                changes.added.append((facts.name, len(known.partitions), len(facts.partitions)))

    def _topic_failed(self, name: str, code: int, changes: _Changes, now: float) -> None:
        interest = self._interests[name]
        interest.error = code
        known = self._facts.get(name)
        if code == UNKNOWN_TOPIC_OR_PARTITION and known is not None and known.topic_id == NO_TOPIC_ID:
            interest.vanished = True
        changes.errors.append((name, code))
        if _may_pass(code):
            self._ask_again(name, interest, now)
        else:
            # Not allowed, or no valid name: only somebody who wants it again makes it worth a question.
            interest.fruitless += 1

    def _ask_again(self, name: str, interest: _Interest, now: float) -> None:
        interest.fruitless += 1
        self._ask_for(name, interest, now)

    # -- hints

    def leader_hint(
        self, topic: str, partition: int, leader_id: int, leader_epoch: int, endpoint: Node | None
    ) -> Update:
        """A Produce answer named the leader (KIP-951): believed if its epoch is newer and its address is known."""
        changes = _Changes()
        known = self._facts.get(topic)
        if known is None or not 0 <= partition < len(known.partitions) or leader_id < 0:
            return Update()
        if leader_epoch <= known.partitions[partition].leader_epoch:
            return Update()
        if endpoint is not None and endpoint.id == leader_id and endpoint != self._nodes.get(leader_id):
            self._nodes[leader_id] = endpoint
            self._past_nodes.pop(leader_id, None)
            changes.nodes = True
        if self.node(leader_id) is None:
            return Update()
        facts = known.partitions[partition]._replace(leader=leader_id, leader_epoch=leader_epoch)
        if self._under_way is not None:
            # The answer that is being read may be older than this.
            self._hints.append((topic, facts))
        self._lead(topic, facts, changes)
        return changes.update()

    def _lead(self, topic: str, facts: PartitionFacts, changes: _Changes) -> None:
        known = self._facts[topic]
        if facts.partition >= len(known.partitions):
            return
        before = known.partitions[facts.partition]
        if facts.leader_epoch <= before.leader_epoch:
            return
        partitions = (*known.partitions[: facts.partition], facts, *known.partitions[facts.partition + 1 :])
        self._facts[topic] = attrs.evolve(known, partitions=partitions)
        if before.leader != facts.leader:
            changes.leaders.append((topic, facts.partition, facts.leader))


def _unusable(response: MetadataResponse) -> str | None:
    if response.error_code:
        return f"the broker answered {describe(response.error_code)}"
    if not any(broker.node_id >= 0 for broker in response.brokers):
        return "the broker does not name a single broker, not even itself"
    return None


def _may_pass(code: int) -> bool:
    known = ERRORS.get(code)
    return known is None or known.retriable or code == -1


def _last(nodes: dict[int, Node], count: int) -> dict[int, Node]:
    kept: Sequence[int] = list(nodes)[-count:]
    return {id_: nodes[id_] for id_ in kept}

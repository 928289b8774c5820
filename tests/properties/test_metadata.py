"""The metadata view against a small model, over random lives of a cluster."""

from __future__ import annotations

import random
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, precondition, rule

from aioproducer._state.cluster.metadata import LeaderHint, MetadataQuestion, Node, TopicFacts, Update
from aioproducer._wire.messages.metadata import MetadataResponse, MetadataResponseBroker
from tests.properties.runs import in_parts, run
from tests.properties.swarm import SwarmMachine
from tests.state.cluster_answers import MAX_AGE, MAX_IDLE, answer, applied, partition, topic, view

NAMED = ("a", "b", "c")
NAMES = st.sampled_from(NAMED)
BROKERS = (1, 2, 3)
SPOILED = st.sampled_from(
    ["", "", "", "", "gap", "missing", "silent", "deleted", "twice", "denied", "stranger", "short", "deleted"]
)
# An error that does not pass by itself, and a broker that no answer lists.
DENIED = 29
STRANGER = 77


class ClusterTopic:
    """One incarnation of a topic as the cluster knows it: per partition the history of (leader, epoch)."""

    made = 0

    def __init__(self, partitions: int) -> None:
        ClusterTopic.made += 1
        self.id = ClusterTopic.made.to_bytes(16, "big")
        self.history = [[(1, 0)] for _ in range(partitions)]

    def rows(self, lag: int) -> list[tuple[int, int]]:
        """Leader and epoch per partition, as a broker says that lags behind by so many elections."""
        return [each[max(len(each) - 1 - lag, 0)] for each in self.history]


class ViewMachine(SwarmMachine):
    """Elections, hints, growth, deletion, bad answers and lost answers, in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.view = view()
        self.now = 0.0
        self.rng = random.Random(1)
        self.cluster = {name: ClusterTopic(2) for name in ("a", "b")}
        self.deleted: dict[str, ClusterTopic] = {}
        self.question: MetadataQuestion | None = None
        self.wanted: dict[str, float] = {}
        self.told: dict[str, dict[bytes, list[int]]] = {}
        self.last_topic: dict[str, TopicFacts] = {}
        self.incarnations: dict[bytes, ClusterTopic] = {}
        self.replaced: dict[bytes, float] = {}
        self.ports = dict.fromkeys(BROKERS, 9092)
        self.errors: dict[str, int | None] = {}
        self.denied: set[str] = set()

    @initialize()
    def start(self) -> None:
        """Two topics are known from the beginning."""
        self.want("a")
        self.want("b")
        self.ask()
        self.hear(0, "")

    # -- the cluster

    @rule(leaders=st.lists(st.sampled_from([-1, 1, 2, 3]), min_size=1, max_size=4))
    def elect(self, leaders: list[int]) -> None:
        """The first partitions of every topic get other leaders, or none."""
        for known in self.cluster.values():
            for history, leader in zip(known.history, leaders, strict=False):
                history.append((leader, history[-1][1] + 1))

    @rule(name=NAMES)
    def grow(self, name: str) -> None:
        """A topic gets one more partition."""
        known = self.cluster.get(name)
        if known and len(known.history) < 4:
            known.history.append([(2, 0)])

    @rule(name=NAMES, partitions=st.integers(1, 3))
    def recreate(self, name: str, partitions: int) -> None:
        """A topic is deleted and made again."""
        self.delete(name)
        self.cluster[name] = ClusterTopic(partitions)

    @rule(name=NAMES)
    def delete(self, name: str) -> None:
        """A topic is deleted."""
        if name in self.cluster:
            self.deleted[name] = self.cluster.pop(name)

    @rule(node=st.sampled_from(BROKERS), port=st.integers(9092, 9094))
    def move_broker(self, node: int, port: int) -> None:
        """A broker listens somewhere else; answers tell."""
        self.ports[node] = port

    # -- the client

    @rule(name=NAMES)
    def want(self, name: str) -> None:
        """A call sends to a topic; an unknown topic is asked about within a second."""
        self.view.want(name, self.now)
        self.wanted[name] = self.now
        self.denied.discard(name)
        if self.view.topic(name) is None and self.question is None:
            deadline = self.view.next_deadline()
            assert deadline is not None
            assert deadline <= self.now + 1.0

    @rule()
    def complain(self) -> None:
        """An error shows that something is old; a question follows within about a second."""
        self.view.refresh_needed(None, self.now)
        if self.question is None:
            deadline = self.view.next_deadline()
            assert deadline is not None
            assert deadline <= self.now + 1.0

    @rule(step=st.sampled_from([0.01, 0.3, 5.0, MAX_AGE, MAX_IDLE]))
    def wait(self, step: float) -> None:
        """Time passes, and idle topics go."""
        self.now += step
        dropped = self.view.expire(self.now)
        assert set(dropped) == {name for name, used in self.wanted.items() if used + MAX_IDLE <= self.now}
        for name in dropped:
            del self.wanted[name]
            self.told.pop(name, None)
            self.last_topic.pop(name, None)
            self.errors.pop(name, None)
            self.denied.discard(name)

    @precondition(lambda self: self.question is None)
    @rule()
    def ask(self) -> None:
        """There is a question exactly at the deadline, and only about wanted topics."""
        deadline = self.view.next_deadline()
        self.question = self.view.due(self.now)
        assert deadline is not None
        if self.question is None:
            assert deadline > self.now
        else:
            assert deadline <= self.now
            assert set(self.question.topics) <= set(self.wanted)
            assert self.question.partial or set(self.question.topics) == set(self.wanted)
            # A refused topic is asked about again when it is wanted again, or with all the others.
            assert not self.question.partial or not self.denied & set(self.question.topics)

    @precondition(lambda self: self.question is None)
    @rule(lag=st.integers(0, 2), spoil=SPOILED)
    def refresh(self, lag: int, spoil: str) -> None:
        """An error, a question about everything that is wanted, and its answer."""
        self.complain()
        self.wait(2.0)
        self.ask()
        assert self.question is not None
        self.hear(lag, spoil)

    @precondition(lambda self: self.question is not None)
    @rule(lag=st.integers(0, 2), spoil=SPOILED)
    def hear(self, lag: int, spoil: str) -> None:
        """A broker answers: as it knows the cluster, or with nonsense."""
        assert self.question is not None
        topics = []
        for name in self.question.topics:
            known = self.deleted.get(name) if spoil == "deleted" else self.cluster.get(name)
            self.errors[name] = 3
            self.denied.discard(name)
            if spoil == "denied":
                topics.append(topic(name, error=DENIED))
                self.errors[name] = DENIED
                self.denied.add(name)
            elif known is None or spoil == "missing":
                topics.append(topic(name, error=3))
            elif spoil != "silent":
                topics.append(self._told_topic(name, known, lag, spoil))
        self.question = None
        self.errors = {name: code for name, code in self.errors.items() if name in self.wanted}
        self.denied &= set(self.wanted)
        before = {name: self.view.topic(name) for name in NAMED}
        update = applied(self.view, self._response(topics), self.now)
        self._says_what_it_changed(update, before)

    def _response(self, topics: list[Any]) -> MetadataResponse:
        brokers = [MetadataResponseBroker(id_, f"host-{id_}", port, None) for id_, port in self.ports.items()]
        return MetadataResponse(brokers=brokers, topics=topics)

    def _told_topic(self, name: str, known: ClusterTopic, lag: int, spoil: str) -> Any:
        rows = known.rows(lag)
        if spoil == "stranger":
            # What it says of the first partition is not believed; of the others it is.
            rows = [(STRANGER, rows[0][1] + 1), *rows[1:]]
        if spoil == "short" and len(rows) > 1:
            # The broker has not heard of the last partition yet.
            rows.pop()
        retired = self.replaced.get(known.id, -60.0) + 60.0 > self.now
        if spoil not in ("gap", "twice") and not retired:
            self.errors[name] = None
        else:
            self.errors[name] = self.view.error_of(name)
        self.incarnations[known.id] = known
        seen = self.view.topic(name)
        if seen is None or seen.topic_id != known.id:
            # Of an incarnation that comes back nothing is remembered.
            self.told.get(name, {}).pop(known.id, None)
        if spoil in ("", "deleted", "short"):
            self._tell(name, known.id, [epoch for _, epoch in rows])
        elif spoil == "stranger":
            self._tell(name, known.id, [-1, *[epoch for _, epoch in rows[1:]]])
        shift = spoil == "gap"
        parts = [partition(i + shift, *row) for i, row in enumerate(rows)]
        if spoil == "twice":
            parts += parts[-1:]
        return topic(name, parts, known.id)

    def _says_what_it_changed(self, update: Update, before: dict[str, TopicFacts | None]) -> None:
        """The update has each change, and nothing that is none."""
        for name, old in before.items():
            new = self.view.topic(name)
            anew = old is not None and new is not None and old.topic_id != new.topic_id
            assert (name in update.topics_learned) == (old is None and new is not None)
            assert (name in update.topics_recreated) == anew
            if old is None or new is None or anew:
                continue
            moved = {
                (name, row.partition, row.leader)
                for row, past in zip(new.partitions, old.partitions, strict=False)
                if row.leader != past.leader
            }
            assert {each for each in update.leaders_changed if each[0] == name} == moved
            grown = (
                {(name, len(old.partitions), len(new.partitions))}
                if len(new.partitions) > len(old.partitions)
                else set()
            )
            assert {each for each in update.counts_changed if each[0] == name} == grown

    @precondition(lambda self: self.question is not None)
    @rule(empty=st.booleans())
    def lose(self, empty: bool) -> None:
        """No answer comes, or an empty one; it is asked again after a wait, within the limits of the backoff."""
        question, self.question = self.question, None
        assert question is not None
        if empty:
            assert applied(self.view, answer(brokers=()), self.now).unusable
        else:
            self.view.failed(self.now, self.rng)
        assert self.view.due(self.now) is None
        deadline = self.view.next_deadline()
        assert deadline is not None
        assert self.now < deadline
        if not question.partial or set(question.topics) & set(self.wanted):
            assert deadline <= self.now + 1.0

    @rule(name=NAMES, index=st.integers(0, 3))
    def hint_at_a_stranger(self, name: str, index: int) -> None:
        """A hint at a broker without an address, or of an epoch that is not newer, changes nothing."""
        before = self.view.topic(name)
        epoch = before.partitions[index].leader_epoch if before and index < len(before.partitions) else 9
        assert not self.view.leader_hints([LeaderHint(name, index, STRANGER, epoch + 1, None)]).changed
        assert not self.view.leader_hints(
            [LeaderHint(name, index, 2, epoch, Node(2, "elsewhere", 1))]
        ).changed
        assert self.view.topic(name) is before
        assert all(node.host != "elsewhere" for node in self.view.brokers.nodes)

    @rule(name=NAMES, index=st.integers(0, 3), lag=st.integers(0, 2))
    def hint(self, name: str, index: int, lag: int) -> None:
        """A Produce answer names a leader of the incarnation that the view knows."""
        known, seen = self.cluster.get(name), self.view.topic(name)
        if known is None or seen is None or seen.topic_id != known.id or index >= len(known.history):
            return
        leader, epoch = known.rows(lag)[index]
        before: dict[str, TopicFacts | None] = {name: seen}
        endpoint = Node(leader, f"host-{leader}", self.ports.get(leader, 9092))
        update = self.view.leader_hints([LeaderHint(name, index, leader, epoch, endpoint)])
        self._says_what_it_changed(update, before)
        if index < len(seen.partitions) and leader >= 0:
            after = self.view.topic(name)
            assert after is not None
            assert after.partitions[index].leader_epoch >= epoch
            self._tell(name, known.id, [epoch if i == index else -1 for i in range(index + 1)])
            assert not update.topics_recreated

    def _truth(self, facts: TopicFacts) -> list[int]:
        """The leader of each partition in the epoch that the view believes in."""
        known = self.incarnations[facts.topic_id]
        return [
            known.history[row.partition][row.leader_epoch][0] if row.leader_epoch >= 0 else -1
            for row in facts.partitions
        ]

    def _tell(self, name: str, topic_id: bytes, epochs: list[int]) -> None:
        best = self.told.setdefault(name, {}).setdefault(topic_id, [])
        best.extend([-1] * (len(epochs) - len(best)))
        for index, epoch in enumerate(epochs):
            best[index] = max(best[index], epoch)

    # -- what always holds

    @invariant()
    def only_what_is_wanted_is_known(self) -> None:
        """Nothing is kept for unwanted topics."""
        assert all(self.view.topic(name) is None for name in ("a", "b", "c") if name not in self.wanted)

    @invariant()
    def nothing_is_forgotten_and_nothing_goes_back(self) -> None:
        """No incarnation comes back within a minute; in one, partitions stay and epochs only grow; a leader fits its epoch."""
        for name in self.wanted:
            facts, before = self.view.topic(name), self.last_topic.get(name)
            if before is not None:
                assert facts is not None
                if facts.topic_id != before.topic_id:
                    assert self.replaced.get(facts.topic_id, -60.0) + 60.0 <= self.now
                    self.replaced[before.topic_id] = self.now
                else:
                    assert len(facts.partitions) >= len(before.partitions)
                    for new, old in zip(facts.partitions, before.partitions, strict=False):
                        assert new.leader_epoch >= old.leader_epoch
            if facts is not None:
                self.last_topic[name] = facts
                assert list(facts.partitions.leaders) == self._truth(facts)

    @invariant()
    def what_is_known_is_the_newest_that_was_told(self) -> None:
        """For the incarnation that the view believes in, each epoch is the highest that any broker has told."""
        for name in self.wanted:
            facts = self.view.topic(name)
            if facts is not None:
                told = self.told[name][facts.topic_id]
                assert list(facts.partitions.leader_epochs) == told

    @invariant()
    def the_last_error_is_known(self) -> None:
        """The error of the last answer about each topic, and none once it was good."""
        for name in self.wanted:
            assert self.view.error_of(name) == self.errors.get(name)

    @invariant()
    def brokers_are_reachable(self) -> None:
        """Every leader has an address."""
        for name in self.wanted:
            facts = self.view.topic(name)
            for leader in facts.partitions.leaders if facts else ():
                assert leader < 0 or self.view.brokers.node(leader) is not None


@in_parts
def test_the_view_is_the_models(part: int) -> None:
    """Whatever comes in whatever order."""
    run(ViewMachine, part)

"""When to ask for metadata, and about which topics: all wanted topics, in time, without storms of requests."""

from __future__ import annotations

import math
from collections.abc import Collection

import attrs

from aioproducer._state.backoff import Backoff, Uniform
from aioproducer._state.deadlines import Deadlines

# A broker that lags behind must not bring a deleted topic back. Ids have no order, so a former id is rejected for a
# limited time only; this corrects a wrong guess about the order of three ids.
RETIRED_FOR = 60.0
ANSWERS_TO_BELIEVE = 2
# All brokers learn of an election, or of added partitions, within this time. If a leader fails for longer, and brokers name
# another leader under an older epoch or list fewer partitions, the known facts are not of this topic: they are of a former
# topic of the name, or from before a restored backup.
FACTS_DOUBTED_FOR = 3.0
_BETWEEN_REBOOTSTRAPS = Backoff(1.0, 30.0)


@attrs.frozen
class MetadataQuestion:
    """The content of a request: these topics (none: the brokers only), and no others.

    `partial`: only missing topics; the others keep their age. `again`: the view is known to be out of date, and the
    answers since then brought nothing new.
    """

    topics: tuple[str, ...]
    partial: bool
    again: bool = False


@attrs.define(eq=False)
class Interest:
    """One wanted topic: the time of its last use, and the results of questions about it.

    `ask_at` is None while no question is wanted. `fruitless` counts answers in a row that did not settle the topic.
    """

    used: float
    ask_at: float | None = None
    answered_at: float = 0.0
    fruitless: int = 0
    error: int | None = None
    # When its error was logged; None without one.
    logged_at: float | None = None
    # When the newest question was asked whose answer had as many partitions as were known before.
    confirmed_at: float = -math.inf
    # When each former id of the topic was replaced.
    retired_ids: dict[bytes, float] = attrs.Factory(dict)
    # A leader refused the present id; the number of answers in a row with a former id since then.
    id_refused: bool = False
    former_answers: int = 0
    # Records did not reach a leader since an answer confirmed the known leaders; the time since which answers name
    # others, under older epochs, or list fewer partitions.
    leader_failed: bool = False
    others_lead_since: float | None = None
    # Without topic ids no answer says that a topic which reappears is a new one; its epochs may restart.
    vanished: bool = False

    def rejects(self, topic_id: bytes, now: float) -> bool:
        """Whether an answer with this id probably comes from a broker that lags behind.

        If a leader refuses the present id, the present id came from such a broker.
        """
        if self.retired_ids.get(topic_id, -math.inf) + RETIRED_FOR <= now:
            return False
        self.former_answers += self.id_refused
        return self.former_answers < ANSWERS_TO_BELIEVE

    def may_be_another_topic(self, now: float) -> bool:
        """Whether older leader epochs and fewer partitions are accepted: the topic is a new one, though no topic id says so."""
        since = self.others_lead_since
        return self.vanished or (since is not None and since + FACTS_DOUBTED_FOR <= now)

    def compare_leaders(self, now: float, *, others: bool) -> None:
        """An answer named `others` than the known leaders, under older epochs, or fewer partitions; or it confirmed them, or
        was accepted.
        """
        if not others:
            self.leader_failed = False
            self.others_lead_since = None
        elif self.leader_failed and self.others_lead_since is None:
            self.others_lead_since = now

    def id_confirmed(self) -> None:
        """An answer had the present id."""
        self.id_refused = False
        self.former_answers = 0

    def id_replaced(self, former_id: bytes, now: float) -> None:
        """Another id is the present one from now on."""
        lately = {id_: at for id_, at in self.retired_ids.items() if at + RETIRED_FOR > now}
        self.retired_ids = {**lately, former_id: now}
        self.id_confirmed()


class Questions:
    """Hands out one question at a time. `answered()` or `failed()` ends it."""

    def __init__(
        self, *, max_age: float, max_idle: float, backoff: Backoff, rebootstrap_after: float | None
    ) -> None:
        self.max_age = max_age
        self.max_idle = max_idle
        self.backoff = backoff
        self.rebootstrap_after = rebootstrap_after
        self.interests: dict[str, Interest] = {}
        self.under_way: MetadataQuestion | None = None
        # When the newest question was handed out.
        self.asked_at = -math.inf
        self.rebootstrap_required = False
        # In the order in which topics became wanted: the same events lead to the same request.
        self._asks: dict[str, None] = {}
        self._idle: Deadlines[str] = Deadlines()
        self._in_idle: set[str] = set()
        # When everything was last asked with success; whether that is known to be out of date; whether the question
        # under way has this reason; how many such answers in a row changed nothing.
        self._complete_at: float | None = None
        self._stale = False
        self._asked_as_stale = False
        self._fruitless = 0
        # Failed questions in a row, the earliest time of the next question because of them, and the time of the first.
        self._failures = 0
        self._not_before = 0.0
        self._trying_since: float | None = None
        # New beginnings since the last usable answer, and the earliest time of the next one that a broker asks for.
        self._rebootstraps = 0
        self._not_again_before = -math.inf

    @property
    def failing(self) -> bool:
        """Whether the last completed question got no usable answer."""
        return self._failures > 0

    # -- interests

    def want(self, topic: str, now: float) -> Interest:
        """A caller needs this topic."""
        interest = self.interests.get(topic)
        if interest is None:
            interest = self.interests[topic] = Interest(now)
            self._watch_idle(topic, now)
        interest.used = max(interest.used, now)
        return interest

    def touch(self, topic: str, now: float) -> None:
        """The topic was used at `now`, if it is wanted at all."""
        if topic in self.interests:
            self.want(topic, now)

    def drop(self, topic: str) -> None:
        """No caller needs this topic any more."""
        del self.interests[topic]
        self._asks.pop(topic, None)

    def expire(self, now: float, in_use: Collection[str]) -> tuple[str, ...]:
        """Drop the topics that were not used for `max_idle` and are not in use; returns their names."""
        dropped = []
        for topic in self._idle.pop_due(now):
            self._in_idle.discard(topic)
            if topic in in_use:
                self.touch(topic, now)
            interest = self.interests.get(topic)
            if interest is not None and interest.used + self.max_idle <= now:
                self.drop(topic)
                dropped.append(topic)
            elif interest is not None:
                self._watch_idle(topic, interest.used)
        return tuple(dropped)

    def _watch_idle(self, topic: str, used: float) -> None:
        # One entry per topic, moved when it comes up: a use of a topic costs nothing here.
        if topic not in self._in_idle:
            self._in_idle.add(topic)
            self._idle.add(used + self.max_idle, topic)

    # -- reasons to ask

    def ask_for(self, topic: str, now: float) -> None:
        """Ask about this topic: at once the first time, later with a backoff after its last answer."""
        interest = self.interests[topic]
        if interest.ask_at is not None:
            return
        wait = self.backoff.plain(interest.fruitless - 1) if interest.fruitless else 0.0
        interest.ask_at = max(now, interest.answered_at + wait)
        self._asks[topic] = None

    def all_stale(self) -> None:
        """All known facts may be out of date: ask about everything, within the limits of the backoff."""
        self._stale = True

    def unsettled(self, topic: str, now: float, *, again: bool) -> None:
        """The answer about this topic did not help; ask again automatically (`again`), or only when a caller wants it."""
        interest = self.interests[topic]
        interest.fruitless += 1
        self._answered(topic, interest, now)
        if again:
            self.ask_for(topic, now)

    def settled(self, topic: str, now: float) -> None:
        """The topic is known, and no question about it is open."""
        interest = self.interests[topic]
        interest.fruitless = 0
        self._answered(topic, interest, now)

    def _answered(self, topic: str, interest: Interest, now: float) -> None:
        # This answer also serves callers that asked while the question was under way.
        interest.answered_at = now
        interest.ask_at = None
        self._asks.pop(topic, None)

    # -- asking

    def next_deadline(self) -> float | None:
        """When there may be a question, or an idle topic; a time in the past means now."""
        idle = self._idle.earliest()
        if self.under_way is not None:
            return idle
        asks = min(map(self._ask_time, self._asks), default=None)
        complete = self._complete_due()
        due = max(self._not_before, complete if asks is None else min(asks, complete))
        return due if idle is None else min(due, idle)

    def due(self, now: float) -> MetadataQuestion | None:
        """The question to ask now, if there is one; it is under way from then on."""
        if self.under_way is not None or now < self._not_before:
            return None
        question = self._question(now)
        if question is None:
            return None
        for topic in question.topics:
            self.interests[topic].ask_at = None
            self._asks.pop(topic, None)
        if self._trying_since is None:
            self._trying_since = now
        self.under_way = question
        self.asked_at = now
        return question

    def _question(self, now: float) -> MetadataQuestion | None:
        if now >= self._complete_due():
            self._asked_as_stale, self._stale = self._stale, False
            again = self._asked_as_stale and self._fruitless > 0
            return MetadataQuestion(tuple(self.interests), partial=False, again=again)
        topics = tuple(topic for topic in self._asks if self._ask_time(topic) <= now)
        return MetadataQuestion(topics, partial=True) if topics else None

    def _complete_due(self) -> float:
        if self._complete_at is None:
            return 0.0
        return self._complete_at + (self.backoff.plain(self._fruitless) if self._stale else self.max_age)

    def _ask_time(self, topic: str) -> float:
        return self.interests[topic].ask_at or 0.0

    # -- the end of a question

    def answered(self, now: float, *, changed: bool) -> None:
        """A usable answer was read; `changed` says whether it brought anything new."""
        question, self.under_way = self.under_way, None
        self._failures = 0
        self._not_before = 0.0
        self._trying_since = None
        # Another broker knows the cluster.
        self.rebootstrap_required = False
        self._rebootstraps, self._not_again_before = 0, -math.inf
        if question is None or not question.partial:
            self._complete_at = now
            self._fruitless = 0 if changed or not self._asked_as_stale else self._fruitless + 1

    def failed(self, now: float, rng: Uniform | None) -> None:
        """No usable answer came: ask the same again after the backoff."""
        wait = self.backoff.plain(self._failures) if rng is None else self.backoff.after(self._failures, rng)
        question, self.under_way = self.under_way, None
        self._failures += 1
        self._not_before = now + wait
        if question is None:
            return
        self._stale = self._stale or not question.partial
        for topic in question.topics:
            if topic in self.interests:
                self.interests[topic].ask_at = now
                self._asks[topic] = None

    # -- starting again from the bootstrap addresses

    def rebootstrap_due(self, now: float) -> bool:
        """Whether to give up all known brokers (KIP-899, KIP-1102)."""
        if self.rebootstrap_after is None:
            return False
        # Counted from the first question without an answer, as in Java: a client without questions is not lost. A
        # question that was not asked yet is not without an answer, also where the time is 0.
        since = self._trying_since
        lost = self.failing and since is not None and now >= since + self.rebootstrap_after
        return lost or (self.rebootstrap_required and now >= self._not_again_before)

    def rebootstrapped(self, now: float) -> None:
        """The next question goes to the bootstrap addresses, and is about everything.

        Brokers that ask for another beginning each time wait ever longer for it: it replaces all connections.
        """
        self._not_again_before = now + _BETWEEN_REBOOTSTRAPS.plain(self._rebootstraps)
        self._rebootstraps += 1
        self._trying_since = None
        self.rebootstrap_required = False
        self._complete_at = None

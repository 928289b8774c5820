"""Counters by topic, for a bounded number of topics."""

from __future__ import annotations

from aioproducer._core import TopicCounts
from aioproducer.stats import OTHER_TOPICS

# Topics with counters of their own.
MOST_TOPICS = 1000


class CountsByTopic(dict[str, TopicCounts]):
    """The counters of each topic: `counts[topic]` makes them, or returns those of all other topics at the limit."""

    __slots__ = ()

    def __missing__(self, topic: str) -> TopicCounts:
        name = self.name_of(topic)
        found = self.get(name)
        if found is None:
            found = self[name] = TopicCounts()
        return found

    def name_of(self, topic: str) -> str:
        """The name under which this topic is counted."""
        is_named = topic in self or len(self) - (OTHER_TOPICS in self) < MOST_TOPICS
        return topic if is_named else OTHER_TOPICS

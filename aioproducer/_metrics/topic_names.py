"""The topics that are shown by their names; all others are one."""

from __future__ import annotations

from collections.abc import Collection

from aioproducer.stats import OTHER_TOPICS

__all__ = ["TopicNames"]


class TopicNames:
    """The names of topics on a page.

    A topic keeps its name once it has one, and never gets one later: otherwise its counters would go back.
    """

    def __init__(self, topics: bool | Collection[str], max_topics: int) -> None:
        if isinstance(topics, str | bytes):
            raise TypeError("topics must be True, False or a collection of names, not one string")
        if max_topics < 0:
            raise ValueError("max_topics must not be negative")
        self._allowed = None if topics is True else frozenset(topics or ())
        self._max_topics = max_topics
        self._names: dict[str, str] = {}

    def __getitem__(self, topic: str) -> str:
        """The name under which the topic is shown."""
        name = self._names.get(topic)
        if name is not None:
            return name
        is_allowed = topic != OTHER_TOPICS and (self._allowed is None or topic in self._allowed)
        if is_allowed and len(self._names) < self._max_topics:
            self._names[topic] = topic
            return topic
        return OTHER_TOPICS

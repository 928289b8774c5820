"""What Kafka allows as a name."""

from __future__ import annotations

import re

__all__ = ["client_id_problem", "topic_problem"]

MAX_TOPIC_LENGTH = 249  # a log directory is called topic-partition, and file names end at 255
MAX_CLIENT_ID_BYTES = 255
_TOPIC = re.compile(r"[A-Za-z0-9._-]+")


def topic_problem(topic: object) -> str | None:
    """Why no topic can be called this, or None if one can."""
    if not isinstance(topic, str):
        return f"a topic's name must be str, not {type(topic).__name__}"
    if not topic:
        return "a topic's name cannot be empty"
    if topic in {".", ".."}:
        return f"a topic's name cannot be {topic!r}"
    if len(topic) > MAX_TOPIC_LENGTH:
        return f"a topic's name has at most {MAX_TOPIC_LENGTH} characters, not {len(topic)}"
    if not _TOPIC.fullmatch(topic):
        return "a topic's name has only letters and digits of ASCII, '.', '_' and '-'"
    return None


def client_id_problem(client_id: object) -> str | None:
    """Why this cannot be a client id, or None if it can. Brokers put it into logs, quotas and metric names."""
    if not isinstance(client_id, str):
        return f"must be str, not {type(client_id).__name__}"
    if not client_id:
        return "must not be empty: leave it out for the default"
    if not client_id.isprintable():
        return "must have only printable characters"
    if len(client_id.encode("utf-8", "surrogatepass")) > MAX_CLIENT_ID_BYTES:
        return f"must have at most {MAX_CLIENT_ID_BYTES} bytes in UTF-8"
    return None

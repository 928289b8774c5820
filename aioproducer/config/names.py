"""The names that Kafka allows."""

from __future__ import annotations

import re
from collections.abc import Iterable

from aioproducer.errors import ConfigurationError, KafkaError

__all__ = [
    "checked_prefix",
    "checked_transactional_id",
    "checked_transactional_ids",
    "client_id_problem",
    "topic_problem",
    "transactional_id_problem",
]

MAX_TOPIC_LENGTH = 249  # a log directory is named topic-partition, and a file name has at most 255 characters
MAX_CLIENT_ID_BYTES = 255
MAX_STRING_BYTES = 32_767  # older versions of the requests have 16 bits for the length
_TOPIC = re.compile(r"[A-Za-z0-9._-]+")


def topic_problem(topic: object) -> str | None:
    """The reason for which this is not a valid topic name, or None."""
    if not isinstance(topic, str):
        return f"a topic name must be str, not {type(topic).__name__}"
    topic = str.__str__(topic)
    if not topic:
        return "a topic name must not be empty"
    if topic in {".", ".."}:
        return f"a topic name must not be {topic!r}"
    if len(topic) > MAX_TOPIC_LENGTH:
        return f"a topic name must have at most {MAX_TOPIC_LENGTH} characters, not {len(topic)}"
    if not _TOPIC.fullmatch(topic):
        return "a topic name must consist of ASCII letters, digits, '.', '_' and '-'"
    return None


def client_id_problem(client_id: object) -> str | None:
    """The reason for which this is not a valid client id, or None. Brokers put it into logs, quotas and metric names."""
    if not isinstance(client_id, str):
        return f"must be str, not {type(client_id).__name__}"
    client_id = str.__str__(client_id)
    if not client_id:
        return "must not be empty: remove it to use the default"
    if not client_id.isprintable():
        return "must consist of printable characters"
    if len(client_id.encode("utf-8", "surrogatepass")) > MAX_CLIENT_ID_BYTES:
        return f"must have at most {MAX_CLIENT_ID_BYTES} bytes in UTF-8"
    return None


def transactional_id_problem(name: object) -> str | None:
    """The reason for which this is not a valid transactional id, or None."""
    if not isinstance(name, str):
        return f"must be str, not {type(name).__name__}"
    name = str.__str__(name)
    if not name or not name.isprintable():
        return "must be a printable string that is not empty"
    if len(name.encode()) > MAX_STRING_BYTES:
        return f"must have at most {MAX_STRING_BYTES} bytes in UTF-8"
    return None


def checked_transactional_id(name: object) -> str:
    """A valid transactional id."""
    problem = transactional_id_problem(name)
    if problem is not None:
        raise ConfigurationError(f"a transactional id {problem}")
    assert isinstance(name, str)  # noqa: S101  # transactional_id_problem() has checked it
    # Not a subclass, whose methods may return something else the next time.
    return str.__str__(name)


def checked_prefix(prefix: object) -> str:
    """A valid prefix of transactional ids; every id begins with the empty string."""
    if not isinstance(prefix, str):
        raise ConfigurationError(f"the prefix of transactional ids must be str, not {type(prefix).__name__}")
    plain = str.__str__(prefix)
    if plain:
        checked_transactional_id(plain)
    return plain


def checked_transactional_ids(names: Iterable[object]) -> list[str]:
    """Several valid ids, each once. A single `str` is a mistake: its characters would be treated as ids."""
    if isinstance(names, str):
        raise ConfigurationError("transactional ids must be a sequence of str, not one str")
    found: dict[str, None] = {}
    try:
        for name in names:
            found[checked_transactional_id(name)] = None
    except KafkaError:
        raise
    except Exception as error:
        text = f"transactional ids must be a sequence of str; iterating over {type(names).__name__} failed"
        raise ConfigurationError(text, cause=error) from error
    return list(found)

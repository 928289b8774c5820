"""The subject of a schema: the name under which a registry keeps its versions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Literal, TypeAlias

from aioproducer.errors import ConfigurationError, text_of
from aioproducer.serializers import Part

__all__ = ["GivenSubject", "Subject", "subject_of"]

GivenSubject: TypeAlias = Literal["topic", "record", "topic-record"] | Callable[[str, Part, str | None], str]
Subject: TypeAlias = Callable[[str, Part, str | None], str]


def _by_topic(topic: str, part: Part, _record_name: str | None) -> str:
    return f"{topic}-{part}"


def _by_record(_topic: str, _part: Part, record_name: str | None) -> str:
    return _named(record_name)


def _by_both(topic: str, _part: Part, record_name: str | None) -> str:
    return f"{topic}-{_named(record_name)}"


def _named(record_name: str | None) -> str:
    if not record_name:
        raise ConfigurationError('subject: the schema has no name; use subject="topic", or a function')
    return record_name


_KNOWN: Final[dict[str, Subject]] = {"topic": _by_topic, "record": _by_record, "topic-record": _by_both}


def subject_of(given: Any) -> Subject:
    """The function that the option `subject` stands for."""
    if callable(given):
        return _checked(given)
    if not isinstance(given, str) or given not in _KNOWN:
        raise ConfigurationError('subject: must be "topic", "record", "topic-record" or a function')
    return _KNOWN[given]


def _checked(given: Callable[..., Any]) -> Subject:
    def subject(topic: str, part: Part, record_name: str | None) -> str:
        # Not the fault of a record: a record with an error of this class is not set aside.
        try:
            found = given(topic, part, record_name)
        except Exception as error:
            problem = f"subject: the function raised {type(error).__name__}: {text_of(error)}"
            raise ConfigurationError(problem, cause=error) from error
        if not isinstance(found, str) or not found:
            raise ConfigurationError(f"subject: the function returned {type(found).__name__}, not a name")
        return found

    return subject

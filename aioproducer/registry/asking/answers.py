"""The answers of a registry: their meaning, and the errors that they are."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable
from email.utils import parsedate_to_datetime
from typing import Any, Final, TypeVar

import attrs

from aioproducer.registry.errors import IncompatibleSchemaError, RegistryError, SchemaNotFoundError
from aioproducer.registry.schemas import Reference, RegisteredSchema, Schema, SchemaId

__all__ = ["Answer", "error_of", "read", "retry_after", "to_registered", "to_schema", "to_schema_id"]

T = TypeVar("T")

# A server that is overloaded, restarts, or has no leader at the moment.
RETRIED: Final = frozenset({408, 425, 429, 500, 502, 503, 504})
_NOT_FOUND: Final = frozenset({40401, 40402, 40403})
_INCOMPATIBLE: Final = 409
# Raised for a body that has not the form of an answer.
_FORM: Final = (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError)


@attrs.frozen
class Answer:
    """A complete HTTP answer."""

    status: int
    body: bytes
    url: str
    retry_after: str | None = None

    @property
    def good(self) -> bool:
        """True for a success."""
        return 200 <= self.status < 300


def error_of(answer: Answer, hide: Callable[[str], str]) -> RegistryError:
    """The error that an answer is; `hide` removes secrets, which a server may repeat."""
    code, message = None, None
    try:
        said = json.loads(answer.body)
        message = str(said["message"])
        code = int(said["error_code"])
    except _FORM:
        # A proxy answers in HTML.
        pass
    kind = RegistryError
    if code in _NOT_FOUND:
        kind = SchemaNotFoundError
    elif answer.status == _INCOMPATIBLE:
        kind = IncompatibleSchemaError
    text = f"the schema registry refused the request: {hide(message)}" if message else None
    if message is None:
        text = _unsaid(answer.status)
    return kind(text, status=answer.status, code=code, url=answer.url, retriable=answer.status in RETRIED)


def _unsaid(status: int) -> str | None:
    """The meaning of a refusal that is not in the form of a registry."""
    if 300 <= status < 400:
        return "the schema registry redirects to another address, which is not followed"
    if status in {401, 403}:
        return "the schema registry, or what is before it, refuses the credentials"
    if status in RETRIED or status == _INCOMPATIBLE:
        return None
    return "the answer is not that of a schema registry: check its address and the path in it"


def retry_after(answer: Answer, wall_clock: float) -> float:
    """The seconds that the server asks to wait; 0 if it does not."""
    given = (answer.retry_after or "").strip()
    if given.isascii() and given.isdigit():
        return float(given[:9])
    try:
        return max(0.0, parsedate_to_datetime(given).timestamp() - wall_clock)
    except (ValueError, TypeError, OverflowError):
        return 0.0


def read(answer: Answer, to: Callable[[Any], T]) -> T:
    """The content of a success, or a `RegistryError` for an answer that is none of a registry."""
    try:
        return to(json.loads(answer.body))
    except _FORM:
        # No cause: it would quote the body.
        problem = RegistryError(
            "the answer is not that of a schema registry", status=answer.status, url=answer.url
        )
    raise problem


def _number(said: Any) -> int:
    if type(said) is not int or not 0 <= said < 2**32:
        raise ValueError
    return said


def _guid(said: dict[str, Any]) -> uuid.UUID | None:
    given = said.get("guid")
    return None if given is None else uuid.UUID(given)


def _version(said: dict[str, Any]) -> int | None:
    given = said.get("version")
    return None if given is None else _number(given)


def to_schema_id(said: Any) -> SchemaId:
    """The answer to a registration or a look-up."""
    return SchemaId(_number(said["id"]), _guid(said), _version(said))


def to_schema(said: Any) -> tuple[Schema, uuid.UUID | None]:
    """The answer to a question for a schema."""
    references = tuple(
        Reference(str(each["name"]), str(each["subject"]), _number(each["version"]))
        for each in said.get("references") or ()
    )
    if not isinstance(said["schema"], str):
        raise TypeError
    kind: Any = said.get("schemaType") or "AVRO"
    return Schema(said["schema"], kind, references), _guid(said)


def to_registered(said: Any) -> RegisteredSchema:
    """The answer to a question for a version of a subject."""
    schema, guid = to_schema(said)
    return RegisteredSchema(str(said["subject"]), _number(said["version"]), _number(said["id"]), schema, guid)


def to_compatible(said: Any) -> bool:
    """The answer to a question about compatibility."""
    if type(said["is_compatible"]) is not bool:
        raise TypeError
    return bool(said["is_compatible"])


def to_subjects(said: Any) -> tuple[str, ...]:
    """The names of all subjects."""
    if not isinstance(said, list) or not all(isinstance(each, str) for each in said):
        raise TypeError
    return tuple(said)

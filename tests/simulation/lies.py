"""Altered answers, made from the declarations of the messages: each field of each answer, changed in each way."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Sequence
from typing import Any, Final

import attrs

from aioproducer._state.connecting.opening import BrokerVersions, negotiated
from aioproducer._state.transactions.versions import version_for
from aioproducer._wire.apis import APIS, message_of
from aioproducer._wire.messages.api_versions import ApiVersion, ApiVersionsResponse
from aioproducer._wire.messages.declaration import AnyMessage, Field, Message
from aioproducer._wire.programs import version_range
from aioproducer.testing.broker.handlers import HANDLERS

API_VERSIONS: Final = 18
ID: Final = re.compile(r"(_id|_index|_epoch|^index|^name|^key|_key|^host|^port|_host|_port)$")
CODE: Final = re.compile(r"error_code$")
UNKNOWN: Final = 999
"""An error code that Kafka does not have, a partition and a broker that do not exist."""
SASL: Final = {17: 1, 36: 2}
"""The answers of authentication, in the versions of their tests: no producer of the simulation authenticates."""
DOCTOR: Final = (32, 55)
"""The answers that only an examination reads; it has sockets of its own."""
ARRAYS: Final = ("emptied", "halved", "doubled", "turned")


@attrs.frozen
class Lie:
    """One field of one struct of an answer, and its change."""

    api: int
    struct: type[AnyMessage]
    field: Field
    how: str

    @property
    def name(self) -> str:
        """The name by which it is replayed."""
        return f"{APIS[self.api].name}-{self.struct.__name__}.{self.field.name}-{self.how}"

    def altered(self, answer: Any, rng: random.Random) -> Any:
        """The answer with the lie in it."""
        if isinstance(answer, tuple) and hasattr(answer, "_fields"):
            if type(answer) is self.struct:
                value = self._changed(getattr(answer, self.field.name), rng)
                answer = answer._replace(**{self.field.name: value})  # type: ignore[attr-defined]
            return type(answer)(*(self.altered(value, rng) for value in answer))
        if isinstance(answer, list | tuple):
            return [self.altered(value, rng) for value in answer]
        return answer

    def _changed(self, value: Any, rng: random.Random) -> Any:
        if value is None or hasattr(value, "_fields"):
            # There is no array to change, or a struct whose own fields are.
            return value
        if self.how in ARRAYS:
            return _rearranged(self.how, value, rng)
        if self.how == "unknown":
            return {"string": "another", "uuid": b"another-topic-id"}.get(self.field.type, UNKNOWN)
        return None if self.how == "null" else -1


def _rearranged(how: str, value: Sequence[Any], rng: random.Random) -> Sequence[Any]:
    match how:
        case "emptied":
            return []
        case "halved":
            half = rng.sample(range(len(value)), len(value) // 2)
            return [value[index] for index in sorted(half)]
        case "doubled":
            return [*value, *value]
    return list(reversed(value))


def lies_of(api: int, version: int) -> Iterator[Lie]:
    """Every lie that an answer of this version allows."""
    response = message_of(APIS[api].response)
    for struct in _structs_of(response, response.type):
        for field in response.structs[struct]:
            if version in version_range(field.versions):
                for how in _ways(field, version):
                    yield Lie(api, struct, field, how)


def _structs_of(message: Message, struct: type[AnyMessage]) -> Iterator[type[AnyMessage]]:
    """The struct, and all its parts; a module also declares those of the request."""
    yield struct
    for field in message.structs[struct]:
        kind = field.type.removeprefix("[]")
        for other in message.structs:
            if other.__name__ == kind:
                yield from _structs_of(message, other)


def _ways(field: Field, version: int) -> Sequence[str]:
    ways: list[str] = []
    if field.type.startswith("[]"):
        ways += ARRAYS
    elif CODE.search(field.name):
        ways += ("nobody", "unknown")
    elif ID.search(field.name):
        ways.append("unknown")
        if field.type.startswith("int"):
            ways.append("nobody")
    if version in version_range(field.nullable):
        ways.append("null")
    return ways


def version_at(api: int, level: int) -> int:
    """The version of the request in a transaction of this level, with the newest producer and broker."""
    return APIS[api].max_version if api == API_VERSIONS else version_for(_embedded(), api, level)


def _embedded() -> BrokerVersions:
    ranges = [ApiVersion(one.key, one.min_version, one.max_version) for one in HANDLERS.values()]
    return negotiated("the embedded Kafka", ApiVersionsResponse(0, ranges))

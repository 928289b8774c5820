"""The vocabulary in which the generated modules declare how messages travel."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any, NamedTuple, TypeAlias

AnyMessage: TypeAlias = tuple[Any, ...]


class Field(NamedTuple):
    """One field of a struct, in the words and version notation ("3-7", "9+", "none") of Kafka's definitions."""

    name: str
    type: str
    versions: str
    nullable: str = "none"
    tagged: str = "none"
    tag: int = -1
    ignorable: bool = False
    flexible: str = "as its message"


Structs: TypeAlias = Mapping[type[AnyMessage], tuple[Field, ...]]


class Message(NamedTuple):
    """A request, a response or a header, and the structs that it is made of."""

    type: type[AnyMessage]
    versions: str
    flexible: str
    structs: Structs


class Api(NamedTuple):
    """The API of one key; its versions are the stable ones. Its messages are in a module, which their first use loads."""

    key: int
    name: str
    module: str
    min_version: int
    max_version: int

    @property
    def messages(self) -> tuple[Message, Message]:
        """The declarations of the request and the response."""
        module = import_module(f"{__package__}.{self.module}")
        return module.REQUEST, module.RESPONSE

    @property
    def request(self) -> type[AnyMessage]:
        """The type of the request."""
        return self.messages[0].type

    @property
    def response(self) -> type[AnyMessage]:
        """The type of the response."""
        return self.messages[1].type

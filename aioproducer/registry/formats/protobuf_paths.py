"""The place of a message in a Protobuf schema, which is a serialized descriptor in base64, or the text of a .proto file."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Iterator
from typing import Any, Final, TypeAlias

from google.protobuf.descriptor_pb2 import FileDescriptorProto
from google.protobuf.message import DecodeError

__all__ = ["path_in"]

_Tree: TypeAlias = "list[tuple[str, _Tree]]"
"""The names of messages in their order, with the messages in them."""

_WORDS: Final = re.compile(
    r"""//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|[\w.]+|[^\s\w]""", re.DOTALL
)
_SKIPPED: Final = ("//", "/*", '"', "'")


def path_in(schema: str, full_name: str) -> tuple[int, ...] | None:
    """The indexes that lead to a message; None if the schema does not have it."""
    try:
        file = FileDescriptorProto.FromString(base64.b64decode(schema, validate=True))
        package, tree = file.package, _tree_of(file.message_type)
    except (ValueError, DecodeError):
        package, tree = _read(schema)
    name = full_name.removeprefix(f"{package}.") if package else full_name
    path: list[int] = []
    for part in name.split("."):
        found = next((at for at, (each, _) in enumerate(tree) if each == part), None)
        if found is None:
            return None
        path.append(found)
        tree = tree[found][1]
    return tuple(path)


def _tree_of(messages: Iterable[Any]) -> _Tree:
    return [(each.name, _tree_of(each.nested_type)) for each in messages]


def _read(text: str) -> tuple[str, _Tree]:
    """The package and the messages of a .proto file. An entry of a map is a message without a name."""
    words = [each for each in _WORDS.findall(text) if not each.startswith(_SKIPPED)]
    package, root = "", []  # type: tuple[str, _Tree]
    # The messages of the blocks around a word; None for a block that has none.
    around: list[_Tree | None] = [root]
    opening: _Tree | None = None
    for word, name, after in _threes(words):
        inside = around[-1]
        if word == "{":
            around.append(opening)
            opening = None
        elif word == "}":
            if len(around) > 1:
                around.pop()
        elif word == "package" and len(around) == 1 and after == ";":
            package = name
        elif inside is None:
            continue
        elif (word == "message" and after == "{") or (word == "group" and after == "="):
            opening = []
            inside.append((name, opening))
        elif word == "map" and name == "<":
            inside.append(("", []))
        elif word == "oneof" and after == "{":
            # A group in it belongs to the message.
            opening = inside
    return package, root


def _threes(words: list[str]) -> Iterator[tuple[str, str, str]]:
    ends = [*words, "", ""]
    return zip(ends, ends[1:], ends[2:], strict=False)

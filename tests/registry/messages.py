"""Protobuf messages without a compiler: files, nested messages, imports, and random ones."""

from __future__ import annotations

import string
import uuid
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from hypothesis import strategies as st

_FIELD = descriptor_pb2.FieldDescriptorProto
SCALARS: dict[int, Any] = {
    _FIELD.TYPE_DOUBLE: st.floats(allow_nan=False),
    _FIELD.TYPE_FLOAT: st.floats(width=32, allow_nan=False),
    _FIELD.TYPE_INT64: st.integers(-(2**63), 2**63 - 1),
    _FIELD.TYPE_UINT64: st.integers(0, 2**64 - 1),
    _FIELD.TYPE_SINT32: st.integers(-(2**31), 2**31 - 1),
    _FIELD.TYPE_BOOL: st.booleans(),
    _FIELD.TYPE_STRING: st.text(max_size=20),
    _FIELD.TYPE_BYTES: st.binary(max_size=20),
}


def new_file(
    name: str, package: str = "", imports: tuple[str, ...] = ()
) -> descriptor_pb2.FileDescriptorProto:
    """A file without messages."""
    return descriptor_pb2.FileDescriptorProto(
        name=name, package=package, syntax="proto3", dependency=list(imports)
    )


def add_message(to: Any, name: str, nested: bool = False) -> Any:
    """A message in a file, or in another message."""
    made = (to.nested_type if nested else to.message_type).add()
    made.name = name
    return made


def add_field(message: Any, name: str, kind: int, *, type_name: str = "", repeated: bool = False) -> None:
    """A field with the next number."""
    label = _FIELD.LABEL_REPEATED if repeated else _FIELD.LABEL_OPTIONAL
    number = len(message.field) + 1
    message.field.add(name=name, number=number, type=kind, label=label, type_name=type_name or None)


def classes_of(*files: descriptor_pb2.FileDescriptorProto) -> dict[str, Any]:
    """The classes of all messages, by their full names."""
    pool = descriptor_pool.DescriptorPool()
    found: dict[str, Any] = {}
    for file in files:
        for name in file.dependency:
            if name.startswith("google/protobuf/"):
                known = descriptor_pool.Default().FindFileByName(name)
                pool.AddSerializedFile(known.serialized_pb)
        pool.Add(file)
        descriptor = pool.FindFileByName(file.name)
        waiting = list(descriptor.message_types_by_name.values())
        while waiting:
            one = waiting.pop()
            found[one.full_name] = message_factory.GetMessageClass(one)
            waiting.extend(one.nested_types)
    return found


def people() -> dict[str, Any]:
    """A person with a home, whose file is imported, and a time; messages inside of messages."""
    home = new_file("places/home.proto", "places")
    add_field(add_message(home, "Home"), "street", _FIELD.TYPE_STRING)
    person = new_file("people.proto", "people", ("places/home.proto", "google/protobuf/timestamp.proto"))
    add_message(person, "First")
    one = add_message(person, "Person")
    add_field(one, "name", _FIELD.TYPE_STRING)
    add_field(one, "home", _FIELD.TYPE_MESSAGE, type_name=".places.Home")
    add_field(one, "born", _FIELD.TYPE_MESSAGE, type_name=".google.protobuf.Timestamp")
    add_message(one, "Zero", nested=True)
    inner = add_message(one, "Inner", nested=True)
    add_field(inner, "n", _FIELD.TYPE_INT64)
    add_field(add_message(inner, "Core", nested=True), "n", _FIELD.TYPE_INT64)
    return classes_of(home, person)


@st.composite
def cases(draw: Any) -> tuple[Any, dict[str, Any]]:
    """The class of a message, and fields of an object."""
    # A registry knows a file by its name.
    file = new_file(f"{uuid.uuid4().hex}.proto", "some.space")
    for number in range(draw(st.integers(0, 2))):
        add_message(file, f"Other{number}")
    message = add_message(file, "M")
    add_field(message, "n", _FIELD.TYPE_INT64)
    values: dict[str, Any] = {"n": 7}
    for name in draw(
        st.lists(st.text(string.ascii_lowercase[:6], min_size=1, max_size=4), max_size=5, unique=True)
    ):
        kind = draw(st.sampled_from(sorted(SCALARS)))
        repeated = draw(st.booleans())
        add_field(message, name, kind, repeated=repeated)
        values[name] = draw(st.lists(SCALARS[kind], max_size=4) if repeated else SCALARS[kind])
    return classes_of(file)["some.space.M"], values

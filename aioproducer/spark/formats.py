"""The options of structured rows: the format of values and keys, and the registry of their schemas."""

from __future__ import annotations

import enum
import re
from collections.abc import Mapping
from typing import Final

import attrs

from aioproducer.config import shown_pair

__all__ = ["OPTIONS", "SPELT_FORMATS", "Format", "PartFormat", "RegistryPlace", "Structure", "read_structure"]

OPTIONS: Final = (
    "valueformat", "keyformat", "keycolumns", "ignorenullfields", "validate", "subject", "schema.id", "key.subject",
    "key.schema.id", "protobuf.message", "protobuf.descriptors", "key.protobuf.message", "key.protobuf.descriptors",
    "registry.url", "registry.username", "registry.password", "registry.token", "registry.ca.location",
)  # fmt: skip
SPELT_FORMATS: Final[Mapping[str, str]] = {
    "valueformat": "valueFormat",
    "keyformat": "keyFormat",
    "keycolumns": "keyColumns",
    "ignorenullfields": "ignoreNullFields",
}
# Of one part; those of the key begin with "key.".
OF_A_PART: Final = ("subject", "schema.id", "protobuf.message", "protobuf.descriptors")
SECRETS: Final = ("registry.password", "registry.token")
# Nothing but references.
REFERENCES: Final = re.compile(r"(\$\{[^{}]+\})+")


class Format(enum.Enum):
    """A form of values and keys."""

    JSON = "json"
    AVRO = "avro"
    PROTOBUF = "protobuf"


@attrs.frozen
class PartFormat:
    """The format of keys or values, and the place of their schema."""

    format: Format
    # In place of the topic's own.
    subject: str | None = None
    schema_id: int | None = None
    # Of Protobuf: the full name of the message, and the path of its descriptors on the driver.
    message: str | None = None
    descriptors: str | None = None


@attrs.frozen
class RegistryPlace:
    """The registry; user name, password and token are references, which the driver replaces when it asks."""

    url: str
    username: str | None = None
    # Hidden: an error about a text that is no reference has frames with it.
    password: str | None = attrs.field(default=None, repr=False)
    token: str | None = attrs.field(default=None, repr=False)
    ca_location: str | None = None
    # What the references may read.
    folders: tuple[str, ...] = ()
    variables: str | None = None


@attrs.frozen
class Structure:
    """The formats of both parts, None for a part whose column has its bytes already."""

    value: PartFormat | None
    key: PartFormat | None
    key_columns: tuple[str, ...] = ()
    omits_nulls: bool = True
    validates: bool = True
    registry: RegistryPlace | None = None


def read_structure(ours: Mapping[str, str], problems: list[str]) -> Structure | None:
    """The options of the formats; None if no format is set."""
    value, key = _part("value", "", ours, problems), _part("key", "key.", ours, problems)
    columns = tuple(name.strip() for name in ours.get("keycolumns", "").split(",") if name.strip())
    if "keycolumns" in ours and "keyformat" not in ours:
        problems.append("keyColumns: set keyFormat as well")
    if "keycolumns" in ours and not columns:
        problems.append("keyColumns: must be names of columns, separated by commas")
    folded = [name.lower() for name in columns]
    if twice := sorted({name for name in folded if folded.count(name) > 1}):
        problems.append(f"keyColumns: names {', '.join(map(repr, twice))} twice")
    omits = _flag("ignorenullfields", ours, problems)
    validates = _flag("validate", ours, problems)
    parts = [part for part in (value, key) if part is not None]
    if not parts:
        idle = [name for name in OPTIONS if name in ours and not name.endswith("format")]
        if idle and not {"valueformat", "keyformat"} & ours.keys():
            problems.append(
                f"{', '.join(SPELT_FORMATS.get(name, name) for name in idle)}: set valueFormat or keyFormat"
            )
        return None
    registry = _registry(ours, problems)
    problems += [
        f"{part.format.value} needs a registry: set registry.url"
        for part in parts
        if registry is None and part.format is not Format.JSON and "registry.url" not in ours
    ][:1]
    if registry is None and "registry.url" not in ours:
        of_registry = [
            name for name in ours if name.startswith("registry.") or name.endswith(("subject", "schema.id"))
        ]
        if of_registry and all(part.format is Format.JSON for part in parts):
            problems.append(f"{', '.join(sorted(of_registry))}: set registry.url")
    return Structure(value, key, columns, omits, validates, registry)


def _part(name: str, prefix: str, ours: Mapping[str, str], problems: list[str]) -> PartFormat | None:
    option = f"{name}format"
    given = {each: ours[prefix + each].strip() for each in OF_A_PART if prefix + each in ours}
    if option not in ours:
        if given and prefix:
            problems.append(f"{', '.join(prefix + each for each in given)}: set keyFormat")
        return None
    known = {each.value: each for each in Format}
    text = ours[option].strip().lower()
    if text not in known:
        problems.append(f"{shown_pair(SPELT_FORMATS[option], ours[option])}: must be {', '.join(known)}")
        return None
    chosen = known[text]
    if chosen is not Format.PROTOBUF and any(each.startswith("protobuf.") for each in given):
        problems.append(
            f"{prefix}protobuf.message and {prefix}protobuf.descriptors are for protobuf, not for {text}"
        )
    if "protobuf.descriptors" in given and "protobuf.message" not in given:
        problems.append(
            f"{prefix}protobuf.descriptors: set {prefix}protobuf.message, the full name of the message"
        )
    return PartFormat(
        chosen,
        given.get("subject"),
        _id(f"{prefix}schema.id", given.get("schema.id"), problems),
        given.get("protobuf.message"),
        given.get("protobuf.descriptors"),
    )


def _id(name: str, text: str | None, problems: list[str]) -> int | None:
    if text is None:
        return None
    if not text.isascii() or not text.isdigit() or int(text) >= 2**32:
        problems.append(f"{name}: must be the id of a schema, a whole number")
        return None
    return int(text)


def _flag(name: str, ours: Mapping[str, str], problems: list[str]) -> bool:
    text = ours.get(name, "true").strip().lower()
    if text not in {"true", "false"}:
        problems.append(f"{shown_pair(SPELT_FORMATS.get(name, name), ours[name])}: must be true or false")
    return text != "false"


def _registry(ours: Mapping[str, str], problems: list[str]) -> RegistryPlace | None:
    if "registry.url" not in ours:
        return None
    if "@" in ours["registry.url"]:
        # No text of it: Spark shows options in its plans.
        problems.append(
            "registry.url has credentials, which Spark would show: set registry.username and registry.password"
        )
        return None
    problems += [
        f"{name}: must be a reference such as ${{dir:/run/secrets/registry:password}} or ${{env:NAME}}, because Spark shows options"
        for name in SECRETS
        if name in ours and not REFERENCES.fullmatch(ours[name].strip())
    ]
    if ("registry.username" in ours) != ("registry.password" in ours):
        problems.append("registry.username and registry.password: set both, or neither")
    if "registry.token" in ours and "registry.username" in ours:
        problems.append("registry.token and registry.username exclude each other")
    folders = tuple(each.strip() for each in ours.get("secrets.folders", "").split(",") if each.strip())
    return RegistryPlace(
        ours["registry.url"].strip(),
        ours.get("registry.username"),
        ours.get("registry.password"),
        ours.get("registry.token"),
        ours.get("registry.ca.location"),
        folders,
        ours.get("secrets.env"),
    )

"""The subjects of the embedded registry: their versions, ids and guids."""

from __future__ import annotations

import json
import uuid
from typing import Any, Final, Literal, get_args

import attrs

from aioproducer.testing.registry.compatibility import AvroNames, can_read

__all__ = ["Compatibility", "Refusal", "StoredSchema", "Subjects", "check_level"]

Compatibility = Literal["NONE", "BACKWARD"]
LEVELS: Final[tuple[str, ...]] = get_args(Compatibility)
TYPES: Final = ("AVRO", "JSON", "PROTOBUF")
_NAMESPACE: Final = uuid.UUID("6d3c2f0e-5f7b-4c53-9d3e-0a1c1f5f9b6a")

Reference = tuple[str, str, int]


class Refusal(Exception):  # noqa: N818  # an answer, which is no error of this process
    """An error that is the answer to a request."""

    def __init__(self, status: int, code: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message


@attrs.frozen
class StoredSchema:
    """A registered schema."""

    text: str
    type: str = "AVRO"
    references: tuple[Reference, ...] = ()

    def content(self, *, normalize: bool = False) -> str:
        """The parts that make it the same as another one: blanks do not count, with `normalize` nor does the order."""
        text = self.text
        if self.type != "PROTOBUF":
            text = json.dumps(json.loads(text), sort_keys=normalize)
        references = sorted(self.references) if normalize else self.references
        return json.dumps([text, self.type, references])


def check_level(level: Any) -> Compatibility:
    """A level of compatibility that exists here."""
    if level not in LEVELS:
        raise Refusal(
            422, 42203, f"Invalid compatibility level; the embedded registry has {', '.join(LEVELS)}"
        )
    return level  # type: ignore[no-any-return]  # checked


class Subjects:
    """All subjects."""

    def __init__(self, level: Compatibility, *, guids: bool) -> None:
        self.level = level
        self.levels: dict[str, Compatibility] = {}
        self._guids = guids
        self._versions: dict[str, list[int]] = {}
        # Ids begin with 1.
        self._schemas: list[StoredSchema] = []

    @property
    def names(self) -> list[str]:
        """The names of all subjects."""
        return list(self._versions)

    def register(self, subject: str, schema: StoredSchema, *, normalize: bool) -> dict[str, Any]:
        """The id of a schema, which becomes the next version of the subject unless it is one."""
        self._check(schema)
        found = self._found(subject, schema, normalize=normalize)
        if found is None:
            if not self.is_compatible(subject, schema):
                raise Refusal(409, 409, "Schema being registered is incompatible with an earlier schema")
            number = self._number(schema, normalize=normalize)
            versions = self._versions.setdefault(subject, [])
            versions.append(number)
            found = len(versions)
        return self.described(subject, found)

    def lookup(self, subject: str, schema: StoredSchema, *, normalize: bool) -> dict[str, Any]:
        """The version of the subject that is this schema."""
        self.versions(subject)
        self._check(schema)
        found = self._found(subject, schema, normalize=normalize)
        if found is None:
            raise Refusal(404, 40403, "Schema not found")
        return self.described(subject, found)

    def versions(self, subject: str) -> list[int]:
        """The numbers of the versions of a subject."""
        if subject not in self._versions:
            raise Refusal(404, 40401, f"Subject '{subject}' not found.")
        return list(range(1, len(self._versions[subject]) + 1))

    def version(self, subject: str, version: str) -> int:
        """The number of a version, which may be given as "latest"."""
        known = self.versions(subject)
        if version in {"latest", "-1"}:
            return known[-1]
        if not version.isascii() or not version.isdigit() or version == "0":
            raise Refusal(422, 42202, f"The specified version '{version}' is not a valid version id.")
        if int(version) not in known:
            raise Refusal(404, 40402, f"Version {version} not found.")
        return int(version)

    def described(self, subject: str, version: int) -> dict[str, Any]:
        """A version of a subject, as the registry tells it."""
        number = self._versions[subject][version - 1]
        return {"subject": subject, "version": version, "id": number, **self.schema(number)}

    def schema(self, number: int) -> dict[str, Any]:
        """A schema by its id, as the registry tells it."""
        if not 1 <= number <= len(self._schemas):
            raise Refusal(404, 40403, f"Schema {number} not found")
        schema = self._schemas[number - 1]
        told: dict[str, Any] = {"schema": schema.text, "schemaType": schema.type}
        if schema.references:
            told["references"] = [
                {"name": name, "subject": subject, "version": version}
                for name, subject, version in schema.references
            ]
        if self._guids:
            told["guid"] = str(self._guid(schema))
        return told

    def by_guid(self, guid: str) -> dict[str, Any]:
        """A schema by its guid."""
        for number, schema in enumerate(self._schemas, 1):
            if self._guids and str(self._guid(schema)) == guid:
                return self.schema(number)
        raise Refusal(404, 40403, f"Schema {guid} not found")

    def is_compatible(self, subject: str, schema: StoredSchema, version: int | None = None) -> bool:
        """Whether a schema may follow a version of the subject, by default its latest."""
        self._check(schema)
        versions = self._versions.get(subject)
        if not versions or self.levels.get(subject, self.level) == "NONE":
            return True
        former = self._schemas[versions[-1 if version is None else version - 1] - 1]
        if schema.type != former.type:
            return False
        return schema.type != "AVRO" or can_read(self._avro(schema), self._avro(former))

    def _number(self, schema: StoredSchema, *, normalize: bool) -> int:
        content = schema.content(normalize=normalize)
        for number, known in enumerate(self._schemas, 1):
            if known.content(normalize=normalize) == content:
                return number
        self._schemas.append(schema)
        return len(self._schemas)

    def _found(self, subject: str, schema: StoredSchema, *, normalize: bool) -> int | None:
        content = schema.content(normalize=normalize)
        for version, number in enumerate(self._versions.get(subject, ()), 1):
            if self._schemas[number - 1].content(normalize=normalize) == content:
                return version
        return None

    @staticmethod
    def _guid(schema: StoredSchema) -> uuid.UUID:
        return uuid.uuid5(_NAMESPACE, schema.content())

    def _check(self, schema: StoredSchema) -> None:
        """Refuse a schema that is none, or that refers to one that does not exist."""
        if schema.type not in TYPES:
            raise Refusal(422, 422, f"Invalid schema type {schema.type}")
        self._imported(schema)
        try:
            if schema.type == "AVRO":
                self._avro(schema).check()
            elif schema.type == "JSON" and not isinstance(json.loads(schema.text), dict | bool):
                raise ValueError("a JSON schema is an object or a boolean")
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise Refusal(422, 42201, f"Invalid schema: {error}") from error

    def _avro(self, schema: StoredSchema) -> AvroNames:
        return AvroNames(schema.text, self._imported(schema))

    def _imported(self, schema: StoredSchema) -> list[str]:
        """The texts of all schemas that a schema refers to, those without references first."""
        texts: dict[str, None] = {}
        for _, subject, version in schema.references:
            try:
                known = self.version(subject, str(version))
            except Refusal as refusal:
                raise Refusal(422, 42201, f"Invalid schema: reference: {refusal.message}") from refusal
            referred = self._schemas[self._versions[subject][known - 1] - 1]
            texts |= dict.fromkeys([*self._imported(referred), referred.text])
        return list(texts)

"""The REST API of the embedded registry: what each path does."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final
from urllib.parse import parse_qs, unquote

import attrs

from aioproducer.testing.registry.subjects import Refusal, StoredSchema, Subjects, check_level

__all__ = ["RegistryRequest", "answered"]


@attrs.frozen
class RegistryRequest:
    """A request that the registry received."""

    method: str
    path: str
    """Percent-encoded, as it came, without its query."""
    query: str
    headers: dict[str, str] = attrs.field(repr=False)
    """Their names are in lower case."""
    body: bytes

    @property
    def parts(self) -> tuple[str, ...]:
        """The parts of the path, decoded."""
        return tuple(unquote(part) for part in self.path.split("/")[1:])

    @property
    def normalize(self) -> bool:
        """The flag of the query."""
        return parse_qs(self.query).get("normalize") == ["true"]

    def json(self) -> dict[str, Any]:
        """The body."""
        try:
            content = json.loads(self.body)
        except ValueError as error:
            raise Refusal(400, 400, "the body is no JSON") from error
        if not isinstance(content, dict):
            raise Refusal(400, 400, "the body is no object")
        return content

    def schema(self) -> StoredSchema:
        """The schema in the body."""
        content = self.json()
        try:
            references = tuple(
                (str(each["name"]), str(each["subject"]), int(each["version"]))
                for each in content.get("references") or ()
            )
            return StoredSchema(str(content["schema"]), content.get("schemaType") or "AVRO", references)
        except (KeyError, TypeError, ValueError) as error:
            raise Refusal(422, 42201, "Invalid schema: the body has none") from error


Handler = Callable[[Subjects, RegistryRequest, tuple[str, ...]], Any]


def _names(subjects: Subjects, request: RegistryRequest, parts: tuple[str, ...]) -> Any:
    return subjects.names


def _versions(subjects: Subjects, request: RegistryRequest, parts: tuple[str, ...]) -> Any:
    return subjects.versions(parts[0])


def _by_guid(subjects: Subjects, request: RegistryRequest, parts: tuple[str, ...]) -> Any:
    return subjects.by_guid(parts[0])


def _register(subjects: Subjects, request: RegistryRequest, parts: tuple[str, ...]) -> Any:
    return subjects.register(parts[0], request.schema(), normalize=request.normalize)


def _lookup(subjects: Subjects, request: RegistryRequest, parts: tuple[str, ...]) -> Any:
    return subjects.lookup(parts[0], request.schema(), normalize=request.normalize)


def _version(subjects: Subjects, request: RegistryRequest, parts: tuple[str, ...]) -> Any:
    return subjects.described(parts[0], subjects.version(parts[0], parts[1]))


def _by_id(subjects: Subjects, request: RegistryRequest, parts: tuple[str, ...]) -> Any:
    number = parts[0]
    if not number.isascii() or not number.isdigit():
        raise Refusal(404, 404, "not an id")
    return subjects.schema(int(number))


def _compatible(subjects: Subjects, request: RegistryRequest, parts: tuple[str, ...]) -> Any:
    subject, version = parts
    number = subjects.version(subject, version)
    return {"is_compatible": subjects.is_compatible(subject, request.schema(), number)}


def _set_level(subjects: Subjects, request: RegistryRequest, parts: tuple[str, ...]) -> Any:
    level = check_level(request.json().get("compatibility"))
    if parts:
        subjects.levels[parts[0]] = level
    else:
        subjects.level = level
    return {"compatibility": level}


def _level(subjects: Subjects, request: RegistryRequest, parts: tuple[str, ...]) -> Any:
    if parts and parts[0] not in subjects.levels:
        message = f"Subject '{parts[0]}' does not have subject-level compatibility configured"
        raise Refusal(404, 40408, message)
    return {"compatibilityLevel": subjects.levels[parts[0]] if parts else subjects.level}


# "*" is a part that the handler gets.
_ROUTES: Final[dict[tuple[str, ...], Handler]] = {
    ("GET", "subjects"): _names,
    ("POST", "subjects", "*"): _lookup,
    ("GET", "subjects", "*", "versions"): _versions,
    ("POST", "subjects", "*", "versions"): _register,
    ("GET", "subjects", "*", "versions", "*"): _version,
    ("GET", "schemas", "ids", "*"): _by_id,
    ("GET", "schemas", "guids", "*"): _by_guid,
    ("POST", "compatibility", "subjects", "*", "versions", "*"): _compatible,
    ("GET", "config"): _level,
    ("PUT", "config"): _set_level,
    ("GET", "config", "*"): _level,
    ("PUT", "config", "*"): _set_level,
}


def answered(subjects: Subjects, request: RegistryRequest) -> tuple[int, Any]:
    """The status and content of the answer."""
    way = (request.method, *request.parts)
    for route, handler in _ROUTES.items():
        if len(route) == len(way) and all(a in ("*", b) for a, b in zip(route, way, strict=True)):
            parts = tuple(b for a, b in zip(route, way, strict=True) if a == "*")
            try:
                return 200, handler(subjects, request, parts)
            except Refusal as refusal:
                return refusal.status, {"error_code": refusal.code, "message": refusal.message}
    return 404, {"error_code": 404, "message": "HTTP 404 Not Found"}

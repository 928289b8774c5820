"""The errors of a schema registry."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Unpack

from aioproducer.errors import Facts, KafkaError, printable

__all__ = ["IncompatibleSchemaError", "RegistryError", "SchemaNotFoundError"]


class RegistryError(KafkaError):
    """The registry refused a request, or did not answer it.

    `status` is the status of the HTTP answer and `code` the registry's own error code, `url` the requested address without
    credentials. Each is None where there was no such thing.
    """

    summary = "the schema registry failed"

    def __init__(
        self,
        message: str | None = None,
        *,
        status: int | None = None,
        code: int | None = None,
        url: str | None = None,
        **facts: Unpack[Facts],
    ) -> None:
        self.status = status
        self.code = code
        self.url = url
        super().__init__(message, **facts)

    def _facts(self) -> Iterator[str]:
        yield from super()._facts()
        if self.status is not None:
            yield f"status {self.status}"
        if self.code is not None and self.code != self.status:
            yield f"error {self.code}"
        if self.url is not None:
            yield printable(self.url)


class SchemaNotFoundError(RegistryError):
    """The registry has no such subject (40401), version (40402) or schema (40403)."""

    summary = "the schema registry has no such schema"


class IncompatibleSchemaError(RegistryError):
    """The schema is not compatible with the versions of its subject (409)."""

    summary = "the schema is not compatible with its subject"

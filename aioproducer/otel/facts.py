"""Facts of records and batches as attributes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aioproducer.errors import KafkaError, RecordError, RecordTooLargeError, error_name, text_of
from aioproducer.otel import names
from aioproducer.outcome import Outcome

if TYPE_CHECKING:
    from opentelemetry.util.types import AttributeValue

    Attributes = dict[str, AttributeValue]


def server_of(address: str | None) -> Attributes:
    """The attributes for "host:port"."""
    if address is None:
        return {}
    host, _, port = address.rpartition(":")
    attributes: Attributes = {names.SERVER_ADDRESS: host.removeprefix("[").removesuffix("]")}
    if port.isdecimal():
        attributes[names.SERVER_PORT] = int(port)
    return attributes


def failure_of(error: BaseException) -> Attributes:
    """The attributes of a failure."""
    outcome = getattr(error, "outcome", Outcome.NOT_WRITTEN)
    return {names.ERROR_TYPE: error_name(error), names.OUTCOME: outcome.name.lower()}


def text_without_data(error: BaseException) -> str:
    """The text of an error. That of a refused record, or of an error of other code, may quote the record: then only its kind."""
    if not isinstance(error, KafkaError):
        return type(error).__name__
    found: BaseException | None = error
    while found is not None:
        if isinstance(found, RecordError) and not isinstance(found, RecordTooLargeError):
            return f"{type(found).__name__}: {found.summary}"
        found = found.__cause__
    return text_of(error)

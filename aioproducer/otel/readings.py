"""The counters and gauges of producers, with the names and attributes of OpenTelemetry, at the time of one collection."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from aioproducer._metrics.producers import MOST_FORMER_CLIENTS
from aioproducer._metrics.readings import merge
from aioproducer._metrics.table import METRICS, Kind, Metric
from aioproducer.otel import names
from aioproducer.otel.facts import server_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from aioproducer._metrics.producers import ClientReading
    from aioproducer.otel.facts import Attributes

    Values = dict[tuple[tuple[str, object], ...], float]
    # By client id, then by broker.
    Places = dict[str, dict[str, str]]

# Histograms cannot be observed.
OBSERVED: Final = tuple(metric for metric in METRICS if metric.kind is not Kind.HISTOGRAM)

_BY_NAME: Final = {metric.name: metric for metric in OBSERVED}
_ATTRIBUTES: Final = {"topic": names.DESTINATION, "error": names.ERROR_TYPE, "outcome": names.OUTCOME}
_UNITS: Final = {
    "batches": "{batch}",
    "batches_split": "{batch}",
    "connection_up": "1",
    "connect_failures": "{connection}",
    "connects": "{connection}",
    "live": "1",
    "loop_stalls": "{stall}",
    "memory_waits": "{call}",
    "metadata_waits": "{call}",
    "ready": "1",
    "request_errors": "{request}",
    "requests": "{request}",
    "requests_in_flight": "{request}",
    "suspected_data_losses": "{loss}",
    "transactions": "{transaction}",
    "waiting_calls": "{call}",
}


def name_of(metric: Metric) -> str:
    """The name for OpenTelemetry."""
    return f"{names.SCOPE}.{metric.name.replace('_', '.')}"


def unit_of(metric: Metric) -> str:
    """The unit."""
    words = metric.name.split("_")
    if "seconds" in words:
        return "s"
    return "By" if "bytes" in words else _UNITS.get(metric.name, "{record}")


def values_of(readings: Sequence[ClientReading], places: Places) -> dict[str, Values]:
    """The values of each metric by their attributes. Those with equal attributes are one.

    `places`: the first address of each broker. The counters of a broker stay with it, as they would go back otherwise: the
    connection for metadata moves from broker to broker, and a producer that is gone has no address any more. Of client ids that
    are not shown, those of the newest `MOST_FORMER_CLIENTS` are kept.
    """
    values: dict[str, Values] = {}
    for reading in readings:
        for metric, attributes, value in _each(reading, places):
            found = values.setdefault(metric.name, {})
            key = tuple(attributes.items())
            found[key] = merge(metric, found[key], value) if key in found else value
    shown = {reading.client_id for reading in readings}
    hidden = [client_id for client_id in places if client_id not in shown]
    for client_id in hidden[: max(0, len(hidden) - MOST_FORMER_CLIENTS)]:
        del places[client_id]
    return values


def _each(reading: ClientReading, places: Places) -> Iterator[tuple[Metric, Attributes, float]]:
    present = {labels[0]: labels[1] for name, labels in reading.gauges if name == "connection_up"}
    first = places.setdefault(reading.client_id, {})
    for broker, address in present.items():
        first.setdefault(broker, address)
    for numbers, addresses in ((reading.counts.counters, first), (reading.gauges, present)):
        for (name, labels), value in numbers.items():
            metric = _BY_NAME[name]
            attributes: Attributes = {names.CLIENT_ID: reading.client_id}
            for label, text in zip(metric.labels, labels, strict=True):
                if label in _ATTRIBUTES:
                    attributes[_ATTRIBUTES[label]] = text
                elif label == "broker":
                    attributes |= server_of(addresses.get(text))
            yield metric, attributes, value

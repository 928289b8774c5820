"""The dashboard and the alert rules ask for metrics and labels that a scraped page has."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from aioproducer._metrics.table import METRICS, Kind
from aioproducer.prometheus import ProducerCollector
from tests.api.prometheus.page import Page, scraped
from tests.api.prometheus.told import FULL, WELL, Told
from tests.examples.programs import EXAMPLES
from tests.repo.source import ROOT

FOLDER = EXAMPLES / "monitoring"
DOCUMENT = ROOT / "docs" / "monitoring.md"
SELECTOR = re.compile(r"\b(aioproducer_\w+)(?:\{([^}]*)\})?")
GROUPED = re.compile(r"\bby \(([^)]*)\)")
# Prometheus adds these to each sample of a target.
OF_THE_TARGET = {"job", "instance"}


@cache
def page() -> Page:
    """A scraped page with each metric."""
    registry, producer = CollectorRegistry(), Told(FULL, WELL)
    ProducerCollector(producer, registry=registry)
    return scraped(registry)


@cache
def dashboard() -> Any:
    """The dashboard as Grafana reads it."""
    return json.loads((FOLDER / "dashboard.json").read_text())


def rules() -> dict[str, str]:
    """The expression of each alert by its name."""
    text = (FOLDER / "alerts.yml").read_text()
    alerts = re.findall(r"^      - alert: (\w+)\n(?:        #.*\n)?        expr: (.+)$", text, re.MULTILINE)
    assert len(alerts) == text.count("alert: ")
    return dict(alerts)


def targets() -> list[tuple[str, str]]:
    """The expressions of the panels, each with its legend."""
    panels = dashboard()["panels"]
    return [(each["expr"], each["legendFormat"]) for panel in panels for each in panel.get("targets", ())]


def queries() -> Iterator[str]:
    """The expressions of alerts, panels and variables."""
    yield from rules().values()
    yield from (expression for expression, _ in targets())
    yield from (each["definition"] for each in dashboard()["templating"]["list"] if "definition" in each)


def selectors(query: str) -> Iterator[tuple[str, set[str]]]:
    """Each metric of an expression, with the labels that it is chosen by."""
    for name, matchers in SELECTOR.findall(query):
        yield name, set(re.findall(r"(\w+)\s*[=!]", matchers))


def labels_of(query: str) -> set[str]:
    """The labels that all metrics of an expression have."""
    return set.intersection(*(page().labels(name) for name, _ in selectors(query))) | OF_THE_TARGET


def grouped(query: str) -> list[set[str]]:
    """The labels of each aggregation."""
    return [set(re.findall(r"\w+", labels)) for labels in GROUPED.findall(query)]


@pytest.mark.parametrize("query", sorted(set(queries())))
def test_metrics_and_labels_exist(query: str) -> None:
    """Each metric of an expression is a sample of a page, and has the labels that it is chosen and summed by."""
    found = list(selectors(query))
    assert found
    assert {name for name, _ in found} - page().names() == set()
    for name, labels in found:
        assert labels - page().labels(name) - OF_THE_TARGET == set(), name
    for labels in grouped(query):
        assert labels - labels_of(query) == set()


@pytest.mark.parametrize(("query", "legend"), targets())
def test_legends_name_labels_of_their_series(query: str, legend: str) -> None:
    """A series has the labels that it is summed by."""
    (by,) = {frozenset(labels) for labels in grouped(query)}
    assert set(re.findall(r"\{\{(\w+)\}\}", legend)) - by == set()


@pytest.mark.parametrize("query", sorted(query for query in set(queries()) if "increase(" in query))
def test_the_first_failure_of_a_kind_counts(query: str) -> None:
    """A series that begins with its first failure has no increase() from it: such a query takes the whole value as well."""
    for name in re.findall(r"increase\((\w+)", query):
        if "error" in page().labels(name):
            assert re.search(rf"{name}\S* unless {name}\S* offset", query)


def test_texts_of_alerts_name_labels() -> None:
    """Annotations use labels that the alert has."""
    text = (FOLDER / "alerts.yml").read_text()
    for part in text.split("- alert: ")[1:]:
        query = rules()[part.partition("\n")[0]]
        assert set(re.findall(r"\$labels\.(\w+)", part)) - labels_of(query) == set()


def test_the_dashboard_is_complete() -> None:
    """Each metric is on it; ids are unique and panels do not overlap."""
    shown = {name for query, _ in targets() for name, _ in selectors(query)}
    endings = {Kind.COUNTER: ("_total",), Kind.GAUGE: ("",), Kind.HISTOGRAM: ("_bucket", "_sum")}
    missing = [
        metric.name
        for metric in METRICS
        if not shown & {f"aioproducer_{metric.name}{ending}" for ending in endings[metric.kind]}
    ]
    # The counts of waits and stalls are beside their seconds in the document.
    assert missing == ["batches", "memory_waits", "metadata_waits", "loop_stalls"]
    panels = dashboard()["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    places = [
        (panel["gridPos"]["x"] + x, panel["gridPos"]["y"] + y)
        for panel in panels
        for x in range(panel["gridPos"]["w"])
        for y in range(panel["gridPos"]["h"])
    ]
    assert len(set(places)) == len(places)
    assert all(x < 24 for x, _ in places)


def test_there_are_six_alerts_and_the_document_explains_them() -> None:
    """Each has a line in its table."""
    assert len(rules()) == 6
    text = DOCUMENT.read_text()
    assert [name for name in rules() if f"| `{name}` |" not in text] == []


def test_the_document_has_each_metric() -> None:
    """By its name without the namespace, with its labels, and with the name of the Java client beside it."""
    rows = re.findall(r"^\| (`\w+`(?:, `\w+`)*) \|(.*)\| (.+) \|$", DOCUMENT.read_text(), re.MULTILINE)
    labels = {
        name: tuple(re.findall(r"\w+", further))
        for names, further, _ in rows
        for name in re.findall(r"\w+", names)
    }
    assert [metric.name for metric in METRICS if labels.get(metric.name) != metric.labels] == []
    assert set(labels["info"]) == page().labels("aioproducer_info") - {"client_id"}

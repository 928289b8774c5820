"""The mutants of tracing: contexts that are kept, lost or mixed up, and data in spans."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Kind

_PROTOCOL: Final = "tests/api/tracing/test_protocol.py"
_SPANS: Final = "tests/api/tracing/test_spans.py"

_mutant = Kind("tracing")

TRACING: Final = (
    _mutant(
        "tasks-in-the-context-of-a-call",
        "_net/tasks.py",
        "        self._context.copy().run(partial(self._group.start_soon, run, *arguments, name=name))",
        "        self._group.start_soon(run, *arguments, name=name)",
        "The task that the first send to a broker starts keeps the request and the span of that send while the producer lives.",
        f"{_SPANS}::test_no_span_is_kept",
    ),
    _mutant(
        "contexts-after-the-outcome",
        "_core/records.pyx",
        "        self._own_deadlines = self._contexts = None",
        "        self._own_deadlines = None",
        "A delivery that the program keeps holds the contexts of all records of its batch.",
        f"{_PROTOCOL}::test_no_context_is_kept",
    ),
    _mutant(
        "parts-without-contexts",
        "_state/queues/rewriting.py",
        "        if contexts is not None:",
        "        if False:",
        "The parts of a batch that was refused as too large have no span, although their records were sent in one.",
        f"{_PROTOCOL}::test_the_contexts_of_a_split_batch",
    ),
    _mutant(
        "text-of-a-refused-record-in-its-span",
        "otel/facts.py",
        '            return f"{type(found).__name__}: {found.summary}"',
        "            return text_of(error)",
        "The text of a serializer's exception quotes the value, and the span of the record exports it.",
        f"{_SPANS}::test_a_record_that_is_refused",
    ),
    _mutant(
        "observables-of-the-second-metrics",
        "otel/metrics.py",
        "        found = _observables.get(provider)\n",
        "        found = None\n",
        "A meter ignores the callbacks of a second instrument of the same name: the producers of a second Metrics are missing.",
        "tests/api/tracing/test_metrics.py::test_producers_with_one_client_id",
    ),
    _mutant(
        "addresses-of-former-clients-are-kept",
        "otel/readings.py",
        "        del places[client_id]\n",
        "        pass\n",
        "A program whose producers have a new client id each collects its metrics ever more slowly.",
        "tests/api/tracing/test_metrics.py::test_the_brokers_of_former_clients_are_bounded",
    ),
)

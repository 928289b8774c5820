"""The mutants of structured rows, and of the numbers of epochs: unfit rows, secrets, unreadable bytes, wrong sums."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Kind

_FORMATS: Final = "tests/spark/structured/test_formats.py"
_PROGRESS: Final = "tests/spark/test_progress.py"
_ROWS: Final = "tests/spark/structured/test_rows.py"

_mutant = Kind("structured rows")

STRUCTURED: Final = (
    _mutant(
        "unfit-row-is-written-as-its-text",
        "spark/shipping/shipment.py",
        "await self._inspection.of(parcel) | unfit",
        "await self._inspection.of(parcel)",
        "A row that does not fit its schema is a record of the topic: readers of Avro find JSON there.",
        f"{_ROWS}::test_rows_that_do_not_fit_their_schema",
    ),
    _mutant(
        "password-of-the-registry-in-an-option",
        "spark/formats.py",
        "if name in ours and not REFERENCES.fullmatch(ours[name].strip())",
        "if False",
        "Spark shows the password of the registry in its plans and its user interface.",
        f"{_FORMATS}::test_what_is_wrong",
    ),
    _mutant(
        "registry-asked-for-every-epoch",
        "spark/schemas.py",
        "_found_once: Final = cache(_found)",
        "_found_once: Final = _found",
        "A stream of small epochs asks the registry each time, and its schema changes in the middle of a query.",
        f"{_ROWS}::test_a_stream_asks_once",
    ),
    _mutant(
        "number-beyond-its-type-wraps-around",
        "_core/rows_node.pxi",
        "    if not node.low <= number <= node.high:\n        return OUT_OF_RANGE\n",
        "",
        "A number that an int of Avro or Protobuf has no room for is written as another number.",
        "tests/formats/test_avro.py::test_rows_that_do_not_fit",
    ),
    _mutant(
        "surrogates-are-taken-for-utf-8",
        "_core/rows_json.pxi",
        "        high = 0x9F\n",
        "        high = 0xBF\n",
        "A string with an encoded surrogate is written into JSON, which most readers refuse as a whole.",
        "tests/formats/test_json.py::test_what_does_not_fit_names_its_field",
    ),
    _mutant(
        "repeated-transactions-not-counted",
        "spark/exactly_once/rounds.py",
        "            written.aborted_attempts += aborted\n",
        "",
        "A task that writes its rows again and again for one refused row looks like any other.",
        f"{_PROGRESS}::test_a_transaction_without_refused_rows_counts_as_another_attempt",
    ),
    _mutant(
        "times-of-tasks-added-up",
        "spark/shipping/shipment.py",
        "self.longest_delivery = max(self.longest_delivery, other.longest_delivery)",
        "self.longest_delivery += other.longest_delivery",
        "The longest delivery of an epoch grows with the number of its tasks.",
        f"{_PROGRESS}::test_tasks_are_added_up",
    ),
)

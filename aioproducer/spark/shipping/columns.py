"""The columns of a DataFrame that are parts of a record: checked by schema on the driver, found by number in tasks."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

import attrs
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    StringType,
    StructType,
    TimestampType,
)

from aioproducer.errors import ConfigurationError, printable

if TYPE_CHECKING:
    from aioproducer.spark.options import SinkOptions

__all__ = ["PARTS", "Layout", "Parcel"]


def _is_text_or_bytes(kind: DataType) -> bool:
    return isinstance(kind, StringType | BinaryType)


def _is_text(kind: DataType) -> bool:
    return isinstance(kind, StringType)


def _is_integer(kind: DataType) -> bool:
    return isinstance(kind, IntegerType)


def _is_timestamp(kind: DataType) -> bool:
    return isinstance(kind, TimestampType)


def _is_headers(kind: DataType) -> bool:
    if not isinstance(kind, ArrayType) or not isinstance(kind.elementType, StructType):
        return False
    parts = [(field.name, type(field.dataType)) for field in kind.elementType]
    return parts == [("key", StringType), ("value", BinaryType)]


@attrs.frozen
class _Column:
    fits: Callable[[DataType], bool]
    wants: str


COLUMNS: Final[dict[str, _Column]] = {
    "value": _Column(_is_text_or_bytes, "string or binary"),
    "key": _Column(_is_text_or_bytes, "string or binary"),
    "topic": _Column(_is_text, "string"),
    "headers": _Column(_is_headers, "array<struct<key:string,value:binary>>"),
    "partition": _Column(_is_integer, "int"),
    "timestamp": _Column(_is_timestamp, "timestamp"),
}


PARTS: Final = tuple(COLUMNS)


@attrs.frozen
class Parcel:
    """Rows of one Arrow batch for one topic, as columns for `send_batch`; `rows` has the original rows."""

    topic: str
    rows: Any
    # The number of each row in the Arrow batch.
    numbers: Sequence[int]
    values: Any
    keys: Any
    partition: list[int | None] | None
    timestamps: Any
    headers: list[Any] | None


@attrs.frozen
class Layout:
    """The number of the column of each part, and the topic if it is the same for all."""

    places: dict[str, int]
    topic: str | None

    @classmethod
    def of(cls, schema: StructType, options: SinkOptions) -> Layout:
        """The layout of a DataFrame with this schema; ConfigurationError with all of its faults."""
        # Compared as Spark finds columns by name.
        names = [field.name.lower() for field in schema]
        places = {name: at for at, name in enumerate(names) if name in COLUMNS}
        if options.topic is not None:
            places.pop("topic", None)
        if not options.includes_headers:
            places.pop("headers", None)
        problems = [
            f"column {name!r} must be {COLUMNS[name].wants}, not {schema[at].dataType.simpleString()}"
            for name, at in places.items()
            if not COLUMNS[name].fits(schema[at].dataType)
        ]
        problems += [
            f"{names.count(name)} columns are named {name!r}: drop or rename all but one"
            for name in places
            if names.count(name) > 1
        ]
        if "value" not in places:
            problems.append(f"the column 'value' is missing{_hint(schema)}")
        if options.topic is None and "topic" not in places:
            problems.append("no topic: set the option 'topic', or add a string column 'topic'")
        if problems:
            raise ConfigurationError("; ".join(problems))
        return cls(places, options.topic)

    def parcels(self, batch: Any) -> Iterator[Parcel]:
        """The rows of an Arrow batch, in their order for each topic. The topic of a row without one is ''."""
        if self.topic is not None:
            yield self._parcel(self.topic, batch, range(len(batch)))
            return
        topics = batch.column(self.places["topic"]).fill_null("")
        names = topics.unique().to_pylist()
        if len(names) == 1:
            yield self._parcel(names[0], batch, range(len(batch)))
            return
        for name in names:
            numbers = pc.indices_nonzero(pc.equal(topics, name))
            yield self._parcel(name, batch.take(numbers), numbers.to_pylist())

    def without(self, parcel: Parcel, left_out: Collection[int]) -> Parcel:
        """The parcel without these rows."""
        kept = [at for at in range(len(parcel.rows)) if at not in left_out]
        rows = parcel.rows.take(pa.array(kept, pa.int64()))
        return self._parcel(parcel.topic, rows, [parcel.numbers[at] for at in kept])

    def _parcel(self, topic: str, rows: Any, numbers: Sequence[int]) -> Parcel:
        headers = self.column(rows, "headers")
        partition = self.column(rows, "partition")
        return Parcel(
            topic=topic,
            rows=rows,
            numbers=numbers,
            values=self.column(rows, "value"),
            keys=self.column(rows, "key"),
            partition=None if partition is None else partition.to_pylist(),
            timestamps=self.column(rows, "timestamp"),
            headers=None if headers is None else [_pairs(each) for each in headers.to_pylist()],
        )

    def column(self, rows: Any, name: str) -> Any:
        """The column of a part in an Arrow batch; None where the DataFrame has none."""
        at = self.places.get(name)
        return None if at is None else rows.column(at)


def _pairs(headers: list[dict[str, Any] | None] | None) -> list[tuple[Any, Any]] | None:
    return None if headers is None else [(each["key"], each["value"]) for each in headers if each is not None]


def _hint(schema: StructType) -> str:
    near = difflib.get_close_matches("value", [field.name.lower() for field in schema], n=1)
    return f": did you mean {printable(near[0])!r}?" if near else ""

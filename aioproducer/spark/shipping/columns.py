"""The columns of a DataFrame that are parts of a record: checked by schema on the driver, found by number in tasks."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

import attrs
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    MapType,
    StringType,
    StructType,
    TimestampType,
)

from aioproducer.errors import ConfigurationError, printable
from aioproducer.spark.shipping.structured import REASON, FoundSchema, StructuredRows

if TYPE_CHECKING:
    from aioproducer.spark.options import SinkOptions

__all__ = ["PARTS", "Layout", "Parcel", "as_bytes"]


def _is_text_or_bytes(kind: DataType) -> bool:
    return isinstance(kind, StringType | BinaryType)


def _is_text(kind: DataType) -> bool:
    return isinstance(kind, StringType)


def _is_integer(kind: DataType) -> bool:
    return isinstance(kind, IntegerType)


def _is_timestamp(kind: DataType) -> bool:
    return isinstance(kind, TimestampType)


def _is_headers(kind: DataType) -> bool:
    if isinstance(kind, MapType):
        return _is_text(kind.keyType) and _is_text_or_bytes(kind.valueType)
    if not isinstance(kind, ArrayType) or not isinstance(kind.elementType, StructType):
        return False
    fields = list(kind.elementType)
    named = [field.name for field in fields] == ["key", "value"]
    return named and _is_text(fields[0].dataType) and _is_text_or_bytes(fields[1].dataType)


@attrs.frozen
class _Column:
    fits: Callable[[DataType], bool]
    wants: str


COLUMNS: Final[dict[str, _Column]] = {
    "value": _Column(_is_text_or_bytes, "string or binary"),
    "key": _Column(_is_text_or_bytes, "string or binary"),
    "topic": _Column(_is_text, "string"),
    "headers": _Column(
        _is_headers,
        "array<struct<key:string,value:binary>> or map<string,binary>, with values of string or binary",
    ),
    "partition": _Column(_is_integer, "int"),
    "timestamp": _Column(_is_timestamp, "timestamp"),
}


PARTS: Final = tuple(COLUMNS)
AS_BYTES: Final[dict[Any, Any]] = {pa.string(): pa.binary(), pa.large_string(): pa.large_binary()}


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
    # By rows, the parts that do not fit their format, each with its reason; such a part is the row as JSON.
    unfit: Mapping[int, Mapping[str, str]]


@attrs.frozen
class Layout:
    """The number of the column of each part, and the topic if it is the same for all."""

    places: dict[str, int]
    topic: str | None
    # Makes the parts of the columns of the DataFrame; None: they are its columns.
    rows: StructuredRows | None = None

    @classmethod
    def of(
        cls, schema: StructType, options: SinkOptions, found: Mapping[str, FoundSchema] = MappingProxyType({})
    ) -> Layout:
        """The layout of a DataFrame with this schema; ConfigurationError with all of its faults.

        `found`: the schemas of structured parts.
        """
        rows = None
        if options.structure is not None:
            rows = StructuredRows.of(schema, options, found)
            schema = rows.schema
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
        return cls(places, options.topic, rows)

    def encoded(self, batches: Iterable[Any]) -> Iterator[Any]:
        """The same rows, as batches of the parts of records."""
        return iter(batches) if self.rows is None else self.rows.encoded(iter(batches))

    def parcels(self, batch: Any) -> Iterator[Parcel]:
        """The rows of an Arrow batch, in their order for each topic. The topic of a row without one is ''."""
        if self.topic is not None:
            yield self._parcel(self.topic, batch, range(len(batch)))
            return
        topics = as_bytes(batch.column(self.places["topic"])).fill_null(b"")
        names = topics.unique().to_pylist()
        if len(names) == 1:
            yield self._parcel(_name(names[0]), batch, range(len(batch)))
            return
        for name in names:
            numbers = pc.indices_nonzero(pc.equal(topics, pa.scalar(name, topics.type)))
            yield self._parcel(_name(name), batch.take(numbers), numbers.to_pylist())

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
            headers=None if headers is None else [_pairs(each) for each in as_bytes(headers).to_pylist()],
            unfit=self._unfit(rows),
        )

    def _unfit(self, rows: Any) -> dict[int, dict[str, str]]:
        found: dict[int, dict[str, str]] = {}
        for part in self.rows.parts if self.rows is not None else ():
            reasons = rows.column(REASON[part.part])
            if reasons.null_count < len(reasons):
                for at, reason in enumerate(reasons.to_pylist()):
                    if reason is not None:
                        found.setdefault(at, {})[part.part] = reason
        return found

    def column(self, rows: Any, name: str) -> Any:
        """The column of a part in an Arrow batch; None where the DataFrame has none."""
        at = self.places.get(name)
        return None if at is None else rows.column(at)


def as_bytes(column: Any) -> Any:
    """A column with bytes in place of text, at any depth; they are not copied. Text of Spark may be no UTF-8."""
    return column.cast(_of_bytes(column.type))


def _of_bytes(kind: Any) -> Any:
    if pa.types.is_map(kind):
        return pa.map_(_of_bytes(kind.key_type), _of_bytes(kind.item_type))
    if pa.types.is_list(kind):
        return pa.list_(_of_bytes(kind.value_type))
    if pa.types.is_struct(kind):
        return pa.struct([(field.name, _of_bytes(field.type)) for field in kind])
    return AS_BYTES.get(kind, kind)


def _name(topic: bytes) -> str:
    """The name of a topic; one that is not UTF-8 is no name of a topic, and is refused as such."""
    return topic.decode(errors="backslashreplace")


def _pairs(headers: list[Any] | None) -> list[tuple[Any, Any]] | None:
    """The headers of a row, of an array of structs or of a map. The producer refuses a key that is not UTF-8."""
    if headers is None:
        return None
    pairs = (
        (each["key"], each["value"]) if isinstance(each, dict) else each
        for each in headers
        if each is not None
    )
    return [(None if key is None else key.decode(errors="surrogateescape"), value) for key, value in pairs]


def _hint(schema: StructType) -> str:
    near = difflib.get_close_matches("value", [field.name.lower() for field in schema], n=1)
    return f": did you mean {printable(near[0])!r}?" if near else ""

"""Columns that become the bytes of values and keys: their plan, made on the driver, and its application to Arrow batches."""

from __future__ import annotations

import difflib
import json
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any, Final

import attrs
import pyarrow as pa
from pyspark.sql.types import BinaryType, StringType, StructField, StructType

from aioproducer._formats.encoding import encode
from aioproducer._formats.forms import Form, UnfitError
from aioproducer._formats.json_form import json_form, told_form
from aioproducer.errors import ConfigurationError, printable
from aioproducer.spark.formats import Format, PartFormat, Structure
from aioproducer.spark.shipping.arrow_types import arrow_type

if TYPE_CHECKING:
    from aioproducer.spark.options import SinkOptions

__all__ = ["REASON", "FoundSchema", "StructuredRows"]

# Never fields of a value.
RESERVED: Final = ("key", "topic", "partition", "headers", "timestamp")
# Behind the parts: why a part of this row does not fit; its bytes are the row as JSON then.
REASON: Final = {"value": "reason of value", "key": "reason of key"}


@attrs.frozen
class FoundSchema:
    """A schema of the registry: what comes before each record, its text, and the texts that it refers to."""

    prefix: bytes = b""
    text: str | None = None
    referred: tuple[tuple[str, str], ...] = ()
    # Of Protobuf, where the descriptor is known.
    descriptor: Any = attrs.field(default=None, eq=False)


@attrs.frozen
class PartRows:
    """How one part is made of the columns with these numbers, or of the one column that is the part itself."""

    part: str
    columns: tuple[int, ...]
    is_whole: bool
    form: Form
    # Any row as JSON, for people.
    told: Form
    prefix: bytes
    # The schema that JSON has to fit, and what it refers to.
    checked_by: FoundSchema | None = None

    def encoded(self, batch: Any) -> tuple[Any, Any]:
        """The bytes of each row, and the reasons of rows that do not fit."""
        rows = self._rows(batch)
        done = encode(self.form, rows, self.prefix)
        unfit = done.unfit
        if self.checked_by is not None:
            unfit = unfit | _misfits(self.checked_by, done.values, len(self.prefix))
        if not unfit:
            return done.values, pa.nulls(len(rows), pa.string())
        values = done.values.to_pylist()
        for row in unfit:
            values[row] = self._as_text(rows.slice(row, 1))
        reasons = [unfit.get(row) for row in range(len(rows))]
        return pa.array(values, pa.large_binary()), pa.array(reasons, pa.string())

    def _rows(self, batch: Any) -> Any:
        arrays = [batch.column(at) for at in self.columns]
        if self.is_whole:
            return arrays[0]
        return pa.StructArray.from_arrays(arrays, [batch.schema.field(at).name for at in self.columns])

    def _as_text(self, row: Any) -> bytes:
        text: bytes = encode(self.told, row).values[0].as_py()
        return text


@attrs.frozen
class StructuredRows:
    """How the records of a DataFrame are made of its columns."""

    parts: tuple[PartRows, ...]
    # Columns that stay as they are.
    kept: tuple[int, ...]
    # Of the batches that are made.
    schema: StructType = attrs.field(eq=False)

    @classmethod
    def of(cls, schema: StructType, options: SinkOptions, found: Mapping[str, FoundSchema]) -> StructuredRows:
        """The plan for a DataFrame with this schema; ConfigurationError with all of its faults."""
        structure = options.structure
        assert structure is not None  # noqa: S101  # otherwise no row is structured
        plan = _Plan(schema, structure, found)
        made = [part for part in (plan.value(), plan.key()) if part is not None]
        if plan.problems:
            raise ConfigurationError("; ".join(plan.problems))
        names = {part.part for part in made}
        kept = tuple(
            at for at, name in enumerate(plan.names) if name in {*RESERVED, "value"} and name not in names
        )
        if "value" in names:
            kept = tuple(at for at in kept if plan.names[at] != "value")
        fields = [StructField(part.part, BinaryType()) for part in made]
        fields += [StructField(plan.names[at], schema[at].dataType) for at in kept]
        fields += [StructField(REASON[part.part], StringType()) for part in made]
        return cls(tuple(made), kept, StructType(fields))

    def encoded(self, batches: Iterator[Any]) -> Iterator[Any]:
        """Batches of the parts of records."""
        names = self.schema.names
        for batch in batches:
            made = [part.encoded(batch) for part in self.parts]
            columns = [values for values, _ in made]
            columns += [batch.column(at) for at in self.kept]
            columns += [reasons for _, reasons in made]
            yield pa.RecordBatch.from_arrays(columns, names=names)


class _Plan:
    """The parts of one DataFrame, and the faults of its columns."""

    def __init__(self, schema: StructType, structure: Structure, found: Mapping[str, FoundSchema]) -> None:
        self.schema = schema
        self.structure = structure
        self.found = found
        # Compared as Spark finds columns by name.
        self.names = [field.name.lower() for field in schema]
        self.problems: list[str] = []

    def key(self) -> PartRows | None:
        """The key."""
        wanted = self.structure.key_columns
        if self.structure.key is None:
            return None
        if wanted and "key" in self.names:
            self.problems.append("keyColumns and the column 'key' both are the key: remove one of them")
            return None
        if not wanted:
            if "key" not in self.names:
                self.problems.append("keyFormat needs a column 'key', or the option keyColumns")
                return None
            return self._part("key", self.structure.key, (self.names.index("key"),), is_whole=True)
        return self._part("key", self.structure.key, tuple(self._numbers(wanted)), is_whole=False)

    def value(self) -> PartRows | None:
        """The value: the columns that are neither reserved nor only for the key."""
        if self.structure.value is None:
            return None
        columns = [at for at, name in enumerate(self.names) if name not in RESERVED]
        twice = sorted({self.names[at] for at in columns if self.names.count(self.names[at]) > 1})
        if twice:
            self.problems.append(f"several columns are named {twice[0]!r}: drop or rename all but one")
            return None
        of_key = {name.lower() for name in self.structure.key_columns}
        others = [at for at in columns if self.names[at] not in of_key]
        is_whole = [self.names[at] for at in others] == ["value"] and isinstance(
            self.schema[others[0]].dataType, StructType
        )
        if not columns:
            self.problems.append("no column is left for the value")
            return None
        return self._part(
            "value", self.structure.value, tuple(others if is_whole else columns), is_whole=is_whole
        )

    def _numbers(self, wanted: tuple[str, ...]) -> Iterator[int]:
        for name in wanted:
            if name.lower() in self.names:
                yield self.names.index(name.lower())
                continue
            near = difflib.get_close_matches(name, [field.name for field in self.schema], n=1)
            hint = f": did you mean {printable(near[0])!r}?" if near else ""
            self.problems.append(f"keyColumns: there is no column {printable(name)!r}{hint}")

    def _part(
        self, name: str, chosen: PartFormat, columns: tuple[int, ...], *, is_whole: bool
    ) -> PartRows | None:
        known = self.found.get(name, FoundSchema())
        fields = []
        for at in columns:
            column = self.schema[at]
            try:
                fields.append(pa.field(column.name, arrow_type(column.dataType, column.name)))
            except TypeError as error:
                self.problems.append(f"column {error}")
        if len(fields) < len(columns):
            return None
        kind = fields[0].type if is_whole else pa.struct(fields)
        path = fields[0].name if is_whole else ""
        try:
            form = _form(kind, path, chosen, known, omits_nulls=self.structure.omits_nulls)
            told = told_form(kind, path)
        except UnfitError as error:
            self.problems.append(f"{name}: {error}")
            return None
        is_checked = chosen.format is Format.JSON and known.text is not None and self.structure.validates
        return PartRows(name, columns, is_whole, form, told, known.prefix, known if is_checked else None)


def _form(kind: Any, path: str, chosen: PartFormat, known: FoundSchema, *, omits_nulls: bool) -> Form:
    if chosen.format is Format.JSON:
        return json_form(kind, path, omits_nulls=omits_nulls)
    if chosen.format is Format.AVRO:
        # Packages of their own, which other formats do without.
        from aioproducer._formats.avro_form import avro_form  # noqa: PLC0415

        assert known.text is not None  # noqa: S101  # the driver has asked the registry
        return avro_form(kind, known.text, [text for _, text in known.referred])
    from aioproducer._formats.protobuf_form import protobuf_form  # noqa: PLC0415

    return protobuf_form(kind, known.descriptor)


def _misfits(schema: FoundSchema, values: Any, begin: int) -> dict[int, str]:
    """The rows whose JSON does not fit its schema."""
    check = _check(schema)
    found: dict[int, str] = {}
    for row, data in enumerate(values.to_pylist()):
        if data is not None:
            try:
                check(json.loads(data[begin:]))
            except ValueError as error:
                found[row] = str(error)
    return found


@cache
def _check(schema: FoundSchema) -> Callable[[Any], None]:
    from aioproducer.registry.formats.json_schema import check_of, load_validators  # noqa: PLC0415  # packages of its own

    return check_of(load_validators(), json.loads(schema.text or "{}"), dict(schema.referred))

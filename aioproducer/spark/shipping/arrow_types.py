"""The types of Arrow in which Spark hands out its columns."""

from __future__ import annotations

from typing import Any, Final

import pyarrow as pa
from pyspark.sql import types

__all__ = ["arrow_type"]

# The zone of a session is of no importance to a moment.
ZONE: Final = "UTC"
SIMPLE: Final[dict[type[types.DataType], Any]] = {
    types.BooleanType: pa.bool_(),
    types.ByteType: pa.int8(),
    types.ShortType: pa.int16(),
    types.IntegerType: pa.int32(),
    types.LongType: pa.int64(),
    types.FloatType: pa.float32(),
    types.DoubleType: pa.float64(),
    types.StringType: pa.string(),
    types.CharType: pa.string(),
    types.VarcharType: pa.string(),
    types.BinaryType: pa.binary(),
    types.DateType: pa.date32(),
    types.TimestampType: pa.timestamp("us", ZONE),
    types.TimestampNTZType: pa.timestamp("us"),
    types.NullType: pa.null(),
}


def arrow_type(kind: types.DataType, path: str) -> Any:
    """The type of Arrow; TypeError, which begins with the path, for a type without one."""
    if isinstance(kind, types.StructType):
        return pa.struct(
            [pa.field(field.name, arrow_type(field.dataType, f"{path}.{field.name}")) for field in kind]
        )
    if isinstance(kind, types.ArrayType):
        return pa.list_(arrow_type(kind.elementType, path))
    if isinstance(kind, types.MapType):
        return pa.map_(arrow_type(kind.keyType, path), arrow_type(kind.valueType, path))
    if isinstance(kind, types.DecimalType):
        return pa.decimal128(kind.precision, kind.scale)
    if type(kind).__name__ == "TimeType":
        # From Spark 4.1 on.
        return pa.time64("ns")
    found = next((arrow for spark, arrow in SIMPLE.items() if isinstance(kind, spark)), None)
    if found is None:
        raise TypeError(
            f"{path}: the type {kind.simpleString()} is not supported; cast the column to another one"
        )
    return found

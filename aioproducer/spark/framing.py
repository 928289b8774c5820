"""The prefix of a schema registry before what `to_avro` has made."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aioproducer import ConfigurationError

if TYPE_CHECKING:
    from pyspark.sql import Column

__all__ = ["framed"]


def framed(column: Column, schema_id: int) -> Column:
    """The binary column with `00` and the 4 bytes of the id before each value; null stays null (a tombstone).

    The id is that of the schema which `to_avro` encodes with, from `Registry.register()` or `lookup()`.
    """
    if type(schema_id) is not int or not 0 <= schema_id < 2**32:
        raise ConfigurationError("schema_id: must be the id of a schema, a whole number")
    # The module needs a Spark.
    from pyspark.sql import functions  # noqa: PLC0415

    return functions.concat(functions.lit(b"\0" + schema_id.to_bytes(4, "big")), column)

"""Where Spark looks for data sources that are installed: modules named `pyspark_…`, and their `DefaultSource`.

It imports all such modules at once: one that fails keeps it from finding those of others.
"""

from __future__ import annotations

from pyspark.sql.datasource import DataSource, DataSourceStreamWriter, DataSourceWriter
from pyspark.sql.types import StructType

__all__ = ["DefaultSource"]


class ToldWhenAskedFor(DataSource):
    """The format where it cannot be imported, as on Spark 4.0: the error that says why is raised only on its use."""

    @classmethod
    def name(cls) -> str:
        return "aioproducer"

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        return _imported()(self.options).writer(schema, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802  # Spark's
        return _imported()(self.options).streamWriter(schema, overwrite)


def _imported() -> type[DataSource]:
    from aioproducer.spark.older import require_formats  # noqa: PLC0415  # this may be what fails

    require_formats()
    from aioproducer.spark.source import KafkaSink  # noqa: PLC0415  # as may this

    return KafkaSink


def _found() -> type[DataSource]:
    try:
        from aioproducer.spark.source import KafkaSink  # noqa: PLC0415  # only where it can be
    except ImportError:
        return ToldWhenAskedFor
    return KafkaSink


DefaultSource = _found()

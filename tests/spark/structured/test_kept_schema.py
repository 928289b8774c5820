"""A stream of Avro that is restarted after its subject has got another version, exactly once, through a real Spark."""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import attrs
import fastavro
import pytest
from pyspark.errors import StreamingQueryException

from aioproducer.registry import Registry, Schema
from aioproducer.spark import foreach_batch, schemas
from aioproducer.testing import EmbeddedRegistry
from tests.spark.rows import committed, forget_last_commit
from tests.spark.threads import in_a_thread

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.kafka]

ROWS: Final = 10
FIRST: Final = {"type": "record", "name": "Order", "fields": [{"name": "n", "type": "long"}]}
SECOND: Final = FIRST | {"doc": "The second version."}


@attrs.define
class Stream:
    """The stream of a folder of files, one of which is an epoch, and its topic."""

    spark: SparkSession
    options: dict[str, str]
    registry: EmbeddedRegistry
    folder: Path
    files: int = 0

    def add_file(self) -> None:
        """The input of another epoch."""
        source = self.folder / "source"
        source.mkdir(exist_ok=True)
        first, self.files = self.files * ROWS, self.files + 1
        lines = "".join(f"{number}\n" for number in range(first, first + ROWS))
        (source / f"{self.files}.txt").write_text(lines)

    def register(self, schema: Mapping[str, Any]) -> str:
        """Make it the latest version of the subject; returns its id."""

        async def ask() -> int:
            async with Registry(self.registry.url) as registry:
                subject = f"{self.options['topic']}-value"
                return (await registry.register(subject, Schema(json.dumps(schema)))).id

        return str(asyncio.run(ask()))

    def run(self, **more: str) -> None:
        """Write all input, in a driver that has not asked the registry before."""
        schemas._found_once.cache_clear()
        lines = self.spark.readStream.format("text").option("maxFilesPerTrigger", 1)
        df = lines.load(str(self.folder / "source")).selectExpr("bigint(value) as n")
        given = self.options | {
            "delivery": "exactly-once",
            "valueFormat": "avro",
            "registry.url": self.registry.url,
            **{name.replace("_", "."): value for name, value in more.items()},
        }
        query = foreach_batch(self.spark, df, given).option("checkpointLocation", str(self.folder / "state"))
        query.trigger(availableNow=True).start().awaitTermination()

    def die_before_the_last_commit(self) -> None:
        """The driver ends before it has written down the last epoch, which is repeated."""
        forget_last_commit(self.folder / "state")

    @property
    def written(self) -> list[tuple[int, str]]:
        """Each row, with the id of its schema."""
        values = [record.value or b"" for record in committed(self.options)]
        return sorted((_number(value), str(int.from_bytes(value[1:5], "big"))) for value in values)


def _number(value: bytes) -> int:
    found: Any = fastavro.schemaless_reader(io.BytesIO(value[5:]), FIRST, None)
    return int(found["n"])


def rows_of(files: int, schema_id: str) -> list[tuple[int, str]]:
    return [(number, schema_id) for number in range(files * ROWS)]


@pytest.fixture
def stream(spark: SparkSession, options: dict[str, str], tmp_path: Path) -> Iterator[Stream]:
    """A stream that has written two epochs."""
    with in_a_thread(EmbeddedRegistry()) as registry:
        made = Stream(spark, options, registry, tmp_path)
        made.add_file()
        made.add_file()
        yield made


def test_a_stream_that_names_its_schema_is_restarted(stream: Stream) -> None:
    """The epoch before the restart is found, further ones have the same schema; another one can be set after that."""
    first = stream.register(FIRST)
    stream.run(schema_id=first)
    stream.die_before_the_last_commit()
    second = stream.register(SECOND)
    stream.add_file()
    stream.run(schema_id=first)
    assert stream.written == rows_of(3, first)
    stream.add_file()
    stream.run(schema_id=second)
    assert stream.written == [*rows_of(3, first), *rows_of(4, second)[3 * ROWS :]]


def test_a_stream_of_the_latest_version_is_restarted(stream: Stream) -> None:
    """With other bytes the epoch is refused: nothing is doubled. With the id of the written records it goes on."""
    first = stream.register(FIRST)
    stream.run()
    stream.die_before_the_last_commit()
    stream.register(SECOND)
    stream.add_file()
    with pytest.raises(StreamingQueryException, match="was repeated with"):
        stream.run()
    assert stream.written == rows_of(2, first)
    stream.run(schema_id=first)
    assert stream.written == rows_of(3, first)

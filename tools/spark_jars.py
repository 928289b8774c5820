"""The jars of Spark's own parts that its distribution for Python leaves out, fetched once a machine through Maven."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from tools.kafka_jars import fetched

# The newest that Maven has; it runs on the Spark of the tests.
SPARK: Final = "4.2.0"


def avro_jar() -> Path:
    """`to_avro` and `from_avro`. All else that they need is Spark's."""
    artifacts = [("org.apache.spark", "spark-avro_2.13", SPARK)]
    (found,) = fetched(f"spark-avro-{SPARK}", artifacts, transitive=False).glob("*.jar")
    return found

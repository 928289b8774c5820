"""Spark's own connector for Kafka: its jars, fetched once a machine through Maven."""

from __future__ import annotations

from typing import Final

from tools.kafka_jars import fetched

# The newest of each that Maven has; they run on the Spark that is measured.
CONNECTOR: Final = "4.2.0"
TOKENS: Final = "4.0.0"
CLIENTS: Final = "3.9.1"
POOL: Final = "2.12.1"

# Name and version only: all else that they need is Spark's.
_ARTIFACTS: Final = (
    ("org.apache.spark", "spark-sql-kafka-0-10_2.13", CONNECTOR),
    ("org.apache.spark", "spark-token-provider-kafka-0-10_2.13", TOKENS),
    ("org.apache.kafka", "kafka-clients", CLIENTS),
    ("org.apache.commons", "commons-pool2", POOL),
)


def connector_jars() -> list[str]:
    """For `spark.jars`."""
    folder = fetched(f"spark-connector-{CONNECTOR}", _ARTIFACTS, transitive=False)
    return sorted(str(jar) for jar in folder.glob("*.jar"))

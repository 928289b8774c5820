"""Command line: fetch the tested Kafkas and the other programs of the tests (`python -m tools.fetch_kafka`); print their places."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from typing import Final

from tools.class_archives import archive_classes
from tools.kafka_cluster import KafkaCluster
from tools.kafka_jars import (
    KAFKA_VERSION,
    OLD_KAFKA_VERSION,
    KafkaUnavailableError,
    class_archive,
    jar_folder,
)
from tools.kfake_program import kfake
from tools.registry_node import registry_folder
from tools.spark_jars import avro_jar

_ARCHIVING_LIMIT: Final = 120.0
_VERSIONS = (KAFKA_VERSION, OLD_KAFKA_VERSION)


def _run_broker(version: str) -> Callable[[str], None]:
    def run(option: str) -> None:
        with KafkaCluster(version=version, java_options=(option,)) as kafka:
            kafka.create_topic("one", 1)
            kafka.nodes[0].stop(timeout=_ARCHIVING_LIMIT)

    return run


def main() -> int:
    """Exit code 0 when all is there; 1, with the reason on stderr, when something cannot be fetched."""
    parser = argparse.ArgumentParser(prog="python -m tools.fetch_kafka", description=__doc__)
    default = f"{' and '.join(_VERSIONS)}, the registry, kfake, and Spark's Avro"
    parser.add_argument("--version", help=f"only this Kafka (default: {default})")
    only = parser.parse_args().version
    try:
        for version in [only] if only else _VERSIONS:
            print(jar_folder(version))
            archive_classes(class_archive(version), jar_folder(version), _run_broker(version))
        if only is None:
            print(registry_folder())
            print(kfake())
            print(avro_jar())
    except KafkaUnavailableError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

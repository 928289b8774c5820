"""Command line: fetch the tested Kafkas and the other programs of the tests (`python -m tools.fetch_kafka`); print their places."""

from __future__ import annotations

import argparse
import sys

from tools.kafka_jars import KAFKA_VERSION, OLD_KAFKA_VERSION, KafkaUnavailableError, jar_folder
from tools.kfake_program import kfake
from tools.registry_node import registry_folder
from tools.spark_jars import avro_jar

_VERSIONS = (KAFKA_VERSION, OLD_KAFKA_VERSION)


def main() -> int:
    """Exit code 0 when all is there; 1, with the reason on stderr, when something cannot be fetched."""
    parser = argparse.ArgumentParser(prog="python -m tools.fetch_kafka", description=__doc__)
    default = f"{' and '.join(_VERSIONS)}, the registry, kfake, and Spark's Avro"
    parser.add_argument("--version", help=f"only this Kafka (default: {default})")
    only = parser.parse_args().version
    try:
        for version in [only] if only else _VERSIONS:
            print(jar_folder(version))
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

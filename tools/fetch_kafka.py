"""Command line: fetch Kafka's jars (`python -m tools.fetch_kafka`) and print the folder they are in."""

from __future__ import annotations

import argparse
import sys

from tools.kafka_jars import KAFKA_VERSION, KafkaUnavailableError, jar_folder


def main() -> int:
    """Exit code 0 when the jars are there, 1 with the reason on stderr when they cannot be had."""
    parser = argparse.ArgumentParser(prog="python -m tools.fetch_kafka", description=__doc__)
    parser.add_argument("--version", default=KAFKA_VERSION, help="default: %(default)s")
    try:
        print(jar_folder(parser.parse_args().version))
    except KafkaUnavailableError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

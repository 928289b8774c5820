"""Command line: fetch the jars of the tested Kafkas (`python -m tools.fetch_kafka`); print their folders."""

from __future__ import annotations

import argparse
import sys

from tools.kafka_jars import KAFKA_VERSION, OLD_KAFKA_VERSION, KafkaUnavailableError, jar_folder

_VERSIONS = (KAFKA_VERSION, OLD_KAFKA_VERSION)


def main() -> int:
    """Exit code 0 when the jars are there; 1, with the reason on stderr, when they cannot be fetched."""
    parser = argparse.ArgumentParser(prog="python -m tools.fetch_kafka", description=__doc__)
    parser.add_argument("--version", help=f"only this one (default: {' and '.join(_VERSIONS)})")
    only = parser.parse_args().version
    try:
        for version in [only] if only else _VERSIONS:
            print(jar_folder(version))
    except KafkaUnavailableError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

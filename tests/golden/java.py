"""The Java programs beside this file, run on Kafka's own jars, and their output as files.

`python -m tests.golden.java` writes the vectors anew.
"""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Final

from tests.kafka_jars import class_path, program

HERE: Final = Path(__file__).parent
GENERATED: Final = {"GoldenBatches": "batches.jsonl", "GoldenPartitions": "partitions.jsonl"}


def run_java(name: str, stdin: str = "") -> str:
    """The output of a program; a failure raises with its output."""
    command = [program("java"), "-cp", class_path(), str(HERE / f"{name}.java")]
    done = subprocess.run(command, input=stdin, capture_output=True, text=True, encoding="utf-8", check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{name}.java failed:\n{done.stderr}")
    return done.stdout


def main() -> None:
    """Write every vector file."""
    for name, file in GENERATED.items():
        (HERE / file).write_text(run_java(name), encoding="utf-8")


if __name__ == "__main__":
    main()

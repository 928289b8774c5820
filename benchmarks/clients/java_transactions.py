"""The Java client: transactions one after the other, sent by `TransactionalSend.java`.

ProducerPerformance ends its transactions by time (`--transaction-duration-ms`, one at least), so it cannot make
transactions of a given number of records. This program can, and is warm when the clock starts: its time begins after
the start of the JVM, and so does its processor time.
"""

from __future__ import annotations

import subprocess
import uuid
from pathlib import Path

from benchmarks.measure import BATCH_SIZE, Round, Work, percentiles, work
from tools.kafka_jars import KAFKA_VERSION, class_path, program

_PROGRAM = Path(__file__).with_name("TransactionalSend.java")


def _command(one: Work) -> list[str]:
    numbers = (one.records, one.warm_up, one.per_transaction, one.value_size)
    settings = {
        "bootstrap.servers": one.bootstrap_servers,
        "transactional.id": f"java-{uuid.uuid4()}",
        "linger.ms": one.linger_ms,
        "batch.size": BATCH_SIZE,
    }
    command = [program("java"), "-Xmx512m", "-cp", class_path(), str(_PROGRAM), one.topic, *map(str, numbers)]
    return command + [f"{name}={value}" for name, value in settings.items()]


def _run(one: Work) -> Round:
    done = subprocess.run(_command(one), capture_output=True, text=True, check=False)
    lines = done.stdout.splitlines()
    if done.returncode != 0 or not lines:
        raise SystemExit(f"TransactionalSend failed:\n{done.stdout}{done.stderr}")
    # The log lines come first.
    lines = lines[-1 - one.records // one.per_transaction :]
    seconds, processor = map(float, lines[0].split())
    commits = [float(line) for line in lines[1:]]
    figures = {"transactions": len(commits) / seconds, **percentiles(commits)}
    return Round(one.records, seconds, processor, f"Java client {KAFKA_VERSION}", figures)


if __name__ == "__main__":
    _run(work()).tell()

"""The Java client, driven by Kafka's own ProducerPerformance, with the rate that it prints.

The processor time is that of the whole JVM, its start and compilation included.
"""

from __future__ import annotations

import re
import resource
import subprocess

from benchmarks.measure import BATCH_SIZE, LINGER_MS, Round, Work, work
from tools.kafka_jars import KAFKA_VERSION, class_path, program

_SUMMARY = re.compile(r"^(\d+) records sent, ([\d.]+) records/sec .*99th", re.MULTILINE)


def _command(one: Work) -> list[str]:
    command = [program("java"), "-Xmx512m", "-cp", class_path(), "org.apache.kafka.tools.ProducerPerformance"]
    command += ["--topic", one.topic, "--num-records", str(one.records), "--record-size", str(one.value_size)]
    command += ["--throughput", "-1", "--bootstrap-server", one.bootstrap_servers, "--command-property"]
    command += ["acks=all", "enable.idempotence=true", f"linger.ms={LINGER_MS}", f"batch.size={BATCH_SIZE}"]
    return command


def _run(one: Work) -> Round:
    done = subprocess.run(_command(one), capture_output=True, text=True, check=False)
    summary = _SUMMARY.findall(done.stdout)
    if done.returncode != 0 or not summary:
        raise SystemExit(f"ProducerPerformance failed:\n{done.stdout}{done.stderr}")
    records, rate = int(summary[-1][0]), float(summary[-1][1])
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return Round(records, records / rate, used.ru_utime + used.ru_stime, f"Java client {KAFKA_VERSION}")


if __name__ == "__main__":
    _run(work()).tell()

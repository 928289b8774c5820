"""A driver of Spark in a process of its own, which can be killed with all of its processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, Self

import attrs
import pyspark

from tools.kafka_node import dies_with_its_parent
from tools.quick_spark import quick_spark

__all__ = ["CLUSTER", "Driver", "session_of"]

ROOT: Final = Path(__file__).parents[3]
CLUSTER: Final = "local-cluster[2,1,1024]"
SECONDS_TO_END: Final = 20.0
# A driver notices frozen executors within seconds. On a busy machine an executor that works may be silent for some.
IMPATIENT: Final = {
    "spark.executor.heartbeatInterval": "1s",
    "spark.storage.blockManagerHeartbeatTimeoutMs": "12s",
    "spark.network.timeoutInterval": "1s",
}


def session_of(master: str, folder: str, **settings: str) -> Any:
    """For a program: a session on this machine, which writes only into this folder."""
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master(master).appName("aioproducer")
    common = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.extraJavaOptions": quick_spark(),
        "spark.executor.extraJavaOptions": quick_spark(),
        "spark.local.dir": f"{folder}/spark",
        "spark.sql.warehouse.dir": f"{folder}/warehouse",
        "spark.sql.shuffle.partitions": "2",
        # On a busy machine slow executors would count as lost.
        "spark.task.maxFailures": "10",
        "spark.python.daemon.module": "tests.spark.faults.daemon",
        "spark.log.level": "WARN",
    }
    for name, value in (common | IMPATIENT | settings).items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


@attrs.define(eq=False)
class Driver:
    """A program that runs as a driver."""

    process: subprocess.Popen[bytes]
    log: Path

    @classmethod
    def start(cls, module: str, argument: str, folder: Path) -> Self:
        """Start in a new session, which identifies all of its processes; they die with the thread that called this."""
        environment = os.environ | {
            "PYTHONPATH": str(ROOT),
            "PYSPARK_PYTHON": sys.executable,
            "PYSPARK_DRIVER_PYTHON": sys.executable,
            "SPARK_HOME": str(_spark_home(folder)),
            "SPARK_LOCAL_IP": "127.0.0.1",
        }
        log = folder / "driver.log"
        with log.open("ab") as output:
            process = subprocess.Popen(
                [*dies_with_its_parent(), sys.executable, "-m", module, argument],
                cwd=folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        return cls(process, log)

    @property
    def running(self) -> bool:
        """Whether the driver exists."""
        return self.process.poll() is None

    def kill(self) -> None:
        """Send SIGKILL to Python and its Java; executors and workers notice by themselves."""
        javas = [pid for pid, parent, _ in _processes() if parent == self.process.pid]
        for pid in (*javas, self.process.pid):
            os.kill(pid, signal.SIGKILL)
        self.process.wait(SECONDS_TO_END)

    def close(self) -> None:
        """End all of its processes."""
        deadline = time.monotonic() + SECONDS_TO_END
        while members := [pid for pid, _, session in _processes() if session == self.process.pid]:
            assert time.monotonic() < deadline, f"processes {members} did not end"
            for pid in members:
                _kill(pid)
            self.process.poll()
            time.sleep(0.01)
        self.process.wait(SECONDS_TO_END)

    def log_tail(self) -> str:
        """The end of its log."""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-80:])


def _spark_home(folder: Path) -> Path:
    """Spark as installed, in a folder of its own: a cluster in one process writes into it."""
    home = folder / "spark-home"
    if not home.exists():
        home.mkdir()
        for part in Path(pyspark.__file__).parent.iterdir():
            (home / part.name).symlink_to(part)
    return home


def _processes() -> Iterator[tuple[int, int, int]]:
    """Process id, parent and session of all live processes."""
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                stat = (folder / "stat").read_text()
            except OSError:
                continue
            state, parent, _, session = stat.rpartition(")")[2].split()[:4]
            if state != "Z":
                yield int(folder.name), int(parent), int(session)


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return

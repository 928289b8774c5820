"""A driver of Spark in a process of its own, which can be killed with all of its processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple, Self

import attrs
import pyspark

from tools.kafka_node import dies_with_its_parent
from tools.quick_spark import quick_spark

__all__ = ["CLUSTER", "Driver", "ProcessFacts", "process_facts", "session_of"]

ROOT: Final = Path(__file__).parents[3]
CLUSTER: Final = "local-cluster[2,1,1024]"
SECONDS_TO_END: Final = 20.0


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
    for name, value in (common | settings).items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


class ProcessFacts(NamedTuple):
    """The facts of a live process."""

    pid: int
    parent: int
    session: int
    # The letter of Linux: R runs, S sleeps, T is stopped, Z has ended.
    state: str
    processor_seconds: float

    def __str__(self) -> str:
        return f"{self.pid} of {self.parent}: {self.state}, {self.processor_seconds:.1f} s of processor time"


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
        javas = [each.pid for each in _processes() if each.parent == self.process.pid]
        for pid in (*javas, self.process.pid):
            os.kill(pid, signal.SIGKILL)
        self.process.wait(SECONDS_TO_END)

    def close(self) -> None:
        """End all of its processes."""
        deadline = time.monotonic() + SECONDS_TO_END
        while members := self.members():
            assert time.monotonic() < deadline, f"processes {[each.pid for each in members]} did not end"
            for each in members:
                _kill(each.pid)
            self.process.poll()
            time.sleep(0.01)
        self.process.wait(SECONDS_TO_END)

    def members(self) -> list[ProcessFacts]:
        """Its processes: Python, Java, executors, daemons and workers."""
        return [each for each in _processes() if each.session == self.process.pid]

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


def process_facts(pid: int) -> ProcessFacts | None:
    """The facts of a process, if it lives."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    # The name in front may have any characters.
    words = stat.rpartition(")")[2].split()
    state, parent, session, ticks = words[0], int(words[1]), int(words[3]), int(words[11]) + int(words[12])
    if state in {"X", "Z"}:
        return None
    return ProcessFacts(pid, parent, session, state, ticks / os.sysconf("SC_CLK_TCK"))


def _processes() -> Iterator[ProcessFacts]:
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit() and (found := process_facts(int(folder.name))) is not None:
            yield found


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return

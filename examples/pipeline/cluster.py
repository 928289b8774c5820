"""A standalone cluster of Spark on this machine: a master and two workers of one core each, whose executors can be killed."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, Self

import attrs
import pyspark

SPARK_HOME: Final = Path(pyspark.__file__).parent
ROOT: Final = Path(__file__).parents[2]
EXECUTOR: Final = "CoarseGrainedExecutorBackend"
# Of what hangs: a busy machine takes ten times as long as an idle one.
LIMIT: Final = 600.0
# Java starts sooner so, and never gets as fast: right for a demonstration.
QUICK: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


def until(condition: Callable[[], Any], what: str, limit: float = LIMIT) -> Any:
    """Wait until the condition holds; other processes send no event, so it is polled."""
    deadline = time.monotonic() + limit
    while not (found := condition()):
        if time.monotonic() > deadline:
            raise TimeoutError(f"{what}: not within {limit:g} s")
        time.sleep(0.02)
    return found


@attrs.define
class Program:
    """A process with a log, which ends with all that it has started."""

    process: subprocess.Popen[bytes]
    log: Path

    @classmethod
    def start(cls, command: list[str], log: Path, **variables: str) -> Self:
        """Start it in a session of its own; on Linux it dies with the thread that called this."""
        setpriv = shutil.which("setpriv")
        dying = [setpriv, "--pdeathsig", "KILL"] if setpriv else []
        environment = os.environ | {
            "SPARK_HOME": str(SPARK_HOME),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_DAEMON_JAVA_OPTS": QUICK,
            "SPARK_SUBMIT_OPTS": QUICK,
            # Tasks import this package; in your cluster, ship it with --py-files.
            "PYTHONPATH": str(ROOT),
            "PYSPARK_PYTHON": sys.executable,
            "PYSPARK_DRIVER_PYTHON": sys.executable,
        }
        with log.open("ab") as output:
            process = subprocess.Popen(  # noqa: S603 - our own programs
                [*dying, *command],
                cwd=log.parent,
                env=environment | variables,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        return cls(process, log)

    @property
    def runs(self) -> bool:
        """Whether it has not ended."""
        return self.process.poll() is None

    def printed(self, pattern: str) -> str | None:
        """The first group of the pattern in its log."""
        found = re.search(pattern, self.log.read_text(errors="replace"))
        return found[1] if found else None

    def kill(self) -> None:
        """SIGKILL for the whole session."""
        if self.runs:
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def end(self) -> None:
        """SIGTERM, and SIGKILL if it stays."""
        if self.runs:
            os.killpg(self.process.pid, signal.SIGTERM)
            try:
                self.process.wait(10)
            except subprocess.TimeoutExpired:
                self.kill()


@attrs.define
class Cluster:
    """A running cluster."""

    url: str
    workers: list[Program]

    def executors(self) -> list[int]:
        """The process ids of the executors."""
        listed = subprocess.run(["ps", "-eo", "pid=,ppid=,args="], capture_output=True, text=True, check=True)  # noqa: S607 - where it is depends on the system
        workers = {worker.process.pid for worker in self.workers}
        lines = (line.split(maxsplit=2) for line in listed.stdout.splitlines() if EXECUTOR in line)
        return [int(pid) for pid, parent, _ in lines if int(parent) in workers]

    def kill_executor(self) -> None:
        """Kill one; its worker starts another."""
        os.kill(until(self.executors, "an executor")[0], signal.SIGKILL)


@contextmanager
def standalone(folder: Path, workers: int = 2) -> Iterator[Cluster]:
    """A master and its workers, which are ended at the end."""
    programs: list[Program] = []

    def start(name: str, main: str, *arguments: str) -> Program:
        command = [str(SPARK_HOME / "bin" / "spark-class"), f"org.apache.spark.deploy.{main}"]
        command += ["--host", "127.0.0.1", "--webui-port", "0", *arguments]
        programs.append(Program.start(command, folder / f"{name}.log"))
        return programs[-1]

    try:
        master = start("master", "master.Master", "--port", "0")
        url = until(
            lambda: master.printed(r"Starting Spark master at (spark://\S+)"), "the start of the master"
        )
        size = ("--cores", "1", "--memory", "1g")
        started = [
            start(f"worker-{at}", "worker.Worker", *size, "-d", str(folder / f"worker-{at}"), url)
            for at in range(workers)
        ]
        for worker in started:
            until(lambda worker=worker: worker.printed("(registered with master)"), "the start of a worker")  # type: ignore[misc]
        yield Cluster(url, started)
    finally:
        for program in reversed(programs):
            program.end()

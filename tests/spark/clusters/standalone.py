"""A standalone cluster of Spark on this machine, made of the processes of an installed pyspark, and `spark-submit`."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import attrs
import pyspark

from tests.spark.clusters.daemon import Daemon, dying_with_the_tests, tail
from tools.quick_spark import quick_spark

__all__ = [
    "SPARK_HOME",
    "START_LIMIT",
    "StandaloneCluster",
    "Submitted",
    "clean_environment",
    "run_to_the_end",
]

SPARK_HOME: Final = Path(pyspark.__file__).parent
WORKERS: Final = 2
# The limit of a hanging program: beside twenty others, one through Spark Connect took more than 200 s.
START_LIMIT: Final = 180.0
PROGRAM_LIMIT: Final = 600.0
# The machine's variables, without any that lead to the tree or to the environment of the tests.
KEPT: Final = ("HOME", "JAVA_HOME", "LANG", "PATH", "TMPDIR")


def clean_environment(folder: Path) -> dict[str, str]:
    """The environment of Spark programs that must not inherit these tests."""
    return {name: os.environ[name] for name in KEPT if name in os.environ} | {
        "SPARK_HOME": str(SPARK_HOME),
        "SPARK_LOCAL_DIRS": str(folder),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_DAEMON_JAVA_OPTS": quick_spark(),
    }


@attrs.frozen
class Submitted:
    """The result of a program."""

    exit_code: int
    # The program's own output; and Spark's log.
    printed: str
    log: str

    def require_success(self) -> str:
        """The program's output, if it succeeded."""
        assert self.exit_code == 0, f"exit code {self.exit_code}\n{self.log}\n{self.printed}"
        return self.printed


def run_to_the_end(command: list[str], folder: Path, environment: Mapping[str, str]) -> Submitted:
    """Run a program that may start others; all of them end with it, or at its limit."""
    with subprocess.Popen(
        [*dying_with_the_tests(), *command],
        cwd=folder,
        env=dict(environment),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
        text=True,
        errors="replace",
    ) as process:
        try:
            printed, log = process.communicate(timeout=PROGRAM_LIMIT)
        except BaseException:
            os.killpg(process.pid, signal.SIGKILL)
            raise
    return Submitted(process.returncode, printed, log)


@attrs.define
class StandaloneCluster:
    """A master and two workers of one core each. `with StandaloneCluster(folder) as cluster: cluster.submit(…)`.

    Each worker has an address of its own: Spark starts a second attempt of a task on another host only.
    """

    folder: Path
    url: str = attrs.field(default="", init=False)
    _daemons: list[Daemon] = attrs.field(factory=list, init=False)

    def __enter__(self) -> Self:
        try:
            self._start()
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    def submit(
        self, program: Path, *arguments: str, folder: Path, options: Sequence[str] = (), **environment: str
    ) -> Submitted:
        """Run a program by spark-submit in a folder."""
        confs = {
            "spark.driver.host": "127.0.0.1",
            "spark.executor.memory": "512m",
            "spark.executor.extraJavaOptions": quick_spark(),
            "spark.sql.shuffle.partitions": "2",
            "spark.ui.enabled": "false",
        }
        command = [str(SPARK_HOME / "bin" / "spark-submit"), "--master", self.url]
        command += [word for name, value in confs.items() for word in ("--conf", f"{name}={value}")]
        command += ["--driver-java-options", quick_spark(), *options, str(program), *arguments]
        return run_to_the_end(command, folder, clean_environment(self.folder) | environment)

    def logs(self) -> str:
        """The ends of all logs."""
        executors = sorted(self.folder.glob("*/app-*/*/stderr"))
        return "\n".join(map(tail, [*self.folder.glob("*.log"), *executors]))

    def logs_of_executors(self) -> str:
        """The output of all executors, in all programs."""
        return "".join(log.read_text(errors="replace") for log in self.folder.glob("*/app-*/*/stderr"))

    def _start(self) -> None:
        master = self._daemon("master", "master.Master", "--host", "127.0.0.1", "--port", "0")
        self.url = master.wait_for(r"Starting Spark master at (spark://\S+)", START_LIMIT)[1]
        workers = [self._worker(number) for number in range(1, WORKERS + 1)]
        for worker in workers:
            worker.wait_for("Successfully registered with master", START_LIMIT)

    def _worker(self, number: int) -> Daemon:
        name = f"worker-{number}"
        size = ("--cores", "1", "--memory", "1g", "-d", str(self.folder / name))
        return self._daemon(name, "worker.Worker", "--host", f"127.0.0.{number}", *size, self.url)

    def _daemon(self, name: str, main_class: str, *arguments: str) -> Daemon:
        (self.folder / name).mkdir()
        program = [str(SPARK_HOME / "bin" / "spark-class"), f"org.apache.spark.deploy.{main_class}"]
        daemon = Daemon(
            [*program, "--webui-port", "0", *arguments],
            folder=self.folder / name,
            environment=clean_environment(self.folder),
            log=self.folder / f"{name}.log",
        )
        self._daemons.append(daemon)
        daemon.start()
        return daemon

    def _end(self) -> None:
        while self._daemons:
            self._daemons.pop().end()

"""A real schema registry on loopback: Apicurio with Confluent's REST API, in memory; fetched once a machine through Maven."""

from __future__ import annotations

import http.client
import signal
import subprocess
import tarfile
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from tools.kafka_jars import KafkaUnavailableError, cache, copied, program, publish
from tools.kafka_node import QUICK_START, dies_with_its_parent, hold_ports

VERSION: Final = "3.0.9"
_ARTIFACT: Final = f"io.apicurio:apicurio-registry-app:{VERSION}:tar.gz:all"
_API: Final = "/apis/ccompat/v7"
_JAVA_OPTIONS: Final = ("-Xmx512m", "-XX:+UseSerialGC", *QUICK_START)
_START_LIMIT: Final = 120.0


def registry_folder() -> Path:
    """The folder of the unpacked program; it is fetched if it does not exist."""
    folder = cache() / f"apicurio-registry-{VERSION}"
    if not folder.is_dir():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix="fetching-", dir=folder.parent) as scratch:
            found = Path(scratch) / "app"
            with tarfile.open(copied(_ARTIFACT, Path(scratch))) as archive:
                archive.extractall(found, filter="data")
            publish(found, folder)
    return folder


class RegistryNode:
    """A process of the registry; `pause()` and `resume()` let it be silent for a while."""

    def __init__(self) -> None:
        self._ports = hold_ports(1)[0]
        self._process: subprocess.Popen[bytes] | None = None
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the node

    @property
    def url(self) -> str:
        """The address for clients of Confluent's API."""
        return f"http://127.0.0.1:{self._ports.broker}{_API}"

    def __enter__(self) -> Self:
        folder = registry_folder()
        options = [f"-Dquarkus.http.port={self._ports.broker}", "-Dquarkus.http.host=127.0.0.1"]
        jar = folder / f"apicurio-registry-app-{VERSION}-runner.jar"
        command = [*dies_with_its_parent(), program("java"), *_JAVA_OPTIONS, *options, "-jar", str(jar)]
        self._process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=self._log, stderr=self._log, start_new_session=True
        )
        try:
            self._wait()
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    def pause(self) -> None:
        """SIGSTOP: it gives no answers."""
        self._started().send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """SIGCONT: undo `pause`."""
        self._started().send_signal(signal.SIGCONT)

    def _started(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            raise KafkaUnavailableError("the registry was never started")
        return self._process

    def _wait(self) -> None:
        end = time.monotonic() + _START_LIMIT
        while not self._answers():
            if self._started().poll() is not None or time.monotonic() > end:
                self._log.seek(0)
                log = self._log.read().decode(errors="replace")[-4000:]
                raise KafkaUnavailableError(f"the registry did not start; the end of its log:\n{log}")
            time.sleep(0.1)

    def _answers(self) -> bool:
        connection = http.client.HTTPConnection("127.0.0.1", self._ports.broker, timeout=5)
        try:
            connection.request("GET", f"{_API}/subjects")
            return connection.getresponse().status == http.HTTPStatus.OK
        except OSError:
            return False
        finally:
            connection.close()

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait(10)
        self._ports.release()
        self._log.close()

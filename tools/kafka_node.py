"""One process of a real Kafka: broker and controller in one, on loopback."""

from __future__ import annotations

import base64
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import attrs

from tools.class_archives import archived
from tools.kafka_jars import KafkaUnavailableError, class_archive, class_path, program, release

# Below the range of outgoing connections, so that the port of a killed node stays free for it.
_PORTS: Final = range(15_000, 32_000)
_LOG4J2: Final = """\
status=error
appender.out.type=Console
appender.out.name=out
appender.out.layout.type=PatternLayout
appender.out.layout.pattern=%d{ABSOLUTE} %-5p %m (%c{1})%n%throwable
rootLogger.level=info
rootLogger.appenderRef.out.ref=out
"""
_LOG4J: Final = """\
log4j.rootLogger=INFO, out
log4j.appender.out=org.apache.log4j.ConsoleAppender
log4j.appender.out.layout=org.apache.log4j.PatternLayout
log4j.appender.out.layout.ConversionPattern=%d{ABSOLUTE} %-5p %m (%c{1})%n
"""
_JAVA_OPTIONS: Final = ("-Xms256m", "-Xmx512m", "-XX:+UseSerialGC")
# Since Kafka 4.4 the format writes a snapshot of the metadata.
_FIRST_SNAPSHOT: Final = "__cluster_metadata-0/00000000000000000000-0000000000.checkpoint"
DATA: Final = "data"
"""The folder of the logs, in that of the node."""
QUICK_START: Final = ("-XX:TieredStopAtLevel=1", "-Xverify:none", "-XX:-UsePerfData")
"""Options with which Java starts sooner and never gets as fast: for nodes that are restarted often."""


@attrs.frozen
class NodePorts:
    """The two ports of one node, reserved also while the node is down, until they are released."""

    _held: tuple[socket.socket, socket.socket]
    broker: int
    controller: int

    def release(self) -> None:
        """Release the ports; can be called twice."""
        for one in self._held:
            one.close()


def hold_ports(nodes: int) -> list[NodePorts]:
    """Two ports for each node."""
    held: list[socket.socket] = []
    try:
        while len(held) < 2 * nodes:
            _hold_port(held)
    except BaseException:
        for one in held:
            one.close()
        raise
    ports = [_ports_of(*held[i : i + 2]) for i in range(0, len(held), 2)]
    if sys.platform != "linux":
        # Java cannot bind a port that is bound here, without the option below: the ports are only free.
        for pair in ports:
            pair.release()
    return ports


def _ports_of(broker: socket.socket, controller: socket.socket) -> NodePorts:
    return NodePorts((broker, controller), broker.getsockname()[1], controller.getsockname()[1])


def _hold_port(held: list[socket.socket]) -> None:
    one = socket.socket()
    try:
        one.bind(("127.0.0.1", random.choice(_PORTS)))  # noqa: S311 - not a secret
    except OSError:
        one.close()
        return
    held.append(one)
    # With this option on both sockets, Linux lets Java, which sets it always, bind a port that is bound here without
    # listening. Set after bind(): before, it would allow a port that another node is about to listen at.
    one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)


@attrs.define
class KafkaNode:
    """A node of a cluster: its folder, its ports, its process while it has one."""

    node_id: int
    ports: NodePorts
    folder: Path
    version: str
    java_options: tuple[str, ...] = ()
    classes: Path | None = None
    """A folder of further compiled classes."""
    paused: bool = attrs.field(default=False, init=False)
    _process: subprocess.Popen[bytes] | None = attrs.field(default=None, init=False)

    def write_properties(self, properties: dict[str, str]) -> None:
        """Write the configuration of the node."""
        self.folder.mkdir(parents=True)
        text = "".join(f"{name}={value}\n" for name, value in properties.items())
        self._properties.write_text(text, encoding="utf-8")
        (self.folder / "log4j2.properties").write_text(_LOG4J2, encoding="utf-8")
        (self.folder / "log4j.properties").write_text(_LOG4J, encoding="utf-8")

    def format(self, cluster_id: str, features: Mapping[str, int]) -> subprocess.Popen[bytes]:
        """Begin to format the log folder with Kafka's tool; the caller waits.

        `features` are finalized at these levels, the others at the defaults of the version.
        """
        levels = [f"--feature={name}={level}" for name, level in features.items()]
        # Without the "=", a cluster id that begins with "-" would be taken for an option.
        identity = f"--cluster-id={cluster_id}"
        return self.java("kafka.tools.StorageTool", "format", identity, *levels, "-c", str(self._properties))

    def adopt(self, cluster_id: str, bootstrap: Path) -> None:
        """Make the log folder of a formatted node, with the finalized features of another."""
        self.bootstrap.parent.mkdir(parents=True, exist_ok=True)
        if not self.bootstrap.exists():
            shutil.copy(bootstrap, self.bootstrap)
        directory_id = base64.urlsafe_b64encode(uuid.uuid4().bytes).rstrip(b"=").decode()
        own = {"version": 1, "cluster.id": cluster_id, "node.id": self.node_id, "directory.id": directory_id}
        text = "".join(f"{name}={value}\n" for name, value in own.items())
        (self.folder / DATA / "meta.properties").write_text(text, encoding="utf-8")

    @property
    def bootstrap(self) -> Path:
        """The file with the features that the format has finalized."""
        name = "bootstrap.checkpoint" if release(self.version) < (4, 4) else _FIRST_SNAPSHOT
        return self.folder / DATA / name

    def start(self) -> None:
        """Start the process, for the first time or again; the node is not ready yet when this returns.

        To be called by a thread that stays: the node dies with it (`dies_with_its_parent`).
        """
        self.paused = False
        self._process = self.java("kafka.Kafka", str(self._properties))

    @property
    def running(self) -> bool:
        """Whether the process is there (it may be paused)."""
        return self._process is not None and self._process.poll() is None

    @property
    def address(self) -> str:
        """`host:port` of the broker."""
        return f"127.0.0.1:{self.ports.broker}"

    @property
    def pid(self) -> int:
        """The process id."""
        return self._started().pid

    def stop(self, timeout: float = 30.0) -> None:
        """Shut down cleanly: the node first moves its leaderships."""
        self._end(signal.SIGTERM, timeout)

    def kill(self) -> None:
        """SIGKILL: the node ends at any point of its work."""
        self._end(signal.SIGKILL, 10.0)

    def pause(self) -> None:
        """SIGSTOP: connections stay open and get no answers."""
        process = self._started()
        process.send_signal(signal.SIGSTOP)
        # The signal is only on its way: on a busy machine a thread of the broker may still answer until all have stopped.
        os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
        self.paused = True

    def resume(self) -> None:
        """SIGCONT: undo `pause`."""
        self._started().send_signal(signal.SIGCONT)
        self.paused = False

    def accepts_connections(self) -> bool:
        """Whether the broker's port is open, which comes before the broker is ready."""
        with socket.socket() as probe:
            probe.settimeout(0.5)
            return probe.connect_ex(("127.0.0.1", self.ports.broker)) == 0

    def log_tail(self, lines: int = 60) -> str:
        """The end of the node's log."""
        text = self._log.read_text(encoding="utf-8", errors="replace") if self._log.exists() else ""
        tail = "\n".join(text.splitlines()[-lines:])
        return f"--- end of the log of Kafka node {self.node_id} ---\n{tail}"

    @property
    def _properties(self) -> Path:
        return self.folder / "server.properties"

    @property
    def _log(self) -> Path:
        return self.folder / "server.log"

    def java(self, main_class: str, *arguments: str) -> subprocess.Popen[bytes]:
        """Start a program of Kafka's jars; it writes to the log of the node."""
        command = [*dies_with_its_parent(), program("java"), *_JAVA_OPTIONS]
        command += [*archived(class_archive(self.version)), *self.java_options]
        command += [f"-Dlog4j2.configurationFile={self.folder / 'log4j2.properties'}"]
        command += [f"-Dlog4j.configuration=file:{self.folder / 'log4j.properties'}"]
        places = [class_path(self.version), *([] if self.classes is None else [str(self.classes)])]
        command += ["-cp", os.pathsep.join(places), main_class, *arguments]
        with self._log.open("ab") as log:
            # A session of its own: Ctrl-C reaches the tests, which stop the node.
            return subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )

    def _end(self, how: signal.Signals, timeout: float) -> None:
        process = self._started()
        process.send_signal(how)
        process.wait(timeout)

    def _started(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            raise KafkaUnavailableError(f"Kafka node {self.node_id} was never started")
        return self._process


def dies_with_its_parent() -> list[str]:
    """Ends the node when the test run itself is killed; only on Linux.

    For Linux the parent is the thread that started the process.
    """
    setpriv = shutil.which("setpriv")
    return [setpriv, "--pdeathsig", "KILL"] if setpriv else []

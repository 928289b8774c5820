"""A real PostgreSQL for tests and benchmarks: a server of its own in a temporary folder, at a Unix socket."""

from __future__ import annotations

import os
import pwd
import re
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import attrs

_START_LIMIT: Final = 60.0
# Where Debian has the programs of each version, beside the PATH.
_VERSIONS: Final = Path("/usr/lib/postgresql")
_SETTINGS: Final = {
    "listen_addresses": "",
    # The tests kill processes, not machines: the system keeps written data.
    "fsync": "off",
    "max_connections": "50",
    "shared_buffers": "32MB",
    "log_min_messages": "warning",
}
USER: Final = "outbox"
"""The superuser of the server, who needs no password at the socket."""


class PostgresUnavailableError(RuntimeError):
    """PostgreSQL is not installed or cannot be started; the text has the package to install, or the log."""


@attrs.define
class Postgres:
    """`with Postgres() as server: asyncpg.connect(**server.address)`; it can be killed and started again."""

    _folder: Path = attrs.field(init=False)
    _process: subprocess.Popen[bytes] | None = attrs.field(default=None, init=False)

    def __enter__(self) -> Self:
        # The path of a Unix socket is short, so the folder is not one of pytest's.
        self._folder = Path(tempfile.mkdtemp(prefix="aioproducer-postgres-"))
        try:
            _give_to_owner(self._folder)
            self._make()
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    @property
    def address(self) -> dict[str, Any]:
        """The arguments of `asyncpg.connect()` and `create_pool()`."""
        return {"host": str(self._folder), "user": USER, "database": "postgres"}

    def url(self, driver: str) -> str:
        """The URL for SQLAlchemy, such as for the driver `asyncpg`."""
        return f"postgresql+{driver}://{USER}@/postgres?host={self._folder}"

    @property
    def running(self) -> bool:
        """Whether the process is there."""
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Start the server and wait until it accepts connections.

        To be called by a thread that stays: the server ends with it.
        """
        settings = [f"--{name}={value}" for name, value in _SETTINGS.items()]
        command = [_program("postgres"), "-D", str(self._data), "-k", str(self._folder), *settings]
        with self._log.open("ab") as log:
            # The leader of a session: kill() ends the processes of all connections as well.
            self._process = subprocess.Popen(
                [*_as_owner(), *command],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self._wait_ready()

    def kill(self) -> None:
        """SIGKILL for the server and all of its processes."""
        self._end(signal.SIGKILL)

    def close(self) -> None:
        """Stop the server and remove its folder."""
        if self.running:
            self._end(signal.SIGQUIT)
        shutil.rmtree(self._folder, ignore_errors=True)

    @property
    def _data(self) -> Path:
        return self._folder / "data"

    @property
    def _log(self) -> Path:
        return self._folder / "server.log"

    def _make(self) -> None:
        options = ["--auth=trust", "--encoding=UTF8", "--locale=C", "--no-sync", f"--username={USER}"]
        command = [*_as_owner(), _program("initdb"), "-D", str(self._data), *options]
        made = subprocess.run(command, capture_output=True, text=True, check=False, cwd=self._folder)
        if made.returncode:
            raise PostgresUnavailableError(f"initdb failed: {made.stderr}")

    def _wait_ready(self) -> None:
        end = time.monotonic() + _START_LIMIT
        asking = [_program("pg_isready"), "-q", "-h", str(self._folder), "-U", USER]
        while subprocess.run(asking, check=False).returncode:
            if not self.running or time.monotonic() > end:
                raise PostgresUnavailableError(f"PostgreSQL did not start: {self._log.read_text()[-2000:]}")
            time.sleep(0.05)

    def _end(self, how: signal.Signals) -> None:
        process = self._process
        if process is None:
            raise PostgresUnavailableError("the server was never started")
        if how is signal.SIGKILL:
            os.killpg(process.pid, how)
        else:
            process.send_signal(how)
        process.wait(30)


def _program(name: str) -> str:
    """The path of a program of PostgreSQL, of the newest version."""
    versions = sorted(
        _VERSIONS.glob("*/bin"), key=lambda path: [int(part) for part in re.findall(r"\d+", str(path))]
    )
    for folder in reversed(versions):
        if (folder / name).exists():
            return str(folder / name)
    path = shutil.which(name)
    if path is None:
        raise PostgresUnavailableError(
            f"{name} was not found: install PostgreSQL (Debian: apt-get install postgresql) or run tools/setup_machine.sh test"
        )
    return path


def _owner() -> pwd.struct_passwd | None:
    """The user who runs the server: PostgreSQL refuses to run as root."""
    if os.getuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        try:
            return pwd.getpwnam(name)
        except KeyError:
            continue
    raise PostgresUnavailableError("PostgreSQL does not run as root, and there is no user postgres or nobody")


def _as_owner() -> list[str]:
    """Starts a program as that user; on Linux it ends with the thread that started it."""
    setpriv, owner = shutil.which("setpriv"), _owner()
    if owner is None:
        return [] if setpriv is None else [setpriv, "--pdeathsig", "KILL"]
    if setpriv is None:
        raise PostgresUnavailableError("setpriv was not found (util-linux): PostgreSQL does not run as root")
    ids = [f"--reuid={owner.pw_uid}", f"--regid={owner.pw_gid}", "--clear-groups"]
    return [setpriv, *ids, "--pdeathsig", "KILL"]


def _give_to_owner(folder: Path) -> None:
    owner = _owner()
    if owner is not None:
        os.chown(folder, owner.pw_uid, owner.pw_gid)

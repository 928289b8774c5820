"""A realm of Kerberos with a KDC of its own, in a folder, without root: Debian's krb5-kdc, krb5-admin-server, krb5-user."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import attrs

REALM: Final = "TEST.LOCAL"
_PACKAGES: Final = "krb5-kdc krb5-admin-server krb5-user"
# Debian has the programs of administrators here, outside the PATH of users.
_FOLDERS: Final = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
_LIMIT: Final = 30.0
_CLIENT: Final = """[libdefaults]
default_realm = {realm}
dns_lookup_kdc = false
dns_canonicalize_hostname = false
rdns = false
udp_preference_limit = 1
[realms]
{realm} = {{
  kdc = 127.0.0.1:{port}
}}
"""
_KDC: Final = """[kdcdefaults]
kdc_listen = ""
kdc_tcp_listen = "127.0.0.1:{port}"
[realms]
{realm} = {{
  database_name = {folder}/principal
  key_stash_file = {folder}/stash
  acl_file = {folder}/acl
}}
[logging]
kdc = FILE:{folder}/kdc.log
"""


def program(name: str) -> str:
    """The path of a program of Kerberos."""
    path = shutil.which(name, path=_FOLDERS)
    if path is None:
        raise RuntimeError(f"`{name}` is missing: on Debian, apt-get install {_PACKAGES}")
    return path


@attrs.define
class Realm:
    """The realm; its KDC runs between `start` and `stop`, and may be started again."""

    folder: Path
    port: int
    _process: subprocess.Popen[str] | None = attrs.field(default=None, init=False)

    @property
    def config(self) -> Path:
        """The file krb5.conf of clients and servers."""
        return self.folder / "krb5.conf"

    @property
    def environment(self) -> dict[str, str]:
        """The environment variables of the programs of Kerberos."""
        return {"KRB5_CONFIG": str(self.config), "KRB5_KDC_PROFILE": str(self.folder / "kdc.conf")}

    def make(self) -> None:
        """Write the files and make the database."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self.config.write_text(_CLIENT.format(realm=REALM, port=self.port))
        kdc = _KDC.format(realm=REALM, port=self.port, folder=self.folder)
        (self.folder / "kdc.conf").write_text(kdc)
        self.run("kdb5_util", "create", "-s", "-r", REALM, "-P", "database")

    def principal(self, name: str, *options: str) -> Path:
        """Make a principal; gives its key table."""
        keytab = self.folder / f"{name.replace('/', '-')}.keytab"
        self.administer(f"addprinc -randkey {' '.join(options)} {name}@{REALM}")
        self.administer(f"ktadd -k {keytab} {name}@{REALM}")
        return keytab

    def administer(self, query: str) -> None:
        """Run a command of kadmin."""
        self.run("kadmin.local", "-r", REALM, "-q", query)

    def run(self, name: str, *arguments: str, **environment: str) -> None:
        """Run a program of Kerberos to its end."""
        env = os.environ | self.environment | environment
        subprocess.run([program(name), *arguments], check=True, capture_output=True, env=env, timeout=_LIMIT)

    def start(self) -> None:
        """Start the KDC, and wait until it takes requests."""
        self._process = subprocess.Popen(
            [program("krb5kdc"), "-n", "-r", REALM],
            env=os.environ | self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if "commencing operation" in line or "starting" in line:
                return
        raise RuntimeError(f"the KDC ended with exit code {self._process.wait(_LIMIT)}")

    @contextmanager
    def silent(self) -> Iterator[None]:
        """The KDC takes connections, and answers none of them."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self._process.send_signal(signal.SIGCONT)

    def stop(self) -> None:
        """Stop the KDC; can be called twice."""
        if self._process is not None:
            self._process.send_signal(signal.SIGTERM)
            self._process.wait(_LIMIT)
            if self._process.stdout is not None:
                self._process.stdout.close()
            self._process = None

    def __enter__(self) -> Self:
        self.make()
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

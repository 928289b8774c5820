"""Fetch the newest tested CPython, once a machine, where no package of the system has it; print its path.

    python -m tools.fetch_python

Maven Central has CPython as a jar (the JavaCPP presets): the interpreter, its library, headers, venv and pip. It can be
moved, so it is unpacked beside the jars of Kafka. `tools/setup_machine.sh` finds it there.
"""

from __future__ import annotations

import platform
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Final

from tools.kafka_jars import KafkaUnavailableError, cache, copied, publish

VERSION: Final = "3.14.3"
_ARTIFACT: Final = f"org.bytedeco:cpython:{VERSION}-1.5.13:jar"
# The platform in the name of the jar, and the folder of its files.
_PLATFORMS: Final = {("Linux", "x86_64"): "linux-x86_64"}


def folder() -> Path:
    """The folder of that Python, existing or not."""
    return cache() / f"python-{VERSION}"


def interpreter() -> Path:
    """The path of its program."""
    return folder() / "bin" / f"python{VERSION.rpartition('.')[0]}"


def fetch(name: str) -> None:
    """Fetch it for this platform."""
    folder().parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="fetching-", dir=folder().parent) as scratch:
        with zipfile.ZipFile(copied(f"{_ARTIFACT}:{name}", Path(scratch))) as archive:
            archive.extractall(scratch)
        found = Path(scratch, "org", "bytedeco", "cpython", name)
        for path in (found / "bin").iterdir():
            path.chmod(0o755)
        publish(found, folder())


def main() -> int:
    """Exit code 0 when it is there, or does not exist for this kind of machine; 1 when fetching failed."""
    name = _PLATFORMS.get((platform.system(), platform.machine()))
    try:
        if not interpreter().exists():
            if name is None:
                print(f"There is no CPython {VERSION} to fetch for this kind of machine.", file=sys.stderr)
                return 0
            fetch(name)
    except KafkaUnavailableError as error:
        print(f"CPython {VERSION} could not be fetched: {error}", file=sys.stderr)
        return 1
    print(interpreter())
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""The brokers of franz-go's kfake as a program, which Go compiles once a machine from the sources in `tools/kfake`."""

from __future__ import annotations

import hashlib
import subprocess
import tempfile
from pathlib import Path
from typing import Final

from tools.kafka_jars import KafkaUnavailableError, cache, program, publish

_SOURCES: Final = Path(__file__).parent / "kfake"


def kfake() -> Path:
    """The path of the program; it is compiled if it does not exist."""
    folder = cache() / f"kfake-{_fingerprint()}"
    if not folder.is_dir():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix="compiling-", dir=folder.parent) as scratch:
            compiled = Path(scratch) / "kfake"
            _compile(compiled / "kfake")
            publish(compiled, folder)
    return folder / "kfake"


def _fingerprint() -> str:
    sources = b"".join(path.read_bytes() for path in sorted(_SOURCES.iterdir()))
    return hashlib.sha256(sources).hexdigest()[:12]


def _compile(result: Path) -> None:
    command = [program("go"), "build", "-o", str(result), "."]
    done = subprocess.run(command, cwd=_SOURCES, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise KafkaUnavailableError(f"Go could not compile kfake:\n{(done.stdout + done.stderr)[-4000:]}")

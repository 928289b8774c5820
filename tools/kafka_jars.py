"""The jars of a released Kafka, fetched once a machine through Maven."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Final

KAFKA_VERSION: Final = "4.3.1"
# The last line before 4: the wire's contract and the producer are tested on it as well.
OLD_KAFKA_VERSION: Final = "3.9.1"

_POM: Final = """\
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>aioproducer</groupId>
  <artifactId>kafka-for-tests</artifactId>
  <version>1</version>
  <dependencies>
    <dependency>
      <groupId>org.apache.kafka</groupId><artifactId>kafka_2.13</artifactId><version>{version}</version>
    </dependency>
    <dependency>
      <groupId>org.apache.kafka</groupId><artifactId>kafka-tools</artifactId><version>{version}</version>
    </dependency>
    <dependency>
      <groupId>org.apache.logging.log4j</groupId><artifactId>log4j-core</artifactId><version>2.24.3</version>
    </dependency>
    <dependency>
      <groupId>org.apache.logging.log4j</groupId><artifactId>log4j-slf4j-impl</artifactId><version>2.24.3</version>
    </dependency>
  </dependencies>
</project>
"""
_PACKAGES: Final = {"mvn": "maven", "java": "openjdk-17-jre-headless"}


class KafkaUnavailableError(RuntimeError):
    """Kafka cannot be fetched or started; the text says what is missing or shows the log."""


def program(name: str) -> str:
    """The path of `java` or `mvn`."""
    path = shutil.which(name)
    if path is None:
        raise KafkaUnavailableError(
            f"`{name}` is not on the PATH, and a real Kafka needs it: on Debian, "
            f"apt-get install {_PACKAGES[name]} (Kafka needs maven and openjdk-17-jre-headless)"
        )
    return path


def jar_folder(version: str = KAFKA_VERSION) -> Path:
    """The folder with all jars of Kafka `version`; fetches them when this machine has none yet."""
    lib = _cache() / f"kafka-{version}" / "lib"
    if not lib.is_dir():
        _fetch(version, lib)
    return lib


def class_path(version: str = KAFKA_VERSION) -> str:
    """What `java -cp` takes."""
    return str(jar_folder(version) / "*")


def _cache() -> Path:
    root = os.environ.get("XDG_CACHE_HOME")
    return (Path(root) if root else Path.home() / ".cache") / "aioproducer"


def _fetch(version: str, lib: Path) -> None:
    lib.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="fetching-", dir=lib.parent) as scratch:
        fetched = _run_maven(version, Path(scratch))
        _publish(fetched, lib)


def _publish(fetched: Path, lib: Path) -> None:
    """Rename, so that the folder exists only when it is whole, whoever else is fetching it too."""
    try:
        fetched.rename(lib)
    except OSError:
        if not lib.is_dir():
            raise


def _run_maven(version: str, scratch: Path) -> Path:
    program("java")
    (scratch / "pom.xml").write_text(_POM.format(version=version), encoding="utf-8")
    command = [program("mvn"), "-q", "-B", "dependency:copy-dependencies"]
    command += ["-DoutputDirectory=lib", "-DincludeScope=runtime"]
    done = subprocess.run(command, cwd=scratch, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise KafkaUnavailableError(
            f"Maven could not fetch Kafka {version} (exit code {done.returncode}):\n"
            f"{(done.stdout + done.stderr)[-4000:]}"
        )
    return scratch / "lib"

"""The jars of a released Kafka, and others that tests and benchmarks need, fetched once a machine through Maven."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

KAFKA_VERSION: Final = "4.3.1"
# The last line before 4: the contract of the protocol and the producer are tested on it as well.
OLD_KAFKA_VERSION: Final = "3.9.1"

# Group, name and version.
Artifact = tuple[str, str, str]

_POM: Final = """\
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>aioproducer</groupId>
  <artifactId>jars-for-tests</artifactId>
  <version>1</version>
  <dependencies>
{dependencies}
  </dependencies>
</project>
"""
_DEPENDENCY: Final = """\
    <dependency>
      <groupId>{group}</groupId><artifactId>{name}</artifactId><version>{version}</version>{more}
    </dependency>"""
_ALONE: Final = (
    "<exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions>"
)
# Kafka's tools bring Kafka Connect along, which no test starts.
_CONNECT: Final = "".join(
    f"<exclusion><groupId>org.apache.kafka</groupId><artifactId>connect-{part}</artifactId></exclusion>"
    for part in ("api", "json", "runtime", "transforms")
)
_WITHOUT_CONNECT: Final = f"<exclusions>{_CONNECT}</exclusions>"
_LOG4J: Final = "2.24.3"
# Java 11 removed it; Kafka 0.11 uses it.
_JAXB: Final = ("javax.xml.bind", "jaxb-api", "2.3.1")
_PACKAGES: Final = {
    "mvn": "maven",
    "java": "openjdk-17-jre-headless",
    "javac": "openjdk-17-jdk-headless",
    "go": "golang-go",
}


class KafkaUnavailableError(RuntimeError):
    """Kafka cannot be fetched or started; the text has the missing program or the log."""


def program(name: str) -> str:
    """The path of `java`, `javac`, `mvn` or `go`."""
    path = shutil.which(name)
    if path is None:
        raise KafkaUnavailableError(
            f"`{name}` is not on the PATH, and the tests with brokers need it: on Debian, "
            f"apt-get install {_PACKAGES[name]} (Kafka needs maven and openjdk-17-jre-headless)"
        )
    return path


def jar_folder(version: str = KAFKA_VERSION) -> Path:
    """The folder with all jars of Kafka `version`; they are fetched once a machine."""
    kafka = [("org.apache.kafka", name, version) for name in (_broker(version), "kafka-tools")]
    log4j = [("org.apache.logging.log4j", name, _LOG4J) for name in ("log4j-core", "log4j-slf4j-impl")]
    removed = [] if release(version) >= (1, 0) else [_JAXB]
    return fetched(f"kafka-{version}", [*kafka, *log4j, *removed], transitive=True)


def release(version: str) -> tuple[int, ...]:
    """The numbers of a version, to compare it with others."""
    return tuple(int(number) for number in version.split("."))


def _broker(version: str) -> str:
    """The artifact of the broker: its name has the version of Scala."""
    return "kafka_2.13" if release(version) >= (2, 4) else "kafka_2.12"


def fetched(name: str, artifacts: Sequence[Artifact], *, transitive: bool) -> Path:
    """The folder of this name with these jars, and their dependencies if `transitive`; fetched if it does not exist."""
    lib = cache() / name / "lib"
    if not lib.is_dir():
        _fetch(name, _pom(artifacts, _WITHOUT_CONNECT if transitive else _ALONE), lib)
    return lib


def class_path(version: str = KAFKA_VERSION) -> str:
    """The argument of `java -cp`."""
    return str(jar_folder(version) / "*")


def class_archive(version: str = KAFKA_VERSION) -> Path:
    """The archive of the classes that a broker loads; `tools.fetch_kafka` makes it."""
    return jar_folder(version).parent / "broker-classes.jsa"


def cache() -> Path:
    """The folder of fetched files on this machine."""
    root = os.environ.get("XDG_CACHE_HOME")
    return (Path(root) if root else Path.home() / ".cache") / "aioproducer"


def _pom(artifacts: Sequence[Artifact], more: str) -> str:
    dependencies = [
        _DEPENDENCY.format(group=group, name=name, version=version, more=more)
        for group, name, version in artifacts
    ]
    return _POM.format(dependencies="\n".join(dependencies))


def _fetch(name: str, pom: str, lib: Path) -> None:
    lib.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="fetching-", dir=lib.parent) as scratch:
        _run_maven(name, pom, Path(scratch))
        publish(Path(scratch) / "lib", lib)


def copied(artifact: str, folder: Path) -> Path:
    """The file of an artifact that is no jar of a program (group:name:version:type:classifier), fetched into this folder."""
    command = [
        program("mvn"),
        "-q",
        "-B",
        "dependency:copy",
        f"-Dartifact={artifact}",
        f"-DoutputDirectory={folder}",
    ]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise KafkaUnavailableError((done.stdout + done.stderr)[-4000:])
    (found,) = (path for path in folder.iterdir() if path.is_file())
    return found


def publish(found: Path, lib: Path) -> None:
    """Rename, so that the folder exists only when it is complete, also with several processes that fetch it."""
    try:
        found.rename(lib)
    except OSError:
        if not lib.is_dir():
            raise


def _run_maven(name: str, pom: str, scratch: Path) -> None:
    program("java")
    (scratch / "pom.xml").write_text(pom, encoding="utf-8")
    command = [program("mvn"), "-q", "-B", "dependency:copy-dependencies"]
    command += ["-DoutputDirectory=lib", "-DincludeScope=runtime"]
    done = subprocess.run(command, cwd=scratch, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise KafkaUnavailableError(
            f"Maven could not fetch {name} (exit code {done.returncode}):\n{(done.stdout + done.stderr)[-4000:]}"
        )

"""Archives of the classes that a Java program loads: with one Java starts in half to two thirds of the processor time.

Java writes an archive at the end of a program and maps it in the next ones. It ignores an archive of another Java, and
of other jars.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

from tools.kafka_jars import program


def archived(archive: Path) -> tuple[str, ...]:
    """The option of a program that uses the archive, if it exists."""
    return (f"-XX:SharedArchiveFile={archive}",) if archive.exists() else ()


def archive_classes(archive: Path, jars: Path, run: Callable[[str], None]) -> Path:
    """Make the archive if it does not exist or is older than Java or the folder of jars.

    `run` is given an option for Java, runs the program, and returns when Java has ended.
    """
    changed = max(path.stat().st_ctime for path in (Path(program("java")).resolve(), jars))
    if not archive.exists() or archive.stat().st_mtime < changed:
        with tempfile.TemporaryDirectory(prefix="archiving-", dir=archive.parent) as scratch:
            written = Path(scratch) / archive.name
            run(f"-XX:ArchiveClassesAtExit={written}")
            written.replace(archive)
    return archive

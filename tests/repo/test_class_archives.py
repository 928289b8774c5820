"""An archive of Java's classes is made once, and again when Java or the jars are newer."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tools import class_archives
from tools.class_archives import archive_classes, archived


@pytest.fixture
def java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file in the place of Java."""
    path = tmp_path / "java"
    path.touch()
    monkeypatch.setattr(class_archives, "program", lambda _: str(path))
    return path


def test_made_once_and_again_for_newer_jars(tmp_path: Path, java: Path) -> None:
    """The program runs with the option that writes the archive; the next runs are given the archive."""
    jars, archive = tmp_path / "lib", tmp_path / "classes.jsa"
    jars.mkdir()
    options: list[str] = []

    def run(option: str) -> None:
        options.append(option)
        name, _, path = option.partition("=")
        assert name == "-XX:ArchiveClassesAtExit"
        Path(path).touch()

    assert archived(archive) == ()
    assert archive_classes(archive, jars, run) == archive
    assert archived(archive) == (f"-XX:SharedArchiveFile={archive}",)
    later = max(path.stat().st_ctime for path in (java, jars)) + 1
    os.utime(archive, (later, later))
    archive_classes(archive, jars, run)
    assert len(options) == 1
    os.utime(archive, (0, 0))
    archive_classes(archive, jars, run)
    assert len(options) == 2


def test_nothing_is_left_of_a_program_that_fails(tmp_path: Path, java: Path) -> None:
    """Half an archive is not used."""
    archive = tmp_path / "classes.jsa"

    def run(option: str) -> None:
        Path(option.partition("=")[2]).touch()
        raise RuntimeError

    with pytest.raises(RuntimeError):
        archive_classes(archive, java.parent, run)
    assert [path.name for path in tmp_path.iterdir()] == ["java"]

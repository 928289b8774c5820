"""An environment that can be shipped: a virtual one of this Python with the library, packed with its requirements."""

from __future__ import annotations

import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from collections.abc import Iterator
from importlib.metadata import Distribution, distribution, requires
from pathlib import Path
from typing import Final
from venv import EnvBuilder

from packaging.requirements import Requirement

from tests.repo.source import PACKAGE, ROOT

__all__ = ["pack_by_venv_pack", "pack_environment", "zip_package"]

# As docs/spark-clusters.md says; Spark has its own pyspark.
BESIDE: Final = ("pyarrow",)
LIBRARIES: Final = f"lib/python{sys.version_info.major}.{sys.version_info.minor}/site-packages"


def pack_environment(archive: Path, folder: Path) -> None:
    """The result of `python -m venv`, `pip install` and `tar`, without a new installation."""
    EnvBuilder(symlinks=True).create(folder)
    with tarfile.open(archive, "w:gz", compresslevel=1) as tar:
        tar.add(folder, arcname=".")
        for name, path in _files():
            tar.add(path, arcname=f"./{LIBRARIES}/{name}")


def pack_by_venv_pack(archive: Path, folder: Path) -> None:
    """The result of `venv-pack -p folder -o archive`."""
    command = [sys.executable, "-m", "venv_pack", "--quiet", "-p", str(folder), "-o", str(archive)]
    packed = subprocess.run(command, capture_output=True, check=False, text=True)
    assert packed.returncode == 0, packed.stderr


def zip_package(archive: Path) -> None:
    """A zip of the package, as for --py-files."""
    with zipfile.ZipFile(archive, "w") as package:
        for name, path in _files_of_the_package():
            package.write(path, name)


def _files() -> Iterator[tuple[str, Path]]:
    for each in _needed():
        for file in each.files or ():
            path = Path(str(file.locate()))
            # Not the programs, which are elsewhere.
            if ".." not in file.parts and path.suffix != ".pyc" and path.exists():
                yield str(file), path
    yield from _files_of_the_package()


def _files_of_the_package() -> Iterator[tuple[str, Path]]:
    """The package's files in the tree; it may be installed in place."""
    compiled = sysconfig.get_config_var("EXT_SUFFIX")
    for path in [ROOT / "pyspark_aioproducer.py", *PACKAGE.rglob("*.py"), *PACKAGE.rglob(f"*{compiled}")]:
        yield str(path.relative_to(ROOT)), path


def _needed() -> list[Distribution]:
    """The requirements of the library and its extras, with their own requirements."""
    wanted, found = [*map(Requirement, requires("aioproducer") or ()), *map(Requirement, BESIDE)], {}
    while wanted:
        requirement = wanted.pop()
        is_asked_for = requirement.marker is None or requirement.marker.evaluate({"extra": ""})
        if is_asked_for and requirement.name not in found:
            found[requirement.name] = distribution(requirement.name)
            wanted += map(Requirement, found[requirement.name].requires or ())
    return list(found.values())

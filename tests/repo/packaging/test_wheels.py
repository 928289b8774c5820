"""The wheels: what would be built where, and the proof that those of this machine need no compiler to be used.

What stands in [tool.cibuildwheel] is done here as cibuildwheel does it, without its containers: repair the wheel,
install it into a fresh environment, run the test commands on copies of the tests.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
import tarfile
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import product
from pathlib import Path
from typing import Any

import attrs
import pytest

from tests.repo.packaging.distribution import install, make_environment, project, pythons, run
from tests.repo.source import ROOT

pytestmark = [pytest.mark.packaging, pytest.mark.timeout(600)]

RELEASED = ("cp311", "cp312", "cp313", "cp314", "cp315")
PLATFORMS = {
    "linux": (
        "x86_64,aarch64",
        ("manylinux_x86_64", "manylinux_aarch64", "musllinux_x86_64", "musllinux_aarch64"),
    ),
    "macos": ("x86_64,arm64", ("macosx_x86_64", "macosx_arm64")),
    "windows": ("AMD64,ARM64", ("win_amd64", "win_arm64")),
}
COMPILERS = ("cc", "gcc", "clang", "c++", "g++", "tcc")


def settings() -> dict[str, Any]:
    """The settings of cibuildwheel."""
    told: dict[str, Any] = project()["tool"]["cibuildwheel"]
    return told


@pytest.mark.parametrize("platform", PLATFORMS)
def test_wheels_are_built_for_every_released_python(platform: str) -> None:
    """CPython from 3.11 on, with the GIL, on 64-bit machines of both kinds, and nothing else."""
    machines, tags = PLATFORMS[platform]
    command = [sys.executable, "-m", "cibuildwheel", "--print-build-identifiers"]
    printed = run(*command, "--platform", platform, "--archs", machines, cwd=ROOT)
    assert sorted(printed.split()) == sorted(f"{python}-{tag}" for python, tag in product(RELEASED, tags))


# ------------------------------------------------------------------------------------------ the proof
@attrs.frozen
class Proof:
    """The result of using a wheel where nothing can be compiled."""

    name: str
    environment: Path
    compilers: list[str]
    installed: Path
    verdict: str


def repaired(wheel: Path, folder: Path) -> Path:
    """The wheel as it may be published: named for every Linux that it runs on."""
    tools = Path(sys.executable).parent
    env = os.environ | {"PATH": f"{tools}{os.pathsep}{os.environ['PATH']}"}
    run(sys.executable, "-m", "auditwheel", "repair", "-w", folder, wheel, cwd=folder, env=env)
    (path,) = folder.glob("*.whl")
    return path


def bare(python: Path) -> dict[str, str]:
    """The variables of a shell on whose PATH there is this environment and nothing else."""
    told: dict[str, str] = settings()["test-environment"]
    return os.environ | told | {"PATH": str(python.parent)}


def copy_of_the_tests(sdist: Path, folder: Path) -> Path:
    """The tests that cibuildwheel would copy, from the sdist: this proves the sdist complete, without this tree."""
    with tarfile.open(sdist) as archive:
        archive.extractall(folder, filter="data")
    (unpacked,) = folder.iterdir()
    for path in unpacked.iterdir():
        if path.name not in settings()["test-sources"]:
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    return unpacked


def prove(python: Path, wheel: Path, sdist: Path, folder: Path) -> Proof:
    """Repair the wheel, install it as a user without a compiler would, run its tests."""
    fit = repaired(wheel, folder)
    inside = make_environment(python, folder / "env")
    env = bare(inside)
    install(inside, fit, *settings()["test-requires"], env=env)
    tests = copy_of_the_tests(sdist, folder / "tests")
    printed = [run("/bin/sh", "-c", command, cwd=tests, env=env) for command in settings()["test-command"]]
    return Proof(
        name=fit.name,
        environment=folder / "env",
        compilers=[name for name in COMPILERS if shutil.which(name, path=env["PATH"])],
        installed=Path(printed[0].strip()),
        verdict=printed[1].splitlines()[-1],
    )


@pytest.fixture(scope="module")
def proofs(
    sdist: Path, wheel_for: Callable[[Path], Path], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, Future[Proof]]]:
    """One for the oldest and one for the newest Python of this machine, at the same time."""
    every = sorted(pythons().items(), key=lambda found: [int(part) for part in found[0].split(".")])
    found = dict((every[0], every[-1]))

    def proof(version: str, python: Path) -> Proof:
        return prove(python, wheel_for(python), sdist, tmp_path_factory.mktemp(f"python{version}-"))

    with ThreadPoolExecutor(len(found)) as pool:
        yield {version: pool.submit(proof, version, python) for version, python in found.items()}


def test_wheels_are_for_any_linux(proofs: dict[str, Future[Proof]]) -> None:
    """auditwheel names it manylinux, for the Python that it was built by."""
    for version, proof in proofs.items():
        python, abi, platforms = proof.result().name.removesuffix(".whl").split("-")[-3:]
        assert {python, abi} == {f"cp{version.replace('.', '')}"}
        assert all(platform.startswith("manylinux") for platform in platforms.split("."))


def test_wheel_is_installed_without_a_compiler(proofs: dict[str, Future[Proof]]) -> None:
    """Neither the wheel nor its dependencies need one, and the installed package is what runs."""
    for proof in proofs.values():
        assert proof.result().compilers == []
        assert proof.result().installed.is_relative_to(proof.result().environment)


def test_installed_wheel_passes_the_tests(proofs: dict[str, Future[Proof]]) -> None:
    """The tests of core, codec and states pass on it, all of them."""
    for proof in proofs.values():
        counted = re.fullmatch(r"(\d+) passed, (\d+) deselected in .*", proof.result().verdict)
        assert counted, proof.result().verdict
        assert int(counted[1]) > 1000

"""Set-up: it uses existing tools, breaks nothing outside its folders, and does nothing twice."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest

from tests.repo.source import ROOT
from tools import setup_venv
from tools.setup_venv import (
    Stamp,
    at_floor,
    choose_folder,
    compiled_module,
    digest,
    inputs,
    installation,
    is_usable,
    modules,
    project,
    registry_at_floors,
    requirements,
)


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A tree of its own, in which environments are made without pip, which takes seconds."""
    monkeypatch.setattr(setup_venv, "ROOT", tmp_path)
    monkeypatch.setattr(setup_venv, "create", venv.create)
    return tmp_path


def test_environment_of_the_tests_is_usable() -> None:
    """The environment that runs this is one that set-up would use."""
    assert is_usable(Path(sys.prefix))


def test_environment_without_pip_is_not_usable(tmp_path: Path) -> None:
    """Nothing could be installed into it."""
    venv.create(tmp_path / "bare")
    assert not is_usable(tmp_path / "bare")


def test_interpreter_outside_an_environment_is_not_usable() -> None:
    """Nothing is ever installed into the machine's own Python."""
    assert not is_usable(Path(sys.base_prefix))


@pytest.mark.parametrize("content", ["", "#!/bin/sh\nexit 1\n", "#!/bin/sh\necho not json\n"])
def test_program_that_is_no_python_is_not_usable(tmp_path: Path, content: str) -> None:
    """Whatever stands at bin/python is asked, not trusted."""
    program = tmp_path / "bin" / "python"
    program.parent.mkdir()
    program.write_text(content)
    program.chmod(0o755)
    assert not is_usable(tmp_path)


def test_foreign_folder_stays_as_it_is(tree: Path) -> None:
    """A `.venv` that cannot be used is left alone, and a folder of our own is made beside it."""
    (tree / ".venv").mkdir()
    (tree / ".venv" / "precious").write_text("mine")
    assert choose_folder() == tree / ".venv-aioproducer"
    assert [path.name for path in (tree / ".venv").iterdir()] == ["precious"]


def test_step_is_done_once_for_the_same_content(tmp_path: Path) -> None:
    """A stamp is current only for what it was written for."""
    stamp = Stamp(tmp_path, "step", digest("a"))
    assert not stamp.is_current()
    stamp.write()
    assert Stamp(tmp_path, "step", digest("a")).is_current()
    assert not Stamp(tmp_path, "step", digest("b")).is_current()


def test_floors_are_exact_versions() -> None:
    """Every dependency has a lowest version, and that is what the floors level installs."""
    floors = requirements("floors")
    for requirement in requirements("run"):
        assert ">=" in requirement
        assert at_floor(requirement) in floors


def test_floors_of_a_registry() -> None:
    """Each package of its extras is tested at its lowest version."""
    packages = registry_at_floors()
    for extra in ("registry", "avro", "jsonschema", "protobuf"):
        assert {*map(at_floor, project()["project"]["optional-dependencies"][extra])} <= {*packages}


def test_every_level_brings_what_it_is_for() -> None:
    """Tools come with dev, what all tests import with it and the floors, what some import with between, and none of it with run.

    The old Spark has an environment of its own.
    """
    levels = {
        "dev": "ruff pytest kio",
        "floors": "pytest kio",
        "between": "pytest pyarrow",
        "whole": "pytest pyarrow kio click",
        "run": "anyio click",
        "spark-3.5": "pytest pyspark==3.5 confluent-kafka",
    }
    for level, names in levels.items():
        assert all(any(each.startswith(name) for each in requirements(level)) for name in names.split())
    assert not any(each.startswith(("pytest", "ruff")) for each in requirements("run"))
    assert not any(each.startswith("ruff") for each in requirements("between"))


def test_compiled_modules_of_this_python_are_where_they_belong() -> None:
    """After set-up each compiled module stands in the tree for the Python that runs this."""
    suffix = sysconfig.get_config_var("EXT_SUFFIX")
    paths = [compiled_module(module, suffix) for module in modules()]
    assert paths
    assert [path.name for path in paths if not path.exists()] == []


def test_a_module_is_compiled_again_for_what_it_is_made_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A change of one file changes the fingerprints of the modules that include it, and of no other."""
    shutil.copytree(ROOT / "aioproducer" / "_core", tmp_path / "aioproducer" / "_core")
    shutil.copy2(ROOT / "pyproject.toml", tmp_path)
    monkeypatch.setattr(setup_venv, "ROOT", tmp_path)
    before = {module["name"]: inputs(module) for module in modules()}
    with (tmp_path / "aioproducer" / "_core" / "accept_column.pxi").open("a") as file:
        file.write("# changed\n")
    after = {module["name"]: inputs(module) for module in modules()}
    assert [name for name in before if before[name] != after[name]] == ["aioproducer._core.accept"]


def test_a_new_version_installs_nothing_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The package is installed again, which compiles all of it, for other dependencies but not for another version."""
    text = (ROOT / "pyproject.toml").read_text()
    monkeypatch.setattr(setup_venv, "ROOT", tmp_path)
    found = []
    for old, new in (("", ""), ('\nversion = "', '\nversion = "9'), ('"anyio>=', '"anyio>=9')):
        (tmp_path / "pyproject.toml").write_text(text.replace(old, new, 1))
        found.append(installation())
    assert found[0] == found[1] != found[2]


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    """The PATH of a machine that has Python and a shell, but no Java, no Maven, and no root user."""
    for name in ("bash", "cat", "cc", "dirname", "env", "gcc", "head", "ls", "sed", "tr"):
        (tmp_path / name).symlink_to(shutil.which(name) or name)
    (tmp_path / "python3").symlink_to(sys.executable)
    program(tmp_path / "id", "echo 1000")
    program(tmp_path / "krb5-config", "")
    return tmp_path


def program(path: Path, script: str) -> None:
    """A small program of a machine."""
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


KDC = ("krb5kdc", "kdb5_util", "kadmin.local", "kinit")


def set_up(machine: Path, level: str) -> subprocess.CompletedProcess[str]:
    """Set up on a machine; the part that makes the environment is left out."""
    script = (ROOT / "tools" / "setup_machine.sh").read_text().replace("tools/setup_venv.py", "--version")
    script = script.replace("-m tools.fetch_python", "-c 'print(\"a Python is fetched\")'")
    (machine / "tools").mkdir(exist_ok=True)
    program(machine / "tools" / "setup_machine.sh", script)
    environment = {"PATH": str(machine), "HOME": str(machine)}
    command = [str(machine / "bash"), str(machine / "tools" / "setup_machine.sh"), level]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def test_what_is_missing_is_named_with_its_package(machine: Path) -> None:
    """Without Java and Maven set-up for the tests ends, and says what to install."""
    result = set_up(machine, "test")
    assert result.returncode == 1
    assert "Java 17 or later: openjdk-17-jdk-headless\nMaven: maven\n" in result.stderr
    assert (
        "sudo apt-get install openjdk-17-jdk-headless maven golang-go valgrind krb5-kdc krb5-admin-server krb5-user"
        in result.stderr
    )
    assert result.stdout == ""


def test_what_is_not_needed_is_not_asked_for(machine: Path) -> None:
    """Running the package needs neither Java nor Maven."""
    result = set_up(machine, "run")
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout.startswith("Python 3.")


def test_missing_compiler_is_named(machine: Path) -> None:
    """Without a C compiler nothing can be built, and set-up says which packages bring one."""
    (machine / "cc").unlink()
    result = set_up(machine, "run")
    assert result.returncode == 1
    assert "a C compiler with its headers: gcc libc6-dev" in result.stderr


@pytest.mark.parametrize("gcc", [None, "echo libasan.so"], ids=["no gcc", "gcc without them"])
def test_missing_sanitizers_are_named(gcc: str | None, machine: Path) -> None:
    """Developers of the library need them, its users do not."""
    (machine / "gcc").unlink()
    if gcc is not None:
        program(machine / "gcc", gcc)
    result = set_up(machine, "dev")
    assert result.returncode == 1
    assert "gcc with its sanitizers" in result.stderr
    assert set_up(machine, "run").returncode == 0


def test_root_on_debian_installs_what_is_missing(machine: Path) -> None:
    """Root on Debian gets no question: apt-get installs the missing packages, and set-up goes on."""
    program(machine / "id", "echo 0")
    arrived = "\n".join(
        [
            f"echo 'echo openjdk version \\\"17.0.1\\\" >&2' >{machine}/java",
            f"echo >{machine}/mvn",
            f"echo 'echo go version go1.26.1 linux/amd64' >{machine}/go",
            f"echo >{machine}/valgrind",
            f"echo >{machine}/postgres",
            *(f"echo >{machine}/{name}" for name in KDC),
            f"/bin/chmod +x {machine}/java {machine}/mvn {machine}/go {machine}/valgrind {machine}/postgres",
            *(f"/bin/chmod +x {machine}/{name}" for name in KDC),
        ]
    )
    program(machine / "apt-get", f'echo "apt-get $*"\nif [ "$1" = install ]; then\n{arrived}\nfi')
    result = set_up(machine, "test")
    assert result.returncode == 0, result.stderr
    assert "apt-get update" in result.stderr
    assert (
        "--no-install-recommends openjdk-17-jdk-headless maven golang-go valgrind krb5-kdc krb5-admin-server krb5-user"
        in result.stderr
    )
    assert result.stdout.startswith("Python 3.")


def test_newest_python_is_fetched_where_it_is_missing(machine: Path) -> None:
    """The tests need it, running the package does not; an earlier download is found."""
    for name in ("java", "mvn", "valgrind", "postgres", *KDC):
        program(machine / name, "echo 'openjdk version \"17.0.1\"' >&2")
    program(machine / "go", "echo go version go1.26.1 linux/amd64")
    minor = re.search(r"^newest=(.*)$", (ROOT / "tools" / "setup_machine.sh").read_text(), re.MULTILINE)
    assert minor is not None
    is_there = minor[1] == "{}.{}".format(*sys.version_info)
    missing, unneeded = set_up(machine, "test"), set_up(machine, "run")
    assert ("a Python is fetched" in missing.stderr) is not is_there
    assert "a Python is fetched" not in unneeded.stderr
    fetched = machine / ".cache" / "aioproducer" / f"python-{minor[1]}.0" / "bin" / f"python{minor[1]}"
    fetched.parent.mkdir(parents=True)
    program(fetched, "exit 0")
    assert "a Python is fetched" not in set_up(machine, "test").stderr
    found = machine / "python3" if is_there else fetched
    assert f"{minor[1]} {found}\n" in set_up(machine, "pythons").stdout


def test_pythons_found_on_this_machine_can_be_started() -> None:
    """Each line names a minor version and an interpreter that is one, this one among them."""
    command = [str(ROOT / "tools" / "setup_machine.sh"), "pythons"]
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    found = dict(line.split(maxsplit=1) for line in output.splitlines())
    assert found
    for version, path in found.items():
        told = subprocess.run([path, "--version"], capture_output=True, text=True, check=True).stdout
        assert told.startswith(f"Python {version}.")

"""Make the project's virtual environment, install into it, compile the core: only the parts that changed.

    python tools/setup_venv.py run                 the package and what it needs
    python tools/setup_venv.py dev                 ... and the development tools
    python tools/setup_venv.py between --dir DIR   ... or only what the tests need that run on every Python, in another folder
    python tools/setup_venv.py whole --dir DIR     ... or what the whole core suite needs, but for the tests of the sink
    python tools/setup_venv.py floors --dir DIR    ... with every run-time dependency at its lowest named version
    python tools/setup_venv.py spark-3.5 --dir DIR what the tests of the sink need with Spark 3.5, but not the package itself

Runs on the standard library alone and prints the path of the environment's Python; pip uses the configuration of this
machine. The package is installed in place (editable), so the tree itself runs.
"""

from __future__ import annotations

import argparse
import fcntl
import hashlib
import json
import os
import re
import subprocess
import sys
import tomllib
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parent.parent
OWN_FOLDER = ".venv-aioproducer"
MINIMUM = (3, 11)
# Further environments of the Python that runs this: they import the tree itself, which is compiled already.
WITHOUT_THE_PACKAGE = {"spark-3.5"}

PROBE = """
import sys, sysconfig, json
print(json.dumps({
    "version": sys.version_info[:2],
    "cpython": sys.implementation.name == "cpython",
    "is_venv": sys.prefix != sys.base_prefix,
    "suffix": sysconfig.get_config_var("EXT_SUFFIX"),
}))
"""


def say(text: str) -> None:
    """Print to stderr; standard output is for the path alone."""
    print(text, file=sys.stderr, flush=True)


def run(*command: str | Path) -> None:
    """Run a set-up step from the root of the tree, with its output on stderr; stop at the first that fails."""
    # Optimized like a wheel, without debug information. Options of the user come last, and win.
    env = os.environ | {"CFLAGS": f"-O3 -g0 {os.environ.get('CFLAGS', '')}"}
    result = subprocess.run(
        [str(part) for part in command], cwd=ROOT, stdout=sys.stderr, check=False, env=env
    )
    if result.returncode:
        say(f"Set-up failed (exit code {result.returncode}): {' '.join(str(part) for part in command)}")
        raise SystemExit(1)


# ------------------------------------------------------------------------------------------ pyproject
def project() -> dict[str, Any]:
    """pyproject.toml, the only place that names dependencies and compiled modules."""
    return tomllib.loads((ROOT / "pyproject.toml").read_text())


def group(name: str, without: str = "") -> list[str]:
    """The requirements of one dependency group, with the groups it includes but for the one that is left out."""
    wanted: list[str] = []
    for entry in project()["dependency-groups"][name]:
        if isinstance(entry, str):
            wanted.append(entry)
        elif entry["include-group"] != without:
            wanted += group(entry["include-group"], without)
    return wanted


def at_floor(requirement: str) -> str:
    """`name>=1.2` as `name==1.2`."""
    return re.sub(r">=", "==", requirement)


def registry_at_floors() -> list[str]:
    """The packages of the extras of a registry at their floors, and what the tests need of the time of that Protobuf."""
    extras = project()["project"]["optional-dependencies"]
    floors = dict.fromkeys(extras["registry"] + extras["avro"] + extras["jsonschema"] + extras["protobuf"])
    return [*map(at_floor, floors), "googleapis-common-protos"]


def requirements(level: str) -> list[str]:
    """The arguments of pip: the build tools (no isolated build in this folder), dependencies, and the level's tools."""
    basis = project()["build-system"]["requires"] + project()["project"]["dependencies"]
    extras = project()["project"]["optional-dependencies"]
    if level != "between":
        basis += extras["cli"]
    if level == "floors":
        basis += dict.fromkeys(extras["pkcs12"] + extras["jwt"] + extras["aws"] + extras["prometheus"])
    groups = {
        "dev": "dev", "between": "between", "whole": "whole", "floors": "test", "spark-3.5": "spark-3.5",
    }  # fmt: skip
    # What speaks HTTP to a registry needs newer versions of our dependencies.
    extra = group(groups[level], "registry" if level == "floors" else "") if level in groups else []
    return [at_floor(each) for each in basis] + extra if level == "floors" else basis + extra


# --------------------------------------------------------------------------------------- environments
def python_of(folder: Path) -> Path:
    """The interpreter of a virtual environment."""
    return folder / "bin" / "python"


def probe(folder: Path) -> dict[str, Any] | None:
    """The kind of Python in the folder; None without one that can be started."""
    try:
        result = subprocess.run(
            [python_of(folder), "-c", PROBE], capture_output=True, text=True, timeout=60, check=True
        )
        facts: dict[str, Any] = json.loads(result.stdout)
    except (OSError, subprocess.SubprocessError, ValueError):
        return None
    return facts


def is_usable(folder: Path) -> bool:
    """Whether the folder has a virtual environment of a supported CPython with pip."""
    facts = probe(folder)
    if facts is None or not (facts["cpython"] and facts["is_venv"] and tuple(facts["version"]) >= MINIMUM):
        return False
    pip = [str(python_of(folder)), "-m", "pip", "--version"]
    return subprocess.run(pip, capture_output=True, check=False).returncode == 0


def create(folder: Path) -> None:
    """A fresh environment of the Python that runs this."""
    say(f"Making {folder.relative_to(ROOT)} with Python {sys.version.split()[0]}.")
    run(sys.executable, "-m", "venv", "--clear", folder)


def choose_folder() -> Path:
    """`.venv`, unless it exists and cannot be used: then a folder beside it."""
    shared = ROOT / ".venv"
    if not shared.exists():
        create(shared)
    if is_usable(shared):
        return shared
    say(f"{shared.name} is not usable (CPython 3.11 or later with pip is needed) and stays as it is.")
    return ensure(ROOT / OWN_FOLDER)


def ensure(folder: Path) -> Path:
    """A folder of this program: made if it does not exist, made again if it is broken or of another Python."""
    facts = probe(folder)
    if facts is None or tuple(facts["version"]) != sys.version_info[:2] or not is_usable(folder):
        create(folder)
    return folder


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Two concurrent runs of `make` take turns."""
    folder.mkdir(exist_ok=True)
    with (folder / ".aioproducer-lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


# --------------------------------------------------------------------------------------------- stamps
def digest(*parts: object) -> str:
    """A short fingerprint of the inputs of a step."""
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:32]


class Stamp:
    """A file in the environment with the inputs of the last run of a step."""

    def __init__(self, folder: Path, step: str, content: str) -> None:
        self.path = folder / f".aioproducer-{step}"
        self.content = content

    def is_current(self) -> bool:
        """True when the inputs of the step are unchanged."""
        return self.path.exists() and self.path.read_text() == self.content

    def write(self) -> None:
        """Store the inputs of the step."""
        self.path.write_text(self.content)


def modules() -> list[dict[str, Any]]:
    """The entries of the compiled modules in pyproject.toml."""
    found: list[dict[str, Any]] = project()["tool"]["setuptools"]["ext-modules"]
    return found


def compiled_module(module: dict[str, Any], suffix: str) -> Path:
    """The path of a compiled module in the tree for one interpreter."""
    name: str = module["name"]
    return ROOT / (name.replace(".", "/") + suffix)


def inputs(module: dict[str, Any]) -> str:
    """A fingerprint of the compiler's inputs for a module, and of its options."""
    contents = [(ROOT / name).read_bytes() for name in [*module["sources"], *module["depends"]]]
    return digest(module, project()["build-system"], contents)


# ---------------------------------------------------------------------------------------------- steps
def pip_install(folder: Path) -> tuple[str | Path, ...]:
    """The command that installs into an environment. Imported modules are compiled on use; most are never imported."""
    return (python_of(folder), "-m", "pip", "install", "-q", "--disable-pip-version-check", "--no-compile")


def install_requirements(folder: Path, level: str) -> None:
    """Install the requirements of the level, once for each list of requirements."""
    wanted = requirements(level)
    stamp = Stamp(folder, f"requirements-{level}", digest(wanted))
    if not stamp.is_current():
        say(f"Installing {len(wanted)} requirements into {folder.relative_to(ROOT)}.")
        run(*pip_install(folder), *wanted)
        stamp.write()


def install_package(folder: Path) -> None:
    """Install the package in place, which compiles it, once for each way of installing it; then compile changed modules."""
    facts = probe(folder) or {}
    built = {
        module["name"]: Stamp(folder, f"built-{module['name'].rpartition('.')[2]}", inputs(module))
        for module in modules()
    }
    outputs = {module["name"]: compiled_module(module, facts["suffix"]) for module in modules()}
    installed = Stamp(folder, "package", digest(installation()))
    if not installed.is_current():
        say(f"Compiling for Python {'.'.join(map(str, facts['version']))}.")
        run(*pip_install(folder), "--no-build-isolation", "--no-deps", "-e", ".")
        installed.write()
        changed = []
    else:
        changed = [
            name for name, stamp in built.items() if not (stamp.is_current() and outputs[name].exists())
        ]
    compile_modules(folder, changed)
    for stamp in built.values():
        stamp.write()


def installation() -> dict[str, Any]:
    """The inputs of an installation in place. A version, a description or a module of the core changes none of them."""
    described = project()
    keys = ("name", "dependencies", "optional-dependencies", "scripts", "entry-points")
    setuptools = {
        key: value for key, value in described["tool"]["setuptools"].items() if key != "ext-modules"
    }
    return {key: described["project"][key] for key in keys} | {"setuptools": setuptools}


def compile_modules(folder: Path, names: list[str]) -> None:
    """Compile modules side by side, each in a process of its own: Cython takes as long as the C compiler."""
    if not names:
        return
    say(f"Compiling {', '.join(names)}.")
    script = ROOT / "tools" / "compile_module.py"
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        commands = [pool.submit(run, python_of(folder), "-W", "ignore", script, name) for name in names]
    for command in commands:
        command.result()


def main() -> None:
    """Run the necessary steps and print the environment's Python."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("level", choices=["run", "dev", "test", "between", "whole", "floors", "spark-3.5"])
    parser.add_argument("--dir", type=Path, help="the environment's folder (made or made again as needed)")
    arguments = parser.parse_args()
    level = "dev" if arguments.level == "test" else arguments.level
    folder = ensure(ROOT / arguments.dir) if arguments.dir else choose_folder()
    with locked(folder):
        install_requirements(folder, level)
        if level not in WITHOUT_THE_PACKAGE:
            # Compiled modules are in the tree, which other environments use as well.
            with locked(ROOT / "build"):
                install_package(folder)
    print(python_of(folder))


if __name__ == "__main__":
    main()

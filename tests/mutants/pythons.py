"""The Pythons on which mutants run: this one, and a newer one for a defect that only it has."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
import sysconfig
from collections.abc import Iterable
from typing import Final

import attrs

from tests.mutants.mutant import ROOT, Mutant
from tools.checks import environment_elsewhere, other_pythons, this_python

_PROBE: Final = """
import json, sysconfig
print(json.dumps([sysconfig.get_config_var("EXT_SUFFIX"), sysconfig.get_paths()["include"]]))
"""


@attrs.frozen
class Python:
    """An interpreter with the tests' requirements, and the settings that compile a module for it."""

    version: str
    command: str
    suffix: str
    headers: str

    @property
    def compiler(self) -> tuple[str, ...]:
        """Half of the optimization takes a third of the time, and the compiled module serves one run."""
        compiler = shlex.split(sysconfig.get_config_var("CC") or "cc")
        return (*compiler, "-O1", "-shared", "-fPIC", "-fwrapv", "-w", f"-I{self.headers}")


THIS: Final = Python(
    this_python(),
    sys.executable,
    str(sysconfig.get_config_var("EXT_SUFFIX")),
    sysconfig.get_paths()["include"],
)


def pythons_for(mutants: Iterable[Mutant]) -> dict[str | None, Python | None]:
    """For each `since` of these mutants: this Python if it is new enough, else a newer one; None without one."""
    wanted = {mutant.since for mutant in mutants}
    return {since: THIS if _is_new_enough(since) else _elsewhere(since) for since in wanted}


def _is_new_enough(since: str | None) -> bool:
    return since is None or _number(THIS.version) >= _number(since)


def _number(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))


def _elsewhere(since: str | None) -> Python | None:
    """The Python of the environment that `make test` uses, which is made if it is missing."""
    if since is None:
        return THIS
    interpreter = dict(other_pythons()).get(since)
    if interpreter is None:
        return None
    command = _said(*environment_elsewhere(since, interpreter).command).strip()
    suffix, headers = json.loads(_said(command, "-c", _PROBE))
    return Python(since, command, suffix, headers)


def _said(*command: str) -> str:
    return subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True).stdout

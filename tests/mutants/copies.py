"""Copies of the tree, in which one defect at a time is planted; the tree itself is never changed."""

from __future__ import annotations

import contextlib
import importlib.util
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import attrs

from tests.mutants.mutant import CORE, ROOT, Mutant
from tests.mutants.pythons import THIS, Python
from tools.checks import copy_of_the_tree

COPIES: Final = ROOT / "build" / "mutants"


class NotBuiltError(Exception):
    """A mutant does not compile: the table is wrong."""


@attrs.frozen
class Copy:
    """One copy of the tree, used by one thread at a time."""

    root: Path
    python: Python = THIS

    @classmethod
    def numbered(cls, number: int, python: Python = THIS) -> Copy:
        """A copy of the tracked and the new files, with the modules that are compiled in place for this Python."""
        root = COPIES / f"{python.version}-{number}"
        shutil.rmtree(root, ignore_errors=True)
        copy_of_the_tree(root)
        for built in (ROOT / CORE).glob(f"*{python.suffix}"):
            shutil.copy2(built, root / CORE / built.name)
        return cls(root, python)

    @contextlib.contextmanager
    def planted(self, mutant: Mutant) -> Iterator[None]:
        """The copy has this defect until the end of the context."""
        changed = [mutant.path]
        if mutant.module is not None:
            changed.append(self._library(mutant.module))
        sound = {path: (self.root / path).read_bytes() for path in changed}
        self._put(mutant.path, mutant.rewritten(sound[mutant.path].decode()).encode())
        try:
            if mutant.module is not None:
                self._build(mutant.module)
            yield
        finally:
            for path, content in sound.items():
                self._put(path, content)

    def _put(self, path: Path, content: bytes) -> None:
        place = self.root / path
        # A new file replaces the old one: a process that still runs may have the old one mapped.
        fresh = place.with_suffix(".fresh")
        fresh.write_bytes(content)
        fresh.replace(place)
        if path.suffix == ".py":
            # The cached bytecode may be of the same second and of a source of the same size.
            Path(importlib.util.cache_from_source(place)).unlink(missing_ok=True)

    def _build(self, module: str) -> None:
        source, made = f"{CORE}/{module}.pyx", f"{CORE}/{module}.c"
        library = f"{CORE}/{module}.built"
        self._run(sys.executable, "-m", "cython", "-3", source, "-I", ".", "-o", made)
        self._run(*self.python.compiler, f"-I{CORE}", made, "-o", library)
        (self.root / library).replace(self.root / self._library(module))

    def _library(self, module: str) -> Path:
        return CORE / f"{module}{self.python.suffix}"

    def _run(self, *command: str) -> None:
        done = subprocess.run(command, cwd=self.root, capture_output=True, text=True, check=False)
        if done.returncode:
            raise NotBuiltError(f"{shlex.join(command)}\n{done.stdout}{done.stderr}")

"""A mutant: the library with one defective line, as in clients that lost, doubled or hung records."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

import attrs

ROOT: Final = Path(__file__).resolve().parents[2]
CORE: Final = Path("aioproducer/_core")


@attrs.frozen
class Mutant:
    """One planted defect, and the tests that run first to notice it."""

    name: str
    kind: str
    """The part of the promise that it breaks: the heading of its list in the table."""
    file: str
    """From `aioproducer/` on; what stands beside that begins with `../`."""
    line: str
    instead: str
    bug: str
    """The defect that it stands for: one sentence, with the client or report that had it where one is known."""
    by: tuple[str, ...]
    """Arguments of pytest, the quickest first."""
    since: str | None = None
    """The first Python on which it is a defect: 3.14. None: on every one that is supported."""

    @property
    def path(self) -> Path:
        """The file, from the root of a tree."""
        return Path(os.path.normpath(Path("aioproducer", self.file)))

    @property
    def module(self) -> str | None:
        """The compiled module that has to be built again, if there is one."""
        is_compiled = self.path.suffix in (".pyx", ".pxi", ".h")
        return self.path.stem.partition("_")[0] if is_compiled else None

    def rewritten(self, sound: str) -> str:
        """The text of the file with the defect in it."""
        found = sound.count(self.line)
        if found != 1:
            raise LookupError(f"{self.name}: its line is {found} times in {self.path}: {self.line!r}")
        return sound.replace(self.line, self.instead)


@attrs.frozen
class Kind:
    """Makes the mutants that break one part of the promise: what each file of the table is a list of."""

    name: str

    def __call__(
        self, name: str, file: str, line: str, instead: str, bug: str, *by: str, since: str | None = None
    ) -> Mutant:
        """A mutant of this kind; the fields of a `Mutant`, in its order."""
        return Mutant(name, self.name, file, line, instead, bug, by, since)

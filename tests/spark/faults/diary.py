"""The diary of a run: a line of each process for each event, in one file that outlives them."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import NamedTuple

__all__ = ["Diary", "Entry"]


class Entry(NamedTuple):
    """An event of one attempt of one task; the driver's own have partition and attempt -1."""

    what: str
    query: str
    epoch: int
    partition: int = -1
    attempt: int = -1
    detail: str = ""
    # Seconds, by the clock of the machine.
    at: float = 0.0


class Diary:
    """A file that many processes append to, and one reads while they do."""

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)
        self._read = 0
        self._entries: list[Entry] = []

    def tell(self, entry: Entry) -> None:
        """Write an event: past every buffer of this process, and in one piece."""
        line = json.dumps(entry._replace(at=round(time.time(), 3))).encode() + b"\n"
        file = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            os.write(file, line)
        finally:
            os.close(file)

    def entries(self) -> list[Entry]:
        """All events so far."""
        if self.path.exists():
            with self.path.open("rb") as file:
                file.seek(self._read)
                added = file.read()
            self._read += len(added)
            self._entries += [Entry(*json.loads(line)) for line in added.splitlines()]
        return self._entries

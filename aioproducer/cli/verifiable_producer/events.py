"""The lines on stdout: one JSON object for each event of the run."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from typing import Any

from aioproducer.cli.terminal.screen import write_nowhere

_encoded = json.JSONEncoder(separators=(",", ":")).encode


class Events:
    """Writes each event as a line, at once. `failed` is called when a line cannot be written, and no later one is."""

    def __init__(self, failed: Callable[[], object] = lambda: None) -> None:
        self._out = sys.stdout
        self._failed = failed
        self.failure: OSError | None = None

    def tell(self, name: str, **facts: Any) -> None:
        """Write one event. A reader that has gone changes nothing else, as with Kafka's own tool."""
        event = {"timestamp": time.time_ns() // 1_000_000, "name": name} | facts
        try:
            print(_encoded(event), file=self._out, flush=True)
        except BrokenPipeError:
            write_nowhere(self._out)
        except OSError as error:
            write_nowhere(self._out)
            self.failure = error
            self._failed()

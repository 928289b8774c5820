"""The lines of a verifiable producer, read as Kafka's system tests do."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import attrs

SUCCESS, ERROR = "producer_send_success", "producer_send_error"


@attrs.frozen
class Told:
    """All events of a run, in the order of their lines."""

    events: list[dict[str, Any]]

    @classmethod
    def read(cls, out: str) -> Told:
        """Each line is a JSON object with a time and a name."""
        events = [json.loads(line) for line in out.splitlines()]
        for event in events:
            assert list(event)[:2] == ["timestamp", "name"]
            assert type(event["timestamp"]) is int
        return cls(events)

    @property
    def sends(self) -> list[dict[str, Any]]:
        """The outcomes of records."""
        return [event for event in self.events if event["name"] in (SUCCESS, ERROR)]

    @property
    def acked(self) -> list[dict[str, Any]]:
        """The records that are in the log."""
        return [event for event in self.events if event["name"] == SUCCESS]

    @property
    def failed(self) -> list[dict[str, Any]]:
        """The records that failed."""
        return [event for event in self.events if event["name"] == ERROR]

    @property
    def data(self) -> dict[str, Any]:
        """The figures at the end."""
        return self.events[-1]

    def check(self) -> None:
        """The order of the events, one outcome for each value, and figures that agree."""
        names = [event["name"] for event in self.events]
        assert names[0] == "startup_complete"
        assert names[-2:] == ["shutdown_complete", "tool_data"]
        assert set(names[1:-2]) <= {SUCCESS, ERROR}
        values = Counter(event["value"] for event in self.sends)
        assert set(values.values()) <= {1}
        numbers = sorted(int(value.rpartition(".")[2]) for value in values)
        assert numbers == list(range(len(numbers)))
        assert (self.data["sent"], self.data["acked"]) == (len(self.sends), len(self.acked))

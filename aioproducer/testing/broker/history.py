"""The requests that the brokers received, for tests."""

from __future__ import annotations

import attrs


@attrs.frozen
class SeenBatch:
    """A produced batch, accepted or refused."""

    topic: str
    partition: int
    size: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    count: int
    crc: int
    transactional: bool = False


@attrs.define
class SeenRequest:
    """One request in the history."""

    broker: int
    api: str
    version: int
    client_id: str | None
    correlation_id: int
    topics: tuple[tuple[str, int | None], ...] = ()
    batches: list[SeenBatch] = attrs.field(factory=list)
    refusals: list[str] = attrs.field(factory=list)
    """The reasons of refusals by the rules, not by a fault."""
    transactional_id: str | None = None
    commits: bool | None = None
    """Of EndTxn: was it a commit or an abort?"""

    @property
    def summary(self) -> str:
        """One line of text."""
        about = ", ".join(topic if index is None else f"{topic}-{index}" for topic, index in self.topics)
        batches = ", ".join(
            f"pid {b.producer_id} epoch {b.producer_epoch} sequence {b.base_sequence}+{b.count} ({b.size} bytes)"
            for b in self.batches
        )
        end = {None: "", True: "commit", False: "abort"}[self.commits]
        said = (f"{self.api} v{self.version}", self.transactional_id, end, about, batches)
        return " ".join(part for part in said if part)

"""The first method: one pass over the offsets of each split, with a few numbers for each source, combined on the driver."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, Self

import attrs
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from aioproducer.spark.auditing.marks import NO_SOURCE, marks_of
from aioproducer.spark.auditing.murmur import partitions_of
from aioproducer.spark.auditing.seen import SHOWN, Seen

__all__ = ["SCHEMA", "Piece", "look"]

# Each row has one of the two.
SCHEMA: Final = "value binary, piece string"


@attrs.define
class Piece:
    """The contents of one split."""

    topic: str
    partition: int
    split: int
    first_offset: int
    records: int = 0
    bytes: int = 0
    first_ms: int = 0
    last_ms: int = 0
    # Count and offsets of each kind: no marks, a wrong checksum, a key that belongs to another partition.
    unmarked: list[int] = attrs.Factory(list)
    unmarked_count: int = 0
    altered: list[int] = attrs.Factory(list)
    altered_count: int = 0
    misplaced: list[int] = attrs.Factory(list)
    misplaced_count: int = 0
    sources: dict[str, Seen] = attrs.Factory(dict)

    def add(self, batch: pa.RecordBatch, partitions: int | None) -> None:
        """Add the next records of the split; `partitions`: those of the topic, or None if keys do not determine them."""
        offsets = np.asarray(batch.column("offset"))
        times = np.asarray(batch.column("timestamp"))
        self.first_ms = int(times.min()) if not self.records else min(self.first_ms, int(times.min()))
        self.last_ms = max(self.last_ms, int(times.max()))
        self.records += len(batch)
        values, keys = batch.column("value"), batch.column("key")
        self.bytes += sum(pc.sum(pc.binary_length(column)).as_py() or 0 for column in (values, keys))
        marks = marks_of(values)
        has_marks = np.asarray(pc.not_equal(marks.sources, NO_SOURCE))
        self._note("unmarked", offsets[~has_marks])
        self._note("altered", offsets[has_marks & ~marks.intact])
        if partitions is not None:
            keyed = np.flatnonzero(np.asarray(keys.is_valid()))
            there = partitions_of(keys.take(pa.array(keyed)), partitions)
            self._note("misplaced", offsets[keyed[there != self.partition]])
        self._add_sources(marks.sources, marks.sequences, offsets)

    def _add_sources(self, sources: pa.Array, sequences: Any, offsets: Any) -> None:
        encoded = sources.dictionary_encode()
        codes = np.asarray(encoded.indices)
        for code, source in enumerate(encoded.dictionary.to_pylist()):
            rows = np.flatnonzero(codes == code)
            if source != NO_SOURCE:
                seen = self.sources.setdefault(source, Seen())
                seen.follow(Seen.of(sequences[rows], offsets[rows]), int(offsets[rows[0]]))

    def _note(self, what: str, offsets: Any) -> None:
        setattr(self, f"{what}_count", getattr(self, f"{what}_count") + len(offsets))
        setattr(self, what, (getattr(self, what) + offsets[:SHOWN].tolist())[:SHOWN])

    def as_text(self) -> str:
        """As text for the driver."""
        return json.dumps(attrs.asdict(self))

    @classmethod
    def of_text(cls, text: str) -> Self:
        """The reverse of `as_text`."""
        facts = json.loads(text)
        sources = {name: Seen(**seen) for name, seen in facts.pop("sources").items()}
        return cls(**facts, sources=sources)


def look(partitions: Mapping[str, int | None], batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The values of these records as they come, and the piece of each split after its last record."""
    piece: Piece | None = None
    for batch in batches:
        split = batch.column("split")[0].as_py()
        if piece is None or piece.split != split:
            if piece is not None:
                yield _row(piece)
            topic, partition = batch.column("topic")[0].as_py(), batch.column("partition")[0].as_py()
            piece = Piece(topic, partition, split, batch.column("offset")[0].as_py())
        piece.add(batch, partitions[piece.topic])
        yield pa.RecordBatch.from_arrays(
            [batch.column("value"), pa.nulls(len(batch), pa.string())], names=["value", "piece"]
        )
    if piece is not None:
        yield _row(piece)


def _row(piece: Piece) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(
        [pa.nulls(1, pa.binary()), pa.array([piece.as_text()], pa.string())], names=["value", "piece"]
    )


def put_together(found: Iterable[Piece]) -> dict[str, Seen]:
    """The findings of each source, over all splits and partitions."""
    in_order = sorted(found, key=lambda piece: (piece.topic, piece.partition, piece.first_offset))
    lines: dict[tuple[str, int, str], Seen] = defaultdict(Seen)
    for piece in in_order:
        for source, seen in piece.sources.items():
            lines[piece.topic, piece.partition, source].follow(seen, piece.first_offset)
    together: dict[str, Seen] = defaultdict(Seen)
    for (_, _, source), seen in lines.items():
        together[source].beside(seen)
    return dict(together)

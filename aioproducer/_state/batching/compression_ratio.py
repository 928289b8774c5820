"""How much smaller compression makes the records of a topic: a guess that says when an open batch is full."""

from __future__ import annotations

NO_CODEC = 0
# Every codec starts at 1.0 in Java's CompressionType too: nothing is believed before it was seen.
INITIAL_RATIO = 1.0
# Java's CompressionRatioEstimator: quick to believe the worse, slow to believe the better.
WORSE_STEP = 0.05
BETTER_STEP = 0.005
# Java's COMPRESSION_RATE_ESTIMATION_FACTOR: a batch above the limit costs a split, one below it costs little.
SAFETY = 1.05
# Java compresses while it appends; here an open batch is plain until it is sealed. Without a floor a topic of zeros
# would grow batches as large as the whole buffer.
LOWEST_RATIO = 0.05


class CompressionRatios:
    """The estimated ratio (compressed / plain) per topic and codec."""

    __slots__ = ("_ratios",)

    def __init__(self) -> None:
        self._ratios: dict[tuple[str, int], float] = {}

    def of(self, topic: str, codec: int) -> float:
        """The expected ratio of the next batch."""
        return self._ratios.get((topic, codec), INITIAL_RATIO)

    def observe(self, topic: str, codec: int, ratio: float) -> None:
        """A batch shrank to `ratio` of its plain size."""
        if codec == NO_CODEC:
            return
        believed = self.of(topic, codec)
        if ratio > believed:
            self._ratios[topic, codec] = max(believed + WORSE_STEP, ratio)
        elif ratio < believed:
            self._ratios[topic, codec] = max(believed - BETTER_STEP, ratio)

    def split(self, topic: str, codec: int) -> None:
        """A batch was too large for the broker: believe in no gain until batches show one (RA:619)."""
        if codec != NO_CODEC:
            self._ratios[topic, codec] = INITIAL_RATIO

    def forget(self, topic: str) -> None:
        """The topic is not used any more."""
        for key in [key for key in self._ratios if key[0] == topic]:
            del self._ratios[key]

    def plain_limit(self, topic: str, codec: int, batch_size: int, overhead: int) -> int:
        """How many plain bytes a batch may have, header included, so that it is about `batch_size` when compressed."""
        if codec == NO_CODEC:
            return batch_size
        ratio = max(self.of(topic, codec), LOWEST_RATIO)
        return overhead + int(max(batch_size - overhead, 0) / (ratio * SAFETY))

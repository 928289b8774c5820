"""A client's process: its arguments, its report of a round, and its clocks."""

from __future__ import annotations

import json
import random
import sys
import time
from array import array
from collections import defaultdict
from collections.abc import Iterator
from functools import partial
from itertools import cycle, islice, repeat
from types import TracebackType
from typing import Any, Final, Self

import attrs

BATCH_SIZE: Final = 131072
LINGER_MS: Final = 5
MARK: Final = "RESULT "
SEED: Final = 20260101
POOL: Final = 1024

# The offsets by partition.
Offsets = defaultdict[int, "array[int]"]


@attrs.frozen(kw_only=True)
class Work:
    """The work of one process; each program reads its own part."""

    bootstrap_servers: str
    topic: str
    # The topics are this one, or so many whose names begin with it.
    topics: int = 1
    # The file of the certificate to trust, for a listener with SASL over TLS; empty for plaintext.
    authority: str = ""
    records: int
    warm_up: int = 0
    value_size: int = 100
    key_size: int = 0
    # Values like real ones, which compress; otherwise all values are equal, and cost nothing to make.
    texts: bool = False
    # The number of tasks, producers, or records of one call, depending on the program.
    many: int = 1
    # Records a second, for programs that send at a pace.
    rate: int = 0
    # Records of one transaction, and how long they wait for others.
    per_transaction: int = 1
    linger_ms: int = LINGER_MS
    # Scrapes for Prometheus from another thread, a second.
    scrapes: int = 0
    partition: int | None = None
    uvloop: bool = False
    # Settings of the client besides the common ones.
    settings: dict[str, Any] = attrs.field(factory=dict)

    @property
    def topic_names(self) -> list[str]:
        """The topics of this work."""
        if self.topics == 1:
            return [self.topic]
        return [f"{self.topic}-{number}" for number in range(self.topics)]

    def values(self, count: int) -> Iterator[bytes]:
        """The values of so many records."""
        if not self.texts:
            return repeat(bytes(index % 251 for index in range(self.value_size)), count)
        return islice(cycle(_texts(self.value_size)), count)

    def keys(self, count: int) -> Iterator[bytes]:
        """The keys of so many records, from a pool of different ones."""
        return islice(cycle([b"%0*d" % (self.key_size, number) for number in range(POOL)]), count)


def _texts(size: int) -> list[bytes]:
    rng = random.Random(SEED)
    words = [b"%x" % rng.getrandbits(rng.randrange(8, 40)) for _ in range(500)]
    return [b" ".join(rng.choices(words, k=size // 3))[:size] for _ in range(POOL)]


@attrs.frozen
class Round:
    """The result of one process: all of `records` were acknowledged and checked."""

    records: int
    seconds: float
    cpu_seconds: float
    version: str
    # Further measured figures, by name.
    figures: dict[str, float] = attrs.field(factory=dict)

    @property
    def rate(self) -> float:
        """Records a second."""
        return self.records / self.seconds

    @property
    def cpu_micros(self) -> float:
        """Microseconds of processor time, of all threads of the process, for one record."""
        return self.cpu_seconds / self.records * 1e6

    def tell(self) -> None:
        """Print this for the process that started this one."""
        print(MARK + json.dumps(attrs.asdict(self)), flush=True)


@attrs.define
class Stopwatch:
    """`with Stopwatch() as watch: ...` measures wall and processor time of this process."""

    seconds: float = 0.0
    cpu_seconds: float = 0.0
    # Of the measuring thread: in an asyncio program, that of the event loop.
    thread_seconds: float = 0.0

    def __enter__(self) -> Self:
        self.cpu_seconds, self.thread_seconds = _cpu(), time.thread_time()
        self.seconds = time.perf_counter()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.seconds = time.perf_counter() - self.seconds
        self.cpu_seconds = _cpu() - self.cpu_seconds
        self.thread_seconds = time.thread_time() - self.thread_seconds

    def round(self, records: int, version: str, **figures: float) -> Round:
        """The round that this watch measured."""
        return Round(records, self.seconds, self.cpu_seconds, version, figures)


@attrs.define
class Transacted:
    """The transactions that one process has committed."""

    offsets: list[Offsets] = attrs.field(factory=list)
    # The duration of each commit, including the way of its records to the broker.
    commits: list[float] = attrs.field(factory=list)

    def committed(self, offsets: Offsets, seconds: float) -> None:
        """Add a transaction: the places of its records, and the duration of its commit."""
        self.offsets.append(offsets)
        self.commits.append(seconds)

    def check(self, expected: int) -> None:
        """No gap and no repeat; in each partition the marker of a transaction follows its last record."""
        together = no_offsets()
        for offsets in self.offsets:
            for partition, numbers in offsets.items():
                together[partition].extend(numbers)
                together[partition].append(max(numbers) + 1)
        check_offsets(together, expected + sum(map(len, self.offsets)))

    def figures(self, seconds: float) -> dict[str, float]:
        """The figures of the transactions."""
        return {"transactions": len(self.commits) / seconds, **percentiles(self.commits)}


def work() -> Work:
    """The work in the command line of this process."""
    return Work(**json.loads(sys.argv[1]))


def no_offsets() -> Offsets:
    """An empty table of offsets by partition: lists of integers would need more memory than a client's deliveries."""
    return defaultdict(partial(array, "q"))


def check_offsets(offsets: Offsets, expected: int) -> None:
    """Every record has an offset of its own: no gap and no repeat in any partition."""
    total = sum(len(numbers) for numbers in offsets.values())
    if total != expected:
        raise SystemExit(f"{expected} records were sent and {total} acknowledged")
    for partition, numbers in offsets.items():
        if sorted(numbers) != list(range(min(numbers), min(numbers) + len(numbers))):
            raise SystemExit(f"the offsets of partition {partition} have gaps or repeats")


def percentiles(seconds: list[float]) -> dict[str, float]:
    """The median and the 99th percentile, in milliseconds."""
    ordered = sorted(seconds)
    return {f"p{part}_ms": ordered[len(ordered) * part // 100] * 1000 for part in (50, 99)}


def _cpu() -> float:
    # User and system time of all threads.
    return time.process_time()

from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar, final

from typing_extensions import disjoint_base

from aioproducer._core.accept import Budget, MemoryShare, Partition, Topic
from aioproducer._core.distribution import Distribution
from aioproducer._core.records import Batch, BatchSettings

_T = TypeVar("_T")
_BatchT = TypeVar("_BatchT", bound=BatchState)

@disjoint_base
class BatchState(Batch):
    order: tuple[int, ...]
    linger_at: float
    gap: Any
    urgent: bool
    watched_until: float
    alarms: int
    sealing: bool
    sealed: bool
    plain_size: int
    attempts: int
    dirty: bool
    in_flight: bool
    judged: bool
    retry_at: float
    retry_leader: int
    last_error: Any
    identity: tuple[int, int] | None
    sequence: int
    anchor: Any
    nth: int
    sent_to: bytes
    flushes: list[Any]
    def begin(self, order: tuple[int, ...], linger_at: float, gap: Any) -> None: ...

@disjoint_base
class NodeState:
    waiting_since: float
    wakeup: Any
    trouble: Any
    @property
    def node_id(self) -> int: ...
    @property
    def share(self) -> MemoryShare: ...
    @property
    def ready(self) -> deque[Any]: ...
    def __init__(self, node_id: int, share: MemoryShare) -> None: ...

@disjoint_base
class PartitionState(Partition):
    node: Any
    in_flight: int
    is_ready: bool
    has_alarm: bool
    identity: tuple[int, int] | None
    next_sequence: int
    numbered: int
    numbered_before: int
    confirmed_at: float
    broken: bool
    end_offset: int
    anchor: Any
    newest_acked: tuple[int, ...]
    ahead: Any
    gap: Any
    lost_at: float
    @property
    def accumulator(self) -> Any: ...
    @property
    def queue(self) -> deque[Any]: ...
    @property
    def sent(self) -> list[Any]: ...
    def __init__(
        self, topic: Topic, index: int, node: NodeState, share: MemoryShare, accumulator: OrdinaryAccumulator
    ) -> None: ...

@disjoint_base
class EventEffects:
    perform: Callable[[], Any]
    under_way: bool
    has_room: bool
    room_of: MemoryShare | None
    nodes: dict[Any, None]
    wake_at: float
    closed: deque[Any]
    opened: deque[Any]
    losses: deque[Any]
    in_doubt: bool
    flushed: deque[Any]
    flush_without_memory: bool
    stale: dict[str, None]
    wanted: dict[str, None]
    refused_ids: deque[tuple[str, bytes]]
    identity_exhausted: bool
    call_ended_last: bool
    reports: deque[Any]
    reports_outcomes: bool
    @property
    def may_end_records(self) -> bool: ...
    @property
    def is_rare(self) -> bool: ...
    @property
    def is_empty(self) -> bool: ...
    def wake_by(self, due: float) -> None: ...
    def room(self, share: MemoryShare | None = None) -> None: ...

@disjoint_base
class FlushState:
    waiting: int
    acked: int

@final
class Covered:
    until: int
    left: int
    @property
    def flush(self) -> Any: ...
    @property
    def first(self) -> int: ...
    def __init__(self, flush: FlushState, first: int, until: int, left: int) -> None: ...

@final
class TopicCounts:
    acked: int
    acked_bytes: int
    failed: int
    retried: int
    batches: int

@disjoint_base
class OrdinaryTally:
    acked: int
    acked_bytes: int
    batches: int
    requests: int
    last_ack: Any
    @property
    def topics(self) -> Any: ...
    @property
    def queue_time(self) -> Any: ...
    @property
    def request_time(self) -> Any: ...
    @property
    def delivery_time(self) -> Any: ...
    @property
    def batch_records(self) -> Any: ...
    @property
    def batch_size(self) -> Any: ...
    def __init__(
        self,
        topics: Any,
        queue_time: Distribution,
        request_time: Distribution,
        delivery_time: Distribution,
        batch_records: Distribution,
        batch_size: Distribution,
    ) -> None: ...
    def sent(self, batches: list[Any]) -> None: ...
    def acknowledged(self, batch: BatchState, count: int, size: int, now: float) -> None: ...

@disjoint_base
class OrdinarySequences:
    _identity: tuple[int, int] | None
    checksum: Callable[[memoryview], int]
    def __init__(self, checksum: Callable[[memoryview], int]) -> None: ...
    def _number_next(self, queue: PartitionState, batch: BatchState) -> None: ...
    def _number(self, queue: PartitionState, batch: BatchState) -> None: ...
    def _forget(self, queue: PartitionState, batch: BatchState) -> bool: ...
    def acknowledged(self, queue: PartitionState, batch: BatchState, now: float) -> None: ...

@disjoint_base
class OrdinaryDeadlines:
    @property
    def effects(self) -> Any: ...
    @property
    def live(self) -> Any: ...
    @property
    def replacements(self) -> Any: ...
    @property
    def aging(self) -> OrderedDict[Any, None]: ...
    @property
    def heap(self) -> Any: ...
    @property
    def lingers(self) -> deque[Any]: ...
    def __init__(self, effects: EventEffects, live: dict[Any, None], heap: Any) -> None: ...

@disjoint_base
class OrdinaryMaker:
    opened: int
    batch_type: Callable[..., Any]
    @property
    def limits(self) -> Any: ...
    @property
    def ratios(self) -> Any: ...
    @property
    def _settings(self) -> BatchSettings: ...
    def __init__(
        self, batch_type: Callable[..., Any], limits: Any, ratios: Any, settings: BatchSettings
    ) -> None: ...

@disjoint_base
class OrdinaryAccumulator:
    never_lingers: bool
    records_in_flight: int
    bytes_in_flight: int
    deadlines: Any
    maker: Any
    @property
    def effects(self) -> Any: ...
    @property
    def sequences(self) -> Any: ...
    @property
    def live(self) -> Any: ...
    @property
    def lingering(self) -> Any: ...
    def __init__(
        self, limits: Any, sequences: OrdinarySequences, effects: EventEffects, pulse: float
    ) -> None: ...
    def roll(self, queue: PartitionState, now: float, awaited: bool = False) -> None: ...
    def unroll(self, queue: PartitionState) -> None: ...
    def close(self, batch: BatchState) -> None: ...
    def update_readiness(self, queue: PartitionState, now: float) -> None: ...
    def is_sendable(self, queue: PartitionState, now: float) -> bool: ...
    def on_timer(self, queue: PartitionState, now: float) -> bool: ...
    def end_lingers(self, now: float) -> bool: ...
    def cut_lingers(self, now: float) -> None: ...
    def _look_at_all(self, now: float) -> None: ...
    def _end_all_lingers(self) -> None: ...
    def detach(self, queue: PartitionState, batch: BatchState) -> None: ...
    def retire(self, batch: BatchState) -> None: ...

@disjoint_base
class OrdinaryDrainer:
    max_request_size: int
    @property
    def accumulator(self) -> Any: ...
    @property
    def effects(self) -> Any: ...
    @property
    def sequences(self) -> Any: ...
    @property
    def is_draining(self) -> bool: ...
    def __init__(self, accumulator: OrdinaryAccumulator, budget: Budget, max_request_size: int) -> None: ...
    def drain(self, node: NodeState, now: float) -> list[Any]: ...

@disjoint_base
class OrdinaryOutcomes:
    @property
    def accumulator(self) -> Any: ...
    @property
    def effects(self) -> Any: ...
    @property
    def sequences(self) -> Any: ...
    @property
    def tally(self) -> Any: ...
    @property
    def transaction(self) -> Any: ...
    def __init__(
        self,
        accumulator: OrdinaryAccumulator,
        tally: OrdinaryTally,
        transaction: Any,
        anchor: type,
        slow: float,
    ) -> None: ...
    def acknowledge(self, batch: BatchState, base_offset: int, log_append_time: int, now: float) -> None: ...
    def _end(self, batch: BatchState) -> None: ...

@disjoint_base
class OrdinarySettlement:
    @property
    def outcomes(self) -> Any: ...
    @property
    def accumulator(self) -> Any: ...
    def __init__(self, outcomes: OrdinaryOutcomes) -> None: ...
    def settle_topics(
        self,
        topics: Sequence[Any],
        names: dict[bytes, str],
        topic_at: int,
        at: int,
        waiting: dict[tuple[str, int], Any],
        now: float,
    ) -> tuple[int, int]: ...
    def written(self, batch: BatchState, base_offset: int, log_append_time: int, now: float) -> None: ...
    def _landed(self, queue: PartitionState, batch: BatchState, now: float) -> None: ...

def by_topic(batches: list[Any], now: float, named: type[_T]) -> list[_T]: ...
def names_by_id(topics: Sequence[tuple[str, bytes, Any]]) -> dict[bytes, str] | None: ...
def await_answer(batches: list[_BatchT], by_id: bool) -> dict[tuple[str, int], _BatchT]: ...
def cover(flush: FlushState, batches: Iterable[BatchState]) -> None: ...
def batch_written(batch: BatchState) -> list[Any]: ...

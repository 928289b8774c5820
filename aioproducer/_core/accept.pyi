import asyncio
from collections.abc import Callable
from typing import Any, Final, Generic, NoReturn, final

from typing_extensions import TypeVar as DefaultTypeVar
from typing_extensions import disjoint_base

from aioproducer._core.delivery import BatchDelivery, Delivery, Sending
from aioproducer._core.records import Batch, Clock
from aioproducer.records import BytesLike, FlushReport, Headers, Record, RecordMetadata, Timestamp

_K_contra = DefaultTypeVar("_K_contra", default=BytesLike, contravariant=True)
_V_contra = DefaultTypeVar("_V_contra", default=BytesLike, contravariant=True)

APPENDED: Final[int]
NO_ROOM_NOW: Final[int]
RECORD_TOO_LARGE: Final[int]
PARTITION_UNKNOWN: Final[int]

INTERCEPTED: Final[int]
SERIALIZED: Final[int]

@disjoint_base
class Budget:
    @property
    def capacity(self) -> int: ...
    @property
    def used(self) -> int: ...
    @property
    def peak(self) -> int: ...
    stuck_limit: int
    kept: int
    part: int
    @property
    def stuck(self) -> int: ...
    @property
    def whole(self) -> Budget | None: ...
    def __init__(self, capacity: int, whole: Budget | None = None) -> None: ...

@disjoint_base
class MemoryShare:
    stuck: bool
    waiting: int
    @property
    def budget(self) -> Budget: ...
    @property
    def used(self) -> int: ...
    def __init__(self, budget: Budget) -> None: ...
    def room_for(self, size: int) -> bool: ...
    def charge(self, size: int) -> None: ...
    def release(self, size: int) -> None: ...

@disjoint_base
class Partition:
    open: Batch | None
    share: MemoryShare
    waiting: int
    @property
    def topic(self) -> Topic: ...
    @property
    def index(self) -> int: ...
    def __init__(self, topic: Topic, index: int, share: MemoryShare) -> None: ...
    def roll(self, now: float, awaited: bool) -> None: ...
    def unroll(self) -> None: ...

@disjoint_base
class Topic:
    waiting: int
    sticky: Partition | None
    sticky_bytes: int
    sticky_limit: int
    ignore_keys: bool
    custom: bool
    forgotten: bool
    topic_id: bytes
    used_at: float
    @property
    def name(self) -> str: ...
    @property
    def partitions(self) -> list[Partition | None]: ...
    def __init__(self, name: str) -> None: ...
    def queue(self, index: int) -> Partition: ...
    def switch(self, now: float) -> None: ...

@disjoint_base
class SendPath(Generic[_K_contra, _V_contra]):
    _plain: bool
    _serialize_key: Callable[[str, Any, Any], Any] | None
    _serialize_value: Callable[[str, Any, Any], Any] | None
    _choose: Callable[[str, bytes | None, bytes | None], int | None] | None
    _intercept: Callable[[Record[Any, Any]], Record[Any, Any]] | None
    _report_outcome: Callable[[Delivery], object] | None
    _context_of_call: Callable[[], Any] | None
    _traces: bool
    _accepting: bool
    _max_record: int
    @property
    def _accepted_records(self) -> int: ...
    @property
    def _accepted_bytes(self) -> int: ...
    def __class_getitem__(cls, item: Any) -> Any: ...
    def send(
        self,
        topic: str,
        value: _V_contra | None = None,
        *,
        key: _K_contra | None = None,
        partition: int | None = None,
        timestamp: Timestamp | None = None,
        headers: Headers | None = None,
        timeout: float | None = None,
        max_block: float | None = None,
    ) -> Sending[Delivery]: ...
    def send_and_wait(
        self,
        topic: str,
        value: _V_contra | None = None,
        *,
        key: _K_contra | None = None,
        partition: int | None = None,
        timestamp: Timestamp | None = None,
        headers: Headers | None = None,
        timeout: float | None = None,
        max_block: float | None = None,
    ) -> Sending[RecordMetadata]: ...
    def send_nowait(
        self,
        topic: str,
        value: _V_contra | None = None,
        *,
        key: _K_contra | None = None,
        partition: int | None = None,
        timestamp: Timestamp | None = None,
        headers: Headers | None = None,
        timeout: float | None = None,
    ) -> Delivery: ...
    def send_batch(
        self,
        topic: str,
        values: Any,
        *,
        keys: Any = None,
        partition: Any = None,
        timestamps: Any = None,
        headers: Any = None,
        timeout: float | None = None,
    ) -> Sending[BatchDelivery]: ...
    def _bind(
        self,
        topics: dict[str, Any],
        clock: Clock,
        loop: asyncio.AbstractEventLoop | None,
        running_loop: Callable[[], asyncio.AbstractEventLoop | None],
        max_record: int,
    ) -> None: ...
    def _follow_tasks(
        self,
        senders: dict[int, TaskOwner],
        current_task: Callable[[asyncio.AbstractEventLoop], asyncio.Task[Any] | None],
        told_now: Callable[[], Any],
    ) -> None: ...
    def _note_task(self) -> None: ...
    async def flush(self, timeout: float | None = None, *, resolve: bool = False) -> FlushReport: ...
    def _same_thread(self) -> bool: ...
    def _same_process(self) -> bool: ...
    def _now(self) -> float: ...
    def _wall_ms(self) -> int: ...
    def _pace(self) -> bool: ...
    def _loop_turned(self) -> None: ...
    def _append_checked(
        self,
        topic: Topic,
        key: Any,
        value: Any,
        headers: tuple[tuple[str, bytes | None], ...] | None,
        timestamp: int | None,
        partition: int,
        deadline: float,
        in_line: bool,
        context: object = None,
    ) -> list[Any]: ...
    def _append_many(
        self,
        topic: Topic,
        values: Column,
        keys: Column | None,
        partitions: Any,
        timestamps: Column | None,
        headers: Any,
        start: int,
        deadline: float,
        into: BatchDelivery,
        context: object = None,
    ) -> tuple[int, int]: ...
    def _chosen_partition(self) -> Any: ...

@final
class TaskOwner:
    told: Any
    def __init__(self, *args: object, **kwargs: object) -> NoReturn: ...
    def __call__(self, _task: Any) -> None: ...

def follow_task(owners: dict[int, TaskOwner], task: Any, told: Any) -> TaskOwner: ...

@final
class Column:
    @property
    def length(self) -> int: ...
    @staticmethod
    def of_items(items: list[Any]) -> Column: ...
    @staticmethod
    def of_bytes(items: list[Any]) -> Column | None: ...
    @staticmethod
    def of_binary(length: int, first: int, width: int, validity: Any, offsets: Any, data: Any) -> Column: ...
    @staticmethod
    def of_numbers(length: int, first: int, validity: Any, data: Any) -> Column | None: ...
    def value_at(self, at: int) -> Any: ...

def forked() -> None: ...
def join_headers(
    own: tuple[tuple[str, bytes | None], ...] | None, added: tuple[tuple[str, bytes], ...]
) -> tuple[tuple[str, bytes | None], ...]: ...

from typing import Self

from typing_extensions import disjoint_base

from aioproducer._core.records import Batch

@disjoint_base
class Distribution:
    def __new__(cls, bounds: tuple[float, ...]) -> Self: ...
    @property
    def bounds(self) -> tuple[float, ...]: ...
    @property
    def total(self) -> float: ...
    @property
    def counts(self) -> tuple[int, ...]: ...
    def add(self, value: float, /) -> None: ...
    def take_largest(self) -> float | None: ...

def count_acknowledged(
    batch: Batch,
    now: float,
    queue_time: Distribution,
    request_time: Distribution,
    delivery_time: Distribution,
    batch_records: Distribution,
) -> None: ...

"""The partitions of one topic, in columns."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, overload

import attrs

NO_LEADER = -1
NO_EPOCH = -1

Replicas = tuple[int, ...]


class PartitionFacts(NamedTuple):
    """One partition: a row, made on access."""

    partition: int
    leader: int
    leader_epoch: int
    replicas: Replicas
    in_sync: Replicas
    offline: Replicas


@attrs.frozen(repr=False)
class Partitions(Sequence[PartitionFacts]):
    """A tuple of `PartitionFacts`, each at its own index.

    200,000 rows would be 200,000 objects for the garbage collector to visit, in pauses of 40 ms; the columns are five
    objects.
    """

    leaders: tuple[int, ...] = ()
    leader_epochs: tuple[int, ...] = ()
    replicas: tuple[Replicas, ...] = ()
    in_sync: tuple[Replicas, ...] = ()
    offline: tuple[Replicas, ...] = ()

    def __len__(self) -> int:
        return len(self.leaders)

    def __iter__(self) -> Iterator[PartitionFacts]:
        columns = (self.leaders, self.leader_epochs, self.replicas, self.in_sync, self.offline)
        return map(PartitionFacts, range(len(self)), *columns)

    @overload
    def __getitem__(self, index: int) -> PartitionFacts: ...

    @overload
    def __getitem__(self, index: slice) -> tuple[PartitionFacts, ...]: ...

    def __getitem__(self, index: int | slice) -> PartitionFacts | tuple[PartitionFacts, ...]:
        if isinstance(index, slice):
            return tuple(self[i] for i in range(*index.indices(len(self))))
        return PartitionFacts(
            range(len(self))[index],
            self.leaders[index],
            self.leader_epochs[index],
            self.replicas[index],
            self.in_sync[index],
            self.offline[index],
        )

    def __repr__(self) -> str:
        return f"<Partitions {len(self)}, {self.leaders.count(NO_LEADER)} of them without a leader>"

    def first(self, count: int) -> Partitions:
        """A copy with the first partitions only."""
        return Partitions(
            self.leaders[:count],
            self.leader_epochs[:count],
            self.replicas[:count],
            self.in_sync[:count],
            self.offline[:count],
        )

    def led(self, leaders: Iterable[int], leader_epochs: Iterable[int]) -> Partitions:
        """A copy with other leaders."""
        return attrs.evolve(self, leaders=tuple(leaders), leader_epochs=tuple(leader_epochs))

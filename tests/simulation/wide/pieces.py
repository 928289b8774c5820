"""The users' callables of a producer: partitioners, serializers and interceptors of many kinds, some of which fail."""

from __future__ import annotations

import asyncio
import random
import zlib
from collections import Counter
from collections.abc import Sequence
from typing import Any

import attrs

from aioproducer import partitioners
from aioproducer.records import Record, RecordMetadata
from aioproducer.serializers import NotPrepared


class PieceError(Exception):
    """The failure of a user's callable."""


@attrs.define(eq=False)
class RandomPartitioner:
    """A partitioner of the user: by the key, or by chance; now and then it leaves the choice open, or fails."""

    rng: random.Random

    def __call__(
        self,
        topic: str,
        key: bytes | None,
        value: bytes | None,
        partitions: Sequence[int],
        available: Sequence[int],
    ) -> int | None:
        """A partition, or none."""
        mood = self.rng.random()
        if mood < 0.02:
            raise PieceError("the partitioner does not like it")
        if mood < 0.04:
            return len(partitions)
        if mood < 0.2:
            return None
        if key is None:
            return self.rng.choice(available or partitions)
        return partitions[zlib.crc32(key) % len(partitions)]


def partitioner(rng: random.Random) -> Any:
    """The partitioner of a life."""
    return rng.choice(
        (
            "default",
            "default",
            "round_robin",
            "murmur3",
            partitioners.Random(rng.randrange),
            RandomPartitioner(rng),
        )
    )


@attrs.define(eq=False)
class ObjectSerializer:
    """A serializer that is an object."""

    rng: random.Random

    def serialize(self, topic: str, headers: Any, data: bytes | None) -> bytes | None:
        """The same bytes, mostly."""
        if self.rng.random() < 0.02:
            raise PieceError("the serializer does not like it")
        return data


@attrs.define(eq=False)
class SlowSerializer:
    """A coroutine serializer that waits, now and then for long, or fails."""

    rng: random.Random

    async def serialize(self, topic: str, headers: Any, data: bytes | None) -> bytes | None:
        """The same bytes, later."""
        mood = self.rng.random()
        if mood < 0.3:
            await asyncio.sleep(self.rng.uniform(0, 0.05))
        elif mood < 0.32:
            await asyncio.sleep(self.rng.uniform(0, 5))
        elif mood < 0.34:
            raise PieceError("the serializer does not like it")
        return data


@attrs.define(eq=False)
class PreparedSerializer(ObjectSerializer):
    """A serializer that prepares each topic, forgets it now and then, and sometimes fails to prepare it."""

    known: set[str] = attrs.Factory(set)

    def serialize(self, topic: str, headers: Any, data: bytes | None) -> bytes | None:
        """The same bytes, if the topic is prepared."""
        if self.rng.random() < 0.01:
            self.known.discard(topic)
        if topic not in self.known:
            raise NotPrepared
        return data

    async def prepare(self, topic: str, headers: Any, data: bytes | None) -> None:
        """Prepare the topic: at once, later, or much later."""
        mood = self.rng.random()
        if mood < 0.7:
            await asyncio.sleep(self.rng.uniform(0, 0.05))
        elif mood < 0.75:
            await asyncio.sleep(self.rng.uniform(0, 20))
        elif mood < 0.8:
            raise PieceError("the registry does not like it")
        self.known.add(topic)


def _as_it_is(data: bytes | None) -> bytes | None:
    return data


def value_serializer(rng: random.Random) -> Any:
    """The serializer of values."""
    return rng.choice(
        (*(None,) * 5, _as_it_is, ObjectSerializer(rng), SlowSerializer(rng), PreparedSerializer(rng))
    )


def key_serializer(rng: random.Random) -> Any:
    """The serializer of keys."""
    return rng.choice((*(None,) * 7, ObjectSerializer(rng), SlowSerializer(rng), PreparedSerializer(rng)))


@attrs.define(eq=False)
class CountingInterceptor:
    """An interceptor that counts its calls, and fails now and then."""

    rng: random.Random
    failing: float
    seen: int = 0
    ended: int = 0
    places: Counter[tuple[str, int | None, int]] = attrs.Factory(Counter)
    closed: int = 0

    def on_send(self, record: Record[Any, Any]) -> Any:
        """A record is sent."""
        self.seen += 1
        if self.rng.random() < self.failing:
            if self.rng.random() < 0.5:
                raise PieceError("the interceptor does not like it")
            return None
        return attrs.evolve(record) if self.rng.random() < 0.2 else record

    def on_acknowledgement(self, metadata: RecordMetadata | None, error: BaseException | None) -> None:
        """A record has its outcome."""
        self.ended += 1
        if metadata is not None and error is None:
            self.places[metadata.topic, metadata.partition, metadata.offset] += 1
        if self.rng.random() < self.failing:
            raise PieceError("the interceptor does not like the outcome")

    def close(self) -> None:
        """The producer has closed."""
        self.closed += 1


def interceptors(rng: random.Random) -> tuple[CountingInterceptor, ...]:
    """The interceptors: mostly none, as records take a shorter way then."""
    return tuple(CountingInterceptor(rng, rng.choice((0.0, 0.2))) for _ in range(rng.choice((0, 0, 0, 1, 2))))

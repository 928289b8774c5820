"""Arguments that lie: each entry makes a fresh object, as some can be read only once."""

from __future__ import annotations

import array
import asyncio
import ctypes
import datetime
import mmap
from collections.abc import Callable, Iterator, Mapping
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import numpy as np
import pandas as pd  # type: ignore[import-untyped]
import pyarrow as pa

from aioproducer import GroupMetadata, KafkaError, OffsetAndMetadata, Outcome, TopicPartition

Make = Callable[[], Any]


class Own(BaseException):
    """Neither an Exception nor a way to end a program."""


class Raising:
    """Whatever it is asked, it raises that."""

    def __init__(self, error: type[BaseException]) -> None:
        self.__dict__["error"] = error

    def _raise(self, *_: Any, **__: Any) -> Any:
        raise self.__dict__["error"]

    __len__ = __iter__ = __getitem__ = __index__ = __float__ = __bytes__ = __eq__ = __hash__ = _raise
    __repr__ = __str__ = __bool__ = __lt__ = __le__ = __gt__ = __ge__ = __getattr__ = __contains__ = _raise


class Shrinking(list[Any]):
    """A list that loses an item on each access to its length or its items."""

    def __len__(self) -> int:
        if super().__len__():
            self.pop()
        return super().__len__()

    def __iter__(self) -> Iterator[Any]:
        self.clear()
        yield b"left"


class LyingStr(str):
    """A name that answers otherwise than what it is."""

    __slots__ = ()

    def encode(self, *_: Any, **__: Any) -> bytes:
        raise Own

    def __str__(self) -> str:
        return "another"

    def __eq__(self, _other: object) -> bool:
        raise Own

    def __hash__(self) -> int:
        return 7


class LyingInt(int):
    """A number that is larger than it says."""

    def __index__(self) -> int:
        return 1 << 70

    def __lt__(self, _other: object) -> bool:
        return False

    def __le__(self, _other: object) -> bool:
        return True


class LyingBytes(bytes):
    """Bytes that turn into something else."""

    def __bytes__(self) -> bytes:
        raise Own

    def __len__(self) -> int:
        return 1 << 40


class LyingMapping(Mapping[str, bytes]):
    """Headers that are never twice the same."""

    def __getitem__(self, _key: str) -> bytes:
        raise KeyError

    def __iter__(self) -> Iterator[str]:
        yield "a"
        raise Own

    def __len__(self) -> int:
        return -1  # noqa: PLE0303  # it lies


class Zone(datetime.tzinfo):
    """A time zone without usable results."""

    def utcoffset(self, _when: Any) -> Any:
        raise Own

    dst = tzname = utcoffset


def released() -> memoryview:
    view = memoryview(b"released")
    view.release()
    return view


def half() -> Iterator[tuple[str, bytes]]:
    yield "a", b"1"
    raise Own


def exporting() -> Any:
    """A class with `__buffer__`, which Python calls from 3.12 on."""

    class Exporting:
        def __buffer__(self, _flags: int) -> memoryview:
            raise Own

    return Exporting()


def nested() -> list[Any]:
    found: list[Any] = []
    found.append(found)
    return found


def lying_arrow() -> Any:
    made = MagicMock()
    made.type, made.offset = "binary", 0
    made.__len__.return_value = 3
    made.buffers.return_value = (None, bytes(8), b"")
    return made


ANYTHING: dict[str, Make] = {
    "None": lambda: None,
    "an int": lambda: 5,
    "a huge int": lambda: 10**400,
    "minus one": lambda: -1,
    "nan": lambda: float("nan"),
    "text": lambda: "text",
    "surrogates": lambda: "\ud800",
    "a str that lies": lambda: LyingStr("one"),
    "an int that lies": lambda: LyingInt(0),
    "bytes that lie": lambda: LyingBytes(b"lies"),
    "raises Exception": lambda: Raising(ZeroDivisionError),
    "raises BaseException": lambda: Raising(Own),
    "raises StopIteration": lambda: Raising(StopIteration),
    "raises MemoryError": lambda: Raising(MemoryError),
    "a released view": released,
    "a view of every second byte": lambda: memoryview(b"abcdef")[::2],
    "a view of two dimensions": lambda: memoryview(bytes(12)).cast("B", (3, 4)),
    "an array of floats": lambda: array.array("d", [1.0, 2.0]),
    "a ctypes array": lambda: (ctypes.c_char * 5)(),  # noqa: PLW0108  # a type of its own each time
    "a bytearray": lambda: bytearray(b"bytearray"),
    "an empty mmap": lambda: mmap.mmap(-1, 10),
    "a class with __buffer__": exporting,
    "a shrinking list": lambda: Shrinking([b"a", b"b", b"c"]),
    "a list of itself": nested,
    "a generator": half,
    "a mapping that lies": LyingMapping,
    "a set": lambda: {b"a", b"b"},
    "a range": lambda: range(3),
    "an endless iterator": lambda: iter(int, 1),
    "a mock": MagicMock,
    "a coroutine function": lambda: asyncio.sleep,
    "a class": lambda: Raising,
    "a naive time": lambda: datetime.datetime(2024, 1, 1),  # noqa: DTZ001
    "a time in a zone that raises": lambda: datetime.datetime(2024, 1, 1, tzinfo=Zone()),
    "the year 1": lambda: datetime.datetime(1, 1, 1, tzinfo=datetime.UTC),
    "numpy bytes": lambda: np.array([b"a", b"b", b"c"]),
    "numpy objects": lambda: np.array([b"a", None, 5], object),
    "numpy without a dimension": lambda: np.array(5),
    "numpy of two dimensions": lambda: np.zeros((3, 4), np.uint8),
    "a numpy float": lambda: np.float64(0.5),
    "a numpy int": lambda: np.int64(0),
    "a Series": lambda: pd.Series([b"a", b"b", b"c"]),
    "a DataFrame": lambda: pd.DataFrame({"a": [1, 2, 3], "b": [1, 2, 3], "c": [1, 2, 3]}),
    "NaT": lambda: pd.NaT,
    "an Arrow array": lambda: pa.array([b"a", None, b"c"]),
    "an Arrow array of numbers": lambda: pa.array([1, None, 3]),
    "an empty chunked array": lambda: pa.chunked_array([], pa.binary()),
    "an Arrow table": lambda: pa.table({"a": [b"a", b"b", b"c"]}),
    "an Arrow scalar": lambda: pa.scalar(b"a"),
    "an Arrow array that lies": lying_arrow,
    "headers": lambda: [("a", b"1"), ("b", None)],
    "headers that were released": lambda: [("a", released())],
    "headers with a name that lies": lambda: {LyingStr("a"): b"1"},
    "headers of three": lambda: [("a", b"1", b"2")],
    "a list of bad things": lambda: [released(), 5, b"good"],
    "a list of things that raise": lambda: [Raising(Own), Raising(ValueError), b"good"],
    "a list of numbers": lambda: [0, 1, 2],
    "three bytes": lambda: [b"1", b"2", b"3"],
}
"""By what they are, for the message of a test that fails."""


# -- what transactions are given


class LyingGroup(GroupMetadata):
    """A group that answers once."""

    __slots__ = ()

    @property
    def generation(self) -> int:
        raise Own

    def __getattribute__(self, name: str) -> Any:
        raise Own


class Consumer:
    """An object that looks like a consumer of confluent-kafka, and gives the answer of the test."""

    def __init__(self, answer: Make) -> None:
        self.answer = answer

    def consumer_group_metadata(self) -> Any:
        return self.answer()


class Place:
    """An object that looks like a partition of another library, with an offset."""

    def __init__(self, topic: Any, partition: Any, offset: Any, metadata: Any = None) -> None:
        self.topic, self.partition, self.offset, self.metadata = topic, partition, offset, metadata


def raising() -> Any:
    raise Own


def half_of_the_offsets() -> Iterator[Any]:
    yield Place("source", 0, 5)
    raise Own


def coordinator(**facts: Any) -> Any:
    """A consumer like those of aiokafka."""
    told = {"group_id": "zoo", "generation": -1, "member_id": "", "_group_instance_id": None, **facts}
    return SimpleNamespace(_coordinator=SimpleNamespace(**told))


GROUPS: dict[str, Make] = {
    "a group": lambda: "zoo",
    "a name that lies": lambda: LyingStr("zoo"),
    "surrogates as a group": lambda: "\ud800",
    "a long name": lambda: "g" * 40_000,
    "a group whose name lies": lambda: GroupMetadata(LyingStr("zoo"), -1, LyingStr(""), None),
    "a group that answers once": lambda: LyingGroup("zoo"),
    "a group of wrong types": lambda: GroupMetadata(5, "x", 7, []),  # type: ignore[arg-type]
    "a group of a generation that lies": lambda: GroupMetadata("zoo", LyingInt(1)),
    "a huge generation": lambda: GroupMetadata("zoo", 10**5000),
    "a consumer that raises": lambda: Consumer(raising),
    "a consumer of half a name": lambda: Consumer(lambda: b"CGMDv2:\0\0\0\1\xff\0\xff\0"),
    "a consumer that says little": lambda: Consumer(lambda: b"CGMDv2:"),
    "a consumer whose group lies": lambda: coordinator(group_id=LyingStr("zoo")),
    "a consumer of no group": lambda: coordinator(group_id=None),
    "a consumer that is a mock": MagicMock,
}
OFFSETS: dict[str, Make] = {
    "offsets": lambda: {("source", 0): 5},
    "a topic that lies": lambda: {TopicPartition(LyingStr("source"), 0): 5},
    "a partition that lies": lambda: {("source", LyingInt(0)): 5},
    "a bool as a partition": lambda: {("source", True): 5},
    "a huge partition": lambda: {("source", 10**5000): 5},
    "an offset that lies": lambda: {("source", 0): LyingInt(5)},
    "a huge offset": lambda: {("source", 0): 10**5000},
    "a note that lies": lambda: {("source", 0): OffsetAndMetadata(5, LyingStr("n"))},
    "a long note": lambda: {("source", 0): OffsetAndMetadata(5, "n" * 5000)},
    "a note of surrogates": lambda: {("source", 0): OffsetAndMetadata(5, "\ud800")},
    "a mapping of offsets that lies": LyingMapping,
    "half of the offsets": half_of_the_offsets,
    "partitions with offsets that lie": lambda: [Place(LyingStr("source"), 0, LyingInt(5), LyingStr("n"))],
    "consumed records that lie": lambda: [Place(lambda: LyingStr("source"), lambda: 0, lambda: LyingInt(5))],
    "consumed records that raise": lambda: [Place(raising, 0, 5)],
    "things as partitions": lambda: {Raising: 5, 7: 8},
}


class SelfRaisingError(Exception):
    """An exception whose text raises another one of its kind."""

    def __str__(self) -> str:
        raise SelfRaisingError

    __repr__ = __str__


ERRORS: dict[str, Callable[[], BaseException]] = {
    "an error": ZeroDivisionError,
    "an error without a text": SelfRaisingError,
    "a BaseException": Own,
    "the end of an iterator": StopIteration,
    "the end of a generator": GeneratorExit,
    "a cancellation": asyncio.CancelledError,
    "no memory": MemoryError,
    "an error of Kafka that lies": lambda: KafkaError("a lie", outcome=Outcome.ACKED, retriable=True),
}
"""The errors that code of the user raises. Those that end a program are not among them."""

OWN_ERRORS = (
    Own,
    SelfRaisingError,
    ZeroDivisionError,
    StopIteration,
    MemoryError,
    GeneratorExit,
    asyncio.CancelledError,
)

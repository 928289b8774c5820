"""The interpreter that turns Kafka's messages into bytes and back, whatever the declarations say."""

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, SupportsIndex, TypeAlias, final, overload

_Frame: TypeAlias = bytes | bytearray | memoryview
_Row: TypeAlias = tuple[str, str, bool, Program | None, bool, bool, int, bool, bool, object]

@final
class ArrayView(Sequence[Any]):
    """A decoded array too large to become a list: a read-only sequence that makes its elements on access.

    Each access makes a new element. Iterating costs the same per element as a list would have; so does
    access by rising index. It keeps the whole frame alive: copy what is to stay.
    """

    __hash__: ClassVar[None]  # type: ignore[assignment]
    def __len__(self) -> int: ...
    @overload
    def __getitem__(self, index: SupportsIndex, /) -> Any: ...
    @overload
    def __getitem__(self, index: slice, /) -> list[Any]: ...
    def __iter__(self) -> Iterator[Any]: ...
    def __reversed__(self) -> Iterator[Any]: ...
    def __contains__(self, value: object, /) -> bool: ...
    def __eq__(self, other: object, /) -> bool: ...
    def index(self, value: object, start: int = 0, stop: int | None = None) -> int:
        """The first position of `value`."""
    def count(self, value: object) -> int:
        """How many elements equal `value`."""

@final
class Program:
    """One struct in one version, ready to be written and read.

    `fields` holds one tuple for each field of the NamedTuple, in its order:
    `(name, kind, array, struct, nullable, compact, tag, present, ignorable, default)`, where `kind` is
    Kafka's name of the type or "struct", and `struct` the program of a struct.
    """

    def __new__(
        cls, message: type[tuple[Any, ...]], fields: tuple[_Row, ...], *, flexible: bool, version: int
    ) -> Program: ...
    def decode(self, buffer: _Frame, start: int = 0) -> Any:
        """The message that fills `buffer` from `start` to its end; `ProtocolError` if none does."""
    def decode_prefix(self, buffer: _Frame, start: int = 0) -> tuple[Any, int]:
        """The message that begins at `start`, and where it ends; what follows it is not looked at."""
    def encode(self, message: tuple[Any, ...], prefix: bytes = b"") -> bytes:
        """`prefix` and the message after it."""

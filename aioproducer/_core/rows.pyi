from typing import Final, Self

from typing_extensions import Buffer, disjoint_base

KINDS: Final[dict[str, int]]
REASONS: Final[dict[int, str]]

@disjoint_base
class RowEncoder:
    """The arrays of some rows, described as a tree of nodes; a node is added after its children."""

    def __new__(cls) -> Self: ...
    def add(
        self,
        kind: int,
        *,
        length: int = 0,
        first: int = 0,
        width: int = 0,
        validity: Buffer | None = None,
        offsets: Buffer | None = None,
        data: Buffer | None = None,
        children: tuple[int, ...] = (),
        before: bytes = b"",
        absent: bytes | None = None,
        quoted: bool = False,
        lenient: bool = False,
        mark: bytes = b"",
        low: int = ...,
        high: int = ...,
        divisor: int = 1,
        modulus: int = 0,
        factor: int = 1,
        size: int = 0,
    ) -> int:
        """Add an array of `length` items from `first` on; the number of its node."""

    def encode(self, root: int, rows: int, prefix: bytes) -> tuple[bytes, bytes, list[tuple[int, int, int]]]:
        """Encode the first `rows` items of a node: the offsets as 64-bit integers, the data, and the rows that do not fit."""

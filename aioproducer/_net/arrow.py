"""Arrow arrays as columns, read through their buffers; pyarrow itself is never imported here."""

from __future__ import annotations

from typing import Any

from aioproducer._core import Column
from aioproducer.errors import RecordError

OFFSET_WIDTHS = {"binary": 4, "string": 4, "utf8": 4, "large_binary": 8, "large_string": 8, "large_utf8": 8}
NUMBERS = {"int64", "timestamp[ms]"}


def is_arrow(column: object) -> bool:
    """True for an Arrow array or chunked array, told by its shape, without importing pyarrow."""
    return hasattr(column, "type") and (hasattr(column, "buffers") or hasattr(column, "combine_chunks"))


def arrow_column(part: str, array: Any, topic: str) -> Column:  # an Arrow array
    """A column over the buffers of an Arrow array; values are copied once, into their batch."""
    if hasattr(array, "combine_chunks") and not hasattr(array, "buffers"):
        array = array.combine_chunks()
        if not hasattr(array, "buffers"):
            array = array.chunk(0)  # older versions give a chunked array of one chunk
    return _timestamps(array, topic) if part == "timestamp" else _binary(part, array, topic)


def _binary(part: str, array: Any, topic: str) -> Column:
    kind = str(array.type)
    width = OFFSET_WIDTHS.get(kind)
    if width is None:
        text = f"an Arrow array of {part}s must be binary or string, not {kind}: cast it"
        raise RecordError(text, topic=topic)
    validity, offsets, data = array.buffers()
    return Column.of_binary(len(array), array.offset, width, validity, offsets, data)


def _timestamps(array: Any, topic: str) -> Column:
    kind = str(array.type)
    if kind.startswith("timestamp") and not kind.startswith("timestamp[ms"):
        array = array.cast("timestamp[ms]", safe=False)
        kind = "timestamp[ms]"
    if kind not in NUMBERS and not kind.startswith("timestamp[ms"):
        text = f"an Arrow array of timestamps must be timestamp or int64 (milliseconds), not {kind}: cast it"
        raise RecordError(text, topic=topic)
    validity, data = array.buffers()
    return Column.of_numbers(len(array), array.offset, validity, data)

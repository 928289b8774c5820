"""Arrow arrays as columns, read through their buffers; pyarrow is imported only to convert one of its own arrays."""

from __future__ import annotations

from typing import Any, Final

from aioproducer._core import Column
from aioproducer.errors import RecordError

# The units of Arrow's times that are smaller.
_IN_A_MILLISECOND: Final = {"us": 1_000, "ns": 1_000_000}
OFFSET_WIDTHS = {"binary": 4, "string": 4, "utf8": 4, "large_binary": 8, "large_string": 8, "large_utf8": 8}


def is_arrow(column: object) -> bool:
    """True for an Arrow array or chunked array, recognized without importing pyarrow."""
    return hasattr(column, "type") and (hasattr(column, "buffers") or hasattr(column, "combine_chunks"))


def bytes_column(part: str, column: Any, topic: str) -> Column:
    """A column over the buffers of an Arrow array; values are copied once, into their batch."""
    array = _one_array(column)
    kind = str(array.type)
    width = OFFSET_WIDTHS.get(kind)
    if width is None:
        text = f"an Arrow array of {part}s must be binary or string, not {kind}: cast it"
        raise RecordError(text, topic=topic)
    validity, offsets, data = array.buffers()
    return Column.of_binary(len(array), array.offset, width, validity, offsets, data)


def times_column(column: Any, topic: str) -> Column | None:
    """A column of milliseconds over the buffer of an Arrow array; None if some items must be read one by one."""
    array = _milliseconds(column, topic)
    validity, data = array.buffers()
    return Column.of_numbers(len(array), array.offset, validity, data)


def listed_items(column: Any) -> list[Any]:
    """The items of an Arrow array as objects of Python, one by one."""
    return list(column.to_pylist())


def listed_times(column: Any, topic: str) -> list[int | None]:
    """The milliseconds of an Arrow array, one by one."""
    return list(_milliseconds(column, topic).cast("int64").to_pylist())


def _milliseconds(column: Any, topic: str) -> Any:
    array = _one_array(column)
    kind = str(array.type)
    if kind == "int64" or kind.startswith("timestamp[ms"):
        return array
    if kind.startswith("timestamp"):
        return _floored(array)
    text = f"an Arrow array of timestamps must be timestamp or int64 (milliseconds), not {kind}: cast it"
    raise RecordError(text, topic=topic)


def _floored(array: Any) -> Any:
    """The milliseconds of timestamps of another unit, rounded down as for `datetime`s, also before 1970."""
    # A program with such an array has imported pyarrow already, and a cast of the array needs this module as well.
    import pyarrow.compute as pc  # noqa: PLC0415

    # The time zone is removed: it does not change the moment.
    unit = str(array.type).removeprefix("timestamp[").partition(",")[0].rstrip("]")
    numbers = array.cast("int64")
    if unit == "s":
        # They may be out of the range of milliseconds: an error, not a wrapped number.
        return numbers.cast("timestamp[s]").cast("timestamp[ms]")
    least = pc.min(numbers).as_py()
    if least is None or least >= 0:
        return pc.floor_temporal(numbers.cast(f"timestamp[{unit}]"), unit="millisecond").cast(
            "timestamp[ms]", safe=False
        )
    # Times near the least number would wrap there.
    to_zero = pc.divide(numbers, _IN_A_MILLISECOND[unit])
    is_later = pc.greater(pc.multiply(to_zero, _IN_A_MILLISECOND[unit]), numbers)
    return pc.subtract(to_zero, is_later.cast("int64"))


def _one_array(column: Any) -> Any:
    if hasattr(column, "buffers"):
        return column
    combined = column.combine_chunks()
    return (
        combined if hasattr(combined, "buffers") else combined.chunk(0)
    )  # older versions return a chunked array

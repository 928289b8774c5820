"""The estimate of how much a topic's batches shrink."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aioproducer._state.batching.compression_ratio import LOWEST_RATIO, CompressionRatios

GZIP, ZSTD = 1, 4
OVERHEAD = 61


def test_nothing_is_believed_before_it_was_seen() -> None:
    """Every codec starts at 1.0, as Java's CompressionType rates do."""
    assert [CompressionRatios().of("t", codec) for codec in range(5)] == [1.0] * 5


def test_better_is_believed_slowly() -> None:
    """One good batch moves the estimate by 0.005."""
    ratios = CompressionRatios()
    ratios.observe("t", GZIP, 0.2)
    assert ratios.of("t", GZIP) == pytest.approx(0.995)


def test_the_estimate_does_not_pass_what_was_seen() -> None:
    """A step that would go below the observed ratio ends at it."""
    ratios = CompressionRatios()
    ratios.observe("t", GZIP, 0.998)
    assert ratios.of("t", GZIP) == pytest.approx(0.998)


def test_worse_is_believed_at_once() -> None:
    """A bad batch raises the estimate by 0.05, or to the observed ratio if that is worse still."""
    ratios = CompressionRatios()
    ratios.split("t", GZIP)
    ratios.observe("t", GZIP, 1.01)
    assert ratios.of("t", GZIP) == pytest.approx(1.05)
    ratios.observe("t", GZIP, 1.4)
    assert ratios.of("t", GZIP) == pytest.approx(1.4)


def test_a_split_ends_all_hope() -> None:
    """After MESSAGE_TOO_LARGE the estimate is 1.0 again."""
    ratios = CompressionRatios()
    for _ in range(100):
        ratios.observe("t", GZIP, 0.1)
    assert ratios.of("t", GZIP) == pytest.approx(0.5)
    ratios.split("t", GZIP)
    assert ratios.of("t", GZIP) == 1.0


def test_topics_and_codecs_are_apart() -> None:
    """The ratio of a topic and codec does not change those of other topics or codecs."""
    ratios = CompressionRatios()
    ratios.observe("t", GZIP, 0.1)
    assert (ratios.of("t", ZSTD), ratios.of("u", GZIP)) == (1.0, 1.0)


def test_forgetting_a_topic_starts_it_anew() -> None:
    """A topic that is not used any more leaves nothing behind, and takes nothing else with it."""
    ratios = CompressionRatios()
    ratios.observe("t", GZIP, 0.1)
    ratios.observe("u", GZIP, 0.1)
    ratios.forget("t")
    assert (ratios.of("t", GZIP), ratios.of("u", GZIP)) == (1.0, 0.995)


def test_plain_batches_fill_up_to_the_setting() -> None:
    """Without a codec the limit is batch_size exactly, whatever ratios were reported."""
    ratios = CompressionRatios()
    ratios.observe("t", 0, 0.1)
    ratios.split("t", 0)
    assert ratios.plain_limit("t", 0, 16384, OVERHEAD) == 16384


def test_the_limit_grows_as_batches_shrink() -> None:
    """The limit is header + room / (ratio x 1.05)."""
    ratios = CompressionRatios()
    assert ratios.plain_limit("t", GZIP, 10561, OVERHEAD) == OVERHEAD + 10000
    for _ in range(100):
        ratios.observe("t", GZIP, 0.1)
    assert ratios.plain_limit("t", GZIP, 10561, OVERHEAD) == pytest.approx(OVERHEAD + 20000, abs=1)


def test_the_limit_has_a_limit() -> None:
    """Records that compress to nothing do not make batches as large as the whole buffer."""
    ratios = CompressionRatios()
    for _ in range(1000):
        ratios.observe("t", GZIP, 0.001)
    limit = ratios.plain_limit("t", GZIP, 131072, OVERHEAD)
    assert limit == pytest.approx(OVERHEAD + (131072 - OVERHEAD) / (LOWEST_RATIO * 1.05), abs=1)


def test_a_batch_size_below_the_header_leaves_the_header() -> None:
    """batch_size=0 is legal (every record alone) and never gives a negative limit."""
    assert CompressionRatios().plain_limit("t", GZIP, 0, OVERHEAD) == OVERHEAD


@given(st.lists(st.floats(0, 3), max_size=50))
def test_the_estimate_stays_between_what_was_seen(seen: list[float]) -> None:
    """The estimate never leaves the range of the observed ratios, except for one step of worsening."""
    ratios = CompressionRatios()
    for ratio in seen:
        ratios.observe("t", ZSTD, ratio)
    assert min([1.0, *seen]) <= ratios.of("t", ZSTD) <= max([1.0, *seen]) + 0.05 + 1e-9

"""The definition of growth, on invented rows of measurements."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest

from tests.soak.judging.trend import FEWEST, growth, second_half, slope

_TEN_SECONDS = [float(10 * index) for index in range(60)]
_SEED = 20


def noisy(values: Sequence[float], most: float) -> list[float]:
    """The same values with random noise."""
    rng = random.Random(_SEED)
    return [value + rng.uniform(-most, most) for value in values]


def test_slope_of_a_line_is_its_rise_by_the_hour() -> None:
    """On a straight line the slope is exact, with no uncertainty."""
    found = slope(_TEN_SECONDS, [7 + 3 * seconds for seconds in _TEN_SECONDS])
    assert found is not None
    assert found.per_hour == pytest.approx(3 * 3600)
    assert found.uncertainty == pytest.approx(0, abs=1e-6)


def test_slope_of_too_few_measurements_is_unknown() -> None:
    """Five measurements, or all of one moment, give no slope."""
    assert slope(_TEN_SECONDS[:5], [1.0, 2.0, 3.0, 4.0, 5.0]) is None
    assert slope([1.0] * 20, list(map(float, range(20)))) is None


def test_noise_is_not_clearly_a_slope() -> None:
    """Noise without a trend is clearly above a bound of zero only by chance: in 3 of 100 rows, not in 20."""
    rng = random.Random(_SEED)
    rows = [[rng.gauss(100, 5) for _ in _TEN_SECONDS] for _ in range(100)]
    found = [slope(_TEN_SECONDS, row) for row in rows]
    assert sum(one is not None and one.clearly_above(0) for one in found) < 8


def test_steps_that_stay_make_a_slope_uncertain() -> None:
    """A random walk, as an allocator makes, is less certain than its values in another order."""
    rng, walk = random.Random(_SEED), [0.0]
    for _ in _TEN_SECONDS[1:]:
        walk.append(walk[-1] + rng.choice((-1, 1)))
    shuffled = rng.sample(walk, len(walk))
    walked, free = slope(_TEN_SECONDS, walk), slope(_TEN_SECONDS, shuffled)
    assert walked is not None
    assert free is not None
    assert walked.uncertainty > 2 * free.uncertainty


def test_slope_under_noise_is_clearly_above_a_smaller_bound_only() -> None:
    """A rise of 10 a second under noise of 100 is clearly above 9 a second, and not above 11."""
    found = slope(_TEN_SECONDS, noisy([10 * seconds for seconds in _TEN_SECONDS], 100))
    assert found is not None
    assert found.clearly_above(9 * 3600)
    assert not found.clearly_above(11 * 3600)


def test_second_half_leaves_warming_up_behind() -> None:
    """Memory that is allocated once, at the beginning, makes no slope."""
    row = [min(seconds, 100.0) for seconds in _TEN_SECONDS]
    found = slope(second_half(_TEN_SECONDS), second_half(row))
    assert found is not None
    assert found.per_hour == 0


def test_what_comes_and_goes_is_no_growth() -> None:
    """Noise, peaks and a high beginning are not growth, and neither is falling."""
    assert growth(noisy([20.0] * 60, 3)) == 0
    assert growth([20.0, 20.0, 90.0] * 20) == 0
    assert growth([50.0, 40.0, *[20.0] * 58]) == 0
    assert growth([60.0 - index for index in range(60)]) == 0


def test_a_slow_leak_is_growth() -> None:
    """One descriptor that stays open every fifth period is seen in sixty of them, even under noise of one."""
    leak = [20.0 + index // 5 for index in range(60)]
    assert growth(leak) > 0
    assert growth([value + index % 2 for index, value in enumerate(leak)]) > 0


def test_growth_is_a_lower_bound() -> None:
    """It is the excess of the last values over the largest of the first half."""
    assert growth([5.0] * 30 + [12.0] * 30) == 7


def test_few_measurements_never_grow() -> None:
    """Below a dozen, noise alone looks like growth."""
    assert growth(list(map(float, range(FEWEST - 1)))) == 0
    assert growth(list(map(float, range(FEWEST)))) > 0

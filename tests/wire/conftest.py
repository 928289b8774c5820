"""The fixture that the tests of the codec share."""

from __future__ import annotations

import random

import pytest

from tests.seeds import fresh_seed


@pytest.fixture
def rng() -> random.Random:
    """A seeded source of randomness; a failing test shows the seed."""
    return random.Random(fresh_seed())

"""The choice of the identity rules of a producer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aioproducer._state.batching.sequences import Unnumbered
from aioproducer._state.identity.coordinated import CoordinatedIdentity
from aioproducer._state.identity.own import OwnIdentity

if TYPE_CHECKING:
    from aioproducer._state.batching.sequences import Sequences
    from aioproducer._state.effects import Effects


def sequences_of(
    effects: Effects, *, idempotent: bool, transactional: bool, one_at_a_time: bool
) -> Sequences:
    """The rules for a producer with these settings."""
    if transactional:
        return CoordinatedIdentity()
    return OwnIdentity(effects) if idempotent else Unnumbered(one_at_a_time=one_at_a_time)

"""The choice of the identity rules of a producer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aioproducer._state.identity.coordinated import CoordinatedIdentity
from aioproducer._state.identity.own import OwnIdentity
from aioproducer._state.identity.sequences import Unnumbered

if TYPE_CHECKING:
    from aioproducer._state.effects import Effects
    from aioproducer._state.identity.sequences import Sequences


def sequences_of(
    effects: Effects, *, idempotent: bool, transactional: bool, one_at_a_time: bool
) -> Sequences:
    """The rules for a producer with these settings."""
    if transactional:
        return CoordinatedIdentity()
    return OwnIdentity(effects) if idempotent else Unnumbered(one_at_a_time=one_at_a_time)

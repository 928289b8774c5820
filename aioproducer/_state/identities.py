"""Which rules of identity a producer follows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aioproducer._state.coordinated_identity import CoordinatedIdentity
from aioproducer._state.own_identity import OwnIdentity
from aioproducer._state.sequences import Unnumbered

if TYPE_CHECKING:
    from aioproducer._state.sequences import Sequences


def sequences_of(*, idempotent: bool, transactional: bool, one_at_a_time: bool) -> Sequences:
    """The rules for a producer with these settings."""
    if transactional:
        return CoordinatedIdentity()
    return OwnIdentity() if idempotent else Unnumbered(one_at_a_time=one_at_a_time)

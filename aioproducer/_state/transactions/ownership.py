"""The transactional id of a producer, and the producer id and epoch that it has under this id."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aioproducer.errors import StateError

if TYPE_CHECKING:
    from aioproducer._state.identity.coordinated import CoordinatedIdentity
    from aioproducer._state.identity.standing import Identity


class Ownership:
    """The ids and the epoch of one transactional producer. Its coordinator alone changes the identity."""

    def __init__(self, sequences: CoordinatedIdentity, transactional_id: str) -> None:
        self.sequences = sequences
        # The id whose coordinator is asked, the id that the latest init_transactions() asked for, and the id that the present
        # producer id belongs to.
        self.transactional_id = transactional_id
        self.sought = transactional_id
        self.identified_as: str | None = None
        # The present epoch was used in transactions of level 1, which share an epoch.
        self.is_used = False

    @property
    def identity(self) -> Identity:
        """The present producer id and epoch."""
        if self.sequences.identity is None:
            raise StateError("the producer has no producer id yet")
        return self.sequences.identity

    def obtained(self, identity: Identity) -> None:
        """The coordinator gave this identity."""
        self.sequences.obtained(*identity)
        self.identified_as = self.transactional_id
        self.is_used = False

    def is_identified_as(self, name: str) -> bool:
        """Whether the present producer id belongs to this transactional id."""
        return self.sequences.identity is not None and name == self.identified_as

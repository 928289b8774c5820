"""The table of a transaction against what a user may expect, over random lives."""

from __future__ import annotations

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import rule

from aioproducer._state.transactions.table import CALLS, Event, TransactionTable
from aioproducer.errors import DeliveryTimeoutError, KafkaError, ProducerFencedError
from tests.properties.runs import in_parts, run
from tests.properties.swarm import SwarmMachine

E = Event


class Reference:
    """A reference for the table: whether a transaction is open, whether it is spoilt, and which request is unanswered."""

    def __init__(self) -> None:
        self.has_id = False
        self.open = False
        self.spoilt = False
        self.ending: str | None = None
        self.unheard = False
        self.gone = False
        self.dead = False

    def allows(self, event: Event) -> bool:
        """Whether a call is possible."""
        going_on = {E.COMMIT: "commit", E.ABORT: "abort", E.DETACH: "detach"}
        fresh = self.open and self.ending is None
        possible = {
            E.INIT: (self.ending is None and (not self.open or self.spoilt))
            or self.ending in ("init", "abort")
            or (self.ending == "commit" and self.unheard),
            E.BEGIN: self.has_id and not self.open and not self.gone and self.ending is None,
            E.ABORT: fresh or self.ending == "detach",
        }
        joins = event in going_on and self.ending == going_on[event]
        return not self.dead and (joins or possible.get(event, fresh and not self.spoilt))


class Lives(SwarmMachine):
    """A producer's calls, and what comes of them, in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.table = TransactionTable()
        self.reference = Reference()

    @rule(event=st.sampled_from(sorted(CALLS, key=lambda event: event.name)))
    def call(self, event: Event) -> None:
        """A user calls something."""
        reference = self.reference
        allowed = reference.allows(event)
        if not allowed:
            with pytest.raises(KafkaError):
                self.table.move(event)
            return
        self.table.move(event)
        if event is E.BEGIN:
            reference.open, reference.spoilt = True, False
        elif event is E.INIT:
            reference.ending, reference.open, reference.gone, reference.unheard = "init", False, False, False
        elif event in (E.COMMIT, E.ABORT, E.DETACH):
            reference.ending = event.name.lower()
            reference.unheard = False

    @rule(good=st.booleans())
    def the_coordinator_answers(self, *, good: bool) -> None:
        """The request in progress ends, and its caller gets the result."""
        reference = self.reference
        ending = reference.ending
        if reference.dead or ending is None or reference.unheard:
            return
        if ending == "init":
            self.table.move(E.INITIALIZED if good else E.NOT_INITIALIZED)
            reference.has_id, reference.ending = good, None
        elif good:
            self.table.move(E.HANDED_OVER if ending == "detach" else E.ENDED)
            reference.open, reference.ending, reference.gone = False, None, ending == "detach"
        elif ending in ("commit", "detach"):
            assert self.table.failed(DeliveryTimeoutError())
            reference.spoilt, reference.ending = True, None

    @rule()
    def a_record_fails(self) -> None:
        """It matters while a transaction is open that was not given up."""
        reference = self.reference
        matters = (
            reference.open and not reference.spoilt and reference.ending != "abort" and not reference.dead
        )
        error = DeliveryTimeoutError()
        assert self.table.failed(error) is matters
        # Told again: so that what followed can be done again, where it was interrupted.
        assert self.table.failed(error) is matters
        if matters:
            reference.spoilt, reference.ending, reference.unheard = True, None, False

    @rule()
    def who_waits_for_the_commit_goes_away(self) -> None:
        """No caller has seen the result."""
        reference = self.reference
        if reference.ending == "commit" and not reference.unheard and not reference.dead:
            self.table.move(E.LEFT_ALONE)
            reference.unheard = True

    @rule()
    def another_takes_over(self) -> None:
        """That is the end."""
        self.table.refused(ProducerFencedError())
        self.reference.dead = True


@in_parts
def test_lives_at_random(part: int) -> None:
    """The table allows what the reference does, in any order of events."""
    run(Lives, part)

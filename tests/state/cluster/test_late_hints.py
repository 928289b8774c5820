"""A leader hint that came while a question was under way, against an answer that knows better."""

from __future__ import annotations

import pytest

from aioproducer._state.cluster.metadata import LeaderHint, Update
from tests.state.cluster_answers import ID_A, ID_B, NO_ID, answer, applied, knowing, partition, topic


@pytest.mark.parametrize(("epoch", "leader"), [(6, 3), (8, 2)])
def test_the_newer_epoch_wins(epoch: int, leader: int) -> None:
    """The hint names broker 2, the answer that was under way names broker 3 at epoch 7: neither undoes a later election."""
    known = knowing(topic("t", [partition(0)]))
    known.refresh_needed(None, 1.0)
    known.due(1.0)
    known.leader_hints([LeaderHint("t", 0, 2, epoch, None)])
    applied(known, answer(topic("t", [partition(0, 3, 7)])), 1.1)
    facts = known.topic("t")
    assert facts is not None
    assert facts.partitions.leaders == (leader,)


@pytest.mark.parametrize(("asked_for", "believed"), [(ID_A, False), (ID_B, True), (NO_ID, True)])
def test_a_hint_is_about_the_topic_that_was_asked_for(asked_for: bytes, believed: bool) -> None:
    """A topic that was made anew has elections of its own: those of the former one outdo none of them."""
    known = knowing(topic("t", [partition(0)], ID_B))
    assert (known.leader_hints([LeaderHint("t", 0, 2, 99, None, asked_for)]) != Update()) is believed

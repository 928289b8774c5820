"""The metadata view: the topics and leaders that it knows, and keeps."""

from __future__ import annotations

import math

import pytest

from aioproducer._state.cluster.metadata import LeaderHint, MetadataView, Node, Update
from aioproducer._state.cluster.topic_reading import SLICE
from aioproducer._wire.messages.metadata import MetadataResponse
from tests.state.cluster_answers import (
    ID_A,
    ID_B,
    MAX_AGE,
    MAX_IDLE,
    NO_ID,
    Middle,
    answer,
    applied,
    knowing,
    partition,
    topic,
    view,
)


def leaders(known: MetadataView, name: str = "t") -> tuple[int, ...]:
    facts = known.topic(name)
    assert facts is not None
    return facts.partitions.leaders


def again(known: MetadataView, response: MetadataResponse, now: float) -> Update:
    """Ask about everything because of an error, and take in the answer."""
    known.refresh_needed(None, now)
    assert known.due(now) is not None
    return applied(known, response, now)


# -- first answers


def test_a_wanted_topic_is_learned() -> None:
    """The answer to a first question makes the topic, its partitions and the brokers known."""
    known = view()
    known.want("t", 0.0)
    question = known.due(0.0)
    assert question is not None
    assert question.topics == ("t",)
    update = applied(known, answer(topic("t", [partition(1, leader=2), partition(0)])), 0.0)
    assert update == Update(topics_learned=("t",), nodes_changed=True)
    facts = known.topic("t")
    assert facts is not None
    assert facts.topic_id == ID_A
    assert [row.partition for row in facts.partitions] == [0, 1]
    assert facts.partitions[1]._asdict() == {
        "partition": 1,
        "leader": 2,
        "leader_epoch": 5,
        "replicas": (1, 2),
        "in_sync": (1,),
        "offline": (2,),
    }
    assert known.brokers.node(3) == Node(3, "host-3", 9092, None)
    assert [node.id for node in known.brokers.nodes] == [1, 2, 3]


def test_what_nobody_wants_is_not_kept() -> None:
    """An answer about other topics, or about one without a name, leaves no trace of them."""
    known = view()
    known.want("t", 0.0)
    known.due(0.0)
    update = applied(known, answer(topic("t", [partition(0)]), topic("u", [partition(0)]), topic(None)), 0.0)
    assert update.topics_learned == ("t",)
    assert known.topic("u") is None


def test_nothing_new_changes_nothing() -> None:
    """The same answer again is no change, and keeps the very same facts."""
    same = topic("t", [partition(0), partition(1)])
    known = knowing(same)
    facts = known.topic("t")
    assert again(known, answer(same), 1.0) == Update()
    assert known.topic("t") is facts


# -- leaders and epochs


def test_a_new_leader_is_reported() -> None:
    """Only the partitions whose leader is another one are named."""
    known = knowing(topic("t", [partition(0), partition(1)]))
    update = again(known, answer(topic("t", [partition(0, epoch=6), partition(1, leader=2, epoch=6)])), 1.0)
    assert update == Update(leaders_changed=(("t", 1, 2),))
    assert leaders(known) == (1, 2)


def test_a_leader_epoch_never_goes_back() -> None:
    """A broker that lags behind names an old leader under an old epoch: the newer one stays."""
    known = knowing(topic("t", [partition(0, leader=2, epoch=7)]))
    assert again(known, answer(topic("t", [partition(0, leader=1, epoch=6)])), 1.0) == Update()
    assert leaders(known) == (2,)


def test_an_answer_without_epochs_is_believed_but_does_not_lower_the_epoch() -> None:
    """Old brokers give no epoch (-1); what they say counts, and an older epoch after it still does not."""
    known = knowing(topic("t", [partition(0, leader=2, epoch=7)]))
    assert again(known, answer(topic("t", [partition(0, leader=3, epoch=-1)])), 1.0).leaders_changed
    assert leaders(known) == (3,)
    assert again(known, answer(topic("t", [partition(0, leader=1, epoch=6)])), 2.0) == Update()
    assert leaders(known) == (3,)


def test_a_partition_without_a_leader_is_asked_about_again_soon() -> None:
    """No leader is a fact (records wait), and a reason to ask about this topic after the backoff."""
    known = knowing(topic("t", [partition(0), partition(1)]), topic("u", [partition(0)]))
    update = again(
        known, answer(topic("t", [partition(0), partition(1, -1, 6)]), topic("u", [partition(0)])), 1.0
    )
    assert update.leaders_changed == (("t", 1, -1),)
    assert known.next_deadline() == pytest.approx(1.1)
    question = known.due(1.2)
    assert question is not None
    assert (question.topics, question.partial) == (("t",), True)


def test_asking_about_a_leader_gets_slower() -> None:
    """While no leader is found the question is repeated after 100, 200, 400, 800 and then 1000 ms."""
    leaderless = topic("t", [partition(0, leader=-1)])
    known = knowing(leaderless)
    now, waits = 0.0, []
    for _ in range(6):
        deadline = known.next_deadline()
        assert deadline is not None
        waits.append(deadline - now)
        now = deadline
        assert known.due(now) is not None
        applied(known, answer(leaderless), now)
    assert waits == pytest.approx([0.1, 0.2, 0.4, 0.8, 1.0, 1.0])


# -- hints of Produce answers, as KIP-951 has them


def test_a_newer_hint_moves_one_partition() -> None:
    """A Produce answer that names a newer leader is believed at once, for that partition only."""
    known = knowing(topic("t", [partition(0), partition(1)]))
    update = known.leader_hints([LeaderHint("t", 1, 2, 6, None)])
    assert update == Update(leaders_changed=(("t", 1, 2),))
    assert leaders(known) == (1, 2)


@pytest.mark.parametrize("epoch", [-1, 4, 5])
def test_a_hint_that_is_not_newer_is_nothing(epoch: int) -> None:
    """The same epoch or an older one brings nothing new."""
    known = knowing(topic("t", [partition(0)]))
    assert known.leader_hints([LeaderHint("t", 0, 2, epoch, Node(2, "other", 1))]) == Update()
    assert leaders(known) == (1,)
    assert known.brokers.node(2) == Node(2, "host-2", 9092)


def test_a_hint_brings_the_address_of_the_leader() -> None:
    """A leader that was not known before is reachable at the address that came with the hint."""
    known = knowing(topic("t", [partition(0)]))
    update = known.leader_hints([LeaderHint("t", 0, 9, 6, Node(9, "nine", 9092))])
    assert (update.leaders_changed, update.nodes_changed) == ((("t", 0, 9),), True)
    assert known.brokers.node(9) == Node(9, "nine", 9092)


@pytest.mark.parametrize("endpoint", [None, Node(8, "eight", 9092)])
def test_a_leader_that_cannot_be_reached_is_no_help(endpoint: Node | None) -> None:
    """A hint to a broker without an address is left alone."""
    known = knowing(topic("t", [partition(0)]))
    assert known.leader_hints([LeaderHint("t", 0, 9, 6, endpoint)]) == Update()
    assert leaders(known) == (1,)


@pytest.mark.parametrize(("name", "index", "leader"), [("u", 0, 2), ("t", 1, 2), ("t", -1, 2), ("t", 0, -1)])
def test_a_hint_about_nothing_known_is_nothing(name: str, index: int, leader: int) -> None:
    """Unknown topics, partitions and leaders in a hint have no effect."""
    known = knowing(topic("t", [partition(0)]))
    assert known.leader_hints([LeaderHint(name, index, leader, 99, None)]) == Update()


def test_an_older_answer_does_not_undo_a_hint() -> None:
    """A question asked before the hint is answered after it, with the old leader: the hint stays."""
    known = knowing(topic("t", [partition(0)]))
    known.refresh_needed(None, 1.0)
    known.due(1.0)
    known.leader_hints([LeaderHint("t", 0, 2, 6, None)])
    assert applied(known, answer(topic("t", [partition(0)])), 1.1) == Update()
    assert leaders(known) == (2,)


def test_a_hint_in_the_middle_of_a_large_answer_stays() -> None:
    """A hint that comes while an answer is being read in slices is kept when its topic is complete."""
    rows = [partition(index) for index in range(2 * SLICE)]
    known = knowing(topic("t", rows))
    known.refresh_needed(None, 1.0)
    known.due(1.0)
    reading = known.answering(answer(topic("t", [partition(i, 3, 6) for i in range(2 * SLICE)])), 1.1)
    next(reading)
    next(reading)
    known.leader_hints([LeaderHint("t", 7, 2, 9, None)])
    for _ in reading:
        pass
    assert (leaders(known)[6:9]) == (3, 2, 3)


# -- partitions


def test_new_partitions_are_reported() -> None:
    """A topic that grew says from how many to how many."""
    known = knowing(topic("t", [partition(0)]))
    update = again(known, answer(topic("t", [partition(0), partition(1), partition(2, 3)])), 1.0)
    assert update == Update(counts_changed=(("t", 1, 3),))
    assert leaders(known) == (1, 1, 3)


def test_partitions_do_not_go_away() -> None:
    """A broker that has not heard of the new partitions does not make them disappear."""
    known = knowing(topic("t", [partition(0), partition(1)]))
    assert again(known, answer(topic("t", [partition(0, 2, 6)])), 1.0).leaders_changed == (("t", 0, 2),)
    assert leaders(known) == (2, 1)


@pytest.mark.parametrize(
    ("indexes", "problem"),
    [([0, 2], "number 2"), ([0, 0], "0 twice"), ([0, -1], "number -1"), ([], "no partitions")],
)
@pytest.mark.parametrize("was_known", [True, False])
def test_an_answer_that_contradicts_itself_is_set_aside(
    indexes: list[int], problem: str, was_known: bool
) -> None:
    """Gaps, repeats and impossible numbers: known facts stay, the fault is reported, the question is repeated."""
    known = knowing(topic("t", [partition(0), partition(1)])) if was_known else view()
    known.want("t", 1.0)
    before = known.topic("t")
    update = again(known, answer(topic("t", [partition(index, 2, 9) for index in indexes])), 1.0)
    assert [name for name, _ in update.rejected] == ["t"]
    assert problem in update.rejected[0][1]
    assert known.topic("t") is before
    assert known.next_deadline() == pytest.approx(1.1)


def test_an_unknown_leader_leaves_its_partition_as_it_was() -> None:
    """A leader that is not in the list of brokers is not believed; the other partitions are."""
    known = knowing(topic("t", [partition(0), partition(1)]))
    update = again(known, answer(topic("t", [partition(0, 77, 6), partition(1, 2, 6)])), 1.0)
    assert "broker 77" in update.rejected[0][1]
    assert leaders(known) == (1, 2)
    assert known.due(1.2) is not None


def test_an_unknown_leader_of_a_new_topic_is_no_leader() -> None:
    """If nothing was known of the partition, it has no leader for now."""
    assert leaders(knowing(topic("t", [partition(0, 77), partition(1)]))) == (-1, 1)


# -- topics that go and come


@pytest.mark.parametrize("code", [3, 5, -1, 999])
def test_a_topic_that_is_missing_for_a_while_stays_known(code: int) -> None:
    """An error about a topic is reported and asked about again; known facts stay usable."""
    known = knowing(topic("t", [partition(0)]))
    update = again(known, answer(topic("t", error=code)), 1.0)
    assert update.topic_errors == (("t", code),)
    assert known.error_of("t") == code
    assert leaders(known) == (1,)
    assert known.next_deadline() == pytest.approx(1.1)
    known.due(1.1)
    assert applied(known, answer(topic("t", [partition(0)])), 1.1) == Update()
    assert known.error_of("t") is None


def test_a_topic_that_the_answer_leaves_out_counts_as_unknown() -> None:
    """Silence about a topic that was asked for is the error UNKNOWN_TOPIC_OR_PARTITION."""
    known = knowing(topic("t", [partition(0)]))
    assert again(known, answer(), 1.0).topic_errors == (("t", 3),)
    assert leaders(known) == (1,)


@pytest.mark.parametrize("code", [17, 29])
def test_a_refused_topic_is_asked_about_only_when_wanted_again(code: int) -> None:
    """A missing permission or an invalid name is permanent: no question until the topic is wanted again."""
    known = knowing(topic("t", error=code))
    assert known.error_of("t") == code
    assert known.next_deadline() == pytest.approx(MAX_AGE)
    known.want("t", 50.0)
    question = known.due(50.0)
    assert question is not None
    assert question.topics == ("t",)


def test_sends_to_a_refused_topic_are_no_storm() -> None:
    """A loop of sends to a topic without rights asks at the pace of the backoff, and tells the refusal each time."""
    known = knowing(topic("t", error=29))
    now, asked = 0.0, 0
    while now < 10.0:
        known.want("t", now)
        if known.due(now):
            asked += 1
            assert applied(known, answer(topic("t", error=29)), now).topic_errors == (("t", 29),)
        now += 0.01
    assert asked <= 13


def test_a_recreated_topic_starts_anew() -> None:
    """Another topic id: lower epochs and fewer partitions are believed, and the topic is named."""
    known = knowing(topic("t", [partition(0, 2, 9), partition(1, 2, 9)]))
    update = again(known, answer(topic("t", [partition(0, 1, 0)], ID_B)), 1.0)
    assert update == Update(topics_recreated=("t",))
    facts = known.topic("t")
    assert facts is not None
    assert (facts.topic_id, facts.partitions.leaders, facts.partitions.leader_epochs) == (ID_B, (1,), (0,))


def test_a_deleted_topic_does_not_come_back() -> None:
    """A broker that has not heard of the deletion still gives the old id: not believed."""
    known = knowing(topic("t", [partition(0)]))
    again(known, answer(topic("t", [partition(0, 2, 0)], ID_B)), 1.0)
    update = again(known, answer(topic("t", [partition(0, 1, 99)], ID_A)), 2.0)
    assert update.topics_recreated == ()
    assert "deleted before" in update.rejected[0][1]
    assert leaders(known) == (2,)


def test_a_mistake_about_topic_ids_heals() -> None:
    """An id that was taken for an old one is believed after a minute, when no broker lags behind any more."""
    known = knowing(topic("t", [partition(0)], ID_B))
    again(known, answer(topic("t", [partition(0)], ID_A)), 1.0)
    assert again(known, answer(topic("t", [partition(0)], ID_B)), 60.9).rejected
    assert again(known, answer(topic("t", [partition(0)], ID_B)), 62.0).topics_recreated == ("t",)


def test_an_answer_from_the_past_is_found_out_when_its_id_is_refused() -> None:
    """A leader does not know the topic by that id: two answers with the former one are enough then."""
    known = knowing(topic("t", [partition(0)], ID_B))
    again(known, answer(topic("t", [partition(0)], ID_A)), 1.0)
    known.id_refused("t", ID_B)
    assert again(known, answer(topic("t", [partition(0)], ID_B)), 2.0).rejected
    known.id_refused("t", ID_A)
    assert again(known, answer(topic("t", [partition(0)], ID_B)), 3.0).rejected
    assert again(known, answer(topic("t", [partition(0)], ID_A)), 4.0) == Update()
    assert again(known, answer(topic("t", [partition(0)], ID_B)), 5.0).rejected
    known.id_refused("t", ID_A)
    assert again(known, answer(topic("t", [partition(0)], ID_B)), 6.0).rejected
    assert again(known, answer(topic("t", [partition(0)], ID_B)), 7.0).topics_recreated == ("t",)


def test_an_answer_without_topic_ids_says_nothing_about_the_id() -> None:
    """During a rolling upgrade old brokers answer without an id; the known one stays, and a first one is learned."""
    known = knowing(topic("t", [partition(0)], NO_ID))
    assert again(known, answer(topic("t", [partition(0)], ID_A)), 1.0) == Update()
    assert again(known, answer(topic("t", [partition(0)], NO_ID)), 2.0) == Update()
    facts = known.topic("t")
    assert facts is not None
    assert facts.topic_id == ID_A


def test_without_ids_a_topic_that_was_missing_may_have_lower_epochs() -> None:
    """Old brokers cannot say that a topic was recreated: after it was missing, its epochs start anew."""
    known = knowing(topic("t", [partition(0, 2, 9)], NO_ID))
    again(known, answer(topic("t", error=3)), 1.0)
    update = again(known, answer(topic("t", [partition(0, 1, 0)], NO_ID)), 2.0)
    assert update == Update(leaders_changed=(("t", 0, 1),))
    assert again(known, answer(topic("t", [partition(0, 3, 1)], NO_ID)), 3.0).leaders_changed
    assert again(known, answer(topic("t", [partition(0, 2, 0)], NO_ID)), 4.0) == Update()


def test_without_ids_lower_epochs_are_believed_when_the_leader_fails_for_long() -> None:
    """Another leader is named again and again, and the known one fails: its epoch is that of a former topic."""
    known = knowing(topic("t", [partition(0, 2, 9)], NO_ID))
    told = answer(topic("t", [partition(0, 1, 0)], NO_ID))
    again(known, told, 1.0)
    known.leader_failed("t")
    for now in (2.0, 3.5):
        assert again(known, told, now) == Update()
    assert again(known, told, 5.0) == Update(leaders_changed=(("t", 0, 1),))
    # From now on it is as before: an answer from the past is not believed.
    assert again(known, answer(topic("t", [partition(0, 3, 1)], NO_ID)), 13.0).leaders_changed
    assert again(known, told, 30.0) == Update()


def test_lower_epochs_are_not_believed_while_the_leader_is_well() -> None:
    """A broker lags behind for long, and nothing is wrong with the leader that is known."""
    known = knowing(topic("t", [partition(0, 2, 9)], NO_ID))
    known.leader_failed("t")
    again(known, answer(topic("t", [partition(0, 2, 9)], NO_ID)), 1.0)
    for now in (2.0, 10.0, 60.0):
        assert again(known, answer(topic("t", [partition(0, 1, 8)], NO_ID)), now) == Update()


def test_an_answer_that_agrees_ends_the_doubt() -> None:
    """Brokers hear of an election one by one: it is the newer epoch that holds."""
    known = knowing(topic("t", [partition(0, 2, 9)], NO_ID))
    known.leader_failed("t")
    for now in range(1, 40):
        agrees = now % 3 == 0
        told = partition(0, 2, 9) if agrees else partition(0, 1, 8)
        assert again(known, answer(topic("t", [told], NO_ID)), float(now)) == Update()
        known.leader_failed("t")


def test_a_broker_that_cannot_be_reached_fails_all_that_it_leads() -> None:
    """Of its topics older epochs are believed after a while, and of no others."""
    known = knowing(topic("t", [partition(0, 2, 9)], NO_ID), topic("u", [partition(0, 3, 9)], NO_ID))
    known.broker_failed(2)
    told = answer(topic("t", [partition(0, 1, 0)], NO_ID), topic("u", [partition(0, 1, 0)], NO_ID))
    again(known, told, 1.0)
    assert again(known, told, 4.0) == Update(leaders_changed=(("t", 0, 1),))


def test_without_ids_fewer_partitions_are_believed_when_a_leader_fails_for_long() -> None:
    """Another topic of the name has fewer partitions: records for the others would fail without end."""
    known = knowing(topic("t", [partition(0), partition(1), partition(2)], NO_ID))
    told = answer(topic("t", [partition(0)], NO_ID))
    again(known, told, 1.0)
    known.leader_failed("t")
    for now in (2.0, 3.5):
        assert again(known, told, now) == Update()
    assert leaders(known) == (1, 1, 1)
    assert again(known, told, 5.0) == Update(counts_changed=(("t", 3, 1),))
    assert leaders(known) == (1,)
    # The answer that changed the count does not confirm it; the next one does.
    assert known.confirmed_at("t") == -math.inf
    again(known, told, 13.0)
    assert known.confirmed_at("t") == 13.0
    # Partitions that are added later are believed at once.
    more = answer(topic("t", [partition(0), partition(1)], NO_ID))
    assert again(known, more, 30.0) == Update(counts_changed=(("t", 1, 2),))


def test_fewer_partitions_are_not_believed_while_an_answer_lists_all() -> None:
    """A broker has not learned of the added partitions yet, and another has; a leader fails meanwhile."""
    known = knowing(topic("t", [partition(0), partition(1)], NO_ID))
    for now in range(1, 40):
        known.leader_failed("t")
        told = [partition(0), partition(1)] if now % 3 == 0 else [partition(0)]
        assert again(known, answer(topic("t", told, NO_ID)), float(now)) == Update()


def test_with_an_id_fewer_partitions_are_never_believed() -> None:
    """The id says that it is still the same topic, which never loses partitions."""
    known = knowing(topic("t", [partition(0), partition(1)]))
    for now in (1.0, 3.0, 10.0, 60.0):
        known.leader_failed("t")
        assert again(known, answer(topic("t", [partition(0)])), now) == Update()


def test_a_hint_about_a_partition_that_the_topic_no_longer_has() -> None:
    """It came while the question was under way whose answer has fewer partitions."""
    known = knowing(topic("t", [partition(0), partition(1)], NO_ID))
    again(known, answer(topic("t", error=3)), 1.0)
    known.refresh_needed(None, 2.0)
    assert known.due(2.0) is not None
    assert known.leader_hints([LeaderHint("t", 1, 2, 9, None)]).leaders_changed
    told = answer(topic("t", [partition(0)], NO_ID))
    assert applied(known, told, 2.0) == Update(counts_changed=(("t", 2, 1),))


def test_with_an_id_lower_epochs_are_never_believed() -> None:
    """The id says that it is still the same topic: brokers lag behind, however long and whatever fails."""
    known = knowing(topic("t", [partition(0, 2, 9)]))
    for now in (1.0, 3.0, 10.0, 60.0):
        known.leader_failed("t")
        assert again(known, answer(topic("t", [partition(0, 1, 8)])), now) == Update()


# -- answers that are none


@pytest.mark.parametrize("response", [answer(brokers=()), answer(error=-1), answer(brokers=(-5,))])
def test_an_answer_without_brokers_is_a_failure(response: MetadataResponse) -> None:
    """Nothing is learned, nothing forgotten, and the question comes again after the backoff."""
    known = knowing(topic("t", [partition(0)]))
    update = again(known, response, 1.0)
    assert update.unusable
    assert len(known.brokers.nodes) == 3
    assert known.due(1.05) is None
    assert known.due(1.1) is not None


def test_a_broker_can_send_everybody_back_to_the_start() -> None:
    """REBOOTSTRAP_REQUIRED: told at once; then the brokers are forgotten and the topics are not."""
    known = knowing(topic("t", [partition(0)]))
    assert again(known, answer(error=129), 1.0).rebootstrap
    assert known.rebootstrap_due(1.0)
    known.rebootstrapped(1.0)
    assert not known.rebootstrap_due(1.0)
    assert known.brokers.nodes == ()
    assert known.brokers.node(1) is None
    assert leaders(known) == (1,)
    question = known.due(1.2)
    assert question is not None
    assert not question.partial


def test_without_rebootstrap_the_error_is_only_a_failure() -> None:
    """Where starting again is switched off, REBOOTSTRAP_REQUIRED is like any other error."""
    known = view(rebootstrap_after=None)
    known.due(0.0)
    update = applied(known, answer(error=129), 0.0)
    assert (bool(update.unusable), update.rebootstrap, known.rebootstrap_due(1e9)) == (True, False, False)


# -- brokers


def test_a_broker_may_move() -> None:
    """The same id at another address is a change of the brokers."""
    known = knowing(topic("t", [partition(0)]))
    moved = answer(topic("t", [partition(0)]))._replace(brokers=[(answer().brokers[0])._replace(port=1)])
    assert again(known, moved, 1.0) == Update(nodes_changed=True)
    assert known.brokers.node(1) == Node(1, "host-1", 1)


def test_a_leader_that_an_answer_leaves_out_is_still_reachable() -> None:
    """A broker that lags behind does not know the newest one: what it leads can still be sent to it."""
    known = knowing(topic("t", [partition(0, leader=3, epoch=9)]))
    again(known, answer(topic("t", [partition(0, 1, 8)]), brokers=(1, 2)), 1.0)
    assert leaders(known) == (3,)
    assert [node.id for node in known.brokers.nodes] == [1, 2]
    assert known.brokers.node(3) == Node(3, "host-3", 9092)


def test_made_up_brokers_do_not_fill_the_memory() -> None:
    """Answers with ever new ids leave a bounded number of brokers behind."""
    known = knowing(topic("t", [partition(0)]))
    for now in range(1, 40):
        again(
            known, answer(topic("t", [partition(0)]), brokers=range(now * 1000, now * 1000 + 50)), float(now)
        )
    assert sum(known.brokers.node(id_) is not None for id_ in range(50_000)) <= 150


# -- dropping


def test_an_idle_topic_is_dropped() -> None:
    """A topic without use for the idle time is forgotten; one that was used in time stays."""
    known = knowing(topic("t", [partition(0)]), topic("u", [partition(0)]))
    known.touch("u", 100.0)
    known.touch("u", 50.0)
    assert known.expire(MAX_IDLE) == ("t",)
    assert (known.topic("t"), known.error_of("t")) == (None, None)
    assert known.topic("u") is not None
    assert known.expire(MAX_IDLE + 99.0) == ()
    assert known.expire(MAX_IDLE + 100.0) == ("u",)


def test_a_topic_in_use_is_not_dropped() -> None:
    """Records that wait for a topic keep it, for another idle time."""
    known = knowing(topic("t", [partition(0)]))
    assert known.expire(MAX_IDLE, in_use={"t"}) == ()
    assert known.expire(2 * MAX_IDLE - 1.0) == ()
    assert known.expire(2 * MAX_IDLE) == ("t",)


def test_an_answer_about_a_topic_that_was_dropped_meanwhile_is_ignored() -> None:
    """Dropping a topic while its question is under way, or while its answer is read, is final."""
    known = view()
    known.want("t", 0.0)
    known.due(0.0)
    reading = known.answering(answer(topic("t", [partition(index) for index in range(2 * SLICE)])), 0.0)
    next(reading)
    assert known.expire(MAX_IDLE) == ("t",)
    for _ in reading:
        pass
    assert known.topic("t") is None
    known.refresh_needed(["t"], MAX_IDLE + 1.0)
    assert known.due(MAX_IDLE + 1.0) is not None


# -- large answers


def test_a_large_answer_is_read_in_slices() -> None:
    """There is a pause at least every few thousand partitions, and known facts stay until a topic is complete."""
    known = knowing(topic("t", [partition(0)]), topic("u", [partition(0)]))
    known.refresh_needed(None, 1.0)
    known.due(1.0)
    rows = [partition(index) for index in range(10 * SLICE)]
    reading = known.answering(answer(topic("t", rows), topic("u", rows)), 1.0)
    pauses = 0
    for _ in reading:
        pauses += 1
        assert len(leaders(known)) in (1, 10 * SLICE)
    assert pauses >= 20
    assert len(leaders(known)) == len(leaders(known, "u")) == 10 * SLICE


def test_many_small_topics_are_read_in_slices_too() -> None:
    """Pauses come by the number of partitions, however they are spread over topics."""
    topics = [topic(f"t{index}", [partition(0), partition(1)]) for index in range(2 * SLICE)]
    known = view()
    for each in topics:
        known.want(each.name or "", 0.0)
    known.due(0.0)
    assert sum(1 for _ in known.answering(answer(*topics), 0.0)) == 4


def test_an_abandoned_answer_is_a_failure() -> None:
    """A caller that stops reading reports it, and the question comes again."""
    known = view()
    known.want("t", 0.0)
    known.due(0.0)
    reading = known.answering(answer(topic("t", [partition(index) for index in range(2 * SLICE)])), 0.0)
    next(reading)
    reading.close()
    known.failed(0.0, Middle())
    assert known.topic("t") is None
    assert known.due(0.1) is not None


def test_the_view_says_what_it_is_doing() -> None:
    """`repr` tells how much is known, and whether a question is under way."""
    known = knowing(topic("t", [partition(0)]))
    assert repr(known) == "<MetadataView 1 of 1 topics, 3 brokers, not asking>"
    known.want("u", 1.0)
    known.due(1.0)
    assert repr(known) == "<MetadataView 1 of 2 topics, 3 brokers, asking about 1 topics>"

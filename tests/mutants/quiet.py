"""Mutants of quiet times: leaders that forget, topics that are remade, answers from the past, partitions that are gone."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Mutant

_STRANGERS: Final = "tests/state/test_strangers.py"
_SEQUENCES: Final = "tests/state/test_transactional_sequences.py"
_QUIET: Final = "tests/scenarios/test_quiet_times.py"

QUIET: Final = (
    Mutant(
        name="silent-leader-taken-to-know-the-producer",
        kind="order",
        file="_state/sequences.py",
        line="    return now - queue.confirmed_at < CONFIRMED_FOR",
        instead="    return queue.confirmed_at > NEVER",
        bug="A leader has forgotten a silent producer, refuses the first of two batches and takes the second.",
        by=(_STRANGERS,),
    ),
    Mutant(
        name="written-again-into-the-present-topic",
        kind="truth",
        file="_state/settlement.py",
        line="    return batch.dirty and _was_sent_to_the_former_topic(batch)",
        instead="    return False",
        bug="A batch without an answer is sent again after one metadata answer told of another topic id.",
        by=(_STRANGERS,),
    ),
    Mutant(
        name="remade-topic-is-not-told-to-settlement",
        kind="truth",
        file="_net/cluster.py",
        line="        if learned.remade:",
        instead="        if False:",
        bug="Batches that may be in a topic that was deleted wait, and go to the topic that took its name.",
        by=(f"{_QUIET}::test_one_metadata_answer_from_the_past",),
    ),
    Mutant(
        name="transactional-count-begins-again",
        kind="identity",
        file="_state/coordinated_identity.py",
        line="        queue.confirmed_at = NEVER",
        instead="        queue.confirmed_at, queue.identity = NEVER, None",
        bug="A topic seems to be remade, and numbers of the epoch are given twice: records are acknowledged and not written.",
        by=(_SEQUENCES,),
    ),
    Mutant(
        name="transactional-count-is-forgotten",
        kind="identity",
        file="_state/coordinated_identity.py",
        line="        return self._identity is not None and queue.identity == self._identity",
        instead="        return False",
        bug="A topic idles out inside an epoch of a transactional producer, and its numbers begin at 0 again.",
        by=(_SEQUENCES,),
    ),
    Mutant(
        name="forgotten-without-a-count",
        kind="identity",
        file="_state/own_identity.py",
        line="        if any(queue.identity == self._identity for queue in queues):",
        instead="        if True:",
        bug="A topic that was only looked at idles out, and the epoch is raised for nothing.",
        by=("tests/state/test_sequences.py::test_a_topic_that_was_only_looked_at_costs_no_epoch",),
    ),
    Mutant(
        name="two-queues-for-a-partition-that-comes-back",
        kind="identity",
        file="_state/accumulator.py",
        line="topic.gone.get(index) or PartitionQueue(",
        instead="PartitionQueue(",
        bug="A partition goes and comes back, and its count begins at 0 while the former queue still holds records.",
        by=("tests/state/test_sequences.py",),
    ),
    Mutant(
        name="calls-wait-for-a-partition-that-is-gone",
        kind="waking",
        file="_net/cluster.py",
        line="        if learned.gone:",
        instead="        if False:",
        bug="A call waits for memory of a partition that is gone, and holds up every call to that broker.",
        by=(f"{_QUIET}::test_a_call_waits_for_memory_of_a_partition_that_is_gone",),
    ),
    Mutant(
        name="offsets-of-the-former-topic-count",
        kind="truth",
        file="_state/settlement.py",
        line="        if _was_sent_to_the_former_topic(batch):\n            return\n        # A batch",
        instead="        # A batch",
        bug="An answer from the former topic makes the offsets of the present one look like a loss of data.",
        by=(_STRANGERS,),
    ),
    Mutant(
        name="answer-from-the-past-believed-for-a-minute",
        kind="metadata",
        file="_state/questions.py",
        line="        return self.former_told < TOLD_OFTEN_ENOUGH",
        instead="        return True",
        bug="One answer from a broker that lags behind keeps a topic out of use for a minute.",
        by=("tests/state/test_metadata.py",),
    ),
)

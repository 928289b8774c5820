"""The mutants of quiet times: leaders that forget, topics created anew, old answers, deleted partitions."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Kind

_QUIET_TIMES: Final = "tests/scenarios/test_quiet_times.py"
_SEQUENCES: Final = "tests/state/batching/test_sequences.py"
_STRANGERS: Final = "tests/state/batching/test_strangers.py"
_TRANSACTIONAL_SEQUENCES: Final = "tests/state/identity/test_transactional_sequences.py"

_order = Kind("order")
_truth = Kind("truth")
_identity = Kind("identity")
_waking = Kind("waking")
_metadata = Kind("metadata")

QUIET: Final = (
    _order(
        "silent-leader-taken-to-know-the-producer",
        "_state/identity/sequences.py",
        "    return now - queue.confirmed_at < CONFIRMED_FOR",
        "    return queue.confirmed_at > NEVER",
        "A leader has forgotten a silent producer, refuses the first of two batches and takes the second.",
        _STRANGERS,
    ),
    _truth(
        "written-again-into-the-present-topic",
        "_state/delivery/former_topic.py",
        "    return batch.dirty and was_sent_to_the_former_topic(batch)",
        "    return False",
        "A batch without an answer is sent again after one metadata answer with another topic id.",
        _STRANGERS,
    ),
    _truth(
        "parts-written-again-into-the-present-topic",
        "_state/delivery/settlement.py",
        "        if may_be_in_the_former_topic(batch):\n            # An earlier",
        "        if False:\n            # An earlier",
        "The former topic finds a repetition too large, and the parts of a batch that it may have are sent to the present one.",
        f"{_STRANGERS}::test_the_parts_of_what_may_be_in_the_former_topic_are_not_sent_to_the_present_one",
    ),
    _truth(
        "batch-without-a-number-repeated-in-the-present-topic",
        "_state/delivery/endings.py",
        "            for batch in dict.fromkeys((*queue.sent, *queue.queue)):",
        "            for batch in list(queue.sent):",
        "Without idempotence a batch in doubt waits for its repetition, and is sent to the topic that was created anew meanwhile.",
        f"{_STRANGERS}::test_without_idempotence_what_may_be_in_the_former_topic_is_not_sent_to_the_present_one_either",
    ),
    _truth(
        "settlement-misses-a-recreated-topic",
        "_state/machines.py",
        "        if learned.remade:",
        "        if False:",
        "Batches that may be in a topic that was deleted wait, and go to the topic that took its name.",
        "tests/scenarios/test_d_cluster.py::test_d09_a_topic_is_deleted_and_made_again",
    ),
    _identity(
        "transactional-count-begins-again",
        "_state/identity/coordinated.py",
        "        super().remade(queue)",
        "        super().remade(queue)\n        queue.identity = None",
        "A topic seems to be created anew, and sequence numbers of the epoch are given twice: records are acknowledged and not written.",
        _TRANSACTIONAL_SEQUENCES,
    ),
    _identity(
        "transactional-count-is-forgotten",
        "_state/identity/coordinated.py",
        "        return self._identity is not None and queue.identity == self._identity",
        "        return False",
        "A topic idles out inside an epoch of a transactional producer, and its numbers begin at 0 again.",
        _TRANSACTIONAL_SEQUENCES,
    ),
    _identity(
        "forgotten-without-a-count",
        "_state/identity/own.py",
        "        if any(queue.identity == self._identity for queue in queues):",
        "        if True:",
        "A topic whose metadata alone was used idles out, and the epoch is raised for nothing.",
        f"{_SEQUENCES}::test_a_topic_that_was_only_looked_at_costs_no_epoch",
    ),
    _identity(
        "two-queues-for-a-partition-that-comes-back",
        "_state/batching/cluster_queues.py",
        "        more = [back.get(index) for index in known]",
        "        more = [None for index in known]",
        "A partition disappears and returns, and its count begins at 0 while the former queue still holds records.",
        _SEQUENCES,
    ),
    _waking(
        "calls-wait-for-a-partition-that-is-gone",
        "_state/machines.py",
        "        if learned.gone:",
        "        if False:",
        "A call waits for memory of a deleted partition, and holds up every call to that broker.",
        f"{_QUIET_TIMES}::test_a_call_waits_for_memory_of_a_partition_that_is_gone",
    ),
    _truth(
        "offsets-of-the-former-topic-count",
        "_core/ordinary_settling.pxi",
        "        if batch.sent_to != queue.topic.topic_id and self._was_sent_to_the_former_topic(batch):\n"
        "            return 0\n",
        "",
        "An answer from the former topic makes the offsets of the present one look like a loss of data.",
        _STRANGERS,
    ),
    _metadata(
        "answer-from-the-past-believed-for-a-minute",
        "_state/cluster/questions.py",
        "        return self.former_answers < ANSWERS_TO_BELIEVE",
        "        return True",
        "One answer from a broker that lags behind keeps a topic out of use for a minute.",
        "tests/state/cluster/test_metadata.py",
    ),
    _identity(
        "the-client-raises-a-transactional-epoch",
        "_state/identity/coordinated.py",
        '        """Nothing is lost: the counts of the present epoch are kept (`must_keep`)."""\n',
        "        producer_id, epoch = self._identity or (-1, -1)\n        self._identity = (producer_id, epoch + 1)\n",
        "A topic idles out, the client raises the epoch of a transactional producer by itself, and takes itself for fenced.",
        f"{_QUIET_TIMES}::test_a_transactional_producer_survives_a_quiet_time",
    ),
    _order(
        "calls-of-a-vanished-partition-go-to-the-end",
        "_state/admission/lines.py",
        "        self.topic_lines.setdefault(call.topic, Line()).calls.appendleft(call)",
        "        self.topic_lines.setdefault(call.topic, Line()).calls.append(call)",
        "Calls that waited for memory of a deleted partition come behind later calls.",
        "tests/state/admission/test_moving_lines.py",
    ),
    _waking(
        "bulk-waits-for-a-partition-that-is-gone",
        "_state/admission/bulk.py",
        "        admission.calls.end(self)\n        self.whole.alone = None",
        "        admission.calls.end(self)",
        "A bulk send goes on waiting for memory of a deleted partition.",
        f"{_QUIET_TIMES}::test_a_call_waits_for_memory_of_a_partition_that_is_gone",
    ),
)

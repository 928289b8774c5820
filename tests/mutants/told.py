"""The mutants of what a user is told: errors that do not say what is wrong, and waits that cannot help."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Kind

_MISSING: Final = "tests/scenarios/test_g_missing.py"
_CALLS: Final = "tests/net/test_missing_topics.py"
_CLOSING: Final = "tests/simulation/test_long_closing.py"

_mutant = Kind("telling")

TOLD: Final = (
    _mutant(
        "missing-topic-without-a-cause",
        "_net/snapshot.py",
        "        return said_of_topic(code)\n",
        "        return None\n",
        "A topic that does not exist ends as the same time-out as a cluster that is dead (Java, and this library before).",
        _MISSING,
    ),
    _mutant(
        "dead-cluster-taken-for-a-missing-topic",
        "_net/snapshot.py",
        "    if engine.view.failing:",
        "    if False:",
        "The brokers' last word on a topic is given as the reason, though all of them have died since.",
        _MISSING,
    ),
    _mutant(
        "missing-topic-told-each-time",
        "_state/metadata.py",
        "        if interest.error is not None and interest.told_at is None and _may_pass(code):",
        "        if interest.error is not None:",
        "Each metadata answer about a topic that is not there is a line in the log (Java).",
        _MISSING,
    ),
    _mutant(
        "created-topic-told-as-missing",
        "_state/metadata.py",
        "        if interest.error is not None and interest.told_at is None and _may_pass(code):",
        "        if interest.told_at is None and _may_pass(code):",
        "Each topic that the brokers create by themselves begins with a warning (Java).",
        _MISSING,
    ),
    _mutant(
        "missing-partition-waited-for",
        "_state/admission.py",
        "        if partition is None or self.confirmed_at(call.topic) < call.asked_at + PROPAGATION:",
        "        if True:",
        "A record for a partition that does not exist holds up its topic for max_block, a minute (Java, and this library before).",
        _MISSING,
    ),
    _mutant(
        "missing-partition-by-the-first-answer",
        "_state/admission.py",
        "self.confirmed_at(call.topic) < call.asked_at + PROPAGATION:",
        "self.confirmed_at(call.topic) < call.asked_at:",
        "A partition that was just added is refused, as one broker has not heard of it yet.",
        _MISSING,
    ),
    _mutant(
        "missing-partition-by-an-old-question",
        "_state/metadata.py",
        "            interest.confirmed_at = self._questions.asked_at if reading.confirms else -math.inf",
        "            interest.confirmed_at = now if reading.confirms else -math.inf",
        "The answer to a question that was asked before the partition was added counts as one of now.",
        _MISSING,
    ),
    _mutant(
        "missing-partition-ends-a-bulk-send",
        "_state/bulk.py",
        "                error = admission.missing_partition(self, queues, now)",
        "                error = None",
        "One record of a bulk send for a partition that does not exist holds up all that follow it for max_block.",
        f"{_CALLS}::test_partition_of_bulk_sends",
    ),
    _mutant(
        "broker-refusal-not-called-too-large",
        "_state/settlement.py",
        "            error = refused_as_too_large(error, batch.plain_size or batch.size)",
        "            pass",
        "Who catches RecordTooLargeError misses the records that only the broker finds too large.",
        "tests/state/test_settlement.py",
    ),
    _mutant(
        "calls-not-seen-as-coroutine-functions",
        "_core/accept_coroutines.pxi",
        "co_flags=code.co_flags | CO_COROUTINE",
        "co_flags=code.co_flags",
        "AsyncMock(spec=Producer) has a send() that cannot be awaited.",
        "tests/api/test_specs.py",
    ),
    _mutant(
        "doubtful-record-called-too-large",
        "_state/settlement.py",
        "        if decided.kind is Kind.SPLIT and error.outcome is Outcome.NOT_WRITTEN:",
        "        if decided.kind is Kind.SPLIT:",
        "A record that may be in the log ends with an error that everybody takes for not written.",
        "tests/state/test_settlement.py",
    ),
    _mutant(
        "records-lost-at-closing-without-a-cause",
        "_state/settlement.py",
        "                cause=cause or batch.last_error or self.trouble_with(batch.queue.node.node_id),\n",
        "                cause=cause or batch.last_error,\n",
        "close() ran out of time, and no delivery says that its broker could not be reached.",
        _CLOSING,
    ),
    _mutant(
        "closing-takes-no-leader-for-a-broker",
        "_net/closing.py",
        "        if broker == NO_LEADER:\n            yield",
        "        if False:\n            yield",
        "Records without a leader are said to wait for broker -1.",
        _CLOSING,
    ),
)

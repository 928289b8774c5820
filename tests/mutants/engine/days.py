"""The mutants of quiet days: brokers forget unused state, and the producer fails by it."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Kind

_FORGOTTEN: Final = "tests/simulation/transactions/test_forgotten_ids.py"
_LATE: Final = "tests/simulation/transactions/test_late_ends.py"
_STANDING: Final = "tests/state/identity/test_standing.py"

_mutant = Kind("days")

DAYS: Final = (
    _mutant(
        "a-forgotten-id-is-the-end",
        "_state/transactions/coordinator_verdicts.py",
        "        ErrorCode.UNSUPPORTED_VERSION,\n        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,\n",
        "        ErrorCode.UNSUPPORTED_VERSION,\n        ErrorCode.INVALID_PRODUCER_ID_MAPPING,\n        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,\n",
        "A transactional id that was not used for a week is forgotten by its coordinator, and its producer ends for good.",
        _FORGOTTEN,
    ),
    _mutant(
        "a-forgotten-id-is-kept",
        "_state/transactions/parts.py",
        "(self.partitions or self.groups or self.in_doubt or self.forgotten)",
        "(self.partitions or self.groups or self.in_doubt)",
        "AddPartitionsToTxn is refused because the id is forgotten, and the coordinator is not asked for a new one: each transaction fails.",
        _FORGOTTEN,
    ),
    _mutant(
        "fenced-by-its-own-commit",
        "_state/transactions/dialogues/end_attempts.py",
        "    passes = answers_later(looked) if looked else standing.passes(code, identity)",
        "    passes = answers_later(looked)",
        "An abort or a new epoch is requested while the markers of the commit before are written: Kafka's PRODUCER_FENCED is believed.",
        _LATE,
    ),
    _mutant(
        "fenced-by-a-coordinator-that-moves",
        "_state/transactions/dialogues/end_attempts.py",
        "    passes = answers_later(looked) if looked else standing.passes(code, identity)",
        "    passes = not looked and standing.passes(code, identity)",
        "An end is refused while markers are written, and the coordinator moves before it can give the reason: the refusal is believed.",
        _LATE,
    ),
    _mutant(
        "fenced-as-the-markers-are-complete",
        "_state/identity/standing.py",
        "            return code != ErrorCode.INVALID_PRODUCER_ID_MAPPING or self.state in ENDED",
        "            return self.state in PREPARING",
        "An end is refused while markers are written, which are complete when the producer asks for the reason: the refusal is believed.",
        _LATE,
    ),
    _mutant(
        "fenced-though-no-record-was-acknowledged",
        "_state/transactions/parts.py",
        "        return self.opened or (self.level == 2 and (self.records_sent or bool(self.groups)))\n",
        "        return self.opened\n",
        "Each answer to the first records is lost, and the transaction outlives its time: the leader's refusal is taken for fencing.",
        "tests/net/transactions/test_transactions_taken_over.py::test_e06_its_time_is_over_and_no_record_was_acknowledged",
    ),
    _mutant(
        "sent-in-the-next-transaction",
        "_state/identity/coordinated.py",
        "        self._begun = False\n\n    def may_send",
        "        self._begun = True\n\n    def may_send",
        "Records of a transaction that outlived its time leave under the epoch of the next one, and are committed with it.",
        "tests/scenarios/test_quiet_times.py",
    ),
    _mutant(
        "fenced-when-epochs-are-used-up",
        "_state/identity/standing.py",
        "        return self.state in PREPARING and self.epoch > LAST_EPOCH and identity[1] == 0",
        "        return False",
        "The same, where the commit used up the epochs of its producer id, and the next id applies only afterwards.",
        _LATE,
    ),
    _mutant(
        "asked-again-against-its-own-word",
        "_state/identity/standing.py",
        "            return code != ErrorCode.INVALID_PRODUCER_ID_MAPPING or self.state in ENDED",
        "            return True",
        "A coordinator has the producer's transaction open, and refuses its end for another producer id: the end is requested without end.",
        _STANDING,
    ),
    _mutant(
        "forgotten-as-the-markers-are-complete",
        "_state/identity/standing.py",
        "            return code != ErrorCode.INVALID_PRODUCER_ID_MAPPING or self.state in ENDED",
        "            return code != ErrorCode.INVALID_PRODUCER_ID_MAPPING",
        "The first end under the next producer id is refused, and that id applies when the producer asks for the reason: the refusal is believed.",
        _STANDING,
    ),
    _mutant(
        "new-epoch-behind-a-vanished-partition",
        "_state/transactions/dialogues/initializing.py",
        "    yield StopAdding()\n",
        "",
        "init_transactions() waits behind an AddPartitionsToTxn for a deleted partition, which is repeated without end.",
        _LATE,
    ),
    _mutant(
        "vanished-partition-asked-for-ever",
        "_net/transactions/steps.py",
        "        self._adding.cancel()\n        operations.present",
        "        operations.present",
        "A transaction has failed, and its request for a deleted partition is repeated until the transaction is aborted.",
        _LATE,
    ),
    _mutant(
        "older-ones-in-another-log",
        "_state/delivery/settlement.py",
        "        if 0 <= base_offset < queue.end_offset + sum(older.record_count for older in before):",
        "        if False:",
        "A topic is created anew unnoticed; a newer batch in its log is taken for proof that the older ones are in it.",
        "tests/state/batching/test_sequences.py::test_a_leader_of_another_log_proves_nothing_of_older_batches",
    ),
    _mutant(
        "refused-in-the-moment-of-the-abort",
        "_state/transactions/dialogues/adding.py",
        "    if reply.answer is Answer.ABORTABLE and current.table.state is State.ABORTING:",
        "    if False:",
        "AddPartitionsToTxn is refused while the program aborts: an error that would only abort the transaction ends the producer.",
        _LATE,
    ),
)

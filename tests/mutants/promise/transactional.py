"""The mutants of transactions: commits that lie, aborts that leave something behind, producers that do not give up."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Kind

_VERDICTS: Final = "tests/state/transactions/test_coordinator_verdicts.py"
_LIFE: Final = "tests/net/transactions/test_transactions.py"
_DOUBT: Final = "tests/net/transactions/test_transactions_in_doubt.py"
_INCOMPLETE: Final = "tests/net/transactions/test_incomplete_answers.py"
_OTHERS: Final = "tests/net/transactions/test_transactions_taken_over.py"

_mutant = Kind("transactions")

TRANSACTIONAL: Final = (
    _mutant(
        "commit-despite-a-failed-send",
        "_state/transactions/current.py",
        "        return (EndCalls(),) if self.table.failed(error) else ()",
        "        return ()",
        "A record of the transaction failed, and the rest of it is committed (Java before KIP-654 with a callback's error).",
        f"{_LIFE}::test_a_failed_record_refuses_the_commit",
    ),
    _mutant(
        "commit-despite-a-refused-send",
        "_net/runtime/engine.py",
        "            self.transactions.on_refused(error)",
        "            pass",
        "A send() raised, its caller thought nothing of it, and the transaction is committed without the record.",
        f"{_LIFE}::test_a_refused_send_refuses_the_commit",
    ),
    _mutant(
        "loss-forgotten-without-memory",
        "_net/runtime/dispatch.py",
        "            transactions.on_lost(effects.losses[0])\n            effects.losses.popleft()\n",
        "            transactions.on_lost(effects.losses.popleft())\n",
        "There was no memory to fail the transaction of a lost record, and the commit that waited for the record succeeds.",
        "tests/net/runtime/test_effects_without_memory.py",
    ),
    _mutant(
        "unknown-error-taken-for-committed",
        "_state/transactions/coordinator_verdicts.py",
        "    say(_A.DONE, {ErrorCode.NONE})",
        "    say(_A.DONE, {ErrorCode.NONE, ErrorCode.UNKNOWN_SERVER_ERROR})",
        "EndTxn is answered with UNKNOWN_SERVER_ERROR, and the commit is said to have succeeded.",
        _VERDICTS,
    ),
    _mutant(
        "epoch-raised-inside",
        "_state/identity/coordinated.py",
        "        return queue.identity != self._identity\n",
        "        return True\n",
        "The producer raises its epoch by itself in the middle of a transaction, which is torn by that.",
        "tests/state/identity/test_transactional_sequences.py",
    ),
    _mutant(
        "partitions-not-added",
        "_state/identity/coordinated.py",
        "        if self._added is not None and (queue.topic.name, queue.index) not in self._added:",
        "        if False:",
        "Records leave before their partition is a part of the transaction: nobody ends it there.",
        "tests/state/identity/test_transactional_sequences.py",
    ),
    _mutant(
        "dead-coordinator-asked-for-ever",
        "_net/transactions/coordinator.py",
        "            if answer is Answer.LOOK_UP:",
        "            if False:",
        "NOT_COORDINATOR, and the same broker is asked again (librdkafka 4277).",
        f"{_DOUBT}::test_d15_the_coordinators_move_at_each_step",
    ),
    _mutant(
        "closing-leaves-an-end-in-doubt",
        "_net/transactions/transactions.py",
        "is_asked=self.operation is not None)",
        "is_asked=True)",
        "The end was answered without a meaning, and close() does not ask again: readers wait until the transaction's time is over.",
        f"{_INCOMPLETE}::test_closing_asks_again_for_an_end_without_a_meaning",
    ),
    _mutant(
        "fenced-and-retried",
        "_state/transactions/coordinator_verdicts.py",
        "    say(_A.SUPERSEDED, FENCING)",
        "    say(_A.RETRY, FENCING)",
        "A producer that was taken over asks again for ever.",
        _VERDICTS,
    ),
    _mutant(
        "late-end-hits-the-next",
        "_state/transactions/dialogues/ending.py",
        "    if reply.lost and parts.level == 1:",
        "    if False:",
        "An EndTxn without an answer comes late, and ends the next transaction of the same epoch.",
        f"{_DOUBT}::test_e02_an_end_without_an_answer_has_its_own_epoch",
    ),
    _mutant(
        "abort-leaves-the-epoch",
        "_state/transactions/dialogues/ending.py",
        "    if current.parts.level == 1 and not current.parts.is_clean:",
        "    if False:",
        "A record that was on its way when its transaction was aborted arrives in the next one.",
        f"{_DOUBT}::test_e09_an_abort_of_what_is_in_doubt_takes_a_new_epoch",
    ),
    _mutant(
        "new-epoch-given-up",
        "_net/transactions/steps.py",
        "        with anyio.CancelScope(shield=self._may_ask_for_epoch) as self._asking_for_epoch:",
        "        with anyio.CancelScope() as self._asking_for_epoch:",
        "Whoever asked for a new epoch gives up, nobody hears the answer, and the producer takes itself for fenced.",
        f"{_OTHERS}::test_a_new_epoch_that_a_commit_asked_for_is_waited_for",
    ),
    _mutant(
        "known-too-late",
        "_state/transactions/dialogues/background.py",
        "    if current.parts.ended and current.table.cause is not None:",
        "    if False:",
        "A record that was refused as its transaction was out of time is taken for the sign of another producer.",
        f"{_OTHERS}::test_e06_a_leader_and_the_coordinator_say_so",
    ),
    _mutant(
        "zombie-ends-its-successors",
        "_state/transactions/dialogues/renewal.py",
        "        if move is Move.GIVE_WAY:",
        "        if move is None:",
        "A producer that was taken over asks for the next epoch, by which Kafka ends what its successor has open.",
        f"{_OTHERS}::test_a_zombie_that_looks_while_it_is_taken_over_leaves_its_successor_alone",
    ),
    _mutant(
        "zombie-asks-on-level-2",
        "_state/transactions/dialogues/renewal.py",
        "    if current.parts.level >= LEVEL_OF_EPOCHS:",
        "    if current.parts.level > LEVEL_OF_EPOCHS:",
        "On level 2, too, a new epoch is asked for with InitProducerId, which may come behind a successor's begin.",
        f"{_OTHERS}::test_a_zombie_that_looks_while_it_is_taken_over_leaves_its_successor_alone",
    ),
    _mutant(
        "timed-out-taken-for-taken-over",
        "_state/identity/standing.py",
        "    if was_open and standing.follows(identity, ENDED):",
        "    if standing.follows(identity, frozenset()):",
        "Who was out of time asks under the epoch from before, which nobody takes any more.",
        f"{_OTHERS}::test_e06_its_time_is_over",
    ),
    _mutant(
        "commit-before-its-offsets",
        "_state/transactions/dialogues/ending.py",
        "    yield from deliver_offsets(current)\n",
        "",
        "The transaction is committed without the offsets of what it consumed: the same is consumed again.",
        f"{_LIFE}::test_offsets_are_committed_with_it",
    ),
    _mutant(
        "commit-before-its-records",
        "_state/transactions/dialogues/ending.py",
        "    yield from deliver_offsets(current)\n    yield AwaitRecords()",
        "    yield from deliver_offsets(current)",
        "The commit does not wait for what was sent.",
        f"{_LIFE}::test_a_transaction_commits",
        f"{_LIFE}::test_records_that_wait_are_a_part_of_it",
    ),
    _mutant(
        "versions-mixed",
        "_state/transactions/versions.py",
        "    if level == 1:",
        "    if False:",
        "Requests of KIP-890 in a transaction of before: a late record of it opens another one.",
        f"{_LIFE}::test_the_requests_of_each_version",
    ),
    _mutant(
        "batches-without-the-mark",
        "_state/identity/sequences.py",
        "        stamp(batch, *queue.identity, batch.sequence, transactional=self.transactional)",
        "        stamp(batch, *queue.identity, batch.sequence)",
        "Batches do not say that they belong to a transaction: readers see them at once.",
        "tests/state/identity/test_transactional_sequences.py",
    ),
    _mutant(
        "cancelling-stops-the-commit",
        "_net/transactions/operation.py",
        "            self._waiters.remove(waiter)",
        "            self._waiters.remove(waiter)\n            self._scope.cancel()",
        "The task that waits for a commit is cancelled, and the commit with it.",
        f"{_DOUBT}::test_e13_a_cancelled_commit_goes_on",
    ),
    _mutant(
        "busy-leader-fails-the-transaction",
        "_state/identity/coordinated.py",
        "            code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER and (batch.dirty or queue.sent[0] is not batch)",
        "            False",
        "A batch behind one that is sent again is refused for its number, and that fails the transaction.",
        "tests/state/identity/test_transactional_sequences.py",
    ),
    _mutant(
        "asked-for-ahead-while-the-coordinator-is-asked",
        "_state/identity/sequences.py",
        "if other.dirty and other in queue.queue), None)",
        "if other.dirty), None)",
        "A batch that waits for the coordinator's word is to be sent ahead of another, is not in its queue, and the producer ends.",
        "tests/state/identity/test_transactional_sequences.py",
    ),
    _mutant(
        "commit-that-nobody-was-told-of-is-no-doubt",
        "_net/transactions/operations.py",
        "        left_alone = self.present is operation and not operation.is_watched\n",
        "        left_alone = self.present is operation and not operation.is_watched and not operation.ended\n",
        "A commit is cancelled in the moment in which it is done, and init_transactions() does not settle it.",
        "tests/net/transactions/test_transactions.py::test_a_commit_that_nobody_was_told_of_can_be_settled",
    ),
)

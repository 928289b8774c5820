"""The mutants of answers: brokers that write more, or less, than the definitions say, and what is concluded from it."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Kind

_INCOMPLETE: Final = "tests/net/test_incomplete_answers.py"

_FENCED: Final = "tests/net/test_fenced_while_it_asks.py"

_mutant = Kind("answers")

ANSWERS: Final = (
    _mutant(
        "surplus-bytes-refused",
        "_wire/codec.py",
        "    response, end = plan.body.decode_prefix(data, start)",
        "    response, end = plan.body.decode(data, start), len(data)",
        "A response with bytes behind its last field ends the connection: the producer never starts on librdkafka's mock cluster.",
        "tests/wire/test_codec.py",
    ),
    _mutant(
        "answers-without-a-question-refused",
        "_net/connection.py",
        "            self._newest_unasked = correlation_id",
        "            pass",
        "A broker answers Produce with acks=0: the connection ends, and what is buffered in it is lost.",
        "tests/connection/test_pairing.py",
    ),
    _mutant(
        "offsets-without-an-answer-are-fatal",
        "_net/asker.py",
        '            raise leaves_out(connection, "TxnOffsetCommit")',
        "            return -1",
        "A TxnOffsetCommit answer leaves out a partition, and the producer ends by it.",
        f"{_INCOMPLETE}::test_offsets_without_an_answer_are_sent_again",
    ),
    _mutant(
        "offsets-without-an-answer-are-committed",
        "_state/transaction_requests.py",
        "or (None if None in codes else 0)",
        "or 0",
        "A partition that an answer leaves out counts as done: its offset is not a part of the commit.",
        f"{_INCOMPLETE}::test_offsets_that_are_never_answered_leave_an_abort",
    ),
    _mutant(
        "described-is-another",
        "_net/standing.py",
        "if one.transactional_id == coordinator.name)",
        "if True)",
        "How another transactional id stands is taken for how this one does.",
        f"{_INCOMPLETE}::test_an_id_that_is_not_described_is_looked_at_again",
    ),
    _mutant(
        "an-error-proves-that-nothing-was-done",
        "_net/coordinator.py",
        "                if not may_be_done(request, code):",
        "                if code != -1:",
        "EndTxn is answered with COORDINATOR_NOT_AVAILABLE after the commit was written down; the commit is said not to be done.",
        f"{_INCOMPLETE}::test_a_commit_that_may_have_been_done_is_not_denied",
    ),
    _mutant(
        "a-commit-in-doubt-is-told-as-aborted",
        "_net/transactions.py",
        "        may_be_committed = said.request is Request.COMMIT and said.undecided > 0",
        "        may_be_committed = False",
        "A commit was done, a later attempt is answered with TRANSACTION_ABORTABLE, and the transaction runs again.",
        f"{_INCOMPLETE}::test_a_commit_that_may_have_been_done_is_not_denied",
    ),
    _mutant(
        "listed-without-a-filter",
        "_net/foreign_transactions.py",
        "pattern_of(prefix) if version >= PATTERNS_FROM else None",
        "None",
        "Every transactional id of a cluster is sent to find a few.",
        f"{_INCOMPLETE}::test_brokers_filter_by_the_prefix",
    ),
    _mutant(
        "no-brokers-no-orphans",
        "_net/foreign_transactions.py",
        "    if why is not None:",
        "    if False:",
        "Metadata without brokers is taken for a cluster without transactions.",
        f"{_INCOMPLETE}::test_a_cluster_without_brokers_has_not_answered",
    ),
    _mutant(
        "fenced-and-told-to-abort",
        "_state/settlement.py",
        "        if self.has_to_ask(answer.code):",
        "        if False:",
        "A producer is fenced, and its calls say that the transaction can be aborted and tried again, until the coordinator has answered.",
        f"{_FENCED}::test_deliveries_have_the_reason",
    ),
    _mutant(
        "refused-without-the-reason",
        "_state/settlement.py",
        "                error.__cause__ = cause",
        "                pass",
        "The delivery of a fenced producer fails with the leader's code and without a cause.",
        f"{_FENCED}::test_deliveries_have_the_reason",
    ),
    _mutant(
        "time-over-taken-for-fencing",
        "_net/transactions.py",
        "        if standing is not None and standing.follows(self._identity(), ABORTED):",
        "        if False:",
        "The coordinator has aborted a transaction because its time was over, and the producer takes itself for fenced.",
        f"{_FENCED}::test_its_time_was_over",
    ),
    _mutant(
        "a-code-without-a-meaning-is-final",
        "_state/coordinator_verdicts.py",
        "        _R.INIT_PRODUCER_ID: _A.RETRY,",
        "        _R.INIT_PRODUCER_ID: _A.FATAL,",
        "A code that Kafka does not have ends the producer at its first question.",
        "tests/state/test_coordinator_verdicts.py",
    ),
    _mutant(
        "a-doubt-is-forgotten",
        "_net/transactions.py",
        "undecided=said.undecided + self.parts.doubtful_ends",
        "undecided=said.undecided",
        "A commit was done and answered without a meaning; it is asked again, refused, and said not to be done.",
        f"{_INCOMPLETE}::test_a_doubt_is_not_forgotten",
    ),
    _mutant(
        "an-identity-of-nobody",
        "_net/asker.py",
        "    if not answer.error_code and min(answer.producer_id, answer.producer_epoch) < 0:",
        "    if False:",
        "A producer id of -1 is used: batches are written without numbers, and a repetition is written twice.",
        f"{_INCOMPLETE}::test_an_identity_that_is_none",
    ),
    _mutant(
        "missing-versions-believed-at-once",
        "_net/coordinator.py",
        "                if unspoken and confirmed:",
        "                if unspoken:",
        "A coordinator leaves an API out of its list of versions once, and the producer ends.",
        f"{_INCOMPLETE}::test_versions_that_are_missing_once",
    ),
    _mutant(
        "another-is-described",
        "_net/standing.py",
        "    state = next((one for one in answer.transaction_states if one.transactional_id == coordinator.name), None)",
        "    state = answer.transaction_states[0]",
        "A DescribeTransactions answer without the id raises IndexError, which ends the producer.",
        "tests/simulation/test_lies.py",
    ),
)

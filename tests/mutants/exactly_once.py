"""The mutants of what is written exactly once by Spark: marks that are overlooked, and jobs that are committed by halves."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Kind

_REPEATS: Final = "tests/spark/test_repeats.py"
_ASIDE: Final = "tests/spark/test_set_aside.py"
_COLUMNS: Final = "tests/spark/test_columns.py"
_FINGERPRINT: Final = "tests/spark/test_fingerprint.py"
_OPTIONS: Final = "tests/spark/test_options.py"

_mutant = Kind("exactly once")

EXACTLY_ONCE: Final = (
    _mutant(
        "partition-left-out-taken-for-nothing-committed",
        "_state/committed_offsets.py",
        "    if missing:\n",
        "    if False:\n",
        'An OffsetFetch answer without what was asked for is taken for "nothing is committed", and work is done again.',
        "tests/net/test_committed_offsets.py",
    ),
    _mutant(
        "given-up-batch-is-split",
        "_state/settlement.py",
        "        if self.ending is not None:\n            self._conclude(batch, self.ending(batch), now)\n            return\n        if _may_be",
        "        if _may_be",
        "A batch of a transaction that was given up comes back as too large, and its parts wait for ever, and every flush.",
        "tests/state/test_transactional_sequences.py",
    ),
    _mutant(
        "job-committed-without-asking-for-its-transactions",
        "spark/jobs.py",
        "            await self._require_open(handles)\n",
        "",
        'A job took longer than its first transactions live: the rest of it is committed, and "all or none" becomes "some".',
        f"{_REPEATS}::test_a_job_of_which_one_transaction_is_gone_is_aborted",
    ),
    _mutant(
        "job-that-is-refused-stays-open",
        "spark/jobs.py",
        "            await self._abort_after(error)\n",
        "",
        "What a refused job has left open hides all that is written behind it.",
        f"{_REPEATS}::test_a_job_of_which_one_transaction_is_gone_is_aborted",
    ),
    _mutant(
        "listing-that-leaves-out-a-transaction-ends-the-job",
        "spark/jobs.py",
        "LOOKS: Final = 4",
        "LOOKS: Final = 1",
        "A coordinator moves while transactions are listed, and a job that could be committed is aborted.",
        f"{_REPEATS}::test_a_transaction_that_is_left_out_once_is_asked_for_again",
    ),
    _mutant(
        "job-repeated-with-other-tasks",
        "spark/jobs.py",
        "        if marks or (found and earlier is not None):",
        "        if False:",
        "A job with a write.id that was committed by halves is repeated with fewer tasks, and rows are doubled.",
        f"{_REPEATS}::test_a_job_that_was_committed_by_halves_is_repeated_with_as_many_tasks",
    ),
    _mutant(
        "marks-of-absent-tasks-are-not-looked-at",
        "spark/jobs.py",
        "await self._numbers_from(tasks)",
        "()",
        "A job that an older version has committed by halves is repeated with fewer tasks, and rows are doubled.",
        f"{_REPEATS}::test_a_job_that_an_older_version_has_committed_by_halves",
    ),
    _mutant(
        "epoch-repeated-with-fewer-tasks",
        "spark/absent.py",
        "    if late:\n",
        "    if False:\n",
        "An epoch is repeated with fewer tasks: nobody looks at the marks of the others, and rows are doubled in silence.",
        f"{_REPEATS}::test_an_epoch_that_was_written_in_part_by_more_tasks_is_noticed",
    ),
    _mutant(
        "absent-tasks-are-not-fenced",
        "spark/absent.py",
        "    await fence(names, config.bootstrap_servers, **settings_of(config))\n",
        "",
        "A frozen task of the run before wakes up behind the check, and commits rows that others have written.",
        f"{_REPEATS}::test_a_task_that_nobody_repeats_commits_nothing_behind_the_check",
    ),
    _mutant(
        "new-task-does-not-look-at-the-first",
        "spark/epochs.py",
        "        if mark is None or mark.epoch < epoch - 1:",
        "        if False:",
        "A checkpoint was deleted, and tasks that are new commit before the others find out.",
        f"{_REPEATS}::test_a_task_that_is_new_knows_that_the_checkpoint_was_set_back",
    ),
    _mutant(
        "mark-forgets-the-topic",
        "spark/markers.py",
        "        if self.topic not in (topic, NOT_SAID):",
        "        if False:",
        "Two writes of an epoch to two topics have their marks in one place, and the second is taken for done.",
        f"{_REPEATS}::test_two_writes_of_an_epoch_to_different_topics",
    ),
    _mutant(
        "mark-of-an-older-version-is-refused",
        "spark/markers.py",
        "        if self.topic not in (topic, NOT_SAID):",
        "        if self.topic != topic:",
        "After an upgrade the last epoch is repeated, and its mark is not understood.",
        f"{_REPEATS}::test_marks_of_an_older_version_are_understood",
    ),
    _mutant(
        "too-large-row-is-sent-all-the-same",
        "spark/inspection.py",
        "        if not len(sizes) or pc.max(sizes).as_py() <= self._limit:",
        "        if True:",
        "What is known to be too large is sent, and each such row costs the transaction.",
        f"{_ASIDE}::test_what_is_known_before_it_is_sent",
    ),
    _mutant(
        "refused-row-fails-the-attempt",
        "spark/shipment.py",
        "        if refused:\n            raise RowsRefusedError",
        "        if False:\n            raise RowsRefusedError",
        "on.error with exactly-once: the broker refuses a row, and all attempts of the task fail at it.",
        f"{_ASIDE}::test_what_the_broker_refuses",
    ),
    _mutant(
        "second-round-begins-in-the-middle",
        "spark/rounds.py",
        "        yield from self._kept\n",
        "",
        "A transaction that is written again has only the rows that had not come before.",
        f"{_ASIDE}::test_rows_are_kept_from_the_first",
    ),
    _mutant(
        "missing-topic-found-out-by-the-transaction",
        "spark/inspection.py",
        "            wrong |= await self._misdirected(parcel)",
        "            pass",
        "A row for a topic that is not there is sent all the same, and costs the transaction.",
        f"{_ASIDE}::test_what_is_known_before_it_is_sent",
    ),
    _mutant(
        "two-runs-of-a-job-are-committed",
        "spark/jobs.py",
        "        await self._fence([name for name in await self._attempts() if not self._is_of_this_run(name)])\n",
        "",
        "A job with a write.id is started twice, both runs end at once, and all rows are doubled.",
        f"{_REPEATS}::test_two_runs_of_a_job_that_end_at_once",
    ),
    _mutant(
        "run-that-fails-ends-another-run",
        "spark/jobs.py",
        "for name in await self._attempts() if self._is_of_this_run(name)",
        "for name in await self._attempts()",
        "The driver of an earlier run, which was taken for dead, aborts what the job has written that was begun again.",
        f"{_REPEATS}::test_a_run_that_fails_leaves_another_run_alone",
    ),
    _mutant(
        "attempt-between-two-transactions-is-not-fenced",
        "spark/jobs.py",
        'frozenset({"Empty", OPEN, "PrepareAbort", "CompleteAbort"})',
        'frozenset({"Empty", OPEN})',
        "An attempt that writes again without refused rows is left out of the abort, and stays open until its time is over.",
        f"{_ASIDE}::test_a_job_that_is_aborted_while_an_attempt_begins_again",
    ),
    _mutant(
        "task-that-is-too-slow-is-only-fenced",
        "spark/shipment.py",
        "time.monotonic() - self._began < limit",
        "True",
        "A task takes longer than its transaction may be open, and hears only that another producer is newer.",
        "tests/spark/test_attempts.py::test_a_task_that_is_slower_than_its_transaction_may_be",
    ),
    _mutant(
        "moments-depend-on-the-time-zone",
        "spark/fingerprint.py",
        "    if pa.types.is_timestamp(column.type):",
        "    if False:",
        "A query that is restarted with another time zone of its session takes the same rows for others, and never goes on.",
        f"{_FINGERPRINT}::test_the_time_zone_of_the_session_does_not_matter",
    ),
    _mutant(
        "two-columns-of-one-name",
        "spark/columns.py",
        "            if names.count(name) > 1",
        "            if False",
        "Of two columns 'value' the last is written, and the other is lost in silence.",
        f"{_COLUMNS}::test_two_columns_of_one_name",
    ),
    _mutant(
        "fail-taken-for-a-topic",
        "spark/options.py",
        "if on_error.strip().lower() == FAIL",
        "if on_error == FAIL",
        "on.error=FAIL sets rows aside in a topic of that name, which brokers may make.",
        f"{_OPTIONS}::test_words_are_read_without_regard_to_case",
    ),
)

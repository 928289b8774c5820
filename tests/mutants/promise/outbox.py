"""The mutants of the outbox: rows are lost, doubled, or sent by two relays."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Kind

_RELAY: Final = "tests/outbox/test_relay.py"
_POSTGRES: Final = "tests/kafka/outbox/test_real_postgres.py"
_SQLITE: Final = "tests/outbox/test_sqlite.py"

_mutant = Kind("outbox")

OUTBOX: Final = (
    _mutant(
        "unknown-row-is-deleted",
        "outbox/flight.py",
        "        if delivery.outcome is Outcome.ACKED:",
        "        if delivery.outcome is not Outcome.NOT_WRITTEN:",
        "A row without an answer counts as written and is deleted: it may be lost.",
        f"{_RELAY}::test_an_unknown_outcome_is_sent_again_with_the_same_id",
    ),
    _mutant(
        "rows-overtake-a-failure",
        "outbox/session.py",
        "            if self._flight.failed or self._signals.stopping:\n                break",
        "            if self._signals.stopping:\n                break",
        "The rows of a page behind one that was refused are sent before it.",
        f"{_RELAY}::test_a_record_that_can_never_be_written_stops_the_relay",
    ),
    _mutant(
        "lost-lock-is-not-noticed",
        "outbox/session.py",
        "        if not await self._store.acquire():\n            raise LockLostError",
        "        await self._store.acquire()",
        "Two relays send the same rows without end.",
        f"{_RELAY}::test_a_relay_whose_lock_is_gone_sends_no_more",
    ),
    _mutant(
        "buffered-rows-are-sent-without-the-lock",
        "outbox/flight.py",
        "            delivery.try_cancel()",
        "            pass",
        "A relay whose lock is gone goes on with what it has buffered.",
        f"{_RELAY}::test_a_relay_whose_lock_is_gone_sends_no_more",
    ),
    _mutant(
        "late-commits-are-skipped",
        "outbox/ranges.py",
        "    first = LOWEST\n",
        "    first = min(skip, default=LOWEST)\n",
        "A relay that reads on from the highest id leaves out rows that are committed late.",
        "tests/outbox/test_ranges.py",
    ),
    _mutant(
        "row-is-deleted-that-was-not-found",
        "outbox/session.py",
        "        if isinstance(resolution, Resolution) and resolution.outcome is Outcome.ACKED\n",
        "        if isinstance(resolution, Resolution)\n",
        "No answer came, the record is not in the log, and its row is deleted.",
        f"{_RELAY}::test_an_unknown_outcome_is_sent_again_with_the_same_id",
    ),
    _mutant(
        "a-whole-batch-is-set-aside",
        "outbox/session.py",
        "        return self._singly_until is not None or is_certain(error) or lacks_its_partition(error)",
        "        return True",
        "All records of a batch become dead letters because a broker refused one of them without naming it.",
        f"{_RELAY}::test_a_batch_that_is_refused_as_a_whole_is_sent_one_by_one",
    ),
    _mutant(
        "a-missing-partition-is-waited-for",
        "outbox/session.py",
        "        return [each for each in lacking if _place_of(each[0]) in before]",
        "        return []",
        "A row for a partition that its topic does not have holds up the outbox for ever.",
        f"{_RELAY}::test_a_partition_that_does_not_exist_holds_up_no_other_row",
    ),
    _mutant(
        "one-answer-makes-a-dead-letter",
        "outbox/session.py",
        "        return [each for each in lacking if _place_of(each[0]) in before]",
        "        return lacking",
        "A broker that does not know an added partition yet makes dead letters of its rows.",
        f"{_RELAY}::test_a_partition_that_is_added_meanwhile",
    ),
    _mutant(
        "a-wrong-clock-makes-dead-letters",
        "outbox/session.py",
        "timestamp=None if row.id in self._untimely else record.timestamp",
        "timestamp=record.timestamp",
        "All rows of a database whose clock is an hour ahead become dead letters.",
        f"{_RELAY}::test_a_database_clock_that_is_wrong_sets_no_row_aside",
    ),
    _mutant(
        "a-slow-read-is-sent-without-the-lock",
        "outbox/session.py",
        "        # The store may have taken long to answer.\n        await self._check_lock()\n",
        "",
        "A relay sends a page that it asked for before another one took over.",
        f"{_RELAY}::test_a_read_that_outlasts_the_lock_is_not_sent",
    ),
    _mutant(
        "an-id-of-another-row-is-deleted",
        "outbox/flight.py",
        "self._acked_before.pop(row.id, None) == row:",
        "self._acked_before.pop(row.id, None) is not None:",
        "A row whose id an earlier row had, which a failover of the database has lost, is deleted and never sent.",
        f"{_RELAY}::test_an_id_that_is_used_again_after_a_failover_is_sent",
    ),
    _mutant(
        "rows-of-an-earlier-session-are-deleted-unseen",
        "outbox/session.py",
        "        if acked and self._has_begun:",
        "        if acked:",
        "A session that ends before its first read deletes the ids of rows that the database may have lost.",
        f"{_RELAY}::test_a_session_that_ends_before_its_first_read_deletes_nothing",
    ),
    _mutant(
        "dead-letters-are-written-until-their-row-is-deleted",
        "outbox/session.py",
        "        self._flight.done(row)\n        await self.delete_acked()\n",
        "        await self._store.delete([row.id])\n",
        "A database that refuses to delete makes a dead letter at each attempt.",
        f"{_RELAY}::test_a_dead_letter_is_written_once_though_its_row_stays",
    ),
    _mutant(
        "a-removed-lock-is-held",
        "outbox/sqlite.py",
        "if is_same and all(_file_of(path) == file for path, file in self._files.items()):",
        "if True:",
        "Two relays of one SQLite database work at once, when the file of the lock was removed.",
        f"{_SQLITE}::test_a_lock_file_that_was_removed",
    ),
    _mutant(
        "a-text-is-no-value",
        "outbox/reading.py",
        "if isinstance(data, str) else data",
        "if data == () else data",
        "Rows of a text that a program inserts by SQL are set aside, or stop the relay.",
        f"{_SQLITE}::test_rows_that_were_inserted_by_sql",
    ),
    _mutant(
        "relay-that-cannot-delete-takes-the-lock",
        "outbox/postgres.py",
        "                await connection.execute(self._delete, [], timeout=STATEMENT_TIMEOUT)\n",
        "                pass\n",
        "A relay on a standby sends up to four pages of rows again and again, and other relays send them as well.",
        f"{_POSTGRES}::test_a_relay_that_cannot_delete_sends_nothing",
    ),
    _mutant(
        "relay-of-a-read-only-server-keeps-the-lock",
        "outbox/postgres.py",
        "    WHERE current_setting('transaction_read_only') = 'off'\n        AND locktype",
        "    WHERE locktype",
        "A server becomes read-only: the relay sends the rows that it cannot delete at each attempt.",
        f"{_POSTGRES}::test_a_server_that_becomes_read_only",
    ),
    _mutant(
        "lock-ends-with-an-idle-session",
        "outbox/postgres.py",
        ", ('idle_session_timeout', '0')\n",
        "\n",
        "A relay with a long poll loses its lock whenever nothing is to be sent.",
        f"{_POSTGRES}::test_a_limit_for_idle_sessions",
    ),
    _mutant(
        "relay-that-waits-for-listen",
        "outbox/postgres.py",
        "                async with asyncio.timeout(STATEMENT_TIMEOUT):\n                    await connection.add",
        "                async with asyncio.timeout(None):\n                    await connection.add",
        "A network that goes silent behind the lock: the relay waits for LISTEN without end, and no other takes over.",
        f"{_POSTGRES}::test_a_server_that_does_not_answer_a_listener",
    ),
    _mutant(
        "page-of-a-relay-that-stood-still",
        "outbox/session.py",
        "            # The process may have stood still since the row before.\n            await self._check_lock()\n",
        "",
        "A process is stopped in the middle of a page and goes on when another relay has the lock: the rest is sent twice.",
        f"{_RELAY}::test_a_process_that_stood_still_between_two_rows",
    ),
    _mutant(
        "lock-of-a-link",
        "outbox/sqlite.py",
        "            self._used_path = os.path.realpath(self._given_path)\n",
        "            self._used_path = self._given_path\n",
        "Two programs name a database by its file and by a link: both send its rows.",
        f"{_SQLITE}::test_a_database_has_one_lock_by_any_name",
    ),
)

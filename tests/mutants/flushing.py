"""The mutants of flushes and their reports: failures that nobody is told of, records that prolong a flush, callbacks that come late."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Kind

_OWNERS: Final = "tests/api/test_flush_owners.py"
_ENDS: Final = "tests/state/test_flushes_that_end.py"
_HEALTH: Final = "tests/api/test_health.py"
_TALLY: Final = "tests/state/test_tally.py"

_mutant = Kind("flushing")

FLUSHING: Final = (
    _mutant(
        "flush-not-woken-by-purge",
        "_state/settlement.py",
        "            self._finish(self._failed(batch, error, count, now, indexes))\n",
        "            self._failed(batch, error, count, now, indexes)\n",
        "flush() waits for ever for records that were withdrawn or expired alone in a batch that goes on.",
        _ENDS,
    ),
    _mutant(
        "flush-does-not-wait-for-parts-of-a-split",
        "_state/accumulator.py",
        "            pass_on(batch, to)",
        "            batch.flushes.clear()",
        "flush() does not see what becomes of the parts of a split batch.",
        _ENDS,
    ),
    _mutant(
        "one-report-for-all",
        "producer.py",
        "told_to = owner if isinstance(owner, Owner) else self._owners.of(owner or asyncio.current_task())",
        "told_to = self._owners.of(None)",
        "Owners of reports are told apart from nothing: each flush begins at the start of the producer.",
        f"{_OWNERS}::test_a_task_is_told_once",
    ),
    _mutant(
        "reports-of-a-task-begin-at-its-flush",
        "owners.py",
        "return self.begin(task, Told()) if found is None else found",
        "return self.begin(task, Told(1 << 40, 1 << 40, 1 << 40)) if found is None else found",
        "A task whose children have sent is told of nothing: the failure of its records is hidden.",
        f"{_OWNERS}::test_a_task_that_never_sent_is_told_everything",
    ),
    _mutant(
        "first-send-of-a-task-unseen",
        "_core/accept.pyx",
        "        if aioproducer_context_version() != self._context_version:\n            self._look_at_task()\n        if partition",
        "        if partition",
        "A task's reports begin at the start of the producer, with the failures of all that were there before.",
        f"{_OWNERS}::test_reports_begin_with_the_first_record_of_a_task",
    ),
    _mutant(
        "tasks-are-kept",
        "owners.py",
        "    owner.entries.pop(owner.key, None)",
        "    pass",
        "An entry is left of each task that ever sent.",
        f"{_OWNERS}::test_nothing_is_kept_of_tasks_that_are_gone",
    ),
    _mutant(
        "flush-counts-what-came-later",
        "_state/flushing.py",
        "        flush.acked += covered.left",
        "        flush.acked += batch.record_count",
        "Records that were accepted after the call are in its report.",
        _ENDS,
    ),
    _mutant(
        "later-records-prolong-a-flush",
        "_state/flushing.py",
        "        if not covered.left:\n            flush.waiting -= 1",
        "        if not batch.pending:\n            flush.waiting -= 1",
        "flush() waits for the last record of a batch that was open at the call, seconds above the delivery timeout.",
        _ENDS,
    ),
    _mutant(
        "an-error-is-told-twice",
        "_state/tally.py",
        "            _told_ahead(flush, told) if flush.failures or told.ahead else told.ahead,",
        "            frozenset(),",
        "A failure that one report told of is the first error of the next, too.",
        _TALLY,
    ),
    _mutant(
        "dropped-errors-are-not-missed",
        "_state/tally.py",
        "        return dropped - told.failures > sum(number <= dropped for number in told.ahead)",
        "        return False",
        "The first error of a report is that of a later failure, and nothing says so.",
        _TALLY,
    ),
    _mutant(
        "flush-before-the-callbacks",
        "_net/engine.py",
        "        self.accumulator.waker.wake_after_all(self.flushes.pop(flush))",
        "        self.flushes.pop(flush).set_result(None)",
        "flush() returns while callbacks of its records wait for their turn (85,000 of two million).",
        "tests/api/test_flush.py::test_very_many_callbacks_have_run",
    ),
    _mutant(
        "gap-seen-by-a-flush-that-does-not-tell-it",
        "_state/settlement.py",
        "            gap.seen = gap.seen or flush is None or flush.knows_of(gap.failure)",
        "            gap.seen = True",
        "gapless=True: records behind a loss are written although nobody was told of it.",
        f"{_OWNERS}::test_gapless_goes_on_when_the_loss_was_told",
    ),
    _mutant(
        "age-of-the-batch-for-that-of-a-record",
        "_state/rewriting.py",
        "now=accepted[index], deadline",
        "now=batch.opened_at, deadline",
        "The oldest record is older than its delivery timeout allows: its batch was opened for others, that have ended.",
        _ENDS,
    ),
    _mutant(
        "a-kept-delivery-keeps-the-producer",
        "_core/records.pyx",
        "        self._owner = None if owner is None else _weak(owner)",
        "        self._owner = None if owner is None else (lambda: owner)",
        "A delivery in a cache keeps the queues, the connections and the configuration of a producer that was closed.",
        "tests/api/test_what_a_delivery_keeps.py",
    ),
    _mutant(
        "only-senders-are-connected",
        "_net/snapshot.py",
        "    return max(len(known), int(bool(addresses)))",
        "    return sum(sender.link is not None for sender in engine.senders.values())",
        "health() says that no broker is connected after a successful ready().",
        f"{_HEALTH}::test_ready_is_connected",
    ),
    _mutant(
        "old-trouble-is-present",
        "_net/engine.py",
        "        over = failed is None or (answered is not None and answered > failed)",
        "        over = failed is None",
        "An error of yesterday, long over, is named as the cause of today's.",
        f"{_HEALTH}::test_an_error_that_is_over_causes_nothing",
    ),
    _mutant(
        "answers-are-forgotten-with-their-connection",
        "_net/addresses.py",
        "            self._answered_at = max(self._answered_at or -math.inf, connection.answered_at)",
        "            pass",
        "A producer whose idle connections were closed looks like one that was never answered.",
        f"{_HEALTH}::test_idle_connections_are_closed",
    ),
    _mutant(
        "looking-from-another-thread",
        "_net/snapshot.py",
        "    for batch in list(engine.accumulator.live):\n        (flying",
        "    for batch in engine.accumulator.live:\n        (flying",
        "stats() from another thread raises RuntimeError: dictionary changed size during iteration.",
        f"{_HEALTH}::test_any_thread",
    ),
    _mutant(
        "no-room-without-a-cause",
        "_net/engine.py",
        "        return next((trouble for trouble in found if trouble is not None), None)",
        "        return None",
        "Brokers are down, and the error says that records come too fast.",
        "tests/net/test_no_room.py",
    ),
    _mutant(
        "told-to-join-the-transaction-of-another",
        "_state/transaction.py",
        "ONE_AT_A_TIME if event is _E.BEGIN and self.state in UNDER_WAY else self.state.value",
        "self.state.value",
        "A task that begins a transaction while another task's ends is told to join that.",
        "tests/net/test_no_room.py",
    ),
    _mutant(
        "silent-close",
        "producer.py",
        "        long = engine.loop.call_later(WORTH_A_LINE, self._tell_what_closing_waits_for, until)",
        "        long = engine.loop.call_later(WORTH_A_LINE, int)",
        "A close() that waits for two minutes says nothing of what it waits for.",
        "tests/net/test_lines_of_a_life.py",
    ),
    _mutant(
        "mock-takes-what-came-later",
        "testing/mock.py",
        '        began = self._ledger.told_now()\n        async with asyncio.timeout(checked_timeout("timeout", timeout)):\n            waited_for = await self._all_settled()\n',
        '        async with asyncio.timeout(checked_timeout("timeout", timeout)):\n            await self._all_settled()\n        began, waited_for = self._ledger.told_now(), []\n',
        "The mock's report counts records that were sent behind the call.",
        f"{_OWNERS}::test_a_mock_waits_for_the_test_and_tells_no_more",
    ),
    _mutant(
        "scope-begins-with-the-producer",
        "owners.py",
        "        self.told = self._now()\n",
        "",
        "The first report of a scope has the failures of all that was sent before it.",
        f"{_OWNERS}::test_a_scope_begins_where_it_is_entered",
    ),
    _mutant(
        "flushes-that-nobody-waits-for-are-kept",
        "producer.py",
        "            engine.leave_flush(flush, self._intake.waiting_for_topics())\n",
        "",
        "While no broker answers, each flush(timeout=...) that runs out of time leaves an entry in each batch.",
        "tests/api/test_flush.py::test_flushes_that_run_out_of_time_leave_nothing",
    ),
)

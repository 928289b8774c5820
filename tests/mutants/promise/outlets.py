"""The mutants of dead letters and checkpoints: copies of written records, and positions that are too far ahead."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Kind

_LETTERS: Final = "tests/api/outlets/test_dead_letters.py"
_CHECKPOINT: Final = "tests/api/outlets/test_checkpoint.py"
_SAVING: Final = "tests/api/outlets/test_checkpoint_saving.py"

_mutant = Kind("outlets")

OUTLETS: Final = (
    _mutant(
        "unknown-record-is-set-aside",
        "outlets/dead_letters.py",
        "        if error.outcome is not Outcome.NOT_WRITTEN:\n            return False\n        if self._when",
        "        if self._when",
        "A user's rule sets aside a record that was written: readers of both topics process it twice.",
        f"{_LETTERS}::test_an_unknown_outcome_is_never_set_aside",
    ),
    _mutant(
        "record-set-aside-fails-its-transaction",
        "_net/accepting/intake.py",
        "            if self._follower is None or not self._follower.spares(error):\n                self._intake.engine",
        "            if True:\n                self._intake.engine",
        "One record that cannot be serialized aborts each transaction that it is repeated in, for ever.",
        f"{_LETTERS}::test_in_a_transaction_it_is_a_part_of_it",
    ),
    _mutant(
        "commit-without-a-record-and-its-letter",
        "outlets/sent_record.py",
        "            if is_refused:\n                self._producer",
        "            if False:\n                self._producer",
        "No topic is found for a dead letter: the transaction is committed without the record, and without a word.",
        f"{_LETTERS}::test_a_transaction_fails_where_no_letter_can_be_sent",
    ),
    _mutant(
        "no-letter-while-a-transaction-is-committed",
        "_calls/outlets.py",
        "        if not (may_be_ending and self._taking().waits_for_calls):\n            self._usable()",
        "        self._usable()",
        "A serializer refuses a record after the block has ended: each transaction with such a record is aborted.",
        f"{_LETTERS}::test_a_refusal_while_the_transaction_is_committed",
    ),
    _mutant(
        "commit-without-a-letter-that-was-put",
        "_calls/outlets.py",
        "            self._fail_transaction(refusal_of(failure, None))\n            raise\n",
        "            raise\n",
        "A program logs the exception of put() and goes on: its transaction is committed without the dead letter.",
        f"{_LETTERS}::test_a_transaction_fails_where_put_raises",
    ),
    _mutant(
        "letter-of-a-call-that-came-too-late",
        "_calls/outlets.py",
        "        if not (may_be_ending and self._taking().waits_for_calls):",
        "        if not self._taking().waits_for_calls:",
        "A record that came during the commit is refused, and its dead letter opens a transaction behind the commit.",
        f"{_LETTERS}::test_a_letter_of_a_call_that_came_too_late",
    ),
    _mutant(
        "set-aside-before-its-letter-is-written",
        "outlets/checkpoint.py",
        "    return None if sent.dead_lettered else sent.error\n",
        "    return None\n",
        "A dead letter is lost, and the position of the source passes its record all the same.",
        f"{_CHECKPOINT}::test_a_dead_letter_that_fails_stops_it",
    ),
    _mutant(
        "letter-of-another-record",
        "outlets/sent_columns.py",
        "            _item(columns.values, at),\n",
        "            _item(columns.values, at - 1),\n",
        "The dead letter of a batch has the value of another record, and the checkpoint passes the one that is lost.",
        f"{_CHECKPOINT}::test_columns_of_every_kind",
    ),
    _mutant(
        "letter-with-headers-of-a-later-record",
        "outlets/dead_letters.py",
        "        headers=kept_headers(headers),\n    )\n",
        "        headers=headers,\n    )\n",
        "A program fills one list of headers again and again: dead letters have the headers of other records.",
        f"{_LETTERS}::test_the_headers_at_the_call_are_kept",
    ),
    _mutant(
        "one-refused-record-holds-up-its-source",
        "outlets/checkpoint.py",
        "                    self._singly_until = self._marked + 1\n",
        "                    pass\n",
        "A record without a key for a compacted topic: each attempt refuses its whole batch and writes another dead letter.",
        f"{_CHECKPOINT}::test_a_refused_record_beside_others",
    ),
    _mutant(
        "gapless-source-that-never-goes-on",
        "outlets/checkpoint.py",
        "            sent.see()\n",
        "            pass\n",
        "One failure of a gapless producer holds up its source for ever: no program can read the failed deliveries.",
        f"{_CHECKPOINT}::test_a_gapless_source_goes_on_after_a_failure",
    ),
    _mutant(
        "gapless-letters-end-with-one",
        "outlets/sent_record.py",
        "                self._letter.exception()\n",
        "                pass\n",
        "One dead letter of a gapless producer fails, and no later one is written.",
        f"{_LETTERS}::test_a_gapless_producer_after_a_letter_that_failed",
    ),
    _mutant(
        "refused-record-holds-up-a-gapless-source",
        "outlets/rule.py",
        "    refusal = error if isinstance(error, BrokerError) else error.cause\n",
        "    refusal = error\n",
        "Records behind a refused one are refused in gapless mode; a source with few marks repeats them without end.",
        f"{_CHECKPOINT}::test_a_refused_record_of_a_gapless_producer",
    ),
    _mutant(
        "gapless-stream-goes-on-unnoticed",
        "outlets/sent_record.py",
        "        return self._outcome_now(), None if self._is_aside",
        "        return self.outcome, None if self._is_aside",
        "A stream with dead letters writes records behind a lost one, though the producer is gapless.",
        f"{_LETTERS}::test_a_gapless_stream_with_a_loss",
    ),
    _mutant(
        "one-letter-ends-the-gap-of-many",
        "outlets/sent_record.py",
        "        if lost is not None and self._producer._is_only_loss(lost.topic, lost.partition):",
        "        if lost is not None:",
        "Records that were lost with a refused one are missing in a gapless history, and later ones are written.",
        f"{_LETTERS}::test_a_gapless_producer_behind_a_record_that_is_set_aside[another one]",
    ),
    _mutant(
        "gap-of-a-record-that-is-set-aside-alone",
        "_state/delivery/losses.py",
        "        return not (gap.is_shared or",
        "        return not (True or",
        "A gapless producer writes nothing behind a record that was set aside, until the program reads its handle.",
        f"{_LETTERS}::test_a_gapless_producer_behind_a_record_that_is_set_aside_alone",
    ),
    _mutant(
        "batch-reads-its-failures",
        "outlets/sent_columns.py",
        "        result = await settled(self._many)\n",
        "        result = await self._many\n",
        "While a dead letter of a batch is written, a gapless producer writes behind the records that were lost.",
        f"{_CHECKPOINT}::test_a_gapless_batch_with_a_loss",
    ),
    _mutant(
        "refused-record-is-passed",
        "_core/delivery_prefix.pxi",
        "        self._fail(after, _copy(entry.error))\n        return 0\n",
        "        return 0\n",
        "A checkpoint passes a record that was refused while it waited: nobody sends it again.",
        f"{_CHECKPOINT}::test_a_withdrawn_record_stops_it",
    ),
    _mutant(
        "delivery-of-another-loop-is-watched",
        "_core/delivery_prefix.pxi",
        "        if loop is not None and self._loop is not None and loop is not self._loop:\n",
        "        if False:\n",
        "The marks of a checkpoint move in the thread of another loop, beside the calls of its own.",
        f"{_CHECKPOINT}::test_a_delivery_of_another_loop",
    ),
    _mutant(
        "two-saves-at-once",
        "outlets/saving.py",
        "        if self._task is None and self._newest()",
        "        if self._newest()",
        "A slow save ends behind a newer one: after a crash the source begins too early, or the store is damaged.",
        f"{_SAVING}::test_a_slow_save_is_never_overtaken",
    ),
)

"""The mutants of certainty after UNKNOWN: verdicts without their proof."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Kind

_SEARCH: Final = "tests/state/resolving/test_search.py"
_SCENARIOS: Final = "tests/scenarios/test_resolved_outcomes.py"
_TALLY: Final = "tests/state/delivery/test_tally.py"

_mutant = Kind("resolving")

RESOLVING: Final = (
    _mutant(
        "absence-without-a-fence",
        "_state/resolving/search.py",
        "            return NOTHING_LATER",
        '            return ""',
        "A record that is not in the log counts as not written, while its request may still arrive.",
        _SEARCH,
    ),
    _mutant(
        "holes-prove-absence",
        "_state/resolving/search.py",
        "            self.cannot_prove_absence(HOLE)",
        "            pass",
        "Compaction removed the batch, and it counts as not written.",
        _SEARCH,
    ),
    _mutant(
        "the-place-is-not-looked-at",
        "_state/resolving/search.py",
        "if not self._has_begun and not self._is_the_anchor(head):",
        "if False:",
        "After an unclean election the log is read from a place behind the record.",
        _SEARCH,
    ),
    _mutant(
        "a-forgotten-producer-fences",
        "_state/resolving/search.py",
        "return STALE if self._newest_at < now_ms - FRESH_MS else",
        "return STALE if False else",
        "The leader has forgotten the producer, and takes the late request.",
        _SEARCH,
    ),
    _mutant(
        "numbers-do-not-wrap",
        "_state/resolving/search.py",
        "behind = (self.wanted.sequence - head.sequence) % SEQUENCE_MODULUS",
        "behind = abs(self.wanted.sequence - head.sequence)",
        "A later number counts as an earlier one.",
        _SEARCH,
    ),
    _mutant(
        "the-end-of-the-batch-is-not-looked-at",
        "_net/resolving/reading.py",
        "        known = known_verdict(self._batch)\n",
        "        known = None\n",
        "A record that ended before its batch is looked for by numbers that the batch has no longer.",
        f"{_SCENARIOS}::test_a_batch_that_is_refused_in_the_end",
    ),
    _mutant(
        "what-was-read-outlives-its-log",
        "_net/resolving/reading.py",
        "if self._has_other_numbers or self._source != (connection, epoch):",
        "if self._has_other_numbers or self._source is None:",
        "An unclean election replaces the log, and the record in its new part is not seen.",
        f"{_SCENARIOS}::test_an_unclean_election_while_the_log_is_read",
    ),
    _mutant(
        "found-records-count-for-each-flush",
        "_state/queues/flush.py",
        "        return max(0, known - told.ahead.get(number, NO_PART).records)\n",
        "        return failure.records\n",
        "A record that an earlier report had is counted again when its batch is found.",
        f"{_TALLY}::test_records_that_were_found_count_once",
    ),
    _mutant(
        "absence-by-changed-bytes",
        "_wire/heads.py",
        "        if crc32c.crc32c(view[_ATTRIBUTES_AT:size]) != _CHECKSUM.unpack_from(view, _CRC_AT)[0]:\n",
        "        if False:\n",
        "A bit of a batch has changed on a disk: its record is told to be not written, though it is in the log.",
        "tests/wire/test_heads.py::test_bytes_that_were_changed",
    ),
    _mutant(
        "defect-of-a-search-ends-the-producer",
        "_net/resolving/resolver.py",
        "        except Exception as error:\n",
        "        except KeyError as error:\n",
        "One answer that the search cannot read fails all records of the producer.",
        f"{_SCENARIOS}::test_a_search_that_fails_unexpectedly",
    ),
)

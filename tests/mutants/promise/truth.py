"""The mutants of truth: outcomes that are unproven or wrong."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Kind

_SETTLEMENT: Final = "tests/state/delivery/test_settlement.py"
_VERDICTS: Final = "tests/state/delivery/test_verdicts.py"

# Makes a tuple as it was made before Python 3.14.
_UNHASHED: Final = '"((PyObject *(*)(PyObject *, Py_ssize_t))PyType_GenericAlloc)"'

_mutant = Kind("truth")

TRUTH: Final = (
    _mutant(
        "older-ones-forgotten",
        "_state/delivery/settlement.py",
        "        for older in before:\n            self.outcomes.leave_queue(older)",
        "        for older in []:\n            self.outcomes.leave_queue(older)",
        "A restarted leader knows only the newest batch of a producer; earlier ones are in the log, and wait until their deadline.",
        "tests/state/batching/test_sequences.py",
    ),
    _mutant(
        "lost-connection-says-not-written",
        "_state/delivery/settlement.py",
        "self._retry(batch, error, now, proven=not written)",
        "self._retry(batch, error, now, proven=True)",
        "A request whose connection broke counts as not written.",
        _SETTLEMENT,
    ),
    _mutant(
        "request-timed-out-says-not-written",
        "_state/delivery/verdicts.py",
        "proof=code in REFUSED_BEFORE_APPEND)",
        "proof=code in REFUSED_BEFORE_APPEND or code == 7)",
        "REQUEST_TIMED_OUT counts as not written, although the leader has the batch (M13).",
        _VERDICTS,
    ),
    _mutant(
        "appended-but-not-replicated-says-not-written",
        "_state/delivery/verdicts.py",
        "proof=code in REFUSED_BEFORE_APPEND)",
        "proof=code in REFUSED_BEFORE_APPEND or code == 20)",
        "NOT_ENOUGH_REPLICAS_AFTER_APPEND counts as not written (M13).",
        _VERDICTS,
    ),
    _mutant(
        "deposed-leader-proves-nothing-written",
        "_state/delivery/verdicts.py",
        "if code in _REFUSED_AT_LOOK_UP and base_offset is not None and base_offset < 0:",
        "if code in _REFUSED_AT_LOOK_UP:",
        "NOT_LEADER after the append (DelayedProduce) is taken for a refusal before it.",
        _VERDICTS,
    ),
    _mutant(
        "final-error-forgets-the-unanswered-attempt",
        "_state/delivery/refusals.py",
        "clean = decided.proves_not_appended and not batch.dirty",
        "clean = decided.proves_not_appended",
        "An error that proves this attempt not written is reported as NOT_WRITTEN, though the attempt before has no answer.",
        _SETTLEMENT,
    ),
    _mutant(
        "expired-in-flight-says-not-written",
        "_state/delivery/expiry.py",
        "written = batch.in_flight or batch.dirty or (",
        "written = batch.dirty or (",
        "A record whose deadline passes while its request is unanswered is reported as NOT_WRITTEN.",
        _SETTLEMENT,
    ),
    _mutant(
        "expired-while-dirty-says-not-written",
        "_state/delivery/expiry.py",
        "written = batch.in_flight or batch.dirty or (",
        "written = batch.in_flight or (",
        "A record whose deadline passes between two attempts is reported as NOT_WRITTEN, though the first has no answer.",
        _SETTLEMENT,
    ),
    _mutant(
        "close-says-not-written-of-dirty-batches",
        "_state/delivery/endings.py",
        "written = batch.in_flight or batch.dirty or not batch.judged",
        "written = batch.in_flight or not batch.judged",
        "Closing reports NOT_WRITTEN for a batch that waits for its retry after an unanswered attempt.",
        "tests/state/delivery/test_closing_dirty.py",
    ),
    _mutant(
        "close-says-not-written-of-batches-in-flight",
        "_state/delivery/endings.py",
        "written = batch.in_flight or batch.dirty or not batch.judged",
        "written = batch.dirty or not batch.judged",
        "Closing reports NOT_WRITTEN for records in flight (librdkafka's purge reports such records separately).",
        _SETTLEMENT,
    ),
    _mutant(
        "attempts-used-up-say-not-written",
        "_state/delivery/settlement.py",
        "outcome=Outcome.UNKNOWN if batch.dirty else Outcome.NOT_WRITTEN,",
        "outcome=Outcome.NOT_WRITTEN,",
        "When `retries` is used up, a batch that may be in the log is reported as NOT_WRITTEN.",
        _SETTLEMENT,
    ),
    _mutant(
        "repetition-taken-for-a-failure",
        "_state/delivery/verdicts.py",
        "    ErrorCode.DUPLICATE_SEQUENCE_NUMBER: Kind.ACK,",
        "    ErrorCode.DUPLICATE_SEQUENCE_NUMBER: Kind.FAIL,",
        "DUPLICATE_SEQUENCE_NUMBER, the proof that the batch is in the log, is raised as an error.",
        _VERDICTS,
    ),
    _mutant(
        "withdrawn-though-drained",
        "_state/delivery/endings.py",
        " or batch.attempts or batch.settled:",
        " or batch.settled:",
        "try_cancel() reports a record as withdrawn which is on the wire.",
        _SETTLEMENT,
    ),
    _mutant(
        "offset-of-a-forgotten-repetition",
        "_core/delivery.pyx",
        "batch.base_offset + delivery._index if batch.base_offset >= 0 else -1)",
        "batch.base_offset + delivery._index)",
        "An answer without an offset gives the n-th record offset -1 + n.",
        "tests/state/delivery/test_unknown_offsets.py",
    ),
    _mutant(
        "hash-is-always-zero",
        "_core/delivery.pyx",
        "    object aioproducer_new_tuple(object type, Py_ssize_t size)",
        f"    object aioproducer_new_tuple {_UNHASHED}(object type, Py_ssize_t size)",
        "Metadata that the core makes without the constructor has the hash 0: sets do not find equal ones.",
        "tests/core/test_delivery.py::test_metadata_is_the_tuple_that_it_equals",
        since="3.14",
    ),
    _mutant(
        "hash-of-anchors-is-always-zero",
        "_core/ordinary.pyx",
        "    object aioproducer_new_tuple(object type, Py_ssize_t size)",
        f"    object aioproducer_new_tuple {_UNHASHED}(object type, Py_ssize_t size)",
        "Named tuples of three fields that the core makes have the hash 0.",
        f"{_SETTLEMENT}::test_the_newest_record_in_the_log_is_the_anchor",
        since="3.14",
    ),
    _mutant(
        "append-time-lost",
        "_core/ordinary_settling.pxi",
        "count = batch.acknowledge_all(base_offset, log_append_time)",
        "count = batch.acknowledge_all(base_offset, -1)",
        "On a topic with LogAppendTime the metadata has the producer's timestamp.",
        _SETTLEMENT,
    ),
    _mutant(
        "repetition-answered-with-its-own-time",
        "_state/delivery/settlement.py",
        "return -1 if repeated else answered",
        "return answered",
        "The latest timestamp of the batch, with which Kafka answers a repetition, becomes every record's own time.",
        "tests/state/delivery/test_repeated_append_times.py",
    ),
    _mutant(
        "rewritten-in-two-and-one-of-them-lost",
        "_state/queues/rewriting.py",
        "return _rewrite(batch, make, math.inf, set(batch.pending_indexes()))[0]",
        "return _rewrite(batch, make, batch.size + BATCH_OVERHEAD, set(batch.pending_indexes()))[0]",
        "Timestamps are distances from the first one, so that a batch without its first record takes more bytes; records beyond "
        "the old size get a second batch, which is not sent.",
        "tests/state/queues/test_rewriting.py",
    ),
    _mutant(
        "one-attempt-more-than-retries",
        "_state/delivery/settlement.py",
        "        if batch.attempts > self.retries:",
        "        if batch.attempts > self.retries + 1:",
        "With retries=0 and no idempotence a batch is sent twice, and its records are doubled.",
        "tests/state/delivery/test_settlement.py::test_when_the_retries_are_used_up",
    ),
)

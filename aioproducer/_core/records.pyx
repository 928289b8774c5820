# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: auto_pickle=False, autotestdict=False, binding=True, freethreading_compatible=False
"""The open batch: Kafka's RecordBatch v2, written record by record as it is accepted, and settled as a whole."""

cimport cython
from cpython.buffer cimport PyBUF_SIMPLE, PyBUF_WRITABLE, PyBuffer_FillInfo, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.math cimport NAN
from libc.string cimport memcpy
from cpython.mem cimport PyMem_Free, PyMem_Realloc
from cpython.weakref cimport PyWeakref_NewRef

from collections import deque

from aioproducer.outcome import Outcome

cdef extern from "platform.h":
    pass

cdef extern from "Python.h":
    const char *PyUnicode_AsUTF8AndSize(object text, Py_ssize_t *size) except NULL

cdef extern from *:
    """
    /* The referent of a weak reference, or None. */
    static inline PyObject *aioproducer_referent(PyObject *weak) {
    #if PY_VERSION_HEX >= 0x030D0000
        PyObject *found = NULL;
        if (PyWeakref_GetRef(weak, &found) == 0)
            found = Py_NewRef(Py_None);
        return found;
    #else
        return Py_NewRef(PyWeakref_GET_OBJECT(weak));
    #endif
    }
    """
    object aioproducer_referent(object weak)

cdef extern from "clock.h":
    double aioproducer_monotonic() noexcept nogil
    long long aioproducer_wall_ms() noexcept nogil

cdef enum:
    CRC_START = 21
    MIN_CAPACITY = 512
    TRANSACTIONAL = 0x10

# A batch stores the outcome of a record as its index in this tuple.
OUTCOMES = tuple(Outcome)
cdef dict _place_of = {outcome: place for place, outcome in enumerate(OUTCOMES)}
BATCH_OVERHEAD = HEADER

# Records accepted within this time share one mark and so one deadline.
cdef double MARK_EVERY = 0.001


include "records_clock.pxi"
include "records_encoding.pxi"
include "records_octets.pxi"
include "records_waiting.pxi"


cdef class ReadMark:
    """Becomes ``seen`` when a caller reads the failure of a record of any batch that refers to it."""


cdef inline object reference_to(object owner):
    return None if owner is None else PyWeakref_NewRef(owner, None)


cdef object owner_of(Batch batch):
    return None if batch._owner is None else aioproducer_referent(batch._owner)


cdef class BatchObserver:
    """An object of the core that learns when records of a batch get their outcome, or move to other batches."""

    cdef int changed(self) except -1:
        return 0


cdef class BatchSettings:
    """The settings that all batches of a producer share: one argument, as keywords are a tenth of the cost of a batch."""

    def __cinit__(self, object loop=None, *, double max_age=1.0, double delivery_timeout=120.0, Waker waker=None,
                  list unseen_log=None):
        self._loop = loop
        self._max_age = max_age
        self._delivery_timeout = delivery_timeout
        self._waker = waker
        self._unseen_log = unseen_log


cdef class Batch:
    """A RecordBatch v2 while it grows, is sent and is settled.

    ``view()`` lends its bytes; while a reference to them exists they are never changed in place (stamping moves to a
    copy first), because a transport may keep a reference until its socket took them.
    """

    def __cinit__(self, str topic not None, int partition, Py_ssize_t limit, BatchSettings settings not None,
                  double opened_at=0.0, object owner=None, object share=None, bint awaited=False, Py_ssize_t expected=0):
        self.topic = topic
        self.partition = partition
        self.limit = limit
        self.opened_at = opened_at
        self.stale_at = opened_at + settings._max_age
        self.delivery_timeout = settings._delivery_timeout
        self.loop = settings._loop
        self._owner = reference_to(owner)
        self.share = share
        self.awaited = awaited
        self._unseen_log = settings._unseen_log
        self._waker = settings._waker
        self._octets = octets_of(NULL, 0)
        if expected > HEADER:
            # Growing step by step would copy the same bytes again and again.
            self._octets.reserve(expected - HEADER, 0)
        self.base_offset = -1
        self.log_append_time = -1
        self.drained_at = self.written_at = self.answered_at = NAN

    def __dealloc__(self):
        PyMem_Free(self._marks)

    @property
    def owner(self):
        """The owner of the batch. Held weakly: a kept delivery does not keep the producer."""
        return owner_of(self)

    @owner.setter
    def owner(self, owner):
        self._owner = reference_to(owner)

    def __repr__(self):
        return (f"<Batch {self.topic}-{self.partition}: {self.record_count} records, {self.size} bytes, "
                f"{OUTCOMES[self.outcome].value}>")

    # -- bytes

    @property
    def size(self):
        """The present size of the whole batch in bytes: header and records; 0 once it is settled."""
        return self.byte_count()

    cdef Py_ssize_t byte_count(self) noexcept:
        return 0 if self._octets is None else self._octets.size

    @property
    def max_timestamp(self):
        """The latest timestamp of its records."""
        return self._max_timestamp

    def view(self):
        """Lend the bytes."""
        return memoryview(self._octets)

    def __bytes__(self):
        return bytes(self.view())

    cdef bint fits(self, Py_ssize_t size, double now) noexcept:
        return not self.closed and self._octets.size + size <= self.limit and now < self.stale_at

    cdef Py_ssize_t body_of(self, View key, View value, Py_ssize_t headers_size, long long timestamp) noexcept:
        cdef long long delta = timestamp - self._base_timestamp if self.record_count else 0
        return body_size(key, value, headers_size, delta, self.record_count)

    cdef int append_raw(self, View key, View value, tuple headers, Py_ssize_t body,
                        long long timestamp, double now, double deadline, dict deadlines) except -1:
        # ``body`` is the result of `body_of`. Steps that may fail come before the record counts: a mark without a
        # record does no harm. No step here may run a garbage collection, which could append to this batch. So
        # ``deadlines`` is an empty dictionary for a record with a deadline.
        cdef Octets octets = self._octets
        cdef long long delta
        cdef unsigned char *at
        if self.record_count == 0:
            self._base_timestamp = self._max_timestamp = timestamp
        delta = timestamp - self._base_timestamp
        octets.reserve(body + 10, self.limit)
        if self._mark_count == 0 or now - self._marks[self._mark_count - 1].accepted >= MARK_EVERY:
            self._add_mark(now)
        if deadline > 0:
            if self._own_deadlines is None:
                self._own_deadlines = deadlines
            self._own_deadlines[self.record_count] = deadline
        at = put_varint(octets.data + octets.size, body)
        at[0] = 0  # record attributes: none are defined
        at = put_varint(at + 1, delta)
        at = put_varint(at, self.record_count)
        at = put_bytes(at, key.data, key.size)
        at = put_bytes(at, value.data, value.size)
        if headers is None:
            at[0] = 0
            at += 1
        else:
            at = put_headers(at, headers)
        octets.size = at - octets.data
        if timestamp > self._max_timestamp:
            self._max_timestamp = timestamp
        self.record_count += 1
        self.pending += 1
        return 0

    def append(self, key, value, tuple headers, long long timestamp, *, double now=0.0, double deadline=0.0):
        """Append one record of ``bytes | None``; headers are a tuple of ``(str, bytes | None)`` pairs or None."""
        if self.closed:
            raise ValueError("this batch is closed")
        cdef View k = view_of(key)
        cdef View v = view_of(value)
        cdef dict deadlines = {}
        self.append_raw(
            k, v, headers, self.body_of(k, v, headers_size_of(headers), timestamp), timestamp, now, deadline, deadlines)

    def close(self):
        """Accept no more records."""
        self.closed = True

    cdef Octets _written(self):
        # The bytes of the batch. A settled batch has given them back; reading through None would end the process.
        if self._octets is None:
            raise ValueError("this batch is settled: its bytes are gone")
        return self._octets

    def plain_records(self):
        """A copy of the records without the batch's header: the input of a compressor."""
        cdef Octets octets = self._written()
        return PyBytes_FromStringAndSize(<const char *>octets.data + HEADER, octets.size - HEADER)

    def replace_records(self, bytes payload not None, int compression):
        """Replace the plain records by compressed ones."""
        cdef Octets octets = octets_of(<const unsigned char *>PyBytes_AS_STRING(payload), len(payload))
        # The allocation may have run a finalizer, which may have ended the batch.
        self._written()
        self._octets = octets
        self.compression = compression

    def read_records(self, bytes plain not None):
        """Read ``(timestamp, key, value, headers)`` of every record back from the plain (decompressed) bytes."""
        cdef const unsigned char *data = <const unsigned char *>PyBytes_AS_STRING(plain)
        cdef Py_ssize_t at = 0
        cdef long long timestamp
        cdef list found = []
        for _ in range(self.record_count):
            take_varint(data, &at)
            at += 1
            timestamp = self._base_timestamp + take_varint(data, &at)
            take_varint(data, &at)
            key = take_bytes(data, &at)
            value = take_bytes(data, &at)
            found.append((timestamp, key, value, take_headers(data, &at)))
        return found

    def stamp(self, long long producer_id, int epoch, int base_sequence, object checksum, bint transactional=False):
        """Close the batch and write its header with this identity; ``checksum`` computes CRC-32C."""
        self.write_header(producer_id, epoch, base_sequence, checksum, transactional)

    cdef int write_header(self, long long producer_id, int epoch, int base_sequence, object checksum,
                          bint transactional) except -1:
        cdef Octets octets = self._written()
        cdef unsigned char *data
        self.closed = True
        if octets.exports:
            octets = self._octets = octets_of(octets.data + HEADER, octets.size - HEADER)
        data = octets.data
        put_int(data, 0, 8)
        put_int(data + 8, octets.size - 12, 4)
        put_int(data + 12, 0xffffffff, 4)
        data[16] = 2
        put_int(data + 21, (self.compression & 0x07) | (TRANSACTIONAL if transactional else 0), 2)
        put_int(data + 23, self.record_count - 1, 4)
        put_int(data + 27, self._base_timestamp, 8)
        put_int(data + 35, self._max_timestamp, 8)
        put_int(data + 43, producer_id, 8)
        put_int(data + 51, epoch, 2)
        put_int(data + 53, base_sequence, 4)
        put_int(data + 57, self.record_count, 4)
        put_int(data + 17, <unsigned int>checksum(Checked(octets)), 4)
        return 0

    # -- deadlines: one mark per run of records accepted within a millisecond

    cdef int _add_mark(self, double now) except -1:
        cdef Mark *grown
        cdef int capacity
        if self._mark_count == self._mark_capacity:
            capacity = max(2, self._mark_capacity * 2)
            grown = <Mark *>PyMem_Realloc(self._marks, capacity * sizeof(Mark))
            if grown == NULL:
                raise MemoryError()
            self._marks = grown
            self._mark_capacity = capacity
        self._marks[self._mark_count].first = self.record_count
        self._marks[self._mark_count].accepted = now
        self._mark_count += 1
        return 0

    def deadlines(self):
        """The deadline of every record, in order."""
        cdef list found = []
        cdef int i, run, end
        for run in range(self._mark_count):
            end = self._marks[run + 1].first if run + 1 < self._mark_count else self.record_count
            for i in range(self._marks[run].first, end):
                found.append(self._marks[run].accepted + self.delivery_timeout)
        if self._own_deadlines is not None:
            for index, deadline in self._own_deadlines.items():
                found[index] = deadline
        return found

    def next_deadline(self):
        """The earliest deadline of a record that is not settled, or None."""
        cdef int first = self._first_open()
        cdef int run
        if first == self.record_count or not self.pending:
            return None
        if self._own_deadlines is not None:
            return min((due for i, due in enumerate(self.deadlines()) if self.outcome_of(i) == PENDING), default=None)
        for run in range(self._mark_count - 1, 0, -1):
            if self._marks[run].first <= first:
                return self._marks[run].accepted + self.delivery_timeout
        return self._marks[0].accepted + self.delivery_timeout

    def accepted_times(self):
        """The time of acceptance of each record, to a millisecond, in order."""
        cdef list found = []
        cdef int run, end
        for run in range(self._mark_count):
            end = self._marks[run + 1].first if run + 1 < self._mark_count else self.record_count
            found += [self._marks[run].accepted] * (end - self._marks[run].first)
        return found

    def waiting_since(self):
        """The time of acceptance of the first record without an outcome, None if there is none. For any thread."""
        cdef int first, run
        if not self.pending:
            return None
        first = self._first_open()
        for run in range(self._mark_count - 1, -1, -1):
            if self._marks[run].first <= first:
                return self._marks[run].accepted
        return None

    cdef int _first_open(self) except -1:
        # Records expire in the order of their acceptance: those at the front need no further checks.
        while self._open_from < self.record_count and self.outcome_of(self._open_from) != PENDING:
            self._open_from += 1
        return self._open_from

    def overdue(self, double now):
        """The indexes of the records that are not settled and whose deadline has passed."""
        cdef list found = []
        cdef int i, run, end
        cdef int first = self._first_open()
        if self._own_deadlines is not None:
            return [i for i, due in enumerate(self.deadlines()) if due <= now and self.outcome_of(i) == PENDING]
        for run in range(self._mark_count):
            if self._marks[run].accepted + self.delivery_timeout > now:
                break
            end = self._marks[run + 1].first if run + 1 < self._mark_count else self.record_count
            for i in range(max(first, self._marks[run].first), end):
                if self.outcome_of(i) == PENDING:
                    found.append(i)
        return found

    def pending_indexes(self):
        """The indexes of the records that are not settled."""
        return [i for i in range(self.record_count) if self.outcome_of(i) == PENDING]

    # -- outcomes

    cdef int outcome_of(self, int index) except -1:
        if self._individual is not None:
            alone = self._individual.get(index)
            if alone is not None:
                return alone[0]
        return self.outcome

    cdef object error_of(self, int index):
        if self._individual is not None:
            alone = self._individual.get(index)
            if alone is not None:
                return alone[1]
        return self.error

    def fate(self, int index):
        """Outcome and error of one record."""
        return self.outcome_of(index), self.error_of(index)

    def acknowledge(self, long long base_offset, long long log_append_time=-1):
        """The broker wrote the batch: every unsettled record is acknowledged. Returns their number."""
        return self.acknowledge_all(base_offset, log_append_time)

    cdef int acknowledge_all(self, long long base_offset, long long log_append_time) except -1:
        self.base_offset = base_offset
        self.log_append_time = log_append_time
        return self._settle(ACKED, None)

    def fail(self, object error not None):
        """Every unsettled record failed with this error, which has the outcome. Returns their number."""
        return self._settle(_place_of[error.outcome], error)

    cdef int _settle(self, int outcome, object error) except -1:
        cdef int count = self.pending
        if self.outcome != PENDING:
            raise ValueError(f"{self!r} is settled already")
        # Steps that may fail come first: a batch that could not be settled is unchanged, with all of its waiters.
        cdef list waiters = [self._waiters[index] for index in sorted(self._waiters)] if self._waiters else None
        if outcome != ACKED:
            self._count_unseen(count)
        if waiters is not None:
            self._line_up(waiters)
        self._waiters = None
        self.outcome = outcome
        self.error = error
        self.pending = 0
        self.closed = True
        self._octets = None
        self._own_deadlines = self._contexts = None
        if self._observers is not None:
            self._tell_observers()
        if waiters is not None:
            self._wake(waiters)
        return count

    def fail_some(self, indexes, object error not None):
        """Settle only these records (expired, withdrawn); the others go on. Returns how many were pending."""
        cdef int outcome = _place_of[error.outcome]
        cdef int count = 0
        if self._individual is None:
            self._individual = {}
        for index in indexes:
            if self.outcome_of(index) == PENDING:
                self._individual[index] = (outcome, error)
                self.pending -= 1
                count += 1
        self._count_unseen(count)
        if self._observers is not None:
            self._tell_observers()
        if self._waiters:
            told = [index for index in sorted(indexes) if index in self._waiters]
            waiters = [self._waiters[index] for index in told]
            self._line_up(waiters)
            for index in told:
                del self._waiters[index]
            self._wake(waiters)
        return count

    @property
    def has_individual(self):
        """True when some records were settled before the rest."""
        return self._individual is not None

    cdef _count_unseen(self, int count):
        # Deliveries that the program still holds are counted when they are dropped unread.
        cdef int unheld = max(0, count - self.held)
        if unheld:
            self.note_unseen(unheld)

    cdef int note_unseen(self, int count) except -1:
        if self.unseen == 0 and self._unseen_log is not None:
            self._unseen_log.append(self)
        self.unseen += count
        return 0

    def lone_error(self):
        """The error of a record that was settled individually, if there is one."""
        for _, error in (self._individual or {}).values():
            return error
        return None

    def take_unseen(self):
        """The number of failed records with unread outcomes since the last call."""
        count, self.unseen = self.unseen, 0
        return count

    # -- forwarding: the records live on in other batches (split, re-encoded)

    def forward(self, list places not None):
        """From now on record i is record ``places[i][1]`` of batch ``places[i][0]``; None: it stays settled here."""
        cdef Batch target
        self._forward = places
        self.pending = 0
        self.closed = True
        self._octets = self._contexts = None
        waiters, self._waiters = self._waiters, None
        for index, mine in (waiters or {}).items():
            place = places[index]
            target = <Batch?>place[0]
            for waiter in mine if type(mine) is list else [mine]:
                target.add_waiter(place[1], waiter)
        if self._observers is not None:
            self._tell_observers()

    @property
    def settled(self):
        """True when the batch has ended, or lives on in others.

        A part of a split batch whose records had all expired before has not: its numbers must reach the log, or be
        given up, like any others.
        """
        return self.has_ended()

    cdef bint has_ended(self) noexcept:
        return self.outcome != PENDING or self._forward is not None

    @property
    def forwarded(self):
        """True when the records live on in other batches."""
        return self._forward is not None

    # -- the contexts that its records were sent in, each as the token of a tracer

    cdef int note_context(self, int index, object token) except -1:
        # The record at ``index``, which is the newest, was sent in this context; None: in none.
        if self.outcome != PENDING or self._forward is not None:
            return 0
        if self._contexts is None:
            if token is not None:
                self._contexts = [(index, token)]
        elif (<tuple>self._contexts[len(self._contexts) - 1])[1] is not token:
            self._contexts.append((index, token))
        return 0

    def set_context(self, int index, token):
        """The newest record, at ``index``, was sent in the context of this token; None: in none."""
        self.note_context(index, token)

    def contexts(self):
        """The token of every record in order, None for one without a context; None if no record has one."""
        cdef list found
        cdef Py_ssize_t run, end
        if self._contexts is None:
            return None
        found = [None] * self.record_count
        for run, (first, token) in enumerate(self._contexts):
            end = self._contexts[run + 1][0] if run + 1 < len(self._contexts) else self.record_count
            found[first:end] = [token] * (end - first)
        return found

    def open_contexts(self, indexes=None):
        """The distinct tokens of the records without an outcome, of all or of those at ``indexes``."""
        cdef list each
        # By identity: a comparison may run code of the tracer.
        cdef dict found
        if self._contexts is None:
            return ()
        if indexes is None and self._individual is None:
            found = {id(token): token for _, token in self._contexts}
        else:
            each = self.contexts()
            indexes = range(self.record_count) if indexes is None else indexes
            found = {id(each[index]): each[index] for index in indexes if self.outcome_of(index) == PENDING}
        return tuple([token for token in found.values() if token is not None])

    # -- observers, which learn of every change of an outcome, and of a move of the records

    cdef int watch(self, BatchObserver observer) except -1:
        if self._observers is None:
            self._observers = [observer]
        else:
            self._observers.append(observer)
        return 0

    cdef int _tell_observers(self) except -1:
        for observer in self._observers:
            (<BatchObserver>observer).changed()
        if self.outcome != PENDING or self._forward is not None:
            self._observers = None
        return 0

    # -- waiters

    cdef int add_waiter(self, int index, object waiter) except -1:
        self.add_observer(index, waiter)
        return self.mark_awaited()

    cdef int add_observer(self, int index, object waiter) except -1:
        # An observer, which does not make the batch more urgent.
        if self._waiters is None:
            self._waiters = {}
        mine = self._waiters.get(index)
        if mine is None:
            self._waiters[index] = waiter
        elif type(mine) is list:
            (<list>mine).append(waiter)
        else:
            self._waiters[index] = [mine, waiter]
        return 0

    cdef list remove_waiters(self, int index, object matches):
        # By record, so that a thousand waiters that leave one batch are not compared with each other.
        # Comparing callbacks may run user code, which may raise, or add and remove others: nothing is removed before.
        cdef list before = self._waiters_of(index)
        cdef set matching = {id(waiter) for waiter in before if matches(waiter)}
        if not matching:
            return []
        cdef list several = self._waiters_of(index)
        cdef list kept = [waiter for waiter in several if id(waiter) not in matching]
        if kept:
            self._waiters[index] = kept
        elif several:
            del self._waiters[index]
        return [waiter for waiter in several if id(waiter) in matching]

    cdef list _waiters_of(self, int index):
        mine = self._waiters.get(index) if self._waiters else None
        if mine is None:
            return []
        return list(mine) if type(mine) is list else [mine]

    cdef int _line_up(self, list waiters) except -1:
        # `_wake` wakes them, when the state that they wait for is visible.
        if self._waker is not None:
            self._waker._line.extend(waiters)
        return 0

    cdef int _wake(self, list waiters) except -1:
        if self._waker is not None:
            return self._waker._serve()
        return wake(self.loop, waiters)

    cdef int mark_awaited(self) except -1:
        if not self.awaited:
            self.awaited = True
            owner = owner_of(self)
            if owner is not None and self.outcome == PENDING:
                owner.on_awaited(self)
        return 0

"""C-level view of the open batch, for the modules of the core that append to it and settle it."""

# Bytes of a batch before its records.
cdef enum:
    HEADER = 61

# Places in OUTCOMES.
cdef enum:
    PENDING = 0
    ACKED = 1


cdef class Clock:
    cdef double _looked_at
    cdef long long _wall_seen

    cdef double now(self) noexcept
    cdef long long wall(self) noexcept
    cdef long long wall_at(self, double now) noexcept


cdef class ManualClock(Clock):
    cdef public double monotonic
    cdef public long long wall_ms


cdef struct Mark:
    int first
    double accepted


cdef struct View:
    const unsigned char *data
    Py_ssize_t size  # -1: null


cdef class Octets:
    cdef unsigned char *data
    cdef Py_ssize_t size
    cdef Py_ssize_t capacity
    cdef int exports

    cdef int reserve(self, Py_ssize_t extra, Py_ssize_t limit) except -1


cdef int wake(object loop, object waiter) except -1


cdef class Waker:
    cdef object _loop
    cdef object _line
    cdef int _left
    cdef bint _comes_again

    cdef int _serve(self) except -1
    cdef int _come_again(self) except -1


cdef class ReadMark:
    cdef public bint seen


cdef class BatchObserver:
    cdef int changed(self) except -1


cdef class BatchSettings:
    cdef object _loop
    cdef double _max_age
    cdef double _delivery_timeout
    cdef Waker _waker
    cdef list _unseen_log


cdef class Batch:
    # bytes
    cdef Octets _octets
    cdef readonly int compression
    cdef public Py_ssize_t limit
    # records
    cdef readonly int record_count
    cdef long long _base_timestamp
    cdef long long _max_timestamp
    cdef Mark *_marks
    cdef int _mark_count
    cdef int _mark_capacity
    cdef dict _own_deadlines
    cdef int _open_from
    # content
    cdef readonly str topic
    cdef readonly int partition
    cdef object _owner
    cdef public object share
    cdef public Py_ssize_t charged
    # lifecycle
    cdef readonly double opened_at
    cdef readonly double stale_at
    cdef readonly double delivery_timeout
    cdef readonly bint closed
    cdef readonly bint awaited
    cdef public double drained_at
    cdef public double written_at
    cdef public double answered_at
    # outcome
    cdef readonly int outcome
    cdef readonly long long base_offset
    cdef readonly long long log_append_time
    cdef readonly object error
    cdef dict _individual
    cdef readonly int pending
    cdef list _forward
    # Of a producer with tracing: the contexts of the records, as (index of the first record, token) of each run.
    cdef list _contexts
    # waiters
    cdef public object loop
    cdef dict _waiters  # by record
    cdef list _observers  # of the whole batch
    cdef Waker _waker
    cdef int held
    cdef int unseen
    # Becomes `seen` when a caller reads the failure of a record.
    cdef public ReadMark read_mark
    cdef list _unseen_log

    cdef bint fits(self, Py_ssize_t size, double now) noexcept
    cdef Py_ssize_t body_of(self, View key, View value, Py_ssize_t headers_size, long long timestamp) noexcept
    cdef int append_raw(self, View key, View value, tuple headers, Py_ssize_t body,
                        long long timestamp, double now, double deadline, dict deadlines) except -1
    cdef Octets _written(self)
    cdef Py_ssize_t byte_count(self) noexcept
    cdef bint has_ended(self) noexcept
    cdef int acknowledge_all(self, long long base_offset, long long log_append_time) except -1
    cdef int _settle(self, int outcome, object error) except -1
    cdef int write_header(self, long long producer_id, int epoch, int base_sequence, object checksum,
                          bint transactional) except -1
    cdef int mark_awaited(self) except -1
    cdef int outcome_of(self, int index) except -1
    cdef object error_of(self, int index)
    cdef int _add_mark(self, double now) except -1
    cdef int _first_open(self) except -1
    cdef _count_unseen(self, int count)
    cdef int note_unseen(self, int count) except -1
    cdef int _tell_observers(self) except -1
    cdef int watch(self, BatchObserver observer) except -1
    cdef int add_waiter(self, int index, object waiter) except -1
    cdef int add_observer(self, int index, object waiter) except -1
    cdef int _line_up(self, list waiters) except -1
    cdef int _wake(self, list waiters) except -1
    cdef int note_context(self, int index, object token) except -1
    cdef list remove_waiters(self, int index, object matches)
    cdef list _waiters_of(self, int index)


cdef object owner_of(Batch batch)


cdef inline void failure_was_read(Batch batch) noexcept:
    if batch.read_mark is not None:
        batch.read_mark.seen = True


cdef unsigned int murmur2_of(const unsigned char *data, Py_ssize_t size) noexcept
cdef Py_ssize_t body_size(View key, View value, Py_ssize_t headers_size, long long timestamp_delta, int offset_delta) noexcept
cdef Py_ssize_t framed_size(Py_ssize_t body) noexcept
cdef Py_ssize_t fresh_size(View key, View value, Py_ssize_t headers_size) noexcept
cdef Py_ssize_t headers_size_of(tuple headers) except -1

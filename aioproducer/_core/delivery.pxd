"""C-level view of a delivery, for the fast path that makes one per accepted record."""

from aioproducer._core.records cimport Batch


cdef class Delivery:
    cdef Batch _batch
    cdef int _index
    cdef int _key_size
    cdef int _value_size
    cdef unsigned char _flags
    cdef long long _timestamp


cdef class Sending:
    # A Delivery; of send_batch() a BatchDelivery.
    cdef object _delivery
    cdef object _entry
    cdef object _inner
    cdef unsigned char _flags


# Flags of a sending.
cdef enum:
    STARTED = 1     # awaited at least once
    MUST_YIELD = 2  # let the loop run once before answering
    METADATA = 4    # the answer is the metadata, not the delivery
    FINISHED = 8    # the object whose steps it takes has ended


cdef inline void fill(Delivery delivery, Batch batch, Py_ssize_t key_size, Py_ssize_t value_size,
                      long long timestamp) noexcept:
    # The delivery of the newest record of this batch.
    delivery._batch = batch
    delivery._index = batch.record_count - 1
    delivery._key_size = <int>key_size
    delivery._value_size = <int>value_size
    delivery._timestamp = timestamp
    batch.held += 1


cdef class BatchDelivery:
    cdef readonly int total
    cdef list _batches
    # The last place in the list of batches is reserved for the next batch, which then needs no memory.
    cdef bint _has_room
    cdef unsigned int *_ordinals
    cdef int *_indexes
    cdef dict _refused
    cdef int _placed
    # Its result was made, so every outcome counts as seen.
    cdef bint _seen
    # The records before this one have their outcome.
    cdef int _settled
    cdef readonly object topic
    cdef object _loop

    cdef list _watchers

    cdef int _let_go(self) except -1
    cdef int _tell_if_placed(self) except -1
    cdef int _check(self, int at) except -1
    cdef Batch _locate(self, int at, int *index)
    cdef object _first_pending(self)
    cdef int make_room(self) except -1
    cdef inline Py_ssize_t _batch_count(self) noexcept
    cdef Py_ssize_t _add(self, Batch batch) except -1
    cdef int place(self, int at, Batch batch, int index) except -1


cdef inline bint knows(BatchDelivery delivery, int at) except -1:
    # The record has its place, or was refused.
    return delivery._ordinals[at] != 0 or (len(delivery._refused) > 0 and at in delivery._refused)

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
    cdef object _delivery
    cdef object _entry
    cdef object _inner
    cdef unsigned char _flags


cdef Delivery new_delivery(Batch batch, int index, Py_ssize_t key_size, Py_ssize_t value_size, long long timestamp)
cdef Sending accepted(Delivery delivery, bint must_yield, bint wants_metadata)


cdef class BatchDelivery:
    cdef readonly int total
    cdef list _batches
    cdef unsigned int *_ordinals
    cdef int *_indexes
    cdef dict _refused
    cdef int _placed
    # Its result was made, so that every outcome was looked at.
    cdef bint _seen
    # The records before this one have their outcome.
    cdef int _settled
    cdef readonly object topic
    cdef object _loop

    cdef list _watchers

    cdef int _let_go(self) except -1
    cdef int _tell_if_placed(self) except -1
    cdef Batch _locate(self, int at, int *index)
    cdef object _first_pending(self)
    cdef bint refuses(self, int at) except -1
    cdef int place(self, int at, Batch batch, int index) except -1

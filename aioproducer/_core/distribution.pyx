# cython: language_level=3, binding=False, boundscheck=False, wraparound=False, initializedcheck=False
# cython: auto_pickle=False, autotestdict=False, embedsignature=False
"""Counts of numbers in fixed buckets, for histograms that are filled once per batch."""

from libc.math cimport INFINITY

from aioproducer._core.records cimport Batch

cdef extern from "platform.h":
    pass

cdef enum:
    MOST_BOUNDS = 31


cdef class Distribution:
    """Counts by the smallest bound that is not below the number, and the sum; the last count is above all bounds."""

    cdef readonly tuple bounds
    cdef readonly double total
    cdef double _largest
    cdef int _bound_count
    cdef double _bounds[MOST_BOUNDS]
    cdef long long _counts[MOST_BOUNDS + 1]

    def __cinit__(self, tuple bounds not None):
        if len(bounds) > MOST_BOUNDS:
            raise ValueError(f"at most {MOST_BOUNDS} bounds")
        self.bounds = bounds
        self.total = 0.0
        self._largest = -INFINITY
        self._bound_count = len(bounds)
        cdef int at
        for at in range(self._bound_count):
            self._bounds[at] = bounds[at]
            self._counts[at] = 0
        self._counts[self._bound_count] = 0

    def add(self, double value):
        """Count one number."""
        self._count(value)

    cdef void _count(self, double value) noexcept:
        cdef int low = 0, high = self._bound_count, middle
        while low < high:
            middle = (low + high) // 2
            if self._bounds[middle] < value:
                low = middle + 1
            else:
                high = middle
        self._counts[low] += 1
        self.total += value
        if value > self._largest:
            self._largest = value

    def take_largest(self):
        """The largest number since the last call of this method; None if there was none."""
        largest = self._largest
        self._largest = -INFINITY
        return None if largest == -INFINITY else largest

    @property
    def counts(self):
        """The counts, one more than the number of bounds. For any thread."""
        return tuple([self._counts[at] for at in range(self._bound_count + 1)])


def count_acknowledged(Batch batch not None, double now, Distribution queue_time not None,
                       Distribution request_time not None, Distribution delivery_time not None,
                       Distribution batch_records not None):
    """Count the times and the records of a batch that was written: one call for each batch, in place of four."""
    queue_time._count(batch.drained_at - batch.opened_at)
    request_time._count(now - batch.written_at)
    delivery_time._count(now - batch.opened_at)
    batch_records._count(batch.record_count)

# cython: language_level=3, binding=False, boundscheck=False, wraparound=False, initializedcheck=False
# cython: auto_pickle=False, autotestdict=False, embedsignature=False
"""Counts of numbers in fixed buckets, for histograms that are filled once per batch."""

from libc.math cimport INFINITY

cdef extern from "platform.h":
    pass

cdef class Distribution:
    """Counts by the smallest bound that is not below the number, and the sum; the last count is above all bounds."""

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
        self.count(value)

    cdef void count(self, double value) noexcept:
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

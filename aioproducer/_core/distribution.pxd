"""C-level view of a distribution, for the counts of each batch."""

cdef enum:
    MOST_BOUNDS = 31


cdef class Distribution:
    cdef readonly tuple bounds
    cdef readonly double total
    cdef double _largest
    cdef int _bound_count
    cdef double _bounds[MOST_BOUNDS]
    cdef long long _counts[MOST_BOUNDS + 1]

    cdef void count(self, double value) noexcept

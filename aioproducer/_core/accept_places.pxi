# Memory, partitions, topics: the parts that the fast path touches.
# Part of accept.pyx. Uses accept.pxd, which has their attributes.

cdef class Budget:
    """The limit of the bytes of buffered records: of all records, or of those of one topic."""

    def __init__(self, Py_ssize_t capacity, Budget whole=None):
        self.capacity = self.stuck_limit = capacity
        self.whole = whole

    @cython.final
    cdef inline bint has_room(self, Py_ssize_t size, MemoryShare share) noexcept:
        left = self.capacity - self.used - size
        # Where nothing is buffered a record has room that is larger than the limit: without it, the broker would never be dialed
        # again, and stay silent for the producer.
        return (left >= self.kept or (left >= 0 and share.used < self.part)) and not (
            share._stuck and self.stuck + size > self.stuck_limit and self.used > 0)

    @cython.final
    cdef inline void add(self, Py_ssize_t size, bint stuck) noexcept:
        self.used += size
        if stuck:
            self.stuck += size
        if self.used > self.peak:
            self.peak = self.used


cdef class MemoryShare:
    """One broker's share of a budget, with its own line of waiting records."""

    def __init__(self, Budget budget not None):
        self.budget = budget
        self._whole = budget.whole

    @property
    def stuck(self):
        """True while its broker accepts nothing."""
        return self._stuck

    @stuck.setter
    def stuck(self, bint stuck):
        if stuck != self._stuck:
            self._stuck = stuck
            change = self.used if stuck else -self.used
            self.budget.stuck += change
            if self._whole is not None:
                self._whole.stuck += change

    @cython.final
    cdef inline bint has_room(self, Py_ssize_t size) noexcept:
        return self.budget.has_room(size, self) and (self._whole is None or self._whole.has_room(size, self))

    @cython.final
    cdef inline void take(self, Py_ssize_t size) noexcept:
        self.used += size
        self.budget.add(size, self._stuck)
        if self._whole is not None:
            self._whole.add(size, self._stuck)

    def room_for(self, Py_ssize_t size):
        """True when ``size`` more bytes fit."""
        return self.has_room(size)

    def charge(self, Py_ssize_t size):
        """Charge ``size`` bytes."""
        self.take(size)

    def release(self, Py_ssize_t size):
        """Return ``size`` bytes."""
        self.take(-size)


cdef class Partition:
    """The part of a partition that the fast path touches; the state machines extend it with its queue."""

    def __init__(self, Topic topic not None, int index, MemoryShare share not None):
        self.topic = topic
        self.index = index
        self.share = share

    cpdef roll(self, double now, bint awaited):
        """Close the open batch, if there is one, and open the next; ``awaited``: a caller waits for the record."""
        raise NotImplementedError

    def unroll(self):
        """Remove the batch that `roll` opened: no record could be appended to it."""
        raise NotImplementedError


cdef class Topic:
    """The part of a topic that the fast path touches: its partitions and the sticky choice."""

    def __init__(self, str name not None):
        self.name = name
        self.partitions = []
        self.topic_id = bytes(16)

    def queue(self, Py_ssize_t index):
        """The partition with this index, made if it is not there yet."""
        raise NotImplementedError

    def switch(self, double now):
        """Choose the next sticky partition."""
        raise NotImplementedError

"""C-level view of memory, partitions and topics, for the modules of the core that send from them."""

cimport cython

from aioproducer._core.records cimport Batch


cdef class Budget:
    cdef readonly Budget whole
    cdef readonly Py_ssize_t capacity
    cdef readonly Py_ssize_t used
    cdef readonly Py_ssize_t peak
    # The bytes in shares whose broker takes nothing, and their limit.
    cdef readonly Py_ssize_t stuck
    cdef public Py_ssize_t stuck_limit
    # Kept back for shares below their part of it: no share can take all before it is known to be stuck.
    cdef public Py_ssize_t kept
    cdef public Py_ssize_t part

    @cython.final
    cdef bint has_room(self, Py_ssize_t size, MemoryShare share) noexcept
    @cython.final
    cdef void add(self, Py_ssize_t size, bint stuck) noexcept


cdef class MemoryShare:
    cdef readonly Budget budget
    cdef readonly Py_ssize_t used
    cdef Budget _whole
    cdef bint _stuck
    cdef public int waiting

    @cython.final
    cdef bint has_room(self, Py_ssize_t size) noexcept
    @cython.final
    cdef void take(self, Py_ssize_t size) noexcept


cdef class Partition:
    cdef readonly Topic topic
    cdef readonly int index
    cdef public Batch open
    cdef public MemoryShare share
    # Records of this partition that wait for memory: no record may pass them.
    cdef public int waiting
    # True while its next batch is opened, for the first record of it.
    cdef bint rolling

    cpdef roll(self, double now, bint awaited)


cdef class Topic:
    cdef readonly str name
    # By index; None until the first record for the partition comes.
    cdef readonly list partitions
    # Calls that wait for this topic: no call may pass them.
    cdef public int waiting
    cdef public Partition sticky
    cdef public Py_ssize_t sticky_bytes
    cdef public Py_ssize_t sticky_limit
    cdef public bint ignore_keys
    # Records chosen by a user's partitioner cannot take the fast path without an explicit partition.
    cdef public bint custom
    # The topic was dropped as unused: references to it must be looked up again.
    cdef public bint forgotten
    # The present id; 16 bytes of zero where brokers have none.
    cdef public bytes topic_id
    # When a batch was last opened for it.
    cdef public double used_at

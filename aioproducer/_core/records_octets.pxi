# The memory of a batch.
# Part of records.pyx. Uses records.pxd (HEADER) and records.pyx (CRC_START, MIN_CAPACITY).

cdef class Octets:
    """Growing memory that is lent through the buffer protocol and lives as long as a reference to it."""

    def __dealloc__(self):
        PyMem_Free(self.data)

    def __getbuffer__(self, Py_buffer *view, int flags):
        if flags & PyBUF_WRITABLE == PyBUF_WRITABLE:
            raise BufferError("the bytes of a batch are for reading only")
        PyBuffer_FillInfo(view, self, self.data, self.size, 1, flags)
        self.exports += 1

    def __releasebuffer__(self, Py_buffer *view):
        self.exports -= 1

    cdef int reserve(self, Py_ssize_t extra, Py_ssize_t limit) except -1:
        cdef Py_ssize_t wanted = self.size + extra
        cdef Py_ssize_t capacity
        cdef unsigned char *grown
        if wanted <= self.capacity:
            return 0
        if self.exports:
            raise BufferError("the bytes of this batch are in use")
        capacity = max(MIN_CAPACITY, self.capacity + (self.capacity >> 1))
        if wanted <= limit < capacity:
            capacity = limit
        capacity = max(wanted, capacity)
        grown = <unsigned char *>PyMem_Realloc(self.data, capacity)
        if grown == NULL:
            raise MemoryError()
        self.data = grown
        self.capacity = capacity
        return 0


@cython.final
cdef class Checked:
    """The bytes of a batch that its checksum covers, lent like all of them. A part of a view costs more than most checksums."""

    cdef Octets _octets

    def __cinit__(self, Octets octets not None):
        self._octets = octets

    def __getbuffer__(self, Py_buffer *view, int flags):
        PyBuffer_FillInfo(view, self, self._octets.data + CRC_START, self._octets.size - CRC_START, 1, flags)
        self._octets.exports += 1

    def __releasebuffer__(self, Py_buffer *view):
        self._octets.exports -= 1


cdef Octets octets_of(const unsigned char *tail, Py_ssize_t size):
    # Fresh memory with room for the batch header in front of a copy of ``tail``.
    cdef Octets fresh = Octets.__new__(Octets)
    fresh.reserve(HEADER + size, 0)
    if size:
        memcpy(fresh.data + HEADER, tail, size)
    fresh.size = HEADER + size
    return fresh

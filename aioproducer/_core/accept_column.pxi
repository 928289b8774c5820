# The columns of a bulk send.

cdef class Column:
    """One column of a bulk send: a list of bytes-like objects, or an Arrow array read through its buffers."""

    cdef list _items
    cdef object _keep
    cdef Py_buffer _validity, _offsets, _data
    cdef int _held
    cdef Py_ssize_t _first
    cdef readonly Py_ssize_t length
    cdef int _width  # bytes per offset or number; 0: a list
    cdef bint _numbers

    def __cinit__(self):
        self._held = 0

    def __dealloc__(self):
        if self._held & 1:
            PyBuffer_Release(&self._validity)
        if self._held & 2:
            PyBuffer_Release(&self._offsets)
        if self._held & 4:
            PyBuffer_Release(&self._data)

    @staticmethod
    def of_items(list items not None):
        """A list of ``bytes | None`` or of integers."""
        cdef Column column = Column.__new__(Column)
        column._items = items
        column.length = len(items)
        return column

    @staticmethod
    def of_bytes(items):
        """A column of what is ``bytes`` or None already, without looking at it in Python; None if anything else is."""
        cdef list copied = list(items)
        for item in copied:
            if item is not None and not PyBytes_CheckExact(item):
                return None
        return Column.of_items(copied)

    @staticmethod
    def of_binary(Py_ssize_t length, Py_ssize_t first, int width, validity, offsets, data):
        """An Arrow binary or string array: its three buffers, and 4 or 8 bytes per offset."""
        cdef Column column = Column.__new__(Column)
        column.length, column._first, column._width = length, first, width
        column._hold(validity, offsets, data)
        return column

    @staticmethod
    def of_numbers(Py_ssize_t length, Py_ssize_t first, validity, data):
        """An Arrow array of 64-bit integers or timestamps in milliseconds."""
        cdef Column column = Column.__new__(Column)
        column.length, column._first, column._width = length, first, 8
        column._numbers = True
        column._hold(validity, None, data)
        return column

    cdef _hold(self, validity, offsets, data):
        if validity is not None:
            PyObject_GetBuffer(validity, &self._validity, PyBUF_SIMPLE)
            self._held |= 1
        if offsets is not None:
            PyObject_GetBuffer(offsets, &self._offsets, PyBUF_SIMPLE)
            self._held |= 2
        if data is not None:
            PyObject_GetBuffer(data, &self._data, PyBUF_SIMPLE)
            self._held |= 4
        self._keep = (validity, offsets, data)

    cdef inline bint is_null(self, Py_ssize_t at) noexcept:
        if not self._held & 1:
            return False
        return not ((<const unsigned char *>self._validity.buf)[at >> 3] >> (at & 7)) & 1

    cdef int read(self, Py_ssize_t at, View *view) except -1:
        cdef Py_ssize_t start, end
        view.data = NULL
        view.size = -1
        if self._width == 0:
            item = self._items[at]
            if item is not None:
                view.data = <const unsigned char *>PyBytes_AS_STRING(item)
                view.size = PyBytes_GET_SIZE(item)
            return 0
        at += self._first
        if self.is_null(at):
            return 0
        if self._width == 4:
            start = (<const int *>self._offsets.buf)[at]
            end = (<const int *>self._offsets.buf)[at + 1]
        else:
            start = (<const long long *>self._offsets.buf)[at]
            end = (<const long long *>self._offsets.buf)[at + 1]
        view.data = <const unsigned char *>self._data.buf + start if self._held & 4 else <const unsigned char *>b""
        view.size = end - start
        return 0

    cdef long long number(self, Py_ssize_t at) except? -1:
        if self._width == 0:
            return self._items[at]
        return (<const long long *>self._data.buf)[at + self._first]

    def has_nulls(self):
        """True when the column has a null where a number is wanted."""
        cdef Py_ssize_t at
        if self._width == 0:
            return None in self._items
        for at in range(self.length):
            if self.is_null(at + self._first):
                return True
        return False

    def value_at(self, Py_ssize_t at):
        """One value as ``bytes | None``, for the long way."""
        cdef View view
        if self._numbers:
            return self.number(at)
        if self._width == 0:
            return self._items[at]
        self.read(at, &view)
        return None if view.size < 0 else (<const char *>view.data)[:view.size]

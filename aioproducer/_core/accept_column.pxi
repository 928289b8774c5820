# The columns of a bulk send.
# Part of accept.pyx. Uses records.pxd (View) and accept.pyx (MOST_ITEMS).

@cython.final
cdef class Column:
    """One column of a bulk send: a list of ``bytes | None`` or of integers, or the buffers of an Arrow array.

    The constructors copy and check the structure (offsets, nulls) and the numbers; of an Arrow array only the bytes of
    the values stay in place. So no object of the caller, and no later change, causes a read outside the array.
    """

    cdef list _items
    cdef object _places  # the offsets, or the numbers, as bytes
    cdef const char *_place
    cdef bytes _validity
    cdef int _first_bit
    cdef Py_buffer _data
    cdef bint _held
    cdef readonly Py_ssize_t length
    cdef int _width  # bytes per offset or number; 0: a list
    cdef bint _numbers

    def __dealloc__(self):
        if self._held:
            PyBuffer_Release(&self._data)

    @staticmethod
    def of_items(list items not None):
        """A list of ``bytes | None`` or of integers that no other code changes."""
        cdef Column column = Column.__new__(Column)
        column._items = items
        column.length = len(items)
        return column

    @staticmethod
    def of_bytes(list items not None):
        """A list whose items are all ``bytes`` or None, checked without Python code; None if another item is found."""
        for item in items:
            if item is not None and not PyBytes_CheckExact(item):
                return None
        return Column.of_items(items)

    @staticmethod
    def of_binary(Py_ssize_t length, Py_ssize_t first, int width, validity, offsets, data):
        """An Arrow binary or string array: its three buffers, and 4 or 8 bytes per offset."""
        cdef Column column = column_of(length, first, width, validity)
        if data is not None:
            PyObject_GetBuffer(data, &column._data, PyBUF_SIMPLE)
            column._held = True
        if length:
            column._take(copied(offsets, first * width, (length + 1) * width))
            column._check_offsets()
        return column

    @staticmethod
    def of_numbers(Py_ssize_t length, Py_ssize_t first, validity, data):
        """An Arrow array of 64-bit integers or timestamps in milliseconds; None if one is null or negative."""
        cdef Column column = column_of(length, first, 8, validity)
        cdef Py_ssize_t at
        column._numbers = True
        if length:
            column._take(copied(data, first * 8, length * 8))
        for at in range(length):
            if column.is_null(at) or (<const long long *>column._place)[at] < 0:
                return None
        return column

    cdef _take(self, bytes places):
        self._places = places
        self._place = PyBytes_AS_STRING(places)

    cdef inline long long offset(self, Py_ssize_t at) noexcept:
        if self._width == 4:
            return (<const int *>self._place)[at]
        return (<const long long *>self._place)[at]

    cdef int _check_offsets(self) except -1:
        cdef Py_ssize_t at
        cdef long long before = 0
        cdef long long end = self._data.len if self._held else 0
        for at in range(self.length + 1):
            if not before <= self.offset(at) <= end:
                raise ValueError(f"the offsets of an Arrow array lead out of its data at {at}")
            before = self.offset(at)
        return 0

    cdef inline bint is_null(self, Py_ssize_t at) noexcept:
        if self._validity is None:
            return False
        at += self._first_bit
        return not (<const unsigned char *>PyBytes_AS_STRING(self._validity))[at >> 3] >> (at & 7) & 1

    cdef int read(self, Py_ssize_t at, View *view) except -1:
        # Of one of the `count()` records: the caller has checked the index.
        view.data = NULL
        view.size = -1
        if self._width:
            return self._read_buffers(at, view)
        item = self._items[at]
        if PyBytes_CheckExact(item):
            view.data = <const unsigned char *>PyBytes_AS_STRING(item)
            view.size = PyBytes_GET_SIZE(item)
        elif item is not None:
            raise TypeError(f"{type(item).__name__} in a column of bytes")
        return 0

    cdef int _read_buffers(self, Py_ssize_t at, View *view) except -1:
        if self._numbers:
            raise TypeError("a column of numbers has no bytes")
        if self.is_null(at):
            return 0
        view.data = (<const unsigned char *>self._data.buf if self._held else <const unsigned char *>b"") + self.offset(at)
        view.size = self.offset(at + 1) - self.offset(at)
        return 0

    cdef inline Py_ssize_t count(self) noexcept:
        return self.length if self._width else PyList_GET_SIZE(self._items)

    cdef inline int _check(self, Py_ssize_t at) except -1:
        if not 0 <= at < self.count():
            raise IndexError(f"record {at} of a column of {self.length}")
        return 0

    cdef long long number(self, Py_ssize_t at) except? -1:
        self._check(at)
        if self._width == 0:
            return self._items[at]
        if not self._numbers:
            raise TypeError("a column of bytes has no numbers")
        return self.offset(at)

    def value_at(self, Py_ssize_t at):
        """One value as ``bytes | None``, or one number, for the slow path."""
        cdef View view
        if self._numbers:
            return self.number(at)
        self._check(at)
        if self._width == 0:
            return self._items[at]
        self.read(at, &view)
        return None if view.size < 0 else (<const char *>view.data)[:view.size]


cdef Column column_of(Py_ssize_t length, Py_ssize_t first, int width, object validity):
    # The checks that all kinds of Arrow arrays have in common.
    cdef Column column = Column.__new__(Column)
    if width not in (4, 8) or length < 0 or first < 0 or first > MOST_ITEMS or length > MOST_ITEMS:
        raise ValueError(f"an Arrow array of {length} items from {first} on, {width} bytes each")
    column.length, column._width = length, width
    if validity is not None and length:
        column._first_bit = first & 7
        column._validity = copied(validity, first >> 3, (column._first_bit + length + 7) >> 3)
    return column


cdef bytes copied(object buffer, Py_ssize_t start, Py_ssize_t size):
    # A checked part of a buffer.
    cdef Py_buffer view
    PyObject_GetBuffer(buffer, &view, PyBUF_SIMPLE)
    try:
        if view.len < start + size:
            raise ValueError(f"a buffer of an Arrow array has {view.len} bytes, not {start + size}")
        return PyBytes_FromStringAndSize(<const char *>view.buf + start, size)
    finally:
        PyBuffer_Release(&view)

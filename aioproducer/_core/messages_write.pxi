# Writing: objects to bytes, with errors that name the field.
# Part of messages.pyx. Uses messages_shape.pxi (Field, Kind, Shape) and messages.h.

cdef struct Out:
    uint8_t *start
    uint8_t *p
    uint8_t *end


cdef int reserve(Out *out, Py_ssize_t size) except -1:
    """Makes room for `size` bytes."""
    if out.end - out.p >= size:
        return 0
    cdef Py_ssize_t used = out.p - out.start
    cdef Py_ssize_t room = max(2 * (out.end - out.start), used + size)
    cdef uint8_t *moved = <uint8_t *>PyMem_Realloc(out.start, room)
    if moved == NULL:
        raise MemoryError
    out.start = moved
    out.p = moved + used
    out.end = moved + room
    return 0


cdef int put(Out *out, uint64_t value, int size) except -1:
    reserve(out, size)
    wire_store(out.p, value, size)
    out.p += size
    return 0


cdef int put_bytes(Out *out, const void *data, Py_ssize_t size) except -1:
    reserve(out, size)
    memcpy(out.p, data, size)
    out.p += size
    return 0


cdef inline uint8_t *store_varint(uint8_t *p, uint64_t value) noexcept:
    while value >= 0x80:
        p[0] = <uint8_t>(value | 0x80)
        p += 1
        value >>= 7
    p[0] = <uint8_t>value
    return p + 1


cdef int put_varint(Out *out, uint64_t value) except -1:
    reserve(out, 10)
    out.p = store_varint(out.p, value)
    return 0


cdef int put_length(Out *out, Field *field, int64_t length, int width) except -1:
    """A length or count; -1 stands for null."""
    if field.compact:
        return put_varint(out, length + 1)
    return put(out, <uint64_t>length, width)


cdef str place(Shape *shape, Field *field):
    return f"{(<object>shape.type).__name__}.{<object>field.name} (version {shape.version})"


cdef int wrong_type(Shape *shape, Field *field, str wanted, object value) except -1:
    raise TypeError(f"{place(shape, field)} must be {wanted}, not {type(value).__name__}")


cdef int wrong_value(Shape *shape, Field *field, str problem) except -1:
    raise ValueError(f"{place(shape, field)} {problem}")


cdef int64_t integer(Shape *shape, Field *field, object value, int64_t low, int64_t high) except? -1:
    cdef int overflow = 0
    cdef int64_t number
    if not PyLong_Check(value):
        wrong_type(shape, field, "an int", value)
    number = PyLong_AsLongLongAndOverflow(value, &overflow)
    if overflow or not low <= number <= high:
        wrong_value(shape, field, f"must be from {low} to {high}, not {value}")
    return number


cdef int put_text(Out *out, Shape *shape, Field *field, object value) except -1:
    cdef Py_ssize_t size = 0
    cdef const char *data
    if not isinstance(value, str):
        wrong_type(shape, field, "a str", value)
    try:
        data = PyUnicode_AsUTF8AndSize(value, &size)
    except UnicodeEncodeError as error:
        raise ValueError(f"{place(shape, field)} cannot be written as UTF-8: {error.reason}") from None
    if size > STRING_LIMIT:
        wrong_value(shape, field, f"is {size} bytes long; Kafka allows {STRING_LIMIT}")
    put_length(out, field, size, 2)
    return put_bytes(out, data, size)


cdef int put_buffer(Out *out, Shape *shape, Field *field, object value) except -1:
    cdef Py_buffer buffer
    if not PyObject_CheckBuffer(value):
        wrong_type(shape, field, "bytes-like", value)
    try:
        PyObject_GetBuffer(value, &buffer, PyBUF_SIMPLE)
    except BufferError:
        raise ValueError(f"{place(shape, field)} must be contiguous in memory") from None
    try:
        if field.kind == UUID and buffer.len != 16:
            wrong_value(shape, field, f"must be 16 bytes long, not {buffer.len}")
        if buffer.len > 0x7fffffff:
            wrong_value(shape, field, f"is {buffer.len} bytes long; Kafka allows {0x7fffffff}")
        if field.kind == BYTES:
            put_length(out, field, buffer.len, 4)
        put_bytes(out, buffer.buf, buffer.len)
    finally:
        PyBuffer_Release(&buffer)
    return 0


cdef int put_value(Out *out, Shape *shape, Field *field, object value, bint nullable) except -1:
    cdef Kind kind = field.kind
    if value is None:
        return put_null(out, shape, field, nullable)
    if kind == INT32:
        return put(out, <uint64_t>integer(shape, field, value, -0x80000000, 0x7fffffff), 4)
    if kind == INT16:
        return put(out, <uint64_t>integer(shape, field, value, -0x8000, 0x7fff), 2)
    if kind == INT64:
        return put(out, <uint64_t>integer(shape, field, value, INT64_MIN, INT64_MAX), 8)
    if kind == STRING:
        return put_text(out, shape, field, value)
    if kind == BYTES or kind == UUID:
        return put_buffer(out, shape, field, value)
    if kind == STRUCT:
        if nullable:
            put(out, 1, 1)
        return put_struct(out, field.shape, value, shape, field)
    if kind == INT8:
        return put(out, <uint64_t>integer(shape, field, value, -0x80, 0x7f), 1)
    if kind == UINT16:
        return put(out, <uint64_t>integer(shape, field, value, 0, 0xffff), 2)
    if kind == UINT32:
        return put(out, <uint64_t>integer(shape, field, value, 0, 0xffffffff), 4)
    if kind == BOOL:
        if value is not True and value is not False:
            wrong_type(shape, field, "a bool", value)
        return put(out, 1 if value is True else 0, 1)
    if not isinstance(value, (float, int)):
        wrong_type(shape, field, "a float", value)
    return put(out, wire_double_bits(PyFloat_AsDouble(value)), 8)


cdef int put_null(Out *out, Shape *shape, Field *field, bint nullable) except -1:
    if not nullable:
        wrong_value(shape, field, "must not be None")
    if field.kind == STRUCT and not field.array:
        return put(out, 0xff, 1)
    return put_length(out, field, -1, 2 if field.kind == STRING and not field.array else 4)


cdef int put_array(Out *out, Shape *shape, Field *field, object value) except -1:
    cdef Py_ssize_t i, count
    if value is None:
        return put_null(out, shape, field, field.nullable)
    if not PySequence_Check(value) or isinstance(value, (str, bytes, bytearray, memoryview)):
        wrong_type(shape, field, "a sequence", value)
    elements = PySequence_Fast(value, "")
    count = PySequence_Fast_GET_SIZE(elements)
    put_length(out, field, count, 4)
    for i in range(count):
        # An element that runs Python code of its own could have changed the list.
        if i >= PySequence_Fast_GET_SIZE(elements):
            raise RuntimeError(f"{place(shape, field)} changed while it was written")
        element = <object>PySequence_Fast_GET_ITEM(elements, i)
        put_value(out, shape, field, element, False)
    return 0


cdef inline int put_field(Out *out, Shape *shape, Field *field, object value) except -1:
    if field.array:
        return put_array(out, shape, field, value)
    return put_value(out, shape, field, value, field.nullable)


cdef bint is_default(Field *field, object value) except -1:
    if value is <object>field.default:
        return True
    if field.array and value is not None and <object>field.default is not None:
        return len(value) == 0
    return PyObject_RichCompareBool(value, <object>field.default, Py_EQ)


cdef int put_tags(Out *out, Shape *shape, object value) except -1:
    cdef Field *field
    cdef int i, present = 0
    cdef Py_ssize_t count_at
    # Kafka defines far fewer than 128 tags for any struct, so that the count is one byte.
    count_at = out.p - out.start
    put(out, 0, 1)
    for i in range(shape.tagged_count):
        field = &shape.tagged[i]
        element = <object>PyTuple_GET_ITEM(value, field.slot)
        if is_default(field, element):
            continue
        put_varint(out, field.tag)
        put_sized(out, shape, field, element)
        present += 1
    out.start[count_at] = <uint8_t>present
    return 0


cdef int put_sized(Out *out, Shape *shape, Field *field, object value) except -1:
    """A value behind its size, which is known only afterwards."""
    cdef uint8_t size[10]
    cdef Py_ssize_t begin = out.p - out.start
    cdef Py_ssize_t length, prefix
    put_field(out, shape, field, value)
    length = out.p - out.start - begin
    prefix = store_varint(size, length) - size
    reserve(out, prefix)
    memmove(out.start + begin + prefix, out.start + begin, length)
    memcpy(out.start + begin, size, prefix)
    out.p += prefix
    return 0


cdef int put_struct(Out *out, Shape *shape, object value, Shape *parent, Field *inside) except -1:
    cdef Field *field
    cdef int i
    if not isinstance(value, <object>shape.type):
        if parent == NULL:
            raise TypeError(f"a {(<object>shape.type).__name__} is needed, not {type(value).__name__}")
        wrong_type(parent, inside, f"a {(<object>shape.type).__name__}", value)
    for i in range(shape.plain_count):
        field = &shape.plain[i]
        put_field(out, shape, field, <object>PyTuple_GET_ITEM(value, field.slot))
    if shape.flexible:
        put_tags(out, shape, value)
    for i in range(shape.absent_count):
        refuse_to_lose(shape, &shape.absent[i], <object>PyTuple_GET_ITEM(value, shape.absent[i].slot))
    return 0


cdef inline int refuse_to_lose(Shape *shape, Field *field, object value) except -1:
    """A field that the version lacks must have its default, unless Kafka calls it ignorable (its own rule)."""
    if not field.ignorable and not is_default(field, value):
        wrong_value(shape, field, "does not exist in this version and is not at its default")
    return 0

# The bytes of keys, values, headers and records: murmur2, varints, sizes, writing and reading back.
# Part of records.pyx. Uses records.pxd (View).

cdef unsigned int murmur2_of(const unsigned char *data, Py_ssize_t size) noexcept:
    # Kafka's Utils.murmur2: 32-bit, seed 0x9747b28c, little-endian words, unsigned shifts.
    cdef unsigned int m = 0x5bd1e995
    cdef unsigned int h = 0x9747b28c ^ <unsigned int>size
    cdef unsigned int k
    cdef Py_ssize_t i = 0
    while size - i >= 4:
        k = (<unsigned int>data[i] | (<unsigned int>data[i + 1] << 8)
             | (<unsigned int>data[i + 2] << 16) | (<unsigned int>data[i + 3] << 24))
        k *= m
        k ^= k >> 24
        k *= m
        h *= m
        h ^= k
        i += 4
    if size - i >= 3:
        h ^= <unsigned int>data[i + 2] << 16
    if size - i >= 2:
        h ^= <unsigned int>data[i + 1] << 8
    if size - i >= 1:
        h ^= <unsigned int>data[i]
        h *= m
    h ^= h >> 13
    h *= m
    h ^= h >> 15
    return h


def murmur2(data):
    """Kafka's murmur2 of a bytes-like object, as an unsigned 32-bit number."""
    cdef Py_buffer view
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    try:
        return murmur2_of(<const unsigned char *>view.buf, view.len)
    finally:
        PyBuffer_Release(&view)


# -- varints

cdef inline unsigned long long zigzag(long long value) noexcept:
    return (<unsigned long long>value << 1) ^ <unsigned long long>(value >> 63)


cdef inline Py_ssize_t varint_size(long long value) noexcept:
    cdef unsigned long long n = zigzag(value)
    cdef Py_ssize_t size = 1
    while n >= 0x80:
        n >>= 7
        size += 1
    return size


cdef inline unsigned char *put_varint(unsigned char *at, long long value) noexcept:
    cdef unsigned long long n = zigzag(value)
    while n >= 0x80:
        at[0] = <unsigned char>((n & 0x7f) | 0x80)
        at += 1
        n >>= 7
    at[0] = <unsigned char>n
    return at + 1


cdef inline unsigned char *put_bytes(unsigned char *at, const void *data, Py_ssize_t size) noexcept:
    if size < 0:
        return put_varint(at, -1)
    at = put_varint(at, size)
    memcpy(at, data, size)
    return at + size


cdef inline void put_int(unsigned char *at, unsigned long long value, int size) noexcept:
    cdef int i
    for i in range(size - 1, -1, -1):
        at[i] = <unsigned char>(value & 0xff)
        value >>= 8


cdef long long take_varint(const unsigned char *data, Py_ssize_t *at) noexcept:
    # Reads bytes that this module wrote, and trusts them.
    cdef unsigned long long n = 0
    cdef int shift = 0
    while data[at[0]] & 0x80:
        n |= <unsigned long long>(data[at[0]] & 0x7f) << shift
        shift += 7
        at[0] += 1
    n |= <unsigned long long>data[at[0]] << shift
    at[0] += 1
    return <long long>(n >> 1) ^ -<long long>(n & 1)


cdef object take_bytes(const unsigned char *data, Py_ssize_t *at):
    cdef long long size = take_varint(data, at)
    if size < 0:
        return None
    at[0] += size
    return PyBytes_FromStringAndSize(<const char *>data + at[0] - size, size)


cdef tuple take_headers(const unsigned char *data, Py_ssize_t *at):
    cdef long long count = take_varint(data, at)
    cdef list pairs = []
    if not count:
        return None
    for _ in range(count):
        name = take_bytes(data, at).decode()
        pairs.append((name, take_bytes(data, at)))
    return tuple(pairs)


cdef View view_of(object data):
    # The bytes stay alive through the caller's reference.
    cdef View view
    view.data = NULL
    view.size = -1
    if data is not None:
        view.data = <const unsigned char *>PyBytes_AS_STRING(data)
        view.size = PyBytes_GET_SIZE(data)
    return view


cdef inline Py_ssize_t field_size(Py_ssize_t size) noexcept:
    return 1 if size < 0 else varint_size(size) + size


# -- headers

cdef Py_ssize_t headers_size_of(tuple headers) except -1:
    # The encoded size of a checked tuple of (str, bytes | None) pairs, with its count.
    cdef Py_ssize_t size, total
    if headers is None:
        return 1
    total = varint_size(len(headers))
    for name, value in headers:
        PyUnicode_AsUTF8AndSize(name, &size)
        total += field_size(size)
        total += field_size(-1 if value is None else PyBytes_GET_SIZE(value))
    return total


cdef unsigned char *put_headers(unsigned char *at, tuple headers) except NULL:
    cdef Py_ssize_t size
    cdef const char *text
    at = put_varint(at, len(headers))
    for name, value in headers:
        text = PyUnicode_AsUTF8AndSize(name, &size)
        at = put_bytes(at, text, size)
        if value is None:
            at = put_varint(at, -1)
        else:
            at = put_bytes(at, PyBytes_AS_STRING(value), PyBytes_GET_SIZE(value))
    return at


cdef Py_ssize_t body_size(View key, View value, Py_ssize_t headers_size, long long timestamp_delta, int offset_delta) noexcept:
    return (1 + varint_size(timestamp_delta) + varint_size(offset_delta)
            + field_size(key.size) + field_size(value.size) + headers_size)


cdef Py_ssize_t framed_size(Py_ssize_t body) noexcept:
    # The record with its length in front.
    return varint_size(body) + body


cdef Py_ssize_t fresh_size(View key, View value, Py_ssize_t headers_size) noexcept:
    # The size of a record that would be the first of its batch.
    return framed_size(body_size(key, value, headers_size, 0, 0))


def record_size(key, value, tuple headers=None):
    """How many bytes a record takes as the first of its batch, without the batch's own 61 bytes of header."""
    return fresh_size(view_of(key), view_of(value), headers_size_of(headers))


cdef enum:
    LONGEST_FRAME = 0x7fffffff


def size_of(parts):
    """The number of bytes of all parts."""
    cdef Py_ssize_t size = 0
    for part in parts:
        size += len(part)
    return size


def framed(parts):
    """A frame of these parts: a list of its length and of all parts that are not empty, and the number of its bytes."""
    cdef unsigned char length[4]
    cdef Py_ssize_t size = 0, bytes_of_part
    cdef list pieces = [None]
    for part in parts:
        bytes_of_part = len(part)
        if bytes_of_part:
            size += bytes_of_part
            pieces.append(part)
    if size > LONGEST_FRAME:
        raise OverflowError("a frame of so many bytes cannot be written")
    put_int(length, size, 4)
    pieces[0] = PyBytes_FromStringAndSize(<const char *>length, 4)
    return pieces, size + 4


cdef inline unsigned char *put_uvarint(unsigned char *at, unsigned long long value) noexcept:
    while value >= 0x80:
        at[0] = (value & 0x7f) | 0x80
        at += 1
        value >>= 7
    at[0] = <unsigned char>value
    return at + 1


cdef enum:
    # Smaller batches are copied into the request: a view of one costs as much as copying so many bytes.
    LEAST_VIEWED = 8192


cdef int put_raw(Octets text, const void *data, Py_ssize_t size) except -1:
    text.reserve(size, 0)
    memcpy(text.data + text.size, data, size)
    text.size += size
    return 0


cdef int put_length(Octets text, Py_ssize_t length) except -1:
    # The number of the following bytes or items, as flexible versions write it.
    text.reserve(10, 0)
    text.size = put_uvarint(text.data + text.size, length + 1) - text.data
    return 0


def write_topics(bytes before not None, topics, bint by_id):
    """The pieces of a Produce request of a flexible version: ``before``, then the topics, `(name, topic id, batches)`.

    The bytes of large batches are pieces of their own, and are not copied.
    """
    cdef Octets text = Octets.__new__(Octets)
    cdef list parts = []
    cdef bytes named
    put_raw(text, PyBytes_AS_STRING(before), PyBytes_GET_SIZE(before))
    put_length(text, len(topics))
    for name, topic_id, batches in topics:
        named = topic_id if by_id else (<str?>name).encode()
        if not by_id:
            put_length(text, PyBytes_GET_SIZE(named))
        put_raw(text, PyBytes_AS_STRING(named), PyBytes_GET_SIZE(named))
        put_length(text, len(<list?>batches))
        for batch in <list>batches:
            write_batch(parts, text, <Batch?>batch)
        put_raw(text, b"\0", 1)  # no tags of the topic
    put_raw(text, b"\0", 1)  # no tags of the request
    parts.append(taken_bytes(text))
    return parts


cdef int write_batch(list parts, Octets text, Batch batch) except -1:
    cdef Octets octets = batch._written()
    text.reserve(4, 0)
    put_int(text.data + text.size, batch.partition, 4)
    text.size += 4
    put_length(text, octets.size)
    if octets.size < LEAST_VIEWED:
        put_raw(text, octets.data, octets.size)
    else:
        parts.append(taken_bytes(text))
        parts.append(memoryview(octets))
    return put_raw(text, b"\0", 1)  # no tags


cdef bytes taken_bytes(Octets text):
    # All bytes that are written so far; the next bytes begin another piece.
    cdef Py_ssize_t size = text.size
    text.size = 0
    return PyBytes_FromStringAndSize(<const char *>text.data, size)

# The nodes of the tree that describes rows: an array of Arrow, and the form of its items.
# Part of rows.pyx. Uses rows.pyx (free, LLONG_MAX, LLONG_MIN).

cdef enum:
    CONSTANT = 0
    JSON_TEXT
    JSON_FLOAT
    JSON_STRING
    JSON_BASE64
    JSON_INTEGER
    JSON_BOOLEAN
    JSON_DATE
    JSON_TIMESTAMP
    JSON_OBJECT
    JSON_ARRAY
    JSON_MAP
    ZIGZAG
    AVRO_BYTES
    AVRO_STRING
    AVRO_DECIMAL
    RECORD
    AVRO_ARRAY
    AVRO_MAP
    FIXED_DECIMAL
    FIXED_BYTES
    NUMBER
    BOOLEAN
    VARINT
    SIZED_BYTES
    SIZED_STRING
    MESSAGE
    REPEATED
    PACKED
    ENTRIES
    KIND_COUNT

cdef enum:
    IS_NULL = 1
    OUT_OF_RANGE = 2
    NOT_UTF_8 = 3
    WRONG_SIZE = 4
    NO_MEMORY = 5

cdef enum:
    DECIMAL_WIDTH = 16

# Sums of positions and sizes stay far below the largest number.
cdef long long MOST_ITEMS = 281474976710656


cdef struct Held:
    Py_buffer buffer
    bint is_held


cdef struct Node:
    int kind
    int width
    int count
    bint quoted
    bint lenient
    Py_ssize_t length
    Py_ssize_t first
    Py_ssize_t size
    long long low
    long long high
    long long divisor
    long long modulus
    long long factor
    int *children
    const char *before
    Py_ssize_t before_size
    const char *mark
    Py_ssize_t mark_size
    # NULL: a null is an error.
    const char *absent
    Py_ssize_t absent_size
    Held validity
    Held offsets
    Held data


cdef void clear(Node *node) noexcept:
    node.count = 0
    node.children = NULL
    node.absent, node.absent_size = NULL, 0
    node.validity.is_held = node.offsets.is_held = node.data.is_held = False
    node.validity.buffer.buf = node.offsets.buffer.buf = node.data.buffer.buf = NULL


cdef void release(Node *node) noexcept:
    free(node.children)
    if node.validity.is_held:
        PyBuffer_Release(&node.validity.buffer)
    if node.offsets.is_held:
        PyBuffer_Release(&node.offsets.buffer)
    if node.data.is_held:
        PyBuffer_Release(&node.data.buffer)


cdef int take(object buffer, Held *held) except -1:
    if buffer is not None:
        PyObject_GetBuffer(buffer, &held.buffer, PyBUF_SIMPLE)
        held.is_held = True
    return 0


cdef inline Py_ssize_t held_size(Held *held) noexcept nogil:
    return held.buffer.len if held.is_held else 0


cdef int check(Node *node, Node *nodes) except -1:
    # Every read of an item of this node is inside of its buffers afterwards.
    cdef Py_ssize_t end = node.first + node.length
    if not 0 <= node.kind < KIND_COUNT:
        raise ValueError(f"no kind of node: {node.kind}")
    if node.validity.is_held and node.validity.buffer.len * 8 < end:
        raise ValueError("the validity of an Arrow array ends before its items")
    if node.kind in (JSON_OBJECT, RECORD, MESSAGE):
        return check_fields(node, nodes)
    if node.kind in (JSON_ARRAY, AVRO_ARRAY, REPEATED, PACKED):
        return check_items(node, nodes, 1)
    if node.kind in (JSON_MAP, AVRO_MAP, ENTRIES):
        return check_items(node, nodes, 2)
    if node.count:
        raise ValueError("a node of this kind has no children")
    if node.kind == CONSTANT:
        return 0
    if node.kind in (JSON_BOOLEAN, BOOLEAN):
        return require_size(held_size(&node.data) * 8, end)
    if node.kind in (JSON_INTEGER, JSON_DATE, JSON_TIMESTAMP, ZIGZAG, VARINT):
        require_width(node.width in (1, 2, 4, 8))
        return require_size(held_size(&node.data), end * node.width)
    if node.kind == NUMBER:
        require_width(node.width in (4, 8))
        return require_size(held_size(&node.data), end * node.width)
    if node.kind in (AVRO_DECIMAL, FIXED_DECIMAL):
        return require_size(held_size(&node.data), end * DECIMAL_WIDTH)
    return check_offsets(node, held_size(&node.data))


cdef int require_size(Py_ssize_t has, Py_ssize_t needs) except -1:
    if has < needs:
        raise ValueError("the data of an Arrow array end before its items")
    return 0


cdef int require_width(bint is_one) except -1:
    if not is_one:
        raise ValueError("not the width of a number or of an offset")
    return 0


cdef int check_fields(Node *node, Node *nodes) except -1:
    cdef int at
    for at in range(node.count):
        if nodes[node.children[at]].length < node.length:
            raise ValueError("a field has fewer items than its struct")
    return 0


cdef int check_items(Node *node, Node *nodes, int count) except -1:
    cdef int at
    cdef Py_ssize_t most = MOST_ITEMS
    if node.count != count:
        raise ValueError(f"a node of this kind has {count} children")
    for at in range(count):
        most = min(most, nodes[node.children[at]].length)
    return check_offsets(node, most)


cdef int check_offsets(Node *node, Py_ssize_t most) except -1:
    cdef Py_ssize_t at
    cdef long long before = 0, place
    require_width(node.width in (4, 8))
    if not node.length:
        return 0
    require_size(held_size(&node.offsets), (node.first + node.length + 1) * node.width)
    for at in range(node.length + 1):
        place = offset_at(node, at)
        if not before <= place <= most:
            raise ValueError(f"the offsets of an Arrow array lead out of its data at {at}")
        before = place
    return 0


cdef inline long long offset_at(Node *node, Py_ssize_t at) noexcept nogil:
    if node.width == 4:
        return (<const int *>node.offsets.buffer.buf)[node.first + at]
    return (<const long long *>node.offsets.buffer.buf)[node.first + at]


cdef inline bint bit_at(Held *held, Py_ssize_t at) noexcept nogil:
    return (<const unsigned char *>held.buffer.buf)[at >> 3] >> (at & 7) & 1


cdef inline bint is_null(Node *node, Py_ssize_t at) noexcept nogil:
    return node.validity.is_held and not bit_at(&node.validity, node.first + at)


cdef inline long long floored(long long number, long long divisor) noexcept nogil:
    cdef long long quotient = number // divisor
    return quotient - 1 if number < 0 and quotient * divisor != number else quotient


cdef inline int number_at(Node *node, Py_ssize_t at, long long *found) noexcept nogil:
    cdef long long number
    at += node.first
    if node.width == 8:
        number = (<const long long *>node.data.buffer.buf)[at]
    elif node.width == 4:
        number = (<const int *>node.data.buffer.buf)[at]
    elif node.width == 2:
        number = (<const short *>node.data.buffer.buf)[at]
    else:
        number = (<const signed char *>node.data.buffer.buf)[at]
    if node.divisor != 1:
        number = floored(number, node.divisor)
    if node.modulus:
        number -= floored(number, node.modulus) * node.modulus
    if node.factor != 1:
        if number > LLONG_MAX // node.factor or number < LLONG_MIN // node.factor:
            return OUT_OF_RANGE
        number *= node.factor
    if not node.low <= number <= node.high:
        return OUT_OF_RANGE
    found[0] = number
    return 0

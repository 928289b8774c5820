# The growing bytes of encoded rows, and the order in which the parts of an item are written.
# Part of rows.pyx. Uses rows_node.pxi (Node, is_null, IS_NULL, NO_MEMORY), rows_json.pxi (write_json) and rows_binary.pxi
# (write_binary).

cdef struct Output:
    unsigned char *data
    Py_ssize_t size
    Py_ssize_t room
    Node *nodes
    # The node of the item that does not fit.
    int failed


cdef void open_output(Output *out, Node *nodes) noexcept:
    out.data = NULL
    out.size = out.room = 0
    out.nodes = nodes
    out.failed = -1


cdef int grow(Output *out, Py_ssize_t more) noexcept nogil:
    cdef Py_ssize_t room = out.room * 2 + more + 1024
    cdef unsigned char *grown = <unsigned char *>realloc(out.data, room)
    if grown == NULL:
        return NO_MEMORY
    out.data, out.room = grown, room
    return 0


cdef inline int reserve(Output *out, Py_ssize_t more) noexcept nogil:
    return 0 if out.room - out.size >= more else grow(out, more)


cdef inline int put_byte(Output *out, unsigned char byte) noexcept nogil:
    if reserve(out, 1):
        return NO_MEMORY
    out.data[out.size] = byte
    out.size += 1
    return 0


cdef inline int put(Output *out, const void *data, Py_ssize_t size) noexcept nogil:
    if reserve(out, size):
        return NO_MEMORY
    if size:
        memcpy(out.data + out.size, data, size)
        out.size += size
    return 0


cdef int write(Output *out, int number, Py_ssize_t at) noexcept nogil:
    # One item behind what belongs before it; otherwise the reason why it does not fit.
    cdef Node *node = &out.nodes[number]
    cdef int why
    if is_null(node, at):
        if node.absent == NULL:
            out.failed = number
            return IS_NULL
        return put(out, node.absent, node.absent_size)
    if put(out, node.before, node.before_size):
        return NO_MEMORY
    why = write_json(out, node, at) if node.kind <= JSON_MAP else write_binary(out, node, at)
    if why and out.failed < 0:
        # The innermost node that failed is reported.
        out.failed = number
    return why


cdef int write_root(
    Output *out, int root, Py_ssize_t at, const char *prefix, Py_ssize_t prefix_size
) noexcept nogil:
    out.failed = -1
    if is_null(&out.nodes[root], at):
        return 0
    if put(out, prefix, prefix_size):
        return NO_MEMORY
    return write(out, root, at)

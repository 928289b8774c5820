# Items as Avro, and as fields of Protobuf messages.
# Part of rows.pyx. Uses rows_node.pxi (Node, number_at, offset_at, bit_at, OUT_OF_RANGE, NOT_UTF_8, WRONG_SIZE) and
# rows_output.pxi (Output, put, put_byte, reserve, write) and rows_json.pxi (sequence_size).

cdef int write_binary(Output *out, Node *node, Py_ssize_t at) noexcept nogil:
    cdef long long number
    cdef int why
    if node.kind == RECORD:
        return fields(out, node, at)
    if node.kind == ZIGZAG or node.kind == VARINT:
        why = number_at(node, at, &number)
        if why:
            return why
        return put_varint(out, zigzag(number) if node.kind == ZIGZAG else <unsigned long long>number)
    if node.kind == NUMBER:
        return put(out, <const char *>node.data.buffer.buf + (node.first + at) * node.width, node.width)
    if node.kind == BOOLEAN:
        return put_byte(out, bit_at(&node.data, node.first + at))
    if node.kind == AVRO_ARRAY or node.kind == AVRO_MAP:
        return blocks(out, node, at)
    if node.kind == AVRO_DECIMAL or node.kind == FIXED_DECIMAL:
        return decimal(out, node, at)
    if node.kind == MESSAGE:
        return message(out, node, at)
    if node.kind == REPEATED or node.kind == PACKED or node.kind == ENTRIES:
        return repeated(out, node, at)
    return octets(out, node, at)


cdef inline unsigned long long zigzag(long long number) noexcept nogil:
    return <unsigned long long>number << 1 ^ (0 - (<unsigned long long>number >> 63))


cdef inline int put_varint(Output *out, unsigned long long number) noexcept nogil:
    if reserve(out, 10):
        return NO_MEMORY
    while number > 0x7F:
        out.data[out.size] = <unsigned char>(number & 0x7F | 0x80)
        out.size += 1
        number >>= 7
    out.data[out.size] = <unsigned char>number
    out.size += 1
    return 0


cdef int fields(Output *out, Node *node, Py_ssize_t at) noexcept nogil:
    cdef int number, why
    for number in range(node.count):
        why = write(out, node.children[number], at)
        if why:
            return why
    return 0


cdef int octets(Output *out, Node *node, Py_ssize_t at) noexcept nogil:
    cdef long long start = offset_at(node, at)
    cdef const unsigned char *data = <const unsigned char *>node.data.buffer.buf + start
    cdef Py_ssize_t size = offset_at(node, at + 1) - start
    if node.kind == FIXED_BYTES:
        return put(out, data, size) if size == node.size else WRONG_SIZE
    if (node.kind == AVRO_STRING or node.kind == SIZED_STRING) and not is_utf_8(data, size):
        return NOT_UTF_8
    if put_varint(out, zigzag(size) if node.kind == AVRO_BYTES or node.kind == AVRO_STRING else size):
        return NO_MEMORY
    return put(out, data, size)


cdef bint is_utf_8(const unsigned char *text, Py_ssize_t size) noexcept nogil:
    cdef Py_ssize_t place = 0
    cdef int step
    while place < size:
        if text[place] < 0x80:
            place += 1
            continue
        step = sequence_size(text + place, size - place)
        if not step:
            return False
        place += step
    return True


cdef int blocks(Output *out, Node *node, Py_ssize_t at) noexcept nogil:
    # One block of all items, and the end.
    cdef Py_ssize_t start = offset_at(node, at), end = offset_at(node, at + 1), item
    cdef int number, why
    if end > start and put_varint(out, zigzag(end - start)):
        return NO_MEMORY
    for item in range(start, end):
        for number in range(node.count):
            why = write(out, node.children[number], item)
            if why:
                return why
    return put_byte(out, 0)


cdef int decimal(Output *out, Node *node, Py_ssize_t at) noexcept nogil:
    # Arrow has the least significant byte first; Avro writes the most significant one first, and as few as are needed.
    cdef const unsigned char *data = <const unsigned char *>node.data.buffer.buf + (node.first + at) * DECIMAL_WIDTH
    cdef unsigned char sign = 0xFF if data[DECIMAL_WIDTH - 1] & 0x80 else 0
    cdef Py_ssize_t size = DECIMAL_WIDTH, place
    while size > 1 and data[size - 1] == sign and data[size - 2] & 0x80 == sign & 0x80:
        size -= 1
    if node.kind == FIXED_DECIMAL:
        if size > node.size:
            return OUT_OF_RANGE
        for place in range(node.size - size):
            if put_byte(out, sign):
                return NO_MEMORY
    elif put_varint(out, zigzag(size)):
        return NO_MEMORY
    for place in range(size - 1, -1, -1):
        if put_byte(out, data[place]):
            return NO_MEMORY
    return 0


cdef int message(Output *out, Node *node, Py_ssize_t at) noexcept nogil:
    cdef Py_ssize_t start = out.size
    cdef int why = fields(out, node, at)
    return why if why else put_size(out, start)


cdef int repeated(Output *out, Node *node, Py_ssize_t at) noexcept nogil:
    # Items have their tags; packed ones have one tag together, and entries of maps are messages of two fields.
    cdef Py_ssize_t first = offset_at(node, at), end = offset_at(node, at + 1), item, start = out.size, entry
    cdef int number, why
    for item in range(first, end):
        if node.kind == ENTRIES and put(out, node.mark, node.mark_size):
            return NO_MEMORY
        entry = out.size
        for number in range(node.count):
            why = write(out, node.children[number], item)
            if why:
                return why
        if node.kind == ENTRIES and put_size(out, entry):
            return NO_MEMORY
    return put_size(out, start) if node.kind == PACKED else 0


cdef int put_size(Output *out, Py_ssize_t start) noexcept nogil:
    # The bytes since `start` move, so that their size stands before them.
    cdef Py_ssize_t size = out.size - start, behind = out.size, room
    cdef unsigned char head[10]
    if put_varint(out, size):
        return NO_MEMORY
    room = out.size - behind
    memcpy(head, out.data + behind, room)
    memmove(out.data + start + room, out.data + start, size)
    memcpy(out.data + start, head, room)
    return 0

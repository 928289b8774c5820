# Walking: every byte is checked, nothing is created, and the cost of the objects is added up.
# Part of messages.pyx. Uses messages_shape.pxi (Field, Mark, Problem, Shape, Walk, the costs) and messages.h.

cdef inline const uint8_t *refuse(
    Walk *walk, Problem problem, const uint8_t *at, int64_t wanted
) noexcept nogil:
    walk.problem = problem
    walk.at = at
    walk.wanted = wanted
    return NULL


cdef inline const uint8_t *walk_varint(
    const uint8_t *p, const uint8_t *end, int64_t *value, Walk *walk
) noexcept nogil:
    cdef const uint8_t *start = p
    cdef uint64_t result = 0
    cdef int shift = 0
    cdef uint8_t byte
    while p < end:
        byte = p[0]
        p += 1
        result |= (<uint64_t>(byte & 0x7f)) << shift
        if byte < 0x80:
            # A zero at the end could have been left out; Kafka's unsigned varints have 32 bits.
            if (byte == 0 and shift > 0) or result >> 32:
                break
            value[0] = <int64_t>result
            return p
        shift += 7
        if shift > 28:
            break
    return refuse(walk, BAD_VARINT, start, 0)


cdef inline const uint8_t *walk_length(
    const uint8_t *p, const uint8_t *end, bint compact, int width, int64_t *length, Walk *walk
) noexcept nogil:
    """A length or count; -1 stands for null."""
    cdef const uint8_t *start = p
    if compact:
        p = walk_varint(p, end, length, walk)
        if p != NULL:
            length[0] -= 1
        return p
    if end - p < width:
        return refuse(walk, SHORT, p, width)
    length[0] = <int16_t>wire_load16(p) if width == 2 else <int32_t>wire_load32(p)
    if length[0] < -1:
        return refuse(walk, NEGATIVE, start, length[0])
    return p + width


cdef const uint8_t *walk_value(
    Field *field, const uint8_t *p, const uint8_t *end, bint nullable, Walk *walk
) noexcept nogil:
    """One value that is not an array and not of fixed size."""
    cdef const uint8_t *start = p
    cdef int64_t length = 0
    cdef uint32_t largest = 0
    cdef Py_ssize_t characters
    if field.kind == STRUCT:
        if nullable:
            if p >= end:
                return refuse(walk, SHORT, p, 1)
            # KIP-893: one byte says whether a nullable struct follows.
            if <int8_t>p[0] < 0:
                return p + 1
            p += 1
        return walk_struct(field.shape, p, end, NULL, walk)
    if field.fixed:
        if end - p < field.fixed:
            return refuse(walk, SHORT, p, field.fixed)
        walk.cost += field.cost
        return p + field.fixed
    p = walk_length(p, end, field.compact, 2 if field.kind == STRING else 4, &length, walk)
    if p == NULL:
        return NULL
    if length < 0:
        return p if nullable else refuse(walk, NULL_VALUE, start, 0)
    if length > end - p:
        return refuse(walk, SHORT, p, length)
    if field.kind == BYTES:
        walk.cost += BYTES_COST + length
        return p + length
    if length > STRING_LIMIT:
        return refuse(walk, TOO_LONG, start, length)
    characters = wire_scan_utf8(p, length, &largest)
    if characters < 0:
        return refuse(walk, BAD_TEXT, p, 0)
    if largest < 0x80:
        walk.cost += ASCII_COST + characters
    else:
        walk.cost += TEXT_COST + (characters + 1) * (1 if largest < 0x100 else 2 if largest < 0x10000 else 4)
    return p + length


cdef const uint8_t *walk_field(Field *field, const uint8_t *p, const uint8_t *end, Walk *walk) noexcept nogil:
    cdef const uint8_t *start = p
    cdef int64_t count = 0
    cdef int64_t i
    if not field.array:
        return walk_value(field, p, end, field.nullable, walk)
    p = walk_length(p, end, field.compact, 4, &count, walk)
    if p == NULL:
        return NULL
    if count < 0:
        return p if field.nullable else refuse(walk, NULL_VALUE, start, 0)
    if count * field.smallest > end - p:
        return refuse(walk, TOO_MANY, start, count)
    walk.cost += LIST_COST + count * SLOT_COST
    if field.fixed:
        walk.cost += count * field.cost
        return p + count * field.fixed
    for i in range(count):
        p = walk_value(field, p, end, False, walk)
        if p == NULL:
            return NULL
    return p


cdef const uint8_t *walk_tags(
    Shape *shape, const uint8_t *p, const uint8_t *end, Mark *marks, Walk *walk
) noexcept nogil:
    cdef const uint8_t *start = p
    cdef const uint8_t *stop
    cdef int64_t count = 0, tag = 0, size = 0, previous = -1, i
    cdef int known = 0
    cdef Py_ssize_t before
    p = walk_varint(p, end, &count, walk)
    if p == NULL:
        return NULL
    if count * 2 > end - p:
        return refuse(walk, TAG_COUNT, start, count)
    for i in range(count):
        start = p
        p = walk_varint(p, end, &tag, walk)
        if p == NULL:
            return NULL
        if tag <= previous:
            return refuse(walk, TAG_ORDER, start, tag)
        previous = tag
        p = walk_varint(p, end, &size, walk)
        if p == NULL:
            return NULL
        if size > end - p:
            return refuse(walk, SHORT, p, size)
        while known < shape.tagged_count and shape.tagged[known].tag < tag:
            known += 1
        if known < shape.tagged_count and shape.tagged[known].tag == tag:
            before = walk.cost
            stop = walk_field(&shape.tagged[known], p, p + size, walk)
            if stop == NULL:
                return blame(shape, &shape.tagged[known], walk)
            if stop != p + size:
                refuse(walk, TAG_SIZE, start, size)
                return blame(shape, &shape.tagged[known], walk)
            if marks != NULL:
                marks[shape.tagged[known].slot].end = stop
                marks[shape.tagged[known].slot].cost = walk.cost - before
        p += size
    return p


cdef inline const uint8_t *blame(Shape *shape, Field *field, Walk *walk) noexcept nogil:
    """Store the innermost invalid field."""
    if walk.shape == NULL:
        walk.shape = shape
        walk.field = field
    return NULL


cdef const uint8_t *walk_struct(
    Shape *shape, const uint8_t *p, const uint8_t *end, Mark *marks, Walk *walk
) noexcept nogil:
    cdef int i = 0
    cdef Field *field
    cdef Py_ssize_t before
    walk.cost += shape.cost
    while i < shape.plain_count:
        field = &shape.plain[i]
        if field.run:
            if end - p < field.run:
                refuse(walk, SHORT, p, field.run)
                return blame(shape, field, walk)
            p += field.run
            i = field.after
            continue
        before = walk.cost
        p = walk_short_array(field, p, end, walk) or walk_field(field, p, end, walk)
        if p == NULL:
            return blame(shape, field, walk)
        if marks != NULL:
            marks[field.slot].end = p
            marks[field.slot].cost = walk.cost - before
        i += 1
    if not shape.flexible:
        return p
    if p < end and p[0] == 0:
        return p + 1
    p = walk_tags(shape, p, end, marks, walk)
    return p if p != NULL else blame(shape, NULL, walk)


cdef inline const uint8_t *walk_short_array(
    Field *field, const uint8_t *p, const uint8_t *end, Walk *walk
) noexcept nogil:
    """The replicas of a partition and their like, which large metadata is full of; NULL for anything else."""
    cdef int64_t count
    if not (field.array and field.compact and field.fixed) or p >= end or p[0] == 0 or p[0] > 0x7f:
        return NULL
    count = p[0] - 1
    if count * field.fixed >= end - p:
        return NULL
    walk.cost += LIST_COST + count * (SLOT_COST + field.cost)
    return p + 1 + count * field.fixed

# Building: objects from walked bytes, which cannot be invalid.
# Part of messages.pyx. Uses messages_shape.pxi (Field, Kind, Mark, Shape, Walk), messages_view.pxi (_Source, new_view),
# messages_walk.pxi (walk_struct) and messages.h.

cdef inline int64_t take_varint(const uint8_t **at) noexcept nogil:
    cdef const uint8_t *p = at[0]
    cdef uint64_t result = p[0] & 0x7f
    cdef int shift = 7
    while p[0] >= 0x80:
        p += 1
        result |= (<uint64_t>(p[0] & 0x7f)) << shift
        shift += 7
    at[0] = p + 1
    return <int64_t>result


cdef inline int64_t take_length(const uint8_t **at, bint compact, int width) noexcept nogil:
    cdef const uint8_t *p = at[0]
    if compact:
        return take_varint(at) - 1
    at[0] = p + width
    return <int16_t>wire_load16(p) if width == 2 else <int32_t>wire_load32(p)


cdef inline int8_t take_marker(const uint8_t **at) noexcept nogil:
    """The marker before a nullable struct: negative for null (KIP-893)."""
    at[0] += 1
    return <int8_t>(at[0] - 1)[0]


cdef object build_value(Field *field, const uint8_t **at, bint nullable):
    cdef const uint8_t *p = at[0]
    cdef Kind kind = field.kind
    cdef int64_t length
    if kind == STRUCT:
        if nullable and take_marker(at) < 0:
            return None
        return build_struct(field.shape, at)
    if field.fixed:
        at[0] = p + field.fixed
        if kind == INT32:
            return PyLong_FromLongLong(<int32_t>wire_load32(p))
        if kind == INT16:
            return PyLong_FromLongLong(<int16_t>wire_load16(p))
        if kind == INT64:
            return PyLong_FromLongLong(<int64_t>wire_load64(p))
        if kind == INT8:
            return PyLong_FromLongLong(<int8_t>p[0])
        if kind == BOOL:
            return p[0] != 0
        if kind == UINT16:
            return PyLong_FromLongLong(wire_load16(p))
        if kind == UINT32:
            return PyLong_FromUnsignedLong(wire_load32(p))
        if kind == FLOAT64:
            return PyFloat_FromDouble(wire_load_double(p))
        return PyBytes_FromStringAndSize(<char *>p, 16)
    length = take_length(at, field.compact, 2 if kind == STRING else 4)
    if length < 0:
        return None
    p = at[0]
    at[0] = p + length
    if kind == STRING:
        return wire_text(p, length)
    return PyBytes_FromStringAndSize(<char *>p, length)


cdef object build_list(Field *field, const uint8_t **at):
    cdef int64_t count = take_length(at, field.compact, 4)
    cdef int64_t i
    if count < 0:
        return None
    cdef list made = PyList_New(count)
    for i in range(count):
        element = build_value(field, at, False)
        Py_INCREF(element)
        PyList_SET_ITEM(made, i, element)
    return made


cdef inline object build_field(Field *field, const uint8_t **at):
    if field.array:
        return build_list(field, at)
    return build_value(field, at, field.nullable)


cdef inline object default_of(Field *field):
    # A default is never shared: it could be changed. Every decoded array is a list.
    if field.array and <object>field.default is not None:
        return []
    return <object>field.default


cdef struct Opening:
    # Needed where arrays may have to become views; a null pointer to it means that everything fits.
    PyObject *source
    Mark *marks
    Py_ssize_t *budget


cdef inline object take_field(Field *field, const uint8_t **at, Opening *opening):
    if opening == NULL:
        return build_field(field, at)
    return open_field(field, at, opening)


cdef inline object build_struct(Shape *shape, const uint8_t **at):
    return take_struct(shape, at, NULL)


cdef object take_struct(Shape *shape, const uint8_t **at, Opening *opening):
    made = wire_new_tuple(shape.type, shape.slots)
    cdef Field *field
    cdef int i
    for i in range(shape.plain_count):
        field = &shape.plain[i]
        wire_set_slot(made, field.slot, take_field(field, at, opening))
    if shape.flexible:
        take_tags(shape, at, made, opening)
    for i in range(shape.absent_count):
        wire_set_slot(made, shape.absent[i].slot, default_of(&shape.absent[i]))
    if shape.traced:
        PyObject_GC_Track(made)
    return made


cdef int take_tags(Shape *shape, const uint8_t **at, object made, Opening *opening) except -1:
    cdef int64_t count = take_varint(at), tag, size, i
    cdef int known = 0
    for i in range(count):
        tag = take_varint(at)
        size = take_varint(at)
        known = default_tags(shape, made, known, tag)
        if known < shape.tagged_count and shape.tagged[known].tag == tag:
            wire_set_slot(made, shape.tagged[known].slot, take_field(&shape.tagged[known], at, opening))
            known += 1
        else:
            at[0] += size
    default_tags(shape, made, known, INT64_MAX)
    return 0


cdef int default_tags(Shape *shape, object made, int known, int64_t tag) except -1:
    """Gives the tagged fields from `known` up to `tag` their defaults; returns the first one after them."""
    while known < shape.tagged_count and shape.tagged[known].tag < tag:
        wire_set_slot(made, shape.tagged[known].slot, default_of(&shape.tagged[known]))
        known += 1
    return known


cdef object open_struct(_Source source, Shape *shape, const uint8_t **at, Py_ssize_t *budget):
    """A struct whose arrays are lists within the budget and views beyond it."""
    cdef Mark marks[MOST_SLOTS]
    cdef Walk walk
    walk.cost = 0
    walk.shape = NULL
    walk_struct(shape, at[0], source.end, marks, &walk)
    if walk.cost <= budget[0]:
        budget[0] -= walk.cost
        return build_struct(shape, at)
    return open_walked(source, shape, at, marks, budget)


cdef object open_walked(
    _Source source, Shape *shape, const uint8_t **at, Mark *marks, Py_ssize_t *budget
):
    cdef Opening opening
    budget[0] -= shape.cost
    opening.source = <PyObject *>source
    opening.marks = marks
    opening.budget = budget
    return take_struct(shape, at, &opening)


cdef object open_field(Field *field, const uint8_t **at, Opening *opening):
    cdef Mark *mark = &opening.marks[field.slot]
    # The budget may be overdrawn by the views before; null costs nothing and is no view.
    if field.array and mark.cost > max(0, opening.budget[0]):
        view = new_view(<_Source>opening.source, field, at[0])
        at[0] = mark.end
        opening.budget[0] -= VIEW_COST
        return view
    if field.array:
        opening.budget[0] -= mark.cost
    elif field.kind == STRUCT:
        if field.nullable:
            if take_marker(at) < 0:
                return None
        return open_struct(<_Source>opening.source, field.shape, at, opening.budget)
    return build_field(field, at)


cdef object open_element(_Source source, Field *field, const uint8_t **at):
    cdef Py_ssize_t budget = ALLOWANCE
    if field.kind == STRUCT:
        return open_struct(source, field.shape, at, &budget)
    return build_value(field, at, False)

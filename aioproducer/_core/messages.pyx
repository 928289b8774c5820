# cython: language_level=3, binding=True, boundscheck=False, wraparound=False, initializedcheck=False
# cython: auto_pickle=False, autotestdict=False, embedsignature=False
"""The interpreter that turns Kafka's messages into bytes and back, whatever the declarations say.

A `Program` is one struct in one version. Decoding has two steps that never mix:

* *walk* checks everything (lengths, counts, nulls, UTF-8, tags) and creates nothing. It also adds up what the
  objects would cost, so that memory is known before it is spent.
* *build* makes the objects from bytes that have been walked, and therefore cannot fail on them.

Arrays become lists as long as the whole message stays within four times its frame and 64 KiB. An array beyond that
becomes an `ArrayView`, which makes its elements when they are asked for: an element of a few bytes costs a hundred
as a Python object, and a peer that sends 16 MiB must not be able to make them 1 GiB.
"""

cimport cython
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_CheckBuffer, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.float cimport PyFloat_AsDouble, PyFloat_FromDouble
from cpython.list cimport PyList_New, PyList_SET_ITEM
from cpython.long cimport PyLong_AsLongLongAndOverflow, PyLong_Check, PyLong_FromLongLong, PyLong_FromUnsignedLong
from cpython.mem cimport PyMem_Calloc, PyMem_Free, PyMem_Malloc, PyMem_Realloc
from cpython.object cimport Py_EQ, PyObject, PyObject_RichCompareBool, PyTypeObject
from cpython.ref cimport Py_INCREF
from cpython.sequence cimport PySequence_Check, PySequence_Fast, PySequence_Fast_GET_ITEM, PySequence_Fast_GET_SIZE
from cpython.tuple cimport PyTuple_GET_ITEM, PyTuple_GET_SIZE
from libc.stdint cimport INT64_MAX, INT64_MIN, int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcpy, memmove

from collections.abc import Sequence

from aioproducer.errors import ProtocolError

cdef extern from *:
    """
    #include <stdint.h>
    #include <string.h>

    static inline uint16_t wire_load16(const uint8_t *p) { return (uint16_t)(((uint16_t)p[0] << 8) | p[1]); }
    static inline uint32_t wire_load32(const uint8_t *p) {
        return ((uint32_t)p[0] << 24) | ((uint32_t)p[1] << 16) | ((uint32_t)p[2] << 8) | p[3];
    }
    static inline uint64_t wire_load64(const uint8_t *p) {
        return ((uint64_t)wire_load32(p) << 32) | wire_load32(p + 4);
    }
    static inline double wire_load_double(const uint8_t *p) {
        uint64_t bits = wire_load64(p);
        double value;
        memcpy(&value, &bits, 8);
        return value;
    }
    static inline uint64_t wire_double_bits(double value) {
        uint64_t bits;
        memcpy(&bits, &value, 8);
        return bits;
    }
    static inline void wire_store(uint8_t *p, uint64_t value, int size) {
        while (size--) { p[size] = (uint8_t)value; value >>= 8; }
    }

    /* A tuple that the collector does not see yet: it starts to look at it once every slot is filled. */
    static PyObject *wire_new_tuple(PyTypeObject *type, Py_ssize_t size) {
        PyTupleObject *made = PyObject_GC_NewVar(PyTupleObject, type, size);
        if (made == NULL) return NULL;
    #if PY_VERSION_HEX >= 0x030E0000
        made->ob_hash = -1;
    #endif
        memset(made->ob_item, 0, (size_t)size * sizeof(PyObject *));
        return (PyObject *)made;
    }
    static inline void wire_set_slot(PyObject *tuple, Py_ssize_t slot, PyObject *value) {
        Py_INCREF(value);
        PyTuple_SET_ITEM(tuple, slot, value);
    }

    /* How many characters valid UTF-8 holds and the largest of them; -1 when it is not valid. */
    static Py_ssize_t wire_scan_utf8(const uint8_t *p, Py_ssize_t size, uint32_t *largest) {
        const uint8_t *end = p + size;
        Py_ssize_t characters = 0;
        uint32_t seen = 0;
        while (p < end) {
            uint32_t c = *p;
            int more;
            uint32_t least;
            if (c < 0x80) {
                while (end - p >= 8) {
                    uint64_t eight;
                    memcpy(&eight, p, 8);
                    if (eight & 0x8080808080808080ULL) break;
                    p += 8;
                    characters += 8;
                }
                while (p < end && *p < 0x80) { p++; characters++; }
                seen |= 0x7f;
                continue;
            }
            if (c >= 0xc2 && c < 0xe0) { more = 1; least = 0x80; c &= 0x1f; }
            else if (c >= 0xe0 && c < 0xf0) { more = 2; least = 0x800; c &= 0x0f; }
            else if (c >= 0xf0 && c < 0xf5) { more = 3; least = 0x10000; c &= 0x07; }
            else return -1;
            if (end - p <= more) return -1;
            for (int i = 1; i <= more; i++) {
                if ((p[i] & 0xc0) != 0x80) return -1;
                c = (c << 6) | (p[i] & 0x3f);
            }
            if (c < least || c > 0x10ffff || (c >= 0xd800 && c < 0xe000)) return -1;
            if (c > seen) seen = c;
            p += more + 1;
            characters++;
        }
        *largest = seen;
        return characters;
    }

    /* The text of scanned UTF-8, in exactly the memory it needs: CPython's decoder holds up to three buffers. */
    static PyObject *wire_text(const uint8_t *p, Py_ssize_t size) {
        uint32_t largest = 0;
        Py_ssize_t characters = wire_scan_utf8(p, size, &largest);
        PyObject *text = PyUnicode_New(characters, largest);
        if (text == NULL || characters == 0) return text;
        int kind = PyUnicode_KIND(text);
        void *data = PyUnicode_DATA(text);
        if (largest < 0x80) { memcpy(data, p, (size_t)size); return text; }
        for (Py_ssize_t i = 0; i < characters; i++) {
            uint32_t c = *p++;
            int more = c < 0x80 ? 0 : c < 0xe0 ? 1 : c < 0xf0 ? 2 : 3;
            if (more) c &= 0x3f >> more;
            while (more--) c = (c << 6) | (*p++ & 0x3f);
            PyUnicode_WRITE(kind, data, i, c);
        }
        return text;
    }
    """
    uint16_t wire_load16(const uint8_t *p) noexcept nogil
    uint32_t wire_load32(const uint8_t *p) noexcept nogil
    uint64_t wire_load64(const uint8_t *p) noexcept nogil
    double wire_load_double(const uint8_t *p) noexcept nogil
    uint64_t wire_double_bits(double value) noexcept nogil
    void wire_store(uint8_t *p, uint64_t value, int size) noexcept nogil
    object wire_new_tuple(PyTypeObject *type, Py_ssize_t size)
    void wire_set_slot(object made, Py_ssize_t slot, object value)
    Py_ssize_t wire_scan_utf8(const uint8_t *p, Py_ssize_t size, uint32_t *largest) noexcept nogil
    object wire_text(const uint8_t *p, Py_ssize_t size)

cdef extern from "Python.h":
    void PyObject_GC_Track(object made)
    const char *PyUnicode_AsUTF8AndSize(object text, Py_ssize_t *size) except NULL


# ---------------------------------------------------------------------------------------------- what a program is

cdef enum Kind:
    BOOL, INT8, INT16, UINT16, INT32, UINT32, INT64, FLOAT64, UUID, STRING, BYTES, STRUCT

_KINDS = {
    "bool": BOOL, "int8": INT8, "int16": INT16, "uint16": UINT16, "int32": INT32, "uint32": UINT32, "int64": INT64,
    "float64": FLOAT64, "uuid": UUID, "string": STRING, "bytes": BYTES, "records": BYTES, "struct": STRUCT,
}
_SIZES = {BOOL: 1, INT8: 1, INT16: 2, UINT16: 2, INT32: 4, UINT32: 4, INT64: 8, FLOAT64: 8, UUID: 16}

# What objects take in bytes, at most, on every CPython we run on.
cdef enum Cost:
    TUPLE_COST = 48
    LIST_COST = 64
    SLOT_COST = 8
    INT_COST = 36
    BYTES_COST = 40
    ASCII_COST = 56
    TEXT_COST = 80
    VIEW_COST = 112

cdef enum Limit:
    # Kafka's own strings are never longer, in flexible versions either (its generated code refuses them).
    STRING_LIMIT = 0x7fff
    MOST_SLOTS = 32

cdef enum Problem:
    NOTHING, SHORT, NULL_VALUE, NEGATIVE, TOO_LONG, TOO_MANY, BAD_VARINT, BAD_TEXT, TAG_ORDER, TAG_COUNT, TAG_SIZE, TRAILING

_TEXTS = {
    SHORT: "{wanted} bytes are needed and {left} remain",
    NULL_VALUE: "null, which is not allowed here",
    NEGATIVE: "a negative length ({wanted})",
    TOO_LONG: "a string of {wanted} bytes; Kafka allows 32767",
    TOO_MANY: "a count of {wanted} does not fit into the {left} bytes that remain",
    BAD_VARINT: "a varint that is cut off, too large or longer than it needs to be",
    BAD_TEXT: "a string that is not UTF-8",
    TAG_ORDER: "tag {wanted} stands twice or out of order",
    TAG_COUNT: "{wanted} tagged fields do not fit into the {left} bytes that remain",
    TAG_SIZE: "a tagged field whose size is not that of its value",
    TRAILING: "{left} bytes too many at the end",
}

# The part of four times the frame and 64 KiB that is kept for what is not counted one by one.
cdef Py_ssize_t SPARE = 8 * 1024
cdef Py_ssize_t ALLOWANCE = 64 * 1024

cdef struct Shape

cdef struct Field:
    Kind kind               # of the value; of the elements if it is an array
    bint array
    bint nullable
    bint compact
    bint ignorable
    int64_t tag
    Py_ssize_t slot         # where in the tuple
    Py_ssize_t fixed        # bytes of one value if they are always as many, else 0
    Py_ssize_t smallest     # bytes of one value at least
    Py_ssize_t cost         # of the objects of one value, as far as that does not depend on the bytes
    Py_ssize_t run          # bytes of this and the fixed fields after it, 0 if the one before it begins the run
    int after               # the first field behind the run
    Shape *shape            # of a struct
    PyObject *name
    PyObject *default

cdef struct Shape:
    PyTypeObject *type
    Py_ssize_t slots
    int plain_count
    int tagged_count
    int absent_count
    Field *plain            # untagged, in wire order
    Field *tagged           # in order of tags
    Field *absent           # fields that this version does not have
    bint flexible
    bint traced             # holds something that the garbage collector must be able to see
    int version
    Py_ssize_t fixed
    Py_ssize_t smallest
    Py_ssize_t cost

cdef struct Mark:
    # Where a field ended when it was walked, and what its objects would cost.
    const uint8_t *end
    Py_ssize_t cost

cdef struct Walk:
    Py_ssize_t cost
    Problem problem
    const uint8_t *at
    int64_t wanted
    Shape *shape
    Field *field


# ------------------------------------------------------------------------------------------------------------ walk

cdef inline const uint8_t *refuse(Walk *walk, Problem problem, const uint8_t *at, int64_t wanted) noexcept nogil:
    walk.problem = problem
    walk.at = at
    walk.wanted = wanted
    return NULL


cdef inline const uint8_t *walk_varint(const uint8_t *p, const uint8_t *end, int64_t *value, Walk *walk) noexcept nogil:
    cdef const uint8_t *start = p
    cdef uint64_t result = 0
    cdef int shift = 0
    cdef uint8_t byte
    while p < end:
        byte = p[0]
        p += 1
        result |= (<uint64_t>(byte & 0x7f)) << shift
        if byte < 0x80:
            # A zero at the end could have been left out; more than 32 bits never happen in Kafka's unsigned varints.
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


cdef const uint8_t *walk_tags(Shape *shape, const uint8_t *p, const uint8_t *end, Mark *marks, Walk *walk) noexcept nogil:
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
    """Remember the innermost field that was wrong."""
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
        p = walk_field(field, p, end, walk)
        if p == NULL:
            return blame(shape, field, walk)
        if marks != NULL:
            marks[field.slot].end = p
            marks[field.slot].cost = walk.cost - before
        i += 1
    if shape.flexible:
        p = walk_tags(shape, p, end, marks, walk)
        if p == NULL:
            return blame(shape, NULL, walk)
    return p


# ----------------------------------------------------------------------------------------------------------- build

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
    """What stands before a nullable struct: negative for null (KIP-893)."""
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
    # Nobody may change a default for everybody, and every decoded array is a list.
    if field.array and <object>field.default is not None:
        return []
    return <object>field.default


cdef inline void skip_unknown_tag(const uint8_t **at) noexcept nogil:
    cdef int64_t size = take_varint(at)
    at[0] += size



cdef struct Opening:
    # What is needed where arrays may have to become views; a null pointer to it means that everything fits.
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
    """Gives the tagged fields from `known` up to `tag` their defaults; returns the first that is left."""
    while known < shape.tagged_count and shape.tagged[known].tag < tag:
        wire_set_slot(made, shape.tagged[known].slot, default_of(&shape.tagged[known]))
        known += 1
    return known


# ------------------------------------------------------------------------------------ build what may be too large

cdef object open_struct(Source source, Shape *shape, const uint8_t **at, Py_ssize_t *budget):
    """A struct whose arrays are lists as far as the budget goes and views beyond it."""
    cdef Mark marks[MOST_SLOTS]
    cdef Opening opening
    cdef Walk walk
    walk.cost = 0
    walk.shape = NULL
    walk_struct(shape, at[0], source.end, marks, &walk)
    if walk.cost <= budget[0]:
        budget[0] -= walk.cost
        return build_struct(shape, at)
    budget[0] -= shape.cost
    opening.source = <PyObject *>source
    opening.marks = marks
    opening.budget = budget
    return take_struct(shape, at, &opening)


cdef object open_field(Field *field, const uint8_t **at, Opening *opening):
    cdef Mark *mark = &opening.marks[field.slot]
    if field.array and mark.cost > opening.budget[0]:
        view = new_view(<Source>opening.source, field, at[0])
        at[0] = mark.end
        opening.budget[0] -= VIEW_COST
        return view
    if field.array:
        opening.budget[0] -= mark.cost
    elif field.kind == STRUCT:
        if field.nullable:
            if take_marker(at) < 0:
                return None
        return open_struct(<Source>opening.source, field.shape, at, opening.budget)
    return build_field(field, at)


cdef object open_element(Source source, Field *field, const uint8_t **at):
    cdef Py_ssize_t budget = ALLOWANCE
    if field.kind == STRUCT:
        return open_struct(source, field.shape, at, &budget)
    return build_value(field, at, False)


@cython.final
@cython.no_gc
cdef class Source:
    """A frame that has been walked, with the program that its views are read by."""

    cdef bytes frame
    cdef Program program
    cdef const uint8_t *end


cdef ArrayView new_view(Source source, Field *field, const uint8_t *at):
    cdef ArrayView view = ArrayView.__new__(ArrayView)
    view.source = source
    view.field = field
    view.length = take_length(&at, field.compact, 4)
    view.first = at
    view.cursor = at
    return view


@cython.final
@cython.no_gc
cdef class ArrayView:
    """A decoded array too large to become a list: a read-only sequence that makes its elements when asked for.

    Each access makes a new element. Iterating costs the same per element as a list would have; so does access by
    rising index. It keeps the whole frame alive: copy what is to stay.
    """

    cdef Source source
    cdef Field *field
    cdef const uint8_t *first
    cdef Py_ssize_t length
    # The place where the last element that was asked for ends, so that rising indexes need no search.
    cdef const uint8_t *cursor
    cdef Py_ssize_t position

    def __init__(self):
        raise TypeError("an ArrayView comes from decoding only")

    def __len__(self):
        return self.length

    def __getitem__(self, index):
        if isinstance(index, slice):
            return [self.at(i) for i in range(*index.indices(self.length))]
        cdef Py_ssize_t i = index
        if i < 0:
            i += self.length
        if not 0 <= i < self.length:
            raise IndexError("array index out of range")
        return self.at(i)

    cdef object at(self, Py_ssize_t index):
        self.seek(index)
        element = open_element(self.source, self.field, &self.cursor)
        self.position = index + 1
        return element

    cdef void seek(self, Py_ssize_t index) noexcept:
        cdef Walk walk
        if self.field.fixed:
            self.cursor = self.first + index * self.field.fixed
            return
        if index < self.position:
            self.cursor = self.first
            self.position = 0
        walk.cost = 0
        walk.shape = NULL
        while self.position < index:
            self.cursor = walk_value(self.field, self.cursor, self.source.end, False, &walk)
            self.position += 1

    def __iter__(self):
        cdef const uint8_t *at = self.first
        cdef Py_ssize_t i
        for i in range(self.length):
            yield open_element(self.source, self.field, &at)

    def __reversed__(self):
        return reversed(list(self))

    def __contains__(self, value):
        return any(value == element for element in self)

    def __eq__(self, other):
        if not isinstance(other, (ArrayView, list, tuple)):
            return NotImplemented
        return self.length == len(other) and all(mine == its for mine, its in zip(self, other))

    __hash__ = None

    def __repr__(self):
        shown = ", ".join(map(repr, self[:3]))
        return f"<{self.length} elements: {shown}{', ...' if self.length > 3 else ''}>"

    def index(self, value, start=0, stop=None):
        """The first position of `value`."""
        for i in range(*slice(start, stop).indices(self.length)):
            if self.at(i) == value:
                return i
        raise ValueError("the value is not in the array")

    def count(self, value):
        """How many elements equal `value`."""
        return sum(element == value for element in self)


Sequence.register(ArrayView)


# ---------------------------------------------------------------------------------------------------------- encode

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
        put_value(out, shape, field, <object>PySequence_Fast_GET_ITEM(elements, i), False)
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
    """A field that the version lacks must say nothing, unless Kafka calls it ignorable (its own rule)."""
    if not field.ignorable and not is_default(field, value):
        wrong_value(shape, field, "does not exist in this version and is not at its default")
    return 0


# --------------------------------------------------------------------------------------------------------- program

@cython.final
cdef class Program:
    """One struct in one version, ready to be written and read.

    `fields` holds one tuple for each field of the NamedTuple, in its order:
    `(name, kind, array, struct, nullable, compact, tag, present, ignorable, default)`, where `kind` is Kafka's
    name of the type or "struct", and `struct` the program of a struct.
    """

    cdef Shape shape
    cdef object kept

    def __cinit__(self, type message, tuple fields, *, bint flexible, int version):
        if not issubclass(message, tuple) or message.__itemsize__ != tuple.__itemsize__:
            raise TypeError(f"{message.__name__} is not a NamedTuple")
        if message.__basicsize__ != tuple.__basicsize__ or len(fields) > MOST_SLOTS:
            raise TypeError(f"{message.__name__} has more than {MOST_SLOTS} fields or instance attributes")
        self.kept = (message, fields)
        self.shape.type = <PyTypeObject *>message
        self.shape.slots = len(fields)
        self.shape.flexible = flexible
        self.shape.version = version
        plain = [(slot, *field) for slot, field in enumerate(fields) if field[7] and field[6] < 0]
        tagged = [(slot, *field) for slot, field in enumerate(fields) if field[7] and field[6] >= 0]
        absent = [(slot, *field) for slot, field in enumerate(fields) if not field[7]]
        self.shape.plain = self.allocate(plain, &self.shape.plain_count)
        self.shape.tagged = self.allocate(sorted(tagged, key=lambda row: row[7]), &self.shape.tagged_count)
        self.shape.absent = self.allocate(absent, &self.shape.absent_count)
        self.find_runs()
        self.measure()

    def __dealloc__(self):
        PyMem_Free(self.shape.plain)
        PyMem_Free(self.shape.tagged)
        PyMem_Free(self.shape.absent)

    cdef Field *allocate(self, list rows, int *count) except NULL:
        cdef Field *fields = <Field *>PyMem_Calloc(len(rows) + 1, sizeof(Field))
        cdef int i
        if fields == NULL:
            raise MemoryError
        for i in range(len(rows)):
            fill_field(&fields[i], rows[i])
        count[0] = len(rows)
        return fields

    cdef void find_runs(self) noexcept:
        """Neighbours of fixed size are walked in one step."""
        cdef Field *fields = self.shape.plain
        cdef int i = 0, first
        while i < self.shape.plain_count:
            first = i
            while i < self.shape.plain_count and is_fixed(&fields[i]):
                fields[first].run += fields[i].fixed
                i += 1
            fields[first].after = i
            if i == first:
                i += 1

    cdef void measure(self) noexcept:
        cdef Shape *shape = &self.shape
        cdef bint fixed = not shape.flexible
        cdef Field *field
        cdef int i
        shape.cost = TUPLE_COST + shape.slots * SLOT_COST
        shape.smallest = 1 if shape.flexible else 0
        for i in range(shape.plain_count):
            field = &shape.plain[i]
            shape.traced |= field.array or field.kind == STRUCT
            shape.smallest += smallest_field(field)
            if is_fixed(field):
                shape.cost += field.cost
            else:
                fixed = False
        for i in range(shape.tagged_count):
            shape.traced |= shape.tagged[i].array or shape.tagged[i].kind == STRUCT
            shape.cost += LIST_COST if shape.tagged[i].array else 0
        for i in range(shape.absent_count):
            shape.traced |= shape.absent[i].array or shape.absent[i].kind == STRUCT
            shape.cost += LIST_COST if shape.absent[i].array else 0
        shape.fixed = shape.smallest if fixed else 0

    def decode(self, buffer, Py_ssize_t start=0):
        """The message that fills `buffer` from `start` to its end; `ProtocolError` if none does."""
        cdef Py_ssize_t end = -1
        return self.read(buffer, start, &end)

    def decode_prefix(self, buffer):
        """The message at the beginning of `buffer`, and where it ends."""
        cdef Py_ssize_t end = 0
        message = self.read(buffer, 0, &end)
        return message, end

    cdef object read(self, object buffer, Py_ssize_t start, Py_ssize_t *end):
        cdef bytes frame = buffer if type(buffer) is bytes else memoryview(buffer).tobytes()
        cdef Py_ssize_t size = PyBytes_GET_SIZE(frame)
        cdef const uint8_t *first = <const uint8_t *>PyBytes_AS_STRING(frame)
        cdef const uint8_t *p
        cdef const uint8_t *at = first + start
        cdef Py_ssize_t budget = ALLOWANCE - SPARE + 4 * (size - start)
        cdef Walk walk
        if not 0 <= start <= size:
            raise ValueError(f"start must be from 0 to {size}, not {start}")
        if frame is not buffer:
            budget -= size
        walk.cost = 0
        walk.shape = NULL
        p = walk_struct(&self.shape, at, first + size, NULL, &walk)
        if p != NULL and end[0] < 0 and p != first + size:
            refuse(&walk, TRAILING, p, 0)
        elif p != NULL:
            end[0] = p - first
            if walk.cost <= budget:
                return build_struct(&self.shape, &at)
            return open_struct(self.source(frame, first + size), &self.shape, &at, &budget)
        self.refusal(&walk, walk.at - first, first + size - walk.at)

    cdef Source source(self, bytes frame, const uint8_t *end):
        cdef Source source = Source.__new__(Source)
        source.frame = frame
        source.program = self
        source.end = end
        return source

    cdef int refusal(self, Walk *walk, Py_ssize_t at, Py_ssize_t left) except -1:
        message = (<object>self.shape.type).__name__
        text = _TEXTS[walk.problem].format(wanted=walk.wanted, left=left)
        where = ""
        if walk.shape != NULL:
            where = f" in {(<object>walk.shape.type).__name__}"
            if walk.field != NULL:
                where += f".{<object>walk.field.name}"
        raise ProtocolError(f"{message} version {self.shape.version} is malformed{where} at byte {at}: {text}")

    def encode(self, message, bytes prefix=b""):
        """`prefix` and the message after it."""
        cdef Out out
        out.start = <uint8_t *>PyMem_Malloc(256)
        if out.start == NULL:
            raise MemoryError
        out.p = out.start
        out.end = out.start + 256
        try:
            put_bytes(&out, PyBytes_AS_STRING(prefix), PyBytes_GET_SIZE(prefix))
            put_struct(&out, &self.shape, message, NULL, NULL)
            return PyBytes_FromStringAndSize(<char *>out.start, out.p - out.start)
        finally:
            PyMem_Free(out.start)

    def __repr__(self):
        return f"<Program of {(<object>self.shape.type).__name__} version {self.shape.version}>"


cdef int fill_field(Field *field, tuple row) except -1:
    slot, name, kind, array, struct, nullable, compact, tag, present, ignorable, default = row
    field.slot = slot
    field.name = <PyObject *>name
    field.default = <PyObject *>default
    field.kind = _KINDS[kind]
    field.array = array
    field.nullable = nullable
    field.compact = compact
    field.tag = tag
    field.ignorable = ignorable
    field.smallest = 1
    if field.kind == STRUCT and struct is not None:
        field.shape = &(<Program?>struct).shape
        field.fixed = field.shape.fixed
        field.cost = field.shape.cost
        field.smallest = max(1, field.shape.smallest)
    elif field.kind == STRING or field.kind == BYTES:
        if not compact:
            field.smallest = 2 if field.kind == STRING else 4
    elif field.kind != STRUCT:
        field.fixed = _SIZES[field.kind]
        field.smallest = field.fixed
        field.cost = 0 if field.kind == BOOL else BYTES_COST + 16 if field.kind == UUID else INT_COST
    return 0


cdef inline bint is_fixed(Field *field) noexcept:
    return field.fixed > 0 and not field.array and not (field.kind == STRUCT and field.nullable)


cdef inline Py_ssize_t smallest_field(Field *field) noexcept:
    if field.array:
        return 1 if field.compact else 4
    if field.kind == STRUCT:
        return 1 if field.nullable else field.shape.smallest
    return field.smallest

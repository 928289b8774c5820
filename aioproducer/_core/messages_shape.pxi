# The parts of a program, and the C declarations that the other parts use.
# Part of messages.pyx, and its first. Uses messages.h.

cdef extern from "messages.h":
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


cdef enum Kind:
    BOOL, INT8, INT16, UINT16, INT32, UINT32, INT64, FLOAT64, UUID, STRING, BYTES, STRUCT

_KINDS = {
    "bool": BOOL, "int8": INT8, "int16": INT16, "uint16": UINT16, "int32": INT32, "uint32": UINT32,
    "int64": INT64, "float64": FLOAT64, "uuid": UUID, "string": STRING, "bytes": BYTES, "records": BYTES,
    "struct": STRUCT,
}
_SIZES = {BOOL: 1, INT8: 1, INT16: 2, UINT16: 2, INT32: 4, UINT32: 4, INT64: 8, FLOAT64: 8, UUID: 16}

# The largest size of objects in bytes, on every supported CPython.
cdef enum Cost:
    TUPLE_COST = 48
    LIST_COST = 64
    SLOT_COST = 8
    INT_COST = 36
    BYTES_COST = 40
    ASCII_COST = 56
    TEXT_COST = 80
    VIEW_COST = 112

cdef enum:
    # Kafka's own strings are never longer, in flexible versions either (its generated code refuses them).
    STRING_LIMIT = 0x7fff
    MOST_SLOTS = 32

cdef enum Problem:
    SHORT, NULL_VALUE, NEGATIVE, TOO_LONG, TOO_MANY, BAD_VARINT, BAD_TEXT
    TAG_ORDER, TAG_COUNT, TAG_SIZE, TRAILING

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

# The part of four times the frame and 64 KiB that is reserved for objects that are not counted individually.
cdef Py_ssize_t SPARE = 8 * 1024
cdef Py_ssize_t ALLOWANCE = 64 * 1024

# From this size on a frame is walked without the GIL: giving it up costs more than walking a smaller one.
cdef Py_ssize_t LARGE = 64 * 1024

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
    Py_ssize_t run          # bytes of the fixed fields that begin here, 0 inside such a run and elsewhere
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

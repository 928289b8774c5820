# cython: language_level=3, binding=True, boundscheck=False, wraparound=False, initializedcheck=False
# cython: auto_pickle=False, autotestdict=False, embedsignature=False
"""The interpreter that converts Kafka's messages to bytes and back, following their declarations.

A `Program` is one struct in one version. Decoding has two steps that never mix:

* *walk* checks everything (lengths, counts, nulls, UTF-8, tags) and creates nothing. It also adds up the cost of
  the objects, so that the memory is known before it is used.
* *build* makes the objects from bytes that have been walked, and therefore cannot fail on them.

Arrays become lists as long as the whole message stays within four times its frame and 64 KiB. An array
beyond that becomes an `ArrayView`, which makes its elements on access: an element of a few bytes costs a
hundred as a Python object, and a peer that sends 16 MiB must not be able to make them 1 GiB. A frame that is
not `bytes` is copied first; the copy counts.
"""

cimport cython
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_CheckBuffer, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.float cimport PyFloat_AsDouble, PyFloat_FromDouble
from cpython.list cimport PyList_New, PyList_SET_ITEM
from cpython.long cimport PyLong_AsLongLongAndOverflow, PyLong_Check
from cpython.long cimport PyLong_FromLongLong, PyLong_FromUnsignedLong
from cpython.mem cimport PyMem_Calloc, PyMem_Free, PyMem_Malloc, PyMem_Realloc
from cpython.object cimport Py_EQ, PyObject, PyObject_RichCompareBool, PyTypeObject
from cpython.ref cimport Py_INCREF
from cpython.sequence cimport PySequence_Check, PySequence_Fast
from cpython.sequence cimport PySequence_Fast_GET_ITEM, PySequence_Fast_GET_SIZE
from cpython.tuple cimport PyTuple_GET_ITEM, PyTuple_GET_SIZE
from libc.stdint cimport INT64_MAX, INT64_MIN, int8_t, int16_t, int32_t, int64_t
from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcpy, memmove

from collections.abc import Sequence

from aioproducer.errors import ProtocolError

cdef extern from "platform.h":
    pass

include "messages_shape.pxi"
include "messages_walk.pxi"
include "messages_build.pxi"
include "messages_view.pxi"
include "messages_write.pxi"


@cython.final
cdef class Program:
    """One struct in one version, ready to be written and read.

    `fields` holds one tuple for each field of the NamedTuple, in its order:
    `(name, kind, array, struct, nullable, compact, tag, present, ignorable, default)`, where `kind` is
    Kafka's name of the type or "struct", and `struct` the program of a struct.
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

    def decode_prefix(self, buffer, Py_ssize_t start=0):
        """The message that begins at `start`, and where it ends; what follows it is not looked at."""
        cdef Py_ssize_t end = 0
        message = self.read(buffer, start, &end)
        return message, end

    cdef object read(self, object buffer, Py_ssize_t start, Py_ssize_t *end):
        # Bytes that change between walk and build would be read beyond their end.
        cdef bytes frame = buffer if type(buffer) is bytes else memoryview(buffer).tobytes()
        cdef Py_ssize_t size = PyBytes_GET_SIZE(frame)
        cdef const uint8_t *first = <const uint8_t *>PyBytes_AS_STRING(frame)
        cdef const uint8_t *p
        cdef const uint8_t *at = first + start
        cdef Py_ssize_t budget = ALLOWANCE - SPARE + 4 * (size - start)
        cdef Mark marks[MOST_SLOTS]
        cdef Walk walk
        if not 0 <= start <= size:
            raise ValueError(f"start must be from 0 to {size}, not {start}")
        if frame is not buffer:
            budget -= size
        walk.cost = 0
        walk.shape = NULL
        if size < LARGE:
            p = walk_struct(&self.shape, at, first + size, marks, &walk)
        else:
            # Other threads need not wait: a large frame may be decoded beside the event loop.
            with nogil:
                p = walk_struct(&self.shape, at, first + size, marks, &walk)
        if p != NULL and end[0] < 0 and p != first + size:
            refuse(&walk, TRAILING, p, 0)
        elif p != NULL:
            end[0] = p - first
            if walk.cost <= budget:
                return build_struct(&self.shape, &at)
            return open_walked(self.source(frame, first + size), &self.shape, &at, marks, &budget)
        self.refusal(&walk, walk.at - first, first + size - walk.at)

    cdef _Source source(self, bytes frame, const uint8_t *end):
        cdef _Source source = _Source.__new__(_Source)
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
        what = f"{message} version {self.shape.version}"
        raise ProtocolError(f"{what} is malformed{where} at byte {at}: {text}")

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

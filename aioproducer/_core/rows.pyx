# cython: language_level=3, binding=False, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
# cython: auto_pickle=False, autotestdict=False, embedsignature=False
"""Rows of Arrow arrays as JSON, Avro or Protobuf: the bytes of each row, made without an object for a row or an item."""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.limits cimport LLONG_MAX, LLONG_MIN
from libc.stdlib cimport calloc, free, realloc
from libc.string cimport memcpy, memmove

cdef extern from "platform.h":
    pass

include "rows_node.pxi"
include "rows_output.pxi"
include "rows_json.pxi"
include "rows_binary.pxi"

KINDS = {
    "constant": CONSTANT,
    "json text": JSON_TEXT,
    "json float": JSON_FLOAT,
    "json string": JSON_STRING,
    "json base64": JSON_BASE64,
    "json integer": JSON_INTEGER,
    "json boolean": JSON_BOOLEAN,
    "json date": JSON_DATE,
    "json timestamp": JSON_TIMESTAMP,
    "json object": JSON_OBJECT,
    "json array": JSON_ARRAY,
    "json map": JSON_MAP,
    "zigzag": ZIGZAG,
    "varint": VARINT,
    "number": NUMBER,
    "boolean": BOOLEAN,
    "avro bytes": AVRO_BYTES,
    "avro string": AVRO_STRING,
    "avro decimal": AVRO_DECIMAL,
    "avro array": AVRO_ARRAY,
    "avro map": AVRO_MAP,
    "fixed decimal": FIXED_DECIMAL,
    "fixed bytes": FIXED_BYTES,
    "record": RECORD,
    "sized bytes": SIZED_BYTES,
    "sized string": SIZED_STRING,
    "message": MESSAGE,
    "repeated": REPEATED,
    "packed": PACKED,
    "entries": ENTRIES,
}

REASONS = {
    IS_NULL: "is null",
    OUT_OF_RANGE: "is out of range",
    NOT_UTF_8: "has bytes that are not UTF-8",
    WRONG_SIZE: "has another size",
}


cdef class RowEncoder:
    """The arrays of some rows, described as a tree of nodes; a node is added after its children.

    `add()` checks the structure of an array (the sizes of its buffers, its offsets), so that no array causes a read
    outside of its buffers. The buffers must not change.
    """

    cdef Node *_nodes
    cdef int _count
    cdef int _room
    cdef int _users
    cdef list _held

    def __cinit__(self):
        self._held = []

    def __dealloc__(self):
        cdef int at
        for at in range(self._count):
            release(&self._nodes[at])
        free(self._nodes)

    def add(
        self, int kind, *, Py_ssize_t length=0, Py_ssize_t first=0, int width=0, validity=None, offsets=None, data=None,
        tuple children=(), bytes before not None=b"", bytes absent=None, bint quoted=False, bint lenient=False,
        bytes mark not None=b"",
        long long low=LLONG_MIN, long long high=LLONG_MAX, long long divisor=1, long long modulus=0, long long factor=1,
        Py_ssize_t size=0,
    ):
        """Add an array of `length` items from `first` on; the number of its node.

        `width`: the bytes of a number, or of an offset. `before` is written before an item, and `absent` in place of a
        null; without `absent` a null is an error. `mark`: the zone behind a timestamp, or the tag of an entry. Numbers
        are divided (rounded down), reduced to the remainder of `modulus` and multiplied, and must then be from `low` to
        `high`. `size`: of fixed bytes. `lenient`: text that is not UTF-8 is written with escapes, and a date or moment
        without a form as its number.
        """
        cdef Node *node
        if self._users:
            raise RuntimeError("no node is added while rows are encoded")
        if not (0 <= length <= MOST_ITEMS and 0 <= first <= MOST_ITEMS and 0 <= size <= MOST_ITEMS):
            raise ValueError(f"an Arrow array of {length} items from {first} on")
        if divisor < 1 or modulus < 0 or factor < 1:
            raise ValueError("a divisor, modulus or factor that cannot be")
        node = self._next()
        node.kind, node.length, node.first, node.width = kind, length, first, width
        node.quoted, node.lenient, node.low, node.high = quoted, lenient, low, high
        node.divisor, node.modulus, node.factor, node.size = divisor, modulus, factor, size
        self._held.append((before, absent, mark))
        node.before, node.before_size = PyBytes_AS_STRING(before), PyBytes_GET_SIZE(before)
        node.mark, node.mark_size = PyBytes_AS_STRING(mark), PyBytes_GET_SIZE(mark)
        if absent is not None:
            node.absent, node.absent_size = PyBytes_AS_STRING(absent), PyBytes_GET_SIZE(absent)
        try:
            take(validity, &node.validity)
            take(offsets, &node.offsets)
            take(data, &node.data)
            self._take_children(node, children)
            check(node, self._nodes)
        except BaseException:
            release(node)
            raise
        self._count += 1
        return self._count - 1

    cdef Node *_next(self) except NULL:
        cdef Node *grown
        if self._count == self._room:
            grown = <Node *>realloc(self._nodes, (self._room * 2 + 16) * sizeof(Node))
            if grown == NULL:
                raise MemoryError()
            self._nodes, self._room = grown, self._room * 2 + 16
        clear(&self._nodes[self._count])
        return &self._nodes[self._count]

    cdef int _take_children(self, Node *node, tuple children) except -1:
        cdef int at, number
        node.children = <int *>calloc(len(children) + 1, sizeof(int))
        if node.children == NULL:
            raise MemoryError()
        for at in range(len(children)):
            number = children[at]
            if not 0 <= number < self._count:
                raise ValueError("the children of a node are added before it")
            node.children[at] = number
        node.count = len(children)
        return 0

    def encode(self, int root, Py_ssize_t rows, bytes prefix not None):
        """Encode the first `rows` items of a node: the offsets as 64-bit integers, the data, and the rows that do not fit.

        A row begins with `prefix`. One that is null at the root is empty. One that does not fit is empty, too, and is
        told as (row, node, reason).
        """
        cdef Output out
        cdef Py_ssize_t at = 0, start
        cdef bytes offsets
        cdef long long *places
        cdef const char *head = PyBytes_AS_STRING(prefix)
        cdef Py_ssize_t head_size = PyBytes_GET_SIZE(prefix)
        cdef int why = 0
        if not 0 <= root < self._count or not 0 <= rows <= self._nodes[root].length:
            raise ValueError("no such node, or not so many rows")
        offsets = PyBytes_FromStringAndSize(NULL, (rows + 1) * sizeof(long long))
        places = <long long *>PyBytes_AS_STRING(offsets)
        places[0] = 0
        unfit = []
        open_output(&out, self._nodes)
        self._users += 1
        try:
            while at < rows:
                with nogil:
                    while at < rows and not why:
                        start = out.size
                        why = write_root(&out, root, at, head, head_size)
                        if why:
                            out.size = start
                        at += 1
                        places[at] = out.size
                if why == NO_MEMORY:
                    raise MemoryError()
                if why:
                    unfit.append((at - 1, out.failed, why))
                    why = 0
            return offsets, PyBytes_FromStringAndSize(<char *>out.data, out.size), unfit
        finally:
            self._users -= 1
            free(out.data)

# cython: language_level=3, boundscheck=False, wraparound=False, nonecheck=True
# cython: auto_pickle=False, autotestdict=False, binding=True, embedsignature=False
"""The ordinary way of a batch: it is opened, becomes ready, is drained and is acknowledged, without a fault.

Each class is the base of a state machine in `_state`, which decides everything else: where a batch is not on its ordinary
way, these steps call a method of the state machine.
"""

cimport cython
from cpython.dict cimport PyDict_GetItemWithError
from cpython.object cimport PyObject
from cpython.ref cimport Py_INCREF
from libc.math cimport INFINITY

from aioproducer._core.accept cimport Budget, MemoryShare, Partition, Topic
from aioproducer._core.distribution cimport Distribution
from aioproducer._core.records cimport HEADER, Batch, BatchSettings, owner_of

from collections import deque

cdef extern from "platform.h":
    pass

cdef object _append = deque.append
cdef object _popleft = deque.popleft

cdef extern from "tuples.h":
    object aioproducer_new_tuple(object type, Py_ssize_t size)

cdef extern from "Python.h":
    void PyTuple_SET_ITEM(object made, Py_ssize_t at, object item)

cdef object triple(object named, object first, object second, object third):
    # A named tuple of three fields; calling its type takes four times as long.
    cdef object made = aioproducer_new_tuple(named, 3)
    Py_INCREF(first)
    PyTuple_SET_ITEM(made, 0, first)
    Py_INCREF(second)
    PyTuple_SET_ITEM(made, 1, second)
    Py_INCREF(third)
    PyTuple_SET_ITEM(made, 2, third)
    return made

cdef enum:
    NO_LEADER = -1

cdef long long SEQUENCE_MODULUS = 2147483648


include "ordinary_states.pxi"
include "ordinary_flushing.pxi"
include "ordinary_counts.pxi"
include "ordinary_sequences.pxi"
include "ordinary_opening.pxi"
include "ordinary_draining.pxi"
include "ordinary_requests.pxi"
include "ordinary_settling.pxi"

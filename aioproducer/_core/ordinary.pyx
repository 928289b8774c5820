# cython: language_level=3, boundscheck=False, wraparound=False, nonecheck=True
# cython: auto_pickle=False, autotestdict=False, binding=True, embedsignature=False
"""The ordinary way of a batch: it is opened, becomes ready, is drained and is acknowledged, without a fault.

Each class is the base of a state machine in `_state`, which decides everything else: where a batch is not on its ordinary
way, these steps call a method of the state machine.
"""

cimport cython
from cpython.dict cimport PyDict_GetItemWithError
from cpython.object cimport PyObject
from libc.math cimport INFINITY

from aioproducer._core.accept cimport Budget, MemoryShare, Partition, Topic
from aioproducer._core.distribution cimport Distribution
from aioproducer._core.records cimport HEADER, Batch, BatchSettings, owner_of

from collections import OrderedDict, deque

cdef extern from "platform.h":
    pass

cdef object _append = deque.append
cdef object _popleft = deque.popleft
cdef object _made = tuple.__new__
# Pops from the order as well, unlike the method of `dict`.
cdef object _pop_in_order = OrderedDict.pop

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

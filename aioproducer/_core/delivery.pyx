# cython: language_level=3, boundscheck=False, wraparound=False
# cython: auto_pickle=False, autotestdict=False, binding=True
"""What a caller holds: the delivery of one record, of many records, and the awaitable that `send()` returns."""

cimport cython
from collections.abc import Coroutine

from cpython cimport array
from cpython.mem cimport PyMem_Calloc, PyMem_Free
from cpython.object cimport PyObject, PyTypeObject
from cpython.ref cimport Py_DECREF, Py_INCREF
from cpython.tuple cimport PyTuple_SET_ITEM

from aioproducer._core.records cimport Batch

from aioproducer.outcome import Outcome
from aioproducer.records import BatchResult, RecordMetadata, TimestampType, Timings

cdef extern from "Python.h":
    void PyErr_SetObject(PyObject *type, PyObject *value) noexcept
    PyObject *PyObject_CallOneArg(PyObject *function, PyObject *argument) noexcept
    int PyErr_WarnEx(object category, const char *message, Py_ssize_t stack_level) except -1
    ctypedef PyObject *(*iternextfunc)(PyObject *) noexcept

cdef extern from *:
    """
    static inline PyObject *aioproducer_new_tuple(PyObject *type, Py_ssize_t size) {
        return ((PyTypeObject *)type)->tp_alloc((PyTypeObject *)type, size);
    }
    static inline iternextfunc aioproducer_get_iternext(PyObject *type) {
        return ((PyTypeObject *)type)->tp_iternext;
    }
    static inline void aioproducer_set_iternext(PyObject *type, iternextfunc function) {
        ((PyTypeObject *)type)->tp_iternext = function;
    }
    """
    PyObject *aioproducer_new_tuple(object type, Py_ssize_t size) except NULL
    iternextfunc aioproducer_get_iternext(object type) noexcept
    void aioproducer_set_iternext(object type, iternextfunc function) noexcept

cdef enum:
    PENDING = 0
    ACKED = 1

# Flags of a delivery.
cdef enum:
    SEEN = 1        # somebody looked at the outcome
    CANCELLED = 2   # the handle was cancelled, as a future is; the record goes on

# Flags of a sending.
cdef enum:
    STARTED = 1     # awaited at least once
    MUST_YIELD = 2  # let the loop run once before answering
    METADATA = 4    # answers with the metadata, not with the delivery

OUTCOMES = (Outcome.PENDING, Outcome.ACKED, Outcome.NOT_WRITTEN, Outcome.UNKNOWN)
cdef tuple _outcomes = OUTCOMES
cdef object _metadata_type = RecordMetadata
cdef object _create_time = TimestampType.CREATE_TIME
cdef object _append_time = TimestampType.LOG_APPEND_TIME
cdef PyObject *_stop_iteration = <PyObject *>StopIteration


cdef inline void set_item(PyObject *target, Py_ssize_t at, object value):
    Py_INCREF(value)
    PyTuple_SET_ITEM(<object>target, at, value)


def _cancelled_error():
    # asyncio is not imported by the core; whoever calls this runs on it.
    from asyncio import CancelledError

    return CancelledError()


def _invalid_state(text):
    from asyncio import InvalidStateError

    return InvalidStateError(text)


@cython.final
@cython.no_gc
@cython.freelist(512)
cdef class Delivery:
    """The fate of one accepted record. Await it for its `RecordMetadata`, or for the `DeliveryError` it ended with.

    It speaks the protocol of asyncio's futures. Cancelling whoever waits for it never cancels the record.
    Not tracked by the garbage collector: what refers back to it lives in its batch and is cleared at settlement.
    """

    _asyncio_future_blocking = False
    # Read by gather() of 3.11 when a child is cancelled.
    _cancel_message = None

    def __dealloc__(self):
        cdef Batch batch = self._batch
        if batch is None:
            return
        self.locate()
        batch = self._batch
        batch.held -= 1
        if batch.outcome_of(self._index) > ACKED and not self._flags & SEEN:
            batch.note_unseen(1)

    def __init__(self):
        raise TypeError("deliveries are made by send()")

    cdef int locate(self) except -1:
        # A split or re-encoded batch forwards its records: follow, and remember.
        cdef Batch batch = self._batch
        cdef Batch target
        while batch._forward is not None:
            place = batch._forward[self._index]
            if place is None:
                break
            target = <Batch?>place[0]
            batch.held -= 1
            target.held += 1
            self._batch = batch = target
            self._index = place[1]
        return 0

    cdef int outcome_now(self) except -1:
        self.locate()
        return self._batch.outcome_of(self._index)

    cdef object metadata(self):
        # RecordMetadata is a plain tuple type: filled in place, its own __new__ would cost more than all the rest.
        cdef Batch batch = self._batch
        cdef PyObject *made = aioproducer_new_tuple(_metadata_type, 7)
        cdef bint by_broker = batch.log_append_time >= 0
        set_item(made, 0, batch.topic)
        set_item(made, 1, batch.partition)
        set_item(made, 2, batch.base_offset + self._index if batch.base_offset >= 0 else -1)
        set_item(made, 3, batch.log_append_time if by_broker else self._timestamp)
        set_item(made, 4, _append_time if by_broker else _create_time)
        set_item(made, 5, self._key_size)
        set_item(made, 6, self._value_size)
        metadata = <object>made
        Py_DECREF(metadata)
        return metadata

    cdef object take_result(self):
        cdef int outcome = self.outcome_now()
        cdef Batch batch = self._batch
        if outcome == ACKED:
            return self.metadata()
        self._flags |= SEEN
        raise batch.error_of(self._index).with_traceback(None)

    def __await__(self):
        if self.outcome_now() == ACKED:
            return answer(self.metadata())
        return self._waited()

    def _waited(self):
        if self.outcome_now() == PENDING:
            future = self._batch.loop.create_future()
            self._batch.add_waiter(self._index, future)
            try:
                yield from future
            except BaseException:
                self.locate()
                self._batch.remove_waiters(self._index, lambda waiter: waiter is future)
                raise
        return self.take_result()

    async def wait(self, timeout=None):
        """Return the outcome after at most ``timeout`` seconds (None: as long as it takes); cancels nothing."""
        if self.outcome_now() == PENDING and (timeout is None or timeout > 0):
            loop = self._batch.loop
            future = loop.create_future()
            self._batch.add_waiter(self._index, future)
            timer = None if timeout is None else loop.call_later(timeout, _resolve, future)
            try:
                await future
            finally:
                if timer is not None:
                    timer.cancel()
                self.locate()
                self._batch.remove_waiters(self._index, lambda waiter: waiter is future)
        return self.outcome

    # -- asyncio's future protocol

    def done(self):
        """True when the outcome is known, or the handle was cancelled."""
        return self.outcome_now() != PENDING or bool(self._flags & CANCELLED)

    def cancelled(self):
        """True while the handle is cancelled and the outcome is not known."""
        return bool(self._flags & CANCELLED) and self.outcome_now() == PENDING

    def result(self):
        """The metadata of the written record; raises its error, or what a future raises when it is not done."""
        if self.outcome_now() != PENDING:
            return self.take_result()
        raise self._not_done()

    def exception(self):
        """The error of a record that failed, None when it was written."""
        cdef int outcome = self.outcome_now()
        if outcome == PENDING:
            raise self._not_done()
        self._flags |= SEEN
        return None if outcome == ACKED else self._batch.error_of(self._index)

    def _not_done(self):
        if self._flags & CANCELLED:
            return _cancelled_error()
        return _invalid_state("the outcome of this record is not known yet")

    def _make_cancelled_error(self):
        # gather() asks a cancelled child for its error by this name.
        return _cancelled_error()

    def cancel(self, msg=None):
        """Cancel this handle, for those who wait for it as for a future. The record is never touched."""
        if self.outcome_now() != PENDING or self._flags & CANCELLED:
            return False
        self._flags |= CANCELLED
        loop = self._batch.loop
        mine = self._batch.remove_waiters(self._index, lambda waiter: _calls_for(waiter, self))
        for _, callback, context in mine:
            loop.call_soon(callback, self, context=context)
        return True

    def add_done_callback(self, callback, *, context=None):
        """Call ``callback(delivery)`` soon after the outcome is known."""
        if self.done():
            self._flags |= SEEN
            self._batch.loop.call_soon(callback, self, context=context)
        else:
            if context is None:
                from contextvars import copy_context

                context = copy_context()
            self._batch.add_waiter(self._index, (self, callback, context))

    def remove_done_callback(self, callback):
        """Remove every such callback of this handle; returns how many there were."""
        self.locate()
        gone = self._batch.remove_waiters(self._index, lambda waiter: _calls_for(waiter, self) and waiter[1] == callback)
        return len(gone)

    def get_loop(self):
        """The event loop of the producer."""
        return self._batch.loop

    # -- what Kafka knows

    @property
    def outcome(self):
        """`Outcome.PENDING`, `ACKED`, `NOT_WRITTEN` or `UNKNOWN`."""
        cdef int outcome = self.outcome_now()
        if outcome != PENDING:
            self._flags |= SEEN
        return _outcomes[outcome]

    @property
    def topic(self):
        """The topic the record was sent to."""
        self.locate()
        return self._batch.topic

    @property
    def partition(self):
        """The partition of the record, None until it is chosen."""
        self.locate()
        return None if self._batch.partition < 0 else self._batch.partition

    @property
    def timings(self):
        """When the record's batch was opened, drained, written and answered, in the loop's seconds."""
        self.locate()
        return Timings(
            _known(self._batch.opened_at), _known(self._batch.drained_at),
            _known(self._batch.written_at), _known(self._batch.answered_at),
        )

    def try_cancel(self):
        """Withdraw the record if its batch has not been drained yet, and say whether that was done."""
        if self.outcome_now() != PENDING or self._batch.owner is None:
            return False
        return self._batch.owner.withdraw(self._batch, self._index)

    def __repr__(self):
        self.locate()
        return f"<Delivery {self._batch.topic}-{self._batch.partition} {_outcomes[self.outcome_now()].name}>"


@cython.final
@cython.freelist(64)
cdef class Answer:
    """What awaiting a settled delivery goes through: one step, without a frame."""

    cdef object value

    def __iter__(self):
        return self

    def __next__(self):
        raise StopIteration(self.value)


cdef PyObject *_answer_next(PyObject *op) noexcept:
    # A tuple as the value must be wrapped, or it would be taken for the arguments of StopIteration.
    cdef PyObject *stop = PyObject_CallOneArg(_stop_iteration, <PyObject *>(<Answer>op).value)
    if stop != NULL:
        PyErr_SetObject(_stop_iteration, stop)
        Py_DECREF(<object>stop)
    return NULL


aioproducer_set_iternext(Answer, _answer_next)


cdef Answer answer(object value):
    cdef Answer made = Answer.__new__(Answer)
    made.value = value
    return made


cdef _known(double moment):
    return moment if moment == moment else None


def _calls_for(waiter, delivery):
    return type(waiter) is tuple and waiter[0] is delivery


def _resolve(future):
    if not future.done():
        future.set_result(None)


cdef Delivery new_delivery(Batch batch, int index, Py_ssize_t key_size, Py_ssize_t value_size, long long timestamp):
    cdef Delivery delivery = Delivery.__new__(Delivery)
    delivery._batch = batch
    delivery._index = index
    delivery._key_size = <int>key_size
    delivery._value_size = <int>value_size
    delivery._timestamp = timestamp
    batch.held += 1
    return delivery


def queued_delivery(Batch batch not None):
    """The delivery of a record that waits for its place; ``batch`` stands in until `settle_into` moves it."""
    return new_delivery(batch, 0, -1, -1, -1)


def observe(Delivery delivery not None, callback):
    """Call ``callback(delivery)`` when the outcome is known, without making the batch any more urgent."""
    cdef Batch batch
    delivery.locate()
    batch = delivery._batch
    delivery._flags |= SEEN
    if delivery.outcome_now() != PENDING:
        batch.loop.call_soon(callback, delivery)
        return
    batch.add_observer(delivery._index, (delivery, callback, None))


def settle_into(Delivery waiting not None, Delivery placed not None):
    """The queued record has its place: whoever held ``waiting`` now holds the same as ``placed``."""
    cdef Batch stand_in = waiting._batch
    waiting._key_size = placed._key_size
    waiting._value_size = placed._value_size
    waiting._timestamp = placed._timestamp
    stand_in.forward([(placed._batch, placed._index)])
    waiting.locate()


include "delivery_sending.pxi"
include "delivery_many.pxi"

# cython: language_level=3, boundscheck=False, wraparound=False
# cython: auto_pickle=False, autotestdict=False, binding=True
"""The results of sends: the delivery of one record, of many records, and the awaitable that `send()` returns."""

cimport cython
from collections.abc import Coroutine
from copy import copy as _copy
from inspect import CO_COROUTINE as _CO_COROUTINE, iscoroutinefunction
from types import FunctionType

from cpython cimport array
from cpython.mem cimport PyMem_Calloc, PyMem_Free, PyMem_Realloc
from cpython.object cimport PyObject, PyTypeObject
from cpython.ref cimport Py_DECREF, Py_INCREF
from cpython.tuple cimport PyTuple_SET_ITEM

from aioproducer._core.records cimport ACKED, PENDING, Batch, BatchObserver, failure_was_read, wake

from aioproducer.outcome import Outcome

from aioproducer._core.records import OUTCOMES as _OUTCOMES
from aioproducer.errors import ConfigurationError, KafkaError, StateError
from aioproducer.records import BatchResult, RecordMetadata, Resolution, TimestampType, Timings

cdef extern from "platform.h":
    pass

cdef extern from "Python.h":
    # One step of an awaited iterator: PYGEN_NEXT with the object to wait for, PYGEN_RETURN with the answer, or
    # PYGEN_ERROR.
    int PyIter_Send(PyObject *iterator, PyObject *argument, PyObject **result) noexcept
    int PyErr_WarnEx(object category, const char *message, Py_ssize_t stack_level) except -1

cdef extern from "tuples.h":
    object aioproducer_new_tuple(object type, Py_ssize_t size)

cdef extern from *:
    """
    /* From Python 3.12 on an exception is always an object, and making one costs as much as the rest of a send. So one
       is kept and reused, unless other code holds a reference to it, or changed it: then it belongs to that code. */
    #if PY_VERSION_HEX >= 0x030C0000
    static PyStopIterationObject *aioproducer_spare = NULL;

    static int aioproducer_stop_by_spare(PyObject *answer) {
        PyStopIterationObject *spare = aioproducer_spare;
        if (spare == NULL || Py_REFCNT(spare) != 1 || spare->traceback || spare->context || spare->cause
                || spare->notes || spare->dict) {
            Py_XSETREF(aioproducer_spare, (PyStopIterationObject *)PyObject_CallNoArgs(PyExc_StopIteration));
            spare = aioproducer_spare;
            if (spare == NULL) {
                PyErr_Clear();
                return 0;
            }
        }
        Py_XSETREF(spare->value, Py_NewRef(answer));
        PyErr_SetRaisedException(Py_NewRef((PyObject *)spare));
        return 1;
    }

    /* The answer was taken: drop the spare's reference to it. */
    static void aioproducer_let_go(void) {
        if (aioproducer_spare != NULL && Py_REFCNT(aioproducer_spare) == 1)
            Py_CLEAR(aioproducer_spare->value);
    }
    #else
    #define aioproducer_stop_by_spare(answer) 0
    #define aioproducer_let_go()
    #endif

    /* The answer as the StopIteration that ends an iterator. A tuple would be taken for its arguments. */
    static void aioproducer_stop(PyObject *answer) {
        PyObject *stop;
        if (aioproducer_stop_by_spare(answer))
            return;
        if (!PyTuple_Check(answer) && !PyExceptionInstance_Check(answer)) {
            PyErr_SetObject(PyExc_StopIteration, answer);
            return;
        }
        stop = PyObject_CallOneArg(PyExc_StopIteration, answer);
        if (stop != NULL) {
            PyErr_SetObject(PyExc_StopIteration, stop);
            Py_DECREF(stop);
        }
    }

    static PyObject *aioproducer_next(PyObject *self) {
        PyObject *result = NULL;
        PySendResult status = Py_TYPE(self)->tp_as_async->am_send(self, Py_None, &result);
        if (status == PYGEN_RETURN) {
            aioproducer_stop(result);
            Py_CLEAR(result);
        }
        return result;
    }

    typedef int (*aioproducer_step)(PyObject *self, PyObject *argument, PyObject **result);

    /* Where Python supports it, `am_send` returns the answer directly; otherwise the answer is a StopIteration. */
    static void aioproducer_goes_by(PyObject *type, aioproducer_step step) {
        ((PyTypeObject *)type)->tp_as_async->am_send = (sendfunc)step;
        ((PyTypeObject *)type)->tp_iternext = aioproducer_next;
    #ifdef Py_TPFLAGS_HAVE_AM_SEND
        ((PyTypeObject *)type)->tp_flags |= Py_TPFLAGS_HAVE_AM_SEND;
    #endif
    }
    """
    ctypedef int (*step_function "aioproducer_step")(PyObject *, PyObject *, PyObject **) except -1
    void aioproducer_goes_by(object type, step_function step) noexcept
    void aioproducer_let_go() noexcept

# Of PyIter_Send.
cdef enum:
    ANSWER = 0
    STEP = 1

# Flags of a delivery.
cdef enum:
    SEEN = 1        # the outcome was read
    CANCELLED = 2   # the handle was cancelled, like a future; the record goes on

cdef tuple _outcomes = _OUTCOMES
cdef object _metadata_type = RecordMetadata
cdef double _infinity = float("inf")
cdef object _create_time = TimestampType.CREATE_TIME
cdef object _append_time = TimestampType.LOG_APPEND_TIME


cdef inline void set_item(object target, Py_ssize_t at, object value) noexcept:
    Py_INCREF(value)
    PyTuple_SET_ITEM(target, at, value)


def _cancelled_error():
    # The core does not import asyncio; every caller of this runs on it.
    from asyncio import CancelledError

    return CancelledError()


def _invalid_state(text):
    from asyncio import InvalidStateError

    return InvalidStateError(text)


# Functions and not methods: a table of methods would cost each delivery eight bytes more.

cdef int locate(Delivery delivery) except -1:
    # A split or re-encoded batch forwards its records: follow, and keep the result.
    cdef Batch batch = delivery._batch
    cdef Batch target
    if batch is None:
        raise TypeError("deliveries are made by send()")
    while batch._forward is not None:
        place = batch._forward[delivery._index]
        if place is None:
            break
        target = <Batch?>place[0]
        batch.held -= 1
        target.held += 1
        delivery._batch = batch = target
        delivery._index = place[1]
    return 0


cdef inline int outcome_now(Delivery delivery) except -1:
    locate(delivery)
    return delivery._batch.outcome_of(delivery._index)


cdef object metadata_of(Delivery delivery):
    # RecordMetadata is a plain tuple type, filled in place: its own __new__ would cost more than the other steps
    # together.
    cdef Batch batch = delivery._batch
    made = aioproducer_new_tuple(_metadata_type, 7)
    cdef bint by_broker = batch.log_append_time >= 0
    set_item(made, 0, batch.topic)
    set_item(made, 1, batch.partition)
    set_item(made, 2, batch.base_offset + delivery._index if batch.base_offset >= 0 else -1)
    set_item(made, 3, batch.log_append_time if by_broker else delivery._timestamp)
    set_item(made, 4, _append_time if by_broker else _create_time)
    set_item(made, 5, delivery._key_size)
    set_item(made, 6, delivery._value_size)
    return made


cdef object own_error(Batch batch, int index):
    # The batch's own error is never returned: once raised, its traceback would hold the frame that holds the delivery,
    # which holds the batch, and the garbage collector does not see deliveries.
    return _copy(batch.error_of(index))


cdef object take_result(Delivery delivery):
    cdef int outcome = outcome_now(delivery)
    cdef Batch batch = delivery._batch
    if outcome == ACKED:
        return metadata_of(delivery)
    delivery._flags |= SEEN
    failure_was_read(batch)
    raise own_error(batch, delivery._index)


@cython.final
@cython.no_gc
@cython.freelist(512)
cdef class Delivery:
    """The outcome of one accepted record. Await it for its `RecordMetadata`, or for the `DeliveryError` of a failed record.

    It has the protocol of asyncio's futures. Cancelling a task that waits for it never cancels the record. The garbage
    collector does not track it: references back to it are in its batch and are cleared at settlement.
    """

    _asyncio_future_blocking = False
    # gather() of 3.11 reads it when a child is cancelled.
    _cancel_message = None

    def __dealloc__(self):
        cdef Batch batch = self._batch
        if batch is None:
            return
        locate(self)
        batch = self._batch
        batch.held -= 1
        if batch.outcome_of(self._index) > ACKED and not self._flags & SEEN:
            batch.note_unseen(1)

    def __init__(self):
        raise TypeError("deliveries are made by send()")

    def __await__(self):
        if outcome_now(self) == ACKED:
            return answer(metadata_of(self))
        return self._waited()

    def _waited(self):
        if outcome_now(self) == PENDING:
            future = self._batch.loop.create_future()
            self._batch.add_waiter(self._index, future)
            try:
                yield from future
            except BaseException:
                locate(self)
                self._batch.remove_waiters(self._index, lambda waiter: waiter is future)
                raise
        return take_result(self)

    async def wait(self, timeout=None):
        """Return the outcome after at most ``timeout`` seconds (None: as long as it takes); cancels nothing."""
        limit = _limit_of(timeout)
        if outcome_now(self) == PENDING and (limit is None or limit > 0):
            loop = self._batch.loop
            future = loop.create_future()
            timer = None if limit is None else loop.call_later(limit, _resolve, future)
            try:
                self._batch.add_waiter(self._index, future)
                await future
            finally:
                if timer is not None:
                    timer.cancel()
                locate(self)
                self._batch.remove_waiters(self._index, lambda waiter: waiter is future)
        return self.outcome

    async def resolve_unknown(self, timeout=None):
        """Look for a record of unknown outcome in its partition, for at most ``timeout`` seconds; returns a `Resolution`.

        The default is the setting `delivery_timeout_ms`. It waits for the outcome first, and returns any other than
        ``UNKNOWN`` at once. The delivery keeps the outcome that it has: nothing that was told changes later.
        """
        limit = _limit_of(timeout)
        loop = self._batch.loop
        began = loop.time()
        outcome = await self.wait(limit)
        offset = metadata_of(self)[2] if outcome_now(self) == ACKED else -1
        if outcome is not Outcome.UNKNOWN:
            return Resolution(outcome, offset)
        resolve = getattr(self._batch.owner, "resolve", None)
        if resolve is None:
            return Resolution(outcome, -1, "the producer was closed, or has dropped the partition")
        left = None if limit is None else max(0.0, limit - (loop.time() - began))
        return await resolve(self._batch, self._index, left)

    # -- asyncio's future protocol

    def done(self):
        """True when the outcome is known, or the handle was cancelled."""
        return outcome_now(self) != PENDING or bool(self._flags & CANCELLED)

    def cancelled(self):
        """True while the handle is cancelled and the outcome is not known."""
        return bool(self._flags & CANCELLED) and outcome_now(self) == PENDING

    def result(self):
        """The metadata of the written record; raises its error, or the error of a future that is not done."""
        if outcome_now(self) != PENDING:
            return take_result(self)
        raise self._not_done()

    def exception(self):
        """The error of a record that failed, None when it was written."""
        cdef int outcome = outcome_now(self)
        if outcome == PENDING:
            raise self._not_done()
        self._flags |= SEEN
        if outcome == ACKED:
            return None
        failure_was_read(self._batch)
        return own_error(self._batch, self._index)

    def _not_done(self):
        if self._flags & CANCELLED:
            return _cancelled_error()
        return _invalid_state("the outcome of this record is not known yet")

    def _make_cancelled_error(self):
        # gather() gets the error of a cancelled child by this name.
        return _cancelled_error()

    def cancel(self, msg=None):
        """Cancel this handle, as a future. The record is never touched."""
        if outcome_now(self) != PENDING or self._flags & CANCELLED:
            return False
        self._flags |= CANCELLED
        loop = self._batch.loop
        mine = self._batch.remove_waiters(self._index, lambda waiter: _calls_for(waiter, self))
        wake(loop, mine)
        return True

    def add_done_callback(self, callback, *, context=None):
        """Call ``callback(delivery)`` soon after the outcome is known. It cannot be a coroutine function."""
        _check_callback(callback)
        if self.done():
            self._flags |= SEEN
            self._batch.loop.call_soon(callback, self, context=context)
        else:
            if context is None:
                from contextvars import copy_context

                context = copy_context()
            self._batch.add_waiter(self._index, (self, callback, context))

    def remove_done_callback(self, callback):
        """Remove every such callback of this handle; returns their number."""
        locate(self)
        gone = self._batch.remove_waiters(self._index, lambda waiter: _calls_for(waiter, self) and waiter[1] == callback)
        return len(gone)

    def get_loop(self):
        """The event loop of the producer."""
        locate(self)
        return self._batch.loop

    # -- the record

    @property
    def outcome(self):
        """`Outcome.PENDING`, `ACKED`, `NOT_WRITTEN` or `UNKNOWN`."""
        cdef int outcome = outcome_now(self)
        if outcome != PENDING:
            self._flags |= SEEN
        if outcome > ACKED:
            failure_was_read(self._batch)
        return _outcomes[outcome]

    @property
    def topic(self):
        """The topic the record was sent to."""
        locate(self)
        return self._batch.topic

    @property
    def partition(self):
        """The partition of the record, None until it is chosen."""
        locate(self)
        return None if self._batch.partition < 0 else self._batch.partition

    @property
    def timings(self):
        """When the record's batch was opened, drained, written and answered, in the loop's seconds."""
        locate(self)
        return Timings(
            _known(self._batch.opened_at), _known(self._batch.drained_at),
            _known(self._batch.written_at), _known(self._batch.answered_at),
        )

    def try_cancel(self):
        """Withdraw the record if its batch has not been drained yet; returns whether it was withdrawn."""
        owner = self._batch.owner if outcome_now(self) == PENDING else None
        return owner is not None and owner.withdraw(self._batch, self._index)

    def __repr__(self):
        locate(self)
        return f"<Delivery {self._batch.topic}-{self._batch.partition} {_outcomes[outcome_now(self)].name}>"


cdef inline int give(object value, PyObject **result) noexcept:
    Py_INCREF(value)
    result[0] = <PyObject *>value
    return ANSWER


@cython.final
@cython.freelist(64)
cdef class Answer:
    """The awaited iterator of a settled delivery: one step, without a frame."""

    cdef object value

    def __iter__(self):
        return self

    def __await__(self):
        return self

    def __next__(self):
        # This method is called by name only: the slot of `next()` and `await` is replaced below.
        raise StopIteration(self.value)


cdef int _answer_step(PyObject *op, PyObject *argument, PyObject **result) except -1:
    return give((<Answer>op).value, result)


aioproducer_goes_by(Answer, _answer_step)


cdef Answer answer(object value):
    cdef Answer made = Answer.__new__(Answer)
    made.value = value
    return made


cdef _known(double moment):
    return moment if moment == moment else None


def _limit_of(timeout):
    # A negative time counts as 0: the time left until a deadline may be negative. None and infinity are no limit.
    if timeout is None:
        return None
    if isinstance(timeout, bool) or not isinstance(timeout, (int, float)):
        raise ConfigurationError(f"timeout must be a number of seconds, not {type(timeout).__name__}")
    try:
        limit = float(timeout)
    except OverflowError:
        return None if timeout > 0 else 0.0
    if limit != limit:
        raise ConfigurationError("timeout must be a number of seconds, not nan")
    return None if limit == _infinity else limit


def _check_callback(callback):
    if type(callback) is FunctionType and not callback.__code__.co_flags & _CO_COROUTINE:
        return
    if not callable(callback):
        raise TypeError(f"a done callback must be callable, and {type(callback).__name__} is not")
    if iscoroutinefunction(callback):
        raise TypeError("a done callback cannot be a coroutine function, because its result is not awaited: let it create a task")


def _calls_for(waiter, delivery):
    return type(waiter) is tuple and waiter[0] is delivery


def _resolve(future):
    if not future.done():
        future.set_result(None)


def queued_delivery(Batch batch not None):
    """The delivery of a record that waits for its place; ``batch`` is its placeholder until `settle_into` moves it."""
    cdef Delivery delivery = Delivery.__new__(Delivery)
    fill(delivery, batch, -1, -1, -1)
    delivery._index = 0
    return delivery


def observe(Delivery delivery not None, callback):
    """Call ``callback(delivery)`` when the outcome is known, without making the batch any more urgent.

    It is called while the batch is settled, before the loop's next turn: it may only make a note.
    """
    cdef Batch batch
    locate(delivery)
    batch = delivery._batch
    delivery._flags |= SEEN
    if outcome_now(delivery) != PENDING:
        callback(delivery)
        return
    batch.add_observer(delivery._index, (delivery, callback, None))


def hurry(Delivery delivery not None):
    """Send the record without lingering, as if a task waited for it."""
    locate(delivery)
    delivery._batch.mark_awaited()


def peek(Delivery delivery not None):
    """Outcome and error of a record, without marking the outcome as seen by the owner of the delivery."""
    cdef int outcome = outcome_now(delivery)
    delivery._flags |= SEEN
    return _outcomes[outcome], own_error(delivery._batch, delivery._index) if outcome > ACKED else None


def settle_into(Delivery waiting not None, Delivery placed not None):
    """The queued record has its place: from now on ``waiting`` refers to the same record as ``placed``."""
    cdef Batch placeholder_batch = waiting._batch
    waiting._key_size = placed._key_size
    waiting._value_size = placed._value_size
    waiting._timestamp = placed._timestamp
    placeholder_batch.forward([(placed._batch, placed._index)])
    locate(waiting)


include "delivery_sending.pxi"
include "delivery_many.pxi"
include "delivery_prefix.pxi"

# cython: language_level=3, boundscheck=False, wraparound=False
# cython: auto_pickle=False, autotestdict=False, binding=True
"""What a caller holds: the delivery of one record, of many records, and the awaitable that `send()` returns."""

cimport cython
from collections.abc import Coroutine

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
            self._batch.add_waiter(self._index, self, None, future)
            try:
                yield from future
            except BaseException:
                self.locate()
                self._batch.remove_waiters(self._index, lambda waiter: waiter[2] is future)
                raise
        return self.take_result()

    async def wait(self, timeout=None):
        """Return the outcome after at most ``timeout`` seconds (None: as long as it takes); cancels nothing."""
        if self.outcome_now() == PENDING and (timeout is None or timeout > 0):
            loop = self._batch.loop
            future = loop.create_future()
            self._batch.add_waiter(self._index, self, None, future)
            timer = None if timeout is None else loop.call_later(timeout, _resolve, future)
            try:
                await future
            finally:
                if timer is not None:
                    timer.cancel()
                self.locate()
                self._batch.remove_waiters(self._index, lambda waiter: waiter[2] is future)
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
        mine = self._batch.remove_waiters(self._index, lambda waiter: waiter[0] is self and waiter[1] is not None)
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
            self._batch.add_waiter(self._index, self, callback, context)

    def remove_done_callback(self, callback):
        """Remove every such callback of this handle; returns how many there were."""
        self.locate()
        gone = self._batch.remove_waiters(self._index, lambda waiter: waiter[0] is self and waiter[1] == callback)
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
    batch.add_observer(delivery._index, delivery, callback, None)


def settle_into(Delivery waiting not None, Delivery placed not None):
    """The queued record has its place: whoever held ``waiting`` now holds the same as ``placed``."""
    cdef Batch stand_in = waiting._batch
    waiting._key_size = placed._key_size
    waiting._value_size = placed._value_size
    waiting._timestamp = placed._timestamp
    stand_in.forward([(placed._batch, placed._index)])
    waiting.locate()


# ------------------------------------------------------------------------------------------------------- sending

@cython.final
@cython.freelist(64)
cdef class Sending:
    """What `send()` returns: await it for the `Delivery`, or give it to gather, a TaskGroup, create_task, wait_for.

    An accepted record is accepted whether or not this is awaited.
    """

    def __init__(self):
        raise TypeError("made by send()")

    def __dealloc__(self):
        if not self._flags & STARTED:
            PyErr_WarnEx(RuntimeWarning, b"send() was never awaited: an accepted record is sent all the same, a refused one is only logged", 1)

    @property
    def delivery(self):
        """The delivery, once the record is accepted; of `send_batch` from the beginning."""
        if self._delivery is None and self._entry is not None:
            return self._entry.delivery
        return self._delivery

    def __await__(self):
        return self

    def __iter__(self):
        return self

    def __next__(self):
        return self._advance()

    def _advance(self):
        cdef unsigned char flags = self._flags
        self._flags = flags | STARTED
        if self._inner is None:
            if flags & MUST_YIELD:
                self._flags &= ~MUST_YIELD
                return None
            self._inner = self._steps()
        return next(self._inner)

    def _steps(self):
        # What remains to be awaited, top to bottom.
        delivery = self._delivery
        if delivery is None:
            delivery = yield from self._entry.accepted().__await__()
        if self._flags & METADATA:
            return (yield from delivery.__await__())
        return delivery

    def send(self, value):
        """Advance by one step; part of the coroutine protocol."""
        if self._inner is None or value is None:
            return self._advance()
        return self._inner.send(value)

    def throw(self, kind, value=None, traceback=None):
        """Throw into whoever waits; part of the coroutine protocol."""
        self._flags = (self._flags | STARTED) & ~MUST_YIELD
        error = kind if value is None and not isinstance(kind, type) else (kind() if value is None else value)
        if self._inner is None:
            if self._delivery is None:
                self._entry.withdraw()
            raise error
        return self._inner.throw(error)

    def close(self):
        """Stop observing; part of the coroutine protocol."""
        self._flags |= STARTED
        if self._inner is not None:
            self._inner.close()

    def __repr__(self):
        return f"<Sending {'accepted' if self.delivery is not None else 'waiting'}>"


cdef iternextfunc _slow_next = aioproducer_get_iternext(Sending)


cdef PyObject *_next(PyObject *op) noexcept:
    # The way of an accepted record: answer at once, without a frame. Written without Cython's own error path,
    # which would add a traceback to the StopIteration of every send.
    cdef Sending sending = <Sending>op
    if sending._inner is None and sending._delivery is not None and not sending._flags & (MUST_YIELD | METADATA):
        sending._flags |= STARTED
        PyErr_SetObject(_stop_iteration, <PyObject *>sending._delivery)
        return NULL
    return _slow_next(op)


aioproducer_set_iternext(Sending, _next)
Coroutine.register(Sending)


cdef Sending accepted(Delivery delivery, bint must_yield, bint wants_metadata):
    cdef Sending sending = Sending.__new__(Sending)
    sending._delivery = delivery
    if must_yield:
        sending._flags = MUST_YIELD
    if wants_metadata:
        sending._flags |= METADATA
    return sending


def sending_of(entry not None, bint wants_metadata=False):
    """The awaitable of a call that has to wait: ``entry`` has accepted(), withdraw() and delivery."""
    cdef Sending sending = Sending.__new__(Sending)
    sending._entry = entry
    if wants_metadata:
        sending._flags = METADATA
    return sending


# ---------------------------------------------------------------------------------------------------------- many

cdef tuple where_now(Batch batch, int index):
    # A split or re-encoded batch forwards its records.
    while batch._forward is not None and batch._forward[index] is not None:
        batch, index = batch._forward[index]
    return batch, index


cdef class BatchDelivery:
    """The fate of the records of one `send_batch`. Await it for a `BatchResult`."""

    def __cinit__(self, topic, int total, loop):
        self.topic = topic
        self.total = total
        self._loop = loop
        self._batches = []
        self._refused = {}
        self._ordinals = <unsigned int *>PyMem_Calloc(max(total, 1), sizeof(unsigned int))
        self._indexes = <int *>PyMem_Calloc(max(total, 1), sizeof(int))
        if self._ordinals == NULL or self._indexes == NULL:
            raise MemoryError()

    def __dealloc__(self):
        PyMem_Free(self._ordinals)
        PyMem_Free(self._indexes)

    cdef int place(self, int at, Batch batch, int index) except -1:
        # Ordinal 0 says: not placed yet.
        cdef Py_ssize_t count = len(self._batches)
        if count == 0 or self._batches[count - 1] is not batch:
            self._batches.append(batch)
            count += 1
        self._ordinals[at] = <unsigned int>count
        self._indexes[at] = index
        self._placed += 1
        if self._watchers is not None:
            self._tell_if_placed()
        return 0

    cdef int _tell_if_placed(self) except -1:
        # Whoever awaits this before all records have their place, or were refused, waits for that first.
        if self._watchers is None or self._placed + len(self._refused) < self.total:
            return 0
        watchers, self._watchers = self._watchers, None
        for future in watchers:
            _resolve(future)
        return 0

    cdef bint refuses(self, int at) except -1:
        return len(self._refused) > 0 and at in self._refused

    def adopt(self, int at, Delivery delivery not None):
        """Record ``at`` was accepted on its own."""
        delivery.locate()
        self.place(at, delivery._batch, delivery._index)

    def refuse(self, int at, error not None):
        """Record ``at`` is not accepted."""
        if self._ordinals[at] == 0 and at not in self._refused:
            self._refused[at] = error
            self._tell_if_placed()

    def refuse_rest(self, int start, error not None):
        """Every record from ``start`` on that has no place is not accepted."""
        cdef int at
        for at in range(start, self.total):
            if self._ordinals[at] == 0:
                self._refused.setdefault(at, error)
        self._tell_if_placed()

    @property
    def accepted(self):
        """How many records have their place."""
        return self._placed

    def batches_from(self, int start):
        """The batches that took records, from the number ``start`` on."""
        return self._batches[start:]

    cdef tuple _locate(self, int at):
        return where_now(self._batches[self._ordinals[at] - 1], self._indexes[at])

    def done(self):
        """True when every record has its outcome."""
        return self._placed + len(self._refused) == self.total and self._first_pending() is None

    cdef object _first_pending(self):
        # Outcomes never change: what was seen settled is not looked at again.
        cdef int at
        cdef Batch batch
        for at in range(self._settled, self.total):
            if self._ordinals[at]:
                batch, index = self._locate(at)
                if batch.outcome_of(index) == PENDING:
                    return batch, index
            elif at not in self._refused:
                return None
            self._settled = at + 1
        return None

    def __await__(self):
        return self._resolved().__await__()

    async def _resolved(self):
        while self._placed + len(self._refused) < self.total:
            future = self._loop.create_future()
            if self._watchers is None:
                self._watchers = []
            self._watchers.append(future)
            await future
        while True:
            pending = self._first_pending()
            if pending is None:
                return self._result()
            batch, index = pending
            future = self._loop.create_future()
            (<Batch>batch).add_waiter(index, None, None, future)
            for other in self._batches:
                if not (<Batch>other).awaited:
                    (<Batch>other).mark_awaited()
            try:
                await future
            finally:
                batch, index = where_now(batch, index)
                (<Batch>batch).remove_waiters(index, lambda waiter: waiter[2] is future)

    def _result(self):
        cdef int at, outcome
        cdef Batch batch
        cdef int index
        cdef list offsets = [-1] * self.total
        cdef list partitions = [-1] * self.total
        cdef dict errors = dict(self._refused)
        cdef int counts[4]
        counts[0] = counts[1] = counts[3] = 0
        counts[2] = len(errors)
        for at in range(self.total):
            if not self._ordinals[at]:
                continue
            batch, index = self._locate(at)
            outcome = batch.outcome_of(index)
            counts[outcome] += 1
            partitions[at] = batch.partition
            if outcome != ACKED:
                errors[at] = batch.error_of(index)
            elif batch.base_offset >= 0:
                offsets[at] = batch.base_offset + index
        return BatchResult(
            offsets=offsets, partitions=partitions, errors=errors,
            acked=counts[1], not_written=counts[2], unknown=counts[3],
        )

    def __repr__(self):
        return f"<BatchDelivery {self.topic}: {self._placed} of {self.total} accepted, {len(self._refused)} refused>"

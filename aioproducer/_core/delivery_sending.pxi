# The result of `send()`.
# Part of delivery.pyx. Uses delivery.pxd (FINISHED, METADATA, MUST_YIELD, STARTED) and delivery.pyx (STEP, aioproducer_goes_by, give).

@cython.final
@cython.freelist(64)
cdef class Sending:
    """The result of `send()`: await it for the `Delivery`, or pass it to gather, a TaskGroup, create_task, wait_for.

    The record is accepted whether or not this is awaited.
    """

    def __init__(self):
        raise TypeError("made by send()")

    def __dealloc__(self):
        # The interpreter drops this object after taking the answer.
        aioproducer_let_go()
        if not self._flags & STARTED:
            PyErr_WarnEx(RuntimeWarning, b"send() was never awaited: an accepted record is sent all the same, a refused one is only logged", 1)

    @property
    def delivery(self):
        """The delivery, once the record is accepted; that of `send_batch` from the beginning."""
        if self._delivery is None and self._entry is not None:
            return self._entry.delivery
        return self._delivery

    def __await__(self):
        if self._inner is not None:
            # As with a coroutine: a second task that took steps of the first would leave the first waiting without end.
            if self._inner.gi_running or self._inner.gi_yieldfrom is not None:
                refuse_another()
            self._inner = None
        return self

    __iter__ = __await__

    def __next__(self):
        # This method is called by name only: the slot of `next()` and `await` is replaced below.
        return self.send(None)

    def _steps(self):
        # The objects that remain to be awaited, top to bottom.
        delivery = self._delivery
        if delivery is None:
            delivery = yield from self._entry.accepted().__await__()
        if self._flags & METADATA:
            return (yield from delivery.__await__())
        return delivery

    def send(self, value):
        """Advance by one step; part of the coroutine protocol."""
        cdef PyObject *result = NULL
        cdef int status = _sending_step(<PyObject *>self, <PyObject *>value, &result)
        step = <object>result
        Py_DECREF(step)
        if status == STEP:
            return step
        raise StopIteration(step)

    def throw(self, kind, value=None, traceback=None):
        """Throw into the awaited object; part of the coroutine protocol."""
        if self._inner is not None and self._inner.gi_running:
            refuse_another()
        self._flags = (self._flags | STARTED) & ~MUST_YIELD
        error = kind if value is None and not isinstance(kind, type) else (kind() if value is None else value)
        if self._inner is None:
            if self._delivery is None:
                self._entry.withdraw()
            raise error
        try:
            return self._inner.throw(error)
        except BaseException:
            self._flags |= FINISHED
            raise

    def close(self):
        """Stop observing; part of the coroutine protocol."""
        self._flags |= STARTED
        if self._inner is not None:
            self._inner.close()

    def __repr__(self):
        return f"<Sending {'accepted' if self.delivery is not None else 'waiting'}>"


cdef int refuse_another() except -1:
    raise RuntimeError("this send() is being awaited already")


cdef int _sending_step(PyObject *op, PyObject *argument, PyObject **result) except -1:
    cdef Sending sending = <Sending>op
    cdef unsigned char flags = sending._flags
    cdef int status
    if flags & FINISHED:
        # Two tasks awaited one call, and the other has its answer: this one gets it too.
        sending._inner = None
    sending._flags = (flags | STARTED) & ~FINISHED
    if sending._inner is None:
        if flags & MUST_YIELD:
            sending._flags &= ~MUST_YIELD
            give(None, result)
            return STEP
        if sending._delivery is not None and not flags & METADATA:
            # The usual case: accepted by the call, answered without a frame.
            return give(sending._delivery, result)
        sending._inner = sending._steps()
    elif sending._inner.gi_running:
        refuse_another()
    # The step may run user code, which may use this call again: it must not free the running generator.
    inner = sending._inner
    status = PyIter_Send(<PyObject *>inner, argument, result)
    if status != STEP:
        sending._flags |= FINISHED
    return status


aioproducer_goes_by(Sending, _sending_step)
Coroutine.register(Sending)


def sending_of(entry not None, bint wants_metadata=False):
    """The awaitable of a call that has to wait: ``entry`` has accepted(), withdraw() and delivery."""
    cdef Sending sending = Sending.__new__(Sending)
    sending._entry = entry
    if wants_metadata:
        sending._flags = METADATA
    return sending


def entry_of(Sending sending not None):
    """The entry of a call that has to wait, as given to `sending_of`; None for one that was accepted at once."""
    return sending._entry

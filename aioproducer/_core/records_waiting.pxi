# The waiters of a record, and their waking. An awaiting task is represented by its future, a callback by a tuple
# (delivery, callback, context), an observer by one whose context is None, several waiters of one record by a list.
# Part of records.pyx. Uses records.pxd (Waker) and nothing of the other parts.

# The number of records whose waiters are woken in one turn of the loop: each waiter takes a step before other tasks
# run.
cdef enum:
    AT_ONCE = 256


cdef int call_back(object loop, object callback, object delivery, object context) except -1:
    try:
        loop.call_soon(callback, delivery, context=context)
    except (MemoryError, KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:
        # A loop in debug mode checks the callback, which may raise: that must end only this callback.
        if loop.is_closed():
            raise
        loop.call_exception_handler({"message": "a done callback of a delivery cannot be called", "exception": error})
    return 0


cdef int wake(object loop, object waiter) except -1:
    try:
        wake_each(loop, waiter)
    except RuntimeError:
        # The tasks that wait were destroyed with their loop; what has ended has ended all the same.
        if loop is None or not loop.is_closed():
            raise
    return 0


cdef int wake_each(object loop, object waiter) except -1:
    if type(waiter) is list:
        for each in <list>waiter:
            wake_each(loop, each)
    elif type(waiter) is tuple:
        delivery, callback, context = <tuple>waiter
        if context is None:
            callback(delivery)
        else:
            call_back(loop, callback, delivery, context)
    elif not waiter.done():
        waiter.set_result(None)
    return 0


cdef class Waker:
    """Wakes the waiters of records of one producer: in order, and in slices, so that other tasks can run."""

    def __init__(self, loop):
        self._loop = loop
        self._line = deque()
        self._left = AT_ONCE

    def wake_after_all(self, waiter):
        """Wake this future when all waiters in the line were woken."""
        self._line.append(waiter)
        self._serve()

    cdef int _serve(self) except -1:
        while self._left > 0 and self._line:
            self._left -= 1
            waiter = self._line.popleft()
            try:
                wake(self._loop, waiter)
            except MemoryError:
                # It stays first, for the next time.
                self._line.appendleft(waiter)
                raise
        if not self._comes_again and self._left < AT_ONCE // 2:
            self._come_again()
        return 0

    cdef int _come_again(self) except -1:
        try:
            self._loop.call_soon(self._next_turn)
        except RuntimeError:
            # As in `wake`.
            if not self._loop.is_closed():
                raise
        self._comes_again = True
        return 0

    def _next_turn(self):
        self._comes_again = False
        self._left = AT_ONCE
        self._serve()

    def finish(self):
        """Wake all remaining waiters now."""
        while self._line:
            wake(self._loop, self._line.popleft())

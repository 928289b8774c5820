# Who waits for a record, and how they are woken. One who awaits is the future that is awaited, a callback is a tuple
# (delivery, callback, context), several of one record are a list of those.
# Part of records.pyx. Uses records.pxd (Waker) and nothing of the other parts.

# So many records' waiters are woken in one turn of the loop, as each will take a step before anybody else has a turn.
cdef enum:
    AT_ONCE = 256


cdef int call_back(object loop, object callback, object delivery, object context) except -1:
    try:
        loop.call_soon(callback, delivery, context=context)
    except (MemoryError, KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:
        # In its debug mode a loop looks at the callback, which may raise: that ends nothing but this callback.
        if loop.is_closed():
            raise
        loop.call_exception_handler({"message": "a done callback of a delivery cannot be called", "exception": error})
    return 0


cdef int wake(object loop, object waiter) except -1:
    if type(waiter) is list:
        for each in <list>waiter:
            wake(loop, each)
    elif type(waiter) is tuple:
        delivery, callback, context = <tuple>waiter
        call_back(loop, callback, delivery, context)
    elif not waiter.done():
        waiter.set_result(None)
    return 0


cdef class Waker:
    """Wakes whoever waits for records of one producer: in order, and in slices, so that others have their turns."""

    def __init__(self, loop):
        self._loop = loop
        self._line = deque()
        self._left = AT_ONCE

    def wake_after_all(self, waiter):
        """Wake one more, a future, when all who are in the line were woken."""
        self._line.append(waiter)
        self._serve()

    cdef int _serve(self) except -1:
        while self._left > 0 and self._line:
            self._left -= 1
            waiter = self._line.popleft()
            try:
                wake(self._loop, waiter)
            except MemoryError:
                # Still the first, for the next time.
                self._line.appendleft(waiter)
                raise
        if not self._comes_again and self._left < AT_ONCE // 2:
            self._loop.call_soon(self._next_turn)
            self._comes_again = True
        return 0

    def _next_turn(self):
        self._comes_again = False
        self._left = AT_ONCE
        self._serve()

    def finish(self):
        """Wake all that are left now."""
        while self._line:
            wake(self._loop, self._line.popleft())

# The records of a checkpoint: the marks before which all of them are acknowledged.
# Part of delivery.pyx. Uses records.pxd (ACKED, PENDING, Batch, BatchObserver), delivery.pyx (outcome_now, own_error),
# delivery_many.pxi (BatchDelivery, where_now) and delivery_sending.pxi (Sending).


cdef long long NO_MARK = 0x7fffffffffffffff


cdef struct Run:
    # Neighbours in one batch, sent when so many marks had been made.
    long long after
    int first
    int until


@cython.final
cdef class PrefixPart(BatchObserver):
    """The records of a prefix in one batch, or the records of one call that have no place yet."""

    cdef AckedPrefix prefix
    # None: no place yet, or nothing left to wait for.
    cdef Batch batch
    # Records without a place: the entry of a `send()`, the BatchDelivery of a `send_batch()`; None: of another object,
    # which calls `settle`.
    cdef object waits_for
    cdef bint is_open
    cdef Run *runs
    cdef int count
    cdef int capacity
    # The marks before its oldest record without an outcome; `key` is a lower limit of it, which the line is sorted by.
    cdef long long oldest
    cdef long long key
    cdef PrefixPart ahead
    cdef PrefixPart behind
    cdef PrefixPart next_changed
    cdef bint is_changed

    def __dealloc__(self):
        PyMem_Free(self.runs)

    cdef int changed(self) except -1:
        # Called in the middle of a settlement, which must not fail: where memory ends, the next call of the prefix
        # finds the change.
        if not self.is_changed and self.prefix is not None:
            self.is_changed = True
            self.next_changed = self.prefix._changed
            self.prefix._changed = self
            self.prefix._schedule()
        return 0

    cdef int add(self, int index, long long after) except -1:
        cdef Run *run = &self.runs[self.count - 1] if self.count else NULL
        if run != NULL and run.after == after and run.until == index:
            run.until += 1
            return 0
        return self.add_run(index, after)

    cdef int add_run(self, int index, long long after) except -1:
        cdef int capacity = max(4, 2 * self.capacity)
        cdef Run *grown
        if self.count == self.capacity:
            grown = <Run *>PyMem_Realloc(self.runs, capacity * sizeof(Run))
            if grown == NULL:
                raise MemoryError()
            self.runs, self.capacity = grown, capacity
        self.runs[self.count].after = after
        self.runs[self.count].first = index
        self.runs[self.count].until = index + 1
        self.count += 1
        if after < self.oldest:
            self.oldest = after
        if after < self.key:
            # Its call waited for the place.
            self.prefix._take_out(self)
            self.key = after
            self.prefix._line_up(self)
        return 0

    # -- the records of a call have their places, or never will

    def done(self):
        """As of a future: a `BatchDelivery` calls `set_result` when all of its records have a place, or were refused."""
        return False

    def set_result(self, _):
        """The records have their places."""
        self.changed()

    def ended(self, _):
        """The call has ended."""
        self.changed()

    def settle(self, error=None):
        """The records have their outcome: None for all acknowledged."""
        cdef AckedPrefix prefix = self.prefix
        if self.is_open:
            if error is not None:
                prefix._fail(self.key, error)
            prefix._leave(self)
            prefix._schedule()


cdef class AckedPrefix:
    """Follows the records of one source, and the marks between them: `_reached` marks have only acknowledged records before.

    It keeps something for each batch without an outcome, each call without a place and each mark that is not reached, and
    nothing for a record.
    """

    cdef object _producer_send
    cdef object _producer_send_nowait
    cdef object _producer_send_batch
    cdef object _loop
    # Called in the loop after changes.
    cdef object _on_change
    cdef bint _scheduled
    # The marks that are not reached, behind some that are, and the number of all so far.
    cdef list _marks
    cdef Py_ssize_t _passed
    cdef readonly long long _marked
    cdef readonly long long _reached
    cdef object _newest
    # The number of marks before the first record that failed; -1: none did.
    cdef readonly long long _failed_after
    cdef readonly object _failure
    cdef list _read_marks
    # Calls are refused: `_refuse` raises the reason.
    cdef public bint _refuses
    # Records are sent by `_send_aside`, which sets aside what can never be written.
    cdef public bint _sets_aside
    cdef dict _parts
    cdef PrefixPart _first
    cdef PrefixPart _last
    cdef PrefixPart _recent
    cdef PrefixPart _changed

    def _follow(self, producer, on_change):
        """Send by this producer, and call ``on_change()`` in the loop after changes."""
        self._producer_send = producer.send
        self._producer_send_nowait = producer.send_nowait
        self._producer_send_batch = producer.send_batch
        self._on_change = on_change
        self._marks = []
        self._parts = {}
        self._read_marks = []
        self._failed_after = -1

    def _run_in(self, loop):
        """Schedule changes in this loop."""
        self._loop = loop

    # -- the calls

    def send(self, topic, value=None, *, key=None, partition=None, timestamp=None, headers=None, timeout=None,
             max_block=None):
        """See `Producer.send`. The record belongs to the next mark."""
        cdef long long after
        if self._changed is not None or self._loop is None:
            self._look()
        if self._refuses:
            self._refuse()
        if self._sets_aside:
            return self._send_aside(topic, value, key, partition, timestamp, headers, timeout, max_block)
        after = self._marked
        if partition is None and timestamp is None and headers is None and timeout is None and max_block is None:
            # Each keyword costs as much as the rest of this call.
            if key is None:
                sending = self._producer_send(topic, value)
            else:
                sending = self._producer_send(topic, value, key=key)
        else:
            sending = self._producer_send(
                topic, value, key=key, partition=partition, timestamp=timestamp, headers=headers, timeout=timeout,
                max_block=max_block)
        self._note_sending(<Sending?>sending, after)
        return sending

    def send_nowait(self, topic, value=None, *, key=None, partition=None, timestamp=None, headers=None, timeout=None):
        """See `Producer.send_nowait`. The record belongs to the next mark.

        A record that may be sent again (`BufferFullError`) was not sent; any other refusal stops the checkpoint.
        """
        cdef long long after
        if self._changed is not None or self._loop is None:
            self._look()
        if self._refuses:
            self._refuse()
        if self._sets_aside:
            return self._send_aside_nowait(topic, value, key, partition, timestamp, headers, timeout)
        after = self._marked
        try:
            delivery = self._producer_send_nowait(
                topic, value, key=key, partition=partition, timestamp=timestamp, headers=headers, timeout=timeout)
        except KafkaError as error:
            self._note_refusal(error, after)
            raise
        self._note_delivery(<Delivery?>delivery, after)
        return delivery

    def send_batch(self, topic, values, *, keys=None, partition=None, timestamps=None, headers=None, timeout=None):
        """See `Producer.send_batch`. The records belong to the next mark."""
        cdef long long after
        if self._changed is not None or self._loop is None:
            self._look()
        if self._refuses:
            self._refuse()
        if self._sets_aside:
            return self._send_batch_aside(topic, values, keys, partition, timestamps, headers, timeout)
        after = self._marked
        try:
            sending = self._producer_send_batch(
                topic, values, keys=keys, partition=partition, timestamps=timestamps, headers=headers,
                timeout=timeout)
        except KafkaError as error:
            self._note_refusal(error, after)
            raise
        self._note_sending(<Sending?>sending, after)
        return sending

    def watch(self, delivery):
        """The record of a `Delivery`, or the records of a `BatchDelivery`, belong to the next mark."""
        if self._changed is not None or self._loop is None:
            self._look()
        if self._refuses:
            self._refuse()
        if type(delivery) is Delivery:
            if outcome_now(<Delivery>delivery) == PENDING:
                self._check_loop((<Delivery>delivery)._batch.loop)
            self._note_delivery(<Delivery>delivery, self._marked)
        elif isinstance(delivery, BatchDelivery):
            if not delivery.done():
                self._check_loop((<BatchDelivery>delivery)._loop)
            self._note_many(<BatchDelivery>delivery, self._marked)
        else:
            raise TypeError(f"watch() takes a Delivery or a BatchDelivery, not {type(delivery).__name__}")

    def mark(self, position):
        """All records that were sent before belong to this position of the source: any object."""
        if self._changed is not None or self._loop is None:
            self._look()
        if self._refuses:
            self._refuse()
        self._marks.append(position)
        self._marked += 1
        if self._first is None:
            self._schedule()

    def _look(self):
        # A subclass binds to the running loop first.
        self._take_changes()

    def _refuse(self):
        raise NotImplementedError

    cdef int _check_loop(self, loop) except -1:
        # The outcome would come in the thread of the other loop.
        if loop is not None and self._loop is not None and loop is not self._loop:
            raise StateError("the delivery belongs to another event loop: watch it by a checkpoint of its own loop")
        return 0

    # -- the records of calls

    cdef int _note_sending(self, Sending sending, long long after) except -1:
        if type(sending._delivery) is Delivery:
            return self._note_delivery(<Delivery>sending._delivery, after)
        if sending._delivery is not None:
            return self._note_many(<BatchDelivery?>sending._delivery, after)
        entry = sending._entry
        many = entry.delivery
        if type(many) is not Delivery and many is not None:
            return self._note_many(<BatchDelivery?>many, after)
        if entry.finished:
            return self._note_entry(entry, after)
        try:
            part = self._waiting_part(after)
            part.waits_for = entry
            entry.on_end = part.ended
        except BaseException as error:
            self._fail(after, error)
            raise
        return 0

    cdef int _note_entry(self, object entry, long long after) except -1:
        # The call of one record has ended.
        if entry.delivery is not None and entry.error is None:
            return self._note_delivery(<Delivery?>entry.delivery, after)
        self._fail(after, _copy(entry.error))
        return 0

    cdef int _note_refusal(self, object error, long long after) except -1:
        if not error.retriable:
            self._fail(after, _copy(error))
        return 0

    cdef int _note_delivery(self, Delivery delivery, long long after) except -1:
        cdef int outcome = outcome_now(delivery)
        if outcome != ACKED:
            self._note_place(delivery._batch, delivery._index, after, outcome)
        return 0

    cdef int _note_many(self, BatchDelivery many, long long after) except -1:
        cdef int at, index
        cdef Batch batch
        cdef PrefixPart part
        try:
            if many._placed + len(many._refused) < many.total:
                part = self._waiting_part(after)
                part.waits_for = many
                if many._watchers is None:
                    many._watchers = []
                many._watchers.append(part)
                return 0
            for at in range(many.total):
                if many._ordinals[at]:
                    batch = many._locate(at, &index)
                    self._note_place(batch, index, after, batch.outcome_of(index))
                else:
                    self._fail(after, _copy(many._refused[at]))
        except BaseException as error:
            self._fail(after, error)
            raise
        return 0

    cdef int _note_place(self, Batch batch, int index, long long after, int outcome) except -1:
        cdef PrefixPart part = self._recent
        if outcome == PENDING:
            try:
                if part is None or part.batch is not batch:
                    part = self._part_of(batch, after)
                    self._recent = part
                part.add(index, after)
            except BaseException as error:
                # The record is accepted, and its outcome will not be seen.
                self._fail(after, error)
                raise
        elif outcome != ACKED:
            self._fail(after, own_error(batch, index) if self._failure is None else None)
            if batch.read_mark is not None:
                self._read_marks.append(batch.read_mark)
        return 0

    cdef int _fail(self, long long after, object error) except -1:
        if self._failed_after < 0 or after < self._failed_after:
            self._failed_after = after
        if self._failure is None:
            self._failure = error
        self._refuses = True
        self._schedule()
        return 0

    # -- the line of parts, sorted by their keys

    cdef PrefixPart _part_of(self, Batch batch, long long after):
        cdef PrefixPart part = self._parts.get(batch)
        if part is None:
            part = self._new_part(after)
            part.batch = batch
            batch.watch(part)
            self._parts[batch] = part
            self._line_up(part)
        return part

    cdef PrefixPart _waiting_part(self, long long after):
        cdef PrefixPart part = self._new_part(after)
        self._line_up(part)
        return part

    cdef PrefixPart _new_part(self, long long after):
        cdef PrefixPart part = PrefixPart.__new__(PrefixPart)
        part.prefix = self
        part.key = part.oldest = after
        return part

    cdef int _line_up(self, PrefixPart part) except -1:
        # Most parts come last.
        cdef PrefixPart ahead = self._last
        while ahead is not None and ahead.key > part.key:
            ahead = ahead.ahead
        part.ahead = ahead
        part.behind = self._first if ahead is None else ahead.behind
        if ahead is None:
            self._first = part
        else:
            ahead.behind = part
        if part.behind is None:
            self._last = part
        else:
            part.behind.ahead = part
        part.is_open = True
        return 0

    cdef int _take_out(self, PrefixPart part) except -1:
        if part.ahead is None:
            self._first = part.behind
        else:
            part.ahead.behind = part.behind
        if part.behind is None:
            self._last = part.ahead
        else:
            part.behind.ahead = part.ahead
        part.ahead = part.behind = None
        return 0

    cdef int _leave(self, PrefixPart part) except -1:
        if not part.is_open:
            return 0
        part.is_open = False
        self._take_out(part)
        if part.batch is not None:
            self._parts.pop(part.batch, None)
        if self._recent is part:
            self._recent = None
        # The batch, or a call, may be kept for long.
        part.prefix = part.batch = part.waits_for = None
        return 0

    # -- changes

    cdef int _schedule(self) except -1:
        if self._scheduled or self._loop is None:
            return 0
        try:
            self._loop.call_soon(self._on_change)
            self._scheduled = True
        except Exception:
            # Without memory, the next call finds the change; with a closed loop, there is no task to tell.
            pass
        return 0

    def _turned(self):
        """Called first by ``on_change``."""
        self._scheduled = False
        self._take_changes()

    def _take_changes(self):
        """Find the marks that are reached now."""
        cdef PrefixPart part
        cdef long long reached = self._marked
        while self._changed is not None:
            part = self._changed
            self._changed = part.next_changed
            part.next_changed = None
            part.is_changed = False
            try:
                self._refresh(part)
            except BaseException:
                part.changed()
                raise
        part = self._first
        while part is not None and part.key < reached:
            if part.oldest < reached:
                reached = part.oldest
            part = part.behind
        if 0 <= self._failed_after < reached:
            reached = self._failed_after
        if self._reached < reached:
            self._passed += reached - self._reached
            self._reached = reached
            self._newest = self._marks[self._passed - 1]
            # At once, it would cost as much as there are open marks.
            if 2 * self._passed >= len(self._marks):
                del self._marks[:self._passed]
                self._passed = 0

    cdef int _refresh(self, PrefixPart part) except -1:
        cdef object waits_for = part.waits_for
        if not part.is_open:
            return 0
        if part.batch is not None:
            if part.batch.outcome == ACKED and part.batch._individual is None:
                return self._leave(part)
            return self._refresh_each(part)
        if isinstance(waits_for, BatchDelivery):
            if (<BatchDelivery>waits_for)._placed + len((<BatchDelivery>waits_for)._refused) < waits_for.total:
                return 0
            self._note_many(<BatchDelivery>waits_for, part.key)
        elif waits_for is not None:
            if not waits_for.finished:
                return 0
            self._note_entry(waits_for, part.key)
        else:
            return 0
        return self._leave(part)

    cdef int _refresh_each(self, PrefixPart part) except -1:
        # Some of its records have an outcome, or live on in other batches.
        cdef long long oldest = NO_MARK
        cdef int nth, index, at, outcome
        cdef Batch batch
        for nth in range(part.count):
            for index in range(part.runs[nth].first, part.runs[nth].until):
                batch, at = where_now(part.batch, index)
                outcome = batch.outcome_of(at)
                if outcome == PENDING and batch is part.batch:
                    oldest = min(oldest, part.runs[nth].after)
                else:
                    self._note_place(batch, at, part.runs[nth].after, outcome)
        if oldest == NO_MARK:
            return self._leave(part)
        part.oldest = oldest
        return 0

    def _begun(self):
        """A part for the records of another object, which calls its ``settle``."""
        return self._waiting_part(self._marked)

    @property
    def _is_idle(self):
        """True when all records have their outcome."""
        self._take_changes()
        return self._first is None

    @property
    def position(self):
        """The newest mark before which everything is acknowledged, or set aside; None at first."""
        self._take_changes()
        return self._newest

    def _open_marks(self):
        """The positions that are not reached, oldest first; the number of the first is ``_reached`` + 1."""
        return tuple(self._marks[self._passed:])

    def _hurry(self):
        """Send the records without lingering."""
        cdef PrefixPart part
        cdef list batches = []
        self._take_changes()
        part = self._first
        while part is not None:
            if part.batch is not None:
                batches.append(part.batch)
            part = part.behind
        # This may run events of the machines.
        for batch in batches:
            if (<Batch>batch)._forward is None:
                (<Batch>batch).mark_awaited()

    def _tell(self):
        """A caller learns of the failure."""
        for read_mark in self._read_marks:
            read_mark.seen = True

    def _forget(self):
        """All records have their outcome: forget the failure, and the marks that were not reached."""
        self._tell()
        self._read_marks = []
        self._marks = []
        self._passed = 0
        self._marked = self._reached
        self._failed_after = -1
        self._failure = None

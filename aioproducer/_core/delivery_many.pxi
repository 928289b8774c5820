# The result of `send_batch`.
# Part of delivery.pyx. Uses records.pxd (ACKED, PENDING, Batch, failure_was_read) and delivery.pyx (Delivery, _resolve, locate).

# Numbers of a result stay packed until they are read: most callers only need to know whether all records were written.
cdef array.array _numbers = array.array("q")


cdef tuple where_now(Batch batch, int index):
    while batch._forward is not None and batch._forward[index] is not None:
        batch, index = batch._forward[index]
    return batch, index


cdef class BatchDelivery:
    """The outcome of the records of one `send_batch`. Await it for a `BatchResult`."""

    def __cinit__(self, topic, int total, loop):
        self.topic = topic
        self._loop = loop
        self._batches = []
        self._refused = {}
        self._ordinals = <unsigned int *>PyMem_Calloc(max(total, 1), sizeof(unsigned int))
        self._indexes = <int *>PyMem_Calloc(max(total, 1), sizeof(int))
        if self._ordinals == NULL or self._indexes == NULL:
            raise MemoryError()
        # Last: without it, the end of an incomplete object reads no record.
        self.total = total

    def __dealloc__(self):
        self._let_go()
        PyMem_Free(self._ordinals)
        PyMem_Free(self._indexes)

    cdef int _let_go(self) except -1:
        # Failed records with unread outcomes are reported, as those of single deliveries are.
        cdef int at, index
        cdef Batch batch
        # None: the garbage collector has cleared it.
        if self._seen or self._batches is None:
            return 0
        for at in range(self.total):
            if self._ordinals[at]:
                batch = self._locate(at, &index)
                batch.held -= 1
                if batch.outcome_of(index) > ACKED:
                    batch.note_unseen(1)
        return 0

    cdef int make_room(self) except -1:
        # `place` may need room for another batch after records are appended, and must not fail then.
        self._batches.append(None)
        self._has_room = True
        return 0

    cdef inline Py_ssize_t _batch_count(self) noexcept:
        return len(self._batches) - self._has_room

    cdef Py_ssize_t _add(self, Batch batch) except -1:
        # Adds a batch as the last one; returns its ordinal.
        cdef Py_ssize_t count = self._batch_count()
        if self._has_room:
            self._batches[count] = batch
            self._has_room = False
        else:
            self._batches.append(batch)
        return count + 1

    cdef int place(self, int at, Batch batch, int index) except -1:
        # Ordinal 0: not placed yet. Never fails after `make_room`, unless a task awaits this.
        cdef Py_ssize_t count = self._batch_count()
        if not count or self._batches[count - 1] is not batch:
            count = self._add(batch)
        self._ordinals[at] = <unsigned int>count
        self._indexes[at] = index
        self._placed += 1
        batch.held += 1
        if self._watchers is not None:
            self._tell_if_placed()
        return 0

    cdef int _tell_if_placed(self) except -1:
        # A task that awaits this waits first until all records have their place, or were refused.
        if self._watchers is None or self._placed + len(self._refused) < self.total:
            return 0
        watchers, self._watchers = self._watchers, None
        for future in watchers:
            _resolve(future)
        return 0

    cdef int _check(self, int at) except -1:
        if not 0 <= at < self.total:
            raise IndexError(f"record {at} of {self.total}")
        return 0

    @property
    def accepted(self):
        """The number of records with a place."""
        return self._placed

    cdef Batch _locate(self, int at, int *index):
        # A split or re-encoded batch forwards its records.
        cdef Batch batch = <Batch>self._batches[self._ordinals[at] - 1]
        cdef Batch target
        index[0] = self._indexes[at]
        if batch._forward is None:
            return batch
        target, index[0] = where_now(batch, index[0])
        if target is not batch:
            if self._batches[self._batch_count() - 1] is not target:
                self._add(target)
            self._ordinals[at] = <unsigned int>self._batch_count()
            batch.held -= 1
            target.held += 1
            self._indexes[at] = index[0]
        return target

    def done(self):
        """True when every record has its outcome."""
        return self._placed + len(self._refused) == self.total and self._first_pending() is None

    cdef object _first_pending(self):
        # Outcomes never change: settled records are not checked again.
        cdef int at, index
        cdef Batch batch
        for at in range(self._settled, self.total):
            if self._ordinals[at]:
                batch = self._locate(at, &index)
                if batch.outcome_of(index) == PENDING:
                    return batch, index
            elif at not in self._refused:
                return None
            self._settled = at + 1
        return None

    def __await__(self):
        return self._resolved().__await__()

    async def _resolved(self):
        await self._all_settled()
        return self._result(True)

    async def _all_settled(self):
        while self._placed + len(self._refused) < self.total:
            future = self._loop.create_future()
            if self._watchers is None:
                self._watchers = []
            self._watchers.append(future)
            await future
        while True:
            pending = self._first_pending()
            if pending is None:
                return
            batch, index = pending
            future = self._loop.create_future()
            (<Batch>batch).add_waiter(index, future)
            for other in self._batches[:self._batch_count()]:
                if not (<Batch>other).awaited:
                    (<Batch>other).mark_awaited()
            try:
                await future
            finally:
                batch, index = where_now(batch, index)
                (<Batch>batch).remove_waiters(index, lambda waiter: waiter is future)

    def _result(self, bint is_read):
        # ``is_read``: the program learns of the failures.
        cdef int at, outcome
        cdef Batch batch
        cdef int index
        cdef array.array offsets = array.clone(_numbers, self.total, False)
        cdef array.array partitions = array.clone(_numbers, self.total, False)
        cdef long long *offset = offsets.data.as_longlongs
        cdef long long *partition = partitions.data.as_longlongs
        cdef dict errors = dict(self._refused)
        # Many records of a batch share its error, and here they share one copy of it: see own_error().
        cdef dict copies = {}
        cdef int counts[4]
        counts[0] = counts[1] = counts[3] = 0
        counts[2] = len(errors)
        for at in range(self.total):
            offset[at] = partition[at] = -1
            if not self._ordinals[at]:
                continue
            batch = self._locate(at, &index)
            outcome = batch.outcome_of(index)
            counts[outcome] += 1
            partition[at] = batch.partition
            if outcome != ACKED:
                if is_read:
                    failure_was_read(batch)
                error = batch.error_of(index)
                copied = copies.get(id(error))
                errors[at] = copies.setdefault(id(error), _copy(error)) if copied is None else copied
            elif batch.base_offset >= 0:
                offset[at] = batch.base_offset + index
        self._seen = True
        return BatchResult(
            offsets=offsets, partitions=partitions, errors=errors,
            acked=counts[1], not_written=counts[2], unknown=counts[3],
        )

    def __repr__(self):
        return f"<BatchDelivery {self.topic}: {self._placed} of {self.total} accepted, {len(self._refused)} refused>"


# Functions that fill a bulk delivery; as functions, they are not part of its public interface.

def reserve_place(BatchDelivery many not None):
    """Make room, so that the next `adopt` needs no memory."""
    if not many._has_room:
        many.make_room()


def adopt(BatchDelivery many not None, int at, Delivery delivery not None):
    """Record ``at`` was accepted separately."""
    many._check(at)
    locate(delivery)
    many.place(at, delivery._batch, delivery._index)


def refuse_record(BatchDelivery many not None, int at, error not None):
    """Record ``at`` is not accepted."""
    many._check(at)
    if many._ordinals[at] == 0 and at not in many._refused:
        many._refused[at] = error
        many._tell_if_placed()


def batches_from(BatchDelivery many not None, int start):
    """The batches that took records, from the number ``start`` on."""
    return many._batches[start:many._batch_count()]


async def settled(BatchDelivery many not None):
    """Wait until each record has its outcome, and return the result without reading the failures for the program."""
    await many._all_settled()
    return many._result(False)


def failures_were_read(BatchDelivery many not None):
    """The program has learned of the failures of a call whose records have their outcome."""
    many._result(True)

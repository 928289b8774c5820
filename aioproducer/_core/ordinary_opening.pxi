# The opening, closing and end of a batch, and the readiness of its partition.
# Part of ordinary.pyx. Uses ordinary_states.pxi (BatchState, EventEffects, PartitionState) and ordinary_sequences.pxi.

cdef class OrdinaryDeadlines:
    """The times at which the batches of `live` become due, and at which partitions stop lingering."""

    cdef readonly EventEffects effects
    # All batches that have no outcome, in the order in which they were opened.
    cdef readonly dict live
    # Replacements of batches: they joined `live` later than batches that were opened after them.
    cdef readonly dict replacements
    # The batches whose records have the common delivery time, oldest first. The deadlines of the others are in `heap`.
    cdef readonly Ages aging
    cdef readonly object heap
    # The ends of lingers, earliest first: all are equally long, so that no heap is needed to sort them.
    cdef readonly object lingers

    def __init__(self, EventEffects effects not None, dict live not None, heap):
        self.effects = effects
        self.live = live
        self.replacements = {}
        self.aging = Ages()
        self.heap = heap
        self.lingers = deque()

    cdef int linger(self, PartitionState queue, double until) except -1:
        # The first batch of this partition lingers until then.
        cdef Py_ssize_t count = len(self.lingers)
        if not count:
            self.effects.note_time(until)
        elif until < <double>self.lingers[count - 1][0]:
            # It was opened while an older batch of its partition was in front of it.
            self.effects.note_time(until)
            self.heap.add(until, queue)
            return 0
        _append(self.lingers, (until, queue))
        return 0


cdef class OrdinaryMaker:
    """Makes the next batch of a partition."""

    cdef readonly object limits
    cdef readonly object ratios
    # The number of batches that were opened.
    cdef public long long opened
    cdef readonly BatchSettings _settings
    cdef public object batch_type
    cdef Py_ssize_t _size
    cdef int _codec
    cdef double _linger
    cdef bint _linger_awaited

    def __init__(self, batch_type, limits, ratios, BatchSettings settings not None):
        self.batch_type = batch_type
        self.limits = limits
        self.ratios = ratios
        self._settings = settings
        self._size = limits.batch_size
        self._codec = limits.codec
        self._linger = limits.linger
        self._linger_awaited = limits.linger_awaited

    cdef BatchState new(self, PartitionState queue, double now, Py_ssize_t expected, bint awaited, object gap):
        cdef BatchState batch
        cdef str topic = queue.topic.name
        cdef Py_ssize_t limit = self._size
        # A first record that is awaited waits for no others, unless the setting says so. Not `now`: the clock of an event loop
        # may be behind, as that of uvloop, which counts milliseconds and stands still during a turn.
        cdef double linger_at = -INFINITY if awaited and not self._linger_awaited else now + self._linger
        if self._codec:
            limit = self.ratios.plain_limit(topic, self._codec, limit, HEADER)
        if gap is not None:
            # Behind a gap each record has a batch of its own: the loss may be noticed before the next record is sent.
            limit, expected = 1, 0
        awaited = awaited or self._linger_awaited
        batch = self.batch_type(topic, queue.index, limit, self._settings, now, queue, queue.share, awaited, expected)
        self.opened += 1
        batch.set_facts(self.opened, (), linger_at, gap)
        return batch


cdef class OrdinaryAccumulator:
    """The open batch of each partition, and the partitions that are ready to be sent."""

    cdef readonly EventEffects effects
    cdef readonly OrdinarySequences sequences
    # All batches that have no outcome, in the order in which they were opened.
    cdef readonly dict live
    cdef readonly dict lingering
    cdef public bint never_lingers
    # Records and bytes in flight that have no outcome.
    cdef public long long records_in_flight
    cdef public long long bytes_in_flight
    cdef public OrdinaryDeadlines deadlines
    cdef public OrdinaryMaker maker
    cdef int _codec
    # The longest time until a new batch is looked at, if it is the only one.
    cdef double _first_look

    def __init__(self, limits, OrdinarySequences sequences not None, EventEffects effects not None, double pulse):
        self.effects = effects
        self.sequences = sequences
        self.live = {}
        self.lingering = {}
        self.never_lingers = limits.linger <= 0
        self._codec = limits.codec
        self._first_look = min(<double>limits.delivery_timeout, pulse)

    # -- opening batches

    def roll(self, PartitionState queue not None, double now, bint awaited=False):
        """Close the open batch of a partition and open the next, which may be awaited from the beginning."""
        self.open_as_event(queue, now, awaited)

    cdef int open_as_event(self, PartitionState queue, double now, bint awaited) except -1:
        cdef EventEffects effects = self.effects
        if effects.under_way:
            return self._roll(queue, now, awaited)
        effects.under_way = True
        try:
            self._roll(queue, now, awaited)
        finally:
            try:
                if effects.has_any():
                    effects.perform()
            finally:
                effects.under_way = False
        return 0

    cdef int _roll(self, PartitionState queue, double now, bint awaited) except -1:
        cdef Batch closed = queue.open
        cdef BatchState batch
        # A batch that was closed because it is full will have one like it behind it.
        cdef Py_ssize_t expected = 0 if closed is None or 2 * closed.byte_count() < closed.limit else closed.limit
        queue.topic.used_at = now
        gap = None if queue.gap is None else self._gap_before_next(queue)
        batch = self.maker.new(queue, now, expected, awaited, gap)
        try:
            self._open(queue, batch, now)
        except BaseException:
            # There was no memory for its entries: it is removed from all of them.
            self._take_back(queue, batch, closed)
            raise
        return 0

    cdef int _open(self, PartitionState queue, BatchState batch, double now) except -1:
        cdef Batch closed = queue.open
        cdef Ages aging = self.deadlines.aging
        cdef bint is_first = not aging
        self.live[batch] = None
        aging.append(batch)
        _append(queue.queue, batch)
        queue.open = batch
        if self.sequences._in_transactions:
            _append(self.effects.opened, queue)
        if closed is not None:
            self._close(<BatchState?>closed)
        self.look_at(queue, now)
        if is_first:
            self.effects.note_time(now + self._first_look)
        if batch.gap is not None:
            self.deadlines.set_alarm(batch, now)
        return 0

    def unroll(self, PartitionState queue not None):
        """Remove the open batch of a partition: its first record could not be appended."""
        self._take_back(queue, <BatchState?>queue.open, None)

    cdef int _take_back(self, PartitionState queue, BatchState batch, Batch before) except -1:
        cdef Py_ssize_t count = len(queue.queue)
        queue.open = None if before is None or before.closed else before
        if count and queue.queue[count - 1] is batch:
            queue.queue.pop()
        self.live.pop(batch, None)
        leave_line(&batch.age)
        self._stop_lingering(queue)
        # Any remaining reference to it finds an ended batch.
        batch.forward([])
        return 0

    def close(self, BatchState batch not None):
        """The batch takes no more records, and is compressed if a codec is set."""
        self._close(batch)

    cdef int _close(self, BatchState batch) except -1:
        if batch.closed and (batch.sealing or batch.sealed):
            return 0
        batch.closed = True
        batch.plain_size = batch.byte_count()
        if self._codec:
            _append(self.effects.closed, batch)
            batch.sealing = True
        else:
            batch.sealed = True
        return 0

    # -- readiness

    def update_readiness(self, PartitionState queue not None, double now):
        """Put a partition into its broker's ready queue if it has something that may leave now."""
        self.look_at(queue, now)

    cdef int look_at(self, PartitionState queue, double now) except -1:
        cdef BatchState batch
        if queue.is_ready or not len(queue.queue):
            return 0
        batch = <BatchState?>queue.queue[0]
        if now < batch.linger_at and not self._is_due(queue, batch):
            if not queue.lingers:
                if not queue.has_alarm:
                    # One alarm per partition: if it is too early for the batch that lingers then, it is set again.
                    self.deadlines.linger(queue, batch.linger_at)
                    queue.has_alarm = True
                self.lingering[queue] = None
                queue.lingers = True
        elif self._may_leave(queue, batch, now):
            self._make_ready(queue, now)
        return 0

    cdef int _make_ready(self, PartitionState queue, double now) except -1:
        cdef NodeState node = queue.node
        if not len(node.ready) or node.wakeup is None:
            # First: if there is no memory for the effect, the next look finds the queue as it was. A sender that was woken
            # for another partition does not sleep before none is ready.
            self.effects.nodes[node] = None
        if not len(node.ready):
            node.waiting_since = now
        _append(node.ready, queue)
        queue.is_ready = True
        return 0

    def is_sendable(self, PartitionState queue not None, double now):
        """Whether the first batch of the partition may leave now."""
        return self.has_sendable(queue, now)

    cdef bint has_sendable(self, PartitionState queue, double now) except -1:
        cdef BatchState batch
        if not len(queue.queue):
            return False
        batch = <BatchState?>queue.queue[0]
        return (now >= batch.linger_at or self._is_due(queue, batch)) and self._may_leave(queue, batch, now)

    cdef bint _is_due(self, PartitionState queue, BatchState batch) except -1:
        # Whether the batch leaves before the end of its linger.
        return batch.urgent or self.never_lingers or len(queue.queue) > 1 or batch.closed or queue.share.waiting > 0

    cdef bint _may_leave(self, PartitionState queue, BatchState batch, double now) except -1:
        # Whether a batch that is due may leave now: its leader is known, its bytes are final, and no other goes before it.
        cdef int node_id = queue.node.node_id
        if node_id == NO_LEADER or batch.sealing or (batch.gap is not None and not batch.attempts):
            return False
        # KIP-951: a new leader is tried at once, without the backoff.
        if now < batch.retry_at and batch.retry_leader == node_id:
            return False
        return self.sequences.may_leave(queue, batch, now)

    # -- the ends of lingers

    def on_timer(self, PartitionState queue not None, double now):
        """An alarm of this partition is due, the end of a linger or of a backoff; True: its batch may leave for the first time."""
        return self._end_alarm(queue, now)

    cdef bint _end_alarm(self, PartitionState queue, double now) except -1:
        queue.has_alarm = False
        self._stop_lingering(queue)
        self.look_at(queue, now)
        # Without a batch it is in the ready queue for one that has ended. The end of a backoff ends no lingers: brokers that
        # refuse would make the batches of all others small.
        return queue.is_ready and len(queue.queue) > 0 and not (<BatchState?>queue.queue[0]).attempts

    def end_lingers(self, double now):
        """Process all lingers that are over; True: a batch may leave."""
        cdef object lingers = self.deadlines.lingers
        cdef bint leaves = False
        while len(lingers) and <double>lingers[0][0] <= now:
            if self._end_alarm(<PartitionState?>_popleft(lingers)[1], now):
                leaves = True
        return leaves

    def cut_lingers(self, double now):
        """A batch leaves whose linger is over: with it leave all batches that linger.

        Otherwise each of many partitions with few records would have a request of its own.
        """
        cdef object lingers = self.deadlines.lingers
        cdef PartitionState queue
        cdef BatchState batch
        while len(lingers):
            queue = <PartitionState?>_popleft(lingers)[1]
            batch = <BatchState?>queue.queue[0] if len(queue.queue) else None
            if batch is None or queue.is_ready:
                # The batch has left.
                self._end_alarm(queue, now)
                continue
            queue.has_alarm = False
            self._stop_lingering(queue)
            if now < batch.linger_at:
                batch.linger_at = now
            # Whether it may leave is decided where it is drained, as for all that is ready. Without a leader it leaves when
            # there is one: an alarm for the rest of its linger would be due in this loop again, without end.
            if queue.node.node_id != NO_LEADER:
                self._make_ready(queue, now)

    # -- all batches

    def _look_at_all(self, double now):
        """Check every partition with buffered records."""
        cdef dict queues = {}
        cdef BatchState batch
        cdef PartitionState queue
        for batch in self.live:
            queues[queue_of(batch)] = None
        for queue in queues:
            self.look_at(queue, now)

    def _end_all_lingers(self):
        """No batch with records lingers any longer."""
        cdef BatchState batch
        for batch in self.live:
            if batch.pending:
                batch.urgent = True

    # -- leaving

    def detach(self, PartitionState queue not None, BatchState batch not None):
        """The batch takes no more records: the next record opens another."""
        self._detach(queue, batch)

    cdef int _detach(self, PartitionState queue, BatchState batch) except -1:
        if queue.open is batch:
            queue.open = None
        self._stop_lingering(queue)
        return 0

    cdef int _stop_lingering(self, PartitionState queue) except -1:
        if queue.lingers:
            queue.lingers = False
            self.lingering.pop(queue, None)
        return 0

    def retire(self, BatchState batch not None):
        """Drop a batch whose records all have their outcome, or are in other batches."""
        self._retire(batch)

    cdef int _retire(self, BatchState batch) except -1:
        cdef OrdinaryDeadlines deadlines = self.deadlines
        cdef Py_ssize_t charged
        self.live.pop(batch, None)
        leave_line(&batch.age)
        if batch.alarms:
            deadlines.drop_alarms(batch)
        if deadlines.replacements:
            deadlines.replacements.pop(batch, None)
        charged = batch.charged
        batch.charged = 0
        if batch.in_flight:
            self.bytes_in_flight -= charged
        (<MemoryShare?>batch.share).take(-charged)
        return 0

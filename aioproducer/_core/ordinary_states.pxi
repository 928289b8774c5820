# The state of batches, partitions and brokers, and the effects of an event.
# Part of ordinary.pyx. Uses accept.pxd (MemoryShare, Partition, Topic) and records.pxd (Batch, owner_of).

cdef class OrdinaryAccumulator


# The place of a batch in a line of batches.
cdef struct AgePlace:
    AgePlace *older
    AgePlace *newer
    PyObject *batch


cdef class BatchState(Batch):
    """A batch, with the facts about its attempts."""

    # Its place in `Ages`; null pointers while it has none.
    cdef AgePlace age
    # It was the nth batch that was opened; `parts` is empty, or says which part of that batch this one is.
    cdef readonly long long number
    cdef readonly tuple parts
    cdef public double linger_at
    # In gapless mode: a record before these was lost, so that they end as soon as they are proven not written.
    cdef public object gap
    cdef public bint urgent
    # The earliest entry of this batch in the heap of deadlines.
    cdef public double watched_until
    # How many entries it has there.
    cdef public int alarms
    cdef public bint sealing
    cdef public bint sealed
    cdef public Py_ssize_t plain_size
    cdef public int attempts
    cdef public bint dirty
    cdef public bint in_flight
    # False while the result of an attempt is processed: an exception there leaves the outcome unknown.
    cdef public bint judged
    cdef public double retry_at
    cdef public int retry_leader
    cdef public object last_error
    cdef public tuple identity
    cdef public long long sequence
    # The record that was acknowledged last when the first attempt was made; no such record: -1.
    cdef public long long anchor_offset
    cdef public tuple anchor_identity
    cdef public long long anchor_sequence
    # It was the nth batch of its partition that was given numbers.
    cdef public long long nth
    # The id of the topic that the newest attempt was for; zeros where requests name topics.
    cdef public bytes sent_to
    # The parts of flushes that wait for it; None if none does.
    cdef list _flushes

    def __dealloc__(self):
        leave_line(&self.age)

    def begin(self, tuple order not None, double linger_at, gap):
        """Set all facts."""
        self.set_facts(order[0], order[1:], linger_at, gap)

    @property
    def order(self):
        """Its place in the order of batches: the parts of a split batch are ordered below their parent's number."""
        return (self.number, *self.parts)

    @property
    def flushes(self):
        """The parts of flushes that wait for records of it."""
        return () if self._flushes is None else self._flushes

    @flushes.setter
    def flushes(self, list parts not None):
        self._flushes = parts or None

    def add_flush(self, part not None):
        """A flush waits for this part of it."""
        if self._flushes is None:
            self._flushes = [part]
        else:
            self._flushes.append(part)

    cdef int set_facts(self, long long number, tuple parts, double linger_at, object gap) except -1:
        # A fact that is not named here is 0, False or None.
        self.number = number
        self.parts = parts
        self.linger_at = linger_at
        self.gap = gap
        if gap is not None:
            self.read_mark = gap
        self.watched_until = INFINITY
        self.judged = True
        self.retry_leader = NO_LEADER
        self.sequence = -1
        self.sent_to = _no_topic_id
        self.anchor_offset = -1
        return 0

    cdef bint is_behind(self, long long number, tuple parts) except -1:
        # Whether it comes after the batch with this number and these parts.
        if self.number != number or (not self.parts and not parts):
            return self.number > number
        return self.parts > parts


cdef bytes _no_topic_id = bytes(16)


cdef bint leave_line(AgePlace *place) noexcept:
    # Whether the place was in a line.
    if place.older == NULL:
        return False
    place.older.newer = place.newer
    place.newer.older = place.older
    place.older = place.newer = NULL
    return True


@cython.final
cdef class Ages:
    """A line of batches, oldest first. A batch leaves it from any place, without a search.

    It holds no references, which others have: a batch that is freed leaves it.
    """

    # The place before the oldest, which is also the place behind the newest.
    cdef AgePlace _ends

    def __cinit__(self):
        self._ends.older = self._ends.newer = &self._ends

    def __dealloc__(self):
        while self._ends.newer != &self._ends:
            leave_line(self._ends.newer)

    def add(self, BatchState batch not None):
        """The batch becomes the newest."""
        self.append(batch)

    cdef int append(self, BatchState batch) except -1:
        cdef AgePlace *place = &batch.age
        if place.older != NULL:
            raise ValueError(f"{batch!r} has its place already")
        place.batch = <PyObject *>batch
        place.older, place.newer = self._ends.older, &self._ends
        place.older.newer = place.newer.older = place
        return 0

    def discard(self, BatchState batch not None):
        """The batch leaves the line; returns whether it was there."""
        return leave_line(&batch.age)

    def __contains__(self, BatchState batch not None):
        return batch.age.older != NULL

    def __bool__(self):
        return self._ends.newer != &self._ends

    def oldest(self):
        """The oldest batch, None if there is none."""
        return <object>self._ends.newer.batch if self else None

    def overdue(self, double now):
        """The batches whose first record has had the common delivery time."""
        cdef list found = []
        cdef AgePlace *place = self._ends.newer
        cdef BatchState batch
        while place != &self._ends:
            batch = <BatchState>place.batch
            if batch.opened_at + batch.delivery_timeout > now:
                break
            found.append(batch)
            place = place.newer
        return found


cdef class NodeState:
    """The ready partitions of one broker, and its share of the memory."""

    cdef readonly int node_id
    cdef readonly MemoryShare share
    cdef readonly object ready
    # The time since which partitions are ready and no request was sent.
    cdef public double waiting_since
    # Wakes the sender of the broker; None before the sender exists.
    cdef public object wakeup
    # The reason why the sender has no connection, if there is one.
    cdef public object trouble

    def __init__(self, int node_id, MemoryShare share not None):
        self.node_id = node_id
        self.share = share
        self.ready = deque()


cdef class PartitionState(Partition):
    """One partition: its batches, and its sequence numbers."""

    cdef readonly OrdinaryAccumulator accumulator
    cdef public NodeState node
    cdef readonly object queue
    cdef readonly list sent
    cdef public int in_flight
    cdef public bint is_ready
    cdef public bint has_alarm
    # It is in `lingering` of the accumulator.
    cdef bint lingers
    cdef public tuple identity
    cdef public long long next_sequence
    # The number of batches that were given sequence numbers.
    cdef public long long numbered
    # The same number when the topic was recreated.
    cdef public long long numbered_before
    # When a batch of this producer id was last acknowledged: the leader knew then which number comes next.
    cdef public double confirmed_at
    # The sequence has a gap that no batch will fill: only a new epoch goes on from here.
    cdef public bint broken
    # The offset after the last record that was acknowledged.
    cdef public long long end_offset
    # The last record of the newest batch that was acknowledged with an offset; no such record: -1.
    cdef public long long anchor_offset
    cdef tuple _anchor_identity
    cdef long long _anchor_sequence
    # The place in the order of the newest batch that was acknowledged.
    cdef long long _newest_acked
    cdef tuple _newest_parts
    # Repeated before the batches that were sent before it, see Sequences.newer_in_doubt().
    cdef public object ahead
    # In gapless mode: the loss that was not noticed yet, and the time of the last loss.
    cdef public object gap
    cdef public double lost_at

    def __init__(self, Topic topic not None, int index, NodeState node not None, MemoryShare share not None,
                 OrdinaryAccumulator accumulator not None):
        Partition.__init__(self, topic, index, share)
        self.accumulator = accumulator
        self.node = node
        self.queue = deque()
        self.sent = []
        self.confirmed_at = self.lost_at = -INFINITY
        self.anchor_offset = self._newest_acked = -1
        self._newest_parts = ()

    cpdef roll(self, double now, bint awaited):
        """Close the open batch and open the next; called by the fast path when a record does not fit."""
        self.accumulator.open_as_event(self, now, awaited)


cdef inline PartitionState queue_of(Batch batch):
    return <PartitionState?>owner_of(batch)


cdef class EventEffects:
    """The effects of one event, or of several."""

    # Performs the effects. Events that begin in the compiled core have no other caller that could.
    cdef public object perform
    # True from the begin of the outermost event until its effects are performed.
    cdef public bint under_way
    # Memory was freed, last in this share: waiting calls may have room.
    cdef public bint has_room
    cdef public MemoryShare room_of
    # Brokers whose queue has a batch to send.
    cdef public dict nodes
    # The earliest time at which something becomes due.
    cdef public double wake_at
    # Batches to compress.
    cdef public object closed
    # In transactions: partitions for which a batch was opened.
    cdef public object opened
    # Errors of accepted records that are lost, or whose fate is unknown.
    cdef public object losses
    # A batch was refused for a reason that only the coordinator knows.
    cdef public bint in_doubt
    # Completed flushes.
    cdef public object flushed
    # A flush has an error, as there was no memory to track a record.
    cdef public bint flush_without_memory
    # Topics: the metadata is out of date; calls wait for the metadata; the leader does not know the topic's id.
    cdef public dict stale
    cdef public dict wanted
    cdef public object refused_ids
    # The last epoch of the producer id is in use.
    cdef public bint identity_exhausted
    # The last waiting call has ended.
    cdef public bint call_ended_last
    cdef public object reports
    # Set once: listeners want a report of each outcome of a batch.
    cdef public bint reports_outcomes

    def __cinit__(self):
        self.nodes = {}
        self.wake_at = INFINITY
        self.closed = deque()
        self.opened = deque()
        self.losses = deque()
        self.flushed = deque()
        self.stale = {}
        self.wanted = {}
        self.refused_ids = deque()
        self.reports = deque()

    # Attributes and not methods: Python runs no signal handler before or after them.

    @property
    def may_end_records(self):
        """True when there are effects for transactions, or batches to compress: these may end records."""
        return self._may_end_records()

    @property
    def is_rare(self):
        """True when there are effects that most events do not have, beside `may_end_records`."""
        return self._is_rare()

    @property
    def is_empty(self):
        """True when nothing is left to perform."""
        return not self.has_any()

    cdef bint _may_end_records(self) except -1:
        return self.in_doubt or len(self.opened) > 0 or len(self.losses) > 0 or len(self.closed) > 0

    cdef bint _is_rare(self) except -1:
        return (self.call_ended_last or self.identity_exhausted or self.flush_without_memory
                or len(self.stale) > 0 or len(self.wanted) > 0
                or len(self.reports) > 0 or len(self.flushed) > 0 or len(self.refused_ids) > 0)

    cdef bint has_any(self) except -1:
        return (self.has_room or self.wake_at != INFINITY or len(self.nodes) > 0
                or self._may_end_records() or self._is_rare())

    def wake_by(self, double due):
        """This time is a deadline."""
        self.note_time(due)

    cdef inline void note_time(self, double due) noexcept:
        if due < self.wake_at:
            self.wake_at = due

    def room(self, MemoryShare share=None):
        """Memory was freed (in this share)."""
        self.has_room = True
        self.room_of = share

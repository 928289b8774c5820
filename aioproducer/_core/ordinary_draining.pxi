# The batches of the next request to a broker.
# Part of ordinary.pyx. Uses ordinary_states.pxi, ordinary_sequences.pxi and ordinary_opening.pxi (OrdinaryAccumulator).

cdef class OrdinaryDrainer:
    """Takes batches out of the ready queue of a broker."""

    cdef readonly OrdinaryAccumulator accumulator
    cdef readonly EventEffects effects
    cdef readonly OrdinarySequences sequences
    # True while the batches of a request are chosen: no record can be withdrawn, not by a finalizer or a signal handler either.
    cdef readonly bint is_draining
    cdef Budget _budget
    cdef public Py_ssize_t max_request_size

    def __init__(self, OrdinaryAccumulator accumulator not None, Budget budget not None, Py_ssize_t max_request_size):
        self.accumulator = accumulator
        self.effects = accumulator.effects
        self.sequences = accumulator.sequences
        self._budget = budget
        self.max_request_size = max_request_size

    def drain(self, NodeState node not None, double now):
        """The batches of one request: one per ready partition, in turn, up to `max_request_size`."""
        cdef Py_ssize_t used = self._budget.used
        cdef list taken
        self.is_draining = True
        try:
            taken = self._drained(node, now)
        finally:
            self.is_draining = False
        node.waiting_since = now
        if self._budget.used < used:
            # Withdrawn records were left out only now.
            self.effects.room(node.share)
        return taken

    cdef list _drained(self, NodeState node, double now):
        cdef list taken = []
        cdef Py_ssize_t size = 0
        cdef object ready = node.ready
        cdef PartitionState queue
        cdef BatchState batch
        for _ in range(len(ready)):
            queue = <PartitionState?>ready[0]
            batch = self._head_to_send(queue, now)
            if batch is not None:
                size += batch.byte_count()
                if taken and size > self.max_request_size:
                    break
                self._take(queue, batch, now)
                taken.append(batch)
            _popleft(ready)
            queue.is_ready = False
            if len(queue.queue):
                self.accumulator.look_at(queue, now)
        return taken

    cdef BatchState _head_to_send(self, PartitionState queue, double now):
        cdef OrdinaryAccumulator accumulator = self.accumulator
        cdef BatchState batch
        if not accumulator.has_sendable(queue, now):
            return None
        batch = <BatchState?>queue.queue[0]
        if not batch.sealed:
            accumulator._detach(queue, batch)
            accumulator._close(batch)
            if batch.sealing:
                return None
        if batch._individual is not None and not batch.attempts:
            batch = self._rewritten(queue, batch)
        return batch

    cdef int _take(self, PartitionState queue, BatchState batch, double now) except -1:
        cdef OrdinaryAccumulator accumulator = self.accumulator
        _popleft(queue.queue)
        accumulator._stop_lingering(queue)
        self.sequences.give_place(queue, batch)
        batch.attempts += 1
        batch.in_flight = True
        accumulator.records_in_flight += batch.pending
        accumulator.bytes_in_flight += batch.charged
        # Set here and not when it fails: the answer may name the next leader, which is tried at once.
        batch.retry_leader = queue.node.node_id
        queue.in_flight += 1
        if batch.drained_at != batch.drained_at:  # NaN: drained for the first time
            batch.drained_at = now
            batch.anchor_offset = queue.anchor_offset
            batch.anchor_identity = queue._anchor_identity
            batch.anchor_sequence = queue._anchor_sequence
        return 0

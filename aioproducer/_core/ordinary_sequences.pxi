# The sequence numbers of a partition whose sequence is whole.
# Part of ordinary.pyx. Uses ordinary_states.pxi (BatchState, PartitionState).

cdef class OrdinarySequences:
    """Gives numbers to batches, and takes note of their end."""

    cdef public tuple _identity
    # Computes the CRC-32C of a batch.
    cdef public object checksum
    cdef bint _in_transactions

    def __init__(self, checksum):
        self.checksum = checksum
        self._in_transactions = self.transactional

    cdef bint may_leave(self, PartitionState queue, BatchState batch, double now) except -1:
        # Nothing of the partition is under way, its sequence is whole, and its leader has to know no partition in
        # advance: the general rule would allow it as well.
        if (not self._in_transactions and self._identity is not None and batch.sequence < 0 and not queue.sent
                and queue.identity is not None and not queue.broken):
            return True
        return self.may_send(queue, batch, now)

    cdef int give_place(self, PartitionState queue, BatchState batch) except -1:
        if batch.sequence < 0 and queue.identity is not None and queue.identity is self._identity and not queue.broken:
            return self.number_next(queue, batch)
        self.give(queue, batch)
        return 0

    def _number_next(self, PartitionState queue not None, BatchState batch not None):
        """Give the batch the next place in the sequence, and write its header."""
        self.number_next(queue, batch)

    cdef int number_next(self, PartitionState queue, BatchState batch) except -1:
        self.number(queue, batch)
        queue.numbered += 1
        batch.nth = queue.numbered
        queue.sent.append(batch)
        return 0

    def _number(self, PartitionState queue not None, BatchState batch not None):
        """Give the batch the next numbers, and write its header."""
        self.number(queue, batch)

    cdef int number(self, PartitionState queue, BatchState batch) except -1:
        cdef long long sequence = queue.next_sequence
        # Never None: may_send() refused before.
        producer_id, epoch = queue.identity
        batch.identity = queue.identity
        batch.sequence = sequence
        queue.next_sequence = (sequence + batch.record_count) % SEQUENCE_MODULUS
        return batch.write_header(producer_id, epoch, sequence, self.checksum, self._in_transactions)

    def acknowledged(self, PartitionState queue not None, BatchState batch not None, double now):
        """The batch is in the log: in that of the former topic perhaps, which says nothing about the present one."""
        self.note_acknowledged(queue, batch, now)

    cdef int note_acknowledged(self, PartitionState queue, BatchState batch, double now) except -1:
        cdef bint known = self.forget_batch(queue, batch) and batch.nth > queue.numbered_before
        if known and (batch.identity is queue.identity or batch.identity == queue.identity):
            queue.confirmed_at = now
            queue.broken = queue.broken and not self._runs_on(queue, batch)
        return 0

    def _forget(self, PartitionState queue not None, BatchState batch not None):
        """The batch has an outcome; returns whether it had a place in the sequence."""
        return self.forget_batch(queue, batch)

    cdef bint forget_batch(self, PartitionState queue, BatchState batch) except -1:
        cdef list sent = queue.sent
        cdef Py_ssize_t at
        if batch.sequence >= 0:
            for at in range(len(sent)):
                if sent[at] is batch:
                    del sent[at]
                    return True
        return False

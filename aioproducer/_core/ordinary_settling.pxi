# The end of a batch that was written.
# Part of ordinary.pyx. Uses ordinary_states.pxi, ordinary_flushing.pxi, ordinary_counts.pxi, ordinary_sequences.pxi and ordinary_opening.pxi.

cdef class OrdinaryOutcomes:
    """Gives the records of a written batch their outcome, and frees its memory."""

    cdef readonly OrdinaryAccumulator accumulator
    cdef readonly EventEffects effects
    cdef readonly OrdinarySequences sequences
    cdef readonly OrdinaryTally tally
    # Of a transactional producer.
    cdef readonly object transaction
    # Seconds from the opening of a batch to its end after which the log gives the reason.
    cdef double _slow

    def __init__(self, OrdinaryAccumulator accumulator not None, OrdinaryTally tally not None, transaction, double slow):
        self.accumulator = accumulator
        self.effects = accumulator.effects
        self.sequences = accumulator.sequences
        self.tally = tally
        self.transaction = transaction
        self._slow = slow

    def acknowledge(self, BatchState batch not None, long long base_offset, long long log_append_time, double now):
        """Every record of the batch that has no outcome yet is written."""
        self.acknowledge_batch(batch, base_offset, log_append_time, now)

    cdef int acknowledge_batch(self, BatchState batch, long long base_offset, long long log_append_time,
                               double now) except -1:
        cdef PartitionState queue = queue_of(batch)
        cdef EventEffects effects = self.effects
        cdef Py_ssize_t size = batch.byte_count()
        cdef int count
        cdef list flushed = None
        contexts = self._contexts_of(batch) if effects.reports_outcomes else ()
        count = batch.acknowledge_all(base_offset, log_append_time)
        if batch.in_flight:
            self.accumulator.records_in_flight -= count
        self.sequences.note_acknowledged(queue, batch, now)
        self.tally.count_acknowledged(batch, count, size, now)
        if count and self.transaction is not None:
            self.transaction.parts.opened = True
        if batch._flushes is not None:
            flushed = batch_written(batch)
        self._note_offset(queue, batch, base_offset, now)
        self._end_batch(batch)
        if flushed:
            effects.flushed.extend(flushed)
        if effects.reports_outcomes and count:
            self._report_outcome(batch, count, size, now, contexts)
        if batch.last_error is not None or now - batch.opened_at >= self._slow:
            self._report_the_end(batch, count, None, now)
        return 0

    cdef int _note_offset(self, PartitionState queue, BatchState batch, long long base_offset, double now) except -1:
        cdef long long expected, end, last
        if batch.sent_to != queue.topic.topic_id and self._was_sent_to_the_former_topic(batch):
            return 0
        # A batch may be written before earlier batches and acknowledged after them.
        if batch.is_behind(queue._newest_acked, queue._newest_parts):
            queue._newest_acked = batch.number
            queue._newest_parts = batch.parts
            expected = queue.end_offset
            if 0 <= base_offset < expected:
                queue.end_offset = base_offset
                self._offset_went_back(batch, base_offset, expected, now)
        end = base_offset + batch.record_count
        if end > queue.end_offset and base_offset >= 0:
            queue.end_offset = end
            # An acknowledged batch that was never sent again under its newest numbers has none in the log.
            last = (batch.sequence + batch.record_count - 1) % SEQUENCE_MODULUS
            queue.anchor_offset = end - 1
            queue._anchor_identity = batch.identity
            queue._anchor_sequence = last
        return 0

    def _end(self, BatchState batch not None):
        """The batch has its outcome: its memory returns."""
        self._end_batch(batch)

    cdef int _end_batch(self, BatchState batch) except -1:
        self.accumulator._retire(batch)
        self.effects.has_room = True
        self.effects.room_of = batch.share
        return 0


cdef class OrdinarySettlement:
    """Settles a batch that its broker has written."""

    cdef readonly OrdinaryOutcomes outcomes
    cdef readonly OrdinaryAccumulator accumulator

    def __init__(self, OrdinaryOutcomes outcomes not None):
        self.outcomes = outcomes
        self.accumulator = outcomes.accumulator

    def written(self, BatchState batch not None, long long base_offset, long long log_append_time, double now):
        """The broker has written this batch. Nearly all answers say so."""
        self.write(batch, base_offset, log_append_time, now)

    cdef int write(self, BatchState batch, long long base_offset, long long log_append_time, double now) except -1:
        cdef PartitionState queue = queue_of(batch)
        cdef bint ahead = queue.ahead is batch
        self._land(queue, batch, now)
        if not batch.has_ended():
            if ahead:
                self._acknowledge_older(queue, batch, base_offset, now)
            if batch.attempts > 1:
                log_append_time = self._append_time(batch, log_append_time)
            self.outcomes.acknowledge_batch(batch, base_offset, log_append_time, now)
        batch.judged = True
        if len(queue.queue):
            self.accumulator.look_at(queue, now)
        return 0

    def settle_topics(self, topics, dict names not None, Py_ssize_t topic_at, Py_ssize_t at, dict waiting not None,
                      double now):
        """Settle the batches that an answer says were written, from these places of a topic and a partition in it on.

        `names` has the names of topics by their ids. Returns the places of the first partition that the answer says something
        else of, or for which no batch waits; the number of topics and 0 behind the last one.
        """
        cdef Py_ssize_t end = len(topics)
        while topic_at < end:
            name, topic_id, partitions = <tuple>topics[topic_at]
            at = self._settle_topic(names.get(topic_id, name) if names else name, partitions, at, waiting, now)
            if at < len(partitions):
                return topic_at, at
            topic_at += 1
            at = 0
        return topic_at, 0

    cdef Py_ssize_t _settle_topic(self, object name, object partitions, Py_ssize_t at, dict waiting, double now) except -1:
        cdef Py_ssize_t end = len(partitions)
        while at < end:
            index, code, base_offset, append_time, _, _, _, leader = <tuple>partitions[at]
            # As a plain tuple: asking a named one for an item costs a call.
            if code or (<tuple>leader)[0] >= 0:
                break
            batch = waiting.pop((name, index), None)
            if batch is None:
                break
            self.write(<BatchState?>batch, base_offset, append_time, now)
            at += 1
        return at

    def _landed(self, PartitionState queue not None, BatchState batch not None, double now):
        """An attempt is over, with an answer or without."""
        self._land(queue, batch, now)

    cdef int _land(self, PartitionState queue, BatchState batch, double now) except -1:
        cdef OrdinaryAccumulator accumulator = self.accumulator
        batch.judged = False
        batch.answered_at = now
        batch.in_flight = False
        accumulator.records_in_flight -= batch.pending
        accumulator.bytes_in_flight -= batch.charged
        queue.in_flight -= 1
        if queue.ahead is batch:
            queue.ahead = None
        return 0

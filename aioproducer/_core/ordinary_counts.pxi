# The counts of sent and written batches.
# Part of ordinary.pyx. Uses distribution.pxd (Distribution) and ordinary_states.pxi (BatchState).

@cython.final
cdef class TopicCounts:
    """The counters of one topic."""

    cdef public long long acked
    cdef public long long acked_bytes
    cdef public long long failed
    cdef public long long retried
    cdef public long long batches


cdef class OrdinaryTally:
    """The counts of requests, and of batches that were written."""

    cdef public long long acked
    cdef public long long acked_bytes
    cdef public long long batches
    cdef public long long requests
    cdef public object last_ack
    # A dictionary that makes the counts of a topic.
    cdef readonly object topics
    cdef readonly Distribution queue_time
    cdef readonly Distribution request_time
    cdef readonly Distribution delivery_time
    cdef readonly Distribution batch_records
    cdef readonly Distribution batch_size

    def __init__(self, topics, Distribution queue_time not None, Distribution request_time not None,
                 Distribution delivery_time not None, Distribution batch_records not None,
                 Distribution batch_size not None):
        self.topics = topics
        self.queue_time = queue_time
        self.request_time = request_time
        self.delivery_time = delivery_time
        self.batch_records = batch_records
        self.batch_size = batch_size

    cdef TopicCounts _counts_of(self, str topic):
        cdef PyObject *found = PyDict_GetItemWithError(self.topics, topic)
        return <TopicCounts?>self.topics[topic] if found == NULL else <TopicCounts?><object>found

    def sent(self, list batches not None):
        """A request with these batches leaves."""
        cdef BatchState batch
        cdef TopicCounts topic
        self.requests += 1
        self.batches += len(batches)
        for batch in batches:
            self.batch_size.count(batch.byte_count())
            topic = self._counts_of(batch.topic)
            topic.batches += 1

    def acknowledged(self, BatchState batch not None, int count, Py_ssize_t size, double now):
        """A batch was written."""
        self.count_acknowledged(batch, count, size, now)

    cdef int count_acknowledged(self, BatchState batch, int count, Py_ssize_t size, double now) except -1:
        cdef TopicCounts topic = self._counts_of(batch.topic)
        self.last_ack = now
        topic.acked += count
        topic.acked_bytes += size
        self.acked += count
        self.acked_bytes += size
        self.queue_time.count(batch.drained_at - batch.opened_at)
        self.request_time.count(now - batch.written_at)
        self.delivery_time.count(now - batch.opened_at)
        self.batch_records.count(batch.record_count)
        return 0

# The batches that a flush waits for.
# Part of ordinary.pyx. Uses ordinary_states.pxi (BatchState).

cdef class FlushState:
    """The number of records that a flush waits for, by batch, and those that were written meanwhile."""

    cdef public long long waiting
    cdef public long long acked


@cython.final
cdef class Covered:
    """The part of a batch that a flush waits for: the records from `first` to before `until`, `left` of them pending."""

    cdef readonly FlushState flush
    cdef readonly int first
    cdef public int until
    cdef public int left

    def __init__(self, FlushState flush not None, int first, int until, int left):
        self.flush = flush
        self.first = first
        self.until = until
        self.left = left
        flush.waiting += 1


def cover(FlushState flush not None, batches):
    """The flush waits for all records that the batches hold now."""
    cdef BatchState batch
    for batch in batches:
        if batch.pending:
            batch.add_flush(Covered(flush, 0, batch.record_count, batch.pending))


cdef list batch_written(BatchState batch):
    # All pending records of a batch that flushes wait for are acknowledged; returns the flushes that wait for nothing more.
    cdef list done = []
    cdef list covered_parts = batch._flushes
    cdef Covered covered
    cdef FlushState flush
    batch._flushes = None
    for covered in covered_parts:
        flush = covered.flush
        flush.acked += covered.left
        flush.waiting -= 1
        if not flush.waiting:
            done.append(flush)
    return done

# The batches of a request.
# Part of ordinary.pyx. Uses ordinary_states.pxi (BatchState, queue_of).

def by_topic(list batches not None, double now, named):
    """The batches of a request that is written now: a named tuple `(name, topic id, batches)` a topic."""
    cdef dict known = {}
    cdef list topics = []
    cdef list those
    cdef BatchState batch
    for batch in batches:
        batch.written_at = now
        those = known.get(batch.topic)
        if those is None:
            those = known[batch.topic] = []
            topics.append(triple(named, batch.topic, queue_of(batch).topic.topic_id, those))
        those.append(batch)
    return topics


def names_by_id(topics):
    """The names of the topics of a request by their ids; None if one of them has no id."""
    cdef dict names = {}
    for name, topic_id, _ in topics:
        if topic_id == _no_topic_id:
            return None
        names[topic_id] = name
    return names


def await_answer(list batches not None, bint by_id):
    """Note how the request names the topics, by their ids or not; returns its batches by topic and partition."""
    cdef dict waiting = {}
    cdef BatchState batch
    for batch in batches:
        batch.sent_to = queue_of(batch).topic.topic_id if by_id else _no_topic_id
        waiting[batch.topic, batch.partition] = batch
    return waiting

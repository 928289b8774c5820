# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: auto_pickle=False, autotestdict=False, binding=True, embedsignature=False
"""The fast path of a send: topic known, no waiting call, enough memory; partition, encoding and delivery in one call."""

cimport cython
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_CheckExact, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.dict cimport PyDict_GetItemWithError
from cpython.list cimport PyList_GET_SIZE
from cpython.long cimport PyLong_CheckExact
from cpython.object cimport PyObject, PyObject_GenericSetAttr
from cpython.ref cimport Py_DECREF, Py_INCREF
from cpython.unicode cimport PyUnicode_CheckExact
from cpython.weakref cimport PyWeakref_NewRef

from aioproducer._core.delivery cimport METADATA, MUST_YIELD, STARTED, BatchDelivery, Delivery, Sending, fill, knows
from aioproducer._core.records cimport (
    HEADER, Batch, Clock, View, body_size, framed_size, fresh_size, headers_size_of, murmur2_of,
)

from aioproducer.records import Record as _Record

cdef extern from "platform.h":
    pass

cdef extern from *:
    """
    /* Changes with the context that this thread runs in: entering or leaving a task changes the context. */
    static inline unsigned long long aioproducer_context_version(void) {
        return PyThreadState_Get()->context_ver;
    }

    /* The answer of a tracer, False if it raised; `asks` is set meanwhile. Cython's `try` would cost as much as the call. */
    static inline PyObject *aioproducer_ask(PyObject *tracer, int *asks) {
        PyObject *answer;
        *asks = 1;
        answer = PyObject_CallNoArgs(tracer);
        *asks = 0;
        if (answer == NULL && !PyErr_ExceptionMatches(PyExc_KeyboardInterrupt)
                && !PyErr_ExceptionMatches(PyExc_SystemExit)) {
            PyErr_Clear();
            answer = Py_NewRef(Py_False);
        }
        return answer;
    }
    """
    unsigned long long aioproducer_context_version() noexcept
    object aioproducer_ask(object tracer, int *asks)

cdef extern from "Python.h":
    unsigned long PyThread_get_thread_ident() noexcept nogil
    object PyLong_FromVoidPtr(void *pointer)

cdef enum:
    # The largest overhead of a record beside its key, value and headers: seven varints, its attributes, and the batch
    # header.
    LONGEST_FRAME = 110
    # The limit of a column: sizes computed from it stay far below the limit of their type.
    MOST_ITEMS = 0x7fffffff

# The result of an attempt to append.
cdef enum:
    DONE = 0
    NO_ROOM = 1
    TOO_LARGE = 2
    NO_PARTITION = 3
    OTHER_LOOP = 4

# What the fast path has done with a record before it leaves it to the slow path.
cdef enum:
    NOTHING = 0
    BY_INTERCEPTORS = 1
    BY_SERIALIZERS = 2

INTERCEPTED = BY_INTERCEPTORS
SERIALIZED = BY_SERIALIZERS

APPENDED = DONE
NO_ROOM_NOW = NO_ROOM
RECORD_TOO_LARGE = TOO_LARGE
PARTITION_UNKNOWN = NO_PARTITION

# After twice so many seconds of sending without a turn of the loop, the next send lets the loop run. A longer interval
# would let the socket run dry: Kafka's own send buffer holds less than a millisecond of data.
cdef double YIELD_INTERVAL = 0.0005

# Counts forks: a child must not use the connections of its parent.
cdef int _generation = 0


def forked():
    """This process was forked: the connections of the parent are not for the child."""
    global _generation
    _generation += 1


include "accept_places.pxi"
include "accept_column.pxi"
include "accept_tasks.pxi"


cdef inline int view_into(object data, View *view, Py_buffer *buffer, bint *held) except -1:
    # 1: a view was taken; 0: not bytes-like, or not contiguous.
    held[0] = False
    if PyBytes_CheckExact(data):
        view.data = <const unsigned char *>PyBytes_AS_STRING(data)
        view.size = PyBytes_GET_SIZE(data)
        return 1
    if data is None:
        view.data = NULL
        view.size = -1
        return 1
    return view_by_buffer(data, view, buffer, held)


cdef int view_by_buffer(object data, View *view, Py_buffer *buffer, bint *held) except -1:
    try:
        # The buffer may be user code, or a memoryview that was released.
        PyObject_GetBuffer(data, buffer, PyBUF_SIMPLE)
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException:
        return 0
    held[0] = True
    view.data = <const unsigned char *>buffer.buf
    view.size = buffer.len
    return 1


cdef object record_of(object topic, object value, object key, object partition, object timestamp, object headers):
    # Its constructor in Python costs more than the append.
    record = _Record.__new__(_Record)
    PyObject_GenericSetAttr(record, "topic", topic)
    PyObject_GenericSetAttr(record, "value", value)
    PyObject_GenericSetAttr(record, "key", key)
    PyObject_GenericSetAttr(record, "partition", partition)
    PyObject_GenericSetAttr(record, "timestamp", timestamp)
    PyObject_GenericSetAttr(record, "headers", headers)
    return record


cdef tuple plain_headers(object headers):
    # The headers in encodable form: a tuple of (str, bytes | None) pairs. None: the slow path has to convert them.
    if type(headers) is list:
        headers = tuple(headers)
    elif type(headers) is dict:
        headers = tuple((<dict>headers).items())
    elif type(headers) is not tuple:
        return None
    for pair in <tuple>headers:
        if type(pair) is not tuple or len(<tuple>pair) != 2 or type((<tuple>pair)[0]) is not str:
            return None
        if (<tuple>pair)[1] is not None and type((<tuple>pair)[1]) is not bytes:
            return None
    return <tuple>headers


cdef tuple joined(tuple own, tuple added):
    # The headers of a record, and behind them those of its context whose names it does not have.
    cdef set names = {(<tuple>pair)[0] for pair in own}
    cdef list more = [pair for pair in added if (<tuple>pair)[0] not in names]
    if len(more) < len(added) and "traceparent" in names:
        # W3C Trace Context: a tracestate belongs to the traceparent beside it.
        more = [pair for pair in more if (<tuple>pair)[0] != "tracestate"]
    return own + tuple(more)


def join_headers(tuple own, tuple added not None):
    """The headers of a record (or None), and behind them those of its context whose names it does not have."""
    return joined(() if own is None else own, added)


cdef tuple headers_in_context(object headers, object context):
    # The headers of a record with those of its context; None: the slow path has to convert or to refuse them.
    cdef tuple added = plain_headers((<tuple>context)[0]) if type(context) is tuple and len(<tuple>context) == 2 else None
    cdef tuple own
    if added is None or headers is None:
        return added
    own = plain_headers(headers)
    return None if own is None else joined(own, added)


cdef inline int note_context(Delivery delivery, object token) except -1:
    # The record has its place: a tracer that misses it must not deny that.
    cdef Batch batch = delivery._batch
    if token is not None or batch._contexts is not None:
        try:
            batch.note_context(delivery._index, token)
        except MemoryError:
            pass
    return 0


cdef inline bint adds_headers(object serializer, object made):
    # The result of a serializer: data, and headers that it adds to those of the record.
    return serializer is not None and isinstance(made, tuple) and len(<tuple>made) == 2


cdef inline bint is_final(object data) noexcept:
    # Whether the slow path would leave the key or value as it is.
    return data is None or type(data) is bytes


cdef tuple with_headers(tuple pairs, object made):
    # The headers with those that a serializer adds; None: the slow path has to convert them.
    cdef tuple added = () if (<tuple>made)[1] is None else plain_headers((<tuple>made)[1])
    if pairs is None or added is None:
        return None
    return pairs + added


cdef inline bint patient(object max_block) except -1:
    # A valid `max_block`, which does not matter when nothing has to wait; the slow path reports an invalid one.
    return max_block is None or (type(max_block) in (int, float) and max_block >= 0)


# The result of a send is made before its record is appended, and filled afterwards. No step between the append and the
# result can fail: a caller that gets an error has no record in the log.

cdef inline Sending unfilled():
    cdef Sending sending = Sending.__new__(Sending)
    # Dropped without an await, it must not warn.
    sending._flags = STARTED
    sending._delivery = Delivery.__new__(Delivery)
    return sending


cdef inline Partition in_use(Topic topic, Py_ssize_t index):
    # Most partitions of large topics are never used: each is made for its first record.
    found = topic.partitions[index]
    return <Partition?>topic.queue(index) if found is None else <Partition>found


cdef inline Partition partition_of(Topic topic, View key, Py_ssize_t chosen, double now):
    # The chosen partition (None if it does not exist), or the key's, or the sticky one.
    if chosen >= 0:
        return in_use(topic, chosen) if chosen < len(topic.partitions) else None
    if key.size >= 0 and not topic.ignore_keys:
        return in_use(
            topic, (murmur2_of(key.data, key.size) & 0x7fffffff) % <unsigned int>len(topic.partitions))
    if topic.sticky is None:
        topic.switch(now)
    return topic.sticky


cdef class SendPath:
    """The part of a producer that accepts records; the producer handles every call that has to wait."""

    cdef dict _topics
    cdef Clock _clock
    cdef object _loop
    cdef object _running_loop
    cdef unsigned long _thread
    cdef int _generation
    # True while the producer runs without interceptors and coroutine serializers, which must see each record first.
    cdef public bint _plain
    # Called with (topic, headers, data) for the bytes of a key or value; an exception refuses the send.
    cdef public object _serialize_key
    cdef public object _serialize_value
    # Called with (topic, key, value), which are bytes, for a partition; None: the default partitioner chooses.
    cdef public object _choose
    # With interceptors: called with the `Record` of each call, for the one that they leave.
    # None: there are none, or the slow path calls them.
    cdef public object _intercept
    # With interceptors: called with the delivery of each record that the fast path has placed.
    cdef public object _report_outcome
    # With tracing: called for each record, for the headers and the token of the present context, or None. None: no
    # tracing, or the slow path asks.
    cdef public object _context_of_call
    # With tracing, on either path.
    cdef public bint _traces
    # True within that call: records that it sends have no context.
    cdef int _asks_for_context
    # True while the producer runs.
    cdef public bint _accepting
    cdef public Py_ssize_t _max_record
    # Fairness: the time of the loop's last turn, and whether a marker waits in its queue.
    cdef double _turn
    cdef bint _marker_waits
    cdef object _marker
    # Counters that statistics read.
    cdef readonly long long _accepted_records
    cdef readonly long long _accepted_bytes
    # The partition that the last append chose.
    cdef Partition _chosen
    # Consecutive sends usually name the same topic with the same string object; an identity check is cheaper than a lookup.
    cdef object _last_name
    cdef Topic _last_topic
    # Tasks that have sent, by their ids, and the version of the context at the last check.
    cdef dict _senders
    cdef object _current_task
    cdef object _told_now
    cdef unsigned long long _context_version

    def __class_getitem__(cls, item):
        return cls

    def _bind(self, dict topics not None, Clock clock not None, loop, running_loop, Py_ssize_t max_record):
        """Bind to this loop and thread; ``running_loop`` returns the running loop, or None."""
        self._running_loop = running_loop
        self._topics = topics
        self._last_name = self._last_topic = None
        self._clock = clock
        self._loop = loop
        self._thread = PyThread_get_thread_ident()
        self._generation = _generation
        self._max_record = max_record
        self._marker = self._loop_turned
        self._marker_waits = False
        self._turn = clock.now()

    def _same_thread(self):
        """True when called from the thread that started the producer."""
        return PyThread_get_thread_ident() == self._thread

    def _same_process(self):
        """True when there was no fork since the start."""
        return self._generation == _generation

    def _now(self):
        """Monotonic seconds, by the clock of the fast path."""
        return self._clock.now()

    def _wall_ms(self):
        """Milliseconds since the epoch, by the clock of the fast path."""
        return self._clock.wall()

    # -- sending tasks

    def _follow_tasks(self, dict senders not None, current_task, told_now):
        """The reports to a task begin, with what ``told_now`` returns, when it sends and its id is not in ``senders``."""
        self._senders = senders
        self._current_task = current_task
        self._told_now = told_now
        self._context_version = 0

    def _note_task(self):
        """Note the current task as a sender."""
        if aioproducer_context_version() != self._context_version:
            self._look_at_task()

    cdef int _look_at_task(self) except -1:
        self._context_version = aioproducer_context_version()
        if self._senders is not None:
            task = self._current_task(self._loop)
            if task is not None and PyLong_FromVoidPtr(<void *>task) not in self._senders:
                follow_task(self._senders, task, self._told_now())
        return 0

    def flush(self, timeout=None, *, resolve=False):
        """Send all records accepted before this call without lingering, and wait until they are resolved.

        All callbacks of these records have run by then. The report is for the task that makes this call: it counts
        every record of the producer that was accepted before the call, and resolved since the last report to the same
        task, or since the task first sent. So it may include records of other tasks, and never omits the task's own.
        The report of a task that has not sent anything covers everything since the start. A scope() is for reports that
        begin elsewhere, and for several tasks together.
        Failed records do not raise by themselves: `(await producer.flush()).raise_for_errors()` does. With `timeout`
        (seconds), raises TimeoutError when some records are unresolved by then; no record is lost by that.

        ``resolve=True``: records of unknown outcome are then looked for in their partitions, as by
        `Delivery.resolve_unknown()`, in the rest of the ``timeout`` (default: as long again as `delivery_timeout_ms`). The
        report has the results; the deliveries keep their outcomes. Outcomes not certain by then stay ``UNKNOWN``, with
        the reason in the report.
        """
        # Checked here and not in the coroutine: wait_for(), gather() and create_task() may run that in another task.
        here = self._loop is not None and self._running_loop() is self._loop
        task = self._current_task(self._loop) if here and self._current_task is not None else None
        return self._flush(task, timeout, resolve)

    # -- fairness

    def _pace(self):
        """True when a call on the slow path should let the loop run before it answers."""
        return self._owes_turn(self._clock.now())

    def _loop_turned(self):
        self._marker_waits = False
        self._turn = self._clock.now()

    cdef inline bint _owes_turn(self, double now) except -1:
        # True when this call should let the loop run before it answers.
        return now - self._turn >= YIELD_INTERVAL and self._must_yield(now)

    cdef bint _must_yield(self, double now) except -1:
        # Called about once per millisecond of sending. A marker in the loop's queue distinguishes uninterrupted sending
        # from occasional sends.
        self._turn = now
        if self._marker_waits:
            return True
        try:
            self._loop.call_soon(self._marker)
        except Exception:
            # The record is accepted: a failure to make the marker must not deny that.
            return True
        self._marker_waits = True
        return False

    # -- one record

    cdef inline bint _here(self) noexcept:
        return (self._accepting and PyThread_get_thread_ident() == self._thread
                and self._generation == _generation)

    cdef inline bint _asks_user(self) noexcept:
        return self._serialize_value is not None or self._serialize_key is not None or self._choose is not None

    cdef bint _in_its_loop(self) except -1:
        # Too expensive per record; checked when a batch opens, and after the loop has not run for 1 ms.
        return self._running_loop() is self._loop

    cdef Topic _topic(self, object name):
        # The topic if records may be appended to it right now, else None.
        cdef Topic topic = self._last_topic
        cdef PyObject *found
        if topic is None or name is not self._last_name or topic.forgotten:
            if not PyUnicode_CheckExact(name):
                return None
            found = PyDict_GetItemWithError(self._topics, name)
            if found == NULL:
                return None
            topic = self._last_topic = <Topic>found
            self._last_name = name
        if topic.waiting or not topic.partitions:
            return None
        return topic

    cdef int _append(self, Topic topic, View key, View value, tuple headers, Py_ssize_t headers_size,
                     long long timestamp, Py_ssize_t chosen, double now, double deadline,
                     bint in_line, bint awaited) except -1:
        # ``in_line``: this record is the first waiting one, so it may pass the others.
        # ``awaited``: a caller waits for its outcome, so the batch that it opens need not linger.
        cdef Py_ssize_t body, size
        cdef Partition partition
        cdef Batch batch
        # Made first: its allocation may run a garbage collection, and with it code that sends.
        cdef dict deadlines = {} if deadline > 0 else None
        if (key.size + value.size + headers_size > self._max_record - LONGEST_FRAME
                and fresh_size(key, value, headers_size) + HEADER > self._max_record):
            return TOO_LARGE
        while True:
            partition = partition_of(topic, key, chosen, now)
            if partition is None:
                return NO_PARTITION
            self._chosen = partition
            if partition.rolling or not in_line and (partition.waiting or partition.share.waiting):
                return NO_ROOM
            batch = partition.open
            if batch is not None:
                body = batch.body_of(key, value, headers_size, timestamp)
                size = framed_size(body)
                if batch.fits(size, now):
                    if not partition.share.has_room(size):
                        return NO_ROOM
                    batch.append_raw(key, value, headers, body, timestamp, now, deadline, deadlines)
                    break
            if (chosen < 0 and batch is not None and partition is topic.sticky
                    and topic.sticky_bytes >= topic.sticky_limit):
                # As Java's BuiltInPartitioner: a switch never cuts a half-full batch.
                topic.switch(now)
                continue
            body = body_size(key, value, headers_size, 0, 0)
            size = framed_size(body) + HEADER
            if not partition.share.has_room(size):
                return NO_ROOM
            if not self._in_its_loop():
                return OTHER_LOOP
            batch = self._append_first(partition, key, value, headers, body, timestamp, now, deadline, deadlines, awaited)
            if batch is None:
                continue
            self._chosen = partition
            break
        (<MemoryShare>batch.share).take(size)
        batch.charged += size
        self._accepted_records += 1
        self._accepted_bytes += size
        if partition is topic.sticky and chosen < 0:
            topic.sticky_bytes += size
            if topic.sticky_bytes >= 2 * topic.sticky_limit:
                # The next record chooses again: a failure now would be taken for a failure of this record.
                topic.sticky = None
        return DONE

    cdef Batch _append_first(self, Partition partition, View key, View value, tuple headers, Py_ssize_t body,
                             long long timestamp, double now, double deadline, dict deadlines, bint awaited):
        # roll() runs Python, in which a garbage collection or a signal may run code that sends: its records stay out of
        # a batch that is made for this record, whose size is known already. None: that code has ended the batch.
        cdef Batch batch
        partition.rolling = True
        try:
            partition.roll(now, awaited)
            batch = partition.open
            if batch is None or batch.closed:
                return None
            try:
                batch.append_raw(key, value, headers, body, timestamp, now, deadline, deadlines)
            except BaseException:
                # A batch without a record must not be sent.
                partition.unroll()
                raise
        finally:
            partition.rolling = False
        return batch

    cdef bint _fast(self, Delivery delivery, object topic_name, object value, object key, object partition,
                    object timestamp, object headers, bint awaited, double now, bint asked=False) except -1:
        # Append the record and fill its delivery, or return False for the slow path. ``asked``: the user's partitioner
        # was called, if there is one.
        cdef Topic topic = self._topic(topic_name)
        cdef View k, v
        cdef Py_buffer key_buffer, value_buffer
        cdef bint key_held = False, value_held = False
        cdef Py_ssize_t chosen = -1
        cdef long long stamp
        cdef tuple pairs = None
        cdef Py_ssize_t headers_size = 1
        if topic is None or (now - self._turn >= YIELD_INTERVAL and not self._in_its_loop()):
            return False
        if aioproducer_context_version() != self._context_version:
            self._look_at_task()
        if partition is not None:
            if not PyLong_CheckExact(partition):
                return False
            if partition < 0 or partition >= len(topic.partitions):
                return False
            chosen = partition
        elif topic.custom and not asked:
            return False
        if timestamp is None:
            stamp = self._clock.wall_at(now)
        else:
            if not PyLong_CheckExact(timestamp) or not 0 <= timestamp <= 0x7fffffffffffffff:
                return False
            stamp = timestamp
        if headers is not None:
            pairs = plain_headers(headers)
            if pairs is None:
                return False
            try:
                headers_size = headers_size_of(pairs)
            except UnicodeError:
                return False
        if not view_into(value, &v, &value_buffer, &value_held):
            return False
        try:
            if not view_into(key, &k, &key_buffer, &key_held):
                return False
            if (value_held or key_held) and not (self._here() and self._topic(topic_name) is topic):
                # Reading the buffers may have run user code, which may have changed any state.
                return False
            if self._append(topic, k, v, pairs, headers_size, stamp, chosen, now, 0.0,
                            False, awaited) != DONE:
                return False
            fill(delivery, self._chosen.open, k.size, v.size, stamp)
            return True
        finally:
            if value_held:
                PyBuffer_Release(&value_buffer)
            if key_held:
                PyBuffer_Release(&key_buffer)

    def send(self, topic, value=None, *, key=None, partition=None, timestamp=None, headers=None, timeout=None,
             max_block=None):
        """Accept one record; await the call for its `Delivery`.

        When the topic is known and there is room, the record is accepted inside the call itself, and the await does
        not suspend, except about once per millisecond of uninterrupted sending, so that other tasks run. Otherwise
        the call takes its place in a queue and waits for serializers, metadata and memory, at most ``max_block``
        seconds (setting ``max_block_ms``) in all. Records for one partition are written in the order of the calls.

        ``value`` and ``key`` are bytes-like or None, or what the serializers take; they are copied at acceptance.
        ``timestamp`` is in milliseconds since the epoch or an aware datetime; ``headers`` a sequence of
        ``(str, bytes-like | None)`` pairs or a mapping. ``timeout``: seconds for this record, from the call to its
        outcome, in place of ``delivery_timeout_ms``.

        Raises `RecordError`, `BufferFullError`, `MetadataTimeoutError`, `StateError` or `AuthorizationError` for a
        record that cannot be accepted: it is certainly not written. Cancelled before acceptance, the record is
        withdrawn; after acceptance cancelling changes nothing. The delivery reports the outcome.
        """
        cdef Sending sending
        cdef double now
        if timeout is None and self._plain and self._here() and patient(max_block):
            if self._asks_user():
                return self._send_asking(
                    topic, value, key, partition, timestamp, headers, max_block, NOTHING, False)
            now = self._clock.now()
            sending = unfilled()
            if self._fast(<Delivery>sending._delivery, topic, value, key, partition, timestamp, headers, False, now):
                sending._flags = MUST_YIELD if self._owes_turn(now) else 0
                return sending
        if self._context_of_call is not None:
            return self._send_in_context(topic, value, key, partition, timestamp, headers, timeout, max_block, False)
        if self._intercept is not None:
            return self._send_intercepted(topic, value, key, partition, timestamp, headers, timeout, max_block, False)
        return self._send_slowly(topic, value, key, partition, timestamp, headers, timeout, max_block, NOTHING, False)

    def send_and_wait(self, topic, value=None, *, key=None, partition=None, timestamp=None, headers=None,
                      timeout=None, max_block=None):
        """Accept one record and wait until it is written: await the call for its `RecordMetadata`.

        The same as awaiting `send` and then its delivery, and raises what either of them raises.
        """
        cdef Sending sending
        cdef double now
        if timeout is None and self._plain and self._here() and patient(max_block):
            if self._asks_user():
                return self._send_asking(topic, value, key, partition, timestamp, headers, max_block, NOTHING, True)
            sending = unfilled()
            now = self._clock.now()
            if self._fast(<Delivery>sending._delivery, topic, value, key, partition, timestamp, headers, True, now):
                sending._flags = METADATA
                return sending
        if self._context_of_call is not None:
            return self._send_in_context(topic, value, key, partition, timestamp, headers, timeout, max_block, True)
        if self._intercept is not None:
            return self._send_intercepted(topic, value, key, partition, timestamp, headers, timeout, max_block, True)
        return self._send_slowly(topic, value, key, partition, timestamp, headers, timeout, max_block, NOTHING, True)

    def send_nowait(self, topic, value=None, *, key=None, partition=None, timestamp=None, headers=None, timeout=None):
        """Accept one record without ever waiting, and return its `Delivery`; for callbacks of the loop.

        On a topic that is not known yet the record is queued within ``buffer_memory`` and its fate arrives in the
        delivery. Raises `BufferFullError` when there is no room or others wait before it, `RecordError` for a record
        that can never be sent, `StateError` with coroutine serializers.
        """
        cdef Delivery delivery
        cdef double now
        if timeout is None and self._plain and self._here() and not self._asks_user():
            delivery = Delivery.__new__(Delivery)
            now = self._clock.now()
            if self._fast(delivery, topic, value, key, partition, timestamp, headers, False, now):
                return delivery
        elif (self._context_of_call is not None and timeout is None and self._here() and not self._asks_user()
                and self._topic(topic) is not None):
            delivery = Delivery.__new__(Delivery)
            if self._fast_in_context(delivery, topic, value, key, partition, timestamp, headers, False, &now):
                return delivery
        elif (self._intercept is not None and timeout is None and self._here() and not self._asks_user()
                and self._topic(topic) is not None):
            record = self._intercept(record_of(topic, value, key, partition, timestamp, headers))
            return self._now_intercepted(
                record.topic, record.value, record.key, record.partition, record.timestamp, record.headers)
        return self._send_now(topic, value, key, partition, timestamp, headers, timeout, NOTHING)

    def send_batch(self, topic, values, *, keys=None, partition=None, timestamps=None, headers=None, timeout=None):
        """Accept many records in one call, column by column; await the call for their `BatchDelivery`.

        ``values``, ``keys`` and ``timestamps`` are sequences or Arrow arrays; ``partition`` is a number, a sequence of
        them or None; ``headers`` is one set for all, or a sequence with one per record. Memory is taken step by step,
        in order. A refused record does not stop the others. ``.delivery`` of the returned object exists from the
        beginning. When the wait is cancelled, accepted records stay accepted, and the others are not written.
        """
        return self._send_many(topic, values, keys, partition, timestamps, headers, timeout)

    cdef object _send_asking(self, object topic, object value, object key, object partition, object timestamp,
                             object headers, object max_block, int done, bint wants_metadata):
        # Serializers are called once: here if the topic has partitions, otherwise in the slow path of this call. The
        # partitioner is called again for a record that has to wait: the topic may have other partitions by then.
        cdef Sending sending
        cdef double now
        cdef tuple pairs = () if headers is None else plain_headers(headers)
        cdef tuple more
        cdef bint of_key, of_value
        if self._topic(topic) is None or pairs is None:
            return self._send_slowly(
                topic, value, key, partition, timestamp, headers, None, max_block, done, wants_metadata)
        pairs = pairs or None
        try:
            if self._serialize_key is not None:
                key = self._serialize_key(topic, pairs, key)
            if self._serialize_value is not None:
                value = self._serialize_value(topic, pairs, value)
        except BaseException as error:
            return self._refuse(error, topic, wants_metadata)
        of_key, of_value = adds_headers(self._serialize_key, key), adds_headers(self._serialize_value, value)
        if of_key or of_value:
            more = () if pairs is None else pairs
            more = with_headers(more, key) if of_key else more
            more = with_headers(more, value) if of_value else more
            if more is not None:
                # The slow path takes them apart.
                pairs = more or None
                key = (<tuple>key)[0] if of_key else key
                value = (<tuple>value)[0] if of_value else value
        chosen = partition
        if self._choose is not None and partition is None:
            if not (is_final(key) and is_final(value)):
                return self._send_slowly(
                    topic, value, key, None, timestamp, pairs, None, max_block, BY_SERIALIZERS, wants_metadata)
            try:
                chosen = self._choose(topic, key, value)
            except BaseException as error:
                return self._refuse(error, topic, wants_metadata)
        now = self._clock.now()
        # They are user code, which may have changed any state.
        if self._here():
            sending = unfilled()
            if self._fast_or_told(<Delivery>sending._delivery, topic, value, key, chosen, timestamp, pairs,
                                  wants_metadata, now):
                return self._accepted(sending, wants_metadata, now)
        return self._send_slowly(
            topic, value, key, partition, timestamp, pairs, None, max_block, BY_SERIALIZERS, wants_metadata)

    cdef inline Sending _accepted(self, Sending sending, bint wants_metadata, double now):
        # The record of this call has its place.
        sending._flags = METADATA if wants_metadata else MUST_YIELD if self._owes_turn(now) else 0
        return sending

    # -- records that interceptors see first

    cdef object _send_intercepted(self, object topic, object value, object key, object partition, object timestamp,
                                  object headers, object timeout, object max_block, bint wants_metadata):
        # As `send` and `send_and_wait` without interceptors.
        if timeout is not None or not self._here() or not patient(max_block) or self._topic(topic) is None:
            return self._send_slowly(
                topic, value, key, partition, timestamp, headers, timeout, max_block, NOTHING, wants_metadata)
        record = self._intercept(record_of(topic, value, key, partition, timestamp, headers))
        sending = self._after_interceptors(
            record.topic, record.value, record.key, record.partition, record.timestamp, record.headers, max_block,
            wants_metadata)
        if type(sending) is Sending and (<Sending>sending)._delivery is not None:
            # Accepted within the call. The slow path reports other records itself.
            self._report_outcome((<Sending>sending)._delivery)
        return sending

    cdef object _after_interceptors(self, object topic, object value, object key, object partition, object timestamp,
                                    object headers, object max_block, bint wants_metadata):
        cdef Sending sending
        cdef double now
        if self._asks_user():
            return self._send_asking(
                topic, value, key, partition, timestamp, headers, max_block, BY_INTERCEPTORS, wants_metadata)
        # Interceptors are user code, which may have changed any state.
        if self._here():
            sending = unfilled()
            now = self._clock.now()
            if self._fast_or_told(<Delivery>sending._delivery, topic, value, key, partition, timestamp, headers,
                                  wants_metadata, now):
                return self._accepted(sending, wants_metadata, now)
        return self._send_slowly(
            topic, value, key, partition, timestamp, headers, None, max_block, BY_INTERCEPTORS, wants_metadata)

    cdef bint _fast_or_told(self, Delivery delivery, object topic, object value, object key, object partition,
                            object timestamp, object headers, bint awaited, double now) except -1:
        # As `_fast`, after the user's objects: interceptors have seen the record, and get its failure.
        try:
            return self._fast(delivery, topic, value, key, partition, timestamp, headers, awaited, now, True)
        except Exception as error:
            if self._intercept is not None:
                self._tell_interceptors(error)
            raise

    cdef Delivery _now_intercepted(self, object topic, object value, object key, object partition, object timestamp,
                                   object headers):
        cdef Delivery delivery
        if self._here():
            delivery = Delivery.__new__(Delivery)
            if self._fast_or_told(
                    delivery, topic, value, key, partition, timestamp, headers, False, self._clock.now()):
                self._report_outcome(delivery)
                return delivery
        return self._send_now(topic, value, key, partition, timestamp, headers, None, BY_INTERCEPTORS)

    # -- records in the context of a tracer: the slow path asks for the context again, and logs a failure

    cdef inline object _ask_for_context(self):
        # The present context, or None; anything but a pair: the tracer failed.
        return None if self._asks_for_context else aioproducer_ask(self._context_of_call, &self._asks_for_context)

    cdef bint _fast_in_context(self, Delivery delivery, object topic, object value, object key, object partition,
                               object timestamp, object headers, bint awaited, double *now) except -1:
        # As `_fast`.
        cdef object context = self._ask_for_context()
        cdef object token = None
        if context is not None:
            headers = headers_in_context(headers, context)
            if headers is None:
                return False
            token = (<tuple>context)[1]
        now[0] = self._clock.now()
        # The tracer is user code, which may have changed any state.
        if not self._here() or not self._fast(
                delivery, topic, value, key, partition, timestamp, headers, awaited, now[0]):
            return False
        note_context(delivery, token)
        return True

    cdef object _send_in_context(self, object topic, object value, object key, object partition, object timestamp,
                                 object headers, object timeout, object max_block, bint wants_metadata):
        # As `send` and `send_and_wait` without tracing.
        cdef Sending sending
        cdef double now = 0
        if timeout is None and self._here() and patient(max_block) and self._topic(topic) is not None:
            if self._asks_user():
                return self._serialized_in_context(
                    topic, value, key, partition, timestamp, headers, max_block, wants_metadata)
            sending = unfilled()
            if self._fast_in_context(<Delivery>sending._delivery, topic, value, key, partition, timestamp, headers,
                                     wants_metadata, &now):
                return self._accepted(sending, wants_metadata, now)
        return self._send_slowly(
            topic, value, key, partition, timestamp, headers, timeout, max_block, NOTHING, wants_metadata)

    cdef object _serialized_in_context(self, object topic, object value, object key, object partition,
                                       object timestamp, object headers, object max_block, bint wants_metadata):
        cdef object context = self._ask_for_context()
        cdef object token = None
        cdef object both = headers
        if context is not None:
            both = headers_in_context(headers, context)
            if both is not None:
                token = (<tuple>context)[1]
        if (both is None and context is not None) or not self._here():
            return self._send_slowly(
                topic, value, key, partition, timestamp, headers, None, max_block, NOTHING, wants_metadata)
        sending = self._send_asking(
            topic, value, key, partition, timestamp, both, max_block, NOTHING, wants_metadata)
        if type(sending) is Sending and (<Sending>sending)._delivery is not None:
            # Accepted within the call. The slow path notes the context itself.
            note_context(<Delivery?>(<Sending>sending)._delivery, token)
        return sending

    # -- records of the slow path, in checked form: bytes, plain headers, an integer time

    def _append_checked(self, Topic topic not None, key, value, tuple headers, timestamp, Py_ssize_t partition,
                        double deadline, bint in_line, context=None):
        """Append one checked record: ``[status, delivery or None, the chosen partition or None]``.

        ``context``: the token of the context that it was sent in.
        """
        cdef View k, v
        cdef Py_buffer key_buffer, value_buffer
        cdef bint key_held = False, value_held = False
        cdef Delivery delivery
        cdef list answer
        cdef long long stamp = self._clock.wall() if timestamp is None else timestamp
        cdef int status
        if not view_into(value, &v, &value_buffer, &value_held):
            raise TypeError("value is not bytes-like")
        try:
            if not view_into(key, &k, &key_buffer, &key_held):
                raise TypeError("key is not bytes-like")
            delivery = Delivery.__new__(Delivery)
            answer = [DONE, delivery, None]
            status = self._append(topic, k, v, headers, headers_size_of(headers), stamp, partition,
                                  self._clock.now(), deadline, in_line, False)
            answer[2] = self._chosen
            if status == DONE:
                fill(delivery, self._chosen.open, k.size, v.size, stamp)
                note_context(delivery, context)
            else:
                answer[0] = status
                answer[1] = None
            return answer
        finally:
            if value_held:
                PyBuffer_Release(&value_buffer)
            if key_held:
                PyBuffer_Release(&key_buffer)

    # -- many records

    def _append_many(self, Topic topic not None, Column values not None, Column keys, object partitions,
                     Column timestamps, object headers, int start, double deadline, BatchDelivery into not None, context=None):
        """Append records from ``start`` on. Returns ``(next, status)``; the status has the reason of an early stop.

        ``context``: the token of the context that they were sent in.
        """
        cdef View k, v
        cdef int at = start
        cdef int total = into.total
        cdef int status = DONE
        cdef Batch batch
        cdef double now = self._clock.now()
        cdef double began = now
        cdef long long stamp
        cdef Py_ssize_t chosen = -1
        cdef Py_ssize_t headers_size
        cdef tuple own
        cdef bint one_partition = not isinstance(partitions, (list, tuple))
        cdef bint one_header = not isinstance(headers, list)
        if one_partition and partitions is not None:
            chosen = partitions
        own = headers if one_header else None
        headers_size = headers_size_of(own)
        if not 0 <= start <= total or total > min(
            values.count(),
            total if keys is None else keys.count(),
            total if timestamps is None else timestamps.count(),
            total if one_partition else len(partitions),
            total if one_header else len(headers),
        ):
            raise ValueError(f"a column has fewer than {total} records")
        k.data = NULL
        k.size = -1
        while at < total:
            if not at & 63:
                now = self._clock.now()
                if now - began > YIELD_INTERVAL:
                    break
            if knows(into, at):
                at += 1
                continue
            if not into._has_room:
                into.make_room()
            values.read(at, &v)
            if keys is not None:
                keys.read(at, &k)
            if not one_partition:
                chosen = -1 if partitions[at] is None else partitions[at]
            if not one_header:
                own = headers[at]
                headers_size = headers_size_of(own)
            stamp = self._clock.wall_at(now) if timestamps is None else timestamps.number(at)
            status = self._append(topic, k, v, own, headers_size, stamp, chosen, now, deadline, False, False)
            if status != DONE:
                break
            batch = self._chosen.open
            into.place(at, batch, batch.record_count - 1)
            at += 1
        if self._traces:
            self._note_contexts(into, start, at, context)
        return at, status

    cdef int _note_contexts(self, BatchDelivery into, int start, int end, object token) except -1:
        cdef Batch batch
        cdef int at
        for at in range(start, end):
            if not into._ordinals[at]:
                continue
            batch = <Batch>into._batches[into._ordinals[at] - 1]
            if token is not None or batch._contexts is not None:
                try:
                    batch.note_context(into._indexes[at], token)
                except MemoryError:
                    return 0
        return 0

    def _chosen_partition(self):
        """The partition that the last append chose."""
        return self._chosen


include "accept_coroutines.pxi"

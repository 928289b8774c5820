"""The mutants of callers that lie: what they hand over is believed, or ends more than its record."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Kind

_COLUMNS: Final = "tests/callers/test_columns.py"
_BOUNDS: Final = "tests/callers/test_bounds.py"
_SERIALIZERS: Final = "tests/callers/test_serializers.py"

_mutant = Kind("callers")

CALLERS: Final = (
    _mutant(
        "columns-by-reference",
        "_net/columns.py",
        "        return list(column)\n",
        "        return column\n",
        "A list that its caller empties while send_batch() waits is read beyond its end.",
        f"{_COLUMNS}::test_a_caller_that_changes_its_lists_after_the_call",
    ),
    _mutant(
        "lengths-believed",
        "_net/columns.py",
        "    if len(items) != length:\n",
        "    if False:\n",
        "A DataFrame says how many rows it has, and gives its columns: what is sent is not what was meant.",
        f"{_COLUMNS}::test_a_column_of_another_length_than_it_says",
    ),
    _mutant(
        "offsets-believed",
        "_core/accept_column.pxi",
        "            if not before <= self.offset(at) <= end:\n",
        "            if False:\n",
        "The offsets of an Arrow array are followed out of its data.",
        f"{_COLUMNS}::test_an_arrow_array_whose_offsets_lead_elsewhere",
    ),
    _mutant(
        "core-believes-the-columns",
        "_core/accept.pyx",
        "        if not 0 <= start <= total or total > min(\n",
        "        if start > total > min(\n",
        "Compiled code reads so many items of a column as another one has.",
        f"{_COLUMNS}::test_compiled_columns_are_as_long_as_the_call",
    ),
    _mutant(
        "released-view-ends-the-call-otherwise",
        "_core/accept.pyx",
        "    except BaseException:\n        return 0\n",
        "    except (TypeError, BufferError):\n        return 0\n",
        "A memoryview that was released is a ValueError of Python's from send(), which no transaction is told of.",
        f"{_COLUMNS}::test_a_released_view_is_a_record_error",
    ),
    _mutant(
        "bad-record-ends-the-producer",
        "_net/intake.py",
        "        self.admission.refuse(waiting, refusal_of(error, waiting.topic))\n",
        "        self.engine.crash(error)\n",
        "What a coroutine serializer raises for one record ends the task group, and with it every delivery.",
        f"{_SERIALIZERS}::test_a_bad_record_ends_alone",
    ),
    _mutant(
        "only-errors-of-kafka-refuse-a-record",
        "refusals.py",
        "        if error is None or isinstance(error, THROUGH):\n",
        "        if error is None or not isinstance(error, KafkaError):\n",
        "Headers that raise while they are read raise whatever that is from send(), and fail send_batch() as a whole.",
        f"{_SERIALIZERS}::test_a_bad_record_among_many",
    ),
    _mutant(
        "serializer-outlives-its-call",
        "_state/admission.py",
        "            call.stop_preparing()\n",
        "",
        "max_block ends the call, and its coroutine serializer waits for ever with the record.",
        f"{_SERIALIZERS}::test_max_block_ends_the_serializer_too",
    ),
    _mutant(
        "deaf-serializers-unbounded",
        "_net/preparing.py",
        "        if self._loop.time() - since >= GRACE:\n",
        "        if False:\n",
        "Serializers that ignore their cancellation pile up, one for each call.",
        f"{_SERIALIZERS}::test_serializers_that_ignore_their_cancellation_are_bounded",
    ),
    _mutant(
        "partitioner-that-sends-doubles",
        "_state/admission.py",
        "        if line is None or line.moving:\n",
        "        if line is None:\n",
        "A partitioner sends a record to the same topic, and its own record is placed twice.",
        f"{_SERIALIZERS}::test_a_partitioner_that_sends",
    ),
    _mutant(
        "withdrawn-while-its-partition-is-chosen",
        "_state/admission.py",
        "        if call.ended:\n            # By what the partitioner did.\n            return True\n",
        "",
        "A record that purge() has withdrawn, called by its partitioner, is written all the same.",
        f"{_SERIALIZERS}::test_a_partitioner_that_withdraws_its_own_record",
    ),
    _mutant(
        "accepted-by-a-closed-producer",
        "_net/intake.py",
        "            self.usable()\n        except KafkaError as error:\n",
        "        except KafkaError as error:\n",
        "A serializer closes the producer, and its record waits for ever in a line that nobody serves.",
        f"{_SERIALIZERS}::test_a_serializer_that_closes_the_producer",
    ),
    _mutant(
        "ended-batches-kept-until-their-deadlines",
        "_state/accumulator.py",
        "            self.deadlines.over(_has_ended, batch.alarms)\n",
        "",
        "Each batch with a record of an own timeout stays in memory until that time, acknowledged or not.",
        f"{_BOUNDS}::test_records_with_a_timeout_leave_nothing",
    ),
    _mutant(
        "one-alarm-of-each-batch-counted",
        "_state/accumulator.py",
        "            self.deadlines.over(_has_ended, batch.alarms)\n",
        "            self.deadlines.over(_has_ended)\n",
        "Of batches whose records have ever shorter timeouts most entries are taken for wanted.",
        f"{_BOUNDS}::test_records_with_a_timeout_leave_nothing",
    ),
    _mutant(
        "held-up-by-others-taken-for-no-metadata",
        "_state/admission.py",
        "        if count and (partition is None or partition < count):\n",
        "        if False:\n",
        "A call that waited behind others for memory is told that its topic is not known.",
        f"{_BOUNDS}::test_a_call_behind_a_bulk_send_is_told_of_the_memory",
    ),
    _mutant(
        "idle-while-calls-wait-for-its-memory",
        "_state/accumulator.py",
        "        if not any(queue.queue or queue.sent or queue.waiting for queue in queues):\n",
        "        if not any(queue.queue or queue.sent for queue in queues):\n",
        "A topic is dropped as idle while a call waits for memory for it, which later appends to a queue of its own.",
        f"{_BOUNDS}::test_a_topic_whose_calls_wait_for_memory_is_not_idle",
    ),
    _mutant(
        "codec-that-raises-doubles",
        "_net/compression.py",
        "                self._tasks.start_soon(self._fail_soon, batch, plain, made)\n",
        "                self._finish(batch, plain, made)\n",
        "A batch fails within the append that closed it, and the room that it gives back is handed to that very record.",
        f"{_BOUNDS}::test_a_codec_that_raises_at_once_doubles_nothing",
    ),
    _mutant(
        "wrong-timeout-taken-for-a-wrong-record",
        "_state/checking.py",
        "        raise ConfigurationError(str(error)) from None\n",
        "        raise RecordError(str(error)) from None\n",
        "flush(timeout=-1) says that a record cannot be sent.",
        f"{_BOUNDS}::test_a_wrong_length_of_time",
    ),
)

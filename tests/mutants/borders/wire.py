"""The mutants of bytes: batches, frames and keys that are written or read wrongly."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Kind

_CONVERSING: Final = "tests/connection/test_conversing.py"
_KEYED_SENDS: Final = "tests/golden/test_keyed_sends.py"
_RECORDS: Final = "tests/core/test_records.py"
_REWRITING: Final = "tests/state/queues/test_rewriting.py"

_mutant = Kind("wire")

WIRE: Final = (
    _mutant(
        "buffer-reused-while-in-flight",
        "_core/records.pyx",
        "        if octets.exports:\n",
        "        if octets.exports < 0:\n",
        "The bytes of a batch are stamped anew while a transport still refers to them (CVE-2026-35554, KAFKA-19012).",
        f"{_RECORDS}::test_stamping_again_moves_away_from_lent_bytes",
    ),
    _mutant(
        "bytes-of-a-checksum-move",
        "_core/records_octets.pxi",
        "        self._octets.exports += 1\n",
        "",
        "The bytes that a checksum has kept change when the batch is sent again.",
        "tests/state/batching/test_sequences.py",
    ),
    _mutant(
        "buffer-moves-while-in-flight",
        "_core/records_octets.pxi",
        "        if self.exports:\n",
        "        if self.exports < 0:\n",
        "The memory of a batch is moved while a transport still refers to it.",
        f"{_RECORDS}::test_lent_bytes_do_not_grow",
    ),
    _mutant(
        "checksum-before-the-sequence",
        "_core/records.pyx",
        "        put_int(data + 53, base_sequence, 4)\n"
        "        put_int(data + 57, self.record_count, 4)\n"
        "        put_int(data + 17, <unsigned int>checksum(Checked(octets)), 4)\n",
        "        put_int(data + 17, <unsigned int>checksum(Checked(octets)), 4)\n"
        "        put_int(data + 53, base_sequence, 4)\n"
        "        put_int(data + 57, self.record_count, 4)\n",
        "The checksum is computed before the sequence number is written.",
        _RECORDS,
    ),
    _mutant(
        "split-loses-headers",
        "_state/queues/rewriting.py",
        "child.append(key, value, headers, timestamp,",
        "child.append(key, value, None, timestamp,",
        "Records of a split batch lose their headers.",
        _REWRITING,
    ),
    _mutant(
        "split-loses-timestamps",
        "_state/queues/rewriting.py",
        "child.append(key, value, headers, timestamp,",
        "child.append(key, value, headers, batch.max_timestamp,",
        "Records of a split batch all get the time of the last one (aiokafka rebinds a timestamp in a loop).",
        _REWRITING,
    ),
    _mutant(
        "split-turns-headers-round",
        "_core/records_encoding.pxi",
        "        pairs.append((name, take_bytes(data, at)))",
        "        pairs.insert(0, (name, take_bytes(data, at)))",
        "Records of a split batch have their headers in another order.",
        _RECORDS,
    ),
    _mutant(
        "buffer-given-back-by-a-closed-connection",
        "_wire/frames.py",
        "        self._buffers = None\n",
        "        self._release()\n",
        "A handler that closes its connection reads the bytes of another broker in its answer.",
        "tests/connection/test_frames.py",
    ),
    _mutant(
        "buffer-given-back-twice",
        "_wire/frames.py",
        "        if view is not _NO_BUFFER and self._buffers is not None:\n",
        "        if self._buffers is not None:\n",
        "Two connections receive into the same few bytes.",
        "tests/connection/test_frames.py",
    ),
    _mutant(
        "frame-length-unchecked",
        "_wire/frames.py",
        "if not _SHORTEST <= length <= self.limit:",
        "if length < _SHORTEST:",
        "The length that a peer announces is allocated unchecked (CVE-2026-111108 and its kind).",
        "tests/connection/test_frames.py::test_bad_length_is_told_the_same_wherever_the_stream_is_cut",
    ),
    _mutant(
        "correlation-id-unchecked",
        "_state/connecting/pairing.py",
        "        if waiting and waiting[0].correlation_id == correlation_id:\n            return waiting.popleft()",
        "        if waiting:\n            return waiting.popleft()",
        "Each answer is paired with the oldest request, whatever its correlation id.",
        "tests/connection/test_pairing.py::test_wrong_correlation_id_ends_the_connection",
    ),
    _mutant(
        "gate-open-during-an-exchange",
        "_net/connecting/conversing.py",
        "            self._connection.gate.hold()\n",
        "",
        "A Produce request leaves in the middle of a re-authentication: the broker closes the connection.",
        f"{_CONVERSING}::test_requests_in_flight_come_first_and_new_ones_wait",
    ),
    _mutant(
        "questions-pass-the-gate",
        "_net/connecting/connection/gate.py",
        "            while not self.has_ended and (self.is_held or self.session_is_over()):\n",
        "            while False:\n",
        "A request for metadata leaves in the middle of a re-authentication: the broker closes the connection.",
        f"{_CONVERSING}::test_requests_in_flight_come_first_and_new_ones_wait",
    ),
    _mutant(
        "connection-used-on-after-half-an-exchange",
        "_net/connecting/conversing.py",
        "        if not self._has_asked:\n            return\n",
        "        return\n",
        "A cancelled re-authentication leaves a connection whose broker waits for the rest of it.",
        f"{_CONVERSING}::test_cancelling_in_the_middle_ends_the_connection",
    ),
    _mutant(
        "half-close-ignored",
        "_net/connecting/connection/connection.py",
        "        self._left(None)\n        return False",
        "        return True",
        "A peer closes its side, and the client waits for it until the request times out.",
        "tests/connection/test_dialing.py::test_broker_that_hangs_up_is_told_apart",
    ),
    _mutant(
        "sent-before-it-is-compressed",
        "_core/ordinary_opening.pxi",
        "node_id == NO_LEADER or batch.sealing or (",
        "node_id == NO_LEADER or (",
        "A batch is sent while a thread compresses it.",
        "tests/net/producing/test_compressing.py::test_small_and_large_batches_keep_their_order",
    ),
    _mutant(
        "key-hash-with-its-sign",
        "_core/accept.pyx",
        "(murmur2_of(key.data, key.size) & 0x7fffffff) % <unsigned int>len(",
        "murmur2_of(key.data, key.size) % <unsigned int>len(",
        "Keys with a negative murmur2 go to other partitions than with the Java client.",
        _KEYED_SENDS,
    ),
    _mutant(
        "empty-key-taken-for-none",
        "_core/accept.pyx",
        "if key.size >= 0 and not topic.ignore_keys:",
        "if key.size > 0 and not topic.ignore_keys:",
        "An empty key is taken for no key (as librdkafka's consistent_random does).",
        _KEYED_SENDS,
    ),
    _mutant(
        "hash-of-decoded-tuples-is-always-zero",
        "_core/messages.h",
        "    made->ob_hash = -1;",
        "    made->ob_hash = 0;",
        "Tuples that the codec makes have the hash 0: sets and dictionaries do not find equal ones.",
        "tests/wire/test_codec.py::test_what_is_decoded_has_the_hash_of_what_it_equals",
        since="3.14",
    ),
    _mutant(
        "null-array-taken-for-a-view",
        "_core/messages_build.pxi",
        "mark.cost > max(0, opening.budget[0]):",
        "mark.cost > opening.budget[0]:",
        "A null array after large ones is decoded as a view of the length -1.",
        "tests/wire/test_array_view.py::test_null_is_no_view_however_little_of_the_budget_is_left",
    ),
)

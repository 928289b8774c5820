"""The mutants of leftovers: state of brokers, topics and addresses that is kept after its use."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Kind

_EVERYTHING_ENDS: Final = "tests/simulation/lives/test_everything_ends.py"

_mutant = Kind("memory")

ENDS: Final = (
    _mutant(
        "compression-ratios-kept-for-ever",
        "_state/batching/cluster_queues.py",
        "            self.accumulator.ratios.forget(name)\n",
        "",
        "The compression ratio of a topic is kept when the topic is not used any more.",
        _EVERYTHING_ENDS,
    ),
    _mutant(
        "bug-at-an-alarm-is-lost",
        "_net/runtime/timekeeper.py",
        "            self.engine.crash(bug)\n            if not isinstance(bug, Exception):\n                raise\n            return False\n",
        "            return True\n",
        "After an error in the work of an alarm no deadline passes any more.",
        "tests/net/runtime/test_end_of_the_supervisor.py",
    ),
    _mutant(
        "brokers-kept-for-ever",
        "_net/runtime/timekeeper.py",
        "            engine.brokers.forget_unused(now)\n",
        "",
        "Each broker that was ever known keeps a task and a share of the memory, though it has left the cluster.",
        _EVERYTHING_ENDS,
    ),
    _mutant(
        "addresses-kept-for-ever",
        "_net/connecting/addresses.py",
        "                del self._known[place]\n",
        "                pass\n",
        "Each address that was ever connected to is remembered.",
        _EVERYTHING_ENDS,
    ),
    _mutant(
        "former-brokers-kept-for-ever",
        "_state/cluster/brokers.py",
        "            past = [(id_, node) for id_, node in past if id_ in leading]\n",
        "",
        "Brokers that are not in the metadata and lead nothing are kept.",
        _EVERYTHING_ENDS,
    ),
    _mutant(
        "losses-of-each-topic-kept-for-ever",
        "_state/delivery/topic_counts.py",
        "        return topic if is_named else OTHER_TOPICS",
        "        return topic",
        "Each topic that ever lost a record keeps a counter under its name.",
        "tests/state/delivery/test_tally.py",
    ),
    _mutant(
        "former-brokers-count-as-alive",
        "_state/batching/cluster_queues.py",
        "        del self.nodes[node_id]\n        self.share_memory(self.dead - {node_id})",
        "        del self.nodes[node_id]",
        "A broker that has left the cluster counts as one that answers: silent brokers may hold only half of the memory.",
        "tests/state/batching/test_accumulator.py",
    ),
)

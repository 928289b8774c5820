"""The mutants of metadata: the client trusts brokers that lag behind."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Kind

_METADATA: Final = "tests/state/cluster/test_metadata.py"

_mutant = Kind("metadata")

METADATA: Final = (
    _mutant(
        "leader-epoch-goes-back",
        "_state/cluster/topic_reading.py",
        "if 0 <= epoch < self._epochs[index]:",
        "if False:",
        "A broker that lags behind brings the old leader back (KIP-320).",
        _METADATA,
    ),
    _mutant(
        "older-hint-is-believed",
        "_state/cluster/metadata.py",
        "            if hint.leader_epoch <= epochs[index]:",
        "            if hint.leader_epoch < -1:",
        "A leader hint (KIP-951) that waited for an answer wins over the newer answer.",
        "tests/state/cluster/test_late_hints.py",
    ),
    _mutant(
        "older-hint-changes-an-address",
        "_state/cluster/metadata.py",
        "        if hint.leader_epoch <= known.partitions.leader_epochs[hint.partition]:",
        "        if hint.leader_epoch < -1:",
        "A leader hint of an older epoch replaces the address of a broker.",
        _METADATA,
    ),
    _mutant(
        "hint-about-a-deleted-topic",
        "_state/cluster/metadata.py",
        "        if is_recreated(known, hint.topic_id):",
        "        if False:",
        "A leader hint about a deleted topic keeps all records from the leaders of the topic that has its name now.",
        "tests/state/cluster/test_late_hints.py",
    ),
    _mutant(
        "epoch-of-a-former-topic",
        "_state/cluster/metadata.py",
        "trusted = not interest.may_be_another_topic(now)",
        "trusted = not interest.vanished",
        "A topic that was created anew, on a cluster without topic ids, gets no record (KAFKA-12257).",
        _METADATA,
    ),
    _mutant(
        "older-epochs-though-the-id-is-the-same",
        "_state/cluster/topic_reading.py",
        "            if self.topic_id == NO_TOPIC_ID:\n                self.names_others |=",
        "            if True:\n                self.names_others |=",
        "Brokers that lag behind for three seconds bring the old leader of a topic with an id back.",
        _METADATA,
    ),
    _mutant(
        "partitions-of-a-former-topic",
        "_state/cluster/topic_reading.py",
        "            if trust_known:\n                self.names_others = True\n            else:",
        "            if False:",
        "A topic that was created anew with fewer partitions, on a cluster without topic ids, gets no record for the others.",
        _METADATA,
    ),
    _mutant(
        "older-epochs-though-the-leader-is-well",
        "_state/cluster/questions.py",
        "elif self.leader_failed and self.others_lead_since is None:",
        "elif self.others_lead_since is None:",
        "A broker that lags behind for three seconds brings the old leader back.",
        _METADATA,
    ),
    _mutant(
        "dead-leader-of-a-former-topic",
        "_net/producing/brokers.py",
        "        self.session.view.broker_failed(node_id)",
        "        pass",
        "A topic that was created anew gets no record while the leader of the former one is down.",
        "tests/simulation/lives/test_leaders_of_former_topics.py",
    ),
    _mutant(
        "hint-lost-under-a-question",
        "_state/cluster/metadata.py",
        "                    self._hints.append(hint)",
        "                    pass",
        "An answer that was on its way undoes a newer leader hint.",
        _METADATA,
    ),
    _mutant(
        "deleted-topic-comes-back",
        "_state/cluster/metadata.py",
        "elif interest.rejects(answer.topic_id, now):",
        "elif False:",
        "A broker that lags behind brings a deleted topic's id back.",
        _METADATA,
    ),
    _mutant(
        "leader-without-an-address",
        "_state/cluster/topic_reading.py",
        "if leader >= 0 and leader not in self._brokers:",
        "if False:",
        "A leader that is not among the brokers is adopted, and its records wait for an address that never comes.",
        _METADATA,
    ),
    _mutant(
        "partition-listed-twice",
        "_state/cluster/topic_reading.py",
        "        elif self._listed[index]:",
        "        elif False:",
        "A partition that one answer lists twice gets the leader that is listed last.",
        _METADATA,
    ),
    _mutant(
        "broker-looked-for-where-it-was",
        "_net/producing/sender.py",
        "self.addresses.lead_to(connection, endpoint)",
        "pass",
        "A broker has moved to another address, and its records go to the program that listens at the old one (D12).",
        "tests/scenarios/test_d_cluster.py::test_d12_two_brokers_swap_their_addresses",
    ),
    _mutant(
        "short-troubles-of-coordinators-are-told",
        "_net/observing/condition.py",
        "COORDINATOR_IS_SLOW = 1.0\n",
        "COORDINATOR_IS_SLOW = 0.0\n",
        "health() has a problem while a transaction waits a moment for the end of the last one.",
        "tests/simulation/observing/test_coordinators.py",
    ),
    _mutant(
        "troubles-of-coordinators-do-not-end",
        "_net/transactions/coordinator.py",
        "            self.troubled_since = None\n\n    async def _settle",
        "            pass\n\n    async def _settle",
        "health() names a coordinator for ever whose request was given up by an abort.",
        "tests/simulation/observing/test_coordinators.py",
    ),
    _mutant(
        "partitions-without-a-leader-are-no-problem",
        "_net/observing/condition.py",
        "if queue.node is nowhere and queue.queue\n",
        "if queue.node is nowhere and not queue.queue\n",
        "Records wait for a partition without a leader, and the producer tells no reason.",
        "tests/api/lifecycle/test_readiness.py::test_partitions_without_a_leader",
    ),
)

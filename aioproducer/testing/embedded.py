"""The public interface of the embedded Kafka: start, topics, written records, faults."""

from __future__ import annotations

import ssl
import time
from collections.abc import Callable, Iterable, Mapping, MutableMapping, Sequence
from types import TracebackType
from typing import Any, Final, Literal, Self, get_args

import attrs

from aioproducer.testing.broker.authentication.mechanisms import MECHANISMS
from aioproducer.testing.broker.authentication.session import Authentication
from aioproducer.testing.broker.authentication.users import Users
from aioproducer.testing.broker.authorization import Allow
from aioproducer.testing.broker.broker import Broker
from aioproducer.testing.broker.cluster.cluster import Cluster, Node, system_time
from aioproducer.testing.broker.cluster.telemetry import DEFAULT_INTERVAL_MS, Push
from aioproducer.testing.broker.cluster.topics import Partition
from aioproducer.testing.broker.faults import FaultRules, Faults
from aioproducer.testing.broker.history import SeenRequest
from aioproducer.testing.broker.logs.batches import CONTROL, read_header
from aioproducer.testing.broker.logs.records import StoredRecord, parse_batch
from aioproducer.testing.broker.options import MOST_PARTITIONS, Options, check_whole
from aioproducer.testing.broker.server import Sockets

Isolation = Literal["read_committed", "read_uncommitted"]
ISOLATIONS: tuple[str, ...] = get_args(Isolation)
_HOST: Final = "127.0.0.1"
MOST_BROKERS: Final = 1000
LAST_PORT: Final = 65535


@attrs.frozen
class BrokerView:
    """One broker of an `EmbeddedKafka`."""

    _node: Node
    _sockets: Sockets

    @property
    def id(self) -> int:
        """Its broker id; ids begin with 1."""
        return self._node.id

    @property
    def address(self) -> str:
        """Its address, `host:port`."""
        return f"{self._node.host}:{self._node.port}"

    @property
    def port(self) -> int:
        """Its port; a stopped broker keeps it."""
        return self._node.port

    @property
    def up(self) -> bool:
        """Whether the broker runs."""
        return self._node.up

    @property
    def connections(self) -> int:
        """The number of open connections."""
        return len(self._sockets.connections(self._node.id))


@attrs.frozen
class TransactionView:
    """The state of a transactional id at its coordinator."""

    state: str
    """Kafka's name of the state: Empty, Ongoing, PrepareCommit, PrepareAbort, CompleteCommit, CompleteAbort."""
    producer_id: int
    producer_epoch: int
    partitions: tuple[tuple[str, int], ...]
    """The partitions of the open transaction; offsets of groups are in "__consumer_offsets"."""


class EmbeddedKafka:
    """A Kafka cluster inside this process, on loopback, for tests and demonstrations.

    `async with EmbeddedKafka() as kafka:` and connect any Kafka client to `kafka.bootstrap_servers`. Everything is in
    memory only. It runs in the event loop that started it: a client that blocks that loop waits
    forever. `options` are the fields of `aioproducer.testing.Options`, such as `auto_create_topics=False`.

    `port` is the port of the first broker, the others use the ports after it; 0 selects free ports. `clock` (seconds) and
    `wall_clock` (milliseconds) are for tests that advance time by hand.

    `tls` is the context of a TLS server, such as `aioproducer.testing.certificates().broker_context()`. `users` are names
    and passwords: with them, clients have to authenticate by one of `mechanisms`, by default by any of PLAIN,
    SCRAM-SHA-256, SCRAM-SHA-512 and OAUTHBEARER (with an `unsecured_token()`). A session ends after `session_lifetime`
    seconds, and with its token. Faults of the APIs SaslHandshake and SaslAuthenticate refuse, delay, change or cut an
    authentication. `acls` are the permissions by user, such as `{"alice": [Allow("WRITE", topic="orders")]}`: everything
    else is denied then.
    """

    def __init__(
        self,
        brokers: int = 1,
        *,
        port: int = 0,
        clock: Callable[[], float] | None = None,
        wall_clock: Callable[[], int] | None = None,
        tls: ssl.SSLContext | None = None,
        users: Mapping[str, str] | None = None,
        mechanisms: Sequence[str] = (),
        session_lifetime: float | None = None,
        acls: Mapping[str, Sequence[Allow]] | None = None,
        **options: Any,
    ) -> None:
        check_whole("brokers", brokers, 1, MOST_BROKERS)
        check_whole("port", port, 0, LAST_PORT - (brokers - 1))
        given = Options(**options)
        check_whole("default_partitions", given.default_partitions, 1, MOST_PARTITIONS)
        nodes = {number: Node(number, _HOST) for number in range(1, brokers + 1)}
        self._cluster = Cluster(given, nodes, clock or time.monotonic, wall_clock or system_time)
        self._first_port = port
        rules = FaultRules()
        self.users: MutableMapping[str, str] = dict(users or {})
        """The passwords of the users. A change counts for the next authentication; present sessions go on."""
        self.acls: MutableMapping[str, Sequence[Allow]] | None = None if acls is None else dict(acls)
        """The permissions of the users. A change counts for the next request."""
        demanded = self._authentication(users is not None, mechanisms, session_lifetime)
        if acls is not None and demanded is None:
            raise ValueError("acls has no effect without users or mechanisms")
        brokers_by_id = {
            number: Broker(self._cluster, node, rules, authentication=demanded, permissions=self.acls)
            for number, node in nodes.items()
        }
        self._sockets = Sockets(brokers_by_id, tls)
        self.faults = Faults(self._cluster, self._sockets, rules, has_tls=tls is not None)
        self.brokers = tuple(BrokerView(node, self._sockets) for node in nodes.values())
        self._running = False

    def _authentication(
        self, has_users: bool, mechanisms: Sequence[str], session_lifetime: float | None
    ) -> Authentication | None:
        if isinstance(mechanisms, str) or (unknown := [one for one in mechanisms if one not in MECHANISMS]):
            wrong = mechanisms if isinstance(mechanisms, str) else ", ".join(map(str, unknown))
            raise ValueError(f"mechanisms={wrong!r:.80}: must be a sequence of {', '.join(MECHANISMS)}")
        if session_lifetime is not None and not session_lifetime > 0:
            raise ValueError(
                f"session_lifetime={session_lifetime!r:.60}: must be a number of seconds above 0"
            )
        if not has_users and not mechanisms:
            if session_lifetime is not None:
                raise ValueError("session_lifetime has no effect without users or mechanisms")
            return None
        users = Users(self.users, lambda: self._cluster.wall_clock() / 1000)
        return Authentication(users, tuple(mechanisms or MECHANISMS), session_lifetime)

    # ----- life cycle

    async def start(self) -> None:
        """Listen. Afterwards the ports are known."""
        if self._running:
            raise RuntimeError(
                "this embedded Kafka is already running; create another one for a second cluster"
            )
        self._running = True
        try:
            for offset, broker in enumerate(self.brokers):
                await self._sockets.open(broker.id, self._first_port + offset if self._first_port else 0)
                self._cluster.broker_up(broker.id)
        except BaseException:
            await self.stop()
            raise

    async def stop(self) -> None:
        """End all connections and close the ports; a second call does nothing. The records can still be read."""
        if not self._running:
            return
        self._running = False
        self.faults.heal()
        await self._sockets.close_all()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    def __repr__(self) -> str:
        state = "running" if self._running else "stopped"
        return f"<EmbeddedKafka {state}, {len(self.brokers)} broker(s), {len(self._cluster.topics)} topic(s)>"

    @property
    def bootstrap_servers(self) -> str:
        """The addresses of all brokers, separated by commas, as producers take them."""
        return ",".join(broker.address for broker in self.brokers)

    # ----- topics

    def create_topic(
        self, name: str, partitions: int = 1, *, replication_factor: int | None = None, **configs: object
    ) -> str:
        """Create a topic, and return its name.

        `configs` are the topic's settings with underscores for dots: `message_timestamp_type="LogAppendTime"`.
        """
        _check_count(partitions)
        settings = {setting.replace("_", "."): str(value) for setting, value in configs.items()}
        return self._cluster.create_topic(name, partitions, replication_factor, settings).name

    def delete_topic(self, name: str) -> None:
        """Delete a topic and its records; a recreated topic has another topic id."""
        self._cluster.delete_topic(name)

    def add_partitions(self, name: str, total: int) -> None:
        """Let a topic have `total` partitions."""
        _check_count(total)
        self._cluster.add_partitions(name, total)

    @property
    def topics(self) -> dict[str, int]:
        """The topics with their number of partitions."""
        return {name: len(topic.partitions) for name, topic in self._cluster.topics.items()}

    def topic_id(self, name: str) -> bytes:
        """The 16 bytes that identify the topic."""
        return self._cluster.topic(name).id

    def leader_of(self, topic: str, partition: int = 0) -> int:
        """The broker that leads a partition, -1 for none."""
        return self._cluster.partition(topic, partition).leader

    def limit_version(self, api: str, low: int, high: int) -> None:
        """Support only these versions of an API from now on, like an older broker."""
        self._cluster.limit_version(api, low, high)

    def set_transaction_version(self, level: int) -> None:
        """Finalize another level of the feature `transaction.version` (1 or 2), like an upgrade or a downgrade."""
        if type(level) is not int or level not in (1, 2):
            raise ValueError(f"the level of transaction.version is 1 or 2, not {level!r:.60}")
        self._cluster.set_transaction_version(level)

    # ----- metrics of clients

    def subscribe_metrics(self, prefixes: Sequence[str], interval_ms: int = DEFAULT_INTERVAL_MS) -> None:
        """Ask clients for the metrics whose names begin so, at this interval; `["*"]` are all, `[]` none.

        It replaces the former subscription. Needs `EmbeddedKafka(telemetry=True)`.
        """
        if not self._cluster.options.telemetry:
            raise ValueError("clients are asked for metrics by EmbeddedKafka(telemetry=True) only")
        self._cluster.metrics.subscribe(prefixes, interval_ms)

    @property
    def pushes(self) -> tuple[Push, ...]:
        """The metrics that clients have pushed, oldest first."""
        return tuple(self._cluster.metrics.pushes)

    # ----- groups

    def set_group(
        self, group: str, generation: int, members: Iterable[str] | Mapping[str, str | None] = ()
    ) -> None:
        """Set the members and the generation of a group: transactional commits of other members are refused.

        Members are ids; a mapping gives the instance ids of static ones: `{"member-1": "instance-1"}`.
        """
        known = members if isinstance(members, Mapping) else dict.fromkeys(members)
        self._cluster.groups.set(group, generation, known)

    def coordinator_of(self, key: str) -> int:
        """The coordinator of a group or a transactional id, -1 if no broker is up."""
        node = self._cluster.coordinator(key)
        return node.id if node is not None else -1

    # ----- written records

    def records(
        self,
        topic: str,
        partition: int | None = None,
        isolation: Isolation = "read_committed",
    ) -> list[StoredRecord]:
        """The records of a topic, or of one partition, in the order of partitions and offsets.

        `read_committed`: what a consumer with that isolation level would see, so nothing of transactions that are open
        or were aborted, and nothing behind an open one; `read_uncommitted`: all that was written.
        """
        if isolation not in ISOLATIONS:
            raise ValueError(f"isolation={isolation!r:.60}: it must be one of {', '.join(ISOLATIONS)}")
        self._cluster.transactions.tick()
        partitions = (
            self._cluster.topic(topic).partitions
            if partition is None
            else [self._partition(topic, partition)]
        )
        return [
            record
            for one in partitions
            for batch in (one.log.committed() if isolation == "read_committed" else one.log.batches)
            if not read_header(batch.data).attributes & CONTROL
            for record in parse_batch(topic, one.index, batch.data)
            if record.offset >= one.log.start_offset
        ]

    def high_watermark(self, topic: str, partition: int = 0) -> int:
        """The offset of the next record of a partition; markers of transactions have offsets too."""
        self._cluster.transactions.tick()
        return self._partition(topic, partition).log.high_watermark

    def last_stable_offset(self, topic: str, partition: int = 0) -> int:
        """The last stable offset: the first record of an open transaction, or the end of the log."""
        self._cluster.transactions.tick()
        return self._partition(topic, partition).log.stable_offset

    def transaction(self, transactional_id: str) -> TransactionView | None:
        """The state of a transactional id; None if it was never used."""
        self._cluster.transactions.tick()
        known = self._cluster.transactions.get(transactional_id)
        if known is None:
            return None
        return TransactionView(known.state.value, known.producer_id, known.epoch, tuple(known.partitions))

    def committed_offset(self, group: str, topic: str, partition: int = 0) -> int | None:
        """The committed offset of a group."""
        self._cluster.transactions.tick()
        known = self._cluster.groups.get(group)
        noted = known.committed.get((topic, partition)) if known is not None else None
        return noted.offset if noted is not None else None

    @property
    def requests(self) -> tuple[SeenRequest, ...]:
        """The requests that the brokers received, oldest first; the newest `history` of them."""
        return tuple(self._cluster.requests)

    def forget_requests(self) -> None:
        """Clear the history."""
        self._cluster.requests.clear()

    def _partition(self, topic: str, index: int) -> Partition:
        return self._cluster.partition(topic, index)


def _check_count(partitions: object) -> None:
    """Refuse an invalid number of partitions, and a number that would use all memory."""
    if type(partitions) is not int or partitions > MOST_PARTITIONS:
        raise ValueError(f"partitions must be a whole number up to {MOST_PARTITIONS}")

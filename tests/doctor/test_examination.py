"""Examinations of the embedded Kafka with faults."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import pytest

from aioproducer import ConfigurationError, Producer, ProducerConfig, RecordError, StateError
from aioproducer._net.diagnosing import questions
from aioproducer._net.diagnosing.opening import Door
from aioproducer.doctor import Examination, Status, examine, refused
from aioproducer.testing import EmbeddedKafka
from tests import ports
from tests.doctor.support import LIMIT, advertise, bad, examined, of, one
from tests.net.support import until


@pytest.fixture
async def kafka() -> AsyncIterator[EmbeddedKafka]:
    """Three brokers with the topic `orders` of six partitions, which make no others by themselves."""
    async with EmbeddedKafka(brokers=3, auto_create_topics=False) as kafka:
        kafka.create_topic("orders", 6, replication_factor=3, min_insync_replicas=2)
        yield kafka


async def test_a_cluster_without_a_problem(kafka: EmbeddedKafka) -> None:
    """Each check is there, in the order of the ids, and fine; nothing was written or created."""
    report = await examined(kafka.bootstrap_servers, "orders", transactional_id="shop", strict=True)
    assert (report.exit_code, bad(report)) == (0, {})
    kinds = list(dict.fromkeys(check.id for check in report.checks))
    assert kinds == [
        "config", "dns", "tcp", "protocol", "cluster", "brokers", "clock", "idempotence", "transactions", "topic", "telemetry",
    ]  # fmt: skip
    assert [check.target for check in of(report, "brokers")] == [
        f"{broker.id} {broker.address}" for broker in kafka.brokers
    ]
    assert kafka.topics == {"orders": 6}
    assert kafka.records("orders") == []
    assert kafka.transaction("shop") is None
    assert "Produce" not in {request.api for request in kafka.requests}
    assert all(
        request.transactional_id is None for request in kafka.requests if request.api == "InitProducerId"
    )


async def test_the_report_in_json(kafka: EmbeddedKafka) -> None:
    """Plain types, version 1, and every field of every check."""
    report = await examined(kafka.bootstrap_servers, "orders")
    told = json.loads(json.dumps(report.as_dict()))
    assert (told["version"], told["ok"], told["seconds"] > 0) == (1, True, True)
    names = {"id", "target", "status", "summary", "detail", "advice", "seconds"}
    assert {frozenset(check) for check in told["checks"]} == {frozenset(names)}
    assert {check["status"] for check in told["checks"]} == {"ok"}


async def test_an_advertised_address_that_is_refused(kafka: EmbeddedKafka) -> None:
    """The broker fails, and the partitions that it leads; the others are examined all the same."""
    with ports.unused_port() as port:
        advertise(kafka, 3, "localhost", port)
        report = await examined(kafka.bootstrap_servers, "orders")
    assert report.exit_code == 1
    broker = of(report, "brokers")[2]
    assert (broker.status, broker.target) == (Status.FAIL, f"3 localhost:{port}")
    assert broker.summary == "connection refused"
    assert "Nothing listens there" in (broker.advice or "")
    led, whole = of(report, "topic")
    assert (led.status, whole.status) == (Status.FAIL, Status.OK)
    assert led.summary == "partitions 2 and 5 are led by broker 3, which cannot be reached"
    assert led.advice == (
        "See the advice for broker 3: records of these partitions fail after delivery.timeout.ms."
    )
    assert set(bad(report)) == {"brokers", "topic"}
    assert one(report, "idempotence").status is Status.OK


async def test_an_advertised_name_that_only_the_brokers_know(kafka: EmbeddedKafka) -> None:
    """The name that cannot be resolved is in the advice."""
    advertise(kafka, 2, "kafka-2.invalid")
    report = await examined(kafka.bootstrap_servers)
    broker = of(report, "brokers")[1]
    assert broker.summary.startswith("the name cannot be resolved: ")
    assert '"kafka-2.invalid", a name that is not known to this machine' in (broker.advice or "")


async def test_the_address_of_all_interfaces(kafka: EmbeddedKafka) -> None:
    """The advice differs from that for a port without a listener."""
    with ports.unused_port() as port:
        advertise(kafka, 2, "0.0.0.0", port)
        report = await examined(kafka.bootstrap_servers)
    assert "0.0.0.0 belongs into listeners only" in (of(report, "brokers")[1].advice or "")


async def test_an_address_that_leads_to_another_broker(kafka: EmbeddedKafka) -> None:
    """A port that is mapped to the wrong broker is found, though Kafka answers there."""
    advertise(kafka, 3, "127.0.0.1", kafka.brokers[0].port)
    report = await examined(kafka.bootstrap_servers)
    assert "it leads to another broker than 3" in of(report, "brokers")[2].summary


async def test_an_address_that_leads_to_another_cluster(kafka: EmbeddedKafka) -> None:
    """The cluster ids differ."""
    async with EmbeddedKafka(seed=1) as other:
        advertise(kafka, 1, "127.0.0.1", other.brokers[0].port)
        report = await examined(kafka.bootstrap_servers)
    assert "it leads to another cluster" in of(report, "brokers")[0].summary


async def test_bootstrap_servers_of_two_clusters(kafka: EmbeddedKafka) -> None:
    """The check of the cluster fails."""
    async with EmbeddedKafka(seed=1) as other:
        report = await examined(f"{kafka.bootstrap_servers},{other.bootstrap_servers}")
    assert "2 clusters" in one(report, "cluster").summary


async def test_names_and_ports(kafka: EmbeddedKafka) -> None:
    """A name without an address is a warning beside another one; a refused port fails; what works is examined."""
    with ports.unused_port() as port:
        report = await examined(f"{kafka.brokers[0].address},localhost:{port},kafka.invalid:9092")
    assert [(check.target, check.status) for check in of(report, "dns")] == [
        ("127.0.0.1", Status.OK),
        ("localhost", Status.OK),
        ("kafka.invalid", Status.WARN),
    ]
    refused_port = next(check for check in of(report, "tcp") if str(check.target).endswith(f":{port}"))
    assert (refused_port.status, refused_port.summary) == (Status.FAIL, "connection refused")
    assert one(report, "cluster").status is Status.OK


async def test_nothing_can_be_reached() -> None:
    """Checks that need a connection are skipped."""
    report = await examined("kafka.invalid:9092", "orders", probe=True, transactional_id="shop")
    assert {check.id: check.status for check in report.checks if check.id != "config"} == {
        "dns": Status.FAIL,
        **dict.fromkeys(
            ("cluster", "brokers", "clock", "idempotence", "transactions", "topic", "probe", "telemetry"),
            Status.SKIP,
        ),
    }
    assert report.exit_code == 1


async def test_a_topic_below_its_minimum(kafka: EmbeddedKafka) -> None:
    """Below is a failure, at the minimum is a warning, which counts with `strict`."""
    kafka.faults.shrink_isr("orders", 0, 1, 2)
    report = await examined(kafka.bootstrap_servers, "orders")
    assert set(bad(report)) == {"topic"}
    warned, whole = of(report, "topic")
    assert (warned.status, whole.status) == (Status.WARN, Status.OK)
    assert warned.summary == (
        "partition 0: 2 of 3 replicas in sync; min.insync.replicas is 2: one more failure stops writes"
    )
    assert warned.advice == "Bring the missing replicas back: look at broker 3."
    assert report.exit_code == 0
    strict = await examined(kafka.bootstrap_servers, "orders", strict=True)
    assert (strict.exit_code, strict.ok) == (1, False)
    kafka.faults.shrink_isr("orders", 0, 1)
    report = await examined(kafka.bootstrap_servers, "orders")
    failed = of(report, "topic")[0]
    assert (failed.status, "writes with acks=all are refused" in failed.summary) == (Status.FAIL, True)
    assert failed.advice == "Bring the missing replicas back: look at brokers 2 and 3."


@pytest.mark.parametrize("creates", [True, False])
async def test_a_missing_topic(*, creates: bool) -> None:
    """The brokers' setting tells whether it would be created; the examination does not create it."""
    async with EmbeddedKafka(brokers=2, auto_create_topics=creates) as kafka:
        report = await examined(kafka.brokers[1].address, "nope")
        assert kafka.topics == {}
    assert one(report, "topic").detail["would_be_created"] is creates


async def test_a_probe(kafka: EmbeddedKafka) -> None:
    """One record for each topic, with the value and the header; a compacted topic gets a key."""
    kafka.create_topic("facts", cleanup_policy="compact")
    report = await examined(kafka.bootstrap_servers, "orders", "facts", probe=True)
    assert bad(report) == {}
    [order], [fact] = kafka.records("orders"), kafka.records("facts")
    assert (order.value, order.key) == (b"aioproducer doctor", None)
    assert [name for name, _ in order.headers] == ["aioproducer.doctor"]
    assert fact.key is not None
    first = of(report, "probe")[0]
    assert (first.detail["partition"], first.detail["offset"]) == (order.partition, order.offset)


async def test_a_probe_that_fails(kafka: EmbeddedKafka) -> None:
    """The error has its outcome; a topic that cannot be written to is not tried."""
    kafka.faults.error("TOPIC_AUTHORIZATION_FAILED", api="Produce", times=None)
    report = await examined(kafka.bootstrap_servers, "orders", "nope", probe=True)
    failed, skipped = of(report, "probe")
    assert (failed.status, failed.detail["outcome"]) == (Status.FAIL, "NOT_WRITTEN")
    assert (skipped.status, skipped.target) == (Status.SKIP, "nope")


async def test_a_probe_of_a_transactional_producer(kafka: EmbeddedKafka) -> None:
    """Its transactional id is looked up, and never initialized: the owner goes on."""
    async with Producer(kafka.bootstrap_servers, transactional_id="shop") as owner:
        async with owner.transaction():
            await owner.send_and_wait("orders", b"1")
            report = await examined(kafka.bootstrap_servers, "orders", transactional_id="shop", probe=True)
        assert kafka.transaction("shop") is not None
    check = one(report, "transactions")
    assert (check.status, check.detail["state"]) == (Status.WARN, "Ongoing")
    config = ProducerConfig(kafka.bootstrap_servers, transactional_id="shop", transaction_timeout_ms=5000)
    report = await examine(config, ["orders"], probe=True, timeout=LIMIT)
    assert one(report, "transactions").detail["state"] == "CompleteCommit"
    assert (one(report, "idempotence").status, one(report, "probe").status) == (Status.SKIP, Status.OK)


async def test_a_throttled_probe(kafka: EmbeddedKafka) -> None:
    """A pause that the broker asks for is a warning."""
    kafka.faults.throttle(100, api="Produce", times=None)
    report = await examined(kafka.bootstrap_servers, "orders", probe=True)
    check = one(report, "probe")
    assert (check.status, "throttled for" in check.summary) == (Status.WARN, True)
    assert "raise its quota" in (check.advice or "")
    assert check.detail["throttled_ms"] > 0


async def test_producer_ids_that_are_refused(kafka: EmbeddedKafka) -> None:
    """The ACL is named; without idempotence the check is skipped."""
    kafka.faults.error("CLUSTER_AUTHORIZATION_FAILED", api="InitProducerId", times=None)
    report = await examined(kafka.bootstrap_servers)
    assert "IDEMPOTENT_WRITE" in (one(report, "idempotence").advice or "")
    report = await examined(kafka.bootstrap_servers, enable_idempotence=False)
    assert one(report, "idempotence").status is Status.SKIP


async def test_brokers_without_producer_ids(kafka: EmbeddedKafka) -> None:
    """The setting that does without them is named."""

    def without(answer: Any) -> Any:
        return answer._replace(api_keys=[each for each in answer.api_keys if each.api_key != 22])

    kafka.faults.alter(without, api="ApiVersions", times=None)
    report = await examined(kafka.bootstrap_servers)
    check = one(report, "idempotence")
    assert (check.status, check.summary) == (Status.FAIL, "the brokers give no producer ids")
    assert check.advice == "Set enable.idempotence=false, or use brokers from Kafka 0.11 on."
    protocols = of(report, "protocol")
    assert {check.status for check in protocols} == {Status.WARN}
    assert "without producer ids" in protocols[0].summary


@pytest.mark.parametrize(("ahead", "status"), [(0, "ok"), (-60, "warn"), (3600, "fail")])
async def test_the_clock_of_the_controller(ahead: float, status: str) -> None:
    """The finding has the difference of the clocks."""
    async with EmbeddedKafka(wall_clock=lambda: int((time.time() + ahead) * 1000)) as kafka:
        check = one(await examined(kafka.bootstrap_servers), "clock")
    assert check.status == status
    assert check.detail["offset_seconds"] == pytest.approx(-ahead, abs=2)


async def test_a_clock_that_is_set_during_the_question(monkeypatch: pytest.MonkeyPatch) -> None:
    """It goes back by a minute before the answer: the difference is that of the new time, and no duration is negative."""
    back = 0.0

    def set_it(answer: Any) -> Any:
        nonlocal back
        back = 60.0
        return answer

    now = time.time
    monkeypatch.setattr(questions, "time", SimpleNamespace(time=lambda: now() - back))
    async with EmbeddedKafka() as kafka:
        kafka.faults.alter(set_it, api="DescribeQuorum")
        report = await examined(kafka.bootstrap_servers)
    check = one(report, "clock")
    assert check.detail["offset_seconds"] == pytest.approx(-60, abs=2)
    assert check.detail["margin_seconds"] >= 0
    assert check.seconds >= 0


async def test_an_older_cluster(kafka: EmbeddedKafka) -> None:
    """Missing features are a warning; a check that needs a newer broker is skipped."""
    kafka.limit_version("Produce", 3, 9)
    kafka.limit_version("DescribeQuorum", 0, 0)
    kafka.limit_version("FindCoordinator", 0, 3)
    report = await examined(kafka.bootstrap_servers, transactional_id="shop")
    protocol = of(report, "protocol")[0]
    assert protocol.status is Status.WARN
    assert "without the next leader in answers, topic ids" in protocol.summary
    assert "Kafka 3.7" in (protocol.advice or "")
    assert (one(report, "clock").status, one(report, "transactions").status) == (Status.SKIP, Status.OK)


async def test_a_broker_that_is_too_old(kafka: EmbeddedKafka) -> None:
    """The finding has both ranges."""
    kafka.limit_version("Produce", 0, 2)
    report = await examined(kafka.brokers[0].address)
    assert "this client needs v3-v13" in one(report, "protocol").summary


async def test_a_cluster_that_stops_answering(kafka: EmbeddedKafka) -> None:
    """Every wait has a limit: the examination ends, with the checks made before."""
    kafka.faults.silence(api="Metadata", times=None)
    began = asyncio.get_running_loop().time()
    report = await examined(kafka.bootstrap_servers, "orders", timeout=0.5)
    assert asyncio.get_running_loop().time() - began < 6 * 0.5
    check = one(report, "cluster")
    assert check.status is Status.FAIL
    assert check.summary == (
        "none of 3 bootstrap servers tells the cluster: request timed out "
        f"(broker {kafka.brokers[0].address}): TimeoutError: no answer within 0.5 s"
    )
    assert check.advice == (
        "Look at the logs of the bootstrap servers: they were reached, and did not answer."
    )
    assert {check.status for check in of(report, "protocol")} == {Status.OK}


async def test_many_brokers_are_examined_at_most_20_at_once(
    kafka: EmbeddedKafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Silent addresses do not use up the time of the others, and those that were not reached in time are skipped."""
    # A busy machine has accepted 20 connections, and the broker has answered, within this time.
    timeout = 1.5
    open_, running, most = Door.open, 0, 0

    async def counted(*arguments: Any) -> Any:
        nonlocal running, most
        running += 1
        most = max(most, running)
        try:
            return await open_(*arguments)
        finally:
            running -= 1

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    monkeypatch.setattr(Door, "open", counted)
    silent = await asyncio.start_server(accept, "127.0.0.1", 0)
    port = silent.sockets[0].getsockname()[1]

    def crowd(answer: Any) -> Any:
        first = answer.brokers[0]
        many = [first._replace(node_id=number, host="127.0.0.1", port=port) for number in range(10, 210)]
        return answer._replace(brokers=[first, *many])

    kafka.faults.alter(crowd, api="Metadata", times=None)
    began = asyncio.get_running_loop().time()
    async with silent:
        report = await examined(kafka.brokers[0].address, timeout=timeout)
    assert asyncio.get_running_loop().time() - began < 6 * timeout
    assert (len(of(report, "brokers")), most) == (201, 20)
    assert of(report, "brokers")[0].status is Status.OK
    assert {check.status for check in of(report, "brokers")[1:]} == {Status.FAIL}


async def test_an_examination_that_is_cancelled(kafka: EmbeddedKafka) -> None:
    """Finished checks can be reported; the others are skipped, and the report is not ok."""
    kafka.faults.silence(api="InitProducerId", times=None)
    examination = Examination(ProducerConfig(kafka.bootstrap_servers), timeout=60)
    task = asyncio.create_task(examination.run())
    await until(lambda: any(request.api == "InitProducerId" for request in kafka.requests))
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    report = examination.report
    assert (one(report, "idempotence").summary, report.finished, report.ok) == ("not finished", False, False)
    assert one(report, "cluster").status is Status.OK


async def test_an_examination_runs_once(kafka: EmbeddedKafka) -> None:
    """A second run would mix its checks with those of the first."""
    examination = Examination(ProducerConfig(kafka.bootstrap_servers), timeout=LIMIT)
    first = await examination.run()
    with pytest.raises(StateError):
        await examination.run()
    assert examination.report.checks == first.checks


async def test_hostile_names(kafka: EmbeddedKafka) -> None:
    """Text of a broker is escaped before it reaches a terminal."""
    advertise(kafka, 1, "\x1b[31mred\x07")
    report = await examined(kafka.bootstrap_servers)
    texts = [f"{check.target} {check.summary} {check.advice}" for check in report.checks]
    assert all(text.isprintable() for text in texts)


async def test_no_connection_is_left(kafka: EmbeddedKafka) -> None:
    """All connections are closed at the end, also those of two names for one address."""
    servers = f"{kafka.bootstrap_servers},localhost:{kafka.brokers[0].port}"
    report = await examined(servers, "orders", transactional_id="shop", probe=True)
    assert bad(report) == {}
    await until(lambda: not any(broker.connections for broker in kafka.brokers))


async def test_wrong_arguments() -> None:
    """They are refused before anything is dialed."""
    with pytest.raises(ConfigurationError):
        Examination({"bootstrap.servers": "localhost:9092"})  # type: ignore[arg-type]
    config = ProducerConfig("localhost:9092")
    with pytest.raises(RecordError):
        Examination(config, ["a b"])
    with pytest.raises(ConfigurationError):
        Examination(config, transactional_id="")
    with pytest.raises(ConfigurationError):
        Examination(config, timeout=0)


def test_a_refused_configuration() -> None:
    """Each problem is a check, and the exit code is that of a configuration."""
    with pytest.raises(ConfigurationError) as caught:
        ProducerConfig("localhost:9092", acks=7, foo=3)  # type: ignore[arg-type, call-arg]
    report = refused(caught.value)
    assert [check.id for check in report.checks] == ["config", "config"]
    assert (report.exit_code, report.ok) == (2, False)


@pytest.mark.parametrize("api", ["ApiVersions", "Metadata"])
async def test_steps_that_run_out_of_time_have_failed(kafka: EmbeddedKafka, api: str) -> None:
    """Nothing that was not examined for want of time lets an examination end well."""
    kafka.faults.delay(1.0, api=api, times=None)
    report = await examined(kafka.bootstrap_servers, "orders", probe=True, timeout=1.0)
    assert (report.ok, report.exit_code) == (False, 1)
    failed = [check for check in report.checks if check.status is Status.FAIL]
    assert {check.id for check in failed} <= {"protocol", "cluster", "brokers", "topic", "probe"}
    assert failed
    assert all(check.advice for check in failed)


async def test_the_whole_time_is_over(kafka: EmbeddedKafka) -> None:
    """An examination that its time limit ended is not finished."""
    kafka.faults.silence(times=None)
    report = await examined(kafka.bootstrap_servers, "orders", probe=True, timeout=0.01)
    assert (report.ok, report.exit_code) == (False, 1)


async def test_probes_of_many_topics(kafka: EmbeddedKafka) -> None:
    """At most 20 producers at once: the probes do not slow each other down."""
    topics = [f"topic-{number}" for number in range(60)]
    for topic in topics:
        kafka.create_topic(topic, 1)
    most = 0

    async def watch() -> None:
        nonlocal most
        while True:
            most = max(most, *(broker.connections for broker in kafka.brokers))
            await asyncio.sleep(0)

    watching = asyncio.create_task(watch())
    report = await examined(kafka.bootstrap_servers, *topics, probe=True)
    watching.cancel()
    assert {check.status for check in of(report, "probe")} <= {Status.OK, Status.WARN}
    assert len(of(report, "probe")) == sum(len(kafka.records(topic)) for topic in topics) == 60
    # Of each producer one for metadata and one for records, and those of the examination itself.
    assert most <= 20 * 2 + 10


async def test_a_broker_without_producer_ids_and_a_producer_that_wants_none(kafka: EmbeddedKafka) -> None:
    """A setting that is there already is no advice."""

    def without(answer: Any) -> Any:
        return answer._replace(api_keys=[each for each in answer.api_keys if each.api_key != 22])

    kafka.faults.alter(without, api="ApiVersions", times=None)
    report = await examined(kafka.bootstrap_servers, "orders", enable_idempotence=False)
    assert {check.status for check in of(report, "protocol")} == {Status.OK}
    assert one(report, "idempotence").status is Status.SKIP
    assert bad(report) == {}


@pytest.mark.parametrize("api", ["DescribeQuorum", "InitProducerId", "FindCoordinator", "DescribeConfigs"])
async def test_one_question_without_an_answer(api: str) -> None:
    """It ends its own connection: the other steps are examined all the same."""
    steps = {
        "DescribeQuorum": "clock",
        "InitProducerId": "idempotence",
        "FindCoordinator": "transactions",
        "DescribeConfigs": "topic",
    }
    async with EmbeddedKafka() as kafka:
        kafka.create_topic("orders", 2)
        kafka.faults.silence(api=api, times=None)
        report = await examined(kafka.bootstrap_servers, "orders", transactional_id="shop", timeout=0.6)
    not_fine = {check.id for check in report.checks if check.status is not Status.OK}
    assert not_fine == {steps[api]}


async def test_settings_that_no_broker_tells(kafka: EmbeddedKafka) -> None:
    """The topic can be used: it is a warning, and the rest of it is examined."""
    kafka.faults.silence(api="DescribeConfigs", times=None)
    report = await examined(kafka.bootstrap_servers, "orders", probe=True, timeout=0.6)
    unknown, whole = of(report, "topic")
    assert (unknown.status, whole.status) == (Status.WARN, Status.OK)
    assert unknown.summary.startswith("its settings are not known: ")
    assert unknown.advice == (
        "Examine again, with a longer --timeout: min.insync.replicas and max.message.bytes were not examined."
    )
    assert whole.summary == "6 partitions × 3 replicas, writable"  # noqa: RUF001
    assert one(report, "probe").status is Status.OK


async def test_a_missing_topic_beside_settings_that_no_broker_tells(kafka: EmbeddedKafka) -> None:
    """It is missing, and not out of time."""
    kafka.faults.silence(api="DescribeConfigs", times=None)
    check = one(await examined(kafka.bootstrap_servers, "nope", timeout=0.6), "topic")
    assert (check.status, check.detail["would_be_created"]) == (Status.FAIL, None)
    assert check.summary == "it does not exist; whether the first record would create it is not known"
    assert (
        check.advice == "Check the name, or create the topic with the partitions and replicas that it needs."
    )


async def test_a_topic_that_the_answer_does_not_have(kafka: EmbeddedKafka) -> None:
    """It was examined in time, and no broker described it."""
    kafka.faults.alter(lambda answer: answer._replace(topics=[]), api="Metadata", times=None)
    check = one(await examined(kafka.bootstrap_servers, "orders"), "topic")
    assert (check.status, check.summary) == (Status.FAIL, "the brokers' answer does not have it")


async def test_an_answer_about_producer_ids_that_cannot_be_read(kafka: EmbeddedKafka) -> None:
    """The brokers have producer ids: to do without them is no advice."""
    kafka.faults.garbage(api="InitProducerId", times=None)
    check = one(await examined(kafka.bootstrap_servers), "idempotence")
    assert check.status is Status.FAIL
    assert "enable.idempotence" not in (check.advice or "")


async def test_a_probe_has_its_whole_time(kafka: EmbeddedKafka) -> None:
    """An acknowledgement in the second half of the limit is one."""
    kafka.faults.delay(0.7, api="Produce", times=1)
    report = await examined(kafka.bootstrap_servers, "orders", probe=True, timeout=1.0)
    check = one(report, "probe")
    assert (check.status, len(kafka.records("orders"))) == (Status.OK, 1)
    assert check.detail["network_ms"] >= 700


async def test_a_probe_without_an_answer(kafka: EmbeddedKafka) -> None:
    """The failure has a text, and the outcome."""
    kafka.faults.silence(api="Produce", times=None)
    check = one(await examined(kafka.bootstrap_servers, "orders", probe=True, timeout=0.6), "probe")
    assert (check.status, check.detail["outcome"]) == (Status.FAIL, "UNKNOWN")
    assert check.summary.startswith("no acknowledgement within the record's delivery timeout")
    assert "it may have been written" in check.summary


async def test_an_interrupted_examination_tells_its_time(kafka: EmbeddedKafka) -> None:
    """It counts until the interruption, and not until the last finished check."""
    kafka.faults.silence(api="InitProducerId", times=None)
    examination = Examination(ProducerConfig(kafka.bootstrap_servers), timeout=60)
    task = asyncio.create_task(examination.run())
    loop = asyncio.get_running_loop()
    await until(lambda: any(request.api == "InitProducerId" for request in kafka.requests))
    first = examination.report.seconds
    since = loop.time()
    await until(lambda: loop.time() - since > 0.05)
    task.cancel()
    assert examination.report.seconds >= first + 0.05
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_two_names_of_one_address(kafka: EmbeddedKafka) -> None:
    """It is examined once."""
    port = kafka.brokers[0].port
    report = await examined(f"127.0.0.1:{port},localhost:{port}")
    assert [check.target for check in of(report, "dns")] == ["127.0.0.1", "localhost"]
    assert [one(report, kind).target for kind in ("tcp", "protocol")] == [f"127.0.0.1:{port}"] * 2


async def test_one_of_two_bootstrap_servers_wants_sasl(kafka: EmbeddedKafka) -> None:
    """Each of them is asked; beside a server that tells the cluster it is a warning."""
    async with EmbeddedKafka(users={"alice": "canary-7"}, mechanisms=["PLAIN"]) as secured:
        check = one(await examined(f"{kafka.bootstrap_servers},{secured.bootstrap_servers}"), "cluster")
        assert check.status is Status.WARN
        place = secured.brokers[0].address
        assert f"{place} does not tell the cluster: the listener wants SASL; it offers PLAIN" in check.summary
        assert "Set security.protocol to SASL_PLAINTEXT" in (check.advice or "")
        kafka.faults.silence(api="Metadata", times=None)
        servers = f"{kafka.brokers[0].address},{secured.bootstrap_servers}"
        check = one(await examined(servers, timeout=0.6), "cluster")
    assert check.status is Status.FAIL
    assert f"{place}: the listener wants SASL; it offers PLAIN" in check.summary
    assert "Set security.protocol to SASL_PLAINTEXT" in (check.advice or "")


def test_each_problem_of_a_configuration_has_its_own_advice() -> None:
    """The values and the meaning of the setting; unknown names are to be corrected."""
    with pytest.raises(ConfigurationError) as caught:
        ProducerConfig("localhost:9092", acks=7, linger_ms=-1, foo_x=3)  # type: ignore[arg-type, call-arg]
    advice = {check.summary.partition(":")[0]: check.advice or "" for check in refused(caught.value).checks}
    assert set(advice) == {"acks=7", "linger_ms=-1", "foo_x"}
    assert advice["acks=7"].startswith("Values of acks: ")
    assert advice["linger_ms=-1"].startswith("Values of linger.ms: ")
    assert advice["foo_x"].startswith("Correct the name, or remove it.")
    with pytest.raises(ConfigurationError) as caught:
        Examination(ProducerConfig("localhost:9092"), transactional_id="")
    [check] = refused(caught.value).checks
    assert (check.advice or "").startswith("Correct it: see ")


async def test_a_probe_without_a_topic(kafka: EmbeddedKafka) -> None:
    """The check is skipped, with the reason: it is no failure."""
    report = await examined(kafka.bootstrap_servers, probe=True)
    check = one(report, "probe")
    assert (check.status, check.target, check.summary) == (Status.SKIP, None, "no topic was given")
    assert report.exit_code == 0


async def test_secrets_that_are_not_read_in_time() -> None:
    """The finding names what hangs, and not an empty error."""

    async def never() -> str:
        await asyncio.Event().wait()
        return ""

    check = one(
        await examined(
            "127.0.0.1:1",
            timeout=0.2,
            security_protocol="SASL_PLAINTEXT",
            sasl_mechanism="SCRAM-SHA-256",
            sasl_username="alice",
            sasl_password=never,
        ),
        "config",
    )
    assert check.summary == "the files and secrets of the settings were not read in time"
    assert "one of them hangs" in (check.advice or "")
